//! What a message between proxies says of its slice, and which slices a receiver has.
//!
//! Modelled: a slice has arrived when all of its own pieces are here, and is taken in the order of the slices, however its messages overtake each
//! other: by another adapter, or by the transport (SRD, UET). What was fetched or read behind a message is in place in that order, too.

use std::collections::VecDeque;

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

/// Slices of a connection that are taken in their order, each as soon as all arrivals of it are counted.
#[derive(Debug, Default)]
pub(super) struct InOrder {
    /// From the next one on: each of which something has arrived, and how many arrivals are missing.
    waiting: VecDeque<Option<(Slice, u32)>>,
    /// The number of the next one.
    due: u32,
}

impl InOrder {
    /// One of `arrivals` that make a slice complete.
    pub fn arrive(&mut self, slice: Slice, arrivals: u32) {
        let place = slice.number.wrapping_sub(self.due) as usize;
        if self.waiting.len() <= place {
            self.waiting.resize(place + 1, None);
        }
        let (_, missing) = self.waiting[place].get_or_insert((slice, arrivals));
        *missing -= 1;
    }
    /// Takes the next slice, if it is complete.
    pub fn next(&mut self) -> Option<Slice> {
        let (slice, _) = self.waiting.front().copied().flatten().filter(|(_, missing)| *missing == 0)?;
        self.waiting.pop_front();
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
        let mut coming = InOrder::default();
        let (first, second) = (slice(0, 2), slice(1, 2));
        // Both pieces of the second one are here before the last of the first.
        for piece in [second, first, second] {
            coming.arrive(piece, piece.pieces);
            assert_eq!(coming.next(), None);
        }
        coming.arrive(first, first.pieces);
        assert_eq!([coming.next(), coming.next(), coming.next()], [Some(first), Some(second), None]);
    }

    #[test]
    fn what_is_in_place_early_waits_for_those_before_it() {
        let mut placed = InOrder::default();
        placed.arrive(slice(1, 1), 1);
        assert_eq!(placed.next(), None);
        placed.arrive(slice(0, 1), 1);
        assert_eq!([placed.next(), placed.next(), placed.next()], [Some(slice(0, 1)), Some(slice(1, 1)), None]);
    }
}
