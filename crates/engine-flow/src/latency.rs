//! What a message needs besides the fluid: the times of its first and last packet through the parts.
//!
//! ```text
//!  start ─post─doorbell─fetch of packet 1─tx─┐                                     ┌─rx─write─completion─seen
//!                                            └───── fluid: all bytes on the wire ──┘
//!                                                    + switches and cables
//! ```
//!
//! Source: the parts of the catalogue through the models of `node`, the same that the packet engine asks.
//! Modelled: one message on an idle node. Not modelled: messages that meet in the PCIe link or in the NIC, but for the
//! interval between messages that the NIC keeps.

use fabriscope_catalog::{LinkLayer, ResolvedCluster};
use fabriscope_engine::{Cluster, timing};
use fabriscope_fabric::Link;
use fabriscope_node::{CpuCosts, DoorbellPolicy, Pcie, PcieTiming, ReadAhead, ReadStream};
use fabriscope_units::{Bytes, Rate, Span, Time};
use fabriscope_wire::Opcode;
use rustc_hash::FxHashMap;

use crate::places::per_ps;

/// The parts of a node, as a message meets them.
pub(crate) struct Latency {
    pub cpu: CpuCosts,
    doorbell: DoorbellPolicy,
    pcie: PcieTiming,
    mtu: u64,
    read_ahead: ReadAhead,
    tx: Span,
    rx: Span,
    recv: Span,
    cqe: Bytes,
    /// Port to port.
    pub switch: Span,
    /// Between two messages of one NIC.
    pub message_interval: Span,
    /// An acknowledgement or a request on the wire.
    control: Bytes,
    layer: fabriscope_wire::LinkLayer,
    /// Of the link of a host.
    pub rate: Rate,
    known: FxHashMap<u64, Ends>,
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
    pub fn of(cluster: &Cluster) -> Latency {
        let rate = cluster.fabric.graph.links().first().map_or(Rate::default(), |link| link.rate);
        Latency::new(&cluster.parts, rate)
    }

    fn new(parts: &ResolvedCluster, rate: Rate) -> Latency {
        let nic = &parts.sole().node.nic;
        let layer = parts.link_layer.wire();
        debug_assert!(parts.link_layer == LinkLayer::InfiniBand || layer.is_ethernet());
        Latency {
            cpu: timing::cpu(parts),
            doorbell: timing::doorbell(parts),
            pcie: timing::pcie(parts),
            mtu: parts.mtu.0.max(1),
            read_ahead: ReadAhead { initial: nic.read_ahead.value, growth: nic.read_ahead_growth.value },
            tx: nic.tx_latency.value,
            rx: nic.rx_latency.value,
            recv: nic.recv_latency.value,
            cqe: nic.cqe_size.value,
            switch: parts.switch.as_ref().map_or(Span::ZERO, |switch| switch.latency.value),
            message_interval: nic.message_interval.value,
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

    /// The ends of a message of `bytes`.
    pub fn ends(&mut self, bytes: u64) -> Ends {
        if let Some(ends) = self.known.get(&bytes) {
            return *ends;
        }
        let first = Bytes(bytes.min(self.mtu));
        // All full packets, and what is left for the last.
        let last = Bytes(if bytes == 0 { 0 } else { (bytes - 1) % self.mtu + 1 });
        let fetched = if bytes == 0 { Span::ZERO } else { Pcie::new(self.pcie).read(Time::ZERO, first, Span::ZERO) - Time::ZERO };
        let mut link = Pcie::new(self.pcie);
        let (sent, landed) = if bytes == 0 {
            (Time::ZERO, Time::ZERO)
        } else {
            let written = link.write(Time::ZERO, last);
            (written.sent, written.visible)
        };
        let completion = (link.write(sent, self.cqe).visible + self.recv).max(landed);
        let ends = Ends { out: fetched + self.tx, fetched: self.fetch_all(bytes) + self.tx, received: self.rx + (completion - Time::ZERO) };
        self.known.insert(bytes, ends);
        ends
    }

    /// When the last byte of a message has left the NIC, of which the first was asked for at zero: a packet leaves when it
    /// is fetched and the one before has left. Beyond some thousand they come at a steady pace.
    fn fetch_all(&self, bytes: u64) -> Span {
        let (mut link, mut stream) = (Pcie::new(self.pcie), ReadStream::default());
        let packets = bytes.div_ceil(self.mtu);
        let wire = self.rate.time(Bytes(self.wire_bytes(self.mtu)));
        let (mut before, mut end) = (Time::ZERO, Time::ZERO);
        for packet in 0..packets.min(MOST_PACKETS) {
            let amount = Bytes(self.mtu.min(bytes - packet * self.mtu));
            let on_wire = if amount.0 == self.mtu { wire } else { self.rate.time(Bytes(self.wire_bytes(amount.0))) };
            before = end;
            end = end.max(stream.fetch(&mut link, self.read_ahead, Time::ZERO, amount, Span::ZERO)) + on_wire;
        }
        let step = (end - before).as_ps();
        (end - Time::ZERO) + Span::from_ps(step.saturating_mul(packets.saturating_sub(MOST_PACKETS)))
    }

    /// From the tail of the last packet at the far NIC to the completion of the sender, but for the way back.
    pub fn acknowledged(&self) -> Span {
        let completion = Pcie::new(self.pcie).write(Time::ZERO, self.cqe).visible - Time::ZERO;
        self.rx + self.tx + self.rate.time(self.control) + self.rx + completion
    }

    /// From the request of a read on the wire to its answer on the wire at the far side, but for the way there.
    pub fn requested(&self) -> Span {
        self.tx + self.rate.time(self.control) + self.rx
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

/// Packets whose fetch is followed one by one.
const MOST_PACKETS: u64 = 4096;
