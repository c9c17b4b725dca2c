//! What the queue pairs of a NIC share: regions, shared receive queues, memory, and the queues towards the engine.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU32;
use std::sync::LazyLock;

use fabriscope_units::{Bytes, Time};
use fabriscope_wire::{Grh, LinkLayer, Mtu, Opcode, pad};

use crate::cc::Settings;
use crate::counts::NicCounts;
use crate::event::AsyncEvent;
use crate::ext_headers::{ExtHeaders, ExtId};
use crate::ids::{CqId, Lid, QpNum};
use crate::memory::Memory;
use crate::mr::Regions;
use crate::packet::Landed;
use crate::srq::Srq;
use crate::transport::AckCoalescing;
use crate::transport::iwarp::frame::Settings as IwarpSettings;
use crate::wc::Wc;
use crate::words::ArrivedWords;

/// What the queue pairs of a NIC share.
pub(crate) struct Port {
    pub(crate) lid: Lid,
    /// Bytes of a packet on the wire besides its payload, by opcode.
    pub(crate) overhead: &'static [u16; 256],
    /// The shortest frame, with what is before and behind it; nothing on InfiniBand.
    shortest: u16,
    /// Bytes around a packet without a transport header, which has no short header.
    raw_overhead: u16,
    /// The largest payload of a datagram.
    pub(crate) datagram_mtu: Bytes,
    /// Bytes more where the packet goes to a group: InfiniBand then has a global route header (IBA vol. 1 §9.6.1.2).
    pub(crate) mcast_overhead: u16,
    /// Adapters of a subnet, where routers join several.
    pub(crate) subnet: Option<NonZeroU32>,
    /// Slots of queue pairs with an acknowledgement to send.
    pub(crate) acks: VecDeque<u32>,
    /// Queue pairs with requests or READ responses to send, served in turn: `slot << 1 | is_response`.
    pub(crate) turns: VecDeque<u32>,
    /// Turns of queue pairs that may not send just now; empty but for the moment.
    pub(crate) aside: VecDeque<u32>,
    /// Completions the engine has to write.
    pub(crate) completions: VecDeque<(CqId, Wc)>,
    /// Ranges written by peers the engine has to report.
    pub(crate) landed: VecDeque<Landed>,
    /// What peers said and programs have not read.
    pub(crate) words: ArrivedWords,
    pub(crate) events: VecDeque<AsyncEvent>,
    /// (not later than the deadline, slot of the queue pair).
    timers: BinaryHeap<Reverse<(Time, u32)>>,
    /// (when a queue pair that was held back may send or wants to be woken, its slot).
    paced: BinaryHeap<Reverse<(Time, u32)>>,
    /// The first of both.
    pub(crate) alarm: Time,
    /// Slots of queue pairs that owe a congestion notification.
    pub(crate) notifications: VecDeque<u32>,
    pub(crate) congestion: Settings,
    /// When receivers of Ultra Ethernet acknowledge.
    pub(crate) coalescing: AckCoalescing,
    /// The iWARP of the adapter, if it is one.
    pub(crate) iwarp: Option<Box<IwarpSettings>>,
    /// Reliable connections take packets in any order, unless they are told otherwise.
    pub(crate) any_order: bool,
    /// Queue pairs of which a request completed elsewhere without a completion: a place in their queue is free.
    pub(crate) silent: Vec<QpNum>,
    /// Queue pairs of which a request failed elsewhere: they go to the error state.
    pub(crate) failed: Vec<QpNum>,
    /// Extension headers to free when the slab is at hand.
    pub(crate) orphans: Vec<ExtId>,
    pub(crate) counts: NicCounts,
    /// P_Keys with the bit of membership; empty where all are full members of one partition.
    pub(crate) pkeys: Vec<u16>,
    pub(crate) regions: Regions,
    pub(crate) srqs: Vec<Option<Srq>>,
    pub(crate) memory: Option<Box<dyn Memory>>,
}

impl Port {
    pub(crate) fn new(lid: Lid, link_layer: LinkLayer) -> Port {
        Port {
            lid,
            overhead: &OVERHEADS[link_layer as usize],
            shortest: link_layer.shortest() as u16,
            raw_overhead: raw_overhead(link_layer),
            datagram_mtu: Mtu::B4096.bytes(),
            mcast_overhead: if link_layer == LinkLayer::InfiniBand { Grh::BYTES as u16 } else { 0 },
            subnet: None,
            acks: VecDeque::new(),
            turns: VecDeque::new(),
            aside: VecDeque::new(),
            completions: VecDeque::new(),
            landed: VecDeque::new(),
            words: ArrivedWords::default(),
            events: VecDeque::new(),
            timers: BinaryHeap::new(),
            paced: BinaryHeap::new(),
            alarm: Time::MAX,
            notifications: VecDeque::new(),
            congestion: Settings::default(),
            coalescing: AckCoalescing::STANDARD,
            iwarp: None,
            any_order: false,
            silent: Vec::new(),
            failed: Vec::new(),
            orphans: Vec::new(),
            counts: NicCounts::default(),
            pkeys: Vec::new(),
            regions: Regions::default(),
            srqs: Vec::new(),
            memory: None,
        }
    }

    /// Whether packets to `dest` go through a router.
    pub(crate) fn leaves_subnet(&self, dest: Lid) -> bool {
        self.subnet.is_some_and(|adapters| !self.lid.shares_subnet(dest, adapters))
    }
    /// The timer of `slot` may run out at `at`.
    pub(crate) fn set_timer(&mut self, at: Time, slot: u32) {
        self.timers.push(Reverse((at, slot)));
        self.alarm = self.alarm.min(at);
    }
    /// `slot` wants to be looked at at `at`.
    pub(crate) fn look_at(&mut self, at: Time, slot: u32) {
        self.paced.push(Reverse((at, slot)));
        self.alarm = self.alarm.min(at);
    }
    /// Whether somebody wants to be looked at.
    #[inline]
    pub(crate) fn paces(&self) -> bool {
        !self.paced.is_empty()
    }
    /// Takes the first who wanted to be looked at by `now`.
    pub(crate) fn next_look(&mut self, now: Time) -> Option<(Time, u32)> {
        take_due(&mut self.paced, now)
    }
    /// Takes the first timer that is due by `now`.
    pub(crate) fn next_timer(&mut self, now: Time) -> Option<(Time, u32)> {
        take_due(&mut self.timers, now)
    }
    /// What was due is handled.
    pub(crate) fn reset_alarm(&mut self) {
        let first = [&self.timers, &self.paced].into_iter().filter_map(|heap| heap.peek());
        self.alarm = first.map(|entry| entry.0.0).min().unwrap_or(Time::MAX);
    }

    #[inline]
    pub(crate) fn free_orphans(&mut self, side: &mut ExtHeaders) {
        for ext in self.orphans.drain(..) {
            side.free(ext);
        }
    }

    /// Bytes on the wire of a packet; payloads are padded to words.
    #[inline]
    pub(crate) fn wire_bytes(&self, opcode: u8, payload: u16) -> u16 {
        self.wire_bytes_with(opcode, payload, 0)
    }
    /// The same with so much more of headers than the opcode says.
    #[inline]
    pub(crate) fn wire_bytes_with(&self, opcode: u8, payload: u16, more: u16) -> u16 {
        (self.overhead[opcode as usize] + more + payload + pad(u32::from(payload)) as u16).max(self.shortest)
    }

    /// Payload of a full packet of SRD and UET, in bytes.
    pub(crate) fn packet_mtu(&self) -> u32 {
        self.datagram_mtu.0 as u32
    }

    /// Bytes on the wire of a packet without a transport header.
    pub(crate) fn raw_bytes(&self, payload: u16) -> u16 {
        self.raw_overhead + payload + pad(u32::from(payload)) as u16
    }
}

fn raw_overhead(link_layer: LinkLayer) -> u16 {
    const HEADERS: u16 = fabriscope_wire::Bth::BYTES as u16 + 8 + 4;
    let layer = if link_layer == LinkLayer::RoceShort { LinkLayer::RoceV2Ipv4 } else { link_layer };
    OVERHEADS[layer as usize][usize::from(Opcode::UD_SEND_ONLY.as_u8())] - HEADERS
}

fn take_due(heap: &mut BinaryHeap<Reverse<(Time, u32)>>, now: Time) -> Option<(Time, u32)> {
    heap.peek().filter(|entry| entry.0.0 <= now)?;
    heap.pop().map(|entry| entry.0)
}

/// Bytes on the wire beside the payload, by link layer and opcode. One table for all NICs stays in the first cache.
static OVERHEADS: LazyLock<[[u16; 256]; LinkLayer::ALL.len()]> = LazyLock::new(|| {
    let bytes = |layer: LinkLayer, opcode: u8| Opcode::decode(opcode).map_or(0, |opcode| layer.overhead(opcode) as u16);
    LinkLayer::ALL.map(|layer| std::array::from_fn(|opcode| bytes(layer, opcode as u8)))
});
