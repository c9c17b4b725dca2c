//! Which way a packet goes at each switch: one algorithm, one file.
//!
//! [`Routing`] is what a user chooses, [`Router`] that algorithm on one fabric, [`Route`] the trait behind
//! it. A router is asked once per packet and switch, ten million times a second and more.
//!
//! Algorithms live with the coordinates that they compute with: `tree`, `dragonfly` and `grid` need a
//! few nanoseconds and memory linear in switches; `graph` routes any fabric by tables.
//!
//! The trait is made for the hardest algorithms known: it sees the packet's input link and virtual lane
//! (escape lanes, dateline crossings), what the routing wrote into the packet on an earlier hop (the
//! intermediate stop of a detour), the depths of the output queues (adaptive choice) and what the switch
//! remembers of a flow (flowlets). It returns a virtual lane and the note for the next switch besides the
//! link, and can list all hops that it might ever answer with: that is what freedom from deadlock is proved on.

pub mod deadlock;
mod delivers;
mod dragonfly;
mod graph;
mod grid;
pub(crate) mod hash;
mod load;
mod path;
mod sight;
mod tree;

use std::fmt;

use fabriscope_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::graph::{EndpointId, LinkId, SwitchId};
use crate::topology::{Coordinates, Fabric};

pub use delivers::{Defect, Delivery, delivers};
pub use graph::{Fault, Survey, Survivors, Tables, forward, forward_partly, impure_tree, roots_by_hops, survey};
pub use load::Load;
pub use path::{path, switch_hops};
pub use sight::{Idle, Memory, Sight};

/// The routing algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Routing {
    /// The destination alone selects the way up, as subnet managers of InfiniBand set their tables up (OpenSM `ftree`).
    #[default]
    DModK,
    /// A hash of the flow selects among the shortest paths: all packets of a flow take one path (Ethernet, RoCE).
    Ecmp,
    /// Each packet of a flow takes the next shortest path: round robin over all of them (Ultra Ethernet, adaptive InfiniBand).
    Spray,
    /// Each packet takes the least loaded of a few ways, detours included where the topology has them (Slingshot).
    Adaptive,
    /// A flow may change its path whenever it pauses for longer than a gap.
    Flowlet(Flowlet),
    /// One dimension after the other (torus, mesh, hypercube, HyperX, full mesh).
    DimensionOrder,
    /// The shortest path of a dragonfly: at most one global link.
    Minimal,
    /// By way of a random intermediate stop, whatever the load.
    Valiant,
    /// Minimal or by a random intermediate stop, whichever queue at the first switch promises the shorter wait.
    UgalL,
    /// The same with knowledge of the queues of all switches of the group: a bound for what local knowledge can reach.
    UgalG,
    /// Shortest paths, balanced over the ports (OpenSM `minhop`). Can deadlock on a fabric with cycles.
    MinHop,
    /// Shortest paths that never go up again after going down (OpenSM `updn`).
    UpDown,
    /// Tables for shift traffic on any fat tree, regular or not (OpenSM `ftree`).
    Ftree,
    /// Several addresses per endpoint, each with a path of its own (InfiniBand LMC).
    Lmc(Lmc),
    /// The forwarding tables that came with an imported fabric.
    Table,
}

/// When a flow may change its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flowlet {
    /// The shortest pause: longer than the paths differ in delay, so that packets stay in order.
    pub gap: Span,
}

/// Several addresses per endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lmc {
    /// LID mask control: an endpoint has 2^bits addresses.
    #[schemars(range(min = 0, max = 7))]
    pub bits: u8,
}

impl Routing {
    /// The name in files and on the command line, without parameters.
    pub const fn name(self) -> &'static str {
        match self {
            Routing::DModK => "d_mod_k",
            Routing::Ecmp => "ecmp",
            Routing::Spray => "spray",
            Routing::Adaptive => "adaptive",
            Routing::Flowlet(_) => "flowlet",
            Routing::DimensionOrder => "dimension_order",
            Routing::Minimal => "minimal",
            Routing::Valiant => "valiant",
            Routing::UgalL => "ugal_l",
            Routing::UgalG => "ugal_g",
            Routing::MinHop => "min_hop",
            Routing::UpDown => "up_down",
            Routing::Ftree => "ftree",
            Routing::Lmc(_) => "lmc",
            Routing::Table => "table",
        }
    }
    /// Whether packets of one flow take different paths at once, so that receivers must accept them in any order.
    pub const fn reorders(self) -> bool {
        matches!(self, Routing::Spray | Routing::Adaptive | Routing::Valiant | Routing::UgalL | Routing::UgalG)
    }
}

impl fmt::Display for Routing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
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
    /// What the routing wrote into the packet at the switch before; 0 when it comes from an endpoint.
    pub via: u16,
}

/// The next step of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// The link to leave by.
    pub link: LinkId,
    /// The virtual lane to leave on.
    pub vl: u8,
    /// A note for the next switch, such as the intermediate stop of a detour; 0 for none.
    pub via: u16,
}

/// A routing algorithm on one fabric.
pub trait Route {
    /// The next step of a packet that stands at switch `at`.
    ///
    /// The destination must be an endpoint of the fabric. The answer depends on the arguments alone.
    #[must_use]
    fn output(&self, at: SwitchId, head: Head, sight: &mut impl Sight) -> Hop;

    /// Visits every hop that [`Route::output`] could answer with for this head, whatever its entropy, the queues and
    /// what is remembered; some may be visited twice. The proof of freedom from deadlock rests on it.
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop));

    /// Whether [`Route::output`] depends on the head alone: neither queues, nor time, nor memory.
    fn oblivious(&self) -> bool {
        true
    }

    /// How many virtual lanes it needs; lanes 0 … `lanes() - 1` appear in [`Hop::vl`]. Endpoints send on lane 0.
    fn lanes(&self) -> u8;

    /// The most links that a path can have, those of the endpoints included.
    fn longest(&self) -> u32;

    /// Why no packets can ever wait for each other in a circle, where the construction guarantees it on every member
    /// of the family. The suites check the claim on small members; large ones are believed.
    fn proof(&self) -> Option<&'static str> {
        None
    }
}

/// One of the algorithms of [`Routing`] on one fabric.
#[derive(Clone, Debug)]
pub struct Router(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Direct,
    DModK(tree::Walk<tree::DModK>),
    Ecmp(tree::Walk<tree::Ecmp>),
    Spray(tree::Walk<tree::Spray>),
    Tree(tree::Adaptive),
    Dragonfly(dragonfly::Router),
    Grid(grid::Router),
    Graph(graph::Router),
}

/// Why an algorithm cannot route a fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutingError {
    /// The algorithm computes with coordinates of another family.
    #[error("`{routing}` does not know how to route this topology; choose one of {known}")]
    Unsuitable {
        /// The algorithm asked for.
        routing: Routing,
        /// Those that would work.
        known: &'static str,
    },
    /// The algorithm would need more than the fabric or the engine offers.
    #[error("`{routing}` cannot route this fabric: {what}; {remedy}")]
    Cannot {
        /// The algorithm asked for.
        routing: Routing,
        /// What is in the way.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
}

impl Router {
    /// Prepares `routing` for `fabric`.
    ///
    /// # Errors
    /// The algorithm is made for another family of topologies, or this member of the family is beyond it.
    pub fn new(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
        Ok(Router(match (&fabric.coordinates, routing) {
            (Coordinates::Direct, _) => Kind::Direct,
            (Coordinates::Tree(tree), Routing::DModK) => Kind::DModK(tree::Walk::new(tree)),
            (Coordinates::Tree(tree), Routing::Ecmp) => Kind::Ecmp(tree::Walk::new(tree)),
            (Coordinates::Tree(tree), Routing::Spray) => Kind::Spray(tree::Walk::new(tree)),
            (Coordinates::Tree(tree), Routing::Adaptive) => Kind::Tree(tree::Adaptive::new(tree, None)),
            (Coordinates::Tree(tree), Routing::Flowlet(flowlet)) => Kind::Tree(tree::Adaptive::new(tree, Some(flowlet.gap))),
            (Coordinates::Dragonfly(_), _) if dragonfly::Router::knows(routing) => {
                Kind::Dragonfly(dragonfly::Router::new(fabric, routing)?)
            }
            (Coordinates::Dragonfly(_), _) => Kind::Graph(graph::Router::new(fabric, routing).map_err(dragonfly::proposing)?),
            (Coordinates::Grid(_), _) if grid::Router::knows(routing) => Kind::Grid(grid::Router::new(fabric, routing)?),
            _ => Kind::Graph(graph::Router::new(fabric, routing)?),
        }))
    }
}

/// Hands a call to the algorithm.
macro_rules! each {
    ($kind:expr, $route:ident => $call:expr, direct => $direct:expr) => {
        match $kind {
            Kind::Direct => $direct,
            Kind::DModK($route) => $call,
            Kind::Ecmp($route) => $call,
            Kind::Spray($route) => $call,
            Kind::Tree($route) => $call,
            Kind::Dragonfly($route) => $call,
            Kind::Grid($route) => $call,
            Kind::Graph($route) => $call,
        }
    };
}

impl Router {
    /// Apart from the oblivious walks of trees, which are worth having in the caller: they take a few nanoseconds.
    #[inline(never)]
    fn output_elsewhere(&self, at: SwitchId, head: Head, sight: &mut impl Sight) -> Hop {
        // Back to back there is no switch to ask at; going back is the only link that is surely there.
        each!(&self.0, route => route.output(at, head, sight), direct => Hop { link: head.input.reverse(), vl: head.vl, via: 0 })
    }
}

impl Route for Router {
    #[inline(always)]
    fn output(&self, at: SwitchId, head: Head, sight: &mut impl Sight) -> Hop {
        match &self.0 {
            Kind::DModK(walk) => walk.output(at, head, sight),
            Kind::Ecmp(walk) => walk.output(at, head, sight),
            Kind::Spray(walk) => walk.output(at, head, sight),
            _ => self.output_elsewhere(at, head, sight),
        }
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        each!(&self.0, route => route.options(at, head, visit), direct => ());
    }
    #[inline]
    fn oblivious(&self) -> bool {
        each!(&self.0, route => route.oblivious(), direct => true)
    }
    fn lanes(&self) -> u8 {
        each!(&self.0, route => route.lanes(), direct => 1)
    }
    fn longest(&self) -> u32 {
        each!(&self.0, route => route.longest(), direct => 1)
    }
    fn proof(&self) -> Option<&'static str> {
        each!(&self.0, route => route.proof(), direct => Some("there is no switch"))
    }
}
