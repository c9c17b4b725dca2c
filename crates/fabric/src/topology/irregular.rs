//! Any multigraph: what an importer found, or a user wrote down cable by cable.
//!
//! Modelled: names of endpoints and switches, and forwarding tables where they came with the fabric.

use std::sync::Arc;

use super::Counts;
use crate::graph::{Graph, Node, PortId, SwitchId};
use crate::graph_levels::{self, Switches};
use crate::routing::Tables;

/// Names and tables of a fabric without coordinates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Irregular {
    /// What endpoints are called, by number.
    pub endpoints: Vec<String>,
    /// What switches are called, by number.
    pub switches: Vec<String>,
    /// The level of each switch, by number: 1 for leaves; `None` where no endpoint is in reach.
    pub levels: Vec<Option<u32>>,
    /// Cables, those of the endpoints included.
    pub cables: u32,
    /// Links on the longest of the shortest paths between two endpoints.
    pub diameter: u32,
    /// Forwarding tables that came with the fabric.
    pub tables: Option<Arc<Tables>>,
    /// What a subnet manager sees beside the graph, where the fabric is a subnet of InfiniBand.
    pub managed: Option<Arc<Managed>>,
    /// Endpoints 0 to this one send and receive; the others are only there. The tables need not lead to them.
    pub in_use: u32,
}

/// What a subnet manager sees of a fabric beside its graph: it goes through switches in the order of their GUIDs, and has paths to
/// aggregation nodes (SHARP) as to any other adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    /// The GUID of each switch, by number.
    pub guids: Vec<u64>,
    /// Ports of switches with aggregation nodes behind them, which are no endpoints.
    pub services: Vec<(SwitchId, PortId)>,
}

impl Irregular {
    /// The names of a graph's endpoints and switches; its levels and its diameter are measured.
    pub fn new(graph: &Graph, endpoints: Vec<String>, switches: Vec<String>) -> Irregular {
        Irregular {
            endpoints,
            switches,
            levels: levels(graph),
            cables: graph.cable_count(),
            diameter: diameter(graph),
            tables: None,
            managed: None,
            in_use: graph.endpoint_count(),
        }
    }
    /// How many endpoints, switches and cables there are.
    pub fn counts(&self) -> Counts {
        Counts { endpoints: self.endpoints.len() as u32, switches: self.switches.len() as u32, cables: self.cables }
    }
    /// Links on the longest of the shortest paths between two endpoints.
    pub fn diameter(&self) -> u32 {
        self.diameter
    }
    pub(crate) fn name(&self, node: Node) -> String {
        let (names, index) = match node {
            Node::Endpoint(endpoint) => (&self.endpoints, endpoint.index()),
            Node::Switch(switch) => (&self.switches, switch.index()),
        };
        names.get(index).cloned().unwrap_or_else(|| format!("{node:?}"))
    }
}

/// The level of each switch, from the cables alone.
fn levels(graph: &Graph) -> Vec<Option<u32>> {
    let mut hosts = vec![0; graph.switch_count() as usize];
    let mut neighbours: Vec<Vec<u32>> = Vec::new();
    for switch in graph.switches() {
        let mut near = Vec::new();
        for (_, link) in graph.outputs(switch) {
            match graph.node(graph.link(link).to) {
                Node::Switch(far) if far != switch => near.push(far.0),
                Node::Switch(_) => {}
                Node::Endpoint(_) => hosts[switch.index()] += 1,
            }
        }
        neighbours.push(near);
    }
    graph_levels::levels(&Switches::new(neighbours, hosts))
}

/// Links on the longest of the shortest paths between two endpoints: a search from each switch that has endpoints, 64 at a
/// time, a bit for each.
fn diameter(graph: &Graph) -> u32 {
    let switches = graph.switch_count() as usize;
    let mut is_leaf = vec![false; switches];
    let (mut leaves, mut several) = (Vec::new(), false);
    for endpoint in graph.endpoints() {
        if let Node::Switch(at) = graph.node(graph.link(graph.uplink(endpoint)).to) {
            let known = std::mem::replace(&mut is_leaf[at.index()], true);
            several |= known;
            if !known {
                leaves.push(at);
            }
        }
    }
    // Two endpoints of one switch are two links apart.
    let mut longest = if several { 2 } else { 0 };
    let (mut seen, mut reached) = (vec![0u64; switches], vec![0u64; switches]);
    for starts in leaves.chunks(64) {
        seen.fill(0);
        let mut front: Vec<(SwitchId, u64)> = starts.iter().enumerate().map(|(bit, &at)| (at, 1 << bit)).collect();
        front.iter().for_each(|&(at, bit)| seen[at.index()] |= bit);
        for steps in 1u32.. {
            let mut open = Vec::new();
            for &(at, bits) in &front {
                for (_, link) in graph.outputs(at) {
                    let Node::Switch(to) = graph.node(graph.link(link).to) else { continue };
                    let new = bits & !seen[to.index()];
                    if new != 0 && reached[to.index()] == 0 {
                        open.push(to);
                    }
                    reached[to.index()] |= new;
                }
            }
            if open.is_empty() {
                break;
            }
            front.clear();
            for to in open {
                let bits = std::mem::take(&mut reached[to.index()]);
                seen[to.index()] |= bits;
                if is_leaf[to.index()] {
                    longest = longest.max(steps + 2);
                }
                front.push((to, bits));
            }
        }
    }
    longest
}
