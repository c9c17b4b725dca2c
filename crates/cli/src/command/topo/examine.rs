//! All that the command finds out about a fabric, a routing and a pattern.

use fabriscope_fabric::analysis::{
    Backbone, Bisection, Census, Distances, Diversity, Offer, Pressure, bisection, census, distances, diversity, mean_hops, pressure,
};
use fabriscope_fabric::routing::deadlock::{self, Verdict};
use fabriscope_fabric::{Route, Router, Routing};
use fabriscope_units::Remedy;

use super::algorithm::Algorithm;
use super::pattern::{Pairs, Traffic};
use super::source::Source;
use crate::error::Failure;

/// What was found.
pub struct Examined {
    pub routing: Routing,
    /// Name of the pattern and what a person should know of it.
    pub pattern: String,
    pub note: Option<String>,
    pub census: Census,
    pub distances: Distances,
    pub diversity: Diversity,
    pub bisection: Option<Bisection>,
    pub pressure: Pressure,
    pub lanes: u8,
    pub deadlock: Verdict,
    /// Whether the routing chooses by queues, which are empty here.
    pub adaptive: bool,
}

/// Looks at everything.
pub fn examine(source: &Source, algorithm: Algorithm, traffic: &Traffic) -> Result<Examined, Failure> {
    let fabric = &source.fabric;
    let router = Router::new(fabric, algorithm.0).map_err(|error| {
        let (message, help) = error.halves("see `fabriscope topo --help`");
        Failure::told(message, help)
    })?;
    let backbone = Backbone::new(fabric);
    let distances = distances(&backbone);
    let endpoints = u64::from(fabric.graph.endpoint_count());
    let (pairs, hops) = match &traffic.pairs {
        Pairs::All => (endpoints * (endpoints - 1), (distances.mean() - 1.0).max(0.0)),
        Pairs::Some(pairs) => (pairs.len() as u64, mean_hops(fabric, &backbone, pairs)),
    };
    // Routings that spread the packets of a message are followed packet by packet.
    let packets = if algorithm.0.reorders() { (PACKETS / pairs.max(1)).clamp(1, 64) as u32 } else { 1 };
    let offer = Offer { messages: traffic.messages, packets, hops };
    let pressure = match &traffic.pairs {
        Pairs::All => {
            let graph = &fabric.graph;
            let all = graph.endpoints().flat_map(|src| graph.endpoints().filter(move |&dest| dest != src).map(move |dest| (src, dest)));
            pressure(fabric, &router, all, &offer)
        }
        Pairs::Some(pairs) => pressure(fabric, &router, pairs.iter().copied(), &offer),
    };
    Ok(Examined {
        routing: algorithm.0,
        pattern: traffic.name.clone(),
        note: traffic.note.clone(),
        census: census(fabric),
        diversity: diversity(&backbone),
        bisection: bisection(fabric, &backbone),
        distances,
        pressure,
        lanes: router.lanes(),
        deadlock: deadlock::verdict(fabric, &router),
        adaptive: !router.oblivious(),
    })
}

/// Packets that are followed in all, about: a second.
const PACKETS: u64 = 1 << 22;
