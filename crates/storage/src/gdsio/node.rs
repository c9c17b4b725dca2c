//! A node with its links, drives and adapters, as programs on storage find it.

use fabriscope_catalog::{Drive, ResolvedCluster, Shared};
use fabriscope_machine::{Machine, MachineError};
use fabriscope_units::Rate;

/// A node as the program finds it.
#[derive(Debug, Clone)]
pub struct StorageNode {
    pub(super) machine: Machine,
    pub(super) drives: Vec<Shared<Drive>>,
    pub(super) own: Option<(String, u32)>,
    pub(super) link: Rate,
}

impl StorageNode {
    /// A node of this cluster, whose nodes are alike.
    ///
    /// # Errors
    /// A node that is not in one piece.
    pub fn new(parts: &ResolvedCluster) -> Result<StorageNode, MachineError> {
        let group = parts.sole();
        let own = group.node.layout.part.drives.as_ref().map(|drives| (drives.part.clone(), *drives.count));
        Ok(StorageNode { machine: group.node.machine()?, drives: parts.drives.clone(), own, link: group.link.data_rate() })
    }
}
