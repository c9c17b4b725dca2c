//! The busiest link of a pattern under a routing, and how far it is from the best that the cables allow.
//!
//! Every endpoint that sends offers the same: as much as the slowest link of an endpoint takes, shared by its messages. A
//! load of 1 fills a link. Where the busiest link has 3, the pattern takes three times as long as the endpoints' own
//! links need. No routing can be better than `ideal`: the busiest link of an endpoint, or the sum of what trunks
//! must carry over shortest paths, spread over all of them evenly.
//!
//! Modelled: routings that spread packets send several per message, each with another entropy. Not modelled: adaptive
//! routing sees an idle network here, and takes the paths that it would take there.

use super::{Backbone, shortest_hops};
use crate::graph::{EndpointId, LinkId, Node};
use crate::routing::{Load, Route};
use crate::topology::Fabric;

/// How much every endpoint that sends has to say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// Messages of an endpoint, which share what it can send.
    pub messages: u32,
    /// Packets of a message that are followed, each with an entropy of its own.
    pub packets: u32,
    /// Trunks on the shortest path of a message, in the mean.
    pub hops: f64,
}

/// Load of all links, as shares of what they carry when every endpoint sends as fast as it can.
#[derive(Clone, Debug, PartialEq)]
pub struct Pressure {
    /// By link its load.
    pub links: Vec<f64>,
    /// The busiest link between switches, the first of them; none without trunks.
    pub busiest: Option<LinkId>,
    /// Mean load of the links between switches.
    pub mean: f64,
    /// Load of the busiest link of an endpoint.
    pub endpoints: f64,
    /// The least that the busiest link can have under any routing.
    pub ideal: f64,
    /// Pairs of endpoints without a path.
    pub unreachable: u64,
}

impl Pressure {
    /// The load of the busiest link of all.
    pub fn worst(&self) -> f64 {
        self.busiest.map_or(0.0, |link| self.links[link.index()]).max(self.endpoints)
    }
    /// How many times the ideal that is.
    pub fn factor(&self) -> f64 {
        if self.ideal > 0.0 { self.worst() / self.ideal } else { 1.0 }
    }
}

/// The load of messages between these pairs.
#[must_use]
pub fn pressure(
    fabric: &Fabric,
    route: &impl Route,
    messages: impl IntoIterator<Item = (EndpointId, EndpointId)>,
    offer: &Offer,
) -> Pressure {
    let graph = &fabric.graph;
    let packets = offer.packets.max(1);
    let load = Load::of_flows(fabric, route, messages, packets);
    let followed = load.pairs.iter().sum::<u64>() + load.unreachable;
    let slowest = graph.endpoints().map(|endpoint| graph.link(graph.uplink(endpoint)).rate).min();
    // What one packet stands for, in bit/s.
    let unit = slowest.map_or(0.0, |rate| rate.as_bps() as f64) / f64::from(offer.messages.max(1)) / f64::from(packets);
    let share = |link: usize| load.links[link] as f64 * unit / graph.links()[link].rate.as_bps() as f64;
    let links: Vec<f64> = (0..graph.links().len()).map(share).collect();
    let is_trunk = |link: &crate::Link| [link.from, link.to].iter().all(|&end| matches!(graph.node(end), Node::Switch(_)));
    let (mut busiest, mut sum, mut trunks, mut capacity, mut endpoints) = (None::<LinkId>, 0.0, 0u64, 0.0, 0.0f64);
    for (index, link) in graph.links().iter().enumerate() {
        if !is_trunk(link) {
            endpoints = endpoints.max(links[index]);
            continue;
        }
        if busiest.is_none_or(|most| links[index] > links[most.index()]) {
            busiest = Some(LinkId(index as u32));
        }
        sum += links[index];
        trunks += 1;
        capacity += link.rate.as_bps() as f64;
    }
    let needed = if capacity > 0.0 { offer.hops * followed as f64 * unit / capacity } else { 0.0 };
    let mean = if trunks == 0 { 0.0 } else { sum / trunks as f64 };
    Pressure { links, busiest, mean, endpoints, ideal: endpoints.max(needed), unreachable: load.unreachable }
}

/// Trunks on the shortest path between the switches of these pairs of endpoints, in the mean over those that have one.
#[must_use]
pub fn mean_hops(fabric: &Fabric, backbone: &Backbone, pairs: &[(EndpointId, EndpointId)]) -> f64 {
    let graph = &fabric.graph;
    let switch = |endpoint: EndpointId| match graph.node(graph.link(graph.uplink(endpoint)).to) {
        Node::Switch(at) => Some(at),
        Node::Endpoint(_) => None,
    };
    let pairs: Vec<_> = pairs.iter().filter_map(|&(src, dest)| switch(src).zip(switch(dest))).collect();
    let (mut sum, mut count) = (0u64, 0u64);
    for hops in shortest_hops(backbone, &pairs).into_iter().flatten() {
        sum += u64::from(hops);
        count += 1;
    }
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}
