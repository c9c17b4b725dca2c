//! Shortest paths, balanced over the ports.
//!
//! Source: OpenSM 3.3, engine `minhop` (`osm_ucast_mgr.c`).
//! Modelled: hop counts, a counter for each port.
//! Not modelled: one lane for everything can deadlock where the fabric has cycles; [`super::super::deadlock`] tells.

use super::balance::fill;
use super::skeleton::{Edge, FAR, Skeleton};
use super::{Router, Tables, skeleton};
use crate::routing::{Lmc, Routing, RoutingError};
use crate::topology::Fabric;

/// Prepares `min_hop`, and `lmc` with several addresses for each endpoint.
pub(super) fn prepare(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
    let bits = if let Routing::Lmc(lmc) = routing { lmc.bits } else { 0 };
    Router::forward(fabric, routing, Tables::min_hop(fabric, bits)?, None)
}

impl Tables {
    /// Shortest paths with 2^`lmc` addresses for each endpoint, balanced over the ports (OpenSM `minhop`).
    ///
    /// # Errors
    /// A fabric in parts, switches with more than 254 ports, more than 2³⁰ entries, an `lmc` above 7.
    pub fn min_hop(fabric: &Fabric, lmc: u8) -> Result<Tables, RoutingError> {
        let routing = if lmc == 0 { Routing::MinHop } else { Routing::Lmc(Lmc { bits: lmc }) };
        let skeleton = skeleton(fabric, routing, lmc)?;
        Ok(tables(&skeleton, fabric.graph.endpoint_count(), lmc))
    }
}

/// The tables.
pub(super) fn tables(skeleton: &Skeleton, endpoints: u32, lmc: u8) -> Tables {
    let mut ways: Vec<Edge> = Vec::new();
    fill(skeleton, endpoints, lmc, |leaf, offer| {
        let distance = skeleton.distances(leaf.switch);
        for at in skeleton.switches().filter(|&at| at != leaf.switch && distance[at.index()] != FAR) {
            ways.clear();
            ways.extend(skeleton.ways(at).iter().filter(|way| distance[way.to.index()] + 1 == distance[at.index()]));
            offer(at, &ways);
        }
    })
}
