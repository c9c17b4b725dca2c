//! `MPI_Alltoall` and `MPI_Alltoallv`: every rank has a block for every rank.

use std::fmt;

use fabriscope_units::Bytes;

use crate::blocks::Blocks;
use crate::piece::{Buffer, Move};
use crate::registry::algorithms;
use crate::round::{Outlines, Rounds};

algorithms! {
    /// How the blocks travel.
    enum Algorithm;
    /// The rounds of `rank` with blocks of any lengths: what it sends, what it receives. Bruck's needs equal blocks: all are posted at
    /// once instead, as libraries do.
    pub fn rounds_of(rank: u32, sends: Blocks, receives: Blocks);

    /// Bruck: log₂ n rounds, each moves half of the blocks.
    [mod bruck] Bruck = "bruck" => posted::rounds(0, rank, sends, receives);
    /// Messages to all ranks, so many of them posted at a time; 0 is all at once.
    [mod posted] Posted {
        /// Sends, and as many receives.
        at_a_time: u32 = 32, number(0)
    } = "posted" => posted::rounds(at_a_time, rank, sends, receives);
    /// One partner per round.
    [mod pairwise] Pairwise {
        /// Who is whose partner.
        partners: Partners = Partners::ExclusiveOr, inner(Partners::named)
    } = "pairwise" => pairwise::rounds(partners, rank, sends, receives);
}

impl Algorithm {
    /// The rounds of `rank` among `ranks`, with blocks of `size`; its own block is copied.
    #[must_use]
    pub fn rounds(self, rank: u32, ranks: u32, size: Bytes) -> Rounds {
        let blocks = Blocks::Even { ranks, block: size };
        match self {
            Algorithm::Bruck => Box::new((0..bruck::rounds(ranks)).map(move |index| bruck::round(index, rank, ranks, size))),
            _ => self.rounds_of(rank, blocks.clone(), blocks),
        }
    }
    /// The same in outline, where that is known without the moves.
    #[must_use]
    pub fn outlines(self, rank: u32, ranks: u32, size: Bytes) -> Option<Outlines> {
        match self {
            Algorithm::Bruck => Some(Box::new((0..bruck::rounds(ranks)).map(move |index| bruck::outline(index, rank, ranks, size)))),
            _ => None,
        }
    }
}

/// Who exchanges blocks with whom in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partners {
    /// Ranks whose exclusive or is the number of the round, where the number of ranks is a power of two; otherwise by a shift.
    ExclusiveOr,
    /// Each rank sends to the one so many further on.
    Shift,
}

impl Partners {
    fn named(text: &str) -> Option<Partners> {
        [Partners::ExclusiveOr, Partners::Shift].into_iter().find(|partners| partners.to_string() == text)
    }
}

impl fmt::Display for Partners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Partners::ExclusiveOr => "exclusive_or",
            Partners::Shift => "shift",
        })
    }
}

/// The block that a rank has for itself.
fn own(rank: u32, sends: &Blocks, receives: &Blocks) -> Move {
    sends.piece(Buffer::Send, rank).copied(receives.piece(Buffer::Recv, rank))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::prove;
    use crate::rank_counts::rank_counts;
    use crate::{Operation, received, schedule};

    fn algorithms() -> impl Iterator<Item = Algorithm> {
        let posted = [0, 4].map(|at_a_time| Algorithm::Posted { at_a_time });
        Algorithm::ALL.iter().copied().chain(posted).chain([Algorithm::Pairwise { partners: Partners::Shift }])
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for algorithm in algorithms() {
            assert_eq!(Algorithm::named(&algorithm.to_string()), Some(algorithm));
        }
        assert_eq!(Algorithm::named("posted"), Some(Algorithm::Posted { at_a_time: 32 }));
        assert_eq!(Algorithm::named("pairwise"), Some(Algorithm::Pairwise { partners: Partners::ExclusiveOr }));
        assert_eq!((Algorithm::named("ring"), Algorithm::named("pairwise(both)")), (None, None));
    }

    #[test]
    fn every_block_arrives() {
        for ranks in rank_counts() {
            let size = Bytes(if ranks < 20 { 5 } else { 1 });
            let operation = Operation::Alltoall { sends: vec![Blocks::Even { ranks, block: size }; ranks as usize] };
            for algorithm in algorithms() {
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
            for algorithm in algorithms() {
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
