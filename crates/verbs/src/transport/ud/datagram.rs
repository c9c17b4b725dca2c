//! One datagram: how it leaves and how it is taken.

use fabriscope_units::Bytes;
use fabriscope_wire::Operation;

use crate::attr::{QpState, QpType};
use crate::ext_headers::{Ext, ExtHeaders};
use crate::ids::{QpNum, WqeIndex};
use crate::memory;
use crate::packet::{Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::modify::entropy;
use crate::qp::requester::Extra;
use crate::transport::inbound::{self, Refusal, landing};
use crate::transport::outbound::{assign, data_ext, local_error};
use crate::transport::rud::headers;
use crate::wc::{WcOpcode, WcStatus};
use crate::words::WordsId;
use crate::wr::SendFlags;

/// The next datagram; its request completes with it.
pub(crate) fn poll(qp: &mut Qp, port: &mut Port, side: &mut ExtHeaders) -> Option<Transmit> {
    if qp.state != QpState::Rts || qp.requester.cursor >= qp.requester.ready {
        qp.check_drained(port);
        return None;
    }
    let longest = port.packet_mtu();
    if let Some(status) = local_error(qp, port, longest) {
        qp.enter_send_error(status, port);
        return None;
    }
    assign(qp);
    let spread = qp.next_entropy();
    let wqe = &qp.requester.queue[0];
    let Extra::Datagram { dest, sl, qp: dest_qp, qkey, words } = wqe.extra else { return None };
    // A key with its top bit set stands for that of the sending queue pair (IBA §10.2.5).
    let qkey = if qkey & 0x8000_0000 != 0 { qp.attr.qkey.unwrap_or(0) } else { qkey };
    let imm = wqe.opcode.has_immediate();
    let payload = wqe.length as u16;
    let delivery = qp.qp_type.delivery();
    let mut ext = Ext { qkey, src_qp: qp.num, slid: port.lid, delivery, ..data_ext(qp.init.pd, wqe, port, (0, payload), false) };
    if let Some(words) = words {
        ext.say(words);
    }
    let operation = if imm { Operation::SendOnlyImm } else { Operation::SendOnly };
    let opcode = (qp.qp_type.transport() as u8) << 5 | operation as u8;
    let mut flags = PacketFlags::NONE;
    if wqe.flags.contains(SendFlags::SOLICITED) {
        flags |= PacketFlags::SE;
    }
    if wqe.flags.contains(SendFlags::TRACED) {
        flags |= PacketFlags::TRACED;
    }
    let packet = Packet {
        dest,
        dest_qp: dest_qp.0,
        psn: wqe.first_psn.as_u32(),
        ext: side.alloc(ext),
        wire_bytes: port.wire_bytes(opcode, payload)
            + headers::more(qp.qp_type, opcode)
            + if dest.mlid().is_some() { port.mcast_overhead } else { 0 },
        payload,
        opcode,
        flags,
        syndrome: 0,
        sl,
        entropy: if qp.spray { spread } else { entropy(port.lid, dest, qp.num.0) },
        msn: 0,
    };
    let transmit = wqe.in_one(packet, qp.num, WqeIndex(qp.requester.front), &port.regions);
    qp.requester.cursor_psn = qp.requester.next_psn;
    qp.complete_front(port);
    qp.check_drained(port);
    Some(transmit)
}

/// A datagram arrived.
pub(crate) fn handle(qp: &mut Qp, port: &mut Port, packet: &Packet, side: &mut ExtHeaders, received: &mut Received) {
    received.dropped = true;
    let Some(ext) = side.take(packet.ext) else { return };
    take(qp, port, packet, &ext, received);
}

/// A datagram with its extension headers arrived.
pub(crate) fn take(qp: &mut Qp, port: &mut Port, packet: &Packet, ext: &Ext, received: &mut Received) {
    let (grh, before) = if qp.qp_type == QpType::Ud { (true, GRH_BYTES) } else { (false, 0) };
    let receives = !matches!(qp.state, QpState::Reset | QpState::Init | QpState::Err);
    if !receives || !ext.holds(packet.payload) || qp.attr.qkey != Some(ext.qkey) || inbound::take_receive(qp, port, received).is_err() {
        return;
    }
    inbound::established(qp, port);
    let byte_len = u32::from(packet.payload) + before;
    let room = inbound::check_receive(port, qp.init.pd, &qp.responder.inbound.recv);
    let room = room.and_then(|room| if room < byte_len { Err(Refusal::TooLong) } else { Ok(room) });
    if let Err(refusal) = room {
        let status = if refusal == Refusal::TooLong { WcStatus::LocLenErr } else { WcStatus::LocProtErr };
        if let Some(wqe) = qp.responder.inbound.recv.take() {
            qp.fail_receive(wqe, status, port);
        }
        return qp.enter_error(port);
    }
    if let (Some(memory), Some(data), Some(wqe)) = (&mut port.memory, &ext.data, &qp.responder.inbound.recv) {
        memory::scatter(memory.as_mut(), qp.init.pd, &wqe.sge, u64::from(before), data);
        if let Some(header) = memory.global_header(ext.slid, packet.dest, u32::from(packet.payload)).filter(|_| grh) {
            memory::scatter(memory.as_mut(), qp.init.pd, &wqe.sge, 0, &header);
        }
    }
    received.dropped = false;
    received.ended = true;
    received.write = Bytes(u64::from(byte_len));
    received.place = landing(port, &qp.responder.inbound.recv, 0, byte_len);
    let imm = (packet.opcode & OPERATION == Operation::SendOnlyImm as u8).then_some(ext.imm);
    let words = ext.words().map_or(WordsId::NONE, |words| port.words.keep(words));
    qp.complete_receive(WcOpcode::Recv, byte_len, (imm, words), packet, port);
    if let Some((_, wc)) = port.completions.back_mut() {
        (wc.src_qp, wc.slid, wc.sl, wc.grh) = (QpNum(ext.src_qp.0), ext.slid, packet.sl, grh);
    }
}

/// The operation in an opcode.
const OPERATION: u8 = 0x1f;
/// Room for a GRH in front of each received message, in bytes. Basis: standard.
const GRH_BYTES: u32 = 40;
