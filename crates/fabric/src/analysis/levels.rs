//! The level of each switch: 1 where endpoints are plugged in, one more for each trunk between there and here.
//!
//! Those of an imported fabric come from its file where it states them, else from its graph: a leaf without hosts is a leaf.

use std::collections::VecDeque;

use crate::graph::{Node, SwitchId};
use crate::topology::{Coordinates, Fabric};

/// By switch its level: that of the tree, else one more than the trunks to the nearest switch with endpoints.
///
/// Switches that no endpoint reaches are given the level above all others.
#[must_use]
pub fn levels(fabric: &Fabric) -> Vec<u32> {
    let graph = &fabric.graph;
    if let Coordinates::Tree(tree) = &fabric.coordinates {
        return graph.switches().map(|switch| tree.place(switch).level).collect();
    }
    if let Coordinates::Irregular(irregular) = &fabric.coordinates {
        return above_all(&irregular.levels);
    }
    let mut levels = vec![None; graph.switch_count() as usize];
    let mut front: VecDeque<SwitchId> = VecDeque::new();
    for endpoint in graph.endpoints() {
        if let Node::Switch(switch) = graph.node(graph.link(graph.uplink(endpoint)).to)
            && levels[switch.index()].is_none()
        {
            levels[switch.index()] = Some(1);
            front.push_back(switch);
        }
    }
    while let Some(at) = front.pop_front() {
        for (_, link) in graph.outputs(at) {
            if let Node::Switch(to) = graph.node(graph.link(link).to)
                && levels[to.index()].is_none()
            {
                levels[to.index()] = levels[at.index()].map(|level| level + 1);
                front.push_back(to);
            }
        }
    }
    above_all(&levels)
}

/// The levels, with those that are not known above all others.
fn above_all(levels: &[Option<u32>]) -> Vec<u32> {
    let beyond = levels.iter().flatten().max().map_or(1, |&most| most + 1);
    levels.iter().map(|level| level.unwrap_or(beyond)).collect()
}
