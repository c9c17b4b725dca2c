//! Dynamically connected transport: an initiator connects to whichever target its next request names.
//!
//! Source: man page mlx5dv_create_qp(3); Subramoni et al., "Designing MPI Library with Dynamic Connected Transport (DCT) of
//! InfiniBand", ISC 2014 (half handshake: a connect message, and data behind it at once; one connection of an initiator at a
//! time; a target makes a responder for each initiator that is connected to it).
//! Modelled: connect and disconnect packets, requests to one target while another's are in flight wait until those are
//! acknowledged, access keys, receives from the target's shared queue; otherwise an initiator and its responder are an RC
//! connection. Packets name the packet number at which their connection began, so that late ones of an earlier connection are
//! told apart, and a lost connect packet does no harm.
//! Not modelled: a limit on a target's responders, tearing an idle connection down by time.

use fabriscope_wire::{Operation, Psn, Transport};

use crate::attr::{QpState, QpType};
use crate::ext_headers::{Ext, ExtHeaders};
use crate::ids::{Lid, QpNum};
use crate::packet::{Packet, PacketFlags, Transmit};
use crate::port::Port;
use crate::qp::responder::Responder;
use crate::qp::{Dynamic, Qp};

/// Whether the request at the cursor, which was never sent, may begin: an initiator turns to its target when the one before has
/// acknowledged everything; an end-to-end context carries one message at a time (IBA vol. 1 §9.7.1).
pub(crate) fn aim(qp: &mut Qp) -> bool {
    let idle = qp.requester.front == qp.requester.assigned;
    if qp.qp_type == QpType::Eec {
        return idle;
    }
    if qp.qp_type != QpType::Dci {
        return true;
    }
    let Some(route) = qp.requester.at_cursor().and_then(|wqe| wqe.route.as_deref().copied()) else { return true };
    let current = qp.dynamic.as_deref().copied();
    let here = (qp.dest, qp.sl, qp.dest_qp) == (route.dest, route.sl, route.to);
    if current.is_some_and(|dynamic| here && dynamic.qkey == route.qkey) {
        return true;
    }
    if !idle {
        return false;
    }
    let leave = current.map(|dynamic| (qp.dest, qp.sl, qp.dest_qp, dynamic.start));
    qp.dynamic = Some(Box::new(Dynamic { start: qp.requester.next_psn, qkey: route.qkey, tell: true, leave }));
    (qp.dest, qp.sl, qp.dest_qp) = (route.dest, route.sl, route.to);
    qp.entropy = crate::qp::modify::entropy(Lid(qp.num.0), route.dest, route.to);
    false // the packets that say so go first
}

/// The packet by which an initiator leaves a target or connects to one, if that is due.
pub(crate) fn poll(qp: &mut Qp, port: &Port, side: &mut ExtHeaders) -> Option<Transmit> {
    if !matches!(qp.state, QpState::Rts | QpState::Sqd) {
        return None;
    }
    let num = qp.num;
    let (here, entropy) = ((qp.dest, qp.sl, qp.dest_qp), qp.entropy);
    let dynamic = qp.dynamic.as_deref_mut()?;
    let qkey = dynamic.qkey;
    let (dest, sl, target, start, syndrome) = match dynamic.leave.take() {
        Some((dest, sl, target, start)) => (dest, sl, target, start, DISCONNECT),
        None if std::mem::take(&mut dynamic.tell) => (here.0, here.1, here.2, dynamic.start, CONNECT),
        None => return None,
    };
    let opcode = (Transport::Dc as u8) << 5 | Operation::Resync as u8;
    let ext = Ext { context: target, qkey, src_qp: num, slid: port.lid, start: start.as_u32(), ..Ext::default() };
    let packet = Packet {
        dest,
        dest_qp: target,
        psn: start.as_u32(),
        ext: side.alloc(ext),
        wire_bytes: port.wire_bytes(opcode, 0),
        payload: 0,
        opcode,
        flags: PacketFlags::NONE,
        syndrome,
        sl,
        entropy,
        msn: 0,
    };
    Some(Transmit::plain(packet, num))
}

/// Whether an initiator has a connection to tell of.
pub(crate) fn owes(qp: &Qp) -> bool {
    qp.dynamic.as_ref().is_some_and(|dynamic| dynamic.tell || dynamic.leave.is_some())
}

/// Prepares the responder of a target for a packet of `start`'s connection; false if the packet is of an earlier one.
pub(crate) fn connect(responder: &mut Qp, ext: &Ext, sl: u8) -> bool {
    let start = Psn::new(ext.start);
    match responder.dynamic.as_deref() {
        Some(dynamic) if dynamic.start == start => return true,
        Some(dynamic) if start.is_before(dynamic.start) => return false,
        _ => {}
    }
    responder.dynamic = Some(Box::new(Dynamic { start, qkey: ext.qkey, tell: false, leave: None }));
    // A receive taken for a message that never ended waits for the next one.
    let (recv, queued, ack_queued) = (responder.responder.inbound.recv.take(), responder.responder.queued, responder.responder.ack_queued);
    let (max_reads, window) = (responder.responder.max_reads, responder.responder.window);
    responder.responder = Responder { expected: start, queued, ack_queued, max_reads, window, ..Responder::new() };
    responder.responder.inbound.recv = recv;
    responder.sl = sl;
    true
}

/// The initiator that a packet comes from, and the target that it is for.
pub(crate) fn key(packet: &Packet, ext: &Ext) -> (Lid, QpNum, QpNum) {
    (ext.slid, ext.src_qp, QpNum(packet.dest_qp))
}

/// In the syndrome of connection packets.
const CONNECT: u8 = 1;
const DISCONNECT: u8 = 0;
