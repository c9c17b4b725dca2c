//! Words of a program that travel with its messages.
//!
//! They ride in the last packet of the message: the adapter carries them and does not read them. A packet that is lost loses its words, one that is repeated repeats them, and a message that is
//! delivered once says them once.
//!
//! Modelled: words of a SEND or WRITE with its completion at the receiver; those of a WRITE without immediate data behind the watch that counts
//! it. Not modelled: words on datagrams, raw packets and idempotent requests; READs and atomics have none.

pub use fabriscope_wire::AppWords;

/// Where words that arrived are kept until the program has read them, or [`WordsId::NONE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordsId(u32);

impl WordsId {
    /// Nothing was said.
    pub const NONE: WordsId = WordsId(u32::MAX);

    /// Whether nothing was said.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == u32::MAX
    }
}

/// Words that arrived at a NIC and were not read yet.
#[derive(Default)]
pub(crate) struct ArrivedWords {
    slots: Vec<Option<AppWords>>,
    free: Vec<u32>,
}

impl ArrivedWords {
    /// Keeps what a message said.
    pub(crate) fn keep(&mut self, words: AppWords) -> WordsId {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(words);
            return WordsId(index);
        }
        self.slots.push(Some(words));
        WordsId(u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 messages wait for their program"))
    }
    /// What was said, if it is still kept.
    pub(crate) fn at(&self, id: WordsId) -> Option<AppWords> {
        self.slots.get(id.0 as usize).copied().flatten()
    }
    /// The same, and it is no longer kept.
    pub(crate) fn take(&mut self, id: WordsId) -> Option<AppWords> {
        let words = self.slots.get_mut(id.0 as usize)?.take();
        if words.is_some() {
            self.free.push(id.0);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again() {
        let mut arrived = ArrivedWords::default();
        let [first, second] = [1, 2].map(|n| arrived.keep(AppWords([n; 4])));
        assert_eq!((arrived.take(first), arrived.take(first), arrived.at(first)), (Some(AppWords([1; 4])), None, None));
        let third = arrived.keep(AppWords([3; 4]));
        assert_eq!((third, arrived.at(second), arrived.at(third)), (first, Some(AppWords([2; 4])), Some(AppWords([3; 4]))));
        assert_eq!((arrived.at(WordsId::NONE), arrived.take(WordsId::NONE)), (None, None));
    }
}
