//! Tables for shift traffic on any fat tree, complete or not.
//!
//! For one destination after the other, leaf by leaf in the order of [`Shape`]: from the leaf up, each switch takes the switch
//! above it by which the fewest destinations have come down to it so far, and of the cables to it the one with the fewest. That
//! main way goes on to the top. All switches below a switch of it that have no way yet, or a longer one, go up to it by the cable
//! that the fewest destinations have gone up so far. Then the other switches above each switch of the way come in turn, in the order
//! of their counts: packets come down from them by the cable with the fewest, which is not counted. A leaf with fewer endpoints
//! than the fullest is counted as if it had as many. On a complete tree each shift then has every link to itself.
//!
//! Source: E. Zahavi, G. Johnson, D. Kerbyson, M. Lang, "Optimized InfiniBand fat-tree routing for shift all-to-all
//! communication patterns", Concurrency and Computation 22(2), 2010; opensm(8), "Fat-tree Routing Algorithm"; order and
//! counters as the tables and the orders of adapters show that OpenSM 3.3.23 writes for trees with missing cables and hosts.
//! Modelled: ranks from roots or leaves, counters up and down, endpoints that are missing.
//! Not modelled: compute and I/O nodes from files, ways the wrong way round (`max_reverse_hops`), several ports of one adapter
//! on one switch (OpenSM routes to these one after the other).

use super::skeleton::{FAR, Skeleton};
use super::tree_order::{Shape, WayDown};
use super::{Router, Tables, UP_THEN_DOWN, skeleton};
use crate::graph::{EndpointId, Node, SwitchId};
use crate::routing::{Routing, RoutingError};
use crate::topology::Fabric;

/// Prepares `ftree`.
pub(super) fn prepare(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
    Router::forward(fabric, routing, Tables::ftree(fabric, None)?, Some(UP_THEN_DOWN))
}

impl Tables {
    /// Tables for shift traffic on any fat tree (OpenSM `ftree`). Without `roots` the switches farthest from endpoints are on top.
    ///
    /// # Errors
    /// As [`Tables::min_hop`]; a fabric that is no fat tree, and where. Roots that are given may leave pairs of endpoints without a
    /// path: their entries are missing, as in OpenSM, and `survey` tells which.
    pub fn ftree(fabric: &Fabric, roots: Option<&[SwitchId]>) -> Result<Tables, RoutingError> {
        let routing = Routing::Ftree;
        let skeleton = skeleton(fabric, routing, 0)?;
        let name = |at| fabric.name(Node::Switch(at));
        tables(&skeleton, fabric.graph.endpoint_count(), roots).map_err(|why| {
            let what = match why {
                NoTree::Level(one, other, 0) => {
                    format!("it is no fat tree: {} and {} both have endpoints, and a cable between them", name(one), name(other))
                }
                NoTree::Level(one, other, level) => {
                    format!("it is no fat tree: a cable joins {} and {}, both {level} levels above the leaves", name(one), name(other))
                }
                NoTree::Above(at, rank, leaves) => {
                    format!(
                        "it is no fat tree: {} has endpoints and is {rank} steps from a root, other switches with endpoints are {leaves}",
                        name(at)
                    )
                }
                NoTree::Apart(one, other) => format!("no path from {} to {} goes up and then down", name(one), name(other)),
            };
            RoutingError::Cannot { routing, what, remedy: "choose up_down, which routes any fabric without deadlock" }
        })
    }
}

/// Why OpenSM's `ftree` would not take a fabric as a fat tree although ours does, where no roots are given to it; it then
/// uses `minhop` and says so in its log alone. `None` where it takes it.
///
/// # Errors
/// As [`Tables::min_hop`].
pub fn impure_tree(fabric: &Fabric) -> Result<Option<String>, RoutingError> {
    let skeleton = skeleton(fabric, Routing::Ftree, 0)?;
    let name = |at| fabric.name(Node::Switch(at));
    Ok(impure(&skeleton).map(|why| match why {
        Impure::OneSwitch => "the fabric has one switch only".to_owned(),
        Impure::Groups(one, other, way) => {
            format!("{} and {} of one level have cables to different numbers of switches {way} (ERR AB09, AB0A)", name(one), name(other))
        }
        Impure::Cables(one, other, way) => {
            format!("{} and {} of one level have different numbers of cables to a switch {way} (ERR AB0B, AB0C)", name(one), name(other))
        }
    }))
}

/// Why a fabric is no fat tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoTree {
    /// A cable joins two switches of one level.
    Level(SwitchId, SwitchId, u16),
    /// A switch with endpoints that is not as far from the roots as the farthest one with endpoints.
    Above(SwitchId, u16, u16),
    /// No switch is above all others of a pair of leaves.
    Apart(SwitchId, SwitchId),
}

/// What keeps OpenSM from taking a fabric as a fat tree although it has tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Impure {
    /// There is no level above the leaves.
    OneSwitch,
    /// Two switches of one level with cables to different numbers of switches, and in which direction.
    Groups(SwitchId, SwitchId, &'static str),
    /// Two switches of one level with different numbers of cables to one of these.
    Cables(SwitchId, SwitchId, &'static str),
}

/// The first switch that is not wired like the first one of its level, as OpenSM compares them: cables up at all levels,
/// cables down above the leaves.
pub(super) fn impure(skeleton: &Skeleton) -> Option<Impure> {
    if skeleton.count() < 2 {
        return Some(Impure::OneSwitch);
    }
    let leaves: Vec<SwitchId> = skeleton.leaves.iter().map(|leaf| leaf.switch).collect();
    let level = skeleton.distances_from(&leaves);
    // Cables to each neighbour of the next level in a direction.
    let groups = |at: SwitchId, up: bool| {
        let mut counts: std::collections::BTreeMap<SwitchId, u32> = std::collections::BTreeMap::new();
        for way in skeleton.ways(at).iter().filter(|way| (level[way.to.index()] > level[at.index()]) == up) {
            *counts.entry(way.to).or_default() += 1;
        }
        counts.into_values().collect::<Vec<_>>()
    };
    let mut first: std::collections::BTreeMap<u16, SwitchId> = std::collections::BTreeMap::new();
    for at in skeleton.switches() {
        let height = level[at.index()];
        let reference = *first.entry(height).or_insert(at);
        for (up, way) in [(true, "above"), (false, "below")] {
            if !up && height == 0 {
                continue;
            }
            let (theirs, own) = (groups(reference, up), groups(at, up));
            if theirs.len() != own.len() {
                return Some(Impure::Groups(reference, at, way));
            }
            if own.iter().any(|cables| *cables != theirs[0]) {
                return Some(Impure::Cables(reference, at, way));
            }
        }
    }
    None
}

/// The tables.
pub(super) fn tables(skeleton: &Skeleton, endpoints: u32, roots: Option<&[SwitchId]>) -> Result<Tables, NoTree> {
    let shape = Shape::new(skeleton, roots)?;
    let mut filling = Filling {
        skeleton,
        shape: &shape,
        down: vec![0; skeleton.way_count()],
        group_down: vec![0; skeleton.way_count()],
        up: vec![0; skeleton.way_count()],
        port: vec![NONE; skeleton.count()],
        steps: vec![FAR; skeleton.count()],
    };
    let mut tables = Tables::new(skeleton.count() as u32, endpoints, 0);
    let fullest = skeleton.leaves.iter().map(|leaf| leaf.endpoints.len()).max().unwrap_or(0);
    for &leaf in shape.leaves() {
        let leaf = &skeleton.leaves[leaf];
        let ports = leaf.endpoints.iter().map(Some).chain(std::iter::repeat(None));
        for destination in ports.take(fullest) {
            filling.lead_to(leaf.switch, destination.map(|(_, port)| *port));
            if let Some((endpoint, _)) = destination {
                filling.write(&mut tables, *endpoint);
                let missed = skeleton.leaves.iter().find(|other| filling.steps[other.switch.index()] == FAR);
                if let (Some(missed), None) = (missed, roots) {
                    return Err(NoTree::Apart(missed.switch, leaf.switch));
                }
            }
        }
    }
    Ok(tables)
}

/// What destinations used so far, and what the one at hand has.
struct Filling<'a> {
    skeleton: &'a Skeleton,
    shape: &'a Shape,
    /// Destinations that come down each way, counted at its lower end.
    down: Vec<u32>,
    /// The same for all ways to one switch above together, counted at the first.
    group_down: Vec<u32>,
    /// Destinations that each way leads up to, counted at its upper end.
    up: Vec<u32>,
    /// The port of each switch for this destination.
    port: Vec<u8>,
    /// Switches on the way from each to this destination.
    steps: Vec<u16>,
}

/// Whether ways count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Path {
    Main,
    Other,
}

impl Filling<'_> {
    /// Finds all ways to a destination behind a leaf; without a port it is one that is missing.
    fn lead_to(&mut self, leaf: SwitchId, port: Option<u8>) {
        self.port.fill(NONE);
        self.steps.fill(FAR);
        self.port[leaf.index()] = port.unwrap_or(NONE);
        self.steps[leaf.index()] = 0;
        self.gather(leaf);
        self.climb(leaf, Path::Main);
    }
    fn write(&self, tables: &mut Tables, endpoint: EndpointId) {
        for at in self.skeleton.switches().filter(|at| self.port[at.index()] != NONE) {
            tables.set(at, endpoint, 0, self.port[at.index()]);
        }
    }

    /// Gives all switches above `at` ways down to it, and those below these ways up.
    fn climb(&mut self, at: SwitchId, path: Path) {
        let shape = self.shape;
        let mut above: Vec<&[WayDown]> = shape.above(at).collect();
        above.sort_by_key(|group| self.group_down[group[0].up.slot as usize]);
        let mut path = path;
        for group in above {
            let top = group[0].up.to;
            let least = group.iter().min_by_key(|way| self.down[way.up.slot as usize]);
            let (Some(way), true) = (least, self.shortens(top, at)) else { continue };
            self.port[top.index()] = way.down.port;
            if path == Path::Main {
                self.group_down[group[0].up.slot as usize] += 1;
                self.down[way.up.slot as usize] += 1;
            }
            self.gather(top);
            self.climb(top, path);
            // What comes after the first is no main way.
            path = Path::Other;
        }
    }

    /// Takes it down where a switch has no way yet, or a longer one than by `next`.
    fn shortens(&mut self, at: SwitchId, next: SwitchId) -> bool {
        let steps = self.steps[next.index()] + 1;
        let shorter = steps < self.steps[at.index()];
        if shorter {
            self.steps[at.index()] = steps;
        }
        shorter
    }

    /// Everything below a switch that has no way yet, or a longer one, goes up to it.
    fn gather(&mut self, top: SwitchId) {
        let shape = self.shape;
        let mut open = vec![top];
        while let Some(at) = open.pop() {
            for group in shape.below(at) {
                let below = group[0].to;
                if !self.shortens(below, at) {
                    continue;
                }
                let Some(least) = group.iter().min_by_key(|way| self.up[way.slot as usize]) else { continue };
                self.up[least.slot as usize] += 1;
                self.port[below.index()] = self.skeleton.back(least).port;
                open.push(below);
            }
        }
    }
}

/// No way there.
const NONE: u8 = u8::MAX;
