//! What a context takes: packets into memory and messages, and the acknowledgements that answer them.

use fabriscope_units::Bytes;
use fabriscope_wire::{Delivery, NakCode, Opcode, Operation, Psn, Syndrome, Transport};

use super::coalescing::Untold;
use super::context::{Context, receives};
use super::headers;
use super::message::{Kind, Message, Route};
use super::receiver::{Ack, Outcome, Partial, Refusal, check};
use super::sender::WINDOW;
use crate::access::Access;
use crate::attr::QpType;
use crate::cc::Telemetry;
use crate::ext_headers::{Ext, ExtHeaders, ExtId};
use crate::ids::{Lkey, QpNum};
use crate::memory;
use crate::packet::{Landed, Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::bitmap::Bitmap;
use crate::qp::requester::Extra;
use crate::transport::inbound;
use crate::transport::outbound::ATOMIC_BYTES;
use crate::wc::{Wc, WcOpcode, WcStatus};
use crate::words::WordsId;
use crate::wr::{self, Remote, SendFlags, Sge, SgeList};
impl Context {
    /// A packet with a number arrived; gives the answer that it asks for.
    pub(super) fn arrived(
        &mut self,
        target: Option<&mut Qp>,
        port: &mut Port,
        packet: &Packet,
        ext: &mut Ext,
        received: &mut Received,
    ) -> Option<Message> {
        let psn = Psn::new(packet.psn);
        received.dropped = true;
        if !self.synchronise(Psn::new(ext.start), port) {
            return None;
        }
        let qp_type = target.as_ref().map_or(QpType::Srd, |qp| qp.qp_type);
        let to = QpNum(packet.dest_qp);
        self.receiver.last = (qp_type, to);
        let ahead = psn.distance(self.receiver.expected);
        let mut flags = if packet.flags.contains(PacketFlags::ECN_CE) && port.congestion.echo.acknowledges() {
            PacketFlags::BECN
        } else {
            PacketFlags::NONE
        };
        let mut ack = Ack {
            asked: psn,
            syndrome: Syndrome::ACK.encode(),
            flags,
            qp_type,
            target: to,
            map: self.receiver.expected,
            links: std::mem::take(&mut ext.links),
        };
        let known = ahead < 0 || ahead >= WINDOW as i32 || self.receiver.arrived.has(psn);
        if ahead > 0 && self.delivery == Delivery::Rod {
            self.ask_again(ack, port);
            return None;
        }
        if packet.flags.contains(PacketFlags::TRIMMED) {
            if !known {
                self.receiver.asked_again = true;
                flags |= PacketFlags::TRIMMED;
                self.receiver.acks.push_back(Ack { flags, ..ack });
                self.want_to_answer(port);
            }
            return None;
        }
        let mut owes = packet.flags.contains(PacketFlags::ACK_REQ);
        let mut answer = None;
        port.counts.duplicates += u64::from(known && ahead < WINDOW as i32);
        port.counts.out_of_order += u64::from(!known && ahead > 0);
        if !known {
            match self.place(target, port, packet, ext, received) {
                Ok(message) => {
                    received.dropped = false;
                    answer = message;
                    self.mark(psn);
                }
                Err(Refusal::NoReceive) => {
                    ack.syndrome =
                        Syndrome::RnrNak(fabriscope_wire::RnrTimer::from_code(RECEIVER_TIMER).expect("a code of the standard")).encode();
                    received.write = Bytes::ZERO;
                    (owes, self.receiver.asked_again) = (true, true);
                }
                Err(Refusal::Refused(code)) => {
                    ack.syndrome = Syndrome::Nak(code).encode();
                    received.write = Bytes::ZERO;
                    self.receiver.refuse(psn, code);
                    (owes, self.receiver.asked_again) = (true, true);
                }
            }
        }
        if !qp_type.counts_bytes() || port.congestion.telemetry || ack.syndrome != Syndrome::ACK.encode() {
            if owes {
                self.receiver.acks.push_back(ack);
                self.want_to_answer(port);
            }
            return answer;
        }
        self.tell(ack, owes, Bytes(if known { 0 } else { u64::from(packet.payload) }), port);
        answer
    }

    /// Ultra Ethernet: a packet was taken, and `ack` may be due for it.
    fn tell(&mut self, ack: Ack, owes: bool, payload: Bytes, port: &mut Port) {
        let (receiver, rules) = (&mut self.receiver, port.coalescing);
        let marked = ack.flags.contains(PacketFlags::BECN);
        if let Some((newest, map)) = receiver.untold.add(ack.asked, payload, marked, rules) {
            receiver.acks.push_back(Ack { asked: newest, map, links: Telemetry::default(), flags: PacketFlags::NONE, ..ack });
        }
        if receiver.untold.is_due(owes, receiver.expected, rules) {
            let (map, marked) = receiver.untold.tell(owes, receiver.expected);
            let flags = if marked { PacketFlags::BECN } else { PacketFlags::NONE };
            receiver.acks.push_back(Ack { map, flags, ..ack });
        }
        if receiver.owes() {
            self.want_to_answer(port);
        }
    }

    /// Whether the packet belongs to the peer's present incarnation of the context; a later one replaces it.
    fn synchronise(&mut self, start: Psn, port: &mut Port) -> bool {
        let receiver = &mut self.receiver;
        match receiver.start {
            Some(now) if now == start => return true,
            Some(now) if start.distance(now) < 0 => return false,
            _ => {}
        }
        receiver.start = Some(start);
        receiver.expected = start;
        receiver.arrived = Bitmap::new(WINDOW);
        receiver.abandon(WcStatus::RemAbortErr, port, |_, _| true);
        receiver.acks.clear();
        receiver.refused.clear();
        receiver.untold = Untold::default();
        receiver.asked_again = false;
        true
    }

    fn mark(&mut self, psn: Psn) {
        let receiver = &mut self.receiver;
        receiver.arrived.set(psn);
        while receiver.arrived.take(receiver.expected) {
            receiver.expected = receiver.expected.next();
            receiver.asked_again = false;
        }
    }

    /// In order: a packet came too early. The one before it is asked for, once.
    fn ask_again(&mut self, ack: Ack, port: &mut Port) {
        if !std::mem::replace(&mut self.receiver.asked_again, true) {
            let syndrome = Syndrome::Nak(NakCode::PsnSequenceError).encode();
            self.receiver.acks.push_back(Ack { asked: self.receiver.expected, syndrome, ..ack });
            self.want_to_answer(port);
        }
    }

    /// Puts a new packet where it belongs.
    fn place(&mut self, target: Option<&mut Qp>, port: &mut Port, packet: &Packet, ext: &Ext, received: &mut Received) -> Outcome {
        let operation = packet.opcode & 0x1f;
        let first = Psn::new(ext.context);
        if operation == Operation::Resync as u8 {
            self.receiver.abandon(WcStatus::RemAbortErr, port, |partial, _| partial == first);
            self.receiver.refused.retain(|(refused, _)| *refused != Psn::new(packet.psn));
            return Ok(None);
        }
        if let Some((_, code)) = self.receiver.refused.iter().find(|(refused, _)| *refused == Psn::new(packet.psn)) {
            return Err(Refusal::Refused(*code));
        }
        let Ok(opcode) = Opcode::decode(packet.opcode) else { return Err(Refusal::Refused(NakCode::InvalidRequest)) };
        if !ext.holds(packet.payload) {
            return Err(Refusal::Refused(NakCode::InvalidRequest));
        }
        if opcode.is_response() {
            self.answer_arrived(port, packet, ext, received);
            return Ok(None);
        }
        let Some(qp) = target.filter(|qp| receives(qp, ext.delivery) && (!opcode.is_send() || qp.attr.qkey == Some(ext.qkey))) else {
            return Err(Refusal::Refused(NakCode::InvalidRequest));
        };
        if opcode.is_read_request() {
            return read(qp, port, packet, ext);
        }
        if opcode.is_atomic() {
            return atomic(qp, port, packet, ext, received);
        }
        self.data(qp, port, packet, opcode, ext, received)
    }

    /// A packet of a SEND or WRITE.
    fn data(&mut self, qp: &mut Qp, port: &mut Port, packet: &Packet, opcode: Opcode, ext: &Ext, received: &mut Received) -> Outcome {
        let (first, mtu) = (Psn::new(ext.context), port.packet_mtu());
        let number = Psn::new(packet.psn).distance(first);
        let offset = u64::from(number.max(0) as u32) * u64::from(mtu);
        let packets = ext.dma_length.div_ceil(mtu).max(1);
        let due = (u64::from(ext.dma_length).saturating_sub(offset)).min(u64::from(mtu));
        if number < 0 || number as u32 >= packets || due != u64::from(packet.payload) {
            return Err(Refusal::Refused(NakCode::InvalidRequest));
        }
        let list = &mut self.receiver.partial;
        let known = list.iter().position(|partial| partial.first == first);
        let place = known.unwrap_or(list.len());
        if known.is_none() {
            list.push(Partial {
                first,
                missing: packets,
                target: qp.num,
                cq: qp.init.recv_cq,
                recv: None,
                imm: None,
                words: None,
                solicited: false,
            });
        }
        let partial = &mut list[place];
        if let Err(refusal) = write(qp, port, opcode, ext, offset, partial, received) {
            if known.is_none() && partial.recv.is_none() {
                list.pop();
            }
            return Err(refusal);
        }
        received.write = Bytes(u64::from(packet.payload));
        received.place = match opcode.is_write() {
            true => port.regions.place_of(ext.rkey.0),
            false => inbound::landing(port, &partial.recv, offset, packet.payload.into()),
        };
        partial.missing -= 1;
        partial.solicited |= packet.flags.contains(PacketFlags::SE);
        partial.words = partial.words.or(ext.words());
        if partial.missing > 0 {
            return Ok(None);
        }
        let partial = list.swap_remove(place);
        received.ended = true;
        let words = partial.words.map_or(WordsId::NONE, |words| port.words.keep(words));
        if opcode.is_write() && ext.dma_length > 0 {
            // Whoever gets a completion reads there what was said.
            let words = if partial.recv.is_some() { WordsId::NONE } else { words };
            port.landed.push_back(Landed { addr: ext.remote_addr, length: ext.dma_length, words });
        }
        if let Some(wqe) = partial.recv {
            let opcode = if opcode.is_write() { WcOpcode::RecvRdmaWithImm } else { WcOpcode::Recv };
            let wc = Wc {
                byte_len: ext.dma_length,
                imm: partial.imm,
                src_qp: ext.src_qp,
                slid: ext.slid,
                sl: packet.sl,
                solicited: partial.solicited,
                words,
                ..Wc::of(partial.target, wqe.wr_id, WcStatus::Success, opcode, wqe.index)
            };
            port.completions.push_back((qp.init.recv_cq, wc));
        }
        Ok(None)
    }

    /// A packet of an answer to a READ or atomic of ours.
    fn answer_arrived(&mut self, port: &mut Port, packet: &Packet, ext: &Ext, received: &mut Received) {
        let request = Psn::new(ext.swap as u32);
        let offset = u64::from(Psn::new(packet.psn).distance(Psn::new(ext.context)).max(0) as u32) * u64::from(port.packet_mtu());
        let Some((message, complete)) = self.answered(request, port) else { return };
        let atomic = packet.opcode & 0x1f == Operation::AtomicAcknowledge as u8;
        if let Some(memory) = &mut port.memory {
            let old = ext.compare_add.to_ne_bytes();
            let bytes = if atomic { Some(&old[..]) } else { ext.data.as_deref() };
            let pd = port.regions.domain_of(&message.sge);
            memory::scatter(memory.as_mut(), pd, &message.sge, offset, bytes.unwrap_or_default());
        }
        let length = if atomic { ATOMIC_BYTES } else { u32::from(packet.payload) };
        received.write = Bytes(u64::from(length));
        received.place = port.regions.place_in(&message.sge, offset, length);
        if complete {
            received.ended = true;
            message.done = false;
            message.finish(WcStatus::Success, port);
            self.answered_in_full(request);
        }
    }

    /// The acknowledgement owed longest.
    pub(super) fn poll_ack(&mut self, credit: u32, port: &Port, side: &mut ExtHeaders) -> Option<Transmit> {
        let ack = self.receiver.acks.pop_front()?;
        let receiver = &self.receiver;
        let expected = receiver.expected;
        let map = if ack.map.is_before(expected) { expected } else { ack.map };
        let ahead = receiver.arrived.ahead(map);
        let (start, delivery) = (receiver.start.unwrap_or_default(), self.delivery);
        let ext = side.alloc_with(|ext| {
            (ext.slid, ext.delivery, ext.start) = (port.lid, delivery, start.as_u32());
            (ext.context, ext.compare_add, ext.credit) = (ack.asked.as_u32(), ahead, credit);
            ext.swap = u64::from(map.distance(expected) as u32);
            ext.links = ack.links;
        });
        let route = Route { dest: self.peer, sl: self.sl, entropy: self.next_entropy(), start: Psn::default(), wanted: 0 };
        let opcode = (Transport::Rud as u8) << 5 | Operation::Acknowledge as u8;
        let packet = Packet {
            dest: route.dest,
            dest_qp: 0,
            psn: self.receiver.expected.previous().as_u32(),
            ext,
            wire_bytes: port.wire_bytes_with(opcode, 0, headers::more(ack.qp_type, opcode)),
            payload: 0,
            opcode,
            flags: ack.flags,
            syndrome: ack.syndrome,
            sl: route.sl,
            entropy: route.entropy,
            msn: 0,
        };
        Some(Transmit { responder: true, starts_message: true, ends_message: true, ..Transmit::plain(packet, ack.target) })
    }
}

/// Writes the payload of a packet of a SEND or WRITE, with the receive that its message needs.
fn write(
    qp: &mut Qp,
    port: &mut Port,
    opcode: Opcode,
    ext: &Ext,
    offset: u64,
    partial: &mut Partial,
    received: &mut Received,
) -> Result<(), Refusal> {
    let invalid = Err(Refusal::Refused(NakCode::InvalidRequest));
    if opcode.is_write() {
        check(qp, port, ext, u64::from(ext.dma_length), Access::REMOTE_WRITE)?;
    }
    if opcode.has_immediate() {
        partial.imm = Some(ext.imm);
    }
    if partial.recv.is_none() && (opcode.is_send() || opcode.has_immediate()) {
        let Some(wqe) = qp.recv_queue.take() else { return Err(Refusal::NoReceive) };
        received.recv_wqe_consumed = true;
        if opcode.is_send() {
            let room = wr::total(&wqe.sge).0;
            let ours = port.regions.check_list(qp.init.pd, &wqe.sge, Access::LOCAL_WRITE).is_ok();
            if !ours || room < u64::from(ext.dma_length) {
                let status = if ours { WcStatus::LocLenErr } else { WcStatus::LocProtErr };
                qp.fail_receive(wqe, status, port);
                return if ours { invalid } else { Err(Refusal::Refused(NakCode::RemoteOperationalError)) };
            }
        }
        partial.recv = Some(wqe);
    }
    if let (Some(memory), Some(data)) = (&mut port.memory, ext.data.as_ref().filter(|data| !data.is_empty())) {
        if opcode.is_write() {
            memory.write(qp.init.pd, ext.remote_addr + offset, data);
        } else if let Some(wqe) = &partial.recv {
            memory::scatter(memory.as_mut(), qp.init.pd, &wqe.sge, offset, data);
        }
    }
    Ok(())
}

/// A READ request: the answer is a message of ours.
fn read(qp: &Qp, port: &Port, packet: &Packet, ext: &Ext) -> Outcome {
    check(qp, port, ext, u64::from(ext.dma_length), Access::REMOTE_READ)?;
    let source = Sge { addr: ext.remote_addr, length: ext.dma_length, lkey: Lkey(ext.rkey.0) };
    let kind = Kind::ReadResponse { request: Psn::new(packet.psn) };
    Ok(Some(answer(qp, packet, ext, kind, ext.dma_length, std::iter::once(source).collect())))
}

/// An atomic: carried out now; the packet is taken once, so it happens once.
fn atomic(qp: &Qp, port: &mut Port, packet: &Packet, ext: &Ext, received: &mut Received) -> Outcome {
    if !ext.remote_addr.is_multiple_of(u64::from(ATOMIC_BYTES)) {
        return Err(Refusal::Refused(NakCode::InvalidRequest));
    }
    check(qp, port, ext, u64::from(ATOMIC_BYTES), Access::REMOTE_ATOMIC)?;
    let old = match &mut port.memory {
        Some(memory) => crate::transport::rc::responder::carry_out(memory.as_mut(), qp.init.pd, packet.opcode & 0x1f, ext),
        None => 0,
    };
    (received.write, received.place) = (Bytes(u64::from(ATOMIC_BYTES)), port.regions.place_of(ext.rkey.0));
    port.landed.push_back(Landed::silent(ext.remote_addr, ATOMIC_BYTES));
    let source = std::iter::once(Sge { addr: ext.remote_addr, length: ATOMIC_BYTES, lkey: Lkey(ext.rkey.0) }).collect();
    let kind = Kind::AtomicResponse { request: Psn::new(packet.psn), old };
    Ok(Some(answer(qp, packet, ext, kind, ATOMIC_BYTES, source)))
}

fn answer(qp: &Qp, packet: &Packet, ext: &Ext, kind: Kind, length: u32, sge: SgeList) -> Message {
    let traced = packet.flags.contains(PacketFlags::TRACED);
    Message {
        kind,
        origin: None,
        qp_type: qp.qp_type,
        from: qp.num,
        to: ext.src_qp,
        qkey: ext.qkey,
        remote: Remote::default(),
        imm: None,
        extra: Extra::Nothing,
        length,
        sge,
        inline: None,
        flags: if traced { SendFlags::TRACED } else { SendFlags::NONE },
        first: Psn::default(),
        packets: 0,
        headers: ExtId::NONE,
        arrived: 0,
        done: true,
        receiver_retries: 0,
    }
}

/// Code of the time after which a sender tries again when there was no receive: 0.16 ms. Basis: assumed, within the range of
/// IBA vol. 1 table 46.
const RECEIVER_TIMER: u8 = 8;
