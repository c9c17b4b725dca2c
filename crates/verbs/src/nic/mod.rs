//! The NIC: its objects, and what all its parts look up.
//!
//! Its methods stand where they belong, above the transports: `objects` makes and changes objects, `posting` takes requests and gives completions,
//! `data_path` moves packets by the registry of transports, `groups` and `partition` have what their names say.

mod data_path;
mod groups;
mod objects;
pub mod on_demand;
pub mod partition;
mod posting;
pub mod shortening;
pub mod triggered;

use std::num::NonZeroU32;

use fabriscope_prefetch::prefetch_lines;
use fabriscope_units::{Bytes, Time};
use fabriscope_wire::{LinkLayer, Mtu};
use rustc_hash::FxHashMap;

use crate::aggregate::GroupRequests;
use crate::attr::{AhAttr, QpType};
use crate::cc::{Echo, Settings};
use crate::cq::Cq;
use crate::ext_headers::Ext;
use crate::ids::{FIRST_QP, Lid, PdId, QpNum, SLOT_MASK, slot_number};
use crate::mcast::Mcast;
use crate::memory::Memory;
use crate::nic::on_demand::Reserved;
use crate::nic::triggered::{Triggered, TriggeredLimits};
use crate::packet::Received;
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::requester::Wqe;
use crate::transport::AckCoalescing;
use crate::transport::iwarp::frame::Settings as IwarpSettings;
use crate::transport::rud::contexts::Contexts;
use crate::watch::Watches;

/// What a NIC is made with.
#[derive(Clone, PartialEq, Debug)]
pub struct NicConfig {
    /// Its address.
    pub lid: Lid,
    /// Decides the size of packets on the wire.
    pub link_layer: LinkLayer,
    /// The congestion control of its reliable connections and contexts.
    pub congestion: Settings,
    /// The largest payload of a datagram and of a packet of SRD and UET: the MTU of the port.
    pub datagram_mtu: Bytes,
    /// When receivers of Ultra Ethernet acknowledge.
    pub coalescing: AckCoalescing,
    /// Its iWARP, where its queue pairs are that.
    pub iwarp: Option<IwarpSettings>,
    /// Reliable connections take packets in any order, unless their attributes say otherwise.
    pub any_order: bool,
    /// Adapters of an InfiniBand subnet, numbered one subnet after the other, where routers join several: packets to another one have a global
    /// route header.
    pub subnet: Option<NonZeroU32>,
    /// The host translates addresses of DMA (IOMMU): packets say which memory they touch ([`memory_used`](Nic::memory_used)).
    pub iommu: bool,
    /// Its counting events and triggered operations, if it has some.
    pub triggered: Option<TriggeredLimits>,
}

impl Default for NicConfig {
    /// Address 0 on InfiniBand within a subnet, with the largest packets there are.
    fn default() -> NicConfig {
        NicConfig {
            lid: Lid(0),
            link_layer: LinkLayer::InfiniBand,
            congestion: Settings::default(),
            datagram_mtu: Mtu::B4096.bytes(),
            coalescing: AckCoalescing::STANDARD,
            iwarp: None,
            any_order: false,
            subnet: None,
            iommu: false,
            triggered: None,
        }
    }
}

/// An RDMA NIC.
pub struct Nic {
    pub(crate) qps: Vec<Qp>,
    pub(crate) port: Port,
    pub(crate) cqs: Vec<Option<Cq>>,
    pub(crate) watches: Watches,
    /// Users of each protection domain that exists: queue pairs, shared queues, address handles.
    pub(crate) pds: Vec<Option<u32>>,
    pub(crate) ahs: Vec<Option<(PdId, AhAttr)>>,
    pub(crate) free_qps: Vec<u32>,
    pub(crate) mcast: Mcast,
    pub(crate) group_requests: GroupRequests,
    /// XRC domains made so far.
    pub(crate) xrcds: u32,
    /// Contexts of SRD and UET.
    pub(crate) contexts: Contexts,
    /// Responders of targets of DC, by initiator and target.
    pub(crate) responders: FxHashMap<(Lid, QpNum, QpNum), u32>,
    /// Queue pairs that are in memory when they are needed.
    pub(crate) reserved: Option<Box<Reserved>>,
    /// Counters of messages, and what waits for them.
    pub(crate) triggered: Option<Box<Triggered>>,
    /// Queue pairs that programs would have made and did not.
    pub(crate) left_out: u32,
}

/// Speed only: results do not depend on these.
impl Nic {
    /// Fetches what `prefetch_qp` and the data path will look at first.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_lines::<Nic, 6>(self);
    }
    /// Fetches the state of a queue pair; to be called some time after [`prefetch`](Self::prefetch).
    #[inline]
    pub fn prefetch_qp(&self, qp: u32) {
        if let Some(qp) = self.qps.get(self.place_of(qp)) {
            prefetch_lines::<Qp, 10>(qp);
        }
    }
    /// Where the state of a queue pair lies.
    #[inline(always)]
    fn place_of(&self, qp: u32) -> usize {
        match &self.reserved {
            None => (qp & SLOT_MASK).wrapping_sub(FIRST_QP) as usize,
            Some(reserved) => reserved.slot(QpNum(qp)).unwrap_or(usize::MAX),
        }
    }
    /// Whether there are contexts of reliable unordered delivery.
    #[inline(always)]
    pub fn has_contexts(&self) -> bool {
        self.contexts.len() > 0
    }
    /// Fetches what [`prefetch_context`](Self::prefetch_context) looks at; to be called some time before.
    #[inline]
    pub fn prefetch_peers(&self) {
        self.contexts.prefetch_peers();
    }
    /// Fetches the context that a packet with these extension headers is for, or the one whose turn it is to send.
    pub fn prefetch_context(&self, ext: Option<&Ext>) {
        self.contexts.prefetch(ext, self.port.turns.front().copied());
    }
    /// Fetches the request that a queue pair sends from; to be called some time after [`prefetch_qp`](Self::prefetch_qp).
    #[inline]
    pub fn prefetch_request(&self, qp: u32) {
        if let Some(request) = self.qps.get(self.place_of(qp)).and_then(|qp| qp.requester.queue.front()) {
            prefetch_lines::<Wqe, 2>(request);
        }
    }
}

impl Nic {
    /// A NIC without objects.
    pub fn new(config: NicConfig) -> Nic {
        let mut port = Port::new(config.lid, config.link_layer);
        let contexts = Contexts::new(&config.congestion);
        (port.congestion, port.datagram_mtu, port.coalescing) = (config.congestion, config.datagram_mtu, config.coalescing);
        port.iwarp = config.iwarp.map(Box::new);
        port.any_order = config.any_order;
        port.subnet = config.subnet;
        if config.iommu {
            port.regions.follow_addresses();
        }
        Nic {
            qps: Vec::new(),
            port,
            cqs: Vec::new(),
            watches: Watches::default(),
            pds: Vec::new(),
            ahs: Vec::new(),
            free_qps: Vec::new(),
            mcast: Mcast::default(),
            group_requests: GroupRequests::default(),
            xrcds: 0,
            contexts,
            responders: FxHashMap::default(),
            reserved: None,
            triggered: config.triggered.map(|limits| Box::new(Triggered::new(limits))),
            left_out: 0,
        }
    }

    /// Its address.
    pub fn lid(&self) -> Lid {
        self.port.lid
    }

    /// How many queue pairs there are.
    #[inline]
    pub fn queue_pairs(&self) -> u32 {
        self.queue_pairs_awake() + self.reserved.as_ref().map_or(0, |reserved| reserved.asleep())
    }

    /// A program uses some of its queue pairs only and did not make `count` others, which take their share of the adapter all the same.
    pub fn leave_out(&mut self, count: u32) {
        self.left_out = self.left_out.saturating_add(count);
    }
    /// How many were left out so.
    #[must_use]
    pub fn queue_pairs_left_out(&self) -> u32 {
        self.left_out
    }

    /// Attaches memory: from now on packets carry real bytes.
    pub fn set_memory(&mut self, memory: Box<dyn Memory>) {
        self.port.memory = Some(memory);
    }

    /// What requests that ended elsewhere leave to be done here.
    pub(crate) fn run_errands(&mut self) {
        while let Some(qp) = self.port.silent.pop() {
            if let Some(slot) = self.slot_of(qp) {
                self.qps[slot].requester.freed += 1;
            }
        }
        while let Some(qp) = self.port.failed.pop() {
            let Some(slot) = self.slot_of(qp) else { continue };
            self.qps[slot].enter_error(&mut self.port);
            self.contexts.forget(qp, &mut self.port);
        }
    }

    /// Ends the handling of a packet that may have touched several queue pairs.
    pub(crate) fn report(&mut self, before: Before, follows_payload: bool, received: &mut Received) {
        self.run_errands();
        before.report(&mut self.port, follows_payload, received);
    }

    /// The slot of a queue pair that exists.
    #[inline]
    pub(crate) fn slot_of(&self, qp: QpNum) -> Option<usize> {
        let slot = slot_number(qp.0);
        match self.qps.get(slot) {
            Some(found) if found.num == qp && found.live => Some(slot),
            _ => self.reserved.as_ref().and_then(|reserved| reserved.slot(qp)),
        }
    }
}

/// A marked packet arrived: the sender is told, where that takes a packet of its own.
#[cold]
pub(crate) fn note_mark(qp: &mut Qp, now: Time, port: &mut Port) {
    let interval = match port.congestion.echo {
        Echo::Notify(interval) => interval,
        Echo::AcknowledgeOrNotify(interval) if qp.qp_type == QpType::Uc => interval,
        _ => return,
    };
    let seen = &mut qp.responder.seen;
    if seen.notified.is_none_or(|last| now >= last + interval) {
        seen.notified = Some(now);
        port.notifications.push_back(qp.slot);
    }
}

/// What there was before a packet was handled.
pub(crate) struct Before {
    completions: usize,
    landed: usize,
}

impl Before {
    #[inline]
    pub(crate) fn of(port: &Port) -> Before {
        Before { completions: port.completions.len(), landed: port.landed.len() }
    }
    /// Tells what the packet led to.
    #[inline]
    pub(crate) fn report(self, port: &mut Port, follows_payload: bool, received: &mut Received) {
        if port.landed.len() > self.landed {
            received.landed = port.landed.pop_back();
        }
        if follows_payload && port.completions.len() > self.completions {
            received.completion = port.completions.pop_back();
        }
        received.completions_sent = port.completions.len() as u32;
        received.transmit = !port.acks.is_empty() || !port.turns.is_empty() || !port.notifications.is_empty();
    }
}
