//! How many switches, ports and cables of each kind there are.
//!
//! Switches are told apart by their level or their part in a group, cables by what they join and their rate: levels of a
//! tree, a group inside, groups, dimensions of a grid. Lengths are added up where the fabric knows them.

use std::collections::BTreeMap;
use std::fmt;

use fabriscope_units::Rate;

use super::levels::levels;
use crate::graph::{Graph, LinkId, Node, SwitchId};
use crate::topology::{Coordinates, Fabric, Inside};

/// What a fabric is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// Switches, class by class, those with endpoints first.
    pub switches: Vec<SwitchClass>,
    /// Cables, kind by kind, those of endpoints first.
    pub cables: Vec<CableClass>,
}

/// Switches of the same level, or with the same part in their group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchClass {
    /// What they are called.
    pub name: String,
    /// How many there are.
    pub switches: u32,
    /// Ports of all of them, used or not.
    pub ports: u64,
    /// Ports with an endpoint.
    pub to_endpoints: u64,
    /// Ports with another switch.
    pub to_switches: u64,
}

impl SwitchClass {
    /// Ports without a cable.
    pub fn free(&self) -> u64 {
        self.ports.saturating_sub(self.to_endpoints + self.to_switches)
    }
}

/// Cables between the same classes, of one rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CableClass {
    /// What they join.
    pub kind: CableKind,
    /// Data rate of each direction.
    pub rate: Rate,
    /// How many there are.
    pub cables: u32,
    /// Of these, how many have a length of their own.
    pub measured: u32,
    /// What those are long together, in millimetres.
    pub length_mm: u64,
}

/// What a cable joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CableKind {
    /// An endpoint and a switch, or two endpoints.
    Host,
    /// Switches of two levels, or of one.
    Levels(u32, u32),
    /// Switches of one group.
    Local,
    /// Switches of two groups.
    Global,
    /// Switches of one row in this dimension, counted from 0.
    Axis(u32),
}

impl fmt::Display for CableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CableKind::Host => f.write_str("endpoint"),
            CableKind::Levels(low, high) => write!(f, "level {low} to {high}"),
            CableKind::Local => f.write_str("local"),
            CableKind::Global => f.write_str("global"),
            CableKind::Axis(axis) => write!(f, "dimension {axis}"),
        }
    }
}

/// Counts the parts of a fabric.
#[must_use]
pub fn census(fabric: &Fabric) -> Census {
    let levels = levels(fabric);
    Census { switches: switches(fabric, &levels), cables: cables(fabric, &levels) }
}

fn switches(fabric: &Fabric, levels: &[u32]) -> Vec<SwitchClass> {
    let graph = &fabric.graph;
    let mut classes: BTreeMap<u32, SwitchClass> = BTreeMap::new();
    for switch in graph.switches() {
        let level = levels[switch.index()];
        let empty = || SwitchClass { name: class(fabric, switch, level), switches: 0, ports: 0, to_endpoints: 0, to_switches: 0 };
        let of = classes.entry(level).or_insert_with(empty);
        of.switches += 1;
        // Built fabrics number the ports that they use; the switch has as many as it has.
        of.ports += match fabric.coordinates {
            Coordinates::Irregular(_) => u64::from(graph.port_count(switch)),
            _ => u64::from(fabric.radix.max(u32::from(graph.port_count(switch)))),
        };
        for (_, link) in graph.outputs(switch) {
            match graph.node(graph.link(link).to) {
                Node::Endpoint(_) => of.to_endpoints += 1,
                Node::Switch(_) => of.to_switches += 1,
            }
        }
    }
    classes.into_values().collect()
}

/// What the switches of a level are called.
fn class(fabric: &Fabric, switch: SwitchId, level: u32) -> String {
    match &fabric.coordinates {
        Coordinates::Irregular(_) => format!("level {level}"),
        Coordinates::Dragonfly(groups) => match groups.inside() {
            Inside::Mesh { .. } => "switch".to_owned(),
            Inside::LeafSpine { leaves, .. } if groups.position(switch) < leaves => "leaf".to_owned(),
            Inside::LeafSpine { .. } => "spine".to_owned(),
        },
        Coordinates::Grid(_) | Coordinates::Direct => "switch".to_owned(),
        Coordinates::Tree(tree) => tree.class(level),
    }
}

fn cables(fabric: &Fabric, levels: &[u32]) -> Vec<CableClass> {
    let graph = &fabric.graph;
    let mut classes: BTreeMap<(CableKind, Rate), CableClass> = BTreeMap::new();
    for cable in 0..graph.cable_count() {
        let id = LinkId(2 * cable);
        let (kind, rate) = (kind(fabric, graph, levels, id), graph.link(id).rate);
        let of = classes.entry((kind, rate)).or_insert(CableClass { kind, rate, cables: 0, measured: 0, length_mm: 0 });
        of.cables += 1;
        if let Some(length) = graph.length(id) {
            of.measured += 1;
            of.length_mm += u64::from(length.as_mm());
        }
    }
    classes.into_values().collect()
}

fn kind(fabric: &Fabric, graph: &Graph, levels: &[u32], link: LinkId) -> CableKind {
    let link = graph.link(link);
    let (Node::Switch(a), Node::Switch(b)) = (graph.node(link.from), graph.node(link.to)) else { return CableKind::Host };
    match &fabric.coordinates {
        Coordinates::Dragonfly(groups) if groups.group(a) == groups.group(b) => CableKind::Local,
        Coordinates::Dragonfly(_) => CableKind::Global,
        Coordinates::Grid(grid) => {
            let axis = (0..grid.dimensions().len()).find(|&axis| grid.coordinate(a, axis) != grid.coordinate(b, axis));
            CableKind::Axis(axis.unwrap_or(0) as u32)
        }
        _ => {
            let (one, other) = (levels[a.index()], levels[b.index()]);
            CableKind::Levels(one.min(other), one.max(other))
        }
    }
}
