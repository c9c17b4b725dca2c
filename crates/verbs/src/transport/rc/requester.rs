//! The requester of a reliable connection.
//!
//! Source: IBA vol. 1 §9.7.3 to §9.7.8 (reliable service), §9.9.2 (requester errors).
//! Modelled: segmentation, requests for acknowledgement, coalesced ACKs, go-back-N after a NAK, a missing response or a
//! timeout, "receiver not ready", limits on READs and atomics, retry counters, fences, draining.
//! Not modelled: end-to-end credits; the timeout is exact where hardware may take up to four times as long.
//!
//! Every rewind goes to `una`, the oldest packet neither acknowledged nor answered. In strict order a gap in the responses
//! means loss and rewinds at once; queue pairs that take any order note what arrived and leave loss to the timer.

use fabriscope_units::{Bytes, Time};
use fabriscope_wire::{NakCode, Operation, Psn, RnrTimer, Syndrome};

use super::target;
use crate::access::MemoryId;
use crate::attr::QpState;
use crate::cc::{AckInfo, Loss};
use crate::ext_headers::{Ext, ExtHeaders};
use crate::ids::WqeIndex;
use crate::memory;
use crate::packet::{Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::requester::Extra;
use crate::qp::{Qp, Waiting};
use crate::transport::outbound::{ATOMIC_BYTES, LONGEST_MESSAGE, MOST_PACKETS, OPERATION, assign, data_packet, local_error, routed};
use crate::wc::WcStatus;
use crate::wr::{SendFlags, WrOpcode};

/// The next request packet, if there is one and it may be sent.
#[inline]
pub(crate) fn poll(qp: &mut Qp, now: Time, port: &mut Port, side: &mut ExtHeaders) -> Option<Transmit> {
    if !matches!(qp.state, QpState::Rts | QpState::Sqd) || qp.timer.waiting == Waiting::Receiver {
        return None;
    }
    let requester = &qp.requester;
    if !requester.again.is_empty()
        && let Some(transmit) = governed(qp, now, port, side)
    {
        return Some(transmit);
    }
    let requester = &qp.requester;
    if requester.cursor >= requester.ready || requester.cursor == requester.assigned && !begin(qp, port) {
        return None;
    }
    let requester = &mut qp.requester;
    let position = (requester.cursor - requester.front) as usize;
    let wqe = &requester.queue[position];
    if wqe.waits_for_response() {
        return request(qp, now, port, side, position);
    }
    let psn = requester.cursor_psn;
    let in_flight = psn.distance(requester.una) as u32;
    if in_flight >= requester.window {
        return None;
    }
    if qp.congestion.is_some() {
        return governed(qp, now, port, side);
    }
    let requester = &mut qp.requester;
    let wqe = &requester.queue[position];
    let number = psn.distance(wqe.first_psn) as u32;
    let last = number + 1 == wqe.packets;
    requester.since_asked += 1;
    let ask = last || requester.since_asked == requester.ack_interval || in_flight + 1 == requester.window;
    requester.cursor_psn = psn.next();
    if last {
        requester.cursor += 1;
    }
    let repeated = psn.is_before(requester.sent_end);
    if !repeated {
        requester.sent_end = psn.next();
    }
    let flags = if ask { PacketFlags::ACK_REQ } else { PacketFlags::NONE };
    if ask {
        asked(qp, now, psn.next(), port);
    } else if qp.timer.waiting == Waiting::Nothing {
        // What blocks this packet may keep those that ask from ever being built.
        start_timer(qp, now, port);
    }
    qp.retransmissions += u64::from(repeated);
    let mut transmit = data_packet(qp, port, side, position, number, flags);
    transmit.retransmission = repeated;
    Some(transmit)
}

/// The next packet of a SEND or WRITE, as congestion control lets it go: one that has to be sent again, else the next in line.
fn governed(qp: &mut Qp, now: Time, port: &mut Port, side: &mut ExtHeaders) -> Option<Transmit> {
    let again = next_again(qp);
    if again.is_none() && !skip_arrived(qp) {
        // What follows was never sent: it begins with the next turn.
        if qp.requester.cursor < qp.requester.ready {
            qp.want_requests(port);
        }
        return None;
    }
    let psn = again.unwrap_or(qp.requester.cursor_psn);
    let position = qp.requester.position_of(psn)?;
    let wqe = &qp.requester.queue[position];
    if wqe.waits_for_response() {
        return None;
    }
    let number = psn.distance(wqe.first_psn) as u32;
    let payload = (wqe.length - (number << qp.mtu_shift)).min(qp.mtu()) as u16;
    let repeated = psn.is_before(qp.requester.sent_end);
    let congestion = qp.congestion.as_mut()?;
    // Packets that are on their way, as the window counts, are inside already.
    let open = if repeated { congestion.readmits(psn, payload) } else { congestion.open(payload) };
    // Where nothing on its way asks for an answer, one more packet goes that does: else the window would stay closed.
    let asked = qp.requester.una.is_before(qp.requester.asked_end);
    if !open && asked {
        if let Some(psn) = again {
            qp.requester.again.push_front(psn);
        }
        return None;
    }
    let next = congestion.next();
    if next > now {
        if let Some(psn) = again {
            qp.requester.again.push_front(psn);
        }
        qp.look_at(next, port);
        return None;
    }
    let requester = &mut qp.requester;
    let last = number + 1 == requester.queue[position].packets;
    requester.since_asked += 1;
    let due = requester.ack_interval > 0 && requester.since_asked >= requester.ack_interval;
    // What is repeated may be the last that goes: those behind it may have arrived.
    let ask = last || due || repeated || !open;
    if again.is_none() {
        requester.cursor_psn = psn.next();
        requester.cursor += u64::from(last);
    }
    if !repeated {
        requester.sent_end = psn.next();
    }
    if ask {
        requester.since_asked = 0;
        if requester.asked_end.is_before(psn.next()) {
            requester.asked_end = psn.next();
        }
        if qp.timer.waiting == Waiting::Nothing {
            start_timer(qp, now, port);
        }
    }
    qp.retransmissions += u64::from(repeated);
    let mut transmit = data_packet(qp, port, side, position, number, if ask { PacketFlags::ACK_REQ } else { PacketFlags::NONE });
    transmit.retransmission = repeated;
    let congestion = qp.congestion.as_mut()?;
    congestion.sent(now, psn, transmit.packet.wire_bytes);
    if let Some(at) = congestion.wakes() {
        qp.look_at(at.max(now), port);
    }
    Some(transmit)
}

/// A packet that was reported missing and is not answered yet.
fn next_again(qp: &mut Qp) -> Option<Psn> {
    loop {
        let psn = qp.requester.again.pop_front()?;
        let open = !psn.is_before(qp.requester.una) && psn.is_before(qp.requester.cursor_psn);
        if open && !reported(qp, psn) {
            return Some(psn);
        }
    }
}

/// Whether the receiver reported `psn` although earlier packets are missing. The oldest one has not been taken, whatever was
/// reported: there may have been no receive for it.
fn reported(qp: &mut Qp, psn: Psn) -> bool {
    psn != qp.requester.una && qp.congestion.as_mut().is_some_and(|congestion| congestion.has_arrived(psn))
}

/// After a rewind: passes over packets that arrived although earlier ones were missing. False if nothing is left to send.
fn skip_arrived(qp: &mut Qp) -> bool {
    loop {
        let requester = &mut qp.requester;
        if requester.cursor >= requester.assigned {
            return false;
        }
        let psn = requester.cursor_psn;
        let sent = psn.is_before(requester.sent_end);
        if !sent || !reported(qp, psn) {
            return true;
        }
        let requester = &mut qp.requester;
        requester.cursor_psn = psn.next();
        let end = requester.queue[(requester.cursor - requester.front) as usize].end_psn();
        requester.cursor += u64::from(requester.cursor_psn == end);
    }
}

/// A packet was sent that asks for an answer up to `end`.
#[inline]
fn asked(qp: &mut Qp, now: Time, end: Psn, port: &mut Port) {
    qp.requester.since_asked = 0;
    qp.requester.asked_end = end;
    if qp.timer.waiting == Waiting::Nothing {
        start_timer(qp, now, port);
    }
}

#[inline]
fn start_timer(qp: &mut Qp, now: Time, port: &mut Port) {
    if let Some(timeout) = qp.requester.timeout {
        qp.timer.start(Waiting::Acknowledgement, now + timeout, qp.slot, port);
    }
}

/// Starts the request at the cursor, which was never sent; false if it has to wait or failed.
fn begin(qp: &mut Qp, port: &mut Port) -> bool {
    if qp.state == QpState::Sqd {
        return false;
    }
    let Some(wqe) = qp.requester.at_cursor() else { return false };
    if wqe.flags.contains(SendFlags::FENCE) && qp.requester.reads > 0 {
        return false;
    }
    if wqe.opcode.is_local() {
        carry_out(qp, port);
        return false;
    }
    let (routed, waits) = (wqe.route.is_some(), wqe.waits_for_response());
    if routed && !target::aim(qp) {
        return false;
    }
    let longest = LONGEST_MESSAGE.min(MOST_PACKETS.saturating_mul(qp.mtu()));
    let no_reads = waits && qp.requester.max_reads == 0;
    let error = local_error(qp, port, longest).or(no_reads.then_some(WcStatus::LocQpOpErr));
    if let Some(status) = error {
        // Requests complete in order: the error shows when everything before it is done.
        if qp.requester.cursor == qp.requester.front {
            qp.fail(status, port);
        }
        return false;
    }
    assign(qp);
    true
}

/// Binds or closes the window of the request at the cursor once all before it is done, and goes on to the next.
fn carry_out(qp: &mut Qp, port: &mut Port) {
    let before = qp.requester.front;
    while qp.requester.cursor == qp.requester.front
        && let Some(wqe) = qp.requester.at_cursor().filter(|wqe| wqe.opcode.is_local())
    {
        let done = match (wqe.opcode, wqe.extra, wqe.sge.first()) {
            (WrOpcode::BindMw, Extra::Window(access), Some(at)) => port.regions.bind(wqe.remote.rkey.0, qp.init.pd, *at, access),
            _ => port.regions.invalidate(wqe.remote.rkey.0, qp.init.pd),
        };
        if done.is_err() {
            return qp.fail(WcStatus::MwBindErr, port);
        }
        qp.requester.assigned += 1;
        qp.complete_front(port);
    }
    if qp.requester.front != before && qp.requester.cursor < qp.requester.ready {
        qp.want_requests(port);
    }
}

/// A READ or atomic request.
fn request(qp: &mut Qp, now: Time, port: &mut Port, side: &mut ExtHeaders, position: usize) -> Option<Transmit> {
    let requester = &qp.requester;
    let wqe = &requester.queue[position];
    let psn = requester.cursor_psn;
    let number = psn.distance(wqe.first_psn) as u32;
    let chunk = requester.read_chunk();
    let end = wqe.packets.min((number / chunk + 1) * chunk);
    let end_psn = wqe.first_psn + end;
    if requester.reads >= requester.max_reads || end_psn.distance(requester.una) as u32 > requester.window {
        return None;
    }
    let offset = number << qp.mtu_shift;
    let length = (wqe.length - offset).min((end - number) << qp.mtu_shift);
    let mut ext =
        Ext { remote_addr: wqe.remote.addr.wrapping_add(u64::from(offset)), rkey: wqe.remote.rkey, dma_length: length, ..Ext::default() };
    if let Extra::Atomic(atomic) = wqe.extra {
        (ext.compare_add, ext.swap, ext.masks) = (atomic.compare_add, atomic.swap, (atomic.ignore, atomic.keep));
    }
    ext = routed(ext, qp, wqe, port);
    let opcode = match wqe.opcode {
        WrOpcode::AtomicCmpAndSwp => Operation::CompareSwap,
        WrOpcode::AtomicFetchAndAdd => Operation::FetchAdd,
        _ => Operation::ReadRequest,
    } as u8
        | qp.service;
    let traced = if wqe.flags.contains(SendFlags::TRACED) { PacketFlags::TRACED } else { PacketFlags::NONE };
    let (starts, ends, message_bytes, wr_id) = (number == 0, end == wqe.packets, wqe.length, wqe.wr_id);
    let wqe_index = WqeIndex(requester.cursor);
    let requester = &mut qp.requester;
    requester.reads += 1;
    requester.cursor_psn = end_psn;
    requester.cursor += u64::from(ends);
    let repeated = psn.is_before(requester.sent_end);
    if requester.sent_end.is_before(end_psn) {
        requester.sent_end = end_psn;
    }
    qp.retransmissions += u64::from(repeated);
    asked(qp, now, end_psn, port);
    let packet = Packet {
        dest: qp.dest,
        dest_qp: qp.dest_qp,
        psn: psn.as_u32(),
        ext: side.alloc(ext),
        wire_bytes: port.wire_bytes(opcode, 0),
        payload: 0,
        opcode,
        flags: PacketFlags::ACK_REQ | traced | qp.path_flag,
        syndrome: 0,
        sl: qp.sl,
        entropy: qp.next_entropy(),
        msn: 0,
    };
    Some(Transmit {
        packet,
        qp: qp.num,
        fetch: Bytes::ZERO,
        place: MemoryId::HOST,
        responder: false,
        read_response: false,
        starts_message: starts,
        ends_message: ends,
        inline: false,
        retransmission: repeated,
        wqe: wqe_index,
        wr_id,
        message_bytes,
    })
}

/// An acknowledgement, NAK or response arrived.
#[inline]
pub(crate) fn handle(qp: &mut Qp, now: Time, port: &mut Port, packet: &Packet, side: &mut ExtHeaders, received: &mut Received) {
    let psn = Psn::new(packet.psn);
    let requester = &qp.requester;
    // What tells of a trimmed packet may follow the acknowledgement of all before it.
    let first = if packet.flags.contains(PacketFlags::TRIMMED) { psn.next() } else { psn };
    let known = matches!(qp.state, QpState::Rts | QpState::Sqd) && !first.is_before(requester.una) && psn.is_before(requester.sent_end);
    if !known {
        received.dropped = true;
        side.free(packet.ext);
        return;
    }
    let before = requester.una;
    if packet.opcode & OPERATION == Operation::Acknowledge as u8 {
        if qp.congestion.is_some() {
            learn(qp, now, port, psn, packet, side);
        }
        side.free(packet.ext);
        acknowledge(qp, now, port, packet, received);
    } else {
        let ext = side.take(packet.ext);
        respond(qp, port, packet, ext.as_ref(), received);
    }
    if qp.requester.una != before {
        progress(qp, now, port);
    }
}

/// What an acknowledgement tells congestion control.
fn learn(qp: &mut Qp, now: Time, port: &mut Port, psn: Psn, packet: &Packet, side: &ExtHeaders) {
    // The low bits of the packet that is answered; it is not before the one that is acknowledged with all others.
    let ahead = packet.msn.wrapping_sub(psn.as_u32() as u16);
    let asked = if u32::from(ahead) < 1 << 15 { psn + u32::from(ahead) } else { psn };
    let Some(congestion) = qp.congestion.as_mut() else { return };
    if packet.flags.contains(PacketFlags::TRIMMED) && qp.any_order {
        congestion.lost(now, Loss::Trimmed);
        congestion.gone(asked);
        qp.requester.again.push_back(asked);
        qp.requester.renew_retries(); // it answers
    } else {
        let accepted = matches!(Syndrome::decode(packet.syndrome), Ok(Syndrome::Ack(_)));
        let end = if accepted { psn.next() } else { psn };
        let links = side.at(packet.ext).map_or(&[][..], |ext| &ext.links[..]);
        let told = AckInfo::of(end, accepted.then_some(asked), packet.flags.contains(PacketFlags::BECN));
        let missing = congestion.acknowledged(now, told, links, qp.any_order);
        if missing > 0 {
            congestion.lost(now, Loss::Gap);
            qp.requester.again.extend(congestion.missing());
        }
    }
    if let Some(at) = congestion.wakes() {
        qp.look_at(at.max(now), port);
    }
    if qp.requester.cursor < qp.requester.ready || !qp.requester.again.is_empty() {
        qp.want_requests(port);
    }
}

/// The time at which congestion control wanted to be looked at.
pub(crate) fn look(qp: &mut Qp, now: Time, port: &mut Port) {
    let Some(congestion) = qp.congestion.as_mut() else { return };
    if congestion.wakes().is_some_and(|at| at <= now) {
        congestion.wake(now);
    }
    if let Some(at) = congestion.wakes() {
        qp.look_at(at.max(now), port);
    }
    if qp.requester.cursor < qp.requester.ready || !qp.requester.again.is_empty() {
        qp.want_requests(port);
    }
}

/// A notification of congestion arrived.
pub(crate) fn notified(qp: &mut Qp, now: Time, port: &mut Port) {
    if let Some(congestion) = qp.congestion.as_mut() {
        congestion.notified(now);
        if let Some(at) = congestion.wakes() {
            qp.look_at(at.max(now), port);
        }
    }
}

/// Something was acknowledged or answered.
#[inline]
fn progress(qp: &mut Qp, now: Time, port: &mut Port) {
    if let Some(congestion) = qp.congestion.as_mut() {
        let una = qp.requester.una;
        congestion.settle(una);
        // It was reported, and there was no receive for it when its turn came: it goes once more.
        if una.is_before(qp.requester.cursor_psn) && congestion.take_back(una) {
            qp.requester.again.push_back(una);
            qp.want_requests(port);
        }
    }
    let requester = &qp.requester;
    if qp.timer.waiting != Waiting::Receiver {
        if requester.asked_end.distance(requester.una) > 0 {
            start_timer(qp, now, port);
        } else {
            qp.timer.stop();
        }
    }
    if qp.requester.cursor < qp.requester.ready {
        if qp.requester.cursor == qp.requester.front && qp.state == QpState::Rts {
            // Its completion goes with those of what was just acknowledged.
            carry_out(qp, port);
        }
        qp.want_requests(port);
    }
    qp.check_drained(port);
}

#[inline]
fn acknowledge(qp: &mut Qp, now: Time, port: &mut Port, packet: &Packet, received: &mut Received) {
    let psn = Psn::new(packet.psn);
    let Ok(syndrome) = Syndrome::decode(packet.syndrome) else {
        received.dropped = true;
        return;
    };
    let end = if matches!(syndrome, Syndrome::Ack(_)) { psn.next() } else { psn };
    if qp.requester.acked_end.is_before(end) {
        qp.requester.acked_end = end;
    }
    advance(qp, port);
    match syndrome {
        Syndrome::Nak(code) if code != NakCode::PsnSequenceError => refused(qp, psn, code, port),
        // An acknowledgement beyond a READ that is not answered: the responses are lost.
        _ if !qp.any_order && qp.requester.una.is_before(qp.requester.acked_end) => {
            port.counts.implied_naks += 1;
            lost(qp, port);
        }
        Syndrome::Ack(_) => {}
        Syndrome::RnrNak(timer) => receiver_not_ready(qp, now, timer, port),
        Syndrome::Nak(_) => {
            let trimmed = packet.flags.contains(PacketFlags::TRIMMED);
            if let Some(congestion) = qp.congestion.as_mut() {
                congestion.lost(now, if trimmed { Loss::Trimmed } else { Loss::Gap });
            }
            // Nothing slows a sender without congestion control down: its copy would be cut off again.
            if trimmed && qp.congestion.is_some() { cut(qp, psn, port) } else { lost(qp, port) }
        }
    }
}

/// Completes what is acknowledged or answered, from the front.
#[inline]
fn advance(qp: &mut Qp, port: &mut Port) {
    let before = qp.requester.una;
    while qp.requester.front < qp.requester.assigned {
        let requester = &mut qp.requester;
        let wqe = &requester.queue[0];
        let end = wqe.end_psn();
        if wqe.waits_for_response() {
            if qp.any_order {
                let mut psn = requester.una;
                while psn != end && requester.arrived.take(psn) {
                    psn = psn.next();
                }
                requester.move_una(psn);
            }
            if requester.una != end {
                break;
            }
        } else if requester.acked_end.is_before(end) {
            if requester.una.is_before(requester.acked_end) {
                requester.una = requester.acked_end;
            }
            break;
        } else {
            requester.una = end;
        }
        qp.complete_front(port);
    }
    let requester = &mut qp.requester;
    if requester.cursor_psn.is_before(requester.una) {
        requester.cursor_psn = requester.una;
    }
    if requester.una != before {
        requester.renew_retries();
    }
}

/// A READ response or the result of an atomic.
fn respond(qp: &mut Qp, port: &mut Port, packet: &Packet, ext: Option<&Ext>, received: &mut Received) {
    let psn = Psn::new(packet.psn);
    let Some(position) = qp.requester.position_of(psn) else {
        received.dropped = true;
        return;
    };
    let requester = &mut qp.requester;
    let first = requester.queue[position].first_psn;
    // A response shows that everything before its request was received.
    if requester.acked_end.is_before(first) {
        requester.acked_end = first;
    }
    if qp.any_order {
        if requester.arrived.has(psn) {
            received.dropped = true;
            return;
        }
    } else {
        advance(qp, port);
        if qp.requester.una != psn {
            received.dropped = true;
            port.counts.implied_naks += 1;
            return lost(qp, port);
        }
    }
    let position = qp.requester.position_of(psn).expect("the request of an unanswered packet is in the queue");
    let wqe = &qp.requester.queue[position];
    let offset = (psn.distance(wqe.first_psn) as u32) << qp.mtu_shift;
    let atomic = packet.opcode & OPERATION == Operation::AtomicAcknowledge as u8;
    let payload = if atomic { ATOMIC_BYTES } else { u32::from(packet.payload) };
    let due = if atomic { ATOMIC_BYTES } else { (wqe.length - offset).min(qp.mtu()) };
    let whole = atomic || ext.is_none_or(|ext| ext.holds(packet.payload));
    if !wqe.waits_for_response() || wqe.opcode.is_atomic() != atomic || payload != due || !whole {
        received.dropped = true;
        return qp.fail(WcStatus::BadRespErr, port);
    }
    if let (Some(memory), Some(ext)) = (&mut port.memory, ext) {
        let result = ext.compare_add.to_ne_bytes();
        let bytes = if atomic { Some(&result[..]) } else { ext.data.as_deref() };
        memory::scatter(memory.as_mut(), qp.init.pd, &wqe.sge, u64::from(offset), bytes.unwrap_or_default());
    }
    received.write = Bytes(u64::from(payload));
    received.place = port.regions.place_in(&wqe.sge, u64::from(offset), payload);
    if qp.any_order {
        qp.requester.arrived.set(psn);
    } else {
        qp.requester.move_una(psn.next());
        qp.requester.renew_retries();
    }
    let front = qp.requester.front;
    advance(qp, port);
    received.ended = qp.requester.front != front;
}

/// Responses are missing, or the responder missed a packet: sends again from the oldest packet without an answer.
fn lost(qp: &mut Qp, port: &mut Port) {
    if qp.requester.rewound_at != Some(qp.requester.una) {
        retry(qp, port);
    }
}

/// The payload of the oldest packet without an answer was cut off: sends again from it, however often that happens. The peer
/// answers, so that no counter runs down.
fn cut(qp: &mut Qp, psn: Psn, port: &mut Port) {
    let requester = &mut qp.requester;
    requester.retries = requester.max_retries;
    // Where the copy that goes again has not left yet, an earlier one was meant.
    let waits = requester.rewound_at == Some(requester.una) && requester.cursor_psn == requester.una;
    if requester.una != psn || waits {
        return;
    }
    go_back(qp, port);
}

/// Sends again from the oldest packet without an answer, if the counter allows it.
fn retry(qp: &mut Qp, port: &mut Port) {
    let requester = &mut qp.requester;
    if requester.retries == 0 {
        if !qp.migrate(port) {
            return qp.fail(WcStatus::RetryExcErr, port);
        }
        qp.requester.retries = qp.requester.max_retries;
    } else {
        requester.retries -= 1;
    }
    go_back(qp, port);
}

/// Sends again from the oldest packet without an answer.
fn go_back(qp: &mut Qp, port: &mut Port) {
    let requester = &mut qp.requester;
    requester.rewound_at = Some(requester.una);
    requester.rewind();
    if let Some(congestion) = qp.congestion.as_mut() {
        congestion.rewound();
    }
    qp.timer.stop();
    qp.want_requests(port);
}

fn receiver_not_ready(qp: &mut Qp, now: Time, timer: RnrTimer, port: &mut Port) {
    if qp.timer.waiting == Waiting::Receiver {
        return; // the NAK came twice
    }
    let requester = &mut qp.requester;
    requester.retries = requester.max_retries; // it answers
    if requester.receiver_retries == 0 {
        return qp.fail(WcStatus::RnrRetryExcErr, port);
    }
    if requester.receiver_retries != FOR_EVER {
        requester.receiver_retries -= 1;
    }
    requester.rewind();
    qp.timer.start(Waiting::Receiver, now + timer.span(), qp.slot, port);
}

/// The responder refused the request of `psn`.
fn refused(qp: &mut Qp, psn: Psn, code: NakCode, port: &mut Port) {
    let status = match code {
        NakCode::RemoteAccessError => WcStatus::RemAccessErr,
        NakCode::RemoteOperationalError => WcStatus::RemOpErr,
        _ => WcStatus::RemInvReqErr,
    };
    // READs before it whose responses are lost will never be answered.
    for _ in 0..qp.requester.position_of(psn).unwrap_or(0) {
        qp.fail_front(WcStatus::WrFlushErr, port);
    }
    qp.fail(status, port);
}

/// When the oldest packet without an answer, which has to be sent again, leaves at the earliest, if pacing holds it back: there
/// is no answer to miss before.
fn held_back(qp: &Qp, now: Time) -> Option<Time> {
    let requester = &qp.requester;
    let goes_again = requester.rewound_at == Some(requester.una) && requester.cursor_psn == requester.una;
    let next = qp.congestion.as_ref()?.next();
    (next > now && (goes_again || requester.again.contains(&requester.una))).then_some(next)
}

/// The deadline was reached.
pub(crate) fn handle_timeout(qp: &mut Qp, now: Time, port: &mut Port) {
    let waiting = qp.timer.waiting;
    qp.timer.stop();
    match waiting {
        Waiting::Nothing => {}
        Waiting::Receiver => qp.want_requests(port),
        Waiting::Acknowledgement => {
            if let Some(leaves) = held_back(qp, now) {
                return start_timer(qp, leaves, port);
            }
            if let Some(congestion) = qp.congestion.as_mut() {
                congestion.lost(now, Loss::Timeout);
            }
            retry(qp, port);
            if qp.state != QpState::Err {
                // It runs also while nothing can leave the adapter.
                start_timer(qp, now, port);
            }
        }
    }
}

/// The retry count that never runs out. Basis: standard.
const FOR_EVER: u8 = 7;
