//! The receivers of one message after the other, for patterns that are drawn message by message.
//!
//! Source: Dally and Towles 2004, §3.2 (tornado, transpose, bit complement); J. Kim et al., "Technology-driven,
//! highly-scalable dragonfly topology", ISCA 2008, §4 (the adversarial pattern: group i to group i + 1).

use fabriscope_streams::{Stream, Streams};

use super::{Pattern, PatternError, derangement};

/// A pattern among some ranks, ready to say where messages go.
pub struct Draw {
    pattern: Pattern,
    ranks: u32,
    /// By rank, where messages are drawn.
    streams: Vec<Stream>,
    /// By rank, where each has one receiver.
    fixed: Vec<u32>,
}

impl Draw {
    /// Prepares a pattern; incast and all-to-all are no patterns of single messages and are taken as uniform.
    ///
    /// # Errors
    /// Too few ranks for the pattern.
    pub fn new(pattern: Pattern, ranks: u32, seed: u64) -> Result<Draw, PatternError> {
        if ranks < 2 {
            return Err(PatternError::TooFewRanks { ranks });
        }
        match pattern {
            Pattern::Tornado { dims } | Pattern::Halo { dims, .. } if dims.places() > u64::from(ranks) || dims.places() < 2 => {
                let remedy = "use a smaller grid, or one with more than one place";
                return Err(PatternError::Shape { needs: format!("a grid of 2 to {ranks} places, not {}", dims.places()), ranks, remedy });
            }
            Pattern::Adversarial { group } if group == 0 || ranks / group < 2 => {
                let remedy = "use a topology with groups, or more ranks";
                return Err(PatternError::Shape { needs: format!("two groups of {group} ranks"), ranks, remedy });
            }
            Pattern::Transpose if ranks < 4 => {
                return Err(PatternError::Shape { needs: "a square of at least 4 ranks".to_owned(), ranks, remedy: "use more ranks" });
            }
            _ => {}
        }
        let streams = Streams::new(seed);
        let drawn = matches!(
            pattern,
            Pattern::Uniform | Pattern::Adversarial { .. } | Pattern::HotSpot { .. } | Pattern::Incast { .. } | Pattern::AllToAll
        );
        let streams = if drawn { (0..ranks).map(|rank| streams.stream("drawn traffic", rank.into())).collect() } else { Vec::new() };
        let fixed = if pattern == Pattern::Permutation { derangement(ranks, seed) } else { Vec::new() };
        Ok(Draw { pattern, ranks, streams, fixed })
    }

    /// Adds the receivers of the next message of `rank`: several for a halo, none where the rank has nobody to send to.
    pub fn receivers(&mut self, rank: u32, to: &mut Vec<u32>) {
        let ranks = self.ranks;
        let other = |stream: &mut Stream| {
            let other = stream.below(u64::from(ranks) - 1) as u32;
            other + u32::from(other >= rank)
        };
        match self.pattern {
            Pattern::Permutation => to.push(self.fixed[rank as usize]),
            Pattern::Shift { distance } => to.push(((u64::from(rank) + u64::from(distance)) % u64::from(ranks)) as u32),
            Pattern::Tornado { dims } => {
                if u64::from(rank) < dims.places() {
                    let turn = |place, (axis, &size): (usize, &u32)| dims.shifted(place, axis, size.div_ceil(2) - 1);
                    let far = dims.sizes().iter().enumerate().fold(rank, turn);
                    to.extend((far != rank).then_some(far));
                }
            }
            Pattern::Transpose => {
                let side = ranks.isqrt();
                if rank < side * side && rank / side != rank % side {
                    to.push(rank % side * side + rank / side);
                }
            }
            Pattern::BitComplement => to.extend((ranks - 1 - rank != rank).then_some(ranks - 1 - rank)),
            Pattern::Adversarial { group } => {
                // Ranks beyond the last full group send nothing.
                let groups = ranks / group;
                if rank < groups * group {
                    let next = (rank / group + 1) % groups;
                    to.push(next * group + self.streams[rank as usize].below(group.into()) as u32);
                }
            }
            Pattern::HotSpot { targets, share } => {
                let stream = &mut self.streams[rank as usize];
                let hot = stream.next_u32() < share;
                let target = stream.below(targets.max(1).into()) as u32;
                to.push(if hot && target != rank { target } else { other(stream) });
            }
            Pattern::Halo { dims, periodic } => {
                if u64::from(rank) < dims.places() {
                    for (axis, &size) in dims.sizes().iter().enumerate() {
                        let at = dims.coordinate(rank, axis);
                        if size > 1 && (periodic || at + 1 < size) {
                            to.push(dims.shifted(rank, axis, 1));
                        }
                        // With two places the neighbours on both sides are one.
                        if size > 1 && if periodic { size > 2 } else { at > 0 } {
                            to.push(dims.shifted(rank, axis, size - 1));
                        }
                    }
                }
            }
            Pattern::Uniform | Pattern::Incast { .. } | Pattern::AllToAll => to.push(other(&mut self.streams[rank as usize])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dims;

    fn first(pattern: Pattern, ranks: u32) -> Vec<Vec<u32>> {
        let mut draw = Draw::new(pattern, ranks, 1).unwrap();
        let receivers = |rank| {
            let mut to = Vec::new();
            draw.receivers(rank, &mut to);
            to
        };
        (0..ranks).map(receivers).collect()
    }

    #[test]
    fn patterns_with_one_receiver() {
        // A ring of 8: 8 / 2 - 1 = 3 places further; of 5: 3 - 1 = 2.
        assert_eq!(first(Pattern::Tornado { dims: Dims::new(&[8]) }, 8)[6], [1]);
        assert_eq!(first(Pattern::Tornado { dims: Dims::new(&[5]) }, 5)[4], [1]);
        // 4 × 4, one place further in each: (3, 1) to (0, 2).
        assert_eq!(first(Pattern::Tornado { dims: Dims::new(&[4, 4]) }, 16)[3 + 4], [8]);
        assert_eq!(first(Pattern::Transpose, 9), [vec![], vec![3], vec![6], vec![1], vec![], vec![7], vec![2], vec![5], vec![]]);
        assert_eq!(first(Pattern::BitComplement, 5), [vec![4], vec![3], vec![], vec![1], vec![0]]);
        let next: Vec<u32> = first(Pattern::Adversarial { group: 4 }, 13).into_iter().flatten().map(|to| to / 4).collect();
        assert_eq!(next, [1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0]);
    }

    #[test]
    fn neighbours_of_a_grid() {
        let halo = |sizes: &[u32], periodic| first(Pattern::Halo { dims: Dims::new(sizes), periodic }, 12);
        assert_eq!(halo(&[4, 3], false)[5], [6, 4, 9, 1]);
        assert_eq!(halo(&[4, 3], false)[0], [1, 4]);
        assert_eq!(halo(&[4, 3], true)[0], [1, 3, 4, 8]);
        assert_eq!(halo(&[2], true)[1], [0]);
    }

    #[test]
    fn a_share_is_hot() {
        let mut draw = Draw::new(Pattern::HotSpot { targets: 2, share: u32::MAX / 4 }, 64, 1).unwrap();
        let mut to = Vec::new();
        (0..4000).for_each(|_| draw.receivers(40, &mut to));
        let hot = to.iter().filter(|&&to| to < 2).count();
        // A quarter, and 2 / 63 of the rest: 1095 ± 5 standard deviations of 28.
        assert!((950..1240).contains(&hot), "{hot}");
        assert!(!to.contains(&40));
    }
}
