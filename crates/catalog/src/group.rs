//! Groups of nodes: those of a group are alike, and a cluster has one group or several.
//!
//! Nodes are numbered through the groups in the order in which the cluster names them, and so are the endpoints of the fabric: a
//! group's nodes take `nics` endpoints each from its first one on. A group may begin further behind, at a switch of its own: the
//! endpoints that it leaves out have no node.
//! Modelled: nodes, adapters, links and libraries of each group. Not modelled: a node that belongs to two fabrics.

use std::fmt;
use std::ops::Range;

use fabriscope_fabric::{Length, LinkSpec, Topology};
use fabriscope_units::Span;
use schemars::JsonSchema;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, ResolvedCluster};
use crate::copy_on_write::Shared;
use crate::error::Problem;
use crate::node::{Node, ResolvedNode};
use crate::part::{Cable, LinkSpeed, Software};
use crate::sourced::Sourced;

/// Nodes of a cluster that are alike, beside others: `[[group]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The name by which others refer to it: `--on cluster:name`.
    pub name: String,
    /// Number of nodes. On an imported fabric by default all hosts that it names, or all with so many adapters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// The hosts of an imported fabric that are its nodes, as Slurm lists them: `gpu[01-16],gpu20`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<String>,
    /// What each of them is made of: the name of a node of the catalogue, or a table as `node` of a cluster.
    #[serde(deserialize_with = "node_or_name")]
    #[schemars(with = "NodeOrName")]
    pub node: Node,
    /// Name of the speed of its links. Default: that of the cluster, or else the fastest that adapter and switch both run at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Name of its MPI library. Default: that of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<String>,
    /// The cables of its nodes. Default: those of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cable: Option<GroupCable>,
    /// The first leaf switch of its nodes, counted from 0. Default: its nodes follow those of the group before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_leaf: Option<u32>,
}

/// The cables between the nodes of a group and their switches, where they are not those of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupCable {
    /// Name of the kind of cable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Length from a node to its switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_length: Option<Sourced<Length>>,
}

/// What may stand at `node` of a group.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code)] // Only its schema is used.
enum NodeOrName {
    /// A node of the catalogue.
    Named(String),
    /// A table, as `node` of a cluster.
    Table(Node),
}

/// Reads either form without losing the place of an error.
fn node_or_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
    struct Either;
    impl<'de> Visitor<'de> for Either {
        type Value = Node;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the name of a node, or a [group.node] table")
        }
        fn visit_str<E: de::Error>(self, name: &str) -> Result<Node, E> {
            Ok(Node { part: Some(name.to_owned()), ..Node::default() })
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Node, A::Error> {
            Node::deserialize(de::value::MapAccessDeserializer::new(map))
        }
    }
    deserializer.deserialize_any(Either)
}

/// What is wrong with the nodes of a cluster before any part is looked up.
pub(crate) fn check(cluster: &Cluster) -> Result<(), Problem> {
    let imported = matches!(cluster.topology, Topology::Imported(_));
    let named = cluster.hosts.is_some() || cluster.group.iter().any(|group| group.hosts.is_some());
    if named && !imported {
        let path: Vec<String> = match cluster.group.iter().position(|group| group.hosts.is_some()) {
            Some(number) if cluster.hosts.is_none() => vec!["group".to_owned(), number.to_string(), "hosts".to_owned()],
            _ => vec!["hosts".to_owned()],
        };
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let help = "say how many: nodes; hosts have names in the file of [topology.imported]";
        return Err(Problem::at(&path, "`hosts` of a fabric that was not imported", help));
    }
    if cluster.group.is_empty() {
        if cluster.nodes.is_none() && !imported {
            return Err(Problem::at(&[], "the key `nodes` is missing", "add `nodes`, or a [[group]] for each kind of node"));
        }
        let Some(node) = &cluster.node else {
            return Err(Problem::at(&[], "the key `node` is missing", "add `node`, or a [[group]] for each kind of node"));
        };
        if cluster.nodes == Some(0) {
            return Err(Problem::at(&["nodes"], "a cluster without nodes", "give it at least 1 node"));
        }
        return node.check().map_err(|problem| problem.under("node"));
    }
    let beside = [("nodes", cluster.nodes.is_some()), ("node", cluster.node.is_some()), ("hosts", cluster.hosts.is_some())];
    if let Some((key, _)) = beside.iter().find(|(_, given)| *given) {
        let help = format!("remove `{key}`, or make it a [[group]] of its own; each group says its own nodes");
        return Err(Problem::at(&[key], format!("`{key}` beside [[group]]"), help));
    }
    for (number, group) in cluster.group.iter().enumerate() {
        let within = |problem: Problem| problem.under(&number.to_string()).under("group");
        let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if group.name.is_empty() || !group.name.starts_with(|c: char| c.is_ascii_alphabetic()) || !group.name.chars().all(word) {
            let message = format!("`{}` is no name of a group", group.name);
            return Err(within(Problem::at(&["name"], message, "begin with a letter; use letters, digits, `-` and `_`")));
        }
        if cluster.group[..number].iter().any(|other| other.name == group.name) {
            let message = format!("there are two groups `{}`", group.name);
            return Err(within(Problem::at(&["name"], message, "give each a name of its own")));
        }
        if group.nodes.is_none() && !imported {
            return Err(within(Problem::at(&[], "the key `nodes` is missing", "add `nodes`")));
        }
        if group.nodes == Some(0) {
            return Err(within(Problem::at(&["nodes"], "a group without nodes", "give it at least 1 node, or leave it out")));
        }
        if group.first_leaf.is_some() && imported {
            let help = "name its hosts instead: hosts = \"gpu[01-16]\"";
            return Err(within(Problem::at(&["first_leaf"], "`first_leaf` on an imported fabric", help)));
        }
        group.node.check().map_err(|problem| within(problem.under("node")))?;
    }
    Ok(())
}

/// One group as the cluster writes it, or the whole cluster where its nodes are alike.
pub(crate) struct Written<'c> {
    /// The keys that lead to it.
    prefix: Vec<String>,
    pub name: &'c str,
    /// How many; on an imported fabric all that there are where nothing is said.
    pub nodes: Option<u32>,
    /// The hosts of an imported fabric that they are.
    pub hosts: Option<&'c str>,
    pub node: &'c Node,
    /// Its own link, where it names one.
    pub link: Option<&'c str>,
    pub software: Option<&'c str>,
    pub cable: Option<&'c GroupCable>,
    pub first_leaf: Option<u32>,
}

impl Written<'_> {
    /// A problem of the group, where the cluster says what causes it.
    pub fn told(&self, problem: Problem) -> Problem {
        self.prefix.iter().rev().fold(problem, |problem, key| problem.under(key))
    }
    /// Whether the cluster has several groups, or names its only one.
    pub fn named(&self) -> bool {
        !self.name.is_empty()
    }
}

/// The groups of a cluster; `nodes` of them instead of its own number where that is asked for.
pub(crate) fn written(cluster: &Cluster, nodes: Option<u32>) -> Result<Vec<Written<'_>>, Problem> {
    check(cluster)?;
    if let (true, Some(node)) = (cluster.group.is_empty(), &cluster.node) {
        let whole = Written {
            prefix: Vec::new(),
            name: "",
            nodes: nodes.or(cluster.nodes),
            hosts: cluster.hosts.as_deref(),
            node,
            link: Some(&cluster.link),
            software: Some(&cluster.software),
            cable: None,
            first_leaf: None,
        };
        return Ok(vec![whole]);
    }
    if nodes.is_some() {
        let names: Vec<String> = cluster.group.iter().map(|group| format!("`{}:{}`", cluster.name, group.name)).collect();
        let help = format!("name a group instead: {}", names.join(", "));
        return Err(Problem::at(&["nodes"], format!("a number of nodes of `{}`, which has groups of unlike nodes", cluster.name), help));
    }
    let groups = cluster.group.iter().enumerate().map(|(number, group)| Written {
        prefix: vec!["group".to_owned(), number.to_string()],
        name: &group.name,
        nodes: group.nodes,
        hosts: group.hosts.as_deref(),
        node: &group.node,
        link: group.link.as_deref(),
        software: group.software.as_deref(),
        cable: group.cable.as_ref(),
        first_leaf: group.first_leaf,
    });
    Ok(groups.collect())
}

/// Nodes that are alike, with their parts at hand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeGroup {
    /// The name of the group; empty where it is the only one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Number of nodes.
    pub nodes: u32,
    /// The names of its nodes on an imported fabric; empty elsewhere.
    #[serde(skip)]
    pub hosts: Vec<String>,
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
    pub software: Shared<Software>,
    /// The collective library of the GPUs, if there is one for them and for the adapters.
    pub nccl: Option<Shared<Software>>,
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
    /// Whether the adapters of all nodes take packets of a connection in any order.
    #[must_use]
    pub fn takes_any_order(&self) -> bool {
        self.groups.iter().all(|group| group.node.nic.any_order)
    }
    /// Whether packets are damaged at random, or cores interrupted.
    #[must_use]
    pub fn is_random(&self) -> bool {
        self.noise.is_some() || self.line.retry.as_ref().is_some_and(|retry| retry.bit_errors > 0.0)
    }
    /// The only group of nodes, unless there are several.
    pub fn uniform(&self) -> Option<&NodeGroup> {
        if let [group] = self.groups.as_slice() { Some(group) } else { None }
    }
    /// The cluster as group `number` sees it: its other nodes are switched off, its fabric is the same.
    pub fn narrowed(&self, number: usize) -> Option<ResolvedCluster> {
        self.groups.get(number)?;
        Some(self.narrowed_to(&[number]))
    }
    /// The same with some groups, in this order.
    pub(crate) fn narrowed_to(&self, numbers: &[usize]) -> ResolvedCluster {
        let groups = numbers.iter().filter_map(|number| self.groups.get(*number).cloned()).collect();
        ResolvedCluster { groups, ..self.clone() }
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
