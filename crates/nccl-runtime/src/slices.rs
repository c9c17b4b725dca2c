//! What a message between proxies says of its slice, and which slices a receiver has.
//!
//! Modelled: a slice is taken for arrived when as many pieces are here as it has, in the order of the slices, as soon as the receiver knows of
//! it from any piece. Pieces that overtake others by another adapter are counted as theirs.
//! Not modelled: waiting for the very pieces of a slice.

use std::collections::BTreeMap;

use fabriscope_units::Bytes;
use fabriscope_verbs::AppWords;

/// A slice between nodes; each of its messages says all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice {
    /// Its place among those of its connection with its protocol.
    pub number: u32,
    /// Messages that bring it.
    pub pieces: u32,
    pub bytes: Bytes,
    /// The slots it takes.
    pub slots: u32,
    /// What is in it.
    pub contents: u64,
}

impl Slice {
    /// The words that say it.
    pub fn words(self) -> AppWords {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        AppWords([pair(self.number, SLICE), pair(self.pieces, self.slots), self.bytes.0, self.contents])
    }
    /// What words say; nothing that a proxy would.
    pub fn heard(AppWords([first, second, bytes, contents]): AppWords) -> Option<Slice> {
        let halves = |word: u64| (word as u32, (word >> 32) as u32);
        let ((number, kind), (pieces, slots)) = (halves(first), halves(second));
        (kind == SLICE).then_some(Slice { number, pieces, bytes: Bytes(bytes), slots, contents })
    }
}

/// What has come of the slices of a connection.
#[derive(Debug, Default)]
pub(super) struct Coming {
    /// Those of which a piece is here and that were not taken, by number.
    known: BTreeMap<u32, Slice>,
    /// Pieces here beyond those of the slices that were taken.
    pieces: u32,
    /// The number of the next one.
    due: u32,
}

impl Coming {
    /// A piece of a slice has come.
    pub fn arrive(&mut self, slice: Slice) {
        self.pieces += 1;
        // Those that others stood for are over.
        if slice.number.wrapping_sub(self.due) < u32::MAX / 2 {
            self.known.insert(slice.number, slice);
        }
    }
    /// Takes the next slice, if enough pieces are here.
    pub fn next(&mut self) -> Option<Slice> {
        let slice = *self.known.get(&self.due).filter(|slice| slice.pieces <= self.pieces)?;
        self.known.remove(&self.due);
        self.pieces -= slice.pieces;
        self.due = self.due.wrapping_add(1);
        Some(slice)
    }
}

/// Tells words of slices from others. Basis: assumed.
const SLICE: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(number: u32, pieces: u32) -> Slice {
        Slice { number, pieces, bytes: Bytes(1 << 33 | 5), slots: 2, contents: u64::MAX - u64::from(number) }
    }

    #[test]
    fn words_say_what_was_meant() {
        let meant = slice(u32::MAX, 4);
        assert_eq!(Slice::heard(meant.words()), Some(meant));
        assert_eq!(Slice::heard(AppWords([7, 1, 2, 3])), None);
    }

    #[test]
    fn pieces_are_counted_and_slices_stay_in_order() {
        let mut coming = Coming::default();
        let (first, second) = (slice(0, 2), slice(1, 2));
        // One piece of each is enough for the first one, two are left for the second.
        coming.arrive(second);
        assert_eq!(coming.next(), None);
        coming.arrive(first);
        assert_eq!((coming.next(), coming.next()), (Some(first), None));
        // The late piece of the first one stands for the second.
        coming.arrive(first);
        assert_eq!(coming.next(), None);
        coming.arrive(second);
        assert_eq!((coming.next(), coming.next()), (Some(second), None));
    }

    #[test]
    fn a_slice_that_nothing_is_known_of_is_waited_for() {
        let mut coming = Coming::default();
        coming.arrive(slice(1, 1));
        assert_eq!(coming.next(), None);
        coming.arrive(slice(0, 1));
        assert_eq!([coming.next(), coming.next()], [Some(slice(0, 1)), Some(slice(1, 1))]);
    }
}
