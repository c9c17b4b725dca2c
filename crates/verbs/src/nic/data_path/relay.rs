//! Requests of queue pairs that share contexts, on their way from the queue pair to the context of the destination; and packets
//! on their way from the context to the queue pair or shared receive queue that they name.
//!
//! Source: IBA vol. 1 §9.2.4 (reliable datagrams: RDETH, DETH), annex A14 (XRCETH names the shared receive queue of a SEND).
//! Modelled: RD over end-to-end contexts, XRC's shared queues; SRD and UET hand over to `rud`.
//! Not modelled: reliable datagram domains: any RD queue pair may use any context of its NIC.

use fabriscope_wire::{Opcode, Psn};

use crate::attr::{QpState, QpType};
use crate::error::PostError;
use crate::ext_headers::Ext;
use crate::ids::{Lid, QpNum, SrqId, WqeIndex, slot_number};
use crate::nic::Nic;
use crate::packet::Packet;
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::requester::{Extra, Route, Wqe};
use crate::qp::responder::{Kind, Silence};
use crate::transport::outbound::{LONGEST_MESSAGE, local_error};
use crate::transport::rud::{Contexts, Kind as MessageKind, Message, Origin};
use crate::wc::WcStatus;
use crate::wr::{Atomic, SendWr};

impl Nic {
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

    /// Where a request goes, on transports whose requests say it.
    pub(crate) fn route_of(&self, qp: &Qp, wr: &SendWr) -> Result<Option<Route>, PostError> {
        let missing = |field| PostError::MissingField { opcode: wr.opcode, field };
        let own =
            Route { dest: qp.dest, sl: qp.sl, to: 0, qkey: 0, owner: qp.num, index: WqeIndex(qp.requester.posted()), cq: qp.init.send_cq };
        match qp.qp_type {
            QpType::XrcSend => {
                let srq = wr.remote_srqn.ok_or(missing("remote_srqn"))?;
                Ok(Some(Route { to: srq.0, ..own }))
            }
            QpType::Rd => {
                let (eec, ud) = (wr.eec.ok_or(missing("eec"))?, wr.ud.ok_or(missing("ud"))?);
                // The context stands where others have the peer's address: it knows that address.
                Ok(Some(Route { dest: Lid(eec.0), to: ud.remote_qpn.0, qkey: ud.remote_qkey, ..own }))
            }
            _ if qp.qp_type.is_addressed() => {
                let ud = wr.ud.ok_or(missing("ud"))?;
                let handle = self.ahs.get(ud.ah.0 as usize).copied().flatten().filter(|(pd, _)| *pd == qp.init.pd);
                let (_, ah) = handle.ok_or(PostError::BadAh { ah: ud.ah })?;
                Ok(Some(Route { dest: ah.dlid, sl: ah.sl, to: ud.remote_qpn.0, qkey: ud.remote_qkey, ..own }))
            }
            _ => Ok(None),
        }
    }

    /// Hands the requests over that were rung on the queue pair at `slot`.
    pub(crate) fn hand_over(&mut self, slot: usize) {
        loop {
            let Nic { qps, port, contexts, .. } = self;
            let qp = &mut qps[slot];
            if qp.state != QpState::Rts || qp.requester.front >= qp.requester.ready {
                return;
            }
            let packet_only = qp.requester.at_cursor().is_some_and(|wqe| qp.qp_type.message_is_packet(wqe.opcode));
            let longest = if packet_only { port.packet_mtu() } else { LONGEST_MESSAGE };
            if let Some(status) = local_error(qp, port, longest) {
                return qp.enter_send_error(status, port);
            }
            let (qp_type, retries) = (qp.qp_type, qp.attr.rnr_retry.unwrap_or(7));
            let Some(wqe) = qp.requester.pop_front() else { return };
            qp.requester.assigned = qp.requester.front;
            if qp_type == QpType::Rd {
                over(qps, port, wqe);
            } else {
                unordered(contexts, port, wqe, qp_type, retries);
            }
        }
    }
}

/// To the end-to-end context that the request names.
fn over(qps: &mut [Qp], port: &mut Port, wqe: Wqe) {
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

/// To the context of the peer.
fn unordered(contexts: &mut Contexts, port: &mut Port, wqe: Wqe, qp_type: QpType, receiver_retries: u8) {
    let Some(route) = wqe.route.as_deref().copied() else { return };
    let origin = Origin {
        qp: route.owner,
        cq: route.cq,
        index: route.index,
        wr_id: wqe.wr_id,
        signaled: wqe.signaled,
        opcode: wqe.opcode.completion(),
        length: wqe.length,
    };
    let kind = if wqe.waits_for_response() { MessageKind::Request(wqe.opcode) } else { MessageKind::Data(wqe.opcode) };
    let atomic = if let Extra::Atomic(atomic) = wqe.extra { atomic } else { Atomic::default() };
    let message = Message {
        kind,
        origin: Some(origin),
        qp_type,
        from: route.owner,
        to: QpNum(route.to),
        qkey: route.qkey,
        remote: wqe.remote,
        imm: wqe.opcode.has_immediate().then_some(wqe.imm),
        atomic,
        length: wqe.length,
        sge: wqe.sge,
        inline: wqe.inline,
        flags: wqe.flags,
        first: Psn::default(),
        packets: 0,
        arrived: 0,
        done: false,
        receiver_retries,
    };
    contexts.post(route.dest, route.sl, message, port);
}

/// What a request packet of XRC or RD needs of the object that it names before the connection takes it; false if there is no
/// such object. Only the packet that is expected next borrows anything.
pub(crate) fn lend(qps: &mut [Qp], slot: usize, port: &mut Port, packet: &Packet, ext: Option<&Ext>) -> bool {
    let qp = &mut qps[slot];
    let Ok(opcode) = Opcode::decode(packet.opcode) else { return true };
    let Some(ext) = ext else { return true };
    let first = opcode.is_first() || opcode.has_immediate();
    if qp.qp_type == QpType::Eec && opcode.is_first() && Psn::new(packet.psn).distance(qp.responder.expected) > 0 {
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
    if qp.qp_type == QpType::XrcRecv {
        let takes = opcode.is_send() || opcode.has_immediate();
        let srq = SrqId(ext.context);
        let found = port
            .srqs
            .get(srq.0 as usize)
            .and_then(Option::as_ref)
            .and_then(|queue| queue.xrc)
            .filter(|(xrcd, _)| Some(*xrcd) == qp.init.xrcd);
        if let (true, Some((_, cq))) = (takes, found) {
            (qp.init.srq, qp.init.recv_cq) = (Some(srq), cq);
        }
        return !takes || found.is_some();
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
pub(crate) fn give_back(qps: &mut [Qp], slot: usize, port: &mut Port) {
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
