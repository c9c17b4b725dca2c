//! From the congestion control of the catalogue to the settings of the NICs.

use fabriscope_catalog::{Congestion, NodeGroup};
use fabriscope_engine::Cluster;
use fabriscope_fabric::{EndpointId, Route, Router};
use fabriscope_units::{Bytes, Rate, Span};
use fabriscope_verbs::cc::{Line, Settings};
use fabriscope_wire::Opcode;

/// The settings of the NICs of a group of nodes.
pub(crate) fn settings(cluster: &Cluster, group: usize, router: &Router, drops: bool) -> Settings {
    let parts = &cluster.parts;
    let line = line(cluster, group, router);
    let settings = match &parts.congestion {
        Some(Congestion { prototype: Some(prototype), .. }) => Settings::of_prototype(prototype.clone(), line),
        Some(congestion) => Settings::of(congestion.algorithm.plain(), line),
        None => Settings::none(line),
    };
    Settings { timeout: settings.timeout.or(drops.then_some(LOSSY_TIMEOUT)), ..settings }
}

/// The rate of the links of a group's hosts.
pub(crate) fn host_rate(cluster: &Cluster, group: usize) -> Rate {
    let graph = &cluster.fabric.graph;
    if cluster.is_uniform() {
        return graph.links().first().map_or(Rate::default(), |link| link.rate);
    }
    let first = cluster.parts.groups.get(group).map_or(0, |group| group.first_endpoint);
    graph.link(graph.uplink(EndpointId(first))).rate
}

/// The link of a host and the longest round trip of a full packet and its acknowledgement on an idle network, between any two nodes.
fn line(cluster: &Cluster, group: usize, router: &Router) -> Line {
    let (parts, fabric) = (&cluster.parts, &cluster.fabric);
    let links = fabric.graph.links();
    let rate = host_rate(cluster, group);
    let slowest = links.iter().map(|link| link.rate).min().unwrap_or(rate);
    let delay = links.iter().map(|link| link.delay).max().unwrap_or_default();
    let switch = parts.switch_parts().map(|switch| switch.latency.value).max().unwrap_or_default();
    // Paths without detours: what an idle network takes.
    let hops = u64::from(router.longest().min(fabric.coordinates.diameter()));
    let layer = parts.link_layer.wire();
    let full = slowest.time(Bytes(u64::from(layer.wire_bytes(Opcode::RC_WRITE_MIDDLE, parts.mtu.0 as u32))));
    let answer = slowest.time(Bytes(u64::from(layer.wire_bytes(Opcode::RC_ACKNOWLEDGE, 0))));
    // The time that a packet left is that at which it is built: its fetch and its way out belong to the round trip.
    let ends = |group: &NodeGroup| {
        let nic = &group.node.nic;
        let srd = nic.srd_latency.as_ref().map_or(Span::ZERO, |latency| latency.value);
        (nic.tx_latency.value + nic.rx_latency.value) * 2 + srd + group.node.cpu.root_complex.dma_read_latency.value
    };
    let ends = parts.groups.iter().map(ends).max().unwrap_or_default();
    let way = delay * hops + switch * hops.saturating_sub(1);
    Line { rate, base_rtt: way * 2 + full + answer + ends, mtu: parts.mtu }
}

/// How long a NIC waits for an answer where packets may be dropped and nothing else is said. Basis: assumed; the default of
/// 67 ms is made for networks that lose nothing.
const LOSSY_TIMEOUT: Span = Span::from_us(500);
