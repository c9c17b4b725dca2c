//! Halving: in each step two numbers share the blocks that both have, and each goes on with its half.
//!
//! Source: R. Rabenseifner, "Optimization of Collective Reduction Operations", ICCS 2004 (distance doubling, blocks halving); R. Thakur,
//! R. Rabenseifner, W. Gropp, IJHPCA 19(1), 2005, §4.2 (distance halving). With doubling distance neighbours join first, which keeps the
//! order of the ranks, and numbers end with the block of their reversed bits.

use std::ops::Range;

use crate::fold::Fold;
use crate::piece::Piece;
use crate::reduction::take_in;
use crate::round::Round;

/// How far the partners of step *k* are from each other, of 2^*steps* numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Distance {
    /// 2^k.
    Doubling,
    /// 2^(steps − 1 − k).
    Halving,
}

impl Distance {
    /// The partner of `number` in step `step`.
    pub(crate) fn partner(self, number: u32, step: u32, steps: u32) -> u32 {
        match self {
            Distance::Doubling => number ^ 1 << step,
            Distance::Halving => number ^ 1 << (steps - 1 - step),
        }
    }
    /// The blocks that `number` has after `done` steps.
    pub(crate) fn kept(self, number: u32, done: u32, steps: u32) -> Range<u32> {
        let length = 1 << (steps - done);
        let first = match self {
            // Bit k decides on the half of step k.
            Distance::Doubling => (0..done).map(|step| (number >> step & 1) << (steps - 1 - step)).sum(),
            Distance::Halving => number & !(length - 1),
        };
        first..first + length
    }
    /// What `number` of `fold` does in step `step`; `piece` says where a rank has these blocks.
    pub(crate) fn share(self, fold: Fold, number: u32, step: u32, piece: impl Fn(Range<u32>) -> Piece) -> Share {
        let partner = self.partner(number, step, fold.steps());
        let [own, theirs] = [number, partner].map(|number| piece(self.kept(number, step + 1, fold.steps())));
        Share { rank: fold.rank(number), partner: fold.rank(partner), own, theirs }
    }
}

/// A step of a rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) rank: u32,
    /// With which rank.
    pub(crate) partner: u32,
    /// What this rank goes on with, and what the partner.
    pub(crate) own: Piece,
    pub(crate) theirs: Piece,
}

impl Share {
    /// Each takes in what the other has of its half.
    pub(crate) fn reduce(self) -> Round {
        take_in(self.rank, &[self.partner], self.own, 0).sending(self.theirs, &[self.partner])
    }
    /// Backwards: the halves come together again at both.
    pub(crate) fn gather(self) -> Round {
        Round::exchange(Some(self.theirs.with(self.partner)), Some(self.own.with(self.partner)))
    }
    /// The same at one of the two: at this rank, or at the partner.
    pub(crate) fn gather_at_one(self, here: bool) -> Round {
        Round::exchange(here.then(|| self.theirs.with(self.partner)), (!here).then(|| self.own.with(self.partner)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_eight() {
        assert_eq!([0, 1, 2, 3].map(|done| Distance::Doubling.kept(3, done, 3)), [0..8, 4..8, 6..8, 6..7]);
        assert_eq!([0, 1, 2, 3].map(|done| Distance::Halving.kept(3, done, 3)), [0..8, 0..4, 2..4, 3..4]);
        assert_eq!((Distance::Doubling.partner(3, 0, 3), Distance::Halving.partner(3, 0, 3)), (2, 7));
    }
}
