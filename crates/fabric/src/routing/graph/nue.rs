//! Shortest paths inside the channel dependency graph: free of deadlock on any number of lanes, one included.
//!
//! Destinations are divided among the lanes. In each lane the paths along a spanning tree are set aside first, as an escape. Then,
//! destination by destination, Dijkstra's algorithm goes from link to link, and takes a step only where the dependency that it
//! makes closes no cycle with those that are there. Where that leaves a switch with endpoints without a path, the destination
//! takes the tree. Links weigh as much as paths lead over them, a link more weighs more than all of that.
//!
//! Source: J. Domke, T. Hoefler, S. Matsuoka, "Routing on the dependency graph: a new approach to deadlock-free
//! high-performance routing", HPDC 2016; OpenSM 3.3, engine `nue`, with `nue_max_num_vls`.
//! Modelled: the complete channel dependency graph, escape paths, balance over links, levels by destination.
//! Not modelled: local backtracking before the escape is taken; the choice of the tree's root by betweenness (here the switch in
//! the middle); a division of destinations that looks for few cables between the parts (here by the order of switches).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::acyclic::{Acyclic, Insertion};
use super::dfsssp::MOST_LANES;
use super::service_levels::{Layered, ServiceLevels};
use super::skeleton::{Edge, Leaf, Skeleton};
use super::{Router, Tables, skeleton, sssp, up_down};
use crate::graph::SwitchId;
use crate::routing::{Nue, Routing, RoutingError};
use crate::topology::Fabric;

/// Prepares `nue`.
pub(super) fn prepare(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
    let lanes = if let Routing::Nue(nue) = routing { nue.lanes } else { Nue::USUAL.lanes };
    Router::layered(fabric, routing, Layered::nue(fabric, lanes)?, RESTRICTED)
}

impl Layered {
    /// Paths that never close a cycle of dependencies on `lanes` lanes (OpenSM `nue`).
    ///
    /// # Errors
    /// As [`Tables::min_hop`]; no lane, or more than 15.
    pub fn nue(fabric: &Fabric, lanes: u8) -> Result<Layered, RoutingError> {
        let routing = Routing::Nue(Nue { lanes });
        if lanes == 0 || lanes > MOST_LANES {
            let what = format!("{lanes} lanes were asked for");
            return Err(RoutingError::Cannot { routing, what, remedy: "write 1 to 15 lanes" });
        }
        let skeleton = skeleton(fabric, routing, 0)?;
        let mut tables = Tables::new(skeleton.count() as u32, fabric.graph.endpoint_count(), 0);
        let mut levels = ServiceLevels::new(&skeleton, fabric.graph.endpoint_count());
        let (senders, base) = sssp::senders(&skeleton);
        let mut weight = vec![base; skeleton.way_count()];
        let tree = Tree::new(&skeleton);
        let count = skeleton.leaves.len();
        for lane in 0..lanes {
            let part = |number: usize| (number * usize::from(lanes) / count) as u8;
            let here: Vec<&Leaf> =
                skeleton.leaves.iter().enumerate().filter(|(number, _)| part(*number) == lane).map(|(_, leaf)| leaf).collect();
            let mut layer = Layer { skeleton: &skeleton, dependencies: Acyclic::new(skeleton.way_count()), senders: &senders };
            for leaf in &here {
                let escape = tree.towards(&skeleton, leaf.switch);
                layer.reserve(&escape);
            }
            for &(endpoint, port, switch) in &in_order(&skeleton, &here) {
                let next = layer.route(&weight, switch).unwrap_or_else(|| tree.towards(&skeleton, switch));
                add_load(&skeleton, &next, switch, &senders, &mut weight);
                tables.set(switch, endpoint, 0, port);
                for at in skeleton.switches() {
                    if let Some(way) = next[at.index()] {
                        tables.set(at, endpoint, 0, way.port);
                    }
                }
                skeleton.leaves.iter().for_each(|from| levels.set(from.switch, endpoint, lane));
            }
        }
        Ok(Layered { tables, levels })
    }
}

/// Destinations of some leaves with their ports and switches, in OpenSM's order.
fn in_order(skeleton: &Skeleton, here: &[&Leaf]) -> Vec<(crate::graph::EndpointId, u8, SwitchId)> {
    let order = skeleton.destinations.iter().filter(|at| here.iter().any(|leaf| leaf.switch == at.switch));
    order.flat_map(|at| at.ports.iter().filter_map(|(endpoint, port)| Some(((*endpoint)?, *port, at.switch)))).collect()
}

/// One lane.
struct Layer<'a> {
    skeleton: &'a Skeleton,
    dependencies: Acyclic,
    senders: &'a [u64],
}

impl Layer<'_> {
    /// Sets paths aside that close no cycle by construction.
    fn reserve(&mut self, next: &[Option<Edge>]) {
        for way in next.iter().flatten() {
            if let Some(after) = next[way.to.index()] {
                self.dependencies.insert(way.slot, after.slot);
            }
        }
    }

    /// The way of each switch to `to`; none where a switch with endpoints has no path left.
    fn route(&mut self, weight: &[u64], to: SwitchId) -> Option<Vec<Option<Edge>>> {
        let skeleton = self.skeleton;
        let mut next: Vec<Option<Edge>> = vec![None; skeleton.count()];
        let mut done = vec![false; skeleton.count()];
        let mut new = Vec::new();
        let mut heap: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
        let offer = |heap: &mut BinaryHeap<Reverse<(u64, u32)>>, done: &[bool], at: SwitchId, length: u64| {
            for way in skeleton.ways(at).iter().filter(|way| !done[way.to.index()]) {
                let back = skeleton.back(way);
                heap.push(Reverse((length + weight[back.slot as usize], back.slot)));
            }
        };
        done[to.index()] = true;
        offer(&mut heap, &done, to, 0);
        while let Some(Reverse((length, slot))) = heap.pop() {
            let way = skeleton.way(slot);
            let at = skeleton.back(&way).to;
            if done[at.index()] {
                continue;
            }
            if let Some(after) = next[way.to.index()] {
                match self.dependencies.insert(slot, after.slot) {
                    Insertion::Known => {}
                    Insertion::New => new.push((slot, after.slot)),
                    Insertion::Refused => continue,
                }
            }
            done[at.index()] = true;
            next[at.index()] = Some(way);
            offer(&mut heap, &done, at, length);
        }
        let complete = (0..self.senders.len()).all(|at| self.senders[at] == 0 || done[at]);
        if !complete {
            new.into_iter().for_each(|(from, to)| self.dependencies.remove(from, to));
            return None;
        }
        Some(next)
    }
}

/// Makes the ways to a destination heavier by those who send over them.
fn add_load(skeleton: &Skeleton, next: &[Option<Edge>], to: SwitchId, senders: &[u64], weight: &mut [u64]) {
    for from in skeleton.switches().filter(|&from| from != to && senders[from.index()] > 0) {
        let mut at = from;
        while let Some(way) = next[at.index()] {
            weight[way.slot as usize] += senders[from.index()];
            at = way.to;
        }
    }
}

/// A spanning tree.
struct Tree {
    /// The way of each switch towards the root.
    up: Vec<Option<Edge>>,
}

impl Tree {
    fn new(skeleton: &Skeleton) -> Tree {
        let mut up = vec![None; skeleton.count()];
        let Some(root) = up_down::centre(skeleton) else { return Tree { up } };
        let mut seen = vec![false; skeleton.count()];
        seen[root.index()] = true;
        let mut frontier = std::collections::VecDeque::from([root]);
        while let Some(at) = frontier.pop_front() {
            for way in skeleton.ways(at) {
                if !std::mem::replace(&mut seen[way.to.index()], true) {
                    up[way.to.index()] = Some(skeleton.back(way));
                    frontier.push_back(way.to);
                }
            }
        }
        Tree { up }
    }
    /// The way of each switch along the tree to `to`: down on the branch that it is on, else up.
    fn towards(&self, skeleton: &Skeleton, to: SwitchId) -> Vec<Option<Edge>> {
        let mut next = self.up.clone();
        next[to.index()] = None;
        let mut at = to;
        while let Some(way) = self.up[at.index()] {
            next[way.to.index()] = Some(skeleton.back(&way));
            at = way.to;
        }
        next
    }
}

/// Why the lanes are free of deadlock.
const RESTRICTED: &str = "no dependency was taken that closes a cycle in its lane";
