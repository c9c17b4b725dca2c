//! As `up_down`, but with ranks by the distance from endpoints: for fabrics in which some endpoints are nearer to the top than some
//! switches.
//!
//! Packets go away from the endpoints first, then nearer to them; between switches of one rank they may go before and after.
//!
//! Source: OpenSM 3.3, engine `dnup` (opensm(8), "Purpose of DNUP Algorithm"); cables between switches of one rank as its tables show.
//! Not modelled: freedom from deadlock, which OpenSM's rule gives up where switches of one rank form cycles;
//! [`super::super::deadlock`] tells.

use super::balance::fill;
use super::up_down::{Order, ways_of_search};
use super::{Router, Tables, skeleton};
use crate::routing::{Routing, RoutingError};
use crate::topology::Fabric;

/// Prepares `dnup`.
pub(super) fn prepare(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
    Router::forward(fabric, routing, Tables::dnup(fabric)?, None)
}

impl Tables {
    /// Shortest paths away from endpoints and back (OpenSM `dnup`).
    ///
    /// # Errors
    /// As [`Tables::min_hop`]. Pairs without such a path have no entry.
    pub fn dnup(fabric: &Fabric) -> Result<Tables, RoutingError> {
        let skeleton = skeleton(fabric, Routing::Dnup, 0)?;
        let order = Order::of_levels(&skeleton);
        let endpoints = fabric.graph.endpoint_count();
        Ok(fill(&skeleton, endpoints, 0, |leaf, offer| ways_of_search(&skeleton, &order, leaf.switch, offer, |_| ())))
    }
}
