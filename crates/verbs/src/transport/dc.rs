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

use fabriscope_units::Time;
use fabriscope_wire::{Operation, Psn, Transport as Code};

use crate::attr::{QpState, QpType};
use crate::error::PostError;
use crate::ext_headers::{Ext, ExtHeaders};
use crate::ids::{Lid, QpNum};
use crate::nic::Nic;
use crate::packet::{Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::requester::Route;
use crate::qp::responder::{Responder, Silence};
use crate::qp::{Dynamic, Qp};
use crate::transport::inbound::Refusal;
use crate::transport::interface::Transport;
use crate::transport::outbound::{OPERATION, is_response};
use crate::transport::rc::{requester, responder};
use crate::transport::relay;
use crate::wr::SendWr;

/// Dynamically connected transport.
pub(crate) struct Dc;

impl Transport for Dc {
    const CODE: Option<Code> = Some(Code::Dc);

    fn route(nic: &Nic, qp: &Qp, wr: &SendWr) -> Result<Option<Route>, PostError> {
        if qp.qp_type == QpType::Dci { relay::addressed(nic, qp, wr).map(Some) } else { Ok(None) }
    }
    fn poll_transmit(qp: &mut Qp, now: Time, port: &mut Port, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
        // Of an initiator connection packets go first, then requests, then what these made due.
        let first = if owes(qp) { poll(qp, port, ext_headers) } else { None };
        first.or_else(|| requester::poll(qp, now, port, ext_headers)).or_else(|| poll(qp, port, ext_headers))
    }
    fn handle(nic: &mut Nic, now: Time, packet: &Packet, slot: Option<usize>, ext_headers: &mut ExtHeaders) -> Received {
        let target = if is_response(packet.opcode) { None } else { responder_of(nic, packet, slot, ext_headers) };
        relay::handle(nic, now, packet, (slot, target), ext_headers, |_, _, _| true, |_, _| {})
    }
    fn handle_timeout(qp: &mut Qp, now: Time, port: &mut Port) {
        requester::handle_timeout(qp, now, port);
    }
}

/// The packet by which an initiator leaves a target or connects to one, if that is due.
fn poll(qp: &mut Qp, port: &Port, side: &mut ExtHeaders) -> Option<Transmit> {
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
    let opcode = (Code::Dc as u8) << 5 | Operation::Resync as u8;
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
fn owes(qp: &Qp) -> bool {
    qp.dynamic.as_ref().is_some_and(|dynamic| dynamic.tell || dynamic.leave.is_some())
}

/// Prepares the responder of a target for a packet of `start`'s connection; false if the packet is of an earlier one.
fn connect(responder: &mut Qp, ext: &Ext, sl: u8) -> bool {
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

/// The queue pair whose responder takes a request: of a target of DC the one for the initiator, made with its first packet.
fn responder_of(nic: &mut Nic, packet: &Packet, slot: Option<usize>, side: &ExtHeaders) -> Option<usize> {
    let slot = slot?;
    if nic.qps[slot].qp_type != QpType::Dct {
        return Some(slot).filter(|_| nic.qps[slot].qp_type != QpType::Dci);
    }
    let ext = side.at(packet.ext)?;
    let receives = matches!(nic.qps[slot].state, QpState::Rtr | QpState::Rts);
    if !receives {
        return None;
    }
    let key = key(packet, ext);
    let place = match nic.responders.get(&key) {
        Some(place) => *place as usize,
        None => {
            let place = nic.make_responder(slot, ext)?;
            nic.responders.insert(key, place as u32);
            place
        }
    };
    let fits = nic.qps[slot].attr.qkey == Some(ext.qkey);
    let qp = &mut nic.qps[place];
    if !connect(qp, ext, packet.sl) || packet.opcode & OPERATION == Operation::Resync as u8 {
        return None;
    }
    if !fits && qp.responder.silence == Silence::Not {
        responder::refuse(qp, &mut nic.port, Refusal::RemoteAccess);
    }
    fits.then_some(place)
}

/// The initiator that a packet comes from, and the target that it is for.
fn key(packet: &Packet, ext: &Ext) -> (Lid, QpNum, QpNum) {
    (ext.slid, ext.src_qp, QpNum(packet.dest_qp))
}

/// In the syndrome of connection packets.
const CONNECT: u8 = 1;
const DISCONNECT: u8 = 0;
