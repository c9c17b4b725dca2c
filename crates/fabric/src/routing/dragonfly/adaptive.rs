//! Adaptive as in Slingshot: each packet takes the least loaded of two minimal paths and two detours, minimal if in doubt; traffic that
//! has to stay in order decides when its flow has paused (`flowlet`).
//!
//! Source: D. De Sensi, S. Di Girolamo, K. McMahon, D. Roweth, T. Hoefler, "An in-depth analysis of the Slingshot
//! interconnect", SC 2020: up to four minimal and non-minimal paths are compared by the depth of the queues
//! of their output ports, with a bias to minimal ones. N. Jiang, J. Kim, W. Dally, "Indirect adaptive routing on large
//! scale interconnection networks", ISCA 2009: to decide again inside the first group (PAR).
//!
//! ```text
//!  wait of a minimal path  =  bytes that wait for its first link
//!  wait of a detour        =  2 · bytes that wait for its first link + bias
//! ```
//!
//! The factor of two is the length: a detour loads two global links instead of one. A packet that set out on a minimal
//! path decides once more where its first group ends: there the global links of that switch alone are candidates, so
//! that no further local link and no further lane is needed.
//! Modelled: the choice at the first switch and at the last one of the first group, packet by packet, or again after a pause longer than
//! a gap: standard Ethernet adapters (Slingshot 10) want their packets in order, and switches keep it by leaving a flow on its path.
//! Not modelled: what switches tell each other about load, the traffic classes' own biases; that a flow waits for its last packet to
//! arrive before it moves: the gap stands for it.

use fabriscope_units::{Bytes, Span};

use super::detour::{Detours, draw, note};
use super::layout::{From, Location, PROOF};
use super::walk::Candidate;
use crate::graph::{LinkId, SwitchId};
use crate::routing::family::Prepare;
use crate::routing::hash::{below, hash};
use crate::routing::{Head, Hop, Memory, Route, Routing, RoutingError, SwitchView};
use crate::topology::{Fabric, Groups};

/// The best of four.
#[derive(Clone, Debug)]
pub(in crate::routing) struct Adaptive {
    detours: Detours,
    /// The pause after which a flow may move; none: every packet may.
    gap: Option<Span>,
}

/// A path of those that are compared: its number from 1 on, and its first hop.
type Choice = (u32, Hop);

impl Prepare<Groups> for Adaptive {
    fn prepare(_: &Fabric, groups: &Groups, routing: Routing) -> Result<Self, RoutingError> {
        let gap = if let Routing::Flowlet(flowlet) = routing { Some(flowlet.gap) } else { None };
        Ok(Adaptive { detours: Detours::new(groups), gap })
    }
}

impl Adaptive {
    /// Whether a packet on a minimal path leaves its first group here.
    #[inline(always)]
    fn leaves(&self, at: Location, home: Location, head: &Head) -> bool {
        let layout = &self.detours.walk.layout;
        // A local link on lane 0 is one of the first group; a spine of a dragonfly+ is its end.
        let first = layout.from(head.input) == From::Local && head.vl == 0 && layout.is_gateway(at);
        first && head.via == 0 && at.group != home.group
    }

    /// A detour by a global port of this switch; none where it leads nowhere, or to the last group.
    #[inline(always)]
    fn by_port(&self, at: Location, home: Location, head: &Head, port: u32) -> Option<Hop> {
        let (group, cable) = self.detours.walk.layout.behind(at, port)?;
        (group != home.group).then(|| self.detours.walk.global_hop(at, group, cable, head, note(group)))
    }

    /// The lesser wait of two minimal paths and two detours.
    #[inline(always)]
    fn best(minimal: [Hop; 2], detour: impl Fn(u32) -> Option<Hop>, head: &Head, view: &impl SwitchView) -> Choice {
        let depth = |link: LinkId| view.depth(link).as_u64();
        let [first, second] = minimal;
        let mut best = (1, first);
        let mut wait = depth(first.link);
        if second.link != first.link {
            let other = depth(second.link);
            if other < wait {
                (best, wait) = ((2, second), other);
            }
        }
        if wait <= BIAS.as_u64() {
            return best;
        }
        for (number, salt) in (3..).zip(DETOURS) {
            let Some(hop) = detour(draw(head, salt)) else { continue };
            let other = 2 * depth(hop.link) + BIAS.as_u64();
            if other < wait {
                (best, wait) = ((number, hop), other);
            }
        }
        best
    }

    /// The same for every packet, or for the first after a pause of its flow, whose others follow it.
    #[inline(always)]
    fn choose(&self, at: SwitchId, minimal: [Hop; 2], detour: impl Fn(u32) -> Option<Hop>, head: &Head, view: &mut impl SwitchView) -> Hop {
        let Some(gap) = self.gap else { return Self::best(minimal, detour, head, view).1 };
        let flow = hash(u64::from(head.dest.0) << 32 | u64::from(head.entropy), MEMORY);
        let now = view.now();
        let memory = *view.memory(at, flow);
        let kept = match memory.choice {
            number @ 1..=2 => Some(minimal[number as usize - 1]),
            number @ 3..=4 => detour(draw(head, DETOURS[number as usize - 3])),
            _ => None,
        };
        let (choice, hop) = match kept {
            Some(hop) if now <= memory.last + gap => (memory.choice, hop),
            _ => Self::best(minimal, detour, head, view),
        };
        *view.memory(at, flow) = Memory { last: now, choice };
        hop
    }

    /// Two minimal paths; often the same one twice.
    #[inline(always)]
    fn minimal(&self, at: Location, home: Location, head: &Head) -> [Hop; 2] {
        let another = Head { entropy: !head.entropy, ..*head };
        [self.detours.walk.minimal(at, home, head), self.detours.walk.minimal(at, home, &another)].map(|way: Candidate| way.hop)
    }
}

impl Route for Adaptive {
    #[inline]
    fn output(&self, at: SwitchId, head: Head, view: &mut impl SwitchView) -> Hop {
        let switch = at;
        let (at, home) = self.detours.places(at, &head);
        if self.detours.starts(&head) {
            let detour = |draw| self.detours.random(at, home, &head, draw).map(|way| way.hop);
            return self.choose(switch, self.minimal(at, home, &head), detour, &head, view);
        }
        if self.leaves(at, home, &head) {
            let detour = |draw| self.by_port(at, home, &head, below(draw, self.detours.walk.layout.global.get()));
            return self.choose(switch, self.minimal(at, home, &head), detour, &head, view);
        }
        self.detours.proceed(at, home, &head)
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        let (at, home) = self.detours.places(at, &head);
        if self.detours.starts(&head) {
            self.detours.random_options(at, home, &head, visit);
        } else if self.leaves(at, home, &head) {
            let ports = 0..self.detours.walk.layout.global.get();
            ports.filter_map(|port| self.by_port(at, home, &head, port)).for_each(&mut *visit);
        }
        self.detours.proceed_options(at, home, &head, visit);
    }
    fn oblivious(&self) -> bool {
        false
    }
    fn lanes(&self) -> u8 {
        self.detours.walk.layout.detour_lanes()
    }
    fn longest(&self) -> u32 {
        self.detours.walk.layout.detour_longest()
    }
    fn proof(&self) -> Option<&'static str> {
        Some(PROOF)
    }
}

/// How much a minimal path may have waiting before a detour is looked at (assumed: two packets of 4 KiB).
const BIAS: Bytes = Bytes(2 * 4096);
/// Sets the draws of the two detours apart (bits that numbers of links do not reach).
const DETOURS: [u32; 2] = [0, 1 << 31];
/// Sets the key of a switch's memory apart from the hashes that choose ways.
const MEMORY: u32 = u32::MAX;
