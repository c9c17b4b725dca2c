//! The workload `[workload.multicast]`: one host sends to a group; what it may say, and what the cluster must be for it.

use fabriscope_units::Remedy;
use miette::Diagnostic;
use std::net::Ipv6Addr;

use fabriscope_fabric::multicast::{GroupAttr, Groups, JoinState, Mgid};
use fabriscope_fabric::{EndpointId, Topology};
use fabriscope_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use fabriscope_catalog::{Interface, LinkLayer, Problem, ResolvedCluster};

/// One host sends messages to the members of a multicast group; one run for each number of members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToGroup {
    /// The group: an address `ff…::`, or of IPv4 on RoCE. Default: one of each kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The node that sends.
    #[serde(default)]
    pub sender: u32,
    /// How many nodes receive, one run for each number.
    pub receivers: Vec<u32>,
    /// Which nodes receive, the first ones first. Default: all but the sender, in the order of their numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<u32>,
    /// Size of each message.
    pub size: Bytes,
    /// Messages above the MTU go in several datagrams, and receivers put them together.
    #[serde(default)]
    pub segment: bool,
    /// How many messages.
    pub messages: u32,
    /// From the start of one message to the start of the next; as fast as possible without it.
    #[serde(default)]
    pub interval: Span,
    /// From the last answer to a join to the first message; members whose tables are written later miss some.
    #[serde(default = "settle")]
    pub settle: Span,
    /// Runs the same once more with a datagram to each receiver.
    #[serde(default)]
    pub unicast: bool,
}

fn settle() -> Span {
    Span::from_us(20_000)
}

impl ToGroup {
    /// The name of the group; `None` where what is written is no address of a group.
    #[must_use]
    pub fn mgid(&self, layer: LinkLayer) -> Option<Mgid> {
        let Some(text) = &self.group else {
            return Some(if layer == LinkLayer::InfiniBand { Mgid::infiniband(1) } else { Mgid::ip([239, 0, 0, 1].into()) });
        };
        let ip = layer != LinkLayer::InfiniBand;
        let mgid = match text.parse::<Ipv6Addr>() {
            Ok(address) => Mgid(address.octets()),
            Err(_) if ip => Mgid::ip(text.parse().ok()?),
            Err(_) => return None,
        };
        mgid.is_multicast().then_some(mgid)
    }
    /// The endpoints that take part: the first of each node.
    pub(crate) fn endpoints(&self, cluster: &ResolvedCluster) -> Vec<u32> {
        let most = self.receivers.iter().copied().max().unwrap_or(0) as usize;
        let receivers = self.candidates(cluster.nodes()).into_iter().take(most);
        std::iter::once(self.sender).chain(receivers).filter_map(|node| cluster.endpoints_of(node).map(|adapters| adapters.start)).collect()
    }
    /// The nodes that can receive, the first ones first.
    #[must_use]
    pub fn candidates(&self, nodes: u32) -> Vec<u32> {
        if self.members.is_empty() { (0..nodes).filter(|node| *node != self.sender).collect() } else { self.members.clone() }
    }
}

/// Whether it can happen on the cluster.
pub(crate) fn check(work: &ToGroup, cluster: &ResolvedCluster) -> Result<(), Problem> {
    let refuse = |key: &str, message: String, help: &str| Err(Problem::at(&["workload", "multicast", key], message, help));
    let nodes = cluster.nodes();
    if let Some(group) = cluster.groups.iter().find(|group| group.node.nic.interface != Interface::Verbs) {
        let nic = &group.node.nic;
        let message = format!("the adapter `{}` is driven through {}, which has no multicast", nic.name, nic.interface);
        return Err(Problem::at(&["cluster"], message, "use a cluster with adapters driven through verbs"));
    }
    let Some(mgid) = work.mgid(cluster.link_layer) else {
        let message = format!("`{}` is not the address of a multicast group", work.group.as_deref().unwrap_or_default());
        let help = match cluster.link_layer {
            LinkLayer::InfiniBand => "write ff12:a01b::1 or the like, or leave `group` out",
            _ => "write 239.0.0.1, ff0e::1 or the like, or leave `group` out",
        };
        return refuse("group", message, help);
    };
    if work.sender >= nodes {
        return refuse("sender", format!("there is no node {} among {nodes}", work.sender), "nodes are counted from 0");
    }
    let mut sorted = work.members.clone();
    sorted.sort_unstable();
    if let Some(unknown) = sorted.iter().find(|member| **member >= nodes) {
        return refuse("members", format!("there is no node {unknown} among {nodes}"), "name nodes of the cluster, counted from 0");
    }
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return refuse("members", format!("node {} is a duplicate entry", twice[0]), "name each node once");
    }
    if sorted.contains(&work.sender) {
        return refuse("members", format!("node {} is the sender", work.sender), "name other nodes: the sender does not receive");
    }
    let candidates = work.candidates(nodes);
    if work.receivers.is_empty() || work.receivers.len() > 1000 {
        let message = format!("{} numbers of receivers", work.receivers.len());
        return refuse("receivers", message, "write 1 to 1000 of them: [1, 4, 16]");
    }
    if let Some(number) = work.receivers.iter().find(|number| **number == 0 || **number as usize > candidates.len()) {
        let help = format!("write numbers from 1 to {}", candidates.len());
        return refuse("receivers", format!("{number} receivers, of {} nodes that can be", candidates.len()), &help);
    }
    if work.messages == 0 {
        return refuse("messages", "no message is sent".to_owned(), "use at least 1");
    }
    let datagram = cluster.mtu.min(LARGEST_DATAGRAM);
    if work.size == Bytes::ZERO || work.size > LARGEST_MESSAGE {
        let message = format!("a message of {} cannot be sent", work.size);
        return refuse("size", message, &format!("use 1 B to {LARGEST_MESSAGE}"));
    }
    if work.size > datagram && !work.segment {
        let message = format!("a message of {} does not fit into a datagram of {datagram}", work.size);
        return refuse("size", message, &format!("use at most \"{datagram}\", or add segment = true to send it in several"));
    }
    let packets = u64::from(work.messages).saturating_mul(work.size.as_u64().div_ceil(datagram.as_u64()));
    if packets > MOST_PACKETS {
        let message = format!("{packets} datagrams in all");
        return refuse("messages", message, &format!("send at most {MOST_PACKETS}: they are numbered, and all are simulated"));
    }
    reaches(work, cluster, mgid, &candidates)
}

/// Whether the tree of all members exists.
fn reaches(work: &ToGroup, cluster: &ResolvedCluster, mgid: Mgid, candidates: &[u32]) -> Result<(), Problem> {
    if !matches!(cluster.topology, Topology::Irregular(_) | Topology::Imported(_)) {
        // Other families hang together by construction.
        return Ok(());
    }
    let at = |key: &str, error: &dyn Diagnostic| {
        let (message, help) = error.halves("see `[topology]`");
        Problem::at(&["workload", "multicast", key], message, help)
    };
    let fabric = cluster.fabric().map_err(|error| at("receivers", &error))?;
    let endpoint = |node: u32| EndpointId(cluster.endpoints_of(node).map_or(0, |adapters| adapters.start));
    let mut members = vec![(endpoint(work.sender), JoinState::SendOnlyFull)];
    let most = work.receivers.iter().copied().max().unwrap_or(0) as usize;
    members.extend(candidates.iter().take(most).map(|node| (endpoint(*node), JoinState::Full)));
    let mut groups = Groups::new();
    groups.create(mgid, GroupAttr::default()).map_err(|error| at("group", &error))?;
    groups.join_all(&fabric.graph, mgid, &members).map_err(|error| at("receivers", &error))?;
    Ok(())
}

/// The largest payload of a datagram. Basis: standard, InfiniBand vol. 1 §9.8.3.
const LARGEST_DATAGRAM: Bytes = Bytes(4096);
/// Basis: assumed; what receivers put together in memory.
const LARGEST_MESSAGE: Bytes = Bytes(1 << 30);
/// Numbers in the immediate data, and events to simulate. Basis: assumed.
const MOST_PACKETS: u64 = 1 << 24;
