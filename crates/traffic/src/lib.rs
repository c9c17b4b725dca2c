//! Synthetic traffic: who sends to whom, as schedules.
//!
//! Source: the usual patterns of network studies (Dally and Towles, "Principles and Practices of Interconnection
//! Networks", §3.2): permutation, uniform random, shift, all-to-all; incast from the data-centre literature.
//! Modelled: one or several messages per rank, a number of them outstanding at once, one- or two-sided (closed loop);
//! messages at random times, whether the network takes them or not (open loop, `open_loop.rs`); flows of measured sizes at random
//! times (`flows.rs`).

mod all_reduce;
mod alltoallv;
mod draw;
pub mod flows;
pub mod multicast;
mod open_loop;
pub mod sizes;

use std::collections::BTreeMap;

use fabriscope_schedule::{After, Builder, OpId, OpKind, Schedule, ScheduleError};
use fabriscope_streams::Streams;
use fabriscope_units::Bytes;

pub use all_reduce::{recursive_doubling, ring_all_reduce};
pub use alltoallv::{Exchanges, alltoallv};
pub use draw::Draw;
pub use open_loop::{Arrivals, OpenLoop, Sample, open_loop};

/// Who sends to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Every rank sends to one other and hears from one other; all such assignments are equally likely.
    Permutation,
    /// The first `senders` ranks other than `target` send to it.
    Incast {
        /// The rank that everybody sends to.
        target: u32,
        /// How many send.
        senders: u32,
    },
    /// Every rank sends to every other, starting with the next.
    AllToAll,
    /// Rank `i` sends to rank `i + distance`.
    Shift {
        /// How many ranks further.
        distance: u32,
    },
    /// Every message goes to another rank drawn at random.
    Uniform,
    /// Rank with coordinate x of k in each dimension sends to x + ⌈k / 2⌉ - 1: all turn the same way round.
    Tornado {
        /// The dimensions, the fastest first.
        dims: Dims,
    },
    /// Ranks in a square of side ⌊√n⌋: rank (row, column) sends to (column, row).
    Transpose,
    /// Rank i of n sends to n - 1 - i, which complements every bit where n is a power of two.
    BitComplement,
    /// Every rank sends to a random rank of the next group.
    Adversarial {
        /// Ranks in a group.
        group: u32,
    },
    /// A share of the messages goes to the first ranks, the others to any other rank.
    HotSpot {
        /// How many ranks are hot.
        targets: u32,
        /// Share of the messages for them, in 1/2³².
        share: u32,
    },
    /// Every rank of a grid sends to its neighbours, one message in each direction of each dimension.
    Halo {
        /// The grid, the fastest dimension first.
        dims: Dims,
        /// The last neighbours the first.
        periodic: bool,
    },
}

/// Sizes of up to six dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dims {
    sizes: [u32; 6],
    count: usize,
}

impl Dims {
    /// These sizes; those beyond the sixth are left out.
    #[must_use]
    pub fn new(sizes: &[u32]) -> Dims {
        let mut dims = Dims { sizes: [1; 6], count: sizes.len().min(6) };
        dims.sizes[..dims.count].copy_from_slice(&sizes[..dims.count]);
        dims
    }
    /// The sizes.
    #[must_use]
    pub fn sizes(&self) -> &[u32] {
        &self.sizes[..self.count]
    }
    /// How many places there are.
    #[must_use]
    pub fn places(&self) -> u64 {
        self.sizes().iter().fold(1u64, |all, &size| all.saturating_mul(u64::from(size)))
    }
    /// The place `steps` further in dimension `axis`, around the ring.
    fn shifted(&self, place: u32, axis: usize, steps: u32) -> u32 {
        let stride: u32 = self.sizes[..axis].iter().product();
        let size = self.sizes[axis];
        let at = place / stride % size;
        place - at * stride + (at + steps) % size * stride
    }
    /// The coordinate of a place in dimension `axis`.
    fn coordinate(&self, place: u32, axis: usize) -> u32 {
        place / self.sizes[..axis].iter().product::<u32>() % self.sizes[axis]
    }
}

/// Which side takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sides {
    /// RDMA writes: the receiving rank has nothing to do.
    #[default]
    One,
    /// Sends and receives.
    Two,
}

/// Traffic of one pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Who sends to whom.
    pub pattern: Pattern,
    /// Length of every message.
    pub bytes: Bytes,
    /// Messages of every sender; for all-to-all, messages to every other rank.
    pub messages: u32,
    /// Messages of a sender outstanding at once; 0 for all of them.
    pub outstanding: u32,
    /// Which side takes part.
    pub sides: Sides,
}

impl Config {
    /// One message of `bytes` per sender, one-sided.
    #[must_use]
    pub fn new(pattern: Pattern, bytes: Bytes) -> Config {
        Config { pattern, bytes, messages: 1, outstanding: 0, sides: Sides::One }
    }
}

/// Why there is no such traffic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum PatternError {
    /// Nobody to send to.
    #[error("{ranks} ranks cannot send to each other")]
    #[diagnostic(help("use at least 2"))]
    TooFewRanks {
        /// Ranks asked for.
        ranks: u32,
    },
    /// The target of an incast does not exist.
    #[error("there is no rank {target} among {ranks}")]
    #[diagnostic(help("give a target below {ranks}"))]
    NoSuchTarget {
        /// The target.
        target: u32,
        /// Ranks asked for.
        ranks: u32,
    },
    /// More senders than ranks.
    #[error("{senders} senders and a target need {} ranks, but there are {ranks}", u64::from(*senders) + 1)]
    #[diagnostic(help("give 1 to {} senders", ranks - 1))]
    Senders {
        /// Senders asked for.
        senders: u32,
        /// Ranks asked for.
        ranks: u32,
    },
    /// Every rank would send to itself.
    #[error("a shift by {distance} among {ranks} ranks ends where it starts")]
    #[diagnostic(help("give a distance that is no multiple of {ranks}"))]
    NoShift {
        /// The distance.
        distance: u32,
        /// Ranks asked for.
        ranks: u32,
    },
    /// The pattern has nothing to send among so few ranks, or does not fit.
    #[error("the pattern needs {needs}, but there are {ranks} ranks")]
    #[diagnostic(help("{remedy}"))]
    Shape {
        /// What it needs.
        needs: String,
        /// Ranks asked for.
        ranks: u32,
        /// What to do.
        remedy: &'static str,
    },
    /// What the schedule itself refuses.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Schedule(#[from] ScheduleError),
}

/// The traffic of `config` among `ranks` ranks; equal arguments give equal schedules.
///
/// # Errors
/// The pattern does not exist among so many ranks; the schedule would be too large.
pub fn schedule(ranks: u32, config: &Config, seed: u64) -> Result<Schedule, PatternError> {
    let messages = destinations(ranks, config, seed)?;
    let mut builder = Builder::new(ranks);
    let mut tags: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for (from, to) in messages.iter().enumerate() {
        let from = from as u32;
        let mut sent: Vec<OpId> = Vec::with_capacity(to.len());
        for (at, &to) in to.iter().enumerate() {
            let kind = match config.sides {
                Sides::One => OpKind::Put { to, bytes: config.bytes },
                Sides::Two => {
                    // The tag tells the messages of one pair apart.
                    let tag = tags.entry((from, to)).or_insert(0);
                    *tag += 1;
                    builder.recv(to, from, config.bytes, *tag - 1);
                    OpKind::Send { to, bytes: config.bytes, tag: *tag - 1 }
                }
            };
            let before = (config.outstanding > 0).then(|| at.checked_sub(config.outstanding as usize)).flatten();
            let after: Vec<After> = before.map(|before| After::End(sent[before])).into_iter().collect();
            sent.push(builder.op_after(from, kind, &after));
        }
    }
    Ok(builder.build()?)
}

/// The receivers of every rank's messages, in order.
fn destinations(ranks: u32, config: &Config, seed: u64) -> Result<Vec<Vec<u32>>, PatternError> {
    if ranks < 2 {
        return Err(PatternError::TooFewRanks { ranks });
    }
    let repeat = |to: u32| vec![to; config.messages as usize];
    Ok(match config.pattern {
        Pattern::Permutation => derangement(ranks, seed).into_iter().map(repeat).collect(),
        Pattern::Incast { target, .. } if target >= ranks => return Err(PatternError::NoSuchTarget { target, ranks }),
        Pattern::Incast { senders, .. } if senders == 0 || senders >= ranks => return Err(PatternError::Senders { senders, ranks }),
        Pattern::Incast { target, senders } => {
            let last = if target < senders { senders } else { senders - 1 };
            (0..ranks).map(|rank| if rank != target && rank <= last { repeat(target) } else { Vec::new() }).collect()
        }
        Pattern::AllToAll => {
            let others = |rank: u32| (1..ranks).map(move |step| ((u64::from(rank) + u64::from(step)) % u64::from(ranks)) as u32);
            let rounds = |rank: u32| (0..config.messages).flat_map(move |_| others(rank)).collect();
            (0..ranks).map(rounds).collect()
        }
        Pattern::Shift { distance } if distance % ranks == 0 => return Err(PatternError::NoShift { distance, ranks }),
        Pattern::Shift { distance } => {
            (0..ranks).map(|rank| repeat(((u64::from(rank) + u64::from(distance)) % u64::from(ranks)) as u32)).collect()
        }
        Pattern::Uniform => {
            let streams = Streams::new(seed);
            let draw = |rank: u32| {
                let mut stream = streams.stream("uniform traffic", rank.into());
                // A number among the others, moved past the sender itself.
                let mut other = move || stream.below(u64::from(ranks) - 1) as u32;
                (0..config.messages).map(|_| other()).map(|to| to + u32::from(to >= rank)).collect()
            };
            (0..ranks).map(draw).collect()
        }
        pattern => {
            let mut draw = Draw::new(pattern, ranks, seed)?;
            let others = |rank: u32, draw: &mut Draw| -> Vec<u32> {
                let mut to = Vec::new();
                for _ in 0..config.messages {
                    draw.receivers(rank, &mut to);
                }
                to
            };
            (0..ranks).map(|rank| others(rank, &mut draw)).collect()
        }
    })
}

/// A random permutation without fixed points, all equally likely: permutations are drawn until one has none, which
/// takes e draws on average however many ranks there are.
fn derangement(ranks: u32, seed: u64) -> Vec<u32> {
    let mut stream = Streams::new(seed).stream("permutation traffic", 0);
    loop {
        let order = stream.permutation(ranks);
        if order.iter().enumerate().all(|(from, to)| from as u32 != *to) {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;

    fn config(pattern: Pattern) -> Config {
        Config::new(pattern, Bytes::from_kib(4))
    }
    fn receivers(ranks: u32, pattern: Pattern, seed: u64) -> Vec<Vec<u32>> {
        destinations(ranks, &config(pattern), seed).unwrap()
    }

    #[test]
    fn a_permutation_has_no_fixed_point_and_hits_everyone_once() {
        for ranks in [2, 3, 64, 1000] {
            for seed in 0..5 {
                let to: Vec<u32> = receivers(ranks, Pattern::Permutation, seed).concat();
                assert!(to.iter().enumerate().all(|(from, to)| from as u32 != *to));
                let mut sorted = to.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..ranks).collect::<Vec<_>>());
            }
        }
        assert_ne!(receivers(64, Pattern::Permutation, 1), receivers(64, Pattern::Permutation, 2));
        assert_eq!(receivers(64, Pattern::Permutation, 1), receivers(64, Pattern::Permutation, 1));
    }

    #[test]
    fn derangements_are_equally_likely() {
        // Four ranks have 9 derangements, of which 3 consist of two swaps and 6 are one cycle.
        let swaps = (0..3000).filter(|seed| {
            let to: Vec<u32> = receivers(4, Pattern::Permutation, *seed).concat();
            to.iter().enumerate().all(|(from, to_)| to[*to_ as usize] == from as u32)
        });
        let swaps = swaps.count();
        assert!((880..1120).contains(&swaps), "{swaps} of 3000, expected 1000");
    }

    #[test]
    fn fixed_patterns() {
        assert_eq!(receivers(4, Pattern::Shift { distance: 1 }, 0), [[1], [2], [3], [0]]);
        assert_eq!(receivers(3, Pattern::AllToAll, 0), [[1, 2], [2, 0], [0, 1]]);
        let incast = receivers(4, Pattern::Incast { target: 1, senders: 2 }, 0);
        assert_eq!(incast, [vec![1], vec![], vec![1], vec![]]);
        let incast = receivers(4, Pattern::Incast { target: 3, senders: 3 }, 0);
        assert_eq!(incast, [vec![3], vec![3], vec![3], vec![]]);
    }

    #[test]
    fn uniform_traffic_reaches_all_others_evenly() {
        let config = Config { messages: 9000, ..config(Pattern::Uniform) };
        for (from, to) in destinations(10, &config, 7).unwrap().iter().enumerate() {
            for rank in 0..10 {
                let count = to.iter().filter(|to| **to == rank).count();
                let expected = if rank == from as u32 { 0..1 } else { 850..1150 };
                assert!(expected.contains(&count), "{from} to {rank}: {count}");
            }
        }
    }

    #[test]
    fn schedules_hold_the_messages() {
        for sides in [Sides::One, Sides::Two] {
            let config = Config { messages: 4, outstanding: 2, sides, ..config(Pattern::Permutation) };
            let schedule = schedule(16, &config, 3).unwrap();
            assert_eq!(schedule, super::schedule(16, &config, 3).unwrap());
        }
    }

    #[test]
    fn errors_name_the_remedy() {
        let message = |ranks, pattern| schedule(ranks, &config(pattern), 0).unwrap_err().in_full();
        assert!(message(1, Pattern::Uniform).contains("at least 2"));
        assert!(message(4, Pattern::Incast { target: 4, senders: 1 }).contains("below 4"));
        assert!(message(4, Pattern::Incast { target: 0, senders: 4 }).contains("1 to 3 senders"));
        assert!(message(4, Pattern::Shift { distance: 8 }).contains("no multiple of 4"));
    }
}
