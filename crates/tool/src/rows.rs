//! The rows of a tool's table while the tool runs.
//!
//! Modelled: what the tool has printed so far, told when a row is done. The text told is the begin of the finished output, byte for byte.

use fabriscope_node::Record;

/// What there is to print: the bytes since the last time, and how far the tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said<'a> {
    /// What follows what was said before.
    pub text: &'a str,
    /// Rows that are done.
    pub done: usize,
    /// Rows that there will be.
    pub all: usize,
}

/// Who wants to know of rows as they are done.
pub type Listener = Box<dyn FnMut(Said<'_>) + Send>;

/// Where programs tell of rows, and a listener hears of them. Without a listener nothing is formatted. Clones are the same place.
#[derive(Clone, Default)]
pub struct Rows(Record<Heard>);

#[derive(Default)]
struct Heard {
    listener: Option<Listener>,
    said: usize,
}

impl Rows {
    /// From here on `listener` hears of every row.
    pub fn listen(&self, listener: Listener) {
        self.0.lock().listener = Some(listener);
    }
    /// So many rows are done, and all that is printed until then is `text`.
    pub fn tell(&self, (done, all): (usize, usize), text: impl FnOnce() -> String) {
        let heard = &mut *self.0.lock();
        let Some(listener) = &mut heard.listener else { return };
        let text = text();
        listener(Said { text: text.get(heard.said..).unwrap_or_default(), done, all });
        heard.said = text.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_hears_what_is_new() {
        let (rows, heard) = (Rows::default(), Record::<Vec<(String, usize, usize)>>::default());
        rows.tell((0, 2), || unreachable!("nobody listens"));
        let note = heard.clone();
        rows.listen(Box::new(move |said| note.lock().push((said.text.to_owned(), said.done, said.all))));
        rows.tell((0, 2), || "# size\n".to_owned());
        rows.clone().tell((1, 2), || "# size\n1\n".to_owned());
        rows.tell((2, 2), || "# size\n1\n2\n".to_owned());
        let expected = [("# size\n", 0, 2), ("1\n", 1, 2), ("2\n", 2, 2)];
        assert_eq!(heard.take(), expected.map(|(text, done, all)| (text.to_owned(), done, all)));
    }
}
