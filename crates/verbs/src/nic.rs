//! The NIC: what programs call to post and poll, and what the engine calls to move packets.
//!
//! Source: IBA vol. 1 §11.4 (posting and polling), §9.7 (transport).
//! Modelled: a queue pair's turn comes round robin, one packet at a time; acknowledgements go before everything else.
//! Not modelled: time. The engine decides when WQEs are fetched, packets leave, payload and completions become visible.
//!
//! The engine calls, for each NIC:
//! - `doorbell` when the NIC has seen a doorbell, then `poll_transmit` until it gives `None` or its own buffer is full;
//! - `handle_packet` for each arrival, then `poll_transmit` again if the answer says `transmit`;
//! - `handle_timeout` at `poll_timeout`;
//! - after each of these, and after control verbs and posting: `poll_completion` until `None`, then `deliver` with the time
//!   the entry is visible.

use fabriscope_prefetch::prefetch_lines;
use fabriscope_psm2 as psm2;
use fabriscope_tcp::kernel as sockets;
use fabriscope_units::{Bytes, Time};
use fabriscope_wire::{LinkLayer, Mtu, Opcode, Operation, Transport};
use rustc_hash::FxHashMap;

use crate::aggregate::GroupRequests;
use crate::attr::AhAttr;
use crate::attr::{QpState, QpType};
use crate::cc::{Echo, Settings};
use crate::counts::NicCounts;
use crate::cq::{Cq, Delivery};
use crate::error::PostError;
use crate::event::AsyncEvent;
use crate::ext_headers::ExtHeaders;
use crate::hfi::Hfi;
use crate::ids::{CqId, Lid, PdId, QpNum, SrqId, WatchId, WqeIndex};
use crate::ip::{DESCRIPTORS, Ip};
use crate::iwarp;
use crate::mcast::Mcast;
use crate::memory::{self, Memory};
use crate::packet::{Body, Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::requester::{Extra, Wqe};
use crate::qp::{Qp, Waiting};
use crate::rud::{CONTEXT, Contexts};
use crate::transport::{dc, raw, rc_requester, rc_responder, uc, ud};
use crate::watch::Watches;
use crate::wc::{Wc, WcStatus};
use crate::wr::{self, Posted, RecvWr, SendFlags, SendWr};

/// What a NIC is made with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NicConfig {
    /// Its address.
    pub lid: Lid,
    /// Decides the size of packets on the wire.
    pub link_layer: LinkLayer,
    /// The congestion control of its reliable connections and contexts.
    pub congestion: Settings,
    /// The largest payload of a datagram and of a packet of SRD and UET: the MTU of the port.
    pub datagram_mtu: Bytes,
    /// The kernel's interface on its port, where programs open sockets.
    pub ip: Option<sockets::Settings>,
    /// Its iWARP, where its queue pairs are that.
    pub iwarp: Option<iwarp::Settings>,
    /// The adapter's contexts and engines for PSM2, if it is a host fabric interface.
    pub hfi: Option<psm2::AdapterSettings>,
}

impl Default for NicConfig {
    /// Address 0 on InfiniBand within a subnet, with the largest packets there are.
    fn default() -> NicConfig {
        NicConfig {
            lid: Lid(0),
            link_layer: LinkLayer::InfiniBand,
            congestion: Settings::default(),
            datagram_mtu: Mtu::B4096.bytes(),
            ip: None,
            iwarp: None,
            hfi: None,
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
    pub(crate) groups_asked: GroupRequests,
    /// XRC domains made so far.
    pub(crate) xrcds: u32,
    /// Contexts of SRD and UET.
    pub(crate) contexts: Contexts,
    /// Responders of targets of DC, by initiator and target.
    pub(crate) responders: FxHashMap<(Lid, QpNum, QpNum), u32>,
    pub(crate) ip: Ip,
    pub(crate) hfi: Hfi,
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
        if let Some(qp) = self.qps.get((qp & SLOT_MASK).wrapping_sub(FIRST_QP) as usize) {
            prefetch_lines::<Qp, 10>(qp);
        }
    }
    /// Fetches the request that a queue pair sends from; to be called some time after [`prefetch_qp`](Self::prefetch_qp).
    #[inline]
    pub fn prefetch_request(&self, qp: u32) {
        if let Some(request) = self.qps.get((qp & SLOT_MASK).wrapping_sub(FIRST_QP) as usize).and_then(|qp| qp.requester.queue.front()) {
            prefetch_lines::<Wqe, 2>(request);
        }
    }
}

/// Posting and polling: called by programs.
impl Nic {
    /// A NIC without objects.
    pub fn new(config: NicConfig) -> Nic {
        Nic {
            qps: Vec::new(),
            port: Port {
                congestion: config.congestion,
                datagram_mtu: config.datagram_mtu,
                iwarp: config.iwarp.map(Box::new),
                ..Port::new(config.lid, config.link_layer)
            },
            cqs: Vec::new(),
            watches: Watches::default(),
            pds: Vec::new(),
            ahs: Vec::new(),
            free_qps: Vec::new(),
            mcast: Mcast::default(),
            groups_asked: GroupRequests::default(),
            xrcds: 0,
            contexts: Contexts::new(&config.congestion),
            responders: FxHashMap::default(),
            ip: Ip::new(config.lid, config.ip),
            hfi: Hfi::new(config.lid, config.hfi),
        }
    }

    /// Its address.
    pub fn lid(&self) -> Lid {
        self.port.lid
    }

    /// How many queue pairs there are.
    #[inline]
    pub fn queue_pairs(&self) -> u32 {
        (self.qps.len() - self.free_qps.len()) as u32
    }

    /// Attaches memory: from now on packets carry real bytes.
    pub fn set_memory(&mut self, memory: Box<dyn Memory>) {
        self.port.memory = Some(memory);
    }

    /// Puts a request into the send queue. The NIC sees it after `doorbell`.
    ///
    /// # Errors
    /// The queue is full, the state or transport does not allow the request, or a field is missing or too large.
    pub fn post_send(&mut self, _now: Time, qp: QpNum, wr: &SendWr) -> Result<Posted, PostError> {
        let slot = self.slot_of(qp).ok_or(PostError::NoSuchQp { qp })?;
        self.run_errands();
        check_send(&self.qps[slot], wr)?;
        let route = self.route_of(&self.qps[slot], wr)?;
        let qp = &mut self.qps[slot];
        let extra = match (wr.opcode.is_atomic(), qp.qp_type, &route) {
            (true, ..) => Extra::Atomic(wr.atomic.ok_or(PostError::MissingField { opcode: wr.opcode, field: "atomic" })?),
            (false, kind, Some(route))
                if kind.sends_datagrams() && route.dest.mlid().is_some() != (QpNum(route.to) == QpNum::MULTICAST) =>
            {
                return Err(PostError::MulticastQp { dest: route.dest, qp: QpNum(route.to) });
            }
            (false, kind, Some(route)) if kind.sends_datagrams() => {
                Extra::Datagram { dest: route.dest, sl: route.sl, qp: QpNum(route.to), qkey: route.qkey }
            }
            _ => Extra::Nothing,
        };
        let route = route.filter(|_| !qp.qp_type.sends_datagrams()).map(Box::new);
        let inline = wr.flags.contains(SendFlags::INLINE);
        let bytes = wr.length();
        let length = u32::try_from(bytes.0).unwrap_or(u32::MAX);
        let copy = match &self.port.memory {
            Some(memory) if inline => Some(memory::gather(memory.as_ref(), &wr.sge, 0, length as usize).into_boxed_slice()),
            _ => None,
        };
        let index = WqeIndex(qp.requester.posted());
        qp.requester.queue.push_back(Wqe {
            opcode: wr.opcode,
            flags: wr.flags,
            signaled: qp.init.sq_sig_all || wr.flags.contains(SendFlags::SIGNALED),
            imm: wr.imm.unwrap_or(0),
            length,
            first_psn: qp.requester.next_psn,
            packets: 0,
            wr_id: wr.wr_id,
            remote: wr.remote.unwrap_or_default(),
            sge: wr.sge.clone(),
            extra,
            inline: copy,
            route,
        });
        Ok(Posted { wqe: index, bytes, inline, sges: wr.sge.len() as u32 })
    }

    /// Puts a request into the receive queue.
    ///
    /// # Errors
    /// The queue is full or shared, the state does not allow it, or the list is too long.
    pub fn post_recv(&mut self, _now: Time, qp: QpNum, wr: &RecvWr) -> Result<(), PostError> {
        let slot = self.slot_of(qp).ok_or(PostError::NoSuchQp { qp })?;
        let state = self.qps[slot].state;
        if self.qps[slot].init.srq.is_some() {
            return Err(PostError::UsesSrq { qp });
        }
        if state == QpState::Reset {
            return Err(PostError::WrongState { qp, state });
        }
        self.qps[slot].recv_queue.post(wr)?;
        if state == QpState::Err {
            self.qps[slot].flush_receives(&mut self.port);
        }
        Ok(())
    }

    /// Puts a request into a shared receive queue.
    ///
    /// # Errors
    /// The queue is full or does not exist, or the list is too long.
    pub fn post_srq_recv(&mut self, _now: Time, srq: SrqId, wr: &RecvWr) -> Result<(), PostError> {
        let queue = self.port.srqs.get_mut(srq.0 as usize).and_then(Option::as_mut);
        queue.ok_or(PostError::NoSuchSrq { srq })?.queue.post(wr)
    }

    /// Appends completions visible by `now`, at most `max`, and returns how many. Slots of their queues become free.
    pub fn poll_cq(&mut self, now: Time, cq: CqId, max: usize, into: &mut Vec<Wc>) -> usize {
        let Some(Some(queue)) = self.cqs.get_mut(cq.0 as usize) else { return 0 };
        let mut count = 0;
        while count < max {
            let Some(wc) = queue.poll(now) else { break };
            release(&mut self.qps, &mut self.port, &wc);
            into.push(wc);
            count += 1;
        }
        count
    }

    /// When the next completion becomes visible, if one was delivered.
    pub fn cq_next_visible(&self, cq: CqId) -> Option<Time> {
        match self.cqs.get(cq.0 as usize) {
            Some(queue) => queue.as_ref()?.next_visible(),
            None => self.hfi.next_visible(cq),
        }
    }

    /// Counts, from now on, the messages of peers (WRITE, atomics) whose last byte falls into the range.
    pub fn create_watch(&mut self, addr: u64, length: Bytes) -> WatchId {
        self.watches.create(addr, length)
    }

    /// Messages counted by `watch` and visible by `now`; `now` should not fall from one question to the next.
    pub fn watch_count(&mut self, watch: WatchId, now: Time) -> u64 {
        self.watches.count(watch, now)
    }

    /// When the count of `watch` reaches `count`, if that is known already; `Time::ZERO` if that was seen before.
    pub fn watch_reaches(&self, watch: WatchId, count: u64) -> Option<Time> {
        self.watches.reaches(watch, count)
    }

    /// The oldest asynchronous event not yet taken.
    pub fn poll_async_event(&mut self) -> Option<AsyncEvent> {
        self.port.events.pop_front()
    }
}

/// Moving packets: called by the engine.
impl Nic {
    /// Requests up to and including `through` may be sent: the NIC saw the doorbell and has the WQEs.
    pub fn doorbell(&mut self, _now: Time, qp: QpNum, through: WqeIndex) {
        let Some(slot) = self.slot_of(qp) else { return self.hfi.arrived(qp, through) };
        let qp = &mut self.qps[slot];
        let end = (through.0 + 1).min(qp.requester.posted());
        qp.requester.ready = qp.requester.ready.max(end);
        match qp.state {
            QpState::Err | QpState::Sqe => qp.flush_sends(&mut self.port),
            _ if qp.qp_type.shares_contexts() => self.hand_over(slot),
            _ => qp.want_requests(&mut self.port),
        }
    }

    /// The next packet to build and send; `None` when there is none or windows are closed.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time, side: &mut ExtHeaders) -> Option<Transmit> {
        let mut transmit = self.next_packet(now, side);
        if !self.port.pkeys.is_empty()
            && let Some(transmit) = &mut transmit
        {
            self.stamp(transmit, side);
        }
        transmit
    }

    /// The same where packets of some service levels, the bits of `closed`, may not be built now: their queue pairs keep their turns.
    pub fn poll_transmit_among(&mut self, now: Time, side: &mut ExtHeaders, closed: u16) -> Option<Transmit> {
        let qps = &self.qps;
        // Contexts have several queue pairs, and take their turn as ever.
        let is_closed = |turn: u32| turn & CONTEXT == 0 && closed >> (qps[(turn >> 1) as usize].sl & 15) & 1 == 1;
        let port = &mut self.port;
        for _ in 0..port.turns.len() {
            let Some(turn) = port.turns.pop_front() else { break };
            if is_closed(turn) { port.aside.push_back(turn) } else { port.turns.push_back(turn) }
        }
        let transmit = self.poll_transmit(now, side);
        // Those that waited first go first when they may.
        let port = &mut self.port;
        port.aside.append(&mut port.turns);
        std::mem::swap(&mut port.aside, &mut port.turns);
        transmit
    }

    #[inline]
    fn next_packet(&mut self, now: Time, side: &mut ExtHeaders) -> Option<Transmit> {
        let port = &mut self.port;
        if let Some(slot) = port.notifications.pop_front() {
            return Some(notification(&self.qps[slot as usize], port));
        }
        while let Some(slot) = port.acks.pop_front() {
            if slot & CONTEXT != 0 {
                match self.contexts.poll_ack(slot & !CONTEXT, port, side) {
                    Some(transmit) => return Some(transmit),
                    None => continue,
                }
            }
            let qp = &mut self.qps[slot as usize];
            qp.responder.ack_queued = false;
            if let Some(transmit) = rc_responder::poll_ack(qp, port, side) {
                return Some(transmit);
            }
        }
        while let Some(turn) = port.turns.pop_front() {
            if turn & CONTEXT != 0 {
                match self.contexts.poll(turn & !CONTEXT, now, port, side) {
                    Some(transmit) => return Some(transmit),
                    None => continue,
                }
            }
            let qp = &mut self.qps[(turn >> 1) as usize];
            if turn & 1 == 1 {
                qp.responder.queued = false;
                if qp.is_held_back(now, port) {
                    continue;
                }
                let transmit = rc_responder::poll_response(qp, port, side);
                if let Some(sent) = &transmit {
                    qp.count_against_limit(now, sent.packet.wire_bytes);
                }
                qp.want_responses(port);
                if transmit.is_some() {
                    return transmit;
                }
                continue;
            }
            qp.requester.queued = false;
            if qp.is_held_back(now, port) {
                continue;
            }
            let transmit = match qp.qp_type {
                QpType::Rc | QpType::XrcSend | QpType::XrcRecv | QpType::Eec | QpType::Dct => rc_requester::poll(qp, now, port, side),
                QpType::Uc => uc::poll(qp, port, side),
                QpType::Ud | QpType::UetUud => ud::poll(qp, port, side),
                QpType::Dci => initiate(qp, now, port, side),
                QpType::RawPacket => raw::poll(qp, port, side),
                QpType::Iwarp => iwarp::poll(qp, now, port, side),
                QpType::Rd | QpType::Srd | QpType::Uet | QpType::UetRod | QpType::UetRudi => None,
            };
            if let Some(sent) = &transmit {
                qp.count_against_limit(now, sent.packet.wire_bytes);
                if qp.requester.cursor < qp.requester.ready || !qp.requester.again.is_empty() {
                    qp.want_requests(port);
                }
                return transmit;
            }
        }
        if self.hfi.is_there()
            && let Some(transmit) = self.hfi.poll(&mut self.port, side)
        {
            return Some(transmit);
        }
        if self.ip.used().is_some() { self.ip.poll(now, side) } else { None }
    }

    /// Whether `poll_transmit` may give a packet.
    #[inline]
    pub fn wants_to_transmit(&self) -> bool {
        !self.port.acks.is_empty() || !self.port.turns.is_empty() || !self.port.notifications.is_empty()
    }

    /// A packet arrived. Its extension headers are taken from `side`.
    #[inline]
    pub fn handle_packet(&mut self, now: Time, packet: &Packet, side: &mut ExtHeaders) -> Received {
        if self.port.pkeys.is_empty() { self.handle_admitted(now, packet, side) } else { self.handle_partitioned(now, packet, side) }
    }

    /// The same of a packet of the right partition.
    #[inline]
    pub(crate) fn handle_admitted(&mut self, now: Time, packet: &Packet, side: &mut ExtHeaders) -> Received {
        let mut received = Received::default();
        let transport = packet.opcode >> 5;
        if packet.opcode == Opcode::CNP.as_u8() {
            side.free(packet.ext);
            if let Some(slot) = self.slot_of(QpNum(packet.dest_qp)) {
                rc_requester::notified(&mut self.qps[slot], now, &mut self.port);
            }
            return received;
        }
        let slot = self.slot_of(QpNum(packet.dest_qp)).filter(|slot| self.qps[*slot].service >> 5 == transport);
        let port = &mut self.port;
        if !port.orphans.is_empty() {
            port.free_orphans(side);
        }
        if transport > Transport::Ud as u8 || transport == Transport::Rd as u8 {
            match packet.body() {
                Body::Tcp { .. } => return self.ip.handle(packet, side),
                Body::Psm2 { .. } => return self.hfi.handle(packet, side),
                Body::Ib { .. } | Body::Iwarp { .. } => self.handle_other(now, packet, slot, side, &mut received),
            }
            return received;
        }
        let Some(slot) = slot else {
            side.free(packet.ext);
            received.dropped = true;
            return received;
        };
        let before = Before::of(port);
        let qp = &mut self.qps[slot];
        let mut follows_payload = true;
        if packet.flags.contains(PacketFlags::ECN_CE) {
            note_mark(qp, now, port);
        }
        if transport == Transport::Rc as u8 {
            if qp.path_flag != PacketFlags::NONE {
                qp.hear_migration(packet.flags, port);
            }
            if is_response(packet.opcode) {
                follows_payload = packet.opcode != Operation::Acknowledge as u8;
                rc_requester::handle(qp, now, port, packet, side, &mut received);
            } else {
                rc_responder::handle(qp, port, packet, side, &mut received);
            }
        } else if transport == Transport::Uc as u8 {
            uc::handle(qp, port, packet, side, &mut received);
        } else {
            ud::handle(qp, port, packet, side, &mut received);
        }
        before.report(port, follows_payload, &mut received);
        received
    }

    /// A completion the engine has to write to its queue, then `deliver`.
    #[inline]
    pub fn poll_completion(&mut self) -> Option<(CqId, Wc)> {
        self.port.completions.pop_front()
    }

    /// A further range (address, length) that peers finished writing with the last packet; only queue pairs that take any
    /// order have more than `Received::landed`.
    #[inline]
    pub fn poll_landed(&mut self) -> Option<(u64, u32)> {
        self.port.landed.pop_front()
    }

    /// Packets that its queue pairs sent more than once.
    pub fn retransmissions(&self) -> u64 {
        self.qps.iter().map(|qp| qp.retransmissions).sum()
    }

    /// A time not later than the next timeout; an early `handle_timeout` is harmless.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Time> {
        let timeout = self.port.timers.peek().map(|entry| entry.0.0);
        let paced = self.port.paced.peek().map(|entry| entry.0.0);
        let ip = self.ip.used().and_then(|interface| interface.poll_timeout());
        timeout.into_iter().chain(paced).chain(ip).min()
    }

    /// The kernel's interface on the port, made when it is first asked for; `None` where the port carries no IP.
    pub fn sockets(&mut self) -> Option<&mut sockets::Interface> {
        self.ip.open()
    }
    /// The same, if it is in use.
    pub fn sockets_in_use(&self) -> Option<&sockets::Interface> {
        self.ip.used()
    }
    /// A time at which a socket became ready that a program may wait for.
    pub fn poll_wake(&mut self) -> Option<Time> {
        self.ip.used_mut()?.poll_wake()
    }

    /// The contexts and engines for PSM2; `None` where the adapter has none.
    pub fn psm2(&mut self) -> Option<&mut psm2::Adapter> {
        self.hfi.adapter()
    }
    /// Whether it is a host fabric interface.
    pub fn has_psm2(&self) -> bool {
        self.hfi.is_there()
    }

    /// What was counted so far.
    pub fn counts(&self) -> NicCounts {
        self.port.counts
    }

    /// Handles the timeouts due by `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        if let Some(interface) = self.ip.used_mut() {
            interface.handle_timeout(now);
        }
        while let Some(&std::cmp::Reverse((at, slot))) = self.port.paced.peek() {
            if at > now {
                break;
            }
            self.port.paced.pop();
            if slot & CONTEXT != 0 {
                self.contexts.look(slot & !CONTEXT, at, now, &mut self.port);
                continue;
            }
            let qp = &mut self.qps[slot as usize];
            if qp.paced_at == at {
                qp.paced_at = Time::MAX;
                qp.resume(&mut self.port);
                rc_requester::look(qp, now, &mut self.port);
            }
        }
        while let Some(&std::cmp::Reverse((at, slot))) = self.port.timers.peek() {
            if at > now {
                break;
            }
            self.port.timers.pop();
            if slot & CONTEXT != 0 {
                self.contexts.handle_timeout(slot & !CONTEXT, at, now, &mut self.port);
                continue;
            }
            let qp = &mut self.qps[slot as usize];
            if qp.timer.came_up(at, now, slot, &mut self.port) {
                self.port.counts.ack_timeouts += u64::from(qp.timer.waiting == Waiting::Acknowledgement);
                match qp.qp_type {
                    QpType::Iwarp => iwarp::handle_timeout(qp, now, &mut self.port),
                    _ => rc_requester::handle_timeout(qp, now, &mut self.port),
                }
            }
        }
        self.run_errands();
    }

    /// The entry is in the completion queue and visible from `visible` on. True if it raises a completion event.
    pub fn deliver(&mut self, visible: Time, cq: CqId, wc: Wc) -> bool {
        if wc.status != WcStatus::Success {
            self.port.counts.failed(&wc);
        }
        let Some(Some(queue)) = self.cqs.get_mut(cq.0 as usize) else {
            if cq == DESCRIPTORS
                && let Some(interface) = self.ip.used_mut()
            {
                interface.landed(visible);
            } else {
                self.hfi.landed(visible, cq);
            }
            return false;
        };
        match queue.deliver(visible, wc) {
            Delivery::Stored | Delivery::Lost => false,
            Delivery::StoredWithEvent => true,
            Delivery::Overflow => {
                self.port.events.push_back(AsyncEvent::CqError(cq));
                for qp in self.qps.iter_mut().filter(|qp| qp.live && (qp.init.send_cq == cq || qp.init.recv_cq == cq)) {
                    self.port.events.push_back(AsyncEvent::QpFatal(qp.num));
                    qp.enter_error(&mut self.port);
                }
                false
            }
        }
    }

    /// The last byte of a range written by a peer is visible from `visible` on.
    #[inline]
    pub fn landed(&mut self, visible: Time, addr: u64, length: u32) {
        self.watches.landed(visible, addr, length);
    }

    /// The slot of a queue pair that exists.
    #[inline]
    pub(crate) fn slot_of(&self, qp: QpNum) -> Option<usize> {
        let slot = slot_number(qp.0);
        let found = self.qps.get(slot)?;
        (found.num == qp && found.live).then_some(slot)
    }
}

/// What `ibv_post_send` checks.
fn check_send(qp: &Qp, wr: &SendWr) -> Result<(), PostError> {
    if matches!(qp.state, QpState::Reset | QpState::Init | QpState::Rtr) {
        return Err(PostError::WrongState { qp: qp.num, state: qp.state });
    }
    if !wr.opcode.allowed_on(qp.qp_type) {
        return Err(PostError::OpcodeNotSupported { opcode: wr.opcode, qp_type: qp.qp_type });
    }
    let cap = &qp.init.cap;
    if qp.requester.posted() - qp.requester.freed >= u64::from(cap.max_send_wr) {
        return Err(PostError::QueueFull { depth: cap.max_send_wr });
    }
    let sges = u32::try_from(wr.sge.len()).unwrap_or(u32::MAX);
    // The response to a READ of iWARP names one place.
    let single = wr.opcode.is_atomic() || wr.opcode.is_read() && qp.qp_type == QpType::Iwarp;
    let max = if single { cap.max_send_sge.min(1) } else { cap.max_send_sge };
    if sges > max {
        return Err(PostError::TooManySges { sges, max });
    }
    if wr.flags.contains(SendFlags::INLINE) {
        let max = if wr.opcode.is_send() || wr.opcode.is_write() { cap.max_inline_data } else { Bytes::ZERO };
        let length = wr::total(&wr.sge);
        if length > max || max == Bytes::ZERO && !(wr.opcode.is_send() || wr.opcode.is_write()) {
            return Err(PostError::InlineTooLong { length, max });
        }
    }
    if !wr.opcode.is_send() && wr.remote.is_none() {
        return Err(PostError::MissingField { opcode: wr.opcode, field: "remote" });
    }
    if wr.opcode.has_immediate() && wr.imm.is_none() {
        return Err(PostError::MissingField { opcode: wr.opcode, field: "imm" });
    }
    Ok(())
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

/// The congestion notification packet for the peer of `qp`.
fn notification(qp: &Qp, port: &Port) -> Transmit {
    let opcode = Opcode::CNP.as_u8();
    let packet = Packet {
        dest: qp.dest,
        dest_qp: qp.dest_qp,
        wire_bytes: port.wire_bytes(opcode, 0),
        opcode,
        flags: PacketFlags::BECN,
        sl: qp.sl,
        entropy: qp.entropy,
        ..Packet::default()
    };
    Transmit { responder: true, ..Transmit::plain(packet, qp.num) }
}

/// A completion was polled: slots up to its request are free.
#[inline]
fn release(qps: &mut [Qp], port: &mut Port, wc: &Wc) {
    if let Some(srq) = wc.srq {
        if let Some(Some(srq)) = port.srqs.get_mut(srq.0 as usize) {
            srq.queue.free_one();
        }
        return;
    }
    let Some(qp) = qps.get_mut(slot_number(wc.qp_num.0)).filter(|qp| qp.num == wc.qp_num) else { return };
    if qp.qp_type.shares_contexts() && !wc.opcode.is_recv() {
        qp.requester.freed += 1; // they complete in any order
    } else if !wc.opcode.is_recv() {
        qp.requester.freed = qp.requester.freed.max(wc.wqe.0 + 1);
    } else {
        qp.recv_queue.free_one();
    }
}

/// An initiator of DC: its connection packets, then its requests.
fn initiate(qp: &mut Qp, now: Time, port: &mut Port, side: &mut ExtHeaders) -> Option<Transmit> {
    let first = if dc::owes(qp) { dc::poll(qp, port, side) } else { None };
    first.or_else(|| rc_requester::poll(qp, now, port, side)).or_else(|| dc::poll(qp, port, side))
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

/// The place of a queue pair number in the table.
#[inline]
pub(crate) const fn slot_number(qp: u32) -> usize {
    (qp & SLOT_MASK).wrapping_sub(FIRST_QP) as usize
}

/// Whether an RC packet answers a request.
#[inline]
fn is_response(opcode: u8) -> bool {
    (Operation::ReadResponseFirst as u8..=Operation::AtomicAcknowledge as u8).contains(&opcode)
}

/// Queue pairs a NIC can hold; the other bits of the 24 tell generations apart.
pub(crate) const SLOT_BITS: u32 = 18;
pub(crate) const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;
/// 0 and 1 are the management queue pairs. Basis: standard, IBA vol. 1 §3.5.3.
pub(crate) const FIRST_QP: u32 = 2;
