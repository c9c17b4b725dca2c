//! Tables for shift traffic on any fat tree, complete or not.
//!
//! For one destination after the other, leaf by leaf: from the leaf up, each switch takes the switch above it from which the
//! fewest destinations come down so far, and of the cables to it the one with the fewest; every switch on that way sends
//! down along it, and all switches below it go up to it by the cable that the fewest destinations go up so far. On a
//! complete tree each shift then has every link to itself.
//! Switches that this leaves out, in incomplete trees, go up to the nearest switch that has a way.
//!
//! Source: E. Zahavi, G. Johnson, D. Kerbyson, M. Lang, "Optimized InfiniBand fat-tree routing for shift all-to-all
//! communication patterns", Concurrency and Computation 22(2), 2010; OpenSM 3.3, engine `ftree` (`osm_ucast_ftree.c`).
//! Modelled: levels, counters up and down, missing cables and switches.
//! Not modelled: node orders and I/O nodes from files, roots from a file.

use super::skeleton::{Edge, FAR, Skeleton};
use super::{Router, Tables, UP_THEN_DOWN, skeleton};
use crate::graph::{Node, SwitchId};
use crate::routing::{Routing, RoutingError};
use crate::topology::Fabric;

/// Prepares `ftree`.
pub(super) fn prepare(fabric: &Fabric, routing: Routing) -> Result<Router, RoutingError> {
    Router::forward(fabric, routing, Tables::ftree(fabric)?, Some(UP_THEN_DOWN))
}

impl Tables {
    /// Tables for shift traffic on any fat tree (OpenSM `ftree`).
    ///
    /// # Errors
    /// As [`Tables::min_hop`]; a fabric that is no fat tree, and where.
    pub fn ftree(fabric: &Fabric) -> Result<Tables, RoutingError> {
        let routing = Routing::Ftree;
        let skeleton = skeleton(fabric, routing, 0)?;
        let name = |at| fabric.name(Node::Switch(at));
        tables(&skeleton, fabric.graph.endpoint_count()).map_err(|why| {
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
pub(super) fn tables(skeleton: &Skeleton, endpoints: u32) -> Result<Tables, NoTree> {
    let leaves: Vec<SwitchId> = skeleton.leaves.iter().map(|leaf| leaf.switch).collect();
    let level = skeleton.distances_from(&leaves);
    for at in skeleton.switches() {
        if let Some(way) = skeleton.ways(at).iter().find(|way| level[way.to.index()] == level[at.index()]) {
            return Err(NoTree::Level(at, way.to, level[at.index()]));
        }
    }
    let mut filling = Filling {
        skeleton,
        tables: Tables::new(skeleton.count() as u32, endpoints, 0),
        level,
        down: vec![0; skeleton.way_count()],
        up: vec![0; skeleton.way_count()],
        port: vec![NONE; skeleton.count()],
    };
    for leaf in &skeleton.leaves {
        for &(endpoint, port) in &leaf.endpoints {
            filling.port.fill(NONE);
            filling.port[leaf.switch.index()] = port;
            filling.climb(leaf.switch);
            filling.complete();
            for at in skeleton.switches() {
                match filling.port[at.index()] {
                    NONE if leaves.binary_search(&at).is_ok() => return Err(NoTree::Apart(at, leaf.switch)),
                    NONE => {}
                    port => filling.tables.set(at, endpoint, 0, port),
                }
            }
        }
    }
    Ok(filling.tables)
}

/// The tables so far, and what the destination at hand has.
struct Filling<'a> {
    skeleton: &'a Skeleton,
    tables: Tables,
    level: Vec<u16>,
    /// Destinations that come down each way, counted at its lower end.
    down: Vec<u32>,
    /// Destinations that each way leads up to.
    up: Vec<u32>,
    /// The port of each switch for this destination.
    port: Vec<u8>,
}

impl Filling<'_> {
    fn is_up(&self, at: SwitchId, way: &Edge) -> bool {
        self.level[way.to.index()] > self.level[at.index()]
    }

    /// From a leaf to the top by the cables that the fewest destinations come down.
    fn climb(&mut self, leaf: SwitchId) {
        let mut at = leaf;
        loop {
            // First the switch above, then one of the cables to it: parallel cables do not make it twice as good.
            let ways = self.skeleton.ways(at);
            let of_switch = |to: SwitchId| ways.iter().filter(|way| way.to == to).map(|way| self.down[way.slot as usize]).sum::<u32>();
            let key = |way: &&Edge| (of_switch(way.to), self.down[way.slot as usize]);
            let least = ways.iter().filter(|way| self.is_up(at, way)).min_by_key(key);
            let Some(&way) = least else { return };
            self.down[way.slot as usize] += 1;
            let back = self.skeleton.ways(way.to).iter().find(|back| back.cable == way.cable);
            self.port[way.to.index()] = back.map_or(NONE, |back| back.port);
            self.gather(way.to);
            at = way.to;
        }
    }

    /// Everything below a switch that has no way yet goes up to it.
    fn gather(&mut self, top: SwitchId) {
        let mut open = vec![top];
        while let Some(at) = open.pop() {
            let skeleton = self.skeleton;
            let mut below: Vec<SwitchId> = skeleton.ways(at).iter().filter(|way| !self.is_up(at, way)).map(|way| way.to).collect();
            below.sort_unstable();
            below.dedup();
            for child in below {
                if self.port[child.index()] != NONE {
                    continue;
                }
                let cables = skeleton.ways(child).iter().filter(|way| way.to == at);
                let Some(least) = cables.min_by_key(|way| self.up[way.slot as usize]) else { continue };
                self.up[least.slot as usize] += 1;
                self.port[child.index()] = least.port;
                open.push(child);
            }
        }
    }

    /// Ways for switches that the main way leaves out: down where that leads there, else up, from the top of the tree down.
    fn complete(&mut self) {
        let skeleton = self.skeleton;
        let is_missing = |port: &u8| *port == NONE;
        if !self.port.iter().any(is_missing) {
            return;
        }
        let mut upwards: Vec<SwitchId> = skeleton.switches().filter(|at| self.level[at.index()] != FAR).collect();
        upwards.sort_by_key(|at| self.level[at.index()]);
        // Whether a switch only goes down from here on: then those above may come down to it.
        let mut descends = vec![false; skeleton.count()];
        for &at in &upwards {
            let own = skeleton.ways(at).iter().find(|way| way.port == self.port[at.index()]).copied();
            descends[at.index()] = match own {
                // The destination itself, or a switch of the main way.
                None => self.port[at.index()] != NONE,
                Some(way) => !self.is_up(at, &way) && descends[way.to.index()],
            };
            if self.port[at.index()] == NONE {
                let down = skeleton.ways(at).iter().filter(|way| !self.is_up(at, way) && descends[way.to.index()]);
                if let Some(&way) = down.min_by_key(|way| self.down[way.slot as usize]) {
                    self.down[way.slot as usize] += 1;
                    self.port[at.index()] = way.port;
                    descends[at.index()] = true;
                }
            }
        }
        for &at in upwards.iter().rev() {
            if self.port[at.index()] == NONE {
                let above = skeleton.ways(at).iter().filter(|way| self.is_up(at, way) && self.port[way.to.index()] != NONE);
                if let Some(&way) = above.min_by_key(|way| self.up[way.slot as usize]) {
                    self.up[way.slot as usize] += 1;
                    self.port[at.index()] = way.port;
                }
            }
        }
    }
}

/// No way there.
const NONE: u8 = u8::MAX;
