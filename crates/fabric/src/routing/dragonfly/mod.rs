//! Routing on fabrics of groups: dragonfly and dragonfly+.
//!
//! [`ground`] computes links and lanes, [`walk`] is the way to another group and to the destination that all share,
//! and each algorithm has a file. The equations and the order of the lanes are told in `docs/models/dragonfly.md`.

mod adaptive;
mod detour;
mod ecmp;
mod ground;
mod minimal;
mod spray;
mod ugal;
mod valiant;
mod walk;

use super::{Head, Hop, Route, Routing, RoutingError, Sight};
use crate::graph::SwitchId;
use crate::topology::{Coordinates, Fabric};

use adaptive::Adaptive;
use ecmp::ByFlow;
use minimal::{ByDestination, Minimal};
use spray::ByPacket;
use ugal::Ugal;
use valiant::Valiant;

/// An algorithm of this family on one fabric.
#[derive(Clone, Debug)]
pub(super) struct Router(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Minimal(Minimal<ByDestination>),
    Ecmp(Minimal<ByFlow>),
    Spray(Minimal<ByPacket>),
    Valiant(Valiant),
    UgalL(Ugal<false>),
    UgalG(Ugal<true>),
    Adaptive(Adaptive),
}

impl Router {
    /// Whether this family has an algorithm of its own under this name.
    pub(super) fn knows(routing: Routing) -> bool {
        use Routing::{Adaptive, Ecmp, Minimal, Spray, UgalG, UgalL, Valiant};
        matches!(routing, Minimal | Ecmp | Spray | Valiant | UgalL | UgalG | Adaptive)
    }
    pub(super) fn new(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
        let unsuitable = RoutingError::Unsuitable { routing, known: KNOWN };
        let Coordinates::Dragonfly(groups) = &fabric.coordinates else { return Err(unsuitable) };
        Ok(Router(match routing {
            Routing::Minimal => Kind::Minimal(Minimal::new(groups)),
            Routing::Ecmp => Kind::Ecmp(Minimal::new(groups)),
            Routing::Spray => Kind::Spray(Minimal::new(groups)),
            Routing::Valiant => Kind::Valiant(Valiant::new(groups)),
            Routing::UgalL => Kind::UgalL(Ugal::new(groups)),
            Routing::UgalG => Kind::UgalG(Ugal::new(groups)),
            Routing::Adaptive => Kind::Adaptive(Adaptive::new(groups)),
            _ => return Err(unsuitable),
        }))
    }
}

/// The error of a routing that fits no fabric of groups, with those that do.
pub(super) fn proposing(error: RoutingError) -> RoutingError {
    match error {
        RoutingError::Unsuitable { routing, .. } => RoutingError::Unsuitable { routing, known: KNOWN },
        other => other,
    }
}

/// Hands a call to the algorithm.
macro_rules! each {
    ($router:expr, $route:ident => $call:expr) => {
        match $router {
            Kind::Minimal($route) => $call,
            Kind::Ecmp($route) => $call,
            Kind::Spray($route) => $call,
            Kind::Valiant($route) => $call,
            Kind::UgalL($route) => $call,
            Kind::UgalG($route) => $call,
            Kind::Adaptive($route) => $call,
        }
    };
}

impl Route for Router {
    #[inline]
    fn output(&self, at: SwitchId, head: Head, sight: &mut impl Sight) -> Hop {
        each!(&self.0, route => route.output(at, head, sight))
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        each!(&self.0, route => route.options(at, head, visit));
    }
    #[inline]
    fn oblivious(&self) -> bool {
        each!(&self.0, route => route.oblivious())
    }
    fn lanes(&self) -> u8 {
        each!(&self.0, route => route.lanes())
    }
    fn longest(&self) -> u32 {
        each!(&self.0, route => route.longest())
    }
    fn proof(&self) -> Option<&'static str> {
        each!(&self.0, route => route.proof())
    }
}

/// What messages propose.
const KNOWN: &str = "`minimal`, `ecmp`, `spray`, `valiant`, `ugal_l`, `ugal_g`, `adaptive`, `flowlet`, `min_hop`, `up_down`, `lmc`";
