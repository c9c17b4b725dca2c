//! UGAL-L: the shortest path or one by a random switch, whichever promises the shorter wait: queue × links.
//!
//! ```text
//!  detour if   q_m · H_m  >  q_d · H_d + bias · H_m
//! ```
//!
//! q: bytes that wait for the first link of the path. H: its links from switch to switch.
//! Source: A. Singh, "Load-balanced routing in interconnection networks", PhD thesis, Stanford 2005 (tori); N. McDonald et al.,
//! "Practical and efficient incremental adaptive routing for HyperX networks", SC 2019 (UGAL as their baseline).
//! Modelled: the choice at the first switch, packet by packet; both paths by dimension order, on the lanes of
//! [`super::valiant`], of whose paths these are a part.
//! Not modelled: a choice among minimal paths, a choice at later switches.

use fabriscope_units::Bytes;

use super::valiant::Valiant;
use crate::graph::SwitchId;
use crate::routing::family::Prepare;
use crate::routing::{Head, Hop, Route, Routing, RoutingError, SwitchView};
use crate::topology::Fabric;
use crate::topology::grid::Grid;

#[derive(Clone, Debug)]
pub(in crate::routing) struct Ugal(Valiant);

impl Prepare<Grid> for Ugal {
    fn prepare(fabric: &Fabric, grid: &Grid, routing: Routing) -> Result<Ugal, RoutingError> {
        Valiant::prepare(fabric, grid, routing).map(Ugal)
    }
}

impl Route for Ugal {
    #[inline]
    fn output(&self, at: SwitchId, head: Head, view: &mut impl SwitchView) -> Hop {
        if !self.0.starts(at, head) {
            return self.0.output(at, head, view);
        }
        let (walk, minimal) = (&self.0.walk, self.0.second(at, head));
        let target = walk.switch_of(head.dest);
        let links = u64::from(walk.distance(at, target));
        let wait = view.depth(minimal.link).as_u64();
        match self.0.stop(at, head) {
            Some(stop) if wait > BIAS.as_u64() => {
                let detour = self.0.towards(at, stop, head);
                let longer = u64::from(walk.distance(at, stop) + walk.distance(stop, target));
                let is_shorter_wait = (wait - BIAS.as_u64()) * links > view.depth(detour.link).as_u64() * longer;
                if is_shorter_wait { detour } else { minimal }
            }
            _ => minimal,
        }
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        self.0.options(at, head, visit);
    }
    fn oblivious(&self) -> bool {
        false
    }
    fn lanes(&self) -> u8 {
        self.0.lanes()
    }
    fn longest(&self) -> u32 {
        self.0.longest()
    }
    fn proof(&self) -> Option<&'static str> {
        self.0.proof()
    }
}

/// What a minimal path is given, so that a packet that is just being sent sends no other one on a detour. Basis: assumed,
/// two packets of 4 KiB, as on dragonflies.
const BIAS: Bytes = Bytes(2 * 4096);
