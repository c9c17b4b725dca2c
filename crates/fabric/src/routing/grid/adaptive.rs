//! The better of two orders: dimensions first to last or last to first, whichever first queue is shorter.
//!
//! Source: D. Seo et al., "Near-optimal worst-case throughput routing for two-dimensional mesh networks", ISCA 2005 (O1TURN:
//! both orders, each with lanes of its own, chosen at random); here the switch at the source compares its queues, and the
//! packet's hash decides between equal ones. Not modelled: a choice at every switch (A. Singh et al., GOAL, ISCA 2003),
//! which needs lanes to escape to.

use fabriscope_units::Bytes;

use super::walk::{Sequence, Walk};
use crate::graph::{LinkId, SwitchId};
use crate::routing::family::Prepare;
use crate::routing::hash::hash;
use crate::routing::{Head, Hop, Route, Routing, RoutingError, SwitchView};
use crate::topology::Fabric;
use crate::topology::grid::Grid;

#[derive(Clone, Debug)]
pub(in crate::routing) struct Adaptive {
    walk: Walk,
}

/// Notes of the two orders.
const FORWARD: u16 = 1;
const BACKWARD: u16 = 2;

impl Prepare<Grid> for Adaptive {
    fn prepare(fabric: &Fabric, grid: &Grid, _: Routing) -> Result<Adaptive, RoutingError> {
        Ok(Adaptive { walk: Walk::new(fabric, grid) })
    }
}

impl Adaptive {
    /// The parallel cable is selected by the packet, so that a flow uses all of them.
    #[inline]
    fn hop(&self, at: SwitchId, head: Head, note: u16, flow: u32) -> Hop {
        let (sequence, lanes) = if note == BACKWARD { (Sequence::Backward, self.walk.lanes) } else { (Sequence::Forward, 0) };
        match self.walk.next(at, self.walk.switch_of(head.dest), flow, sequence) {
            Some((link, vl)) => Hop { link, vl: vl + lanes, via: note },
            None => Hop { link: self.walk.deliver(at, head.dest), vl: 0, via: 0 },
        }
    }
}

impl Route for Adaptive {
    #[inline]
    fn output(&self, at: SwitchId, head: Head, view: &mut impl SwitchView) -> Hop {
        let flow = head.dest.0 ^ head.entropy;
        if head.via > 0 {
            return self.hop(at, head, head.via, flow);
        }
        let (forward, backward) = (self.hop(at, head, FORWARD, flow), self.hop(at, head, BACKWARD, flow));
        let depth = |link: LinkId| -> Bytes { view.depth(link) };
        let (first, second) = (depth(forward.link), depth(backward.link));
        let toss = hash(u64::from(head.dest.0) << 32 | u64::from(head.entropy), head.input.0) & 1 == 0;
        if first < second || (first == second && toss) { forward } else { backward }
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        let notes: &[u16] = match head.via {
            0 => &[FORWARD, BACKWARD],
            FORWARD => &[FORWARD],
            _ => &[BACKWARD],
        };
        // All parallel cables: as many values of the flow as there are cables at most.
        for &note in notes {
            for flow in 0..self.walk.most_cables() {
                visit(self.hop(at, head, note, flow));
            }
        }
    }
    fn oblivious(&self) -> bool {
        false
    }
    fn lanes(&self) -> u8 {
        2 * self.walk.lanes
    }
    fn longest(&self) -> u32 {
        self.walk.diameter
    }
    fn proof(&self) -> Option<&'static str> {
        Some("each order of dimensions has lanes of its own, and keeps to its order")
    }
}
