//! Shortest paths that are balanced over the whole fabric: every link weighs as much as paths lead over it so far.
//!
//! Destination by destination, Dijkstra's algorithm finds the lightest shortest paths from all switches, and each link that they
//! take becomes heavier by the adapters that send over it.
//!
//! Source: T. Hoefler, T. Schneider, A. Lumsdaine, "Optimized routing for large-scale InfiniBand networks", HOTI 2009;
//! OpenSM 3.3, engine `sssp` (opensm(8), "DFSSSP and SSSP Routing Algorithm").
//! Modelled: aggregation nodes as sources and destinations. Not modelled: compute and I/O nodes from files, switches as
//! destinations, several addresses.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::skeleton::{Edge, Skeleton};
use super::{Router, Tables, skeleton};
use crate::graph::SwitchId;
use crate::routing::{Routing, RoutingError};
use crate::topology::Fabric;

/// Prepares `sssp`.
pub(super) fn prepare(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
    Router::forward(fabric, routing, Tables::sssp(fabric)?, None)
}

impl Tables {
    /// Shortest paths balanced over the whole fabric (OpenSM `sssp`). They can deadlock where the fabric has cycles.
    ///
    /// # Errors
    /// As [`Tables::min_hop`].
    pub fn sssp(fabric: &Fabric) -> Result<Tables, RoutingError> {
        Ok(tables(&skeleton(fabric, Routing::Sssp, 0)?, fabric.graph.endpoint_count()))
    }
}

/// The tables.
pub(super) fn tables(skeleton: &Skeleton, endpoints: u32) -> Tables {
    let mut tables = Tables::new(skeleton.count() as u32, endpoints, 0);
    let (senders, base) = senders(skeleton);
    let mut weight = vec![base; skeleton.way_count()];
    for leaf in &skeleton.destinations {
        for &(endpoint, port) in &leaf.ports {
            let (next, order) = lightest(skeleton, &weight, leaf.switch);
            let mut through = senders.clone();
            for &at in order.iter().rev() {
                let Some(way) = next[at.index()] else { continue };
                weight[way.slot as usize] += through[at.index()];
                through[way.to.index()] += through[at.index()];
                if let Some(endpoint) = endpoint {
                    tables.set(at, endpoint, 0, way.port);
                }
            }
            if let Some(endpoint) = endpoint {
                tables.set(leaf.switch, endpoint, 0, port);
            }
        }
    }
    tables
}

/// Adapters at each switch, and what links weigh at first: a path with one link more is heavier than any sum of what links gain,
/// adapters squared on each link of the longest path.
pub(super) fn senders(skeleton: &Skeleton) -> (Vec<u64>, u64) {
    let mut senders = vec![0u64; skeleton.count()];
    skeleton.destinations.iter().for_each(|at| senders[at.switch.index()] = at.ports.len() as u64);
    let adapters: u64 = senders.iter().sum();
    (senders, adapters * adapters * skeleton.count() as u64 + 1)
}

/// The way of each switch towards `to`, and all switches from the nearest.
fn lightest(skeleton: &Skeleton, weight: &[u64], to: SwitchId) -> (Vec<Option<Edge>>, Vec<SwitchId>) {
    let mut distance = vec![u64::MAX; skeleton.count()];
    let mut next = vec![None; skeleton.count()];
    let mut order = Vec::with_capacity(skeleton.count());
    let mut done = vec![false; skeleton.count()];
    distance[to.index()] = 0;
    let mut heap = BinaryHeap::from([Reverse((0, to))]);
    while let Some(Reverse((length, at))) = heap.pop() {
        if std::mem::replace(&mut done[at.index()], true) {
            continue;
        }
        order.push(at);
        for way in skeleton.ways(at) {
            // Packets come the other way.
            let back = skeleton.back(way);
            let longer = length + weight[back.slot as usize];
            if longer < distance[way.to.index()] {
                distance[way.to.index()] = longer;
                next[way.to.index()] = Some(back);
                heap.push(Reverse((longer, way.to)));
            }
        }
    }
    (next, order)
}
