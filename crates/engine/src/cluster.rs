//! Where it happens: the catalog's parts joined to a fabric.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use fabriscope_catalog::{NodeChoice, NumaDistance, ResolvedCluster};
use fabriscope_fabric::EndpointId;
use fabriscope_fabric::topology::{Fabric, TopologyError};
use fabriscope_machine::Machine;
use fabriscope_node::{DeviceCosts, Reach};
use fabriscope_streams::Streams;
use fabriscope_units::Time;

use crate::error::EngineError;
use crate::timing;

/// A cluster ready to run on: its parts and its wired fabric.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The parts, all resolved.
    pub parts: ResolvedCluster,
    /// What is wired where; the endpoints of a node ([`ResolvedCluster::endpoints_of`]) are its NICs.
    pub fabric: Fabric,
    /// What the nodes of each group look like, in the order of the groups.
    pub groups: Vec<NodeModel>,
}

/// What the nodes of a group look like: made once, shared by all of them.
#[derive(Debug, Clone)]
pub struct NodeModel {
    /// The cluster as this group sees it; only where there are others.
    view: Option<Arc<ResolvedCluster>>,
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

impl NodeModel {
    /// The nodes of the only group of `parts`.
    fn of(parts: &ResolvedCluster) -> NodeModel {
        let node = &parts.sole().node;
        // Resolving the cluster has built the graph before.
        let machine = node.machine().ok();
        let inside = timing::devices(parts).and_then(|costs| Some(Inside { machine: machine.clone()?, costs }));
        // Programs at another socket than the adapter, where the cluster does not say so of all of them.
        let apart = node.numa == NumaDistance::Local;
        let apart = |machine: &Machine| apart && machine.numas().len() > 1 || node.dpu.is_some();
        let several = machine.as_ref().filter(|machine| inside.is_none() && apart(machine));
        let reach = several.map(|machine| Arc::new(timing::reach(parts, machine, false)));
        let model = NodeModel { view: None, reach, inside: None, machine: machine.map(Arc::new) };
        inside.into_iter().fold(model, |model, inside| model.with(parts, inside))
    }

    fn with(mut self, parts: &ResolvedCluster, inside: Inside) -> NodeModel {
        self.reach = Some(Arc::new(timing::reach(parts, &inside.machine, true)));
        self.machine = Some(Arc::new(inside.machine.clone()));
        self.inside = Some(inside);
        self
    }
}

impl Cluster {
    /// Wires the fabric of `parts`.
    ///
    /// # Errors
    /// A topology that its switches cannot form, or that has too few endpoints for the nodes.
    pub fn new(parts: ResolvedCluster) -> Result<Cluster, TopologyError> {
        let fabric = parts.fabric()?;
        let groups = match parts.uniform() {
            Some(_) => vec![NodeModel::of(&parts)],
            None => {
                let views = (0..parts.groups.len()).filter_map(|number| parts.narrowed(number));
                let model = |view: ResolvedCluster| NodeModel { view: Some(Arc::new(view.clone())), ..NodeModel::of(&view) };
                views.map(model).collect()
            }
        };
        Ok(Cluster { parts, fabric, groups })
    }

    /// The same with nodes that look like `inside`, those of all groups.
    #[must_use]
    pub fn with(mut self, inside: Inside) -> Cluster {
        let seen: Vec<ResolvedCluster> = (0..self.groups.len()).map(|group| self.seen_by(group).clone()).collect();
        self.groups = self.groups.into_iter().zip(&seen).map(|(model, parts)| model.with(parts, inside.clone())).collect();
        self
    }

    /// The cluster as a group sees it: with its nodes only, which are alike. Costs of a node are those of [`timing`] for it.
    #[must_use]
    pub fn seen_by(&self, group: usize) -> &ResolvedCluster {
        self.groups.get(group).and_then(|model| model.view.as_deref()).unwrap_or(&self.parts)
    }

    /// Whether a run on it goes on; engines ask now and then.
    ///
    /// # Errors
    /// The program around the library has stopped it.
    pub fn go_on(&self, now: Time) -> Result<(), EngineError> {
        if self.parts.stop.is_set() { Err(EngineError::Stopped { at: now }) } else { Ok(()) }
    }

    /// Whether all nodes are alike.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        self.groups.len() == 1
    }

    /// The group of the node that has an endpoint. Endpoints without a node count to the first group: nobody uses them.
    #[must_use]
    pub fn group_at(&self, endpoint: u32) -> usize {
        if self.is_uniform() { 0 } else { self.parts.adapter_at(endpoint).map_or(0, |(group, ..)| group) }
    }

    /// The group of a node.
    #[must_use]
    pub fn group_of(&self, node: u32) -> usize {
        if self.is_uniform() { 0 } else { self.parts.group_of(node).map_or(0, |(group, _)| group) }
    }

    /// The nodes of a job of `count`, no more than there are; `seed` draws them where they are scattered. Where nodes are unlike, the
    /// job has as many of each group, those of the first group first.
    #[must_use]
    pub fn some(&self, count: u32, choice: NodeChoice, seed: u64) -> Vec<u32> {
        let mut chosen = Vec::new();
        let mut first = 0;
        for (group, share) in self.parts.groups.iter().zip(self.shares(count)) {
            let nodes = first..first + group.nodes;
            first = nodes.end;
            chosen.extend(self.some_of(nodes, share, choice, seed));
        }
        chosen
    }

    /// How many nodes of each group a job of `count` has: the same of each as far as there are enough, the first ones one more.
    #[must_use]
    pub fn shares(&self, count: u32) -> Vec<u32> {
        let mut shares = vec![0; self.parts.groups.len()];
        let mut left = count.min(self.parts.nodes());
        while left > 0 {
            for (share, group) in shares.iter_mut().zip(&self.parts.groups) {
                if left > 0 && *share < group.nodes {
                    *share += 1;
                    left -= 1;
                }
            }
        }
        shares
    }

    /// `count` of the nodes of one group.
    fn some_of(&self, nodes: Range<u32>, count: u32, choice: NodeChoice, seed: u64) -> Vec<u32> {
        let all = nodes.end - nodes.start;
        match choice {
            NodeChoice::SameLeaf => (0..count).map(|index| nodes.start + index).collect(),
            NodeChoice::Across => {
                let place = |index: u32| u64::from(index) * u64::from(all.saturating_sub(1)) / u64::from(count.max(2) - 1);
                (0..count).map(|index| nodes.start + place(index) as u32).collect()
            }
            NodeChoice::Scattered => self.free_nodes(nodes, count, seed),
        }
    }

    /// `count` nodes as a scheduler that knows the switches finds them on a busy machine: a few nodes at random are free, and those
    /// below the switch that suits best are taken first.
    ///
    /// Source: Slurm, "Topology Guide", tree: a job goes below one switch that has enough free nodes, of those the one with the
    /// fewest; else below as few as possible, those with the most free nodes first.
    fn free_nodes(&self, nodes: Range<u32>, count: u32, seed: u64) -> Vec<u32> {
        let all = nodes.end - nodes.start;
        let mut order: Vec<u32> = nodes.collect();
        Streams::new(seed).stream("free nodes", 0).shuffle(&mut order);
        order.truncate((all / FREE_SHARE).max(count) as usize);
        let mut below: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for node in order {
            let first = self.parts.endpoints_of(node).map_or(0, |adapters| adapters.start);
            let link = self.fabric.graph.uplink(EndpointId(first));
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
