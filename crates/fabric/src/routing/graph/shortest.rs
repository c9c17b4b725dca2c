//! All shortest paths of any fabric, chosen among by flow, by packet, by pause or by queue.
//!
//! Where shortest paths can wait for each other in a cycle, the lane counts the hops between switches: a packet on lane *k*
//! only ever wants lane *k* + 1, so that the structured pool of buffers has no cycle.
//!
//! Source: P. Merlin and P. Schweitzer, "Deadlock avoidance in store-and-forward networks", IEEE Trans. Commun. 28(3),
//! 1980 (the structured buffer pool); C. Hopps, RFC 2992 (hash-threshold); E. Vanini et al., "Let it flow: resilient
//! asymmetric load balancing with flowlet switching", NSDI 2017 (a flow may move after a pause).
//! Modelled: parallel cables, a hash that is another one at each switch.
//! Not modelled: weights for unequal cables, detours.

use super::skeleton::{FAR, Plugs, Skeleton};
use crate::graph::{LinkId, Node, SwitchId};
use crate::routing::deadlock;
use crate::routing::hash::{below, hash};
use crate::routing::{Head, Hop, Route, Routing, RoutingError, SwitchView};
use crate::topology::Fabric;
use fabriscope_units::Span;

/// Prepares `ecmp`, `spray`, `adaptive` and `flowlet`.
pub(super) fn prepare(fabric: &Fabric, routing: Routing) -> Result<super::Router, RoutingError> {
    let choice = match routing {
        Routing::Spray => Choice::Turn,
        Routing::Adaptive => Choice::Queue,
        Routing::Flowlet(flowlet) => Choice::Pause(flowlet.gap),
        _ => Choice::Hash,
    };
    let skeleton = Skeleton::new(fabric, routing)?;
    Shortest::new(fabric, routing, &skeleton, choice).map(super::Router::Shortest)
}

/// How one of the shortest ways is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// By a hash of the flow.
    Hash,
    /// The next one for each packet.
    Turn,
    /// The one whose queue is shortest.
    Queue,
    /// The one whose queue is shortest, after a pause.
    Pause(Span),
}

/// Shortest paths on one fabric.
#[derive(Clone, Debug)]
pub(in crate::routing) struct Shortest {
    choice: Choice,
    plugs: Plugs,
    /// The place among the leaves of each endpoint's switch, and the link that delivers to it.
    home: Vec<(u32, LinkId)>,
    /// Words of 64 ports for each switch and leaf.
    words: usize,
    leaves: usize,
    /// By switch, then leaf: the ports of the shortest ways.
    ports: Vec<u64>,
    /// By link: whether it comes from a switch.
    trunk: Vec<bool>,
    /// Whether the lane counts the hops.
    counts: bool,
    lanes: u8,
    longest: u32,
}

impl Shortest {
    pub(super) fn new(fabric: &Fabric, routing: Routing, skeleton: &Skeleton, choice: Choice) -> Result<Shortest, RoutingError> {
        let graph = &fabric.graph;
        let most_ports = graph.switches().map(|at| graph.port_count(at)).max().unwrap_or(0);
        let words = usize::from(most_ports.div_ceil(64)).max(1);
        let leaves = skeleton.leaves.len();
        let mut ports = vec![0u64; skeleton.count() * leaves * words];
        let mut home = vec![(0, LinkId(0)); graph.endpoint_count() as usize];
        let mut farthest = 0;
        for (number, leaf) in skeleton.leaves.iter().enumerate() {
            for &(endpoint, _) in &leaf.endpoints {
                home[endpoint.index()] = (number as u32, graph.uplink(endpoint).reverse());
            }
            let distance = skeleton.distances(leaf.switch);
            farthest = skeleton.leaves.iter().map(|leaf| distance[leaf.switch.index()]).max().unwrap_or(0).max(farthest);
            for at in skeleton.switches().filter(|&at| at != leaf.switch && distance[at.index()] != FAR) {
                let row = (at.index() * leaves + number) * words;
                for way in skeleton.ways(at).iter().filter(|way| distance[way.to.index()] + 1 == distance[at.index()]) {
                    ports[row + usize::from(way.port) / 64] |= 1 << (way.port % 64);
                }
            }
        }
        let trunk = graph.links().iter().map(|link| matches!(graph.node(link.from), Node::Switch(_))).collect();
        let plugs = Plugs::new(fabric);
        let longest = u32::from(farthest) + 2;
        let mut route = Shortest { choice, plugs, home, words, leaves, ports, trunk, counts: false, lanes: 1, longest };
        if !deadlock::verdict(fabric, &route).is_free() {
            if farthest > MOST_LANES {
                let what = format!("its shortest paths have up to {farthest} hops between switches, each of which needs a lane of its own");
                let remedy = "choose up_down, which needs one lane, or a routing made for the topology";
                return Err(RoutingError::Cannot { routing, what, remedy });
            }
            (route.counts, route.lanes) = (true, farthest.max(1) as u8);
        }
        Ok(route)
    }

    fn row(&self, at: SwitchId, leaf: u32) -> &[u64] {
        let start = (at.index() * self.leaves + leaf as usize) * self.words;
        &self.ports[start..start + self.words]
    }
    fn lane(&self, head: Head) -> u8 {
        // A packet from an endpoint starts on lane 0; what comes from a switch has made one hop more than its lane says.
        if self.counts && self.trunk[head.input.index()] { (head.vl + 1).min(self.lanes - 1) } else { head.vl }
    }
    /// The way of place `place` among the shortest.
    fn way(&self, at: SwitchId, row: &[u64], mut place: u32) -> LinkId {
        for (index, &word) in row.iter().enumerate() {
            let count = word.count_ones();
            if place < count {
                let word = (0..place).fold(word, |word, _| word & (word - 1));
                return self.plugs.link(at, index as u32 * 64 + word.trailing_zeros());
            }
            place -= count;
        }
        LinkId(u32::MAX)
    }
    /// The place of the shortest queue; of several, one that the hash picks.
    fn quietest(&self, at: SwitchId, row: &[u64], count: u32, flow: u64, view: &impl SwitchView) -> u32 {
        let first = below(hash(flow, at.0), count);
        let places = (0..count).map(|step| if first + step < count { first + step } else { first + step - count });
        places.min_by_key(|&place| view.depth(self.way(at, row, place))).unwrap_or(0)
    }
}

impl Route for Shortest {
    fn output(&self, at: SwitchId, head: Head, view: &mut impl SwitchView) -> Hop {
        let (leaf, delivery) = self.home[head.dest.index()];
        let row = self.row(at, leaf);
        let count: u32 = row.iter().map(|word| word.count_ones()).sum();
        if count == 0 {
            return Hop { link: delivery, vl: head.vl, via: 0 };
        }
        let flow = u64::from(head.dest.0) << 32 | u64::from(head.entropy);
        let place = match self.choice {
            Choice::Hash => below(hash(flow, at.0), count),
            // The flow begins anywhere; each packet of it takes the next way.
            Choice::Turn => below(hash(u64::from(head.dest.0), at.0), count).wrapping_add(head.entropy) % count,
            Choice::Queue => self.quietest(at, row, count, flow, view),
            Choice::Pause(gap) => {
                let now = view.now();
                let memory = *view.memory(at, hash(flow, MEMORY));
                let keeps = (1..=count).contains(&memory.choice) && now <= memory.last + gap;
                let place = if keeps { memory.choice - 1 } else { self.quietest(at, row, count, flow, view) };
                *view.memory(at, hash(flow, MEMORY)) = crate::Memory { last: now, choice: place + 1 };
                place
            }
        };
        Hop { link: self.way(at, row, place), vl: self.lane(head), via: 0 }
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        let (leaf, delivery) = self.home[head.dest.index()];
        let row = self.row(at, leaf);
        let count: u32 = row.iter().map(|word| word.count_ones()).sum();
        if count == 0 {
            return visit(Hop { link: delivery, vl: head.vl, via: 0 });
        }
        (0..count).for_each(|place| visit(Hop { link: self.way(at, row, place), vl: self.lane(head), via: 0 }));
    }
    fn oblivious(&self) -> bool {
        matches!(self.choice, Choice::Hash | Choice::Turn)
    }
    fn lanes(&self) -> u8 {
        self.lanes
    }
    fn longest(&self) -> u32 {
        self.longest
    }
    fn proof(&self) -> Option<&'static str> {
        self.counts.then_some("the lane counts the hops between switches: a packet only ever waits for the next higher lane")
    }
}

/// Sets the key of a switch's memory apart from the hashes that choose ways.
const MEMORY: u32 = u32::MAX;
/// Data lanes of an InfiniBand port (InfiniBand Architecture Specification vol. 1, §3.5.7: 15 and one for management).
const MOST_LANES: u16 = 15;
