//! Extended reliable connection: one for each process here and each node there, whose requests name a shared receive queue.
//!
//! Source: IBA vol. 1 annex A14 (XRCETH names the shared receive queue of a SEND); man page ibv_open_xrcd(3).
//! Modelled: what RC does; the receiving end takes the queue that a request names, if it is of its domain.
//! Not modelled: –

use fabriscope_units::Time;
use fabriscope_wire::{Opcode, Psn, Transport as Code};

use crate::attr::QpType;
use crate::error::PostError;
use crate::ext_headers::{Ext, ExtHeaders};
use crate::ids::SrqId;
use crate::nic::Nic;
use crate::packet::{Packet, Received, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::requester::Route;
use crate::transport::interface::Transport;
use crate::transport::rc::requester;
use crate::transport::relay;
use crate::wr::SendWr;

/// Extended reliable connection.
pub(crate) struct Xrc;

impl Transport for Xrc {
    const CODE: Option<Code> = Some(Code::Xrc);

    fn route(_: &Nic, qp: &Qp, wr: &SendWr) -> Result<Option<Route>, PostError> {
        if qp.qp_type == QpType::XrcRecv {
            return Ok(None);
        }
        let srq = wr.remote_srqn.ok_or(PostError::MissingField { opcode: wr.opcode, field: "remote_srqn" })?;
        Ok(Some(Route { to: srq.0, ..Route::of(qp) }))
    }
    #[inline]
    fn poll_transmit(qp: &mut Qp, now: Time, port: &mut Port, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
        requester::poll(qp, now, port, ext_headers)
    }
    fn handle(nic: &mut Nic, now: Time, packet: &Packet, slot: Option<usize>, ext_headers: &mut ExtHeaders) -> Received {
        relay::handle(
            nic,
            now,
            packet,
            (slot, slot),
            ext_headers,
            |nic, slot, ext_headers| {
                nic.qps[slot].qp_type != QpType::XrcRecv || lend(&mut nic.qps[slot], &nic.port, packet, ext_headers.at(packet.ext))
            },
            |_, _| {},
        )
    }
    fn handle_timeout(qp: &mut Qp, now: Time, port: &mut Port) {
        requester::handle_timeout(qp, now, port);
    }
}

/// The shared receive queue that a request names, before the connection takes it; false if there is no such queue. Only the
/// packet that is expected next borrows anything.
fn lend(qp: &mut Qp, port: &Port, packet: &Packet, ext: Option<&Ext>) -> bool {
    let Ok(opcode) = Opcode::decode(packet.opcode) else { return true };
    let Some(ext) = ext else { return true };
    let first = opcode.is_first() || opcode.has_immediate();
    if !first || Psn::new(packet.psn) != qp.responder.expected {
        return true;
    }
    let takes = opcode.is_send() || opcode.has_immediate();
    let srq = SrqId(ext.context);
    let named = port.srqs.get(srq.0 as usize).and_then(Option::as_ref);
    let found = named.and_then(|queue| Some((queue.xrc?, queue.pd))).filter(|((xrcd, _), _)| Some(*xrcd) == qp.init.xrcd);
    if let Some(((_, cq), pd)) = found {
        // The memory that a request may reach is that of the queue's owner, whatever it asks for.
        qp.init.pd = pd;
        if takes {
            (qp.init.srq, qp.init.recv_cq) = (Some(srq), cq);
        }
    }
    !takes || found.is_some()
}
