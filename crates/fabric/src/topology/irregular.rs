//! Any multigraph: what an importer found, or a user wrote down cable by cable.
//!
//! Modelled: names of endpoints and switches, and forwarding tables where they came with the fabric.

use std::sync::Arc;

use super::Counts;
use crate::graph::Node;
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
}

impl Irregular {
    /// How many endpoints, switches and cables there are.
    pub fn counts(&self) -> Counts {
        Counts { endpoints: self.endpoints.len() as u32, switches: self.switches.len() as u32, cables: self.cables }
    }
    /// Links on the longest of the shortest paths between two endpoints.
    pub fn diameter(&self) -> u32 {
        self.diameter
    }
    pub(super) fn name(&self, node: Node) -> String {
        let (names, index) = match node {
            Node::Endpoint(endpoint) => (&self.endpoints, endpoint.index()),
            Node::Switch(switch) => (&self.switches, switch.index()),
        };
        names.get(index).cloned().unwrap_or_else(|| format!("{node:?}"))
    }
}
