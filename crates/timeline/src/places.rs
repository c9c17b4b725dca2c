//! What the things on a timeline are called, and a recorder for several others.

use std::sync::{Arc, Mutex, PoisonError};

use fabriscope_engine::{Moment, Recorder};

/// Names of nodes, adapters and links, by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The cluster.
    pub cluster: String,
    /// Of nodes.
    pub nodes: Vec<String>,
    /// The node and the name of each adapter.
    pub adapters: Vec<(u32, String)>,
    /// Of links: the ports that they leave.
    pub links: Vec<String>,
}

impl Places {
    /// The name of a node.
    #[must_use]
    pub fn node(&self, node: u32) -> String {
        self.nodes.get(node as usize).cloned().unwrap_or_else(|| format!("node {node}"))
    }
    /// The node and the name of an adapter.
    #[must_use]
    pub fn adapter(&self, adapter: u32) -> (u32, String) {
        self.adapters.get(adapter as usize).cloned().unwrap_or_else(|| (adapter, format!("adapter {adapter}")))
    }
    /// The name of a link.
    #[must_use]
    pub fn link(&self, link: u32) -> String {
        self.links.get(link as usize).cloned().unwrap_or_else(|| format!("link {link}"))
    }
}

/// Tells several recorders.
pub struct Fanout(pub Vec<Arc<Mutex<dyn Recorder>>>);

impl Recorder for Fanout {
    fn record(&mut self, moment: Moment) {
        for recorder in &self.0 {
            recorder.lock().unwrap_or_else(PoisonError::into_inner).record(moment.clone());
        }
    }
}
