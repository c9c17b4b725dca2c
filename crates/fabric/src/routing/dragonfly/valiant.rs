//! Valiant: every packet by way of a random group, or of a random switch of its own group.
//!
//! Source: L. Valiant, "A scheme for fast parallel communication", SIAM J. Computing 11(2), 1982; Kim, Dally, Scott,
//! Abts, ISCA 2008 (VAL): balances any pattern over the global links at twice the load.
//! Modelled: the random group is neither the first nor the last one. In a dragonfly+ a path inside a group takes a random spine.
//! Not modelled: a random switch inside the group of the detour.

use super::detour::{Detours, draw};
use super::layout::PROOF;
use crate::graph::SwitchId;
use crate::routing::family::Prepare;
use crate::routing::{Head, Hop, Route, Routing, RoutingError, SwitchView};
use crate::topology::{Fabric, Groups};

/// By a random stop, whatever the load.
#[derive(Clone, Debug)]
pub(in crate::routing) struct Valiant(Detours);

impl Prepare<Groups> for Valiant {
    fn prepare(_: &Fabric, groups: &Groups, _: Routing) -> Result<Self, RoutingError> {
        Ok(Valiant(Detours::new(groups)))
    }
}

impl Route for Valiant {
    #[inline]
    fn output(&self, at: SwitchId, head: Head, _: &mut impl SwitchView) -> Hop {
        let (at, home) = self.0.places(at, &head);
        if !self.0.starts(&head) {
            return self.0.proceed(at, home, &head);
        }
        let detour = self.0.random(at, home, &head, draw(&head, 0));
        detour.unwrap_or_else(|| self.0.walk.minimal(at, home, &head)).hop
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        let (at, home) = self.0.places(at, &head);
        if !self.0.starts(&head) {
            return self.0.proceed_options(at, home, &head, visit);
        }
        let mut detours = 0;
        self.0.random_options(at, home, &head, &mut |hop| {
            detours += 1;
            visit(hop);
        });
        if detours == 0 {
            self.0.walk.minimal_options(at, home, &head, visit);
        }
    }
    fn lanes(&self) -> u8 {
        self.0.walk.layout.detour_lanes()
    }
    fn longest(&self) -> u32 {
        self.0.walk.layout.detour_longest()
    }
    fn proof(&self) -> Option<&'static str> {
        Some(PROOF)
    }
}
