//! Where it happens: the catalog's parts joined to a fabric.

use fabriscope_catalog::ResolvedCluster;
use fabriscope_fabric::topology::{Fabric, TopologyError};

/// A cluster ready to run on: its parts and its wired fabric.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The parts, all resolved.
    pub parts: ResolvedCluster,
    /// What is wired where; endpoint `node × nics + nic` is a NIC.
    pub fabric: Fabric,
}

impl Cluster {
    /// Wires the fabric of `parts`.
    ///
    /// # Errors
    /// A topology that its switches cannot form, or that has too few endpoints for the nodes.
    pub fn new(parts: ResolvedCluster) -> Result<Cluster, TopologyError> {
        let fabric = parts.fabric()?;
        Ok(Cluster { parts, fabric })
    }

    /// The two nodes a benchmark between two nodes uses: neighbours, or the farthest apart.
    #[must_use]
    pub fn pair(&self, across: bool) -> (u32, u32) {
        (0, if across { self.parts.nodes.saturating_sub(1) } else { 1.min(self.parts.nodes.saturating_sub(1)) })
    }

    /// The most ranks a schedule can have: rank *r* is at adapter *r*, with a core of its own.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.parts.endpoints()
    }

    /// Nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.parts.nodes
    }
}
