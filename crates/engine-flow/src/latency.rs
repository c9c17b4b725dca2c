//! What a message needs besides the fluid: the times of its first and last packet through the parts.
//!
//! ```text
//!  start ─post─doorbell─fetch of packet 1─tx─┐                                     ┌─rx─write─completion─seen
//!                                            └───── fluid: all bytes on the wire ──┘
//!                                                    + switches and cables
//! ```
//!
//! Source: the parts of the catalogue through the models of `node` and `nic`, the same machines that the packet engine drives.
//! Modelled: one message on an idle node. Not modelled: messages that meet in the PCIe link or in the NIC, but for the
//! interval between messages that the NIC keeps.

use fabriscope_catalog::{LinkLayer, ResolvedCluster};
use fabriscope_engine::{Cluster, timing};
use fabriscope_fabric::{EndpointId, Graph, Link, LinkId};
use fabriscope_nic::{Hops, NicCosts, Pipeline, ReceiveEntry, Uplink};
use fabriscope_node::{CpuCosts, DoorbellPolicy, PcieTiming};
use fabriscope_units::{Bytes, Rate, Span, Time};
use fabriscope_verbs::{MemoryId, Packet, QpNum, Transmit};
use fabriscope_wire::Opcode;
use rustc_hash::FxHashMap;

use crate::places::per_ps;

/// The parts of a node, as a message meets them.
pub(crate) struct Latency {
    pub cpu: CpuCosts,
    doorbell: DoorbellPolicy,
    pcie: PcieTiming,
    mtu: u64,
    nic: NicCosts,
    /// Port to port.
    pub switch: SwitchLatency,
    /// An acknowledgement or a request on the wire.
    control: Bytes,
    layer: fabriscope_wire::LinkLayer,
    /// Of the link of a host.
    pub rate: Rate,
    known: FxHashMap<u64, Ends>,
}

/// From port to port of each switch.
#[derive(Debug, Clone)]
pub(crate) struct SwitchLatency {
    /// Of all of them.
    same: Span,
    /// By vertex, where they are not alike.
    each: Box<[u64]>,
}

impl SwitchLatency {
    fn of(cluster: &Cluster) -> SwitchLatency {
        let same = cluster.parts.switch.as_ref().map_or(Span::ZERO, |switch| switch.latency.value);
        let latencies = cluster.parts.switch_latencies(&cluster.fabric);
        if latencies.is_empty() {
            return SwitchLatency { same, each: Box::default() };
        }
        let endpoints = vec![0; cluster.fabric.graph.endpoint_count() as usize];
        SwitchLatency { same, each: endpoints.into_iter().chain(latencies.iter().map(|span| span.as_ps())).collect() }
    }

    /// What the switches along a path take (ps): links with the share of a message that each carries, `count` of them in all.
    pub fn along(&self, graph: &Graph, links: &[(u32, f64)], count: f64) -> f64 {
        if self.each.is_empty() {
            return (count - 1.0) * self.same.as_ps() as f64;
        }
        links.iter().map(|(link, share)| share * self.each[graph.link(LinkId(*link)).to.index()] as f64).sum()
    }
}

/// Before the first byte is on the wire, and after the last has left it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    /// From the doorbell in the NIC to the first byte on the wire.
    pub out: Span,
    /// From the doorbell in the NIC until the last byte can have left it on a wire that nobody shares: its packets are
    /// fetched one by one, by a queue that was idle before, and follow each other on the wire.
    pub fetched: Span,
    /// From the tail at the far NIC to the completion of a receive.
    pub received: Span,
}

impl Latency {
    /// Of a cluster whose nodes are alike.
    pub fn of(cluster: &Cluster) -> Latency {
        let rate = cluster.fabric.graph.links().first().map_or(Rate::default(), |link| link.rate);
        Latency::new(&cluster.parts, rate, SwitchLatency::of(cluster))
    }

    /// Of the nodes of each group.
    pub fn of_groups(cluster: &Cluster) -> Vec<Latency> {
        if cluster.is_uniform() {
            return vec![Latency::of(cluster)];
        }
        let graph = &cluster.fabric.graph;
        let rate = |first: u32| graph.link(graph.uplink(EndpointId(first))).rate;
        let groups = cluster.parts.groups.iter().enumerate();
        let switch = SwitchLatency::of(cluster);
        groups.map(|(number, group)| Latency::new(cluster.seen_by(number), rate(group.first_endpoint), switch.clone())).collect()
    }

    fn new(parts: &ResolvedCluster, rate: Rate, switch: SwitchLatency) -> Latency {
        let layer = parts.link_layer.wire();
        debug_assert!(parts.link_layer == LinkLayer::InfiniBand || layer.is_ethernet());
        Latency {
            cpu: timing::cpu(parts),
            doorbell: timing::doorbell(parts),
            pcie: timing::pcie(parts),
            mtu: parts.mtu.0.max(1),
            nic: timing::nic(parts),
            switch,
            control: Bytes(u64::from(layer.wire_bytes(Opcode::RC_ACKNOWLEDGE, 0))),
            layer,
            rate,
            known: FxHashMap::default(),
        }
    }

    /// From the core that posts to the doorbell in the NIC.
    pub fn rung(&self) -> Span {
        let fetch = if self.doorbell.pushes(1, Bytes(64), false) {
            Span::ZERO
        } else {
            self.pcie.read_latency + self.pcie.completion_time(Bytes(64))
        };
        self.cpu.wqe_build + self.cpu.mmio_latency + fetch
    }

    /// Between two messages of one NIC.
    pub fn message_interval(&self) -> Span {
        self.nic.message_interval
    }

    /// A NIC of a node where nothing else goes on.
    fn idle_nic(&self) -> Pipeline {
        let uplink = Uplink { rate: self.rate, packet: Bytes(self.mtu) };
        Pipeline::new(self.nic, self.pcie, uplink, self.pcie.read_latency)
    }

    /// The ends of a message of `bytes`.
    pub fn ends(&mut self, bytes: u64) -> Ends {
        if let Some(ends) = self.known.get(&bytes) {
            return *ends;
        }
        // All full packets, and what is left for the last.
        let (first, last) = (bytes.min(self.mtu), if bytes == 0 { 0 } else { (bytes - 1) % self.mtu + 1 });
        let out = self.idle_nic().build(Time::ZERO, &packet(first), &mut Hops::default()).ready;
        let mut nic = self.idle_nic();
        let (sent, landed) = if bytes == 0 {
            (Time::ZERO, Time::ZERO)
        } else {
            let written = nic.store(Time::ZERO, Bytes(last), MemoryId::HOST, &mut Hops::default());
            (written.sent, written.visible)
        };
        let completion = nic.complete(sent, ReceiveEntry::Consumed, landed);
        let ends = Ends {
            out: out - Time::ZERO,
            fetched: self.fetch_all(bytes) + self.nic.tx_latency,
            received: self.nic.rx_latency + (completion - Time::ZERO),
        };
        self.known.insert(bytes, ends);
        ends
    }

    /// When the last byte of a message has left the NIC, of which the first was asked for at zero: a packet leaves when it
    /// is fetched and the one before has left. Beyond some thousand they come at a steady pace.
    fn fetch_all(&self, bytes: u64) -> Span {
        let (mut nic, mut hops) = (self.idle_nic(), Hops::default());
        let packets = bytes.div_ceil(self.mtu);
        let wire = self.rate.time(Bytes(self.wire_bytes(self.mtu)));
        let (mut before, mut end) = (Time::ZERO, Time::ZERO);
        for number in 0..packets.min(MOST_PACKETS) {
            let amount = self.mtu.min(bytes - number * self.mtu);
            let on_wire = if amount == self.mtu { wire } else { self.rate.time(Bytes(self.wire_bytes(amount))) };
            before = end;
            end = end.max(nic.build(Time::ZERO, &packet(amount), &mut hops).complete) + on_wire;
        }
        (end - Time::ZERO) + (end - before).saturating_mul(packets.saturating_sub(MOST_PACKETS))
    }

    /// From the tail of the last packet at the NIC of `far` to the completion of the sender, but for the way back.
    pub fn acknowledged(&self, far: &Latency) -> Span {
        let completion = self.idle_nic().notify(Time::ZERO) - Time::ZERO;
        far.nic.rx_latency + far.nic.tx_latency + self.slower(far).time(self.control) + self.nic.rx_latency + completion
    }

    /// From the request of a read on the wire to its answer on the wire at the far side, but for the way there.
    pub fn requested(&self, far: &Latency) -> Span {
        self.nic.tx_latency + self.slower(far).time(self.control) + far.nic.rx_latency
    }

    /// The rate of the slower of two hosts' links, which a packet between them crosses.
    fn slower(&self, far: &Latency) -> Rate {
        self.rate.min(far.rate)
    }

    /// Bytes on the wire for `bytes` of payload.
    pub fn wire_bytes(&self, bytes: u64) -> u64 {
        let middle = u64::from(self.layer.wire_bytes(Opcode::RC_WRITE_MIDDLE, self.mtu as u32));
        let rest = bytes % self.mtu;
        let tail = if rest > 0 || bytes == 0 { u64::from(self.layer.wire_bytes(Opcode::RC_WRITE_LAST, rest as u32)) } else { 0 };
        bytes / self.mtu * middle + tail
    }

    /// What a link of the fabric carries, in bytes per picosecond: that of a host no more than the slot of its NIC.
    pub fn capacity(&self, link: &Link, endpoints: u32) -> f64 {
        let wire = per_ps(link.rate);
        if link.from.0 < endpoints || link.to.0 < endpoints { wire.min(self.slot_rate()) } else { wire }
    }

    /// Wire bytes per picosecond that the slot of a NIC can take, whichever way is slower.
    fn slot_rate(&self) -> f64 {
        let packet = Bytes(self.mtu);
        let wire = self.wire_bytes(self.mtu) as f64;
        let (read, write) = (self.pcie.completion_time(packet).as_ps().max(1) as f64, self.pcie.write_time(packet).as_ps().max(1) as f64);
        wire / read.max(write)
    }
}

/// A packet with `payload` bytes to fetch, of a message that the send engine has begun before.
fn packet(payload: u64) -> Transmit {
    let payload = Bytes(payload);
    Transmit { fetch: payload, ..Transmit::plain(Packet { payload: payload.0 as u16, ..Packet::default() }, QpNum(0)) }
}

/// Packets whose fetch is followed one by one.
const MOST_PACKETS: u64 = 4096;
