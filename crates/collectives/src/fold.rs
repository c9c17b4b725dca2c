//! Ranks folded to a power of a radix: neighbours join until so many are left, which then have numbers.
//!
//! Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 19(1),
//! 2005, §4.4 (pairs, the odd rank of each stays); MPICH, recexchalgo.c (groups of a radix, the last rank of each stays). Groups are of
//! neighbours, so that operators that do not commute keep their order.

use std::ops::Range;

use crate::piece::Piece;
use crate::reduction::take_in;
use crate::round::Round;

/// Groups of neighbouring ranks, as many as the largest power of the radix that there are ranks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fold {
    radix: u32,
    steps: u32,
    /// Ranks beyond the power.
    extra: u32,
    /// This rank stays in its group.
    stays: Option<u32>,
}

impl Fold {
    pub(crate) fn new(ranks: u32, radix: u32) -> Fold {
        let steps = ranks.max(1).ilog(radix);
        Fold { radix, steps, extra: ranks - radix.pow(steps), stays: None }
    }
    /// To a power of two, and `rank` is the one of its group that stays.
    pub(crate) fn keeping(ranks: u32, rank: u32) -> Fold {
        Fold { stays: Some(rank), ..Fold::new(ranks, 2) }
    }
    /// Exchanges that join all numbers.
    pub(crate) fn steps(self) -> u32 {
        self.steps
    }
    /// How many numbers.
    pub(crate) fn power(self) -> u32 {
        self.radix.pow(self.steps)
    }
    /// Ranks before those of `number`; all where it is the power.
    pub(crate) fn begin(self, number: u32) -> u32 {
        number + number.saturating_mul(self.radix - 1).min(self.extra)
    }
    /// The ranks of `number`.
    pub(crate) fn group(self, number: u32) -> Range<u32> {
        self.begin(number)..self.begin(number + 1)
    }
    /// The number of the group of `rank`.
    pub(crate) fn number(self, rank: u32) -> u32 {
        let whole = (rank / self.radix).min(self.extra / (self.radix - 1));
        rank.saturating_sub(self.extra).max(whole)
    }
    /// The rank that has `number`.
    pub(crate) fn rank(self, number: u32) -> u32 {
        let group = self.group(number);
        self.stays.filter(|rank| group.contains(rank)).unwrap_or(group.end - 1)
    }
    /// The number of `rank`, if it stays.
    pub(crate) fn stays(self, rank: u32) -> Option<u32> {
        Some(self.number(rank)).filter(|number| self.rank(*number) == rank)
    }
    /// The other ranks of the group of `rank`.
    pub(crate) fn others(self, rank: u32) -> Vec<u32> {
        self.group(self.number(rank)).filter(|other| *other != rank).collect()
    }
    /// Where something is folded: the others of a group send what they have at `acc` to the one that stays.
    pub(crate) fn join(self, rank: u32, acc: Piece) -> Option<Round> {
        (self.group(self.number(rank)).len() > 1).then(|| match self.stays(rank) {
            Some(_) => take_in(rank, &self.others(rank), acc, 0),
            None => Round::exchange(None, Some(acc.with(self.rank(self.number(rank))))),
        })
    }
    /// The way back: they get what the one that stayed has.
    pub(crate) fn spread(self, rank: u32, acc: Piece) -> Option<Round> {
        (self.group(self.number(rank)).len() > 1).then(|| match self.stays(rank) {
            Some(_) => Round::default().sending(acc, &self.others(rank)),
            None => Round::exchange(Some(acc.with(self.rank(self.number(rank)))), None),
        })
    }
    /// The ranks of the numbers that differ from `number` in digit `step` alone, in order.
    pub(crate) fn peers(self, number: u32, step: u32) -> Vec<u32> {
        let stride = self.radix.pow(step);
        let first = number - number / stride % self.radix * stride;
        (0..self.radix).map(|digit| first + digit * stride).filter(|other| *other != number).map(|other| self.rank(other)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_fold() {
        // 11 ranks to 8 numbers: three pairs, whose odd ranks stay.
        let fold = Fold::new(11, 2);
        assert_eq!((fold.power(), fold.steps()), (8, 3));
        assert_eq!((0..8).map(|number| fold.rank(number)).collect::<Vec<_>>(), [1, 3, 5, 6, 7, 8, 9, 10]);
        assert_eq!((0..11).map(|rank| fold.number(rank)).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 7]);
        assert_eq!(fold.peers(1, 1), [fold.rank(3)]);
        assert_eq!(Fold::keeping(11, 4).rank(2), 4);
        assert_eq!((Fold::new(1, 4).power(), Fold::new(1, 4).stays(0)), (1, Some(0)));
    }

    /// MPICH, recexchalgo.c: 22 ranks of radix 4 have 16 numbers; the 6 others fill two groups of four.
    #[test]
    fn groups_of_a_radix_fold() {
        let fold = Fold::new(22, 4);
        assert_eq!([0, 1, 2, 15].map(|number| fold.group(number)), [0..4, 4..8, 8..9, 21..22]);
        assert_eq!(fold.peers(5, 0), [4, 6, 7].map(|number| fold.rank(number)));
        for (ranks, radix) in (1..200).flat_map(|ranks| [(ranks, 2), (ranks, 3), (ranks, 8)]) {
            let fold = Fold::new(ranks, radix);
            assert_eq!(fold.begin(fold.power()), ranks);
            assert!((0..ranks).all(|rank| fold.group(fold.number(rank)).contains(&rank)), "{ranks} ranks, radix {radix}");
        }
    }
}
