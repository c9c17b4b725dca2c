//! Where it happens: the catalog's parts joined to a fabric.

use fabriscope_catalog::{NodeChoice, ResolvedCluster};
use fabriscope_fabric::topology::{Fabric, TopologyError};
use fabriscope_kernel::Streams;

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

    /// The nodes of a job of `count`, no more than there are; `seed` draws them where they are scattered.
    #[must_use]
    pub fn some(&self, count: u32, choice: NodeChoice, seed: u64) -> Vec<u32> {
        let nodes = self.parts.nodes;
        let count = count.min(nodes);
        match choice {
            NodeChoice::SameLeaf => (0..count).collect(),
            NodeChoice::Across => {
                let place = |index: u32| u64::from(index) * u64::from(nodes.saturating_sub(1)) / u64::from(count.max(2) - 1);
                (0..count).map(|index| place(index) as u32).collect()
            }
            NodeChoice::Scattered => {
                let mut free: Vec<u32> = (0..nodes).collect();
                let mut stream = Streams::new(seed).stream("nodes of a job", 0);
                let mut drawn: Vec<u32> = (0..count).map(|_| free.swap_remove(stream.below(free.len() as u64) as usize)).collect();
                drawn.sort_unstable();
                drawn
            }
        }
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
