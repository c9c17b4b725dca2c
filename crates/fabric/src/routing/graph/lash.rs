//! Layered shortest paths: one shortest path for each pair of switches, there and back on the same virtual lane, the first on
//! which no links come to wait for each other in a cycle.
//!
//! Source: T. Skeie, O. Lysne, I. Theiss, "Layered shortest path (LASH) routing in irregular system area networks", CAC 2002;
//! OpenSM 3.3, engine `lash`: of all shortest ways it takes the one behind the lowest port, always, parallel cables or not.
//! Not modelled: evening out the paths over the lanes; the analysis of meshes (`do_mesh_analysis`).

use super::acyclic::Acyclic;
use super::dfsssp::{MOST_LANES, Paths};
use super::service_levels::{Layered, ServiceLevels};
use super::skeleton::{FAR, Skeleton};
use super::{Router, Tables, skeleton};
use crate::routing::{Routing, RoutingError};
use crate::topology::Fabric;

/// Prepares `lash`.
pub(super) fn prepare(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
    Router::layered(fabric, routing, Layered::lash(fabric)?, LAYERED)
}

impl Layered {
    /// Shortest paths by the lowest port, pairs of switches on the first lane that takes them without a cycle (OpenSM `lash`).
    ///
    /// # Errors
    /// As [`Tables::min_hop`]; a fabric that would need more than 15 lanes.
    pub fn lash(fabric: &Fabric) -> Result<Layered, RoutingError> {
        let skeleton = skeleton(fabric, Routing::Lash, 0)?;
        let tables = tables(&skeleton, fabric.graph.endpoint_count());
        let paths = Paths::new(&skeleton);
        let mut levels = ServiceLevels::new(&skeleton, fabric.graph.endpoint_count());
        let mut layers = vec![Acyclic::new(skeleton.way_count())];
        let (mut there, mut back) = (Vec::new(), Vec::new());
        for (number, one) in skeleton.leaves.iter().enumerate() {
            for (other, far) in skeleton.leaves.iter().enumerate().skip(number + 1) {
                paths.ways(&skeleton, &tables, number, far.endpoints[0].0, &mut there);
                paths.ways(&skeleton, &tables, other, one.endpoints[0].0, &mut back);
                let pairs = || there.windows(2).chain(back.windows(2)).map(|pair| (pair[0], pair[1]));
                let found = layers.iter_mut().position(|layer| layer.insert_all(pairs()));
                let layer = found.unwrap_or_else(|| {
                    // Paths of their own never close a cycle.
                    layers.push(Acyclic::new(skeleton.way_count()));
                    let last = layers.len() - 1;
                    layers[last].insert_all(pairs());
                    last
                });
                if layer >= usize::from(MOST_LANES) {
                    let what = format!("its shortest paths need more than {MOST_LANES} lanes to be free of deadlock");
                    return Err(RoutingError::Cannot {
                        routing: Routing::Lash,
                        what,
                        remedy: "choose up_down, which needs one lane, or nue",
                    });
                }
                far.endpoints.iter().for_each(|(dest, _)| levels.set(one.switch, *dest, layer as u8));
                one.endpoints.iter().for_each(|(dest, _)| levels.set(far.switch, *dest, layer as u8));
            }
        }
        Ok(Layered { tables, levels })
    }
}

/// The lowest port of all shortest ways.
fn tables(skeleton: &Skeleton, endpoints: u32) -> Tables {
    let mut tables = Tables::new(skeleton.count() as u32, endpoints, 0);
    for leaf in &skeleton.leaves {
        let distance = skeleton.distances(leaf.switch);
        leaf.endpoints.iter().for_each(|&(endpoint, port)| tables.set(leaf.switch, endpoint, 0, port));
        for at in skeleton.switches().filter(|&at| at != leaf.switch && distance[at.index()] != FAR) {
            let way = skeleton.ways(at).iter().find(|way| distance[way.to.index()] + 1 == distance[at.index()]);
            let Some(way) = way else { continue };
            leaf.endpoints.iter().for_each(|&(endpoint, _)| tables.set(at, endpoint, 0, way.port));
        }
    }
    tables
}

/// Why the lanes are free of deadlock.
const LAYERED: &str = "each lane only takes paths that leave its dependencies without a cycle";
