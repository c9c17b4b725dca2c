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

mod algorithm;
pub mod deadlock;
mod delivers;
mod dragonfly;
mod family;
mod graph;
mod grid;
pub(crate) mod hash;
mod load;
mod path;
mod prototype;
mod switch_view;
mod tree;

use crate::graph::{EndpointId, LinkId, SwitchId};
use crate::topology::{Coordinates, Fabric};

pub use algorithm::{Flowlet, Lmc, Nue, Routing, Sharing};
pub use delivers::{Defect, Delivery, delivers};
pub use graph::{
    Fault, Layered, ServiceLevels, Survey, Survivors, Tables, forward, forward_layered, forward_partly, impure_tree, roots_by_hops, survey,
};
pub use load::Load;
pub use path::{path, switch_hops};
pub use prototype::{Choice, RoutePrototype};
pub use switch_view::{Idle, Memory, SwitchView};

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
    fn output(&self, at: SwitchId, head: Head, view: &mut impl SwitchView) -> Hop;

    /// Visits every hop that [`Route::output`] could answer with for this head, whatever its entropy, the queues and
    /// what is remembered; some may be visited twice. The proof of freedom from deadlock rests on it.
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop));

    /// Whether [`Route::options`] may depend on [`Head::input`]. Where it does not, heads of one lane at one switch have the same
    /// options, and a visit of all heads asks once for all of them.
    fn options_by_input(&self) -> bool {
        true
    }

    /// Whether [`Route::output`] depends on the head alone: neither queues, nor time, nor memory.
    fn oblivious(&self) -> bool {
        true
    }

    /// How many virtual lanes it needs; lanes 0 … `lanes() - 1` appear in [`Hop::vl`]. Endpoints send on lane 0.
    fn lanes(&self) -> u8;

    /// The most links that a path can have, those of the endpoints included.
    fn longest(&self) -> u32;

    /// Why no packets can ever wait for each other in a cycle, where the construction guarantees it on every member
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
    Tree(tree::Router),
    Dragonfly(dragonfly::Router),
    Grid(grid::Router),
    Graph(graph::Router),
    Prototype(prototype::Chosen),
}

/// Why an algorithm cannot route a fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum RoutingError {
    /// The algorithm computes with coordinates of another family.
    #[error("`{routing}` does not know how to route this topology")]
    #[diagnostic(help("choose one of {known}"))]
    Unsuitable {
        /// The algorithm asked for.
        routing: Routing,
        /// Those that would work.
        known: String,
    },
    /// The algorithm would need more than the fabric or the engine offers.
    #[error("`{routing}` cannot route this fabric: {what}")]
    #[diagnostic(help("{remedy}"))]
    Cannot {
        /// The algorithm asked for.
        routing: Routing,
        /// What is in the way.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
}

impl Routing {
    /// Whether there is an algorithm of this name that computes with these coordinates; for fabrics without any, one that
    /// reads the graph.
    #[must_use]
    pub fn is_made_for(self, coordinates: &Coordinates) -> bool {
        match coordinates {
            Coordinates::Direct => false,
            Coordinates::Tree(_) => tree::Router::knows(self),
            Coordinates::Dragonfly(_) => dragonfly::Router::knows(self),
            Coordinates::Grid(_) => grid::Router::knows(self),
            Coordinates::Irregular(_) => graph::Router::suits(self, coordinates),
        }
    }
    /// Whether it can route fabrics with these coordinates, if not every one of them.
    #[must_use]
    pub fn suits(self, coordinates: &Coordinates) -> bool {
        matches!(coordinates, Coordinates::Direct) || self.is_made_for(coordinates) || graph::Router::suits(self, coordinates)
    }
}

impl Router {
    /// Prepares `routing` for `fabric`.
    ///
    /// # Errors
    /// The algorithm is made for another family of topologies, or this member of the family is beyond it.
    pub fn new(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
        let prepared = match &fabric.coordinates {
            Coordinates::Direct => return Ok(Router(Kind::Direct)),
            Coordinates::Tree(tree) => tree::Router::new(fabric, tree, routing).map(|router| router.map(Kind::Tree)),
            Coordinates::Dragonfly(groups) => dragonfly::Router::new(fabric, groups, routing).map(|router| router.map(Kind::Dragonfly)),
            Coordinates::Grid(grid) => grid::Router::new(fabric, grid, routing).map(|router| router.map(Kind::Grid)),
            Coordinates::Irregular(_) => None,
        };
        prepared.unwrap_or_else(|| graph::Router::new(fabric, routing).map(Kind::Graph)).map(Router)
    }
}

/// Hands a call to the algorithm.
macro_rules! each {
    ($kind:expr, $route:ident => $call:expr, direct => $direct:expr) => {
        match $kind {
            Kind::Direct => $direct,
            Kind::Tree($route) => $call,
            Kind::Dragonfly($route) => $call,
            Kind::Grid($route) => $call,
            Kind::Graph($route) => $call,
            Kind::Prototype($route) => $call,
        }
    };
}

impl Router {
    /// The routing that forwarding tables are, on any fabric with switches.
    ///
    /// # Errors
    /// Tables that do not lead from every endpoint to every address.
    pub fn by_tables(fabric: &Fabric, tables: Tables) -> Result<Router, RoutingError> {
        graph::Router::forward(fabric, Routing::Table, tables, None).map(|router| Router(Kind::Graph(router)))
    }
    /// The same with a choice from outside among its ways.
    #[must_use]
    pub fn chosen_by(self, prototype: RoutePrototype) -> Router {
        Router(Kind::Prototype(prototype::Chosen { under: Box::new(self), prototype }))
    }

    /// Apart from the oblivious walks of trees, which are worth having in the caller: they take a few nanoseconds.
    #[inline(never)]
    fn output_elsewhere(&self, at: SwitchId, head: Head, view: &mut impl SwitchView) -> Hop {
        // Back to back there is no switch to ask at; going back is the only link that is surely there.
        each!(&self.0, route => route.output(at, head, view), direct => Hop { link: head.input.reverse(), vl: head.vl, via: 0 })
    }
}

impl Route for Router {
    #[inline(always)]
    fn output(&self, at: SwitchId, head: Head, view: &mut impl SwitchView) -> Hop {
        match &self.0 {
            Kind::Tree(router) => router.output(at, head, view),
            _ => self.output_elsewhere(at, head, view),
        }
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        each!(&self.0, route => route.options(at, head, visit), direct => ());
    }
    fn options_by_input(&self) -> bool {
        each!(&self.0, route => route.options_by_input(), direct => true)
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
