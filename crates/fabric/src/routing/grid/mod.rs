//! Routing on grids: one algorithm, one file.
//!
//! All walk by dimension order ([`walk`]), which says for a switch and a target the port and the lane of the next step:
//! [`dimension_order`] to the destination, [`valiant`] to a random switch first, [`adaptive`] in the better of two orders.

mod adaptive;
mod dimension_order;
mod valiant;
mod walk;

use super::{Head, Hop, Route, Routing, RoutingError, Sight};
use crate::graph::SwitchId;
use crate::topology::{Coordinates, Fabric};

/// An algorithm of this family on one fabric.
#[derive(Clone, Debug)]
pub(super) enum Router {
    DimensionOrder(dimension_order::DimensionOrder),
    Valiant(valiant::Valiant),
    Adaptive(adaptive::Adaptive),
}

impl Router {
    /// Whether the algorithm computes with the coordinates of this family.
    pub(super) fn knows(routing: Routing) -> bool {
        matches!(routing, Routing::DimensionOrder | Routing::Valiant | Routing::Adaptive)
    }
    pub(super) fn new(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
        let unsuitable = RoutingError::Unsuitable { routing, known: "dimension_order, valiant, adaptive" };
        let Coordinates::Grid(grid) = &fabric.coordinates else { return Err(unsuitable) };
        let walk = walk::Walk::new(fabric, grid);
        Ok(match routing {
            Routing::DimensionOrder => Router::DimensionOrder(dimension_order::DimensionOrder::new(walk)),
            Routing::Valiant => Router::Valiant(valiant::Valiant::new(walk, routing)?),
            Routing::Adaptive => Router::Adaptive(adaptive::Adaptive::new(walk)),
            _ => return Err(unsuitable),
        })
    }
}

/// Hands a call to the algorithm.
macro_rules! each {
    ($router:expr, $route:ident => $call:expr) => {
        match $router {
            Router::DimensionOrder($route) => $call,
            Router::Valiant($route) => $call,
            Router::Adaptive($route) => $call,
        }
    };
}

impl Route for Router {
    #[inline]
    fn output(&self, at: SwitchId, head: Head, sight: &mut impl Sight) -> Hop {
        each!(self, route => route.output(at, head, sight))
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        each!(self, route => route.options(at, head, visit));
    }
    #[inline]
    fn oblivious(&self) -> bool {
        each!(self, route => route.oblivious())
    }
    fn lanes(&self) -> u8 {
        each!(self, route => route.lanes())
    }
    fn longest(&self) -> u32 {
        each!(self, route => route.longest())
    }
    fn proof(&self) -> Option<&'static str> {
        each!(self, route => route.proof())
    }
}
