//! Switches on the shortest paths between endpoints: how many pairs have how many.
//!
//! Breadth-first searches from 256 switches at once: each switch holds one bit per search, and a step of all searches is
//! one pass over the trunks. So all pairs of the largest dragonfly (17,440 switches, 837,120 trunk ends) take about a second.
//!
//! Source: M. Then et al., "The more the merrier: efficient multi-source graph traversal", PVLDB 8(4), 2014.

use super::Backbone;
use super::sample::sample;
use crate::graph::SwitchId;

/// Pairs of endpoints by the switches on their shortest path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distances {
    /// Ordered pairs of endpoints with 0, 1, 2 … switches between them.
    pub pairs: Vec<u64>,
    /// Pairs without a path.
    pub apart: u64,
    /// Where not all switches were searched from: how many were drawn.
    pub sampled: Option<u32>,
}

impl Distances {
    /// The most switches on a shortest path.
    pub fn diameter(&self) -> u32 {
        self.pairs.iter().rposition(|&pairs| pairs > 0).unwrap_or(0) as u32
    }
    /// Switches on a shortest path, in the mean over all pairs that have one.
    pub fn mean(&self) -> f64 {
        let all: u64 = self.pairs.iter().sum();
        let switches: u128 = self.pairs.iter().zip(0u128..).map(|(&pairs, switches)| u128::from(pairs) * switches).sum();
        if all == 0 { 0.0 } else { switches as f64 / all as f64 }
    }
}

/// Distances between all endpoints; from a sample of the switches where all would take more than some seconds.
#[must_use]
pub fn distances(backbone: &Backbone) -> Distances {
    let (leaves, ends) = (backbone.leaves(), backbone.trunk_ends().max(1) as u64);
    let most = (MOST_STEPS / ends).saturating_mul(BITS as u64).clamp(BITS as u64, u64::from(u32::MAX)) as u32;
    let drawn = sample(most, leaves.len() as u32, SALT);
    let sampled = (drawn.len() < leaves.len()).then_some(drawn.len() as u32);
    let mut sources: Vec<SwitchId> = drawn.into_iter().map(|index| leaves[index as usize]).collect();
    // Searches side by side have equal weight, so that bits need not be told apart.
    sources.sort_by_key(|&source| (backbone.endpoints(source), source));
    let all: u64 = leaves.iter().map(|&leaf| u64::from(backbone.endpoints(leaf))).sum();
    let (mut pairs, mut apart) = (vec![0u64; 2], 0);
    for alike in sources.chunk_by(|one, other| backbone.endpoints(*one) == backbone.endpoints(*other)) {
        let weight = u64::from(backbone.endpoints(alike[0]));
        pairs[1] += alike.len() as u64 * weight * (weight - 1);
        for batch in alike.chunks(BITS) {
            let mut met = batch.len() as u64 * weight;
            search(backbone, batch, |step, switch, new| {
                let switches = step as usize + 1;
                pairs.resize(pairs.len().max(switches + 1), 0);
                let reached = u64::from(ones(new)) * u64::from(backbone.endpoints(switch));
                pairs[switches] += reached * weight;
                met += reached;
            });
            apart += (batch.len() as u64 * all - met) * weight;
        }
    }
    while pairs.last() == Some(&0) {
        pairs.pop();
    }
    Distances { pairs, apart, sampled }
}

/// Trunks on the shortest path of each pair of switches; `None` where there is no path.
#[must_use]
pub fn shortest_hops(backbone: &Backbone, pairs: &[(SwitchId, SwitchId)]) -> Vec<Option<u32>> {
    let mut hops = vec![None; pairs.len()];
    let mut order: Vec<u32> = (0..pairs.len() as u32).collect();
    order.sort_by_key(|&index| pairs[index as usize]);
    let mut sources: Vec<SwitchId> = pairs.iter().map(|pair| pair.0).collect();
    sources.sort_unstable();
    sources.dedup();
    let mut rest = order.as_slice();
    for batch in sources.chunks(BITS) {
        let last = batch[batch.len() - 1];
        let (these, others) = rest.split_at(rest.partition_point(|&index| pairs[index as usize].0 <= last));
        rest = others;
        // Pairs of this batch by the switch where they end.
        let mut ends: Vec<(SwitchId, u32)> = these.iter().map(|&index| (pairs[index as usize].1, index)).collect();
        ends.sort_unstable();
        for &(end, index) in &ends {
            if pairs[index as usize].0 == end {
                hops[index as usize] = Some(0);
            }
        }
        search(backbone, batch, |step, switch, new| {
            let from = ends.partition_point(|end| end.0 < switch);
            for &(_, index) in ends[from..].iter().take_while(|end| end.0 == switch) {
                let bit = batch.partition_point(|&source| source < pairs[index as usize].0);
                if new[bit / 64] >> (bit % 64) & 1 == 1 {
                    hops[index as usize] = Some(step);
                }
            }
        });
    }
    hops
}

/// Searches from up to 256 different switches; tells for each step and switch which searches reach it first.
fn search(backbone: &Backbone, sources: &[SwitchId], mut visit: impl FnMut(u32, SwitchId, &Bits)) {
    let switches = backbone.switches() as usize;
    let (mut seen, mut front, mut next) = (vec![[0u64; WORDS]; switches], vec![[0u64; WORDS]; switches], vec![[0u64; WORDS]; switches]);
    for (bit, source) in sources.iter().enumerate() {
        seen[source.index()][bit / 64] |= 1 << (bit % 64);
        front[source.index()][bit / 64] |= 1 << (bit % 64);
    }
    let mut step = 0;
    loop {
        step += 1;
        for (switch, here) in front.iter().enumerate().filter(|(_, here)| **here != [0; WORDS]) {
            for trunk in backbone.trunks(SwitchId(switch as u32)) {
                let there = &mut next[trunk.to.index()];
                (0..WORDS).for_each(|word| there[word] |= here[word]);
            }
        }
        let mut more = false;
        for (switch, seen) in seen.iter_mut().enumerate() {
            let new = &mut next[switch];
            (0..WORDS).for_each(|word| new[word] &= !seen[word]);
            front[switch] = *new;
            if *new != [0; WORDS] {
                (0..WORDS).for_each(|word| seen[word] |= new[word]);
                visit(step, SwitchId(switch as u32), new);
                *new = [0; WORDS];
                more = true;
            }
        }
        if !more {
            return;
        }
    }
}

fn ones(bits: &Bits) -> u32 {
    bits.iter().map(|word| word.count_ones()).sum()
}

/// Searches side by side.
const BITS: usize = 64 * WORDS;
const WORDS: usize = 4;
type Bits = [u64; WORDS];
/// Trunk ends that all searches together may look at, in batches of 256: some seconds.
const MOST_STEPS: u64 = 1 << 28;
/// Sets this sample apart from others.
const SALT: u32 = 1;
