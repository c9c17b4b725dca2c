//! Any multigraph: what an importer found, or a user wrote down cable by cable.
//!
//! Modelled: names of endpoints and switches, and forwarding tables where they came with the fabric.

use std::sync::Arc;

use super::Counts;
use crate::graph::{Graph, Node};
use crate::routing::Tables;

/// Names and tables of a fabric without coordinates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Irregular {
    /// What endpoints are called, by number.
    pub endpoints: Vec<String>,
    /// What switches are called, by number.
    pub switches: Vec<String>,
    /// Cables, those of the endpoints included.
    pub cables: u32,
    /// Links on the longest of the shortest paths between two endpoints.
    pub diameter: u32,
    /// Forwarding tables that came with the fabric.
    pub tables: Option<Arc<Tables>>,
    /// Endpoints 0 to this one send and receive; the others are only there. The tables need not lead to them.
    pub in_use: u32,
}

impl Irregular {
    /// The names of a graph's endpoints and switches; its diameter is measured.
    pub fn new(graph: &Graph, endpoints: Vec<String>, switches: Vec<String>) -> Irregular {
        Irregular {
            endpoints,
            switches,
            cables: graph.cable_count(),
            diameter: diameter(graph),
            tables: None,
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

/// Links on the longest of the shortest paths between two endpoints: a search from each switch that has endpoints.
fn diameter(graph: &Graph) -> u32 {
    let mut leaves: Vec<u32> = graph.endpoints().map(|endpoint| graph.link(graph.uplink(endpoint)).to.0).collect();
    leaves.sort_unstable();
    let several = leaves.windows(2).any(|pair| pair[0] == pair[1]);
    leaves.dedup();
    let vertices = (graph.endpoint_count() + graph.switch_count()) as usize;
    let mut distance = vec![u32::MAX; vertices];
    // Two endpoints of one switch are two links apart.
    let mut longest = if several { 2 } else { 0 };
    for &leaf in &leaves {
        distance.fill(u32::MAX);
        distance[leaf as usize] = 0;
        let mut frontier = vec![crate::Vertex(leaf)];
        while !frontier.is_empty() {
            let mut next = Vec::new();
            for vertex in frontier {
                let Node::Switch(switch) = graph.node(vertex) else { continue };
                for (_, link) in graph.outputs(switch) {
                    let to = graph.link(link).to;
                    if distance[to.index()] == u32::MAX {
                        distance[to.index()] = distance[vertex.index()] + 1;
                        next.push(to);
                    }
                }
            }
            frontier = next;
        }
        let farthest = leaves.iter().map(|&other| distance[other as usize]).filter(|&hops| hops != u32::MAX && hops > 0).max();
        longest = longest.max(farthest.map_or(0, |hops| hops + 2));
    }
    longest
}
