//! `MPI_Gather` and `MPI_Gatherv`: everybody's block, at the root. Blocks are of any lengths.

mod k_nomial;
mod linear;
mod linear_sync;

use std::fmt;

use fabriscope_units::Bytes;

use crate::blocks::Blocks;
use crate::group::from_root;
use crate::names::Name;
use crate::piece::{Buffer, Piece};
use crate::round::Rounds;

/// How the blocks travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Up a k-nomial tree.
    KNomial {
        /// 2 or more.
        radix: u32,
    },
    /// Straight to the root, which posts so many receives at a time; 0 is all at once.
    Linear {
        /// Receives.
        at_a_time: u32,
    },
    /// Straight to the root, which asks one rank after the other.
    LinearSync {
        /// What comes of a block before the next rank is asked; all of it where this is zero.
        segment: Bytes,
    },
}

impl Algorithm {
    /// Each with its usual parameters.
    pub const ALL: [Algorithm; 3] =
        [Algorithm::KNomial { radix: 2 }, Algorithm::Linear { at_a_time: 0 }, Algorithm::LinearSync { segment: Bytes::from_kib(1) }];
    /// What [`Algorithm::named`] reads.
    pub const NAMES: &str = "k_nomial(radix), binomial, linear(at_a_time), linear_sync(segment)";

    /// The algorithm of this name.
    #[must_use]
    pub fn named(text: &str) -> Option<Algorithm> {
        let mut name = Name::read(text)?;
        let algorithm = match name.word {
            "binomial" => Algorithm::KNomial { radix: 2 },
            "k_nomial" => Algorithm::KNomial { radix: name.number(2, 4)? },
            "linear" => Algorithm::Linear { at_a_time: name.number(0, 0)? },
            "linear_sync" => Algorithm::LinearSync { segment: name.size(Bytes::from_kib(1))? },
            _ => return None,
        };
        name.end(algorithm)
    }

    /// The rounds of `rank` among `ranks`, whose blocks go to `root`.
    #[must_use]
    pub fn rounds(self, rank: u32, ranks: u32, root: u32, blocks: Blocks) -> Rounds {
        debug_assert_eq!(ranks, blocks.ranks());
        self.from(Buffer::Send.piece(Bytes::ZERO, blocks.length(rank)), rank, root, blocks)
    }
    /// The same where the rank's block lies at `own`.
    #[must_use]
    pub fn from(self, own: Piece, rank: u32, root: u32, blocks: Blocks) -> Rounds {
        let ranks = blocks.ranks();
        let rank = (rank + ranks - root) % ranks;
        let rounds: Rounds = match self {
            Algorithm::KNomial { radix } => Box::new(k_nomial::rounds(rank, root, blocks, radix, own)),
            Algorithm::Linear { at_a_time } => linear::rounds(rank, root, blocks, at_a_time, own),
            Algorithm::LinearSync { segment } => linear_sync::rounds(rank, root, blocks, segment, own),
        };
        Box::new(from_root(root, ranks, rounds))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Algorithm::KNomial { radix } => write!(f, "k_nomial({radix})"),
            Algorithm::Linear { at_a_time } => write!(f, "linear({at_a_time})"),
            Algorithm::LinearSync { segment } => write!(f, "linear_sync({segment})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::{Proof, prove};
    use crate::{Operation, Vector};

    fn algorithms() -> impl Iterator<Item = Algorithm> {
        let radices = [3, 4, 8].map(|radix| Algorithm::KNomial { radix });
        let others = [0, 2].map(|segment| Algorithm::LinearSync { segment: Bytes(segment) });
        Algorithm::ALL.into_iter().chain(radices).chain(others).chain([Algorithm::Linear { at_a_time: 3 }])
    }

    fn proof(algorithm: Algorithm, ranks: u32, root: u32, blocks: &Blocks) -> Proof {
        let operation = Operation::Gather { root, blocks: blocks.clone() };
        match prove(&operation, ranks, |rank| algorithm.rounds(rank, ranks, root, blocks.clone())) {
            Ok(proof) => proof,
            Err(flaw) => panic!("{algorithm}, {ranks} ranks to {root}, {blocks:?}: {flaw}"),
        }
    }

    #[test]
    fn the_root_gets_every_block() {
        for (algorithm, ranks) in algorithms().flat_map(|algorithm| (1..=64u32).map(move |ranks| (algorithm, ranks))) {
            let n = u64::from(ranks);
            for (count, width) in [(0, 1), (1, 1), (n - 1, 1), (n + 1, 1), (37, 4)] {
                proof(algorithm, ranks, ranks / 3, &Vector { count, width: Bytes(width) }.blocks(ranks));
            }
            proof(algorithm, ranks, 0, &Blocks::uneven(ranks));
        }
    }

    #[test]
    fn anybody_can_be_root() {
        for (algorithm, ranks) in algorithms().flat_map(|algorithm| [2, 5, 8, 13].map(|ranks| (algorithm, ranks))) {
            for root in 0..ranks {
                proof(algorithm, ranks, root, &Blocks::uneven(ranks));
            }
        }
    }

    /// ⌈log₂ n⌉ rounds; the branch of rank 2^(k - 1) is the largest, with half of the blocks for n = 2^k.
    #[test]
    fn binomial_sends_half_of_the_blocks_at_once() {
        for ranks in 2..=64u32 {
            let proof = proof(Algorithm::KNomial { radix: 2 }, ranks, ranks - 1, &Blocks::Even { ranks, block: Bytes(3) });
            let half = ranks.next_power_of_two() / 2;
            let largest = (ranks - half).max(half / 2);
            assert_eq!((proof.rounds, proof.most_sent), (ranks.next_power_of_two().ilog2(), Bytes(3) * u64::from(largest)));
            assert_eq!(proof.messages, u64::from(ranks) - 1);
        }
    }

    /// One after the other: n - 1 rounds, one more for the last second part; a block in two messages, and one that asks for it.
    #[test]
    fn a_root_that_asks_takes_a_round_for_each() {
        for ranks in 2..=64 {
            let blocks = Blocks::Even { ranks, block: Bytes(3) };
            let cut = proof(Algorithm::LinearSync { segment: Bytes(2) }, ranks, 0, &blocks);
            assert_eq!((cut.rounds, cut.messages), (ranks.max(3), 3 * u64::from(ranks - 1)));
            let whole = proof(Algorithm::LinearSync { segment: Bytes(3) }, ranks, 0, &blocks);
            assert_eq!((whole.rounds, whole.messages), ((ranks - 1).max(2), 2 * u64::from(ranks - 1)));
            assert_eq!(proof(Algorithm::Linear { at_a_time: 3 }, ranks, 0, &blocks).rounds, (ranks - 1).div_ceil(3));
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for algorithm in algorithms() {
            assert_eq!(Algorithm::named(&algorithm.to_string()), Some(algorithm));
        }
        assert_eq!(Algorithm::named("binomial"), Some(Algorithm::KNomial { radix: 2 }));
        assert_eq!([Algorithm::named("k_nomial(1)"), Algorithm::named("linear_sync(7)"), Algorithm::named("ring")], [None; 3]);
    }
}
