//! One dimension after the other, each by its shortest way (on a hypercube: e-cube routing).
//!
//! Source: H. Sullivan and T. Bashkow, "A large scale, homogeneous, fully distributed parallel machine", ISCA 1977; lanes of
//! rings: Dally and Seitz 1987 (see `walk.rs`).
//! The destination selects among parallel cables: all packets of a flow take one path.

use super::walk::{Sequence, Walk};
use crate::graph::SwitchId;
use crate::routing::family::Prepare;
use crate::routing::{Head, Hop, Idle, Route, Routing, RoutingError, SwitchView};
use crate::topology::Fabric;
use crate::topology::grid::Grid;

#[derive(Clone, Debug)]
pub(in crate::routing) struct DimensionOrder {
    walk: Walk,
}

impl Prepare<Grid> for DimensionOrder {
    fn prepare(fabric: &Fabric, grid: &Grid, _: Routing) -> Result<DimensionOrder, RoutingError> {
        Ok(DimensionOrder { walk: Walk::new(fabric, grid) })
    }
}

impl Route for DimensionOrder {
    #[inline]
    fn output(&self, at: SwitchId, head: Head, _: &mut impl SwitchView) -> Hop {
        let (link, vl) = self
            .walk
            .next(at, self.walk.switch_of(head.dest), head.dest.0, Sequence::Forward)
            .unwrap_or_else(|| (self.walk.deliver(at, head.dest), 0));
        Hop { link, vl, via: 0 }
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        visit(self.output(at, head, &mut Idle::new()));
    }
    fn options_by_input(&self) -> bool {
        false
    }
    fn lanes(&self) -> u8 {
        self.walk.lanes
    }
    fn longest(&self) -> u32 {
        self.walk.diameter
    }
    fn proof(&self) -> Option<&'static str> {
        Some("dimensions are visited in one order, and rings change to their second lane at the dateline")
    }
}
