//! Costs of a message between two ranks, by size: what was measured, and between two sizes what lies between.

use fabriscope_mpi::probe::{Costs, Gaps, MessageCosts};
use fabriscope_units::Span;
use rustc_hash::FxHashMap;

/// Costs of one size.
#[derive(Debug, Clone, Default)]
pub(super) struct Sized {
    /// By how far domains are apart, in the order of the measurement.
    local: Vec<MessageCosts>,
    /// By domain, in the order of the measurement.
    near: Vec<MessageCosts>,
    far: Vec<MessageCosts>,
    pub gaps: Gaps,
}

/// Costs by size and place.
pub(super) struct Table<'a> {
    costs: &'a Costs,
    per_node: usize,
    /// By a pair of ranks of a node, which row of `local`.
    between: Vec<u8>,
    /// By rank of a node, which row of `near`.
    domain: Vec<u8>,
    /// Latency of the ways of the measurement (ps): to the near node and to the far one.
    ways: (u64, u64),
    known: FxHashMap<u64, u32>,
    sizes: Vec<Sized>,
}

impl<'a> Table<'a> {
    pub fn new(costs: &'a Costs, per_node: u32, ways: (u64, u64)) -> Table<'a> {
        let domains = &costs.domains;
        let at = |rank: u32| domains.get(rank as usize).copied().unwrap_or(0);
        let row = |from: u32, to: u32| {
            let apart = costs.crossing(at(from), at(to));
            costs.local.iter().position(|(known, _)| *known == apart).unwrap_or(0) as u8
        };
        let pairs = (0..per_node).flat_map(|from| (0..per_node).map(move |to| (from, to)));
        let domain = |rank: u32| costs.near.iter().position(|(known, _)| *known == at(rank)).unwrap_or(0) as u8;
        Table {
            costs,
            per_node: per_node as usize,
            between: pairs.map(|(from, to)| row(from, to)).collect(),
            domain: (0..per_node).map(domain).collect(),
            ways,
            known: FxHashMap::default(),
            sizes: Vec::new(),
        }
    }

    /// The costs of `bytes`.
    pub fn of(&mut self, bytes: u64) -> u32 {
        if let Some(index) = self.known.get(&bytes) {
            return *index;
        }
        let costs = self.costs;
        let sizes = &costs.sizes;
        let above = sizes.partition_point(|size| u64::from(*size) < bytes).min(sizes.len().saturating_sub(1));
        let below = if u64::from(sizes[above]) > bytes { above.saturating_sub(1) } else { above };
        let (low, high) = (u64::from(sizes[below]), u64::from(sizes[above]));
        let share = if high > low { (bytes.clamp(low, high) - low) as f64 / (high - low) as f64 } else { 0.0 };
        let row = |row: &Vec<MessageCosts>| mixed(row[below], row[above], share);
        let sized = Sized {
            local: costs.local.iter().map(|(_, costs)| row(costs)).collect(),
            near: costs.near.iter().map(|(_, costs)| row(costs)).collect(),
            far: costs.far.iter().map(|(_, costs)| row(costs)).collect(),
            gaps: mixed_gaps(&costs.gaps[below], &costs.gaps[above], share),
        };
        self.sizes.push(sized);
        self.known.insert(bytes, self.sizes.len() as u32 - 1);
        self.sizes.len() as u32 - 1
    }

    /// What a message to another node keeps the adapters for in its direction, and of both.
    pub fn gaps(&self, index: u32) -> (u64, u64) {
        let gaps = &self.sizes[index as usize].gaps;
        (gaps.remote.as_ps(), gaps.both.as_ps())
    }

    /// The kind of a pair.
    pub fn kind(&self, from: u32, to: u32) -> u8 {
        self.between[from as usize * self.per_node + to as usize]
    }

    /// A message between two ranks of one node, by their places there.
    pub fn local(&self, index: u32, from: u32, to: u32) -> MessageCosts {
        self.sizes[index as usize].local.get(usize::from(self.kind(from, to))).copied().unwrap_or_default()
    }

    /// What a message keeps shared memories and links for.
    pub fn local_gap(&self, index: u32, kind: u8) -> u64 {
        self.sizes[index as usize].gaps.local.get(usize::from(kind)).map_or(0, |gap| gap.as_ps())
    }

    /// The receiver's call, for a message from within its node or from another one.
    pub fn receiving(&self, index: u32, inside: bool, from: u32, to: u32) -> Span {
        if inside { self.local(index, from, to).receive } else { self.remote(index, from, to, self.ways.0).receive }
    }

    /// A message between ranks of two nodes, by their places there, on a way of this latency (ps).
    pub fn remote(&self, index: u32, from: u32, to: u32, way: u64) -> MessageCosts {
        let sized = &self.sizes[index as usize];
        let at = |row: &[MessageCosts], rank: u32| row.get(usize::from(self.domain[rank as usize])).copied().unwrap_or_default();
        let near = ends(at(&sized.near, from), at(&sized.near, to));
        let (nearest, farthest) = self.ways;
        if sized.far.is_empty() || nearest == farthest || way == nearest {
            return near;
        }
        let far = ends(at(&sized.far, from), at(&sized.far, to));
        let share = (way as f64 - nearest as f64) / (farthest as f64 - nearest as f64);
        mixed(near, far, share)
    }
}

/// The sender's side of one message, the receiver's of another, and on the way half of each.
fn ends(sender: MessageCosts, receiver: MessageCosts) -> MessageCosts {
    let half = mixed(sender, receiver, 0.5);
    MessageCosts { post: sender.post, receive: receiver.receive, take: receiver.take, ..half }
}

fn span(low: Span, high: Span, share: f64) -> Span {
    let (low, high) = (low.as_ps() as f64, high.as_ps() as f64);
    Span::from_ps((low + (high - low) * share).max(0.0).round() as u64)
}

fn mixed(low: MessageCosts, high: MessageCosts, share: f64) -> MessageCosts {
    if low == high {
        return low;
    }
    let released = match (low.released, high.released) {
        (Some(low), Some(high)) => Some(span(low, high, share)),
        (_, high) if share > 0.5 => high,
        (low, _) => low,
    };
    MessageCosts {
        post: span(low.post, high.post, share),
        receive: span(low.receive, high.receive, share),
        take: span(low.take, high.take, share),
        ready: span(low.ready, high.ready, share),
        late: span(low.late, high.late, share),
        found: span(low.found, high.found, share),
        sent: span(low.sent, high.sent, share),
        released,
        needs_sender: if share > 0.5 { high.needs_sender } else { low.needs_sender },
    }
}

fn mixed_gaps(low: &Gaps, high: &Gaps, share: f64) -> Gaps {
    Gaps {
        remote: span(low.remote, high.remote, share),
        both: span(low.both, high.both, share),
        local: low.local.iter().zip(&high.local).map(|(low, high)| span(*low, *high, share)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: fn(u64) -> Span = Span::from_ns;

    fn message(ready: u64, released: Option<u64>) -> MessageCosts {
        MessageCosts { post: NS(ready / 4), ready: NS(ready), released: released.map(NS), ..MessageCosts::default() }
    }

    /// Sizes of 100 and 200 bytes, two domains 50 ns apart, a near node at 1 us of cables and a far one at 3 us.
    fn costs() -> Costs {
        Costs {
            sizes: vec![100, 200],
            domains: vec![0, 1, 0],
            crossings: vec![(0, 0, Span::ZERO), (0, 1, NS(50)), (1, 0, NS(50)), (1, 1, Span::ZERO)],
            local: vec![(NS(50), vec![message(400, None), message(600, None)]), (Span::ZERO, vec![message(300, None), message(500, None)])],
            near: vec![(0, vec![message(1000, None), message(2000, Some(9))]), (1, vec![message(1400, None), message(2400, Some(9))])],
            far: vec![(0, vec![message(3000, None), message(4000, Some(9))]), (1, vec![message(3400, None), message(4400, Some(9))])],
            gaps: vec![Gaps { local: vec![NS(1), NS(3)], ..Gaps::default() }; 2],
        }
    }

    #[test]
    fn costs_lie_between_those_of_the_sizes_and_places_around() {
        let costs = costs();
        let mut table = Table::new(&costs, 3, (1_000_000, 3_000_000));
        let (low, middle, high) = (table.of(100), table.of(150), table.of(900));
        // Ranks 0 and 2 share a domain, 0 and 1 do not.
        assert_eq!([(0, 2), (0, 1)].map(|(from, to)| table.local(middle, from, to).ready), [NS(400), NS(500)]);
        assert_eq!((table.local_gap(low, table.kind(0, 1)), table.local_gap(low, table.kind(0, 2))), (1000, 3000));
        // Between domains 0 and 1 half of each; 2 us of cables are half way from near to far.
        assert_eq!(table.remote(low, 0, 1, 1_000_000).ready, NS(1200));
        assert_eq!(table.remote(low, 0, 0, 2_000_000).ready, NS(2000));
        // Beyond the largest size, its costs; half way to it the ends do not meet yet.
        assert_eq!(table.remote(high, 0, 0, 1_000_000), costs.near[0].1[1]);
        assert_eq!(table.remote(middle, 0, 0, 1_000_000).released, None);
    }
}
