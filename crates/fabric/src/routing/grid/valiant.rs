//! By way of a random switch, whatever the load: half the throughput for any traffic, the worst included.
//!
//! Source: L. Valiant, "A scheme for fast parallel communication", SIAM J. Comput. 11(2), 1982.
//! Both halves of the way go by dimension order, the second on lanes of its own. The stop travels in the note of the packet;
//! stops from which the packet would go back the way it came are drawn again, up to four times, then it goes directly.

use super::walk::{Sequence, Walk};
use crate::graph::SwitchId;
use crate::routing::family::Prepare;
use crate::routing::hash::{below, hash};
use crate::routing::{Head, Hop, Route, Routing, RoutingError, SwitchView};
use crate::topology::Fabric;
use crate::topology::grid::Grid;

#[derive(Clone, Debug)]
pub(in crate::routing) struct Valiant {
    pub(super) walk: Walk,
}

/// Stops that are drawn at most.
const DRAWS: u32 = 4;

impl Prepare<Grid> for Valiant {
    fn prepare(fabric: &Fabric, grid: &Grid, routing: Routing) -> Result<Valiant, RoutingError> {
        let walk = Walk::new(fabric, grid);
        // Notes hold the number of a switch and one more.
        if walk.switches >= u32::from(u16::MAX) {
            let what = format!("{} switches are more than the note of a packet can name", walk.switches);
            return Err(RoutingError::Cannot { routing, what, remedy: "choose dimension_order or adaptive" });
        }
        Ok(Valiant { walk })
    }
}

impl Valiant {
    /// Whether the packet stands at its first switch, and not at its last one.
    ///
    /// Only endpoints send on lane 0 without a note; between switches the second half has other lanes.
    #[inline]
    pub(super) fn starts(&self, at: SwitchId, head: Head) -> bool {
        head.via == 0 && head.vl == 0 && at != self.walk.switch_of(head.dest)
    }

    /// A random stop for a packet that starts at `at`.
    #[inline]
    pub(super) fn stop(&self, at: SwitchId, head: Head) -> Option<SwitchId> {
        let flow = u64::from(head.dest.0) << 32 | u64::from(head.entropy) << 16 ^ u64::from(head.input.0);
        let stops = (0..DRAWS).map(|draw| SwitchId(below(hash(flow, draw), self.walk.switches)));
        stops.into_iter().find(|&stop| self.allows(at, stop, head))
    }

    /// On to the destination, on the lanes of the second half.
    #[inline]
    pub(super) fn second(&self, at: SwitchId, head: Head) -> Hop {
        match self.walk.next(at, self.walk.switch_of(head.dest), head.dest.0, Sequence::Forward) {
            Some((link, vl)) => Hop { link, vl: vl + self.walk.lanes, via: 0 },
            None => Hop { link: self.walk.deliver(at, head.dest), vl: 0, via: 0 },
        }
    }

    /// On to the stop, or from there.
    #[inline]
    pub(super) fn towards(&self, at: SwitchId, stop: SwitchId, head: Head) -> Hop {
        match self.walk.next(at, stop, head.dest.0, Sequence::Forward) {
            Some((link, vl)) => Hop { link, vl, via: stop.0 as u16 + 1 },
            None => self.second(at, head),
        }
    }

    fn allows(&self, at: SwitchId, stop: SwitchId, head: Head) -> bool {
        let target = self.walk.switch_of(head.dest);
        stop != target && !self.walk.turns_back(at, stop, target)
    }
}

impl Route for Valiant {
    #[inline]
    fn output(&self, at: SwitchId, head: Head, _: &mut impl SwitchView) -> Hop {
        if head.via > 0 {
            return self.towards(at, SwitchId(u32::from(head.via) - 1), head);
        }
        if self.starts(at, head)
            && let Some(stop) = self.stop(at, head)
        {
            return self.towards(at, stop, head);
        }
        self.second(at, head)
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        if head.via > 0 {
            visit(self.towards(at, SwitchId(u32::from(head.via) - 1), head));
            return;
        }
        if self.starts(at, head) {
            for stop in (0..self.walk.switches).map(SwitchId).filter(|&stop| self.allows(at, stop, head)) {
                visit(self.towards(at, stop, head));
            }
        }
        visit(self.second(at, head));
    }
    fn lanes(&self) -> u8 {
        2 * self.walk.lanes
    }
    fn longest(&self) -> u32 {
        2 * self.walk.diameter
    }
    fn proof(&self) -> Option<&'static str> {
        Some("both halves of the way go by dimension order, the second on higher lanes")
    }
}
