//! Shortest paths that never go up again after going down.
//!
//! Every cable has an upper end: the switch with the lower rank (distance from the roots), of two with the same rank the
//! one with the lower number. A switch from which the destination can be reached by going down only does that; any
//! other goes up, towards the switch from where the whole way is shortest. So tables that know destinations but not where
//! a packet came from cannot send it up after down.
//!
//! Source: M. Schroeder et al., "Autonet: a high-speed, self-configuring local area network using point-to-point links",
//! IEEE J. Sel. Areas Commun. 9(8), 1991; OpenSM 3.3, engine `updn` (`osm_ucast_updn.c`): ranks, roots found by hop counts.
//! Modelled: roots given, found as OpenSM finds them, or else by levels.
//! Not modelled: OpenSM's rule that two roots are above each other.

use super::balance::fill;
use super::skeleton::{Edge, FAR, Skeleton};
use super::{Router, Tables, UP_THEN_DOWN, skeleton};
use crate::graph::{Node, SwitchId};
use crate::routing::{Routing, RoutingError};
use crate::topology::Fabric;

/// Prepares `up_down`.
pub(super) fn prepare(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
    Router::forward(fabric, routing, Tables::up_down(fabric, 0, None)?, Some(UP_THEN_DOWN))
}

impl Tables {
    /// Shortest paths that never go up after going down (OpenSM `updn`). Without `roots` those are taken that OpenSM finds
    /// by hop counts, else the switches farthest from endpoints, else the one in the middle.
    ///
    /// # Errors
    /// As [`Tables::min_hop`]. Roots that are given may leave pairs of endpoints without a path: their entries are missing, as
    /// in OpenSM, and `survey` tells which.
    pub fn up_down(fabric: &Fabric, lmc: u8, roots: Option<&[SwitchId]>) -> Result<Tables, RoutingError> {
        let routing = Routing::UpDown;
        let skeleton = skeleton(fabric, routing, lmc)?;
        let endpoints = fabric.graph.endpoint_count();
        if let Some(roots) = roots {
            return Ok(self::tables(&skeleton, endpoints, lmc, roots).0);
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
}

/// The roots that OpenSM's `updn` would find by hop counts, where `adapters` counts the adapters at each switch, aggregation
/// nodes included; without any it falls back to `minhop`.
///
/// # Errors
/// As [`Tables::min_hop`].
pub fn roots_by_hops(fabric: &Fabric, adapters: &[u32]) -> Result<Vec<SwitchId>, RoutingError> {
    Ok(hop_roots(&skeleton(fabric, Routing::UpDown, 0)?, adapters))
}

/// The first proposal of roots that leaves no pair without a path, and its tables.
fn legal(fabric: &Fabric, skeleton: &Skeleton, lmc: u8) -> Option<(Vec<SwitchId>, Tables)> {
    // From one root everything can be reached: up to it and down again.
    let centre = || centre(skeleton).into_iter().collect();
    let proposals = [hop_roots(skeleton, &adapters(fabric)), roots_by_level(skeleton), centre()];
    proposals.into_iter().filter(|roots| !roots.is_empty()).find_map(|roots| {
        let (tables, complete) = tables(skeleton, fabric.graph.endpoint_count(), lmc, &roots);
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

/// Which switch is above which.
pub(super) struct Order {
    rank: Vec<u16>,
}

impl Order {
    /// Ranks are distances from the nearest root.
    pub(super) fn new(skeleton: &Skeleton, roots: &[SwitchId]) -> Order {
        Order { rank: skeleton.distances_from(roots) }
    }
    /// All switches, from the top.
    pub(super) fn downwards(&self, skeleton: &Skeleton) -> Vec<SwitchId> {
        let mut downwards: Vec<SwitchId> = skeleton.switches().collect();
        downwards.sort_by_key(|&at| self.key(at));
        downwards
    }
    fn key(&self, at: SwitchId) -> (u16, u32) {
        (self.rank[at.index()], at.0)
    }
    /// Whether the way from `at` to `to` leads up.
    pub(super) fn up(&self, at: SwitchId, to: SwitchId) -> bool {
        self.key(to) < self.key(at)
    }
}

/// The tables, and whether they lead from every leaf to every other: where the roots leave a pair without a legal path,
/// there is no entry, as in OpenSM.
pub(super) fn tables(skeleton: &Skeleton, endpoints: u32, lmc: u8, roots: &[SwitchId]) -> (Tables, bool) {
    let order = Order::new(skeleton, roots);
    let downwards = order.downwards(skeleton);
    let is_leaf: Vec<bool> = {
        let mut is_leaf = vec![false; skeleton.count()];
        skeleton.leaves.iter().for_each(|leaf| is_leaf[leaf.switch.index()] = true);
        is_leaf
    };
    let mut complete = true;
    let tables = fill(skeleton, endpoints, lmc, |leaf, offer| {
        let serves = leaf.ports.iter().all(|(endpoint, _)| endpoint.is_none());
        ways_to(skeleton, &order, &downwards, leaf.switch, offer, |at| complete &= serves || !is_leaf[at.index()]);
    });
    (tables, complete)
}

/// Offers the ways that lead from every switch to `to`, shortest of those that go up and then down; `missed` hears of switches
/// without any.
pub(super) fn ways_to(
    skeleton: &Skeleton,
    order: &Order,
    downwards: &[SwitchId],
    to: SwitchId,
    offer: &mut dyn FnMut(SwitchId, &[Edge]),
    mut missed: impl FnMut(SwitchId),
) {
    let mut ways: Vec<Edge> = Vec::new();
    {
        let down = descents(skeleton, order, to);
        // From the top: a switch without a way down is one step further than the best switch above it.
        let mut length = down.clone();
        for &at in downwards {
            if down[at.index()] == FAR {
                let above = skeleton.ways(at).iter().filter(|way| order.up(at, way.to)).map(|way| length[way.to.index()]).min();
                length[at.index()] = above.unwrap_or(FAR).saturating_add(1);
            }
        }
        for at in skeleton.switches().filter(|&at| at != to) {
            let goes_down = down[at.index()] != FAR;
            if length[at.index()] == FAR {
                missed(at);
                continue;
            }
            let before = length[at.index()] - 1;
            let fits = |way: &&Edge| {
                let at_end = if goes_down { down[way.to.index()] } else { length[way.to.index()] };
                at_end == before && order.up(at, way.to) != goes_down
            };
            ways.clear();
            ways.extend(skeleton.ways(at).iter().filter(fits));
            offer(at, &ways);
        }
    }
}

/// Steps from each switch to `to`, all of them down; [`FAR`] where that is impossible.
fn descents(skeleton: &Skeleton, order: &Order, to: SwitchId) -> Vec<u16> {
    let mut down = vec![FAR; skeleton.count()];
    down[to.index()] = 0;
    let mut frontier = std::collections::VecDeque::from([to]);
    while let Some(at) = frontier.pop_front() {
        for way in skeleton.ways(at).iter().filter(|way| order.up(at, way.to)) {
            if down[way.to.index()] == FAR {
                down[way.to.index()] = down[at.index()] + 1;
                frontier.push_back(way.to);
            }
        }
    }
    down
}

/// The roots as OpenSM finds them: switches from which more than nine tenths of the adapters are equally far, and no other
/// distance has more than a twentieth. `adapters` counts them for each switch, aggregation nodes included.
fn hop_roots(skeleton: &Skeleton, adapters: &[u32]) -> Vec<SwitchId> {
    let all: u64 = adapters.iter().map(|&count| u64::from(count)).sum();
    let is_root = |&at: &SwitchId| {
        let distance = skeleton.distances(at);
        let mut bars: Vec<u64> = Vec::new();
        for (&hops, &count) in distance.iter().zip(adapters).filter(|&(&hops, _)| hops != FAR) {
            let hops = usize::from(hops);
            bars.resize(bars.len().max(hops + 1), 0);
            bars[hops] += u64::from(count);
        }
        let over = |tenths: u64, parts: u64| bars.iter().filter(|&&bar| bar * parts > all * tenths).count();
        over(9, 10) == 1 && over(1, 20) == 1
    };
    skeleton.switches().filter(is_root).collect()
}

/// The roots of fabrics where counting hops finds none: the switches farthest from endpoints; where every switch has
/// endpoints, the one from which the farthest switch is nearest.
pub(super) fn roots_by_level(skeleton: &Skeleton) -> Vec<SwitchId> {
    let leaves: Vec<SwitchId> = skeleton.leaves.iter().map(|leaf| leaf.switch).collect();
    let level = skeleton.distances_from(&leaves);
    let top = level.iter().copied().filter(|&level| level != FAR).max().unwrap_or(0);
    if top > 0 {
        return skeleton.switches().filter(|at| level[at.index()] == top).collect();
    }
    centre(skeleton).into_iter().collect()
}

/// The switch from which the farthest leaf is nearest; of several the first.
pub(super) fn centre(skeleton: &Skeleton) -> Option<SwitchId> {
    let reach = |&at: &SwitchId| {
        let distance = skeleton.distances(at);
        skeleton.leaves.iter().map(|leaf| distance[leaf.switch.index()]).max()
    };
    skeleton.switches().min_by_key(reach)
}
