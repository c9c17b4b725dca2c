//! Adapters of the hosts, group by group: costs, links and memories are those of the node that a host belongs to.

use std::ops::Range;
use std::sync::Arc;

use fabriscope_catalog::ResolvedCluster;
use fabriscope_engine::{Cluster, EngineError, timing};
use fabriscope_fabric::Router;
use fabriscope_nic::{DmaTargets, Hops, IoTlb, NicCosts, Pipeline, Uplink};
use fabriscope_node::{Adapter, AdapterConfig, DmaPath, PcieTiming};
use fabriscope_units::{Rate, Span};
use fabriscope_verbs::cc::Settings;
use fabriscope_verbs::{AckCoalescing, Lid, Mtu, NicConfig};

use crate::Scenario;
use crate::congestion::{host_rate, settings};
use crate::per_host::PerHost;

/// What the adapters of each group have in common.
pub(crate) struct HostGroups<'a> {
    cluster: &'a Cluster,
    groups: Vec<HostGroup<'a>>,
}

struct HostGroup<'a> {
    parts: &'a ResolvedCluster,
    costs: NicCosts,
    uplink: Uplink,
    port: PcieTiming,
    read_latency: Span,
    congestion: Settings,
}

impl<'a> HostGroups<'a> {
    pub fn new(engine: &Scenario, cluster: &'a Cluster, router: &Router, drops: bool) -> HostGroups<'a> {
        let group = |number| {
            let parts = cluster.seen_by(number);
            let mut congestion = settings(cluster, number, router, drops);
            if let Some(timeout) = engine.transfers.recovery.timeout {
                // What a person asks for counts more than what suits the congestion control.
                congestion.timeout = fabriscope_wire::AckTimeout::from_code(timeout).ok().and_then(fabriscope_wire::AckTimeout::span);
            }
            let rate = host_rate(cluster, number);
            // What an adapter turns back to its own cores and host takes its buffer as well.
            let rate = if parts.sole().node.dpu.is_some() { Rate::from_bps(rate.as_bps().saturating_mul(2)) } else { rate };
            let uplink = Uplink { rate, packet: timing::largest_packet(parts) };
            let (costs, port, read_latency) = (timing::nic(parts), timing::port(parts), timing::local_read(parts));
            HostGroup { parts, costs, uplink, port, read_latency, congestion }
        };
        HostGroups { cluster, groups: (0..cluster.groups.len()).map(group).collect() }
    }

    /// The settings of congestion control but for what depends on the node: the algorithm is the same for all.
    pub fn congestion(&self) -> Settings {
        self.groups[0].congestion.clone()
    }

    /// Whether the nodes are alike and their adapters the first endpoints: what may be divided at any node.
    pub fn in_order(&self) -> bool {
        self.cluster.parts.uniform().is_some_and(|group| group.first_endpoint == 0)
    }

    /// Adapters that must be in one part of a divided run: those of a node, where they share hops.
    pub fn together(&self) -> u32 {
        let shares = self.cluster.groups[0].reach.is_some();
        if shares { self.cluster.parts.groups[0].node.nics.max(1) } else { 1 }
    }

    /// From the tail of a packet at an adapter until it is there.
    pub fn rx_latency(&self) -> PerHost<Span> {
        if let [group] = self.groups.as_slice() {
            return PerHost::Same(group.costs.rx_latency);
        }
        let of = |host| self.groups[self.cluster.group_at(host)].costs.rx_latency;
        PerHost::Each((0..self.cluster.fabric.graph.endpoint_count()).map(of).collect())
    }

    /// The hops of the nodes that have these adapters.
    pub fn idle_hops(&self, hosts: &Range<u32>) -> Hops {
        if self.in_order() {
            let nics = self.cluster.parts.groups[0].node.nics.max(1);
            return Hops::new(self.cluster.groups[0].reach.as_deref(), (hosts.end - hosts.start).div_ceil(nics));
        }
        Hops::idle(self.first_hop(self.groups.len()))
    }

    /// The first hop of the nodes of a group among those of all groups.
    fn first_hop(&self, group: usize) -> usize {
        let before = self.cluster.parts.groups.iter().zip(&self.cluster.groups).take(group);
        before.map(|(group, model)| group.nodes as usize * model.reach.as_ref().map_or(0, |reach| reach.hops().len())).sum()
    }

    /// The adapter of a host; `first` is the first host of its part of the run.
    pub fn adapter(&self, host: u32, first: u32) -> (Adapter, Pipeline) {
        let number = self.cluster.group_at(host);
        let group = &self.groups[number];
        let mut adapter = Adapter::new(config(group, host));
        let iommu = group.parts.iommu();
        // What may be between fetch and wire covers a read whose address has to be looked up.
        let walk = iommu.map_or(Span::ZERO, |(limits, _)| limits.walk);
        let read_latency = group.read_latency + walk;
        let mut pipeline = Pipeline::new(group.costs, group.port, group.uplink, read_latency);
        if let Some((limits, page)) = iommu {
            pipeline.set_iommu(IoTlb::new(limits, page));
        }
        let Some(reach) = &self.cluster.groups[number].reach else { return (adapter, pipeline) };
        let here = group.costs.tx_window(group.uplink, read_latency);
        let window = |path: &DmaPath| group.costs.tx_window(group.uplink, path.read_latency + walk);
        let targets = if self.in_order() {
            let nics = self.cluster.parts.groups[0].node.nics.max(1);
            DmaTargets::new(Arc::clone(reach), host - first, nics, here, window)
        } else {
            // Endpoints without a node do nothing.
            let Some((_, node, nic)) = self.cluster.parts.adapter_at(host) else { return (adapter, pipeline) };
            let within = self.cluster.parts.group_of(node).map_or(0, |(_, within)| within as usize);
            let first_hop = self.first_hop(number) + within * reach.hops().len();
            DmaTargets::at(Arc::clone(reach), (node as usize, nic as usize), first_hop, here, window)
        };
        targets.places().for_each(|place| adapter.rnic.reach(place));
        pipeline.set_targets(targets);
        (adapter, pipeline)
    }
}

/// Refuses paths to memory of other adapters than the nodes have.
pub(crate) fn check_reach(cluster: &Cluster) -> Result<(), EngineError> {
    for (group, model) in cluster.parts.groups.iter().zip(&cluster.groups) {
        let nics = group.node.nics as usize;
        if let Some(reach) = model.reach.as_ref().map(|reach| reach.nics()).filter(|reach| *reach != nics) {
            return Err(EngineError::Setup(format!(
                "the ways to memory are those of {reach} adapters, and a node has {nics}; give a machine with as many adapters"
            )));
        }
    }
    Ok(())
}

fn config(group: &HostGroup<'_>, host: u32) -> AdapterConfig {
    let parts = group.parts;
    // Adapters with larger packets have them for other services only, where they do not say so.
    let standard = Mtu::from_bytes(parts.mtu).unwrap_or(Mtu::B4096).bytes();
    let datagram_mtu = parts.sole().node.nic.datagram_max.as_ref().map_or(standard, |most| **most);
    let coalescing = parts.sole().node.nic.ultra_ethernet.as_ref().map(AckCoalescing::plain).unwrap_or_default();
    let (link_layer, iwarp) = (parts.link_layer.wire(), timing::iwarp(parts));
    // Where none overtake each other it makes no difference.
    let any_order = parts.takes_any_order() && parts.routing.overtakes();
    let subnet = parts.subnet();
    let rnic = NicConfig {
        lid: Lid(host),
        link_layer,
        congestion: group.congestion.clone(),
        datagram_mtu,
        coalescing,
        iwarp,
        any_order,
        subnet,
        iommu: parts.iommu().is_some(),
        triggered: group.costs.triggered,
    };
    AdapterConfig { rnic, ip: Some(timing::ip(parts)), hfi: timing::onload(parts) }
}
