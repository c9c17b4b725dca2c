//! The data path of the NIC: what the engine calls to move packets.
//!
//! Source: IBA vol. 1 §9.7 (transport).
//! Modelled: a queue pair's turn comes round robin, one packet at a time; acknowledgements go before everything else.
//! Not modelled: time. The engine decides when WQEs are fetched, packets leave, payload and completions become visible.
//!
//! The engine calls, for each NIC:
//! - `doorbell` when the NIC has seen a doorbell, then `poll_transmit` until it gives `None` or its own buffer is full;
//! - `handle_packet` for each arrival, then `poll_transmit` again if the answer says `transmit`;
//! - `handle_timeout` at `poll_timeout`;
//! - after each of these, and after control verbs and posting: `poll_completion` until `None`, then `deliver` with the time
//!   the entry is visible.

use fabriscope_units::Time;
use fabriscope_wire::{Grh, Opcode, Transport as Code};

use crate::attr::QpState;
use crate::counts::NicCounts;
use crate::cq::Delivery;
use crate::event::AsyncEvent;
use crate::ext_headers::ExtHeaders;
use crate::ids::{CqId, QpNum, WqeIndex};
use crate::nic::Nic;
use crate::packet::{Landed, Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::{Qp, Waiting};
use crate::transport;
use crate::transport::rc::{requester, responder};
use crate::transport::rud::context::CONTEXT;
use crate::wc::{Wc, WcStatus};

/// Moving packets: called by the engine.
impl Nic {
    /// Requests up to and including `through` may be sent: the NIC saw the doorbell and has the WQEs.
    pub fn doorbell(&mut self, _now: Time, qp: QpNum, through: WqeIndex) {
        let Some(slot) = self.slot_of(qp) else { return };
        let qp = &mut self.qps[slot];
        let end = (through.0 + 1).min(qp.requester.posted());
        qp.requester.ready = qp.requester.ready.max(end);
        match qp.state {
            QpState::Err | QpState::Sqe => qp.flush_sends(&mut self.port),
            _ => transport::doorbell(self, slot),
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
        if let Some(transmit) = &mut transmit
            && self.port.leaves_subnet(transmit.packet.dest)
        {
            transmit.packet.wire_bytes += Grh::BYTES as u16;
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
            if let Some(transmit) = responder::poll_ack(qp, port, side) {
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
                let transmit = responder::poll_response(qp, port, side);
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
            let transmit = transport::poll_transmit(qp, now, port, side);
            if let Some(sent) = &transmit {
                qp.count_against_limit(now, sent.packet.wire_bytes);
                if qp.requester.cursor < qp.requester.ready || !qp.requester.again.is_empty() {
                    qp.want_requests(port);
                }
                return transmit;
            }
        }
        None
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
        if packet.opcode == Opcode::CNP.as_u8() {
            side.free(packet.ext);
            if let Some(slot) = self.slot_of(QpNum(packet.dest_qp)) {
                requester::notified(&mut self.qps[slot], now, &mut self.port);
            }
            return Received::default();
        }
        let slot = self.awaken(QpNum(packet.dest_qp)).filter(|slot| self.qps[*slot].service >> 5 == packet.opcode >> 5);
        if !self.port.orphans.is_empty() {
            self.port.free_orphans(side);
        }
        // Headers of RUD are those of a whole message.
        if self.port.regions.is_moved()
            && packet.opcode >> 5 != Code::Rud as u8
            && let Some(ext) = side.at_mut(packet.ext)
        {
            ext.remote_addr = self.port.regions.address_of(ext.rkey.0, ext.remote_addr);
        }
        transport::handle(self, now, packet, slot, side)
    }

    /// Whether a queue pair waits for the time of its next packet.
    #[inline]
    #[must_use]
    pub fn paces(&self) -> bool {
        self.port.paces()
    }

    /// A completion the engine has to write to its queue, then `deliver`.
    #[inline]
    pub fn poll_completion(&mut self) -> Option<(CqId, Wc)> {
        self.port.completions.pop_front()
    }

    /// An entry that another engine of the adapter writes: it comes with `poll_completion`, in its turn.
    pub fn push_completion(&mut self, cq: CqId, wc: Wc) {
        self.port.completions.push_back((cq, wc));
    }

    /// A further range that peers finished writing with the last packet; only queue pairs that take any
    /// order have more than `Received::landed`.
    #[inline]
    pub fn poll_landed(&mut self) -> Option<Landed> {
        self.port.landed.pop_front()
    }

    /// Packets that its queue pairs sent more than once.
    pub fn retransmissions(&self) -> u64 {
        let asleep = self.reserved.as_ref().map_or(0, |reserved| reserved.retransmissions);
        asleep + self.qps.iter().map(|qp| qp.retransmissions).sum::<u64>()
    }

    /// A time not later than the next timeout; an early `handle_timeout` is harmless.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.port.alarm.is_known().then_some(self.port.alarm)
    }

    /// What was counted so far.
    pub fn counts(&self) -> NicCounts {
        self.port.counts
    }

    /// Handles the timeouts due by `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((at, slot)) = self.port.next_look(now) {
            if slot & CONTEXT != 0 {
                self.contexts.look(slot & !CONTEXT, at, now, &mut self.port);
                continue;
            }
            let qp = &mut self.qps[slot as usize];
            if qp.paced_at == at {
                qp.paced_at = Time::MAX;
                qp.resume(&mut self.port);
                requester::look(qp, now, &mut self.port);
            }
        }
        while let Some((at, slot)) = self.port.next_timer(now) {
            if slot & CONTEXT != 0 {
                self.contexts.handle_timeout(slot & !CONTEXT, at, now, &mut self.port);
                continue;
            }
            let qp = &mut self.qps[slot as usize];
            if qp.timer.came_up(at, now, slot, &mut self.port) {
                self.port.counts.ack_timeouts += u64::from(qp.timer.waiting == Waiting::Acknowledgement);
                transport::handle_timeout(qp, now, &mut self.port);
            }
        }
        self.run_errands();
        self.port.reset_alarm();
    }

    /// The entry is in the completion queue and visible from `visible` on. True if it raises a completion event.
    pub fn deliver(&mut self, visible: Time, cq: CqId, wc: Wc) -> bool {
        if wc.status != WcStatus::Success {
            self.port.counts.failed(&wc);
        }
        let Some(Some(queue)) = self.cqs.get_mut(cq.0 as usize) else { return false };
        match queue.deliver(visible, wc) {
            Delivery::Stored => false,
            Delivery::StoredWithEvent => true,
            Delivery::Lost => {
                self.port.words.take(wc.words);
                false
            }
            Delivery::Overflow => {
                self.port.words.take(wc.words);
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
    pub fn landed(&mut self, visible: Time, landed: Landed) {
        let words = if landed.words.is_none() { None } else { self.port.words.take(landed.words) };
        self.watches.landed(visible, landed.addr, landed.length, words);
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
