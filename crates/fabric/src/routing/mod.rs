//! Which way a packet goes at each switch: one algorithm, one file.
//!
//! [`Routing`] is what a user chooses, [`Router`] that algorithm on one fabric, [`Route`] the trait behind
//! it. A router is asked once per packet and switch, ten million times a second and more: it computes
//! the link from coordinates in a few nanoseconds, with memory linear in switches.
//!
//! The trait is made for the hardest algorithms known: it sees the packet's input link and virtual lane
//! (escape lanes, dateline crossings, the phase of a detour), the depths of the output queues (adaptive
//! choice), and returns a virtual lane besides the link.

mod d_mod_k;
mod delivers;
mod ecmp;
mod path;
mod spray;
mod tree;

use fabriscope_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::graph::{EndpointId, LinkId, SwitchId};
use crate::topology::{Coordinates, Fabric};

pub use delivers::{Defect, Delivery, delivers};
pub use path::{path, switch_hops};

/// The routing algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Routing {
    /// The destination alone selects the way up, as subnet managers of InfiniBand set their tables up (OpenSM `ftree`).
    #[default]
    DModK,
    /// A hash of the flow selects the way up: all packets of a flow take one path (Ethernet, RoCE).
    Ecmp,
    /// Each packet of a flow takes the next way up: round robin over all shortest paths (Ultra Ethernet, adaptive InfiniBand).
    Spray,
}

/// What a switch reads of a packet to route it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Where it goes.
    pub dest: EndpointId,
    /// What sets flows apart (`ecmp`: the source port) or packets (`spray`: one more for each packet).
    pub entropy: u32,
    /// The link it came in by.
    pub input: LinkId,
    /// The virtual lane it came in on.
    pub vl: u8,
}

/// The next step of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// The link to leave by.
    pub link: LinkId,
    /// The virtual lane to leave on.
    pub vl: u8,
}

/// How full the output queues are: what adaptive routing looks at.
pub trait Queues {
    /// Bytes that wait for a link of the switch that is asked.
    fn depth(&self, link: LinkId) -> Bytes;
}

/// All queues are empty: for algorithms that do not look, and for drawing paths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle;

impl Queues for Idle {
    #[inline]
    fn depth(&self, _: LinkId) -> Bytes {
        Bytes::ZERO
    }
}

/// A routing algorithm on one fabric.
pub trait Route {
    /// The next step of a packet that stands at switch `at`.
    ///
    /// The destination must be an endpoint of the fabric. The answer depends on the arguments alone.
    #[must_use]
    fn output(&self, at: SwitchId, head: Head, queues: &impl Queues) -> Hop;

    /// How many virtual lanes it needs; lanes 0 … `lanes() - 1` appear in [`Hop::vl`].
    fn lanes(&self) -> u8;

    /// The most links that a path can have, those of the endpoints included.
    fn longest(&self) -> u32;
}

/// One of the algorithms of [`Routing`] on one fabric.
#[derive(Clone, Debug)]
pub struct Router(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Direct,
    DModK(tree::Walk<d_mod_k::DModK>),
    Ecmp(tree::Walk<ecmp::Ecmp>),
    Spray(tree::Walk<spray::Spray>),
}

/// Why an algorithm cannot route a fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutingError {
    /// The algorithm computes with coordinates of another family.
    #[error("`{routing:?}` does not know how to route this topology; choose one of {known}")]
    Unsuitable {
        /// The algorithm asked for.
        routing: Routing,
        /// Those that would work.
        known: &'static str,
    },
}

impl Router {
    /// Prepares `routing` for `fabric`.
    ///
    /// # Errors
    /// The algorithm is made for another family of topologies.
    pub fn new(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
        Ok(Router(match (&fabric.coordinates, routing) {
            (Coordinates::Direct, _) => Kind::Direct,
            (Coordinates::Tree(tree), Routing::DModK) => Kind::DModK(tree::Walk::new(tree)),
            (Coordinates::Tree(tree), Routing::Ecmp) => Kind::Ecmp(tree::Walk::new(tree)),
            (Coordinates::Tree(tree), Routing::Spray) => Kind::Spray(tree::Walk::new(tree)),
        }))
    }
}

impl Route for Router {
    #[inline]
    fn output(&self, at: SwitchId, head: Head, queues: &impl Queues) -> Hop {
        match &self.0 {
            Kind::DModK(walk) => walk.output(at, head, queues),
            Kind::Ecmp(walk) => walk.output(at, head, queues),
            Kind::Spray(walk) => walk.output(at, head, queues),
            // There is no switch to ask at; going back is the only link that is surely there.
            Kind::Direct => Hop { link: head.input.reverse(), vl: head.vl },
        }
    }
    fn lanes(&self) -> u8 {
        1
    }
    fn longest(&self) -> u32 {
        match &self.0 {
            Kind::Direct => 1,
            Kind::DModK(walk) => walk.longest(),
            Kind::Ecmp(walk) => walk.longest(),
            Kind::Spray(walk) => walk.longest(),
        }
    }
}
