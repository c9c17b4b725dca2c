//! Routing on grids.

use super::{Head, Hop, Route, Routing, RoutingError, Sight};
use crate::graph::SwitchId;
use crate::topology::Fabric;

/// An algorithm of this family on one fabric.
#[derive(Clone, Debug)]
pub(super) enum Router {}

impl Router {
    /// Whether the algorithm computes with the coordinates of this family.
    pub(super) fn knows(_: Routing) -> bool {
        false
    }
    pub(super) fn new(_: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
        Err(RoutingError::Unsuitable { routing, known: "" })
    }
}

impl Route for Router {
    #[inline]
    fn output(&self, _: SwitchId, _: Head, _: &mut impl Sight) -> Hop {
        match *self {}
    }
    fn options(&self, _: SwitchId, _: Head, _: &mut dyn FnMut(Hop)) {
        match *self {}
    }
    fn lanes(&self) -> u8 {
        match *self {}
    }
    fn longest(&self) -> u32 {
        match *self {}
    }
}
