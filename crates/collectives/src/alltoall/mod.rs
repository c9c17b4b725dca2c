//! `MPI_Alltoall`: every rank has a block for every rank.

mod bruck;
mod pairwise;
mod posted;
mod select;

use std::fmt;

use fabriscope_units::Bytes;

use crate::round::Round;

pub use select::Rules;

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
    /// The rounds of `rank` among `ranks`, with blocks of `size`; its own block is copied.
    pub fn rounds(self, rank: u32, ranks: u32, size: Bytes) -> impl Iterator<Item = Round> {
        let count = match self {
            Algorithm::Bruck => bruck::rounds(ranks),
            Algorithm::Posted { at_a_time } => posted::rounds(ranks, at_a_time),
            Algorithm::Pairwise { .. } => ranks,
        };
        (0..count).map(move |index| match self {
            Algorithm::Bruck => bruck::round(index, rank, ranks, size),
            Algorithm::Posted { at_a_time } => posted::round(index, at_a_time, rank, ranks, size),
            Algorithm::Pairwise { exclusive_or } => pairwise::round(index, exclusive_or, rank, ranks, size),
        })
    }
    /// The ranks that `rank` talks to, in order.
    #[must_use]
    pub fn peers(self, rank: u32, ranks: u32) -> Vec<u32> {
        let rounds = self.rounds(rank, ranks, Bytes(1));
        let mut peers: Vec<u32> = rounds.flat_map(|round| round.receives.into_iter().chain(round.sends)).map(|m| m.peer).collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Algorithm::Bruck => "bruck",
            Algorithm::Posted { .. } => "posted",
            Algorithm::Pairwise { .. } => "pairwise",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::schedule;

    const ALL: [Algorithm; 5] = [
        Algorithm::Bruck,
        Algorithm::Posted { at_a_time: 0 },
        Algorithm::Posted { at_a_time: 4 },
        Algorithm::Pairwise { exclusive_or: true },
        Algorithm::Pairwise { exclusive_or: false },
    ];

    proptest! {
        /// What one rank sends in a round the other receives in the same round; together they are a schedule that ends.
        #[test]
        fn sends_meet_receives(ranks in 1u32..40, size in 0u64..5000) {
            for algorithm in ALL {
                let mut open: BTreeMap<(usize, u32, u32), u64> = BTreeMap::new();
                for rank in 0..ranks {
                    for (at, round) in algorithm.rounds(rank, ranks, Bytes(size)).enumerate() {
                        for m in round.sends {
                            prop_assert!(m.peer != rank);
                            prop_assert!(open.insert((at, rank, m.peer), m.bytes.0).is_none());
                        }
                    }
                }
                for rank in 0..ranks {
                    for (at, round) in algorithm.rounds(rank, ranks, Bytes(size)).enumerate() {
                        for m in round.receives {
                            prop_assert_eq!(open.remove(&(at, m.peer, rank)), Some(m.bytes.0));
                        }
                    }
                }
                prop_assert!(open.is_empty());
                prop_assert!(schedule(ranks, |rank| algorithm.rounds(rank, ranks, Bytes(size))).is_ok());
            }
        }

        /// Direct algorithms give every peer its block once, and copy the own one.
        #[test]
        fn direct_algorithms_send_each_block_once(ranks in 1u32..70, rank in 0u32..70) {
            prop_assume!(rank < ranks);
            for algorithm in &ALL[1..] {
                let rounds: Vec<Round> = algorithm.rounds(rank, ranks, Bytes(9)).collect();
                let mut peers: Vec<u32> = rounds.iter().flat_map(|r| &r.sends).map(|m| m.peer).collect();
                peers.sort_unstable();
                prop_assert_eq!(peers, (0..ranks).filter(|peer| *peer != rank).collect::<Vec<_>>());
                prop_assert_eq!(rounds.iter().map(|r| r.before.bytes + r.after.bytes).sum::<Bytes>(), Bytes(9));
            }
        }
    }

    #[test]
    fn few_messages_are_posted_at_a_time() {
        let algorithm = Algorithm::Posted { at_a_time: 32 };
        let most = algorithm.rounds(5, 100, Bytes(1)).map(|round| round.sends.len()).max();
        assert_eq!(most, Some(32));
        assert_eq!(algorithm.rounds(5, 100, Bytes(1)).count(), 4);
    }
}
