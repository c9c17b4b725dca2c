//! The paths of `sssp` without deadlock: cycles of links that wait for each other are broken up over virtual lanes.
//!
//! All paths begin in the first layer. As long as the channel dependency graph of a layer has a cycle, the paths that make its
//! weakest dependency, the one with the fewest paths, move to the next layer.
//!
//! Source: J. Domke, T. Hoefler, W. Nagel, "Deadlock-free oblivious routing for arbitrary topologies", IPDPS 2011; OpenSM 3.3,
//! engine `dfsssp`.
//! Modelled: one service level for each pair of a switch and a destination: paths from one switch share all links between switches.
//! Not modelled: spreading paths over lanes that are left.

use super::dependencies::Dependencies;
use super::service_levels::{Layered, ServiceLevels};
use super::skeleton::Skeleton;
use super::{Router, Tables, skeleton, sssp};
use crate::graph::EndpointId;
use crate::routing::{Routing, RoutingError};
use crate::topology::Fabric;

/// Prepares `dfsssp`.
pub(super) fn prepare(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
    Router::layered(fabric, routing, Layered::dfsssp(fabric)?, BROKEN)
}

impl Layered {
    /// The paths of [`Tables::sssp`] on as many lanes as keep them free of deadlock (OpenSM `dfsssp`).
    ///
    /// # Errors
    /// As [`Tables::min_hop`]; a fabric that would need more than 15 lanes.
    pub fn dfsssp(fabric: &Fabric) -> Result<Layered, RoutingError> {
        let skeleton = skeleton(fabric, Routing::Dfsssp, 0)?;
        let tables = sssp::tables(&skeleton, fabric.graph.endpoint_count());
        let paths = Paths::new(&skeleton);
        let mut levels = ServiceLevels::new(&skeleton, fabric.graph.endpoint_count());
        let mut layer_of = vec![0u8; paths.count()];
        let mut here: Vec<u32> = (0..paths.count() as u32).collect();
        let mut ways = Vec::new();
        let follow = |path: u32, ways: &mut Vec<u32>| {
            let (leaf, dest) = paths.ends(path);
            paths.ways(&skeleton, &tables, leaf, dest, ways);
        };
        for layer in 0..=MOST_LANES {
            if here.is_empty() {
                break;
            }
            if layer == MOST_LANES {
                let what = format!("its shortest paths need more than {MOST_LANES} lanes to be free of deadlock");
                return Err(RoutingError::Cannot {
                    routing: Routing::Dfsssp,
                    what,
                    remedy: "choose up_down, which needs one lane, or nue",
                });
            }
            let mut dependencies = Dependencies::new(skeleton.way_count());
            for &path in &here {
                follow(path, &mut ways);
                dependencies.add(path, &ways);
            }
            let mut moved = Vec::new();
            while let Some(weakest) = dependencies.weakest_of_a_cycle() {
                for path in weakest.into_iter().filter(|path| layer_of[*path as usize] == layer).collect::<Vec<_>>() {
                    follow(path, &mut ways);
                    dependencies.remove(&ways);
                    layer_of[path as usize] = layer + 1;
                    moved.push(path);
                }
            }
            moved.sort_unstable();
            here = moved;
        }
        for (path, &layer) in (0u32..).zip(&layer_of).filter(|(_, layer)| **layer > 0) {
            let (leaf, dest) = paths.ends(path);
            levels.set(skeleton.leaves[leaf].switch, dest, layer);
        }
        Ok(Layered { tables, levels })
    }
}

/// Paths from each switch with endpoints to each endpoint, by number.
pub(super) struct Paths {
    leaves: usize,
    endpoints: usize,
    /// By switch and port: the way behind it; [`NO_WAY`] for endpoints.
    by_port: Vec<u32>,
}

impl Paths {
    pub(super) fn new(skeleton: &Skeleton) -> Paths {
        let mut by_port = vec![NO_WAY; skeleton.count() << 8];
        for at in skeleton.switches() {
            skeleton.ways(at).iter().for_each(|way| by_port[at.index() << 8 | usize::from(way.port)] = way.slot);
        }
        let endpoints = skeleton.leaves.iter().map(|leaf| leaf.endpoints.len()).sum();
        Paths { leaves: skeleton.leaves.len(), endpoints, by_port }
    }
    fn count(&self) -> usize {
        self.leaves * self.endpoints
    }
    fn ends(&self, path: u32) -> (usize, EndpointId) {
        (path as usize / self.endpoints, EndpointId((path as usize % self.endpoints) as u32))
    }
    /// The ways between switches from the switch of a leaf to a destination.
    pub(super) fn ways(&self, skeleton: &Skeleton, tables: &Tables, leaf: usize, dest: EndpointId, ways: &mut Vec<u32>) {
        ways.clear();
        let mut at = skeleton.leaves[leaf].switch;
        while let Some(port) = tables.port(at, dest, 0) {
            let slot = self.by_port[at.index() << 8 | usize::from(port.0)];
            if slot == NO_WAY || ways.len() >= skeleton.count() {
                return;
            }
            ways.push(slot);
            at = skeleton.way(slot).to;
        }
    }
}

/// No way between switches.
const NO_WAY: u32 = u32::MAX;
/// Data lanes of InfiniBand (InfiniBand Architecture Specification vol. 1, §7.6.2).
pub(super) const MOST_LANES: u8 = 15;
/// Why the lanes are free of deadlock.
pub(super) const BROKEN: &str = "paths moved to other lanes until the dependencies of each lane had no cycle";
