//! Groups of nodes: those of a group are alike, and a cluster has one group or several.
//!
//! Nodes are numbered through the groups in the order in which the cluster names them, and so are the endpoints of the fabric: a
//! group's nodes take `nics` endpoints each from its first one on. A group may begin further behind, at a switch of its own: the
//! endpoints that it leaves out have no node.
//! Modelled: nodes, adapters, links and libraries of each group. Not modelled: a node that belongs to two fabrics.

use std::ops::Range;

use fabriscope_fabric::{Length, LinkSpec};
use fabriscope_units::Span;
use serde::Serialize;

use crate::cluster::ResolvedCluster;
use crate::node::ResolvedNode;
use crate::part::{Cable, LinkSpeed, Software};
use crate::sourced::Sourced;

/// Nodes that are alike, with their parts at hand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeGroup {
    /// The name of the group; empty where it is the only one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Number of nodes.
    pub nodes: u32,
    /// The endpoint of the fabric that is the first adapter of its first node.
    pub first_endpoint: u32,
    /// What each of them is made of.
    pub node: ResolvedNode,
    /// The speed from a node to its switch.
    pub link: LinkSpeed,
    /// The kind of cable from a node to its switch.
    pub cable: Cable,
    /// Length from a node to its switch.
    pub host_length: Sourced<Length>,
    /// The MPI library that programs use where nothing else is said.
    pub software: Software,
    /// The collective library of the GPUs, if there is one for them and for the adapters.
    pub nccl: Option<Software>,
}

impl NodeGroup {
    /// Propagation from a node to its switch.
    pub fn host_delay(&self) -> Span {
        self.cable.delay(*self.host_length)
    }
    /// The cable of an adapter: rate after encoding, propagation and error correction as its delay.
    pub fn link_spec(&self) -> LinkSpec {
        spec(&self.link, self.host_delay())
    }
    /// Its endpoints: `nics` of each node, one node after the other.
    pub fn endpoints(&self) -> Range<u32> {
        self.first_endpoint..self.first_endpoint.saturating_add(self.nodes.saturating_mul(self.node.nics))
    }
}

/// A link and its cable as the fabric takes them.
pub(crate) fn spec(link: &LinkSpeed, propagation: Span) -> LinkSpec {
    LinkSpec::new(link.data_rate(), Span::from_ps(propagation.as_ps().saturating_add(link.fec_latency.as_ps())))
}

impl ResolvedCluster {
    /// The only group of nodes: what models of one node's costs look at. Where there are several, whoever needs one kind of node
    /// refuses before ([`ResolvedCluster::uniform`]) or takes a group's own view ([`ResolvedCluster::narrowed`]).
    pub fn sole(&self) -> &NodeGroup {
        self.uniform().expect("unlike nodes were refused, or narrowed to one group, before the only group is asked for")
    }
    /// The same, to change it.
    pub fn sole_mut(&mut self) -> &mut NodeGroup {
        let sole = if let [group] = self.groups.as_mut_slice() { Some(group) } else { None };
        sole.expect("unlike nodes were refused, or narrowed to one group, before the only group is asked for")
    }
    /// The only group of nodes, unless there are several.
    pub fn uniform(&self) -> Option<&NodeGroup> {
        if let [group] = self.groups.as_slice() { Some(group) } else { None }
    }
    /// The cluster as group `number` sees it: its other nodes are switched off, its fabric is the same.
    pub fn narrowed(&self, number: usize) -> Option<ResolvedCluster> {
        let group = self.groups.get(number)?.clone();
        Some(ResolvedCluster { groups: vec![group], ..self.clone() })
    }
    /// The speeds of all links, to change them.
    pub fn link_speeds_mut(&mut self) -> impl Iterator<Item = &mut LinkSpeed> {
        let hosts = self.groups.iter_mut().map(|group| &mut group.link);
        hosts.chain([&mut self.trunk_link, &mut self.global_link])
    }
    /// Number of nodes of all groups.
    pub fn nodes(&self) -> u32 {
        self.groups.iter().fold(0, |sum, group| sum.saturating_add(group.nodes))
    }
    /// The number of the group of a node, and the node's number among those of the group.
    pub fn group_of(&self, node: u32) -> Option<(usize, u32)> {
        let mut within = node;
        for (number, group) in self.groups.iter().enumerate() {
            if within < group.nodes {
                return Some((number, within));
            }
            within -= group.nodes;
        }
        None
    }
    /// What a node is made of.
    pub fn node(&self, node: u32) -> Option<&ResolvedNode> {
        self.group_of(node).map(|(group, _)| &self.groups[group].node)
    }
    /// The endpoints of a node: its adapters.
    pub fn endpoints_of(&self, node: u32) -> Option<Range<u32>> {
        let (group, within) = self.group_of(node)?;
        let group = &self.groups[group];
        let first = group.first_endpoint + within * group.node.nics;
        Some(first..first + group.node.nics)
    }
    /// The group, the node and the number of the adapter that an endpoint is; nothing where no node is.
    pub fn adapter_at(&self, endpoint: u32) -> Option<(usize, u32, u32)> {
        let mut first_node = 0;
        for (number, group) in self.groups.iter().enumerate() {
            if group.endpoints().contains(&endpoint) {
                let within = endpoint - group.first_endpoint;
                return Some((number, first_node + within / group.node.nics.max(1), within % group.node.nics.max(1)));
            }
            first_node += group.nodes;
        }
        None
    }
    /// One past the last endpoint that has a node.
    pub fn endpoints(&self) -> u32 {
        self.groups.iter().map(|group| group.endpoints().end).max().unwrap_or(0)
    }
    /// The endpoints that have a node, in the order of their groups.
    pub fn hosts(&self) -> impl Iterator<Item = u32> + '_ {
        self.groups.iter().flat_map(NodeGroup::endpoints)
    }
}
