//! Routing of any fabric by its graph alone: by forwarding tables, as subnet managers of InfiniBand compute them, or over
//! all shortest paths. One algorithm, one file.

mod acyclic;
mod balance;
mod dependencies;
mod forward;
mod service_levels;
mod skeleton;
mod survivors;
mod tables;
mod tree_order;

use std::sync::Arc;

use super::{Head, Hop, Route, Routing, RoutingError, SwitchView};
use crate::graph::SwitchId;
use crate::topology::{Coordinates, Fabric};

use forward::Forward;
use skeleton::Skeleton;

pub use forward::{Fault, Survey, survey};
pub use ftree::impure_tree;
pub use service_levels::{Layered, ServiceLevels};
pub use survivors::Survivors;
pub use tables::Tables;
pub use up_down::roots_by_hops;

/// Declares the algorithms: the file, whose `prepare` makes a [`Router`], and the names of [`Routing`] that it is chosen by.
macro_rules! algorithms {
    ($($file:ident: $($routing:ident),+;)*) => {
        $(mod $file;)*

        impl Router {
            /// Whether there is an algorithm of this name that reads the graph.
            const fn knows(routing: Routing) -> bool {
                match routing {
                    $($(Routing::$routing { .. })|+ => true,)*
                    _ => false,
                }
            }
            /// Prepares `routing` for `fabric`.
            pub(super) fn new(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
                match routing {
                    _ if !Router::suits(routing, &fabric.coordinates) => Err(unsuitable(fabric, routing)),
                    $($(Routing::$routing { .. })|+ => $file::prepare(fabric, routing),)*
                    _ => Err(unsuitable(fabric, routing)),
                }
            }
        }
    };
}

algorithms! {
    dfsssp: Dfsssp;
    dnup: Dnup;
    ftree: Ftree;
    imported: Table;
    lash: Lash;
    min_hop: MinHop, Lmc;
    nue: Nue;
    port_order: DimensionOrder;
    shortest: Ecmp, Spray, Adaptive, Flowlet;
    sssp: Sssp;
    torus_2qos: Torus2Qos;
    up_down: UpDown;
}

/// An algorithm of this family on one fabric.
#[derive(Clone, Debug)]
pub(super) enum Router {
    /// By tables.
    Forward(Forward),
    /// Over all shortest paths.
    Shortest(shortest::Shortest),
}

impl Router {
    /// Whether `routing` can route fabrics with these coordinates by their graph, if not every one of them.
    pub(super) fn suits(routing: Routing, coordinates: &Coordinates) -> bool {
        match routing {
            // Where there are coordinates, they say what a dimension is; else the order of the ports has to.
            Routing::DimensionOrder | Routing::Table => matches!(coordinates, Coordinates::Irregular(_)),
            Routing::Torus2Qos => torus_2qos::suits(coordinates),
            Routing::Ftree => matches!(coordinates, Coordinates::Irregular(_) | Coordinates::Tree(_)),
            _ => Router::knows(routing),
        }
    }
    /// Tables that lead from every endpoint to every address.
    pub(super) fn forward(fabric: &Fabric, routing: Routing, tables: Tables, proof: Option<&'static str>) -> Result<Router, RoutingError> {
        Forward::new(fabric, routing, Arc::new(tables), proof).map(Router::Forward)
    }
    /// The same with service levels.
    fn layered(fabric: &Fabric, routing: Routing, layered: Layered, proof: &'static str) -> Result<Router, RoutingError> {
        let forward = Forward::new(fabric, routing, Arc::new(layered.tables), Some(proof))?;
        Ok(Router::Forward(forward.with_levels(fabric, layered.levels)))
    }
}

fn unsuitable(fabric: &Fabric, routing: Routing) -> RoutingError {
    let suited = Routing::ALL.iter().filter(|other| other.suits(&fabric.coordinates));
    RoutingError::Unsuitable { routing, known: suited.map(|other| other.name()).collect::<Vec<_>>().join(", ") }
}

/// Tables on one fabric as a routing.
///
/// # Errors
/// Tables that do not lead from every endpoint to every address.
pub fn forward(fabric: &Fabric, tables: Tables) -> Result<impl Route + use<>, RoutingError> {
    Forward::new(fabric, Routing::Table, Arc::new(tables), None)
}

/// Tables that may lead to some places only, for [`deadlock`](super::deadlock): packets end where there is no entry.
pub fn forward_partly(fabric: &Fabric, tables: Tables) -> impl Route + use<> {
    Forward::partial(fabric, Arc::new(tables))
}

/// The same with service levels.
pub fn forward_layered(fabric: &Fabric, layered: Layered) -> impl Route + use<> {
    Forward::partial(fabric, Arc::new(layered.tables)).with_levels(fabric, layered.levels)
}

fn skeleton(fabric: &Fabric, routing: Routing, lmc: u8) -> Result<Skeleton, RoutingError> {
    if lmc > MOST_LMC {
        let what = format!("{lmc} bits of LMC were asked for");
        return Err(RoutingError::Cannot { routing, what, remedy: "write 0 to 7 bits: at most 128 addresses per endpoint" });
    }
    Skeleton::new(fabric, routing)
}

/// Hands a call to the algorithm.
macro_rules! each {
    ($router:expr, $route:ident => $call:expr) => {
        match $router {
            Router::Forward($route) => $call,
            Router::Shortest($route) => $call,
        }
    };
}

impl Route for Router {
    #[inline]
    fn output(&self, at: SwitchId, head: Head, view: &mut impl SwitchView) -> Hop {
        each!(self, route => route.output(at, head, view))
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        each!(self, route => route.options(at, head, visit));
    }
    fn oblivious(&self) -> bool {
        each!(self, route => route.oblivious())
    }
    fn lanes(&self) -> u8 {
        each!(self, route => route.lanes())
    }
    fn longest(&self) -> u32 {
        each!(self, route => route.longest())
    }
    fn proof(&self) -> Option<&'static str> {
        each!(self, route => route.proof())
    }
}

/// Why tables without up after down are free of deadlock.
const UP_THEN_DOWN: &str = "every path goes up, then down: links up come before links down, and each by its rank";
/// The most bits of LMC (InfiniBand Architecture Specification vol. 1, §14.2.5.6).
const MOST_LMC: u8 = 7;
