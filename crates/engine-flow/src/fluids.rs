//! Rates of fluids that run at once and each go several ways together: rings and trees of collective libraries.
//!
//! A ring of a collective operation moves at the pace of its slowest edge, so it is one fluid that uses the links of all its edges. Rates
//! are max-min fair ([`Network`]).
//!
//! Modelled: links of the fabric, slots of adapters, ways to the memory of GPUs; what a fluid can move at most.
//! Not modelled: edges within a node, which the caller's limit stands for.

use std::collections::BTreeMap;

use fabriscope_engine::{Cluster, EngineError};
use fabriscope_units::{Bytes, Rate, Span};

use crate::latency::Latency;
use crate::network::Network;
use crate::places::{Places, per_ps};

/// A fluid between ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct Fluid {
    /// From whom to whom, and the share of the fluid that goes there.
    pub ways: Vec<(u32, u32, f64)>,
    /// What it moves at most.
    pub most: Rate,
}

/// What fluids move while all of them run.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// Payload of each fluid.
    pub rates: Vec<Rate>,
    /// Across the fabric, the longest of all ways.
    pub latency: Span,
}

/// The rates of fluids between `ranks`, `per_node` on each node.
///
/// # Errors
/// More ranks than there is room for, or a cluster whose routes are not fixed.
pub fn rates(cluster: &Cluster, ranks: u32, per_node: u32, fluids: &[Fluid]) -> Result<Rates, EngineError> {
    let places = Places::new(cluster, ranks, per_node)?;
    let latency = Latency::of(cluster);
    let bytes = SAMPLE.0;
    let wire = latency.wire_bytes(bytes);
    let capacities: Vec<f64> = places.links(&latency).map(|(capacity, _)| capacity).collect();
    let own = u32::try_from(capacities.len()).map_err(|_| EngineError::Setup("more links than numbers".to_owned()))?;
    let headers = wire as f64 / bytes as f64;
    let limits = fluids.iter().map(|fluid| per_ps(fluid.most) * headers);
    let mut paths = Vec::with_capacity(fluids.len());
    let (mut way, mut longest) = (Vec::new(), 0);
    for (number, fluid) in (0..).zip(fluids) {
        let mut uses: BTreeMap<u32, f64> = BTreeMap::from([(own + number, 1.0)]);
        for (from, to, share) in &fluid.ways {
            if places.node(*from) == places.node(*to) {
                continue;
            }
            longest = longest.max(places.way(*from, *to, bytes, wire, &latency.switch, &mut way).latency);
            for (link, weight) in &way {
                *uses.entry(*link).or_default() += weight * share;
            }
        }
        paths.push(uses.into_iter().collect::<Vec<(u32, f64)>>());
    }
    let stride = paths.iter().map(Vec::len).max().unwrap_or(1) as u32;
    let mut network = Network::new(capacities.into_iter().chain(limits), stride);
    let flows: Vec<_> = paths.iter().map(|path| network.add(path)).collect();
    network.solve(|_, _, _| {});
    // Bytes per picosecond are 8 · 10¹² bits per second.
    let rate = |flow| Rate::from_bps((network.rate(flow) / headers * 8e12) as u64);
    Ok(Rates { rates: flows.into_iter().map(rate).collect(), latency: Span::from_ps(longest) })
}

/// The adapter of each of `per_node` GPUs of a node, by its number there: the nearest.
///
/// # Errors
/// GPUs that are not there, or that no adapter reaches.
pub fn adapters_of_gpus(cluster: &Cluster, per_node: u32) -> Result<Vec<u32>, EngineError> {
    let places = Places::new(cluster, per_node, per_node)?;
    Ok((0..per_node).map(|local| places.nic(local)).collect())
}

/// Long enough that headers count as in long messages.
const SAMPLE: Bytes = Bytes::from_kib(1024);
