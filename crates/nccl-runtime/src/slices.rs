//! What a message between proxies says of its slice, and which slices a receiver has.
//!
//! Modelled: a slice has arrived when all of its own pieces are here, and is taken in the order of the slices, however its messages overtake each
//! other: by another adapter, or by the transport (SRD, UET). What was fetched or read behind a message is in place in that order, too.

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
    /// Those of which a piece is here and that were not taken, by number, each with its pieces that are here.
    known: BTreeMap<u32, (Slice, u32)>,
    /// The number of the next one.
    due: u32,
}

impl Coming {
    /// A piece of a slice has come.
    pub fn arrive(&mut self, slice: Slice) {
        self.known.entry(slice.number).or_insert((slice, 0)).1 += 1;
    }
    /// Takes the next slice, if all of it is here.
    pub fn next(&mut self) -> Option<Slice> {
        let (slice, _) = *self.known.get(&self.due).filter(|(slice, here)| here >= &slice.pieces)?;
        self.known.remove(&self.due);
        self.due = self.due.wrapping_add(1);
        Some(slice)
    }
}

/// Slices of a connection whose bytes are in place, which the kernel is told of in their order.
#[derive(Debug, Default)]
pub(super) struct Placed {
    early: BTreeMap<u32, Slice>,
    /// The number of the next one.
    due: u32,
}

impl Placed {
    /// All bytes of a slice are in place.
    pub fn add(&mut self, slice: Slice) {
        self.early.insert(slice.number, slice);
    }
    /// Takes the next slice, if it is in place.
    pub fn next(&mut self) -> Option<Slice> {
        let slice = self.early.remove(&self.due)?;
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
    fn slices_wait_for_their_own_pieces_and_stay_in_order() {
        let mut coming = Coming::default();
        let (first, second) = (slice(0, 2), slice(1, 2));
        // Both pieces of the second one are here before the last of the first.
        for piece in [second, first, second] {
            coming.arrive(piece);
            assert_eq!(coming.next(), None);
        }
        coming.arrive(first);
        assert_eq!([coming.next(), coming.next(), coming.next()], [Some(first), Some(second), None]);
    }

    #[test]
    fn what_is_in_place_early_waits_for_those_before_it() {
        let mut placed = Placed::default();
        placed.add(slice(1, 1));
        assert_eq!(placed.next(), None);
        placed.add(slice(0, 1));
        assert_eq!([placed.next(), placed.next(), placed.next()], [Some(slice(0, 1)), Some(slice(1, 1)), None]);
    }
}
