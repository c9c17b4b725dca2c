//! Shortest paths by the lowest port: dimension order on a grid whose switches have their ports in the order of dimensions.
//!
//! Source: OpenSM 3.3, engine `dor`: of all shortest ways the neighbour behind the lowest port; parallel cables to it balanced.
//! Not modelled: lanes; a torus needs a second one at the dateline, which [`super::super::deadlock`] shows.

use super::balance::fill;
use super::skeleton::{Edge, FAR, Skeleton};
use super::{Router, Tables, skeleton};
use crate::routing::{Routing, RoutingError};
use crate::topology::Fabric;

/// Prepares `dimension_order` of a fabric without coordinates.
pub(super) fn prepare(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
    Router::forward(fabric, routing, Tables::port_order(fabric)?, None)
}

impl Tables {
    /// Shortest paths by the lowest port: dimension order where ports are in the order of dimensions (OpenSM `dor`).
    ///
    /// # Errors
    /// As [`Tables::min_hop`].
    pub fn port_order(fabric: &Fabric) -> Result<Tables, RoutingError> {
        let skeleton = skeleton(fabric, Routing::DimensionOrder, 0)?;
        Ok(tables(&skeleton, fabric.graph.endpoint_count()))
    }
}

/// The tables.
pub(super) fn tables(skeleton: &Skeleton, endpoints: u32) -> Tables {
    let mut ways: Vec<Edge> = Vec::new();
    fill(skeleton, endpoints, 0, |leaf, offer| {
        let distance = skeleton.distances(leaf.switch);
        for at in skeleton.switches().filter(|&at| at != leaf.switch && distance[at.index()] != FAR) {
            ways.clear();
            let mut shortest = skeleton.ways(at).iter().filter(|way| distance[way.to.index()] + 1 == distance[at.index()]).peekable();
            let first = shortest.peek().map(|way| way.to);
            ways.extend(shortest.filter(|way| Some(way.to) == first));
            offer(at, &ways);
        }
    })
}
