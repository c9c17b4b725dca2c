//! `MPI_Alltoall` and `MPI_Alltoallv`: every rank has a block for every rank.

mod bruck;
mod pairwise;
mod posted;

use std::fmt;

use fabriscope_units::Bytes;

use crate::blocks::Blocks;
use crate::names::Name;
use crate::piece::{Buffer, Move};
use crate::round::Round;

/// How the blocks travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Bruck: log₂ n rounds, each moves half of the blocks.
    Bruck,
    /// Messages to all ranks, so many of them posted at a time; 0 is all at once.
    Posted {
        /// Sends, and as many receives.
        at_a_time: u32,
    },
    /// One partner per round.
    Pairwise {
        /// Partners differ by exclusive or where the number of ranks is a power of two; otherwise, and without it, by a shift.
        exclusive_or: bool,
    },
}

impl Algorithm {
    /// What [`Algorithm::named`] reads.
    pub const NAMES: &str = "bruck, posted(at_a_time), pairwise(exclusive_or), pairwise(shift)";

    /// The algorithm of this name, as it is written or without its parameters: those of MPICH then.
    #[must_use]
    pub fn named(text: &str) -> Option<Algorithm> {
        let mut name = Name::read(text)?;
        let partners = |text: &str| ["shift", "exclusive_or"].iter().position(|word| *word == text);
        let algorithm = match name.word {
            "bruck" => Algorithm::Bruck,
            "posted" => Algorithm::Posted { at_a_time: name.number(0, 32)? },
            "pairwise" => Algorithm::Pairwise { exclusive_or: name.inner(partners, 1)? == 1 },
            _ => return None,
        };
        name.end(algorithm)
    }
    /// The rounds of `rank` among `ranks`, with blocks of `size`; its own block is copied.
    pub fn rounds(self, rank: u32, ranks: u32, size: Bytes) -> impl Iterator<Item = Round> {
        let blocks = Blocks::Even { ranks, block: size };
        let count = if self == Algorithm::Bruck { bruck::rounds(ranks) } else { self.direct_rounds(ranks) };
        (0..count).map(move |index| match self {
            Algorithm::Bruck => bruck::round(index, rank, ranks, size),
            _ => self.direct(index, rank, &blocks, &blocks),
        })
    }
    /// The rounds of `rank` with blocks of any lengths: what it sends, what it receives. Bruck's needs equal blocks: all are posted at
    /// once instead, as libraries do.
    pub fn rounds_of(self, rank: u32, sends: Blocks, receives: Blocks) -> impl Iterator<Item = Round> {
        let count = self.direct_rounds(sends.ranks());
        (0..count).map(move |index| self.direct(index, rank, &sends, &receives))
    }

    fn direct_rounds(self, ranks: u32) -> u32 {
        match self {
            Algorithm::Bruck => posted::rounds(ranks, 0),
            Algorithm::Posted { at_a_time } => posted::rounds(ranks, at_a_time),
            Algorithm::Pairwise { .. } => ranks,
        }
    }
    fn direct(self, index: u32, rank: u32, sends: &Blocks, receives: &Blocks) -> Round {
        match self {
            Algorithm::Bruck => posted::round(index, 0, rank, sends, receives),
            Algorithm::Posted { at_a_time } => posted::round(index, at_a_time, rank, sends, receives),
            Algorithm::Pairwise { exclusive_or } => pairwise::round(index, exclusive_or, rank, sends, receives),
        }
    }
}

/// The block that a rank has for itself.
fn own(rank: u32, sends: &Blocks, receives: &Blocks) -> Move {
    sends.piece(Buffer::Send, rank).copied(receives.piece(Buffer::Recv, rank))
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Algorithm::Bruck => f.write_str("bruck"),
            Algorithm::Posted { at_a_time } => write!(f, "posted({at_a_time})"),
            Algorithm::Pairwise { exclusive_or: true } => f.write_str("pairwise(exclusive_or)"),
            Algorithm::Pairwise { exclusive_or: false } => f.write_str("pairwise(shift)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::prove;
    use crate::{Operation, received, schedule};

    const ALL: [Algorithm; 5] = [
        Algorithm::Bruck,
        Algorithm::Posted { at_a_time: 0 },
        Algorithm::Posted { at_a_time: 4 },
        Algorithm::Pairwise { exclusive_or: true },
        Algorithm::Pairwise { exclusive_or: false },
    ];

    #[test]
    fn names_are_read_as_they_are_written() {
        for algorithm in ALL {
            assert_eq!(Algorithm::named(&algorithm.to_string()), Some(algorithm));
        }
        assert_eq!(Algorithm::named("posted"), Some(Algorithm::Posted { at_a_time: 32 }));
        assert_eq!(Algorithm::named("pairwise"), Some(Algorithm::Pairwise { exclusive_or: true }));
        assert_eq!((Algorithm::named("ring"), Algorithm::named("pairwise(both)")), (None, None));
    }

    #[test]
    fn every_block_arrives() {
        for ranks in 1..=64 {
            let size = Bytes(if ranks < 20 { 5 } else { 1 });
            let operation = Operation::Alltoall { sends: vec![Blocks::Even { ranks, block: size }; ranks as usize] };
            for algorithm in ALL {
                let proof = prove(&operation, ranks, |rank| algorithm.rounds(rank, ranks, size)).unwrap();
                if algorithm != Algorithm::Bruck {
                    assert_eq!(proof.most_sent, size * u64::from(ranks - 1), "{algorithm}, {ranks} ranks");
                }
                assert!(schedule(ranks, |rank| algorithm.rounds(rank, ranks, size)).is_ok());
            }
        }
    }

    /// Rank r has ((3 r + 5 to) mod 4) bytes for rank `to`.
    #[test]
    fn blocks_of_any_lengths_arrive() {
        for ranks in [1u32, 2, 3, 7, 16, 33] {
            let row = |rank: u32| Blocks::varying(&(0..ranks).map(|to| Bytes(u64::from((3 * rank + 5 * to) % 4))).collect::<Vec<_>>());
            let sends: Vec<Blocks> = (0..ranks).map(row).collect();
            let operation = Operation::Alltoall { sends: sends.clone() };
            for algorithm in ALL {
                prove(&operation, ranks, |rank| algorithm.rounds_of(rank, sends[rank as usize].clone(), received(&sends, rank))).unwrap();
            }
        }
    }

    /// ⌈log₂ n⌉ rounds; the blocks whose distance has bit k go in round k: for 6 ranks distances 1, 3, 5; 2, 3; 4, 5.
    #[test]
    fn bruck_has_few_rounds() {
        let operation = Operation::Alltoall { sends: vec![Blocks::Even { ranks: 6, block: Bytes(1) }; 6] };
        let proof = prove(&operation, 6, |rank| Algorithm::Bruck.rounds(rank, 6, Bytes(1))).unwrap();
        assert_eq!((proof.rounds, proof.most_sent), (3, Bytes(3 + 2 + 2)));
    }

    #[test]
    fn few_messages_are_posted_at_a_time() {
        let algorithm = Algorithm::Posted { at_a_time: 32 };
        let most = algorithm.rounds(5, 100, Bytes(1)).map(|round| round.sends.len()).max();
        assert_eq!(most, Some(32));
        assert_eq!(algorithm.rounds(5, 100, Bytes(1)).count(), 4);
    }
}
