//! How many ways there are: shortest paths between endpoints, and paths that have no cable in common.
//!
//! The number of shortest paths follows from one search per switch: a switch is reached by as many as those before it
//! together, times the cables of each trunk. Paths without a common cable are a maximum flow with one unit per cable
//! (Menger 1927); they may be longer than the shortest.

use std::collections::BTreeMap;

use super::Backbone;
use super::flow::Network;
use super::sample::sample;
use crate::graph::SwitchId;

/// How many ways there are between endpoints of different switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diversity {
    /// Shortest paths between two endpoints.
    pub shortest: Spread,
    /// Paths between two switches with endpoints that have no cable in common.
    pub disjoint: Spread,
}

/// Least, middle and most of some numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// The smallest.
    pub min: u64,
    /// Half of them are not larger.
    pub median: u64,
    /// The largest.
    pub max: u64,
    /// How many there are.
    pub of: u64,
    /// Whether they were drawn from more.
    pub sampled: bool,
}

impl Spread {
    fn of(counts: &BTreeMap<u64, u64>, sampled: bool) -> Spread {
        let all: u64 = counts.values().sum();
        let mut below = 0;
        let median = counts.iter().find(|(_, count)| {
            below += **count;
            2 * below >= all
        });
        let (min, max) = (counts.keys().next(), counts.keys().next_back());
        let value = |found: Option<&u64>| found.copied().unwrap_or(0);
        Spread { min: value(min), median: value(median.map(|found| found.0)), max: value(max), of: all, sampled }
    }
}

/// Counts paths; where there are many switches, from a sample of them.
#[must_use]
pub fn diversity(backbone: &Backbone) -> Diversity {
    Diversity { shortest: shortest(backbone), disjoint: disjoint(backbone) }
}

/// Shortest paths between pairs of endpoints.
fn shortest(backbone: &Backbone) -> Spread {
    let leaves = backbone.leaves();
    let most = (MOST_STEPS / (backbone.trunk_ends().max(1) as u64)).clamp(16, u64::from(u32::MAX)) as u32;
    let drawn = sample(most, leaves.len() as u32, SHORTEST);
    let sampled = drawn.len() < leaves.len();
    let switches = backbone.switches() as usize;
    let (mut step, mut paths) = (vec![u32::MAX; switches], vec![0u64; switches]);
    let mut counts = BTreeMap::new();
    let (mut order, mut found): (Vec<SwitchId>, Vec<(u64, u64)>) = (Vec::new(), Vec::new());
    for source in drawn.into_iter().map(|index| leaves[index as usize]) {
        step.fill(u32::MAX);
        paths.fill(0);
        (step[source.index()], paths[source.index()]) = (0, 1);
        order.clear();
        order.push(source);
        let mut done = 0;
        while let Some(&at) = order.get(done) {
            done += 1;
            for trunk in backbone.trunks(at) {
                let to = trunk.to.index();
                if step[to] == u32::MAX {
                    step[to] = step[at.index()] + 1;
                    order.push(trunk.to);
                }
                if step[to] == step[at.index()] + 1 {
                    paths[to] = paths[to].saturating_add(paths[at.index()].saturating_mul(u64::from(trunk.cables)));
                }
            }
        }
        let pairs = |leaf: SwitchId| u64::from(backbone.endpoints(source)) * u64::from(backbone.endpoints(leaf));
        let others = leaves.iter().filter(|&&leaf| leaf != source && step[leaf.index()] != u32::MAX);
        found.clear();
        found.extend(others.map(|&leaf| (paths[leaf.index()], pairs(leaf))));
        found.sort_unstable();
        for alike in found.chunk_by(|one, other| one.0 == other.0) {
            *counts.entry(alike[0].0).or_insert(0) += alike.iter().map(|found| found.1).sum::<u64>();
        }
    }
    Spread::of(&counts, sampled)
}

/// Paths without a common cable, between pairs of switches.
fn disjoint(backbone: &Backbone) -> Spread {
    let leaves = backbone.leaves().len() as u64;
    // Of more pairs than 32 bits hold, some hundred are drawn anyway.
    let all = u32::try_from(leaves * leaves.saturating_sub(1) / 2).unwrap_or(u32::MAX);
    let most = (MOST_FLOW_STEPS / (backbone.trunk_ends().max(1) as u64)).clamp(8, 256) as u32;
    let drawn = sample(most, all, DISJOINT);
    let sampled = (drawn.len() as u32) < all;
    let mut network = Network::new(backbone.switches());
    for at in (0..backbone.switches()).map(SwitchId) {
        for trunk in backbone.trunks(at).iter().filter(|trunk| at < trunk.to) {
            network.join(at.0, trunk.to.0, u64::from(trunk.cables));
        }
    }
    let mut network = network.ready();
    let mut counts = BTreeMap::new();
    for number in drawn {
        let (low, high) = pair(number);
        let leaf = |index: u32| backbone.leaves()[index as usize].0;
        *counts.entry(network.most(leaf(low), leaf(high))).or_insert(0) += 1;
    }
    Spread::of(&counts, sampled)
}

/// The pairs a < b in the order (0, 1), (0, 2), (1, 2), (0, 3) …
fn pair(number: u32) -> (u32, u32) {
    let number = u64::from(number);
    let mut high = (2 * number).isqrt();
    while high * (high + 1) / 2 <= number {
        high += 1;
    }
    while high * (high - 1) / 2 > number {
        high -= 1;
    }
    ((number - high * (high - 1) / 2) as u32, high as u32)
}

/// Trunk ends that all searches together may look at: about a second.
const MOST_STEPS: u64 = 1 << 28;
/// The same for flows, each of which looks at them some twenty times.
const MOST_FLOW_STEPS: u64 = 1 << 25;
/// Set these samples apart from others.
const SHORTEST: u32 = 2;
const DISJOINT: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_numbered_through() {
        let mut expected = (1..9).flat_map(|high| (0..high).map(move |low| (low, high)));
        assert!((0..36).all(|number| expected.next() == Some(pair(number))));
        assert_eq!(pair(u32::MAX).1, 92_682);
    }

    #[test]
    fn the_middle_of_some() {
        let spread = Spread::of(&BTreeMap::from([(1, 2), (4, 1), (9, 1)]), false);
        assert_eq!((spread.min, spread.median, spread.max, spread.of), (1, 1, 9, 4));
        assert_eq!(Spread::of(&BTreeMap::new(), false), Spread::default());
    }
}
