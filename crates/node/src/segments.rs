//! Memory that the programs of a node share, as ranks map segments of it.
//!
//! Source: POSIX.1-2017, `shm_open` and `mmap`.
//! Modelled: a segment is the same for all programs of a node that name its owner, such as a job; no other node gets at it.
//! Not modelled: its bytes, where it lies, and the time that making it takes.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The segments of a node.
#[derive(Default)]
pub struct Segments(RefCell<Vec<Segment>>);

struct Segment {
    /// Kept alive, so that no other owner ever has its address.
    owner: Arc<dyn Any>,
    memory: Rc<dyn Any>,
}

impl Segments {
    /// What `owner` keeps of this kind on this node; the first to ask makes it.
    pub fn of<O: Any, T: Any>(&self, owner: &Arc<O>, make: impl FnOnce() -> T) -> Rc<T> {
        let is_owners = |segment: &&Segment| std::ptr::addr_eq(Arc::as_ptr(&segment.owner), Arc::as_ptr(owner));
        let find = |all: &Vec<Segment>| all.iter().filter(is_owners).find_map(|segment| Rc::clone(&segment.memory).downcast().ok());
        if let Some(known) = find(&self.0.borrow()) {
            return known;
        }
        let memory = Rc::new(make());
        let (owner, kept) = (Arc::clone(owner) as Arc<dyn Any>, Rc::clone(&memory) as Rc<dyn Any>);
        self.0.borrow_mut().push(Segment { owner, memory: kept });
        memory
    }
}

impl fmt::Debug for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} segments", self.0.borrow().len())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn owners_and_nodes_have_segments_of_their_own() {
        let (here, there) = (Segments::default(), Segments::default());
        // Two owners with the same contents are two owners.
        let (one, other) = (Arc::new(7u32), Arc::new(7u32));
        here.of(&one, || Cell::new(1)).set(5);
        assert_eq!(here.of(&one, || Cell::new(1)).get(), 5);
        assert_eq!((here.of(&other, || Cell::new(2)).get(), there.of(&one, || Cell::new(3)).get()), (2, 3));
        assert_eq!(here.of(&one, || "another kind").len(), 12);
    }
}
