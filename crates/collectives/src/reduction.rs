//! Rounds that reduce: what comes from other ranks is taken in, in the order of the ranks.

use crate::piece::{Buffer, Piece};
use crate::round::Round;

impl Round {
    /// The same, and `piece` goes to `ranks`.
    pub(crate) fn sending(mut self, piece: Piece, ranks: &[u32]) -> Round {
        self.sends.extend(ranks.iter().map(|rank| piece.with(*rank)));
        self
    }
    /// What both do, at the same time.
    pub(crate) fn beside(mut self, other: Round) -> Round {
        self.before.extend(other.before);
        self.receives.extend(other.receives);
        self.sends.extend(other.sends);
        self.joint = self.joint.or(other.joint);
        self.after.extend(other.after);
        self
    }
}

/// `rank` receives from `ranks`, which ascend, what they have for `acc`, each in its own place of a scratch buffer, and takes it in: from
/// those before it, the nearest first, then from those behind it.
pub(crate) fn take_in(rank: u32, ranks: &[u32], acc: Piece, scratch: u8) -> Round {
    let places: Vec<Piece> = (0..ranks.len() as u64).map(|at| Buffer::Scratch(scratch).piece(acc.bytes * at, acc.bytes)).collect();
    let (before, behind) = places.split_at(ranks.partition_point(|other| *other < rank));
    let lower = before.iter().rev().map(|place| place.reduced_before(acc));
    let higher = behind.iter().map(|place| place.reduced_after(acc));
    Round {
        receives: ranks.iter().zip(&places).map(|(other, place)| place.with(*other)).collect(),
        after: lower.chain(higher).collect(),
        ..Round::default()
    }
}

/// The first round of most: the result begins as what the rank has.
pub(crate) fn begin(from: Piece, to: Piece) -> Round {
    Round::local(vec![from.copied(to)])
}

#[cfg(test)]
pub(crate) mod tests {
    use fabriscope_units::Bytes;

    use crate::blocks::Vector;
    use crate::operation::Operation;
    use crate::piece::{Action, Buffer, Message};
    use crate::proof::{Proof, prove};
    use crate::round::Round;

    /// Vectors for `ranks`: nothing, less than one element a rank, more, of one byte and of four.
    pub(crate) fn vectors(ranks: u32) -> impl Iterator<Item = Vector> {
        let ranks = u64::from(ranks);
        [0, 1, ranks - 1, ranks + 1, 37].into_iter().flat_map(|count| [1, 4].map(|width| Vector { count, width: Bytes(width) }))
    }

    /// Proves, and holds that the send buffer stays as it is and that no element is split where something is reduced.
    pub(crate) fn proved<I: Iterator<Item = Round>>(operation: &Operation, ranks: u32, width: Bytes, rounds: impl Fn(u32) -> I) -> Proof {
        let whole = |round: Round| {
            for this in round.before.iter().chain(&round.after) {
                assert_ne!(this.to.buffer, Buffer::Send, "{ranks} ranks: {this:?}");
                let parts = [this.from, this.to].map(|piece| piece.offset.0 % width.0 + piece.bytes.0 % width.0);
                assert!(this.action == Action::Copy || parts == [0, 0], "{ranks} ranks: {this:?}");
            }
            assert!(round.receives.iter().all(|Message { piece, .. }| piece.buffer != Buffer::Send));
            round
        };
        prove(operation, ranks, |rank| rounds(rank).map(whole)).unwrap_or_else(|flaw| panic!("{ranks} ranks: {flaw}"))
    }
}
