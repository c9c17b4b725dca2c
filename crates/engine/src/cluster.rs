//! Where it happens: the catalog's parts joined to a fabric.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_catalog::{NodeChoice, NumaDistance, ResolvedCluster};
use fabriscope_fabric::EndpointId;
use fabriscope_fabric::topology::{Fabric, TopologyError};
use fabriscope_machine::Machine;
use fabriscope_node::{DeviceCosts, Reach};
use fabriscope_streams::Streams;

use crate::timing;

/// A cluster ready to run on: its parts and its wired fabric.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The parts, all resolved.
    pub parts: ResolvedCluster,
    /// What is wired where; endpoint `node × nics + nic` is a NIC.
    pub fabric: Fabric,
    /// The memories of a node that its adapters reach beyond their own links; without it, host memory beside each of them.
    pub reach: Option<Arc<Reach>>,
    /// What every node looks like inside, where its cores use GPUs.
    pub inside: Option<Inside>,
    /// The graph of every node.
    pub machine: Option<Arc<Machine>>,
}

/// A node with GPUs.
#[derive(Debug, Clone)]
pub struct Inside {
    /// Its graph.
    pub machine: Machine,
    /// What its cores and GPUs spend on copies.
    pub costs: DeviceCosts,
}

impl Cluster {
    /// Wires the fabric of `parts`.
    ///
    /// # Errors
    /// A topology that its switches cannot form, or that has too few endpoints for the nodes.
    pub fn new(parts: ResolvedCluster) -> Result<Cluster, TopologyError> {
        let fabric = parts.fabric()?;
        // Resolving the cluster has built the graph before.
        let machine = parts.sole().node.machine().ok();
        let inside = timing::devices(&parts).and_then(|costs| Some(Inside { machine: machine.clone()?, costs }));
        // Programs at another socket than the adapter, where the cluster does not say so of all of them.
        let apart = parts.sole().node.numa == NumaDistance::Local;
        let apart = |machine: &Machine| apart && machine.numas().len() > 1 || parts.sole().node.dpu.is_some();
        let several = machine.as_ref().filter(|machine| inside.is_none() && apart(machine));
        let reach = several.map(|machine| Arc::new(timing::reach(&parts, machine, false)));
        let cluster = Cluster { parts, fabric, reach, inside: None, machine: machine.map(Arc::new) };
        Ok(inside.into_iter().fold(cluster, Cluster::with))
    }

    /// The same with nodes that look like `inside`.
    #[must_use]
    pub fn with(mut self, inside: Inside) -> Cluster {
        self.reach = Some(Arc::new(timing::reach(&self.parts, &inside.machine, true)));
        self.machine = Some(Arc::new(inside.machine.clone()));
        self.inside = Some(inside);
        self
    }

    /// The nodes of a job of `count`, no more than there are; `seed` draws them where they are scattered.
    #[must_use]
    pub fn some(&self, count: u32, choice: NodeChoice, seed: u64) -> Vec<u32> {
        let nodes = self.parts.nodes();
        let count = count.min(nodes);
        match choice {
            NodeChoice::SameLeaf => (0..count).collect(),
            NodeChoice::Across => {
                let place = |index: u32| u64::from(index) * u64::from(nodes.saturating_sub(1)) / u64::from(count.max(2) - 1);
                (0..count).map(|index| place(index) as u32).collect()
            }
            NodeChoice::Scattered => self.free_nodes(count, seed),
        }
    }

    /// `count` nodes as a scheduler that knows the switches finds them on a busy machine: a few nodes at random are free, and those
    /// below the switch that suits best are taken first.
    ///
    /// Source: Slurm, "Topology Guide", tree: a job goes below one switch that has enough free nodes, of those the one with the
    /// fewest; else below as few as possible, those with the most free nodes first.
    fn free_nodes(&self, count: u32, seed: u64) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.parts.nodes()).collect();
        Streams::new(seed).stream("free nodes", 0).shuffle(&mut order);
        order.truncate((self.parts.nodes() / FREE_SHARE).max(count) as usize);
        let mut below: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for node in order {
            let link = self.fabric.graph.uplink(EndpointId(node * self.parts.sole().node.nics));
            below.entry(self.fabric.graph.link(link).to.0).or_default().push(node);
        }
        let mut leaves: Vec<Vec<u32>> = below.into_values().collect();
        leaves.sort_by_key(|nodes| if nodes.len() >= count as usize { (0, nodes.len()) } else { (1, usize::MAX - nodes.len()) });
        let mut taken: Vec<u32> = leaves.into_iter().flatten().take(count as usize).collect();
        taken.sort_unstable();
        taken
    }

    /// The most ranks a schedule can have: rank *r* is at adapter *r*, with a core of its own.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.parts.endpoints()
    }

    /// Nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.parts.nodes()
    }
}

/// One node in so many is free on a busy machine. Basis: assumed.
const FREE_SHARE: u32 = 8;
