//! UGAL: minimal or by one random detour, whichever promises the shorter wait: queue × links.
//!
//! Source: A. Singh, "Load-balanced routing in interconnection networks", PhD thesis, Stanford 2005; Kim, Dally, Scott,
//! Abts, ISCA 2008: UGAL-L compares the queues of the first switch, UGAL-G those of the global links,
//! wherever in the group they are.
//!
//! ```text
//!  detour if   q_m · H_m  >  q_d · H_d + bias
//! ```
//!
//! q: bytes that wait for the first link of the path, with UGAL-G for that or the global link behind it, whichever has
//! more waiting. H: links from switch to switch, the last local one always counted.
//! Modelled: the choice at the first switch, packet by packet; a bias that keeps idle networks minimal.
//! Not modelled: UGAL-L_VC and UGAL-L_CR (queues by lane, credits that are held back).

use fabriscope_units::Bytes;

use super::detour::{Detours, draw};
use super::layout::PROOF;
use super::walk::Candidate;
use crate::graph::SwitchId;
use crate::routing::family::Prepare;
use crate::routing::{Head, Hop, Route, Routing, RoutingError, SwitchView};
use crate::topology::{Fabric, Groups};

/// Minimal or a detour by the queues at the first switch, or in the whole group where `GLOBAL`.
#[derive(Clone, Debug)]
pub(in crate::routing) struct Ugal<const GLOBAL: bool>(Detours);

impl<const GLOBAL: bool> Prepare<Groups> for Ugal<GLOBAL> {
    fn prepare(_: &Fabric, groups: &Groups, _: Routing) -> Result<Self, RoutingError> {
        Ok(Ugal(Detours::new(groups)))
    }
}

impl<const GLOBAL: bool> Ugal<GLOBAL> {
    #[inline(always)]
    fn wait(way: &Candidate, view: &impl SwitchView) -> u64 {
        let mut queue = view.depth(way.hop.link).as_u64();
        if GLOBAL && let Some(gate) = way.gate {
            queue = queue.max(view.depth(gate).as_u64());
        }
        queue * u64::from(way.links)
    }
}

impl<const GLOBAL: bool> Route for Ugal<GLOBAL> {
    #[inline]
    fn output(&self, at: SwitchId, head: Head, view: &mut impl SwitchView) -> Hop {
        let (at, home) = self.0.places(at, &head);
        if !self.0.starts(&head) {
            return self.0.proceed(at, home, &head);
        }
        let minimal = self.0.walk.minimal(at, home, &head);
        let shortest = Self::wait(&minimal, view);
        if shortest <= BIAS.as_u64() {
            return minimal.hop;
        }
        match self.0.random(at, home, &head, draw(&head, 0)) {
            Some(detour) if shortest > Self::wait(&detour, view) + BIAS.as_u64() => detour.hop,
            _ => minimal.hop,
        }
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        let (at, home) = self.0.places(at, &head);
        if !self.0.starts(&head) {
            return self.0.proceed_options(at, home, &head, visit);
        }
        self.0.walk.minimal_options(at, home, &head, visit);
        self.0.random_options(at, home, &head, visit);
    }
    fn oblivious(&self) -> bool {
        false
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

/// What a minimal path is given (assumed): two packets of 4 KiB over three links, so that a packet that is just
/// being sent sends no other one on a detour.
const BIAS: Bytes = Bytes(3 * 2 * 4096);
