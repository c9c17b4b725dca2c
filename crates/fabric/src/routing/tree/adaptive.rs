//! The quietest of a few ways up, for each packet or after each pause.
//!
//! Going up, a switch draws up to four of its up ports and takes the one with the least bytes waiting; of parallel
//! cables down, likewise. Per packet (`adaptive`) or when the flow has paused for longer than a gap (`flowlet`).
//! The draw mixes flow, switch and time, as the random numbers of a switch do: senders need not help.
//!
//! Source: D. De Sensi et al., "An in-depth analysis of the Slingshot interconnect", SC 2020, §II-C (up to four ports are
//! compared); M. Mitzenmacher, "The power of two choices in randomized load balancing", IEEE TPDS 12(10), 2001; E. Vanini
//! et al., "Let it flow: resilient asymmetric load balancing with flowlet switching", NSDI 2017.
//! Modelled: what the switch's own queues say. Not modelled: notifications from switches further on (InfiniBand's
//! ARN), ports excluded by weights; on the way down a tree leaves no choice but that among parallel cables.

use super::Walk;
use super::spray::Spray;
use crate::graph::SwitchId;
use crate::routing::family::Prepare;
use crate::routing::hash::{below, hash};
use crate::routing::{Head, Hop, Memory, Route, Routing, RoutingError, SwitchView};
use crate::topology::{Fabric, Tree};
use fabriscope_units::Span;

/// Looks at queues, on the walk of the tree.
#[derive(Clone, Debug)]
pub(in crate::routing) struct Adaptive {
    walk: Walk<Spray>,
    /// The pause after which a flow may move; none: every packet may.
    gap: Option<Span>,
}

impl Prepare<Tree> for Adaptive {
    fn prepare(_: &Fabric, tree: &Tree, routing: Routing) -> Result<Adaptive, RoutingError> {
        let gap = if let Routing::Flowlet(flowlet) = routing { Some(flowlet.gap) } else { None };
        Ok(Adaptive { walk: Walk::new(tree), gap })
    }
}

impl Adaptive {
    /// The place of the least loaded of some ways drawn by `seed`; of equals the first drawn.
    #[inline]
    fn quietest(ways: super::Choices, seed: u64, view: &impl SwitchView) -> u32 {
        let start = below(hash(seed, 0), ways.count);
        let place = |look: u32| {
            if ways.count > LOOKS {
                below(hash(seed, look), ways.count)
            } else {
                let place = start + look;
                if place < ways.count { place } else { place - ways.count }
            }
        };
        (0..LOOKS.min(ways.count)).map(place).min_by_key(|&place| view.depth(ways.link(place))).unwrap_or(0)
    }
}

impl Route for Adaptive {
    #[inline(never)]
    fn output(&self, at: SwitchId, head: Head, view: &mut impl SwitchView) -> Hop {
        let ways = self.walk.ways(at, &head);
        let flow = u64::from(head.dest.0) << 32 | u64::from(head.entropy);
        let seed = |now: u64| flow ^ now.rotate_left(20) ^ u64::from(at.0).rotate_right(16);
        let place = match self.gap {
            _ if ways.count <= 1 => 0,
            None => Self::quietest(ways, seed(view.now().as_ps()), view),
            Some(gap) => {
                let now = view.now();
                let memory = *view.memory(at, hash(flow, MEMORY));
                let keeps = (1..=ways.count).contains(&memory.choice) && now <= memory.last + gap;
                let place = if keeps { memory.choice - 1 } else { Self::quietest(ways, seed(now.as_ps()), view) };
                *view.memory(at, hash(flow, MEMORY)) = Memory { last: now, choice: place + 1 };
                place
            }
        };
        Hop { link: ways.link(place), vl: head.vl, via: 0 }
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        self.walk.options(at, head, visit);
    }
    fn options_by_input(&self) -> bool {
        false
    }
    fn oblivious(&self) -> bool {
        false
    }
    fn lanes(&self) -> u8 {
        self.walk.lanes()
    }
    fn longest(&self) -> u32 {
        self.walk.longest()
    }
    fn proof(&self) -> Option<&'static str> {
        self.walk.proof()
    }
}

/// Ports whose queues are compared. Basis: published (De Sensi et al. 2020).
const LOOKS: u32 = 4;
/// Sets the key of a switch's memory apart from the hashes that choose ways.
const MEMORY: u32 = u32::MAX;
