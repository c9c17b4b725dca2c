//! Routing of any fabric by its graph alone: by forwarding tables, as subnet managers of InfiniBand compute them, or over
//! all shortest paths. One algorithm, one file.

mod balance;
mod forward;
mod ftree;
mod min_hop;
mod port_order;
mod shortest;
mod skeleton;
mod survivors;
mod tables;
mod up_down;

use std::sync::Arc;

use super::{Head, Hop, Route, Routing, RoutingError, Sight};
use crate::graph::{Node, SwitchId};
use crate::topology::{Coordinates, Fabric};

use forward::Forward;
use ftree::{Impure, NoTree};
use shortest::{Choice, Shortest};
use skeleton::Skeleton;

pub use forward::{Fault, Survey, survey};
pub use survivors::Survivors;
pub use tables::Tables;

/// An algorithm of this family on one fabric.
#[derive(Clone, Debug)]
pub(super) struct Router(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Forward(Forward),
    Shortest(Shortest),
}

impl Router {
    pub(super) fn new(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
        let shortest = |choice| {
            let skeleton = Skeleton::new(fabric, routing)?;
            Shortest::new(fabric, routing, &skeleton, choice).map(Kind::Shortest)
        };
        let forward = |tables: Tables, proof| Forward::new(fabric, routing, Arc::new(tables), proof).map(Kind::Forward);
        Ok(Router(match routing {
            Routing::MinHop => forward(Tables::min_hop(fabric, 0)?, None)?,
            Routing::UpDown => forward(Tables::up_down(fabric, 0, None)?, Some(UP_THEN_DOWN))?,
            Routing::Ftree => forward(Tables::ftree(fabric)?, Some(UP_THEN_DOWN))?,
            Routing::Lmc(lmc) => forward(Tables::min_hop(fabric, lmc.bits)?, None)?,
            // Where there are coordinates, they say what a dimension is; else the order of the ports has to.
            Routing::DimensionOrder if matches!(fabric.coordinates, Coordinates::Irregular(_)) => {
                forward(Tables::port_order(fabric)?, None)?
            }
            Routing::Table => match &fabric.coordinates {
                Coordinates::Irregular(crate::topology::Irregular { tables: Some(tables), .. }) => {
                    Kind::Forward(Forward::new(fabric, routing, Arc::clone(tables), None)?)
                }
                _ => {
                    let what = "no tables came with it".to_owned();
                    return Err(RoutingError::Cannot { routing, what, remedy: "import the fabric with its tables, or choose min_hop" });
                }
            },
            Routing::Ecmp => shortest(Choice::Hash)?,
            Routing::Spray => shortest(Choice::Turn)?,
            Routing::Adaptive => shortest(Choice::Queue)?,
            Routing::Flowlet(flowlet) => shortest(Choice::Pause(flowlet.gap))?,
            _ => {
                let known = match fabric.coordinates {
                    Coordinates::Tree(_) => "d_mod_k, ecmp, spray, flowlet, adaptive, ftree, min_hop, up_down, lmc",
                    Coordinates::Grid(_) => "dimension_order, ecmp, spray, flowlet, adaptive, min_hop, up_down, lmc",
                    _ => "dimension_order, ecmp, spray, flowlet, adaptive, ftree, min_hop, up_down, lmc, table",
                };
                return Err(RoutingError::Unsuitable { routing, known });
            }
        }))
    }
}

impl Tables {
    /// Shortest paths with 2^`lmc` addresses for each endpoint, balanced over the ports (OpenSM `minhop`).
    ///
    /// # Errors
    /// A fabric in parts, switches with more than 254 ports, more than 2³⁰ entries, an `lmc` above 7.
    pub fn min_hop(fabric: &Fabric, lmc: u8) -> Result<Tables, RoutingError> {
        let routing = if lmc == 0 { Routing::MinHop } else { Routing::Lmc(super::Lmc { bits: lmc }) };
        let skeleton = skeleton(fabric, routing, lmc)?;
        Ok(min_hop::tables(&skeleton, fabric.graph.endpoint_count(), lmc))
    }
    /// Shortest paths that never go up after going down (OpenSM `updn`). Without `roots` those are taken that OpenSM finds
    /// by hop counts, else the switches farthest from endpoints, else the one in the middle.
    ///
    /// # Errors
    /// As [`Tables::min_hop`]. Roots that are given may leave pairs of endpoints without a path: their entries are missing, as
    /// in OpenSM, and [`survey`] tells which.
    pub fn up_down(fabric: &Fabric, lmc: u8, roots: Option<&[SwitchId]>) -> Result<Tables, RoutingError> {
        let routing = Routing::UpDown;
        let skeleton = skeleton(fabric, routing, lmc)?;
        let endpoints = fabric.graph.endpoint_count();
        if let Some(roots) = roots {
            return Ok(up_down::tables(&skeleton, endpoints, lmc, roots).0);
        }
        legal(fabric, &skeleton, lmc).map(|(_, tables)| tables).ok_or_else(|| no_path(routing))
    }
    /// The roots that [`Tables::up_down`] takes where none are given.
    ///
    /// # Errors
    /// As [`Tables::up_down`].
    pub fn roots(fabric: &Fabric) -> Result<Vec<SwitchId>, RoutingError> {
        let skeleton = skeleton(fabric, Routing::UpDown, 0)?;
        legal(fabric, &skeleton, 0).map(|(roots, _)| roots).ok_or_else(|| no_path(Routing::UpDown))
    }
    /// Tables for shift traffic on any fat tree (OpenSM `ftree`).
    ///
    /// # Errors
    /// As [`Tables::min_hop`]; a fabric that is no fat tree, and where.
    pub fn ftree(fabric: &Fabric) -> Result<Tables, RoutingError> {
        let routing = Routing::Ftree;
        let skeleton = skeleton(fabric, routing, 0)?;
        let name = |at| fabric.name(Node::Switch(at));
        ftree::tables(&skeleton, fabric.graph.endpoint_count()).map_err(|why| {
            let what = match why {
                NoTree::Level(one, other, 0) => {
                    format!("it is no fat tree: {} and {} both have endpoints, and a cable between them", name(one), name(other))
                }
                NoTree::Level(one, other, level) => {
                    format!("it is no fat tree: a cable joins {} and {}, both {level} levels above the leaves", name(one), name(other))
                }
                NoTree::Apart(one, other) => format!("no path from {} to {} goes up and then down", name(one), name(other)),
            };
            RoutingError::Cannot { routing, what, remedy: "choose up_down, which routes any fabric without deadlock" }
        })
    }
    /// Shortest paths by the lowest port: dimension order where ports are in the order of dimensions (OpenSM `dor`).
    ///
    /// # Errors
    /// As [`Tables::min_hop`].
    pub fn port_order(fabric: &Fabric) -> Result<Tables, RoutingError> {
        let skeleton = skeleton(fabric, Routing::DimensionOrder, 0)?;
        Ok(port_order::tables(&skeleton, fabric.graph.endpoint_count()))
    }
}

/// The roots that OpenSM's `updn` would find by hop counts, where `adapters` counts the adapters at each switch, aggregation
/// nodes included; without any it falls back to `minhop`.
///
/// # Errors
/// As [`Tables::min_hop`].
pub fn roots_by_hops(fabric: &Fabric, adapters: &[u32]) -> Result<Vec<SwitchId>, RoutingError> {
    Ok(up_down::roots_by_hops(&skeleton(fabric, Routing::UpDown, 0)?, adapters))
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

/// Why OpenSM's `ftree` would not take a fabric as a fat tree although ours does, where no roots are given to it; it then
/// uses `minhop` and says so in its log alone. `None` where it takes it.
///
/// # Errors
/// As [`Tables::min_hop`].
pub fn impure_tree(fabric: &Fabric) -> Result<Option<String>, RoutingError> {
    let skeleton = skeleton(fabric, Routing::Ftree, 0)?;
    let name = |at| fabric.name(Node::Switch(at));
    Ok(ftree::impure(&skeleton).map(|why| match why {
        Impure::OneSwitch => "the fabric has one switch only".to_owned(),
        Impure::Groups(one, other, way) => {
            format!("{} and {} of one level have cables to different numbers of switches {way} (ERR AB09, AB0A)", name(one), name(other))
        }
        Impure::Cables(one, other, way) => {
            format!("{} and {} of one level have different numbers of cables to a switch {way} (ERR AB0B, AB0C)", name(one), name(other))
        }
    }))
}

fn skeleton(fabric: &Fabric, routing: Routing, lmc: u8) -> Result<Skeleton, RoutingError> {
    if lmc > MOST_LMC {
        let what = format!("{lmc} bits of LMC were asked for");
        return Err(RoutingError::Cannot { routing, what, remedy: "write 0 to 7 bits: at most 128 addresses per endpoint" });
    }
    Skeleton::new(fabric, routing)
}

/// The first proposal of roots that leaves no pair without a path, and its tables.
fn legal(fabric: &Fabric, skeleton: &Skeleton, lmc: u8) -> Option<(Vec<SwitchId>, Tables)> {
    // From one root everything can be reached: up to it and down again.
    let centre = || up_down::centre(skeleton).into_iter().collect();
    let proposals = [up_down::roots_by_hops(skeleton, &adapters(fabric)), up_down::roots_by_level(skeleton), centre()];
    proposals.into_iter().filter(|roots| !roots.is_empty()).find_map(|roots| {
        let (tables, complete) = up_down::tables(skeleton, fabric.graph.endpoint_count(), lmc, &roots);
        complete.then_some((roots, tables))
    })
}

fn no_path(routing: Routing) -> RoutingError {
    RoutingError::Cannot { routing, what: "a pair of its leaves has no path".to_owned(), remedy: "add the missing cables" }
}

/// Endpoints at each switch.
fn adapters(fabric: &Fabric) -> Vec<u32> {
    let graph = &fabric.graph;
    let mut adapters = vec![0; graph.switch_count() as usize];
    for endpoint in graph.endpoints() {
        if let Node::Switch(at) = graph.node(graph.link(graph.uplink(endpoint)).to) {
            adapters[at.index()] += 1;
        }
    }
    adapters
}

impl Route for Router {
    #[inline]
    fn output(&self, at: SwitchId, head: Head, sight: &mut impl Sight) -> Hop {
        match &self.0 {
            Kind::Forward(route) => route.output(at, head, sight),
            Kind::Shortest(route) => route.output(at, head, sight),
        }
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        match &self.0 {
            Kind::Forward(route) => route.options(at, head, visit),
            Kind::Shortest(route) => route.options(at, head, visit),
        }
    }
    fn oblivious(&self) -> bool {
        match &self.0 {
            Kind::Forward(route) => route.oblivious(),
            Kind::Shortest(route) => route.oblivious(),
        }
    }
    fn lanes(&self) -> u8 {
        match &self.0 {
            Kind::Forward(route) => route.lanes(),
            Kind::Shortest(route) => route.lanes(),
        }
    }
    fn longest(&self) -> u32 {
        match &self.0 {
            Kind::Forward(route) => route.longest(),
            Kind::Shortest(route) => route.longest(),
        }
    }
    fn proof(&self) -> Option<&'static str> {
        match &self.0 {
            Kind::Forward(route) => route.proof(),
            Kind::Shortest(route) => route.proof(),
        }
    }
}

/// Why tables without up after down are free of deadlock.
const UP_THEN_DOWN: &str = "every path goes up, then down: links up come before links down, and each by its rank";
/// The most bits of LMC (InfiniBand Architecture Specification vol. 1, §14.2.5.6).
const MOST_LMC: u8 = 7;
