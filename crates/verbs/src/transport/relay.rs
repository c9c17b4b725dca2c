//! What transports share whose queue pairs send over other objects: addresses of requests, requests handed over, packets for
//! reliable connections that serve others.
//!
//! Source: IBA vol. 1 §9.2.4, annex A14. See `xrc`, `rd`, `dc` and `rud`.

use fabriscope_units::Time;
use fabriscope_wire::Operation;

use crate::attr::{QpState, QpType};
use crate::error::PostError;
use crate::ext_headers::ExtHeaders;
use crate::nic::{Before, Nic, note_mark};
use crate::packet::{Packet, PacketFlags, Received};
use crate::qp::Qp;
use crate::qp::requester::{Route, Wqe};
use crate::transport::inbound::Refusal;
use crate::transport::outbound::{LONGEST_MESSAGE, OPERATION, is_response, local_error};
use crate::transport::rc::{requester, responder};
use crate::wr::SendWr;

/// Where a request goes that names an address handle.
pub(crate) fn addressed(nic: &Nic, qp: &Qp, wr: &SendWr) -> Result<Route, PostError> {
    let ud = wr.ud.ok_or(PostError::MissingField { opcode: wr.opcode, field: "ud" })?;
    let handle = nic.ahs.get(ud.ah.0 as usize).copied().flatten().filter(|(pd, _)| *pd == qp.init.pd);
    let (_, ah) = handle.ok_or(PostError::BadAh { ah: ud.ah })?;
    Ok(Route { dest: ah.dlid, sl: ah.sl, to: ud.remote_qpn.0, qkey: ud.remote_qkey, ..Route::of(qp) })
}

/// Hands the requests over that were rung on the queue pair at `slot`: `post` takes them, with the type of the queue pair and
/// how often they may find no receive.
pub(crate) fn hand_over(nic: &mut Nic, slot: usize, post: impl Fn(&mut Nic, Wqe, QpType, u8)) {
    loop {
        let Nic { qps, port, .. } = nic;
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
        post(nic, wqe, qp_type, retries);
    }
}

/// A packet for a reliable connection that serves others: an answer goes to the requester of `slots.0`, a request to the responder
/// of `slots.1`, if `lend` finds what it names; `after` ends it.
pub(crate) fn handle(
    nic: &mut Nic,
    now: Time,
    packet: &Packet,
    slots: (Option<usize>, Option<usize>),
    ext_headers: &mut ExtHeaders,
    lend: impl FnOnce(&mut Nic, usize, &ExtHeaders) -> bool,
    after: impl FnOnce(&mut Nic, usize),
) -> Received {
    let mut received = Received::default();
    let before = Before::of(&nic.port);
    match slots {
        (Some(slot), _) if is_response(packet.opcode) => {
            requester::handle(&mut nic.qps[slot], now, &mut nic.port, packet, ext_headers, &mut received);
        }
        (_, Some(slot)) => {
            if packet.flags.contains(PacketFlags::ECN_CE) {
                note_mark(&mut nic.qps[slot], now, &mut nic.port);
            }
            if lend(nic, slot, ext_headers) {
                responder::handle(&mut nic.qps[slot], &mut nic.port, packet, ext_headers, &mut received);
            } else {
                ext_headers.free(packet.ext);
                received.dropped = true;
                responder::refuse(&mut nic.qps[slot], &mut nic.port, Refusal::Invalid);
            }
            after(nic, slot);
        }
        _ => {
            ext_headers.free(packet.ext);
            received.dropped = true;
        }
    }
    nic.report(before, packet.opcode & OPERATION != Operation::Acknowledge as u8, &mut received);
    received
}
