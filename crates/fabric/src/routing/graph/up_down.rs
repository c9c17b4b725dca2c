//! Shortest paths that never go up again after going down.
//!
//! Every cable has an upper end: the switch with the lower rank (distance from the roots), of two with the same rank the
//! one with the lower GUID, or number where there are no GUIDs. A switch from which the destination can be reached by going
//! down only does that; any other goes up, towards the switch from where the whole way is shortest. So tables that know
//! destinations but not where a packet came from cannot send it up after down.
//!
//! Source: M. Schroeder et al., "Autonet: a high-speed, self-configuring local area network using point-to-point links",
//! IEEE J. Sel. Areas Commun. 9(8), 1991; OpenSM 3.3, engine `updn` (`osm_ucast_updn.c`): ranks, roots found by hop counts.
//! Modelled: roots given, found as OpenSM finds them, or else by levels; OpenSM's own search, which may break the rule.
//! Not modelled: node order files.

use super::balance::fill;
use super::skeleton::{Edge, FAR, Skeleton};
use super::{Router, Tables, UP_THEN_DOWN, skeleton};
use crate::graph::{Node, SwitchId};
use crate::routing::{Routing, RoutingError};
use crate::topology::Fabric;

/// Prepares `up_down`: OpenSM's tables, or strict ones where these send packets up again.
pub(super) fn prepare(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
    let skeleton = skeleton(fabric, routing, 0)?;
    let (roots, strict) = legal(fabric, &skeleton, 0).ok_or_else(|| no_path(routing))?;
    let (theirs, complete) = tables(&skeleton, fabric.graph.endpoint_count(), 0, &roots, Rule::Search);
    let fits = complete && never_up_after_down(fabric, &skeleton, &theirs, &roots);
    Router::forward(fabric, routing, if fits { theirs } else { strict }, Some(UP_THEN_DOWN))
}

impl Tables {
    /// Shortest paths that never go up after going down. Without `roots` those are taken that OpenSM finds by hop counts, else the
    /// switches farthest from endpoints, else the one in the middle.
    ///
    /// # Errors
    /// As [`Tables::min_hop`]. Roots that are given may leave pairs of endpoints without a path: their entries are missing, as
    /// in OpenSM, and `survey` tells which.
    pub fn up_down(fabric: &Fabric, lmc: u8, roots: Option<&[SwitchId]>) -> Result<Tables, RoutingError> {
        Tables::with_roots(fabric, lmc, roots, Rule::Strict)
    }
    /// OpenSM's `updn`, which remembers of each switch how its search came there last, but not of each packet: where switches of one
    /// rank have cables between them, it may send packets up again. [`deadlock`](super::super::deadlock) tells.
    ///
    /// # Errors
    /// As [`Tables::up_down`].
    pub fn updn(fabric: &Fabric, roots: Option<&[SwitchId]>) -> Result<Tables, RoutingError> {
        Tables::with_roots(fabric, 0, roots, Rule::Search)
    }
    fn with_roots(fabric: &Fabric, lmc: u8, roots: Option<&[SwitchId]>, rule: Rule) -> Result<Tables, RoutingError> {
        let skeleton = skeleton(fabric, Routing::UpDown, lmc)?;
        let endpoints = fabric.graph.endpoint_count();
        if let Some(roots) = roots {
            return Ok(self::tables(&skeleton, endpoints, lmc, roots, rule).0);
        }
        let (roots, strict) = legal(fabric, &skeleton, lmc).ok_or_else(|| no_path(Routing::UpDown))?;
        Ok(if rule == Rule::Strict { strict } else { self::tables(&skeleton, endpoints, lmc, &roots, rule).0 })
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
        let (tables, complete) = tables(skeleton, fabric.graph.endpoint_count(), lmc, &roots, Rule::Strict);
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
    guids: Vec<u64>,
    mutual: Mutual,
}

/// Which two switches of one rank are above each other to OpenSM's searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutual {
    /// Roots.
    Roots,
    /// All.
    Equals,
}

impl Order {
    /// Ranks are distances from the nearest root.
    pub(super) fn new(skeleton: &Skeleton, roots: &[SwitchId]) -> Order {
        Order { rank: skeleton.distances_from(roots), guids: skeleton.guids.clone(), mutual: Mutual::Roots }
    }
    /// The switches farthest from endpoints, aggregation nodes among them, are on top.
    pub(super) fn of_levels(skeleton: &Skeleton) -> Order {
        let near: Vec<SwitchId> = skeleton.destinations.iter().map(|at| at.switch).collect();
        let level = skeleton.distances_from(&near);
        Order { rank: level.into_iter().map(|level| FAR - level).collect(), guids: skeleton.guids.clone(), mutual: Mutual::Equals }
    }
    /// All switches, from the top.
    pub(super) fn downwards(&self, skeleton: &Skeleton) -> Vec<SwitchId> {
        let mut downwards: Vec<SwitchId> = skeleton.switches().collect();
        downwards.sort_by_key(|&at| self.key(at));
        downwards
    }
    fn key(&self, at: SwitchId) -> (u16, u64) {
        (self.rank[at.index()], self.guids[at.index()])
    }
    /// The same to OpenSM's searches.
    fn climbs(&self, at: SwitchId, to: SwitchId) -> bool {
        let (own, other) = (self.rank[at.index()], self.rank[to.index()]);
        self.up(at, to) || (own == other && (self.mutual == Mutual::Equals || own == 0))
    }
    /// Whether the way from `at` to `to` leads up.
    pub(super) fn up(&self, at: SwitchId, to: SwitchId) -> bool {
        self.key(to) < self.key(at)
    }
}

/// How ways are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// So that no packet goes up after going down.
    Strict,
    /// As OpenSM finds them.
    Search,
}

/// The tables, and whether they lead from every leaf to every other: where the roots leave a pair without a legal path,
/// there is no entry, as in OpenSM.
fn tables(skeleton: &Skeleton, endpoints: u32, lmc: u8, roots: &[SwitchId], rule: Rule) -> (Tables, bool) {
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
        let missed = |at: SwitchId| complete &= serves || !is_leaf[at.index()];
        match rule {
            Rule::Strict => ways_to(skeleton, &order, &downwards, leaf.switch, offer, missed),
            Rule::Search => ways_of_search(skeleton, &order, leaf.switch, offer, missed),
        }
    });
    (tables, complete)
}

/// Whether no entry sends up what another one sends down to it.
fn never_up_after_down(fabric: &Fabric, skeleton: &Skeleton, tables: &Tables, roots: &[SwitchId]) -> bool {
    let order = Order::new(skeleton, roots);
    let next = |at: SwitchId, dest, path| {
        let link = tables.port(at, dest, path).and_then(|port| fabric.graph.out_link(at, port))?;
        if let Node::Switch(to) = fabric.graph.node(fabric.graph.link(link).to) { Some(to) } else { None }
    };
    let addresses = fabric.graph.endpoints().flat_map(|dest| (0..1 << tables.lmc()).map(move |path| (dest, path)));
    addresses.into_iter().all(|(dest, path)| {
        skeleton.switches().all(|at| {
            let Some(by) = next(at, dest, path) else { return true };
            next(by, dest, path).is_none_or(|to| order.up(at, by) || !order.up(by, to))
        })
    })
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

/// Offers the ways that OpenSM's search from the destination finds. It goes on from a switch in the direction of the step that
/// took it there alone, and comes again where a later step leads there by another cable, however long that is.
pub(super) fn ways_of_search(
    skeleton: &Skeleton,
    order: &Order,
    to: SwitchId,
    offer: &mut dyn FnMut(SwitchId, &[Edge]),
    mut missed: impl FnMut(SwitchId),
) {
    let mut steps = vec![FAR; skeleton.count()];
    let mut by_way = vec![FAR; skeleton.way_count()];
    // Whether the search climbed to the switch: packets come down from there.
    let mut climbed = vec![true; skeleton.count()];
    let mut waits = vec![false; skeleton.count()];
    steps[to.index()] = 0;
    let mut frontier = std::collections::VecDeque::from([to]);
    while let Some(at) = frontier.pop_front() {
        waits[at.index()] = false;
        for way in skeleton.ways(at) {
            let (up, next) = (order.climbs(at, way.to), way.to.index());
            if way.to == to || (up && !climbed[at.index()]) {
                continue;
            }
            let length = steps[at.index()] + 1;
            let known = &mut by_way[skeleton.back(way).slot as usize];
            if length < *known {
                *known = length;
                steps[next] = steps[next].min(length);
                if !std::mem::replace(&mut waits[next], true) {
                    climbed[next] = up;
                    frontier.push_back(way.to);
                }
            }
        }
    }
    let mut ways: Vec<Edge> = Vec::new();
    for at in skeleton.switches().filter(|&at| at != to) {
        if steps[at.index()] == FAR {
            missed(at);
            continue;
        }
        ways.clear();
        ways.extend(skeleton.ways(at).iter().filter(|way| by_way[way.slot as usize] == steps[at.index()]));
        offer(at, &ways);
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
