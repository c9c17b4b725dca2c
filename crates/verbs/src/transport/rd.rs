//! Reliable datagram: requests of all queue pairs of a NIC over its end-to-end context with another NIC.
//!
//! Source: IBA vol. 1 §9.2.4 (RDETH, DETH), §9.7.1 (one message of a context at a time).
//! Modelled: a context is a reliable connection that borrows the queue pair, the receive and the rights that a request names.
//! Not modelled: reliable datagram domains: any RD queue pair may use any context of its NIC.

use fabriscope_units::Time;
use fabriscope_wire::{Opcode, Psn, Transport as Code};

use crate::attr::{QpState, QpType};
use crate::error::PostError;
use crate::ext_headers::{Ext, ExtHeaders};
use crate::ids::{Lid, slot_number};
use crate::nic::Nic;
use crate::packet::{Packet, Received, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::requester::{Route, Wqe};
use crate::qp::responder::{Kind, Silence};
use crate::transport::interface::Transport;
use crate::transport::rc::requester;
use crate::transport::relay;
use crate::wc::WcStatus;
use crate::wr::SendWr;

/// Reliable datagram.
pub(crate) struct Rd;

impl Transport for Rd {
    const CODE: Option<Code> = Some(Code::Rd);

    fn route(_: &Nic, qp: &Qp, wr: &SendWr) -> Result<Option<Route>, PostError> {
        if qp.qp_type == QpType::Eec {
            return Ok(None);
        }
        let missing = |field| PostError::MissingField { opcode: wr.opcode, field };
        let (eec, ud) = (wr.eec.ok_or(missing("eec"))?, wr.ud.ok_or(missing("ud"))?);
        // The context stands where others have the peer's address: it knows that address.
        Ok(Some(Route { dest: Lid(eec.0), to: ud.remote_qpn.0, qkey: ud.remote_qkey, ..Route::of(qp) }))
    }
    fn doorbell(nic: &mut Nic, slot: usize) {
        match nic.qps[slot].qp_type {
            QpType::Rd => relay::hand_over(nic, slot, post),
            _ => nic.qps[slot].want_requests(&mut nic.port),
        }
    }
    fn poll_transmit(qp: &mut Qp, now: Time, port: &mut Port, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
        if qp.qp_type == QpType::Eec { requester::poll(qp, now, port, ext_headers) } else { None }
    }
    fn handle(nic: &mut Nic, now: Time, packet: &Packet, slot: Option<usize>, ext_headers: &mut ExtHeaders) -> Received {
        relay::handle(
            nic,
            now,
            packet,
            (slot, slot),
            ext_headers,
            |nic, slot, ext_headers| {
                nic.qps[slot].qp_type != QpType::Eec || lend(&mut nic.qps, slot, &mut nic.port, packet, ext_headers.at(packet.ext))
            },
            |nic, slot| {
                if nic.qps[slot].qp_type == QpType::Eec {
                    give_back(&mut nic.qps, slot, &mut nic.port);
                }
            },
        )
    }
    fn handle_timeout(qp: &mut Qp, now: Time, port: &mut Port) {
        requester::handle_timeout(qp, now, port);
    }
}

/// To the end-to-end context that the request names.
fn post(nic: &mut Nic, wqe: Wqe, _: QpType, _: u8) {
    let Nic { qps, port, .. } = nic;
    let Some(route) = wqe.route.as_deref().copied() else { return };
    let slot = slot_number(route.dest.0);
    let eec = qps.get_mut(slot).filter(|eec| eec.live && eec.num.0 == route.dest.0 && eec.qp_type == QpType::Eec);
    let Some(eec) = eec.filter(|eec| matches!(eec.state, QpState::Rts | QpState::Sqd)) else {
        port.failed.push(route.owner);
        return route.complete(&wqe, WcStatus::InvEecStateErr, port);
    };
    eec.requester.queue.push_back(wqe);
    eec.requester.ready += 1;
    eec.want_requests(port);
}

/// What a request packet of RD needs of the object that it names before the connection takes it; false if there is no
/// such object. Only the packet that is expected next borrows anything.
fn lend(qps: &mut [Qp], slot: usize, port: &mut Port, packet: &Packet, ext: Option<&Ext>) -> bool {
    let qp = &mut qps[slot];
    let Ok(opcode) = Opcode::decode(packet.opcode) else { return true };
    let Some(ext) = ext else { return true };
    let first = opcode.is_first() || opcode.has_immediate();
    if opcode.is_first() && Psn::new(packet.psn).distance(qp.responder.expected) > 0 {
        // The request before was given up by the peer, which carries one at a time.
        qp.responder.expected = Psn::new(packet.psn);
        qp.responder.inbound.kind = Kind::None;
        qp.responder.silence = Silence::Not;
        give_back(qps, slot, port);
    }
    let qp = &mut qps[slot];
    if !first || Psn::new(packet.psn) != qp.responder.expected {
        return true;
    }
    let target = slot_number(ext.context);
    if target == slot || target >= qps.len() {
        return false;
    }
    let Ok([context, target]) = qps.get_disjoint_mut([slot, target]) else { return false };
    let takes_datagrams = matches!(target.state, QpState::Rtr | QpState::Rts | QpState::Sqd) && target.qp_type == QpType::Rd;
    if !target.live || target.num.0 != ext.context || !takes_datagrams || target.attr.qkey != Some(ext.qkey) {
        return false;
    }
    (context.home, context.init.pd, context.init.recv_cq, context.init.srq) =
        (target.num, target.init.pd, target.init.recv_cq, target.init.srq);
    context.attr.qp_access_flags = target.attr.qp_access_flags;
    let receive = opcode.is_send() && opcode.is_first() || opcode.has_immediate();
    if receive && context.responder.inbound.recv.is_none() && target.init.srq.is_none() {
        context.responder.inbound.recv = target.recv_queue.take();
    }
    true
}

/// Returns a receive that no message took to the queue it came from.
fn give_back(qps: &mut [Qp], slot: usize, port: &mut Port) {
    let context = &mut qps[slot];
    if context.responder.inbound.kind != Kind::None {
        return;
    }
    let Some(wqe) = context.responder.inbound.recv.take() else { return };
    let (home, srq) = (context.home, context.init.srq);
    if let Some(srq) = srq.and_then(|srq| port.srqs.get_mut(srq.0 as usize)).and_then(Option::as_mut) {
        return srq.queue.put_back(wqe);
    }
    if let Some(target) = qps.get_mut(slot_number(home.0)).filter(|qp| qp.live && qp.num == home) {
        target.recv_queue.put_back(wqe);
    }
}
