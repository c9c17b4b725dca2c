//! Rates of fluids that run at once and each go several ways together: rings and trees of collective libraries.
//!
//! A ring of a collective operation moves at the pace of its slowest edge, so it is one fluid that uses the links of all its edges. Rates
//! are max-min fair ([`Network`]).
//!
//! Modelled: links of the fabric, slots of adapters, ways to the memory of GPUs; what a fluid can move at most.
//! Not modelled: edges within a node, which the caller's limit stands for.

use std::collections::BTreeMap;

use fabriscope_engine::{Cluster, EngineError};
use fabriscope_fabric::{LinkId, Node};
use fabriscope_units::{Bytes, Rate, Span};

use crate::latency::Latency;
use crate::network::Network;
use crate::places::{Nodes, Places, per_ps};

/// A fluid between ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct Fluid {
    /// From whom to whom, and the share of the fluid that goes there.
    pub ways: Vec<(u32, u32, f64)>,
    /// What it moves at most.
    pub most: Rate,
}

/// What holds a fluid back: of the links on its ways the one that is filled most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FluidBound {
    /// What it moves at most.
    Own,
    /// A link of a node.
    Node,
    /// The link of an adapter.
    Adapter,
    /// A link between switches.
    Uplink,
}

/// What fluids move while all of them run.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// Payload of each fluid.
    pub rates: Vec<Rate>,
    /// What each of them is held back by.
    pub bounds: Vec<FluidBound>,
    /// Across the fabric, the longest of all ways.
    pub latency: Span,
}

/// The rates of fluids between `ranks`, `per_node` on each node.
///
/// # Errors
/// More ranks than there is room for, or a cluster whose routes are not fixed.
pub fn rates(cluster: &Cluster, ranks: u32, per_node: u32, fluids: &[Fluid]) -> Result<Rates, EngineError> {
    rates_on(cluster, ranks, per_node, Nodes::default(), fluids)
}

/// The same where the job does not use all that its nodes have.
///
/// # Errors
/// As [`rates`].
pub fn rates_on(cluster: &Cluster, ranks: u32, per_node: u32, nodes: Nodes, fluids: &[Fluid]) -> Result<Rates, EngineError> {
    let places = Places::on(cluster, ranks, per_node, nodes)?;
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
    let capacities: Vec<f64> = capacities.into_iter().chain(limits).collect();
    let mut network = Network::new(capacities.iter().copied(), stride);
    let flows: Vec<_> = paths.iter().map(|path| network.add(path)).collect();
    network.solve(|_, _, _| {});
    // Bytes per picosecond are 8 · 10¹² bits per second.
    let rate = |flow| Rate::from_bps((network.rate(flow) / headers * 8e12) as u64);
    let mut loads = vec![0.0; capacities.len()];
    for (flow, path) in flows.iter().zip(&paths) {
        path.iter().for_each(|(link, weight)| loads[*link as usize] += weight * network.rate(*flow));
    }
    let bounds = paths.iter().map(|path| bound(cluster, own, path, &loads, &capacities)).collect();
    Ok(Rates { bounds, rates: flows.into_iter().map(rate).collect(), latency: Span::from_ps(longest) })
}

/// The fullest link of a path; of equally full ones the first.
fn bound(cluster: &Cluster, own: u32, path: &[(u32, f64)], loads: &[f64], capacities: &[f64]) -> FluidBound {
    let graph = &cluster.fabric.graph;
    let full = |link: u32| loads[link as usize] / capacities[link as usize].max(f64::MIN_POSITIVE);
    let mut most: Option<(u32, f64)> = None;
    for (link, _) in path {
        if most.is_none_or(|(_, fullest)| full(*link) > fullest * (1.0 + EQUAL)) {
            most = Some((*link, full(*link)));
        }
    }
    match most {
        Some((number, _)) if number < graph.link_count() => {
            let link = graph.link(LinkId(number));
            // The slot of the adapter is slower than its cable.
            if capacities[number as usize] < per_ps(link.rate) * (1.0 - EQUAL) {
                return FluidBound::Node;
            }
            let ends = [link.from, link.to].map(|end| graph.node(end));
            if ends.iter().all(|end| matches!(end, Node::Switch(_))) { FluidBound::Uplink } else { FluidBound::Adapter }
        }
        Some((link, _)) if link < own => FluidBound::Node,
        _ => FluidBound::Own,
    }
}

/// Links whose loads differ by less are equally full. Basis: assumed, what rounding leaves.
const EQUAL: f64 = 1e-9;

/// The adapter of each of `per_node` GPUs of a node, by its number there: the nearest.
///
/// # Errors
/// GPUs that are not there, or that no adapter reaches.
pub fn adapters_of_gpus(cluster: &Cluster, per_node: u32) -> Result<Vec<u32>, EngineError> {
    adapters_of_gpus_on(cluster, per_node, Nodes::default())
}

/// The same where the job does not use all that its nodes have.
///
/// # Errors
/// As [`adapters_of_gpus`].
pub fn adapters_of_gpus_on(cluster: &Cluster, per_node: u32, nodes: Nodes) -> Result<Vec<u32>, EngineError> {
    let places = Places::on(cluster, per_node, per_node, nodes)?;
    Ok((0..per_node).map(|local| places.nic(local)).collect())
}

/// Long enough that headers count as in long messages.
const SAMPLE: Bytes = Bytes::from_kib(1024);
