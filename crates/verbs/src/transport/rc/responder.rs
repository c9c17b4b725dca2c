//! The responder of a reliable connection.
//!
//! Source: IBA vol. 1 §9.7.4 (responder), §9.7.5 (acknowledgements), §9.7.7 (repeated READs and atomics), §9.9.3 (errors).
//! Modelled: in-order delivery, one NAK for each gap, "receiver not ready", repeated requests answered again, atomics
//! carried out once, READ responses streamed behind each other; a window of early packets where any order is taken; a NAK for
//! every copy of the expected packet whose payload was cut off, marked so (no standard has it: it is Ultra Ethernet's NACK for RC).
//! Not modelled: end-to-end credits; a READ is checked when it arrives, not again for every response packet.
//!
//! Early packets count as written when they arrive, and take effect when everything before them has arrived.

use fabriscope_units::Bytes;
use fabriscope_wire::{NakCode, Opcode, Operation, Psn, Syndrome};

use crate::access::{Access, MemoryId};
use crate::attr::{QpState, QpType};
use crate::event::AsyncEvent;
use crate::ext_headers::{Ext, ExtHeaders, ExtId};
use crate::ids::PdId;
use crate::memory::Memory;
use crate::packet::{Landed, Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::modify::receiver_timer;
use crate::qp::responder::{Ack, Done, Kind, Responder, Response, ResponseKind, Silence};
use crate::transport::inbound::{self, Refusal};
use crate::transport::outbound::{ATOMIC_BYTES, LONGEST_MESSAGE, OPERATION};
use crate::wc::WcStatus;
use crate::wr::Atomic;

/// A request packet arrived.
#[inline]
pub(crate) fn handle(qp: &mut Qp, port: &mut Port, packet: &Packet, side: &mut ExtHeaders, received: &mut Received) {
    if matches!(qp.state, QpState::Reset | QpState::Init | QpState::Err) {
        received.dropped = true;
        side.free(packet.ext);
        return;
    }
    inbound::established(qp, port);
    let ahead = Psn::new(packet.psn).distance(qp.responder.expected);
    if packet.flags.contains(PacketFlags::TRIMMED) {
        received.dropped = true;
        side.free(packet.ext);
        return trimmed(qp, port, Psn::new(packet.psn), ahead);
    }
    if qp.congestion.is_some() {
        note(qp, packet, side);
    }
    if ahead == 0 {
        received.write = Bytes(u64::from(packet.payload));
        take(qp, port, packet, side, received);
        if qp.any_order {
            catch_up(qp, port, side, received);
        }
    } else if ahead > 0 {
        early(qp, port, packet, ahead as u32, side, received);
    } else {
        received.dropped = true;
        let ext = side.take(packet.ext);
        repeated(qp, port, packet, ext.as_ref(), received);
    }
}

/// What the peer's congestion control has to know of a packet.
fn note(qp: &mut Qp, packet: &Packet, side: &ExtHeaders) {
    let seen = &mut qp.responder.seen;
    seen.marked |= packet.flags.contains(PacketFlags::ECN_CE);
    if let Some(ext) = side.at(packet.ext).filter(|ext| !ext.links.is_empty()) {
        seen.links.clone_from(&ext.links);
    }
}

/// Only the header of a packet arrived: where any order is taken the peer sends this packet again, else all from it on.
fn trimmed(qp: &mut Qp, port: &mut Port, psn: Psn, ahead: i32) {
    let responder = &mut qp.responder;
    if ahead < 0 || ahead > 0 && qp.any_order && responder.arrived.has(psn) {
        return;
    }
    if qp.any_order {
        responder.seen.trimmed.push_back(psn);
        qp.want_responses(port);
    } else if ahead == 0 {
        // This copy is lost, whatever was said of those before it.
        nak_trimmed(qp, port);
    } else if responder.silence == Silence::Not && responder.seen.cut.is_none_or(|cut| psn.is_before(cut)) {
        // Headers overtake whole packets: those before it may be on their way still.
        responder.seen.cut = Some(psn);
    }
}

/// The expected packet lost its payload: the peer sends it again at once, and all that follow it.
#[cold]
fn nak_trimmed(qp: &mut Qp, port: &mut Port) {
    qp.responder.silence = Silence::Until;
    qp.responder.seen.cut = None;
    nak(qp, port, Syndrome::Nak(NakCode::PsnSequenceError));
    if let Some(ack) = &mut qp.responder.ack {
        ack.trimmed = true;
    }
}

/// The expected packet.
#[inline]
fn take(qp: &mut Qp, port: &mut Port, packet: &Packet, side: &mut ExtHeaders, received: &mut Received) {
    let ext = side.take(packet.ext);
    let operation = packet.opcode & OPERATION;
    let result = if operation < Operation::ReadRequest as u8 || operation > Operation::FetchAdd as u8 {
        inbound::accept(qp, port, packet, ext.as_ref(), received)
    } else if operation == Operation::ReadRequest as u8 {
        read(qp, port, packet, ext.as_ref())
    } else {
        atomic(qp, port, packet, ext.as_ref(), received)
    };
    match result {
        Ok(ended) => {
            let responder = &mut qp.responder;
            // Packets behind this one were dropped: the NAK that has not left yet asks for them.
            let owes_nak = responder.ack.is_some_and(|ack| ack.is_of_gap());
            responder.silence = if owes_nak { Silence::Until } else { Silence::Not };
            responder.msn = (responder.msn + u32::from(ended)) & 0xff_ffff;
            received.ended |= ended;
            if operation == Operation::ReadRequest as u8 {
                if owes_nak {
                    nak(qp, port, Syndrome::Nak(NakCode::PsnSequenceError));
                }
                return; // it moved `expected` and is answered by its responses
            }
            let psn = responder.expected;
            responder.expected = psn.next();
            let answered = operation == Operation::CompareSwap as u8 || operation == Operation::FetchAdd as u8;
            if owes_nak {
                nak(qp, port, Syndrome::Nak(NakCode::PsnSequenceError));
            } else if !answered && packet.flags.contains(PacketFlags::ACK_REQ) {
                responder.ack = Some(Ack { psn, syndrome: Syndrome::ACK.encode(), asked: psn, trimmed: false });
                qp.want_responses(port);
            }
            if qp.responder.seen.cut == Some(psn.next()) {
                nak_trimmed(qp, port);
            }
        }
        Err(refusal) => {
            received.write = Bytes::ZERO;
            received.dropped = true;
            refuse(qp, port, refusal);
        }
    }
}

/// A packet before its time: kept where any order is taken, else a sign of loss.
fn early(qp: &mut Qp, port: &mut Port, packet: &Packet, ahead: u32, side: &mut ExtHeaders, received: &mut Received) {
    let psn = Psn::new(packet.psn);
    let responder = &mut qp.responder;
    if !qp.any_order {
        received.dropped = true;
        side.free(packet.ext);
        if responder.silence == Silence::Not {
            responder.silence = Silence::Until;
            nak(qp, port, Syndrome::Nak(NakCode::PsnSequenceError));
        }
        return;
    }
    if ahead >= responder.window || responder.arrived.set(psn) {
        received.dropped = true;
        side.free(packet.ext);
        return;
    }
    received.write = Bytes(u64::from(packet.payload));
    if port.regions.is_watched() {
        received.place = early_place(qp, port, packet, ahead, side);
    }
    let responder = &mut qp.responder;
    if qp.congestion.is_some() && packet.flags.contains(PacketFlags::ACK_REQ) {
        // It is told at once that this one is here, and that everything before `expected` is.
        let psn_before = responder.expected.previous();
        responder.ack = Some(Ack { psn: psn_before, syndrome: Syndrome::ACK.encode(), asked: psn, trimmed: false });
        qp.want_responses(port);
    }
    let responder = &mut qp.responder;
    let operation = packet.opcode & OPERATION;
    let middle = operation == Operation::SendMiddle as u8 || operation == Operation::WriteMiddle as u8;
    if !(middle && packet.ext.is_none() && packet.flags == PacketFlags::NONE && packet.payload == 1 << qp.mtu_shift) {
        let expected = responder.expected;
        let at = responder.early.partition_point(|other| Psn::new(other.psn).distance(expected) < ahead as i32);
        responder.early.insert(at, *packet);
    }
}

/// The memory that an early packet goes to: a WRITE says it with its first packet, which may be early too; a SEND goes into the
/// receive of the message that has begun, and to the memory beside the NIC as long as it has none.
#[cold]
fn early_place(qp: &Qp, port: &Port, packet: &Packet, ahead: u32, side: &ExtHeaders) -> MemoryId {
    let Responder { inbound, early, expected, .. } = &qp.responder;
    let starts = |packet: &Packet| Opcode::decode(packet.opcode).is_ok_and(|opcode| opcode.is_write() && opcode.is_first());
    let operation = packet.opcode & OPERATION;
    if (Operation::WriteFirst as u8..=Operation::WriteOnlyImm as u8).contains(&operation) {
        let before = |other: &&Packet| Psn::new(other.psn).distance(*expected) < ahead as i32;
        let begun = std::iter::once(packet).chain(early.iter().rev().filter(before)).find(|packet| starts(packet));
        let key = begun.and_then(|first| side.at(first.ext)).map(|ext| ext.rkey.0);
        return key.map_or(inbound.place, |key| port.regions.place_of(key));
    }
    let offset = u64::from(inbound.offset) + (u64::from(ahead) << qp.mtu_shift);
    inbound::landing(port, &inbound.recv, offset, packet.payload.into())
}

/// Takes the early packets whose turn has come.
fn catch_up(qp: &mut Qp, port: &mut Port, side: &mut ExtHeaders, received: &mut Received) {
    while qp.state != QpState::Err {
        let responder = &mut qp.responder;
        let psn = responder.expected;
        if !responder.arrived.take(psn) {
            return;
        }
        let next = responder.early.front().filter(|packet| packet.psn == psn.as_u32());
        let packet = match next {
            Some(_) => responder.early.pop_front().expect("looked at above"),
            None => middle(qp, psn),
        };
        let mut later = Received::default();
        take(qp, port, &packet, side, &mut later);
        received.ended |= later.ended;
        received.recv_wqe_consumed |= later.recv_wqe_consumed;
        if later.dropped {
            return; // no receive for it: the peer sends it again
        }
    }
}

/// A full packet from the middle of the message being received.
fn middle(qp: &Qp, psn: Psn) -> Packet {
    let operation = if qp.responder.inbound.kind == Kind::Write { Operation::WriteMiddle } else { Operation::SendMiddle };
    Packet {
        dest: crate::ids::Lid(0),
        dest_qp: qp.num.0,
        psn: psn.as_u32(),
        ext: ExtId::NONE,
        wire_bytes: 0,
        payload: qp.mtu() as u16,
        opcode: qp.service | operation as u8,
        flags: PacketFlags::NONE,
        syndrome: 0,
        sl: qp.sl,
        entropy: 0,
        msn: 0,
    }
}

/// A READ request in order.
fn read(qp: &mut Qp, port: &mut Port, packet: &Packet, ext: Option<&Ext>) -> Result<bool, Refusal> {
    let ext = ext.ok_or(Refusal::Invalid)?;
    if qp.responder.inbound.kind != Kind::None || qp.responder.is_busy() {
        return Err(Refusal::Invalid);
    }
    if ext.dma_length > LONGEST_MESSAGE {
        return Err(Refusal::Invalid);
    }
    check_remote(qp, port, ext, u64::from(ext.dma_length), Access::REMOTE_READ)?;
    let psn = qp.responder.expected;
    qp.responder.expected = psn + packets(qp, ext.dma_length);
    answer(qp, port, packet, response_to(port, ext), false);
    Ok(true)
}

/// The bytes that a READ asks for.
fn response_to(port: &Port, ext: &Ext) -> ResponseKind {
    let place = port.regions.place_of(ext.rkey.0);
    ResponseKind::Read { addr: ext.remote_addr, left: ext.dma_length, total: ext.dma_length, place }
}

/// An atomic in order: carried out now, its result kept.
fn atomic(qp: &mut Qp, port: &mut Port, packet: &Packet, ext: Option<&Ext>, received: &mut Received) -> Result<bool, Refusal> {
    let ext = ext.ok_or(Refusal::Invalid)?;
    let aligned = ext.remote_addr.is_multiple_of(u64::from(ATOMIC_BYTES));
    if qp.responder.inbound.kind != Kind::None || !aligned || qp.responder.is_busy() {
        return Err(Refusal::Invalid);
    }
    check_remote(qp, port, ext, u64::from(ATOMIC_BYTES), Access::REMOTE_ATOMIC)?;
    let old = match &mut port.memory {
        Some(memory) => carry_out(memory.as_mut(), qp.init.pd, packet.opcode & OPERATION, ext),
        None => 0,
    };
    let place = port.regions.place_of(ext.rkey.0);
    port.regions.use_pages(ext.remote_addr, ATOMIC_BYTES);
    (received.write, received.place) = (Bytes(u64::from(ATOMIC_BYTES)), place);
    port.landed.push_back(Landed::silent(ext.remote_addr, ATOMIC_BYTES));
    let responder = &mut qp.responder;
    if responder.done.len() >= responder.max_reads as usize {
        responder.done.pop_front();
    }
    responder.done.push_back(Done { psn: responder.expected, old, place });
    answer(qp, port, packet, ResponseKind::Atomic { old, place }, false);
    Ok(true)
}

/// Reads, changes and writes 64 bits in the byte order of the host; gives the old value.
pub(crate) fn carry_out(memory: &mut dyn Memory, pd: PdId, operation: u8, ext: &Ext) -> u64 {
    let mut bytes = [0; ATOMIC_BYTES as usize];
    memory.read(pd, ext.remote_addr, &mut bytes);
    let old = u64::from_ne_bytes(bytes);
    let atomic = Atomic { compare_add: ext.compare_add, swap: ext.swap, ignore: ext.masks.0, keep: ext.masks.1 };
    let new = atomic.apply(operation == Operation::FetchAdd as u8, old);
    memory.write(pd, ext.remote_addr, &new.to_ne_bytes());
    old
}

fn check_remote(qp: &Qp, port: &Port, ext: &Ext, length: u64, needed: Access) -> Result<(), Refusal> {
    let allowed = qp.attr.qp_access_flags.unwrap_or_default().contains(needed);
    if allowed && port.regions.check(ext.rkey.0, qp.init.pd, ext.remote_addr, length, needed).is_ok() {
        Ok(())
    } else {
        Err(Refusal::RemoteAccess)
    }
}

/// Packet numbers a READ of `length` bytes takes.
fn packets(qp: &Qp, length: u32) -> u32 {
    (length.saturating_sub(1) >> qp.mtu_shift) + 1
}

/// Queues a response; it acknowledges everything before it.
fn answer(qp: &mut Qp, port: &mut Port, packet: &Packet, kind: ResponseKind, repeated: bool) {
    let psn = Psn::new(packet.psn);
    let responder = &mut qp.responder;
    if responder.ack.is_some_and(|ack| ack.psn.is_before(psn)) {
        responder.ack = None;
    }
    responder.responses.push_back(Response { psn, kind, repeated, traced: packet.flags.contains(PacketFlags::TRACED) });
    qp.want_responses(port);
}

/// A packet that was received before: the peer did not see the answer.
fn repeated(qp: &mut Qp, port: &mut Port, packet: &Packet, ext: Option<&Ext>, received: &mut Received) {
    let psn = Psn::new(packet.psn);
    let responder = &mut qp.responder;
    let operation = packet.opcode & OPERATION;
    if operation == Operation::ReadRequest as u8 {
        let Some(ext) = ext else { return };
        let end = psn + packets(qp, ext.dma_length);
        let known = ext.dma_length <= LONGEST_MESSAGE && end.distance(qp.responder.expected) <= 0;
        if known && check_remote(qp, port, ext, u64::from(ext.dma_length), Access::REMOTE_READ).is_ok() {
            received.dropped = false;
            forget_responses(qp, psn);
            answer(qp, port, packet, response_to(port, ext), true);
        }
    } else if operation == Operation::FetchAdd as u8 || operation == Operation::CompareSwap as u8 {
        if let Some(done) = responder.done.iter().find(|done| done.psn == psn).copied() {
            received.dropped = false;
            forget_responses(qp, psn);
            answer(qp, port, packet, ResponseKind::Atomic { old: done.old, place: done.place }, true);
        }
    } else if packet.flags.contains(PacketFlags::ACK_REQ) && responder.ack.is_none() {
        responder.ack = Some(Ack { psn: responder.expected.previous(), syndrome: Syndrome::ACK.encode(), asked: psn, trimmed: false });
        qp.want_responses(port);
    }
}

/// The peer repeats from `psn` on, so what is queued from there on will be asked for again.
fn forget_responses(qp: &mut Qp, psn: Psn) {
    qp.responder.responses.retain(|response| response.psn.is_before(psn));
}

/// Owes the peer a NAK; it replaces an acknowledgement, which it includes.
fn nak(qp: &mut Qp, port: &mut Port, syndrome: Syndrome) {
    let psn = qp.responder.expected;
    qp.responder.ack = Some(Ack { psn, syndrome: syndrome.encode(), asked: psn, trimmed: false });
    qp.want_responses(port);
}

pub(crate) fn refuse(qp: &mut Qp, port: &mut Port, refusal: Refusal) {
    let (code, status) = match refusal {
        Refusal::NoReceive => {
            // The peer repeats from here on after a while; what comes until then is dropped.
            qp.responder.silence = Silence::Until;
            return nak(qp, port, Syndrome::RnrNak(receiver_timer(&qp.attr)));
        }
        Refusal::TooLong => (NakCode::InvalidRequest, Some(WcStatus::LocLenErr)),
        Refusal::LocalProtection => (NakCode::RemoteOperationalError, Some(WcStatus::LocProtErr)),
        Refusal::Invalid => {
            port.events.push_back(AsyncEvent::QpRequestError(qp.num));
            (NakCode::InvalidRequest, None)
        }
        Refusal::RemoteAccess => {
            port.events.push_back(AsyncEvent::QpAccessError(qp.num));
            (NakCode::RemoteAccessError, None)
        }
    };
    if let (Some(status), Some(wqe)) = (status, status.and_then(|_| qp.responder.inbound.recv.take())) {
        qp.fail_receive(wqe, status, port);
    }
    nak(qp, port, Syndrome::Nak(code));
    if qp.qp_type == QpType::Eec {
        // The context serves other queue pairs too: it drops this request and goes on with the next.
        qp.responder.inbound.kind = Kind::None;
        return;
    }
    qp.enter_error(port);
}

/// The acknowledgement owed.
#[inline]
pub(crate) fn poll_ack(qp: &mut Qp, port: &mut Port, side: &mut ExtHeaders) -> Option<Transmit> {
    if !qp.responder.responses.is_empty() {
        return None; // it follows them
    }
    if qp.congestion.is_some() {
        return poll_told(qp, port, side);
    }
    let ack = qp.responder.ack.take()?;
    let mut sent = response_packet(qp, port, ack.psn, Operation::Acknowledge, 0, ExtId::NONE, ack.syndrome, false);
    if ack.trimmed {
        sent.packet.flags.insert(PacketFlags::TRIMMED);
    }
    Some(sent)
}

/// The acknowledgement owed, with what the peer's congestion control has to know.
fn poll_told(qp: &mut Qp, port: &mut Port, side: &mut ExtHeaders) -> Option<Transmit> {
    if let Some(psn) = qp.responder.seen.trimmed.pop_front() {
        let before = qp.responder.expected.previous();
        let mut sent = response_packet(qp, port, before, Operation::Acknowledge, 0, ExtId::NONE, Syndrome::ACK.encode(), false);
        sent.packet.flags.insert(PacketFlags::TRIMMED);
        sent.packet.msn = psn.as_u32() as u16;
        qp.want_responses(port);
        return Some(sent);
    }
    let ack = qp.responder.ack.take()?;
    let seen = &mut qp.responder.seen;
    let links = std::mem::take(&mut seen.links);
    let marked = port.congestion.echo.acknowledges() && std::mem::take(&mut seen.marked);
    let ext = if links.is_empty() { ExtId::NONE } else { side.alloc(Ext { links, ..Ext::default() }) };
    let mut sent = response_packet(qp, port, ack.psn, Operation::Acknowledge, 0, ext, ack.syndrome, false);
    if marked {
        sent.packet.flags.insert(PacketFlags::BECN);
    }
    if ack.trimmed {
        sent.packet.flags.insert(PacketFlags::TRIMMED);
    }
    sent.packet.msn = ack.asked.as_u32() as u16;
    Some(sent)
}

/// The next packet of the oldest response.
pub(crate) fn poll_response(qp: &mut Qp, port: &mut Port, side: &mut ExtHeaders) -> Option<Transmit> {
    let mtu = qp.mtu();
    let response = qp.responder.responses.front_mut()?;
    let (psn, traced) = (response.psn, response.traced);
    let ack = Syndrome::ACK.encode();
    match &mut response.kind {
        ResponseKind::Atomic { old, place } => {
            let (ext, place) = (Ext { compare_add: *old, ..Ext::default() }, *place);
            qp.responder.responses.pop_front();
            let ext = side.alloc(ext);
            let sent = response_packet(qp, port, psn, Operation::AtomicAcknowledge, 0, ext, ack, traced);
            Some(Transmit { message_bytes: ATOMIC_BYTES, place, ..sent })
        }
        ResponseKind::Read { addr, left, total, place } => {
            let place = *place;
            let payload = (*left).min(mtu);
            let (first, last, message_bytes, from) = (left == total, *left <= mtu, *total, *addr);
            *left -= payload;
            *addr += u64::from(payload);
            port.regions.use_pages(from, payload);
            response.psn = psn.next();
            if last {
                qp.responder.responses.pop_front();
            }
            let operation = match (first, last) {
                (true, true) => Operation::ReadResponseOnly,
                (true, false) => Operation::ReadResponseFirst,
                (false, true) => Operation::ReadResponseLast,
                (false, false) => Operation::ReadResponseMiddle,
            };
            let ext = match &port.memory {
                None => ExtId::NONE,
                Some(memory) => {
                    let mut data = vec![0; payload as usize].into_boxed_slice();
                    if payload > 0 {
                        memory.read(qp.init.pd, from, &mut data);
                    }
                    side.alloc(Ext { data: Some(data.into()), ..Ext::default() })
                }
            };
            let sent = response_packet(qp, port, psn, operation, payload as u16, ext, ack, traced);
            Some(Transmit {
                fetch: Bytes(u64::from(payload)),
                place,
                read_response: true,
                starts_message: first,
                ends_message: last,
                message_bytes,
                ..sent
            })
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "the fields of one packet")]
#[inline]
fn response_packet(
    qp: &mut Qp,
    port: &Port,
    psn: Psn,
    operation: Operation,
    payload: u16,
    ext: ExtId,
    syndrome: u8,
    traced: bool,
) -> Transmit {
    let opcode = qp.service | operation as u8;
    let packet = Packet {
        dest: qp.dest,
        dest_qp: qp.dest_qp,
        psn: psn.as_u32(),
        ext,
        wire_bytes: port.wire_bytes(opcode, payload),
        payload,
        opcode,
        flags: qp.path_flag | if traced { PacketFlags::TRACED } else { PacketFlags::NONE },
        syndrome,
        sl: qp.sl,
        entropy: qp.next_entropy(),
        msn: qp.responder.msn as u16,
    };
    Transmit { responder: true, starts_message: true, ends_message: true, ..Transmit::plain(packet, qp.num) }
}
