//! Dimension order on a torus of up to three dimensions, by tables and service levels.
//!
//! The first dimension comes first, each by its shorter way; where both are as long, by the one that does not cross the dateline,
//! the link between the last and the first switch of a ring. Bit *d* of a path's service level says whether it crosses the
//! dateline of dimension *d*; the lane on a link is the bit of the link's dimension. Paths of one lane cross the dateline of a ring
//! all or never, and none is longer than half of it: no cycle.
//!
//! Source: torus-2QoS(8) of OpenSM 3.3, "Unicast routing": SL and SL2VL maps; ties as its tables show.
//! Modelled: rings and lines (tori and meshes), parallel cables in turn of the destination's ports, one quality of service.
//! Not modelled: detours around dead cables and switches, the second quality of service, finding the torus in an imported fabric
//! by a configuration file.

use super::service_levels::{Layered, ServiceLevels};
use super::skeleton::{Edge, Skeleton};
use super::{Router, Tables, skeleton};
use crate::graph::{Node, SwitchId};
use crate::routing::{Routing, RoutingError};
use crate::topology::grid::{Grid, Row};
use crate::topology::{Coordinates, Fabric};

/// Prepares `torus_2qos`.
pub(super) fn prepare(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
    Router::layered(fabric, routing, Layered::torus_2qos(fabric)?, DATELINES)
}

/// Whether a grid is a torus or mesh of at most three dimensions.
pub(super) fn suits(coordinates: &Coordinates) -> bool {
    let Coordinates::Grid(grid) = coordinates else { return false };
    grid.dimensions().len() <= MOST_DIMENSIONS && grid.dimensions().iter().all(|dimension| dimension.row != Row::Full)
}

impl Layered {
    /// Dimension order with datelines in the service levels (OpenSM `torus-2QoS`).
    ///
    /// # Errors
    /// As [`Tables::min_hop`]; a fabric that is no torus or mesh of one to three dimensions.
    pub fn torus_2qos(fabric: &Fabric) -> Result<Layered, RoutingError> {
        let routing = Routing::Torus2Qos;
        let grid = match &fabric.coordinates {
            Coordinates::Grid(grid) if suits(&fabric.coordinates) => grid,
            _ => {
                let what = "it is no torus or mesh of one to three dimensions".to_owned();
                return Err(RoutingError::Cannot { routing, what, remedy: "choose dfsssp, lash or nue, which route any fabric" });
            }
        };
        let skeleton = skeleton(fabric, routing, 0)?;
        let mut tables = Tables::new(skeleton.count() as u32, fabric.graph.endpoint_count(), 0);
        let mut levels = ServiceLevels::new(&skeleton, fabric.graph.endpoint_count());
        for leaf in &skeleton.leaves {
            for at in skeleton.switches().filter(|&at| at != leaf.switch) {
                let Some(cables) = cables(&skeleton, grid, at, leaf.switch) else { continue };
                for (turn, &(endpoint, _)) in leaf.endpoints.iter().enumerate() {
                    tables.set(at, endpoint, 0, cables[turn % cables.len()].port);
                }
            }
            for &(endpoint, port) in &leaf.endpoints {
                tables.set(leaf.switch, endpoint, 0, port);
                skeleton.leaves.iter().for_each(|from| levels.set(from.switch, endpoint, level(grid, from.switch, leaf.switch)));
            }
        }
        let axis = |link: &crate::graph::Link| match (fabric.graph.node(link.from), fabric.graph.node(link.to)) {
            (Node::Switch(from), Node::Switch(to)) => first_axis(grid, from, to).unwrap_or(0) as u8,
            _ => 0,
        };
        levels.by_bit(fabric.graph.links().iter().map(axis).collect());
        Ok(Layered { tables, levels })
    }
}

/// The first dimension in which two switches differ.
fn first_axis(grid: &Grid, from: SwitchId, to: SwitchId) -> Option<usize> {
    (0..grid.dimensions().len()).find(|&axis| grid.coordinate(from, axis) != grid.coordinate(to, axis))
}

/// Whether the way from coordinate `from` to `to` leads upwards, and whether it crosses the dateline.
fn way(grid: &Grid, axis: usize, from: u32, to: u32) -> (bool, bool) {
    let dimension = &grid.dimensions()[axis];
    let direct = from.abs_diff(to);
    let crosses = dimension.is_ring() && dimension.size - direct < direct;
    ((to > from) != crosses, crosses)
}

/// The cables of the next step.
fn cables(skeleton: &Skeleton, grid: &Grid, at: SwitchId, to: SwitchId) -> Option<Vec<Edge>> {
    let axis = first_axis(grid, at, to)?;
    let size = grid.dimensions()[axis].size;
    let here = grid.coordinate(at, axis);
    let (up, _) = way(grid, axis, here, grid.coordinate(to, axis));
    let next = if up { (here + 1) % size } else { (here + size - 1) % size };
    let fits = |way: &&Edge| first_axis(grid, at, way.to) == Some(axis) && grid.coordinate(way.to, axis) == next;
    let cables: Vec<Edge> = skeleton.ways(at).iter().filter(fits).copied().collect();
    (!cables.is_empty()).then_some(cables)
}

/// A bit for each dimension whose dateline the path crosses.
fn level(grid: &Grid, from: SwitchId, to: SwitchId) -> u8 {
    let crosses = |axis: usize| {
        let (from, to) = (grid.coordinate(from, axis), grid.coordinate(to, axis));
        from != to && way(grid, axis, from, to).1
    };
    (0..grid.dimensions().len()).map(|axis| u8::from(crosses(axis)) << axis).sum()
}

/// Bits of a service level that stand for dimensions.
const MOST_DIMENSIONS: usize = 3;
/// Why the lanes are free of deadlock.
const DATELINES: &str = "dimensions are visited in one order, and paths on one lane of a ring cross its dateline all or never";
