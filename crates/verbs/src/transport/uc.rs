//! Unreliable connection: packets are sent once, a gap loses the message it falls into.
//!
//! Source: IBA vol. 1 §9.8.2 (unreliable connected service), §9.9.3.
//! Modelled: segmentation, detection of gaps, messages dropped whole, receives kept for the next message.
//! Not modelled: –

use fabriscope_units::{Bytes, Time};
use fabriscope_wire::{Opcode, Psn, Transport as Code};

use crate::attr::QpState;
use crate::ext_headers::ExtHeaders;
use crate::nic::Nic;
use crate::packet::{Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::responder::Kind;
use crate::transport::inbound::{self, Refusal};
use crate::transport::interface::{Transport, to_queue_pair};
use crate::transport::outbound::{LONGEST_MESSAGE, MOST_PACKETS, assign, data_packet, local_error};
use crate::wc::WcStatus;

/// Unreliable connection.
pub(crate) struct Uc;

impl Transport for Uc {
    const CODE: Option<Code> = Some(Code::Uc);

    #[inline]
    fn poll_transmit(qp: &mut Qp, _: Time, port: &mut Port, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
        poll(qp, port, ext_headers)
    }
    #[inline]
    fn handle(nic: &mut Nic, now: Time, packet: &Packet, slot: Option<usize>, ext_headers: &mut ExtHeaders) -> Received {
        to_queue_pair(nic, now, packet, slot, ext_headers, |qp, port, ext_headers, received| {
            arrived(qp, port, packet, ext_headers, received);
            true
        })
    }
}

/// The next packet; a request completes with its last one.
#[inline]
fn poll(qp: &mut Qp, port: &mut Port, side: &mut ExtHeaders) -> Option<Transmit> {
    if !matches!(qp.state, QpState::Rts | QpState::Sqd) || qp.requester.cursor >= qp.requester.ready {
        return None;
    }
    if qp.requester.cursor == qp.requester.assigned {
        if qp.state == QpState::Sqd {
            return None;
        }
        if let Some(status) = local_error(qp, port, LONGEST_MESSAGE.min(MOST_PACKETS.saturating_mul(qp.mtu()))) {
            qp.enter_send_error(status, port);
            return None;
        }
        assign(qp);
    }
    let wqe = &qp.requester.queue[0];
    let psn = qp.requester.cursor_psn;
    let number = psn.distance(wqe.first_psn) as u32;
    let last = number + 1 == wqe.packets;
    let transmit = data_packet(qp, port, side, 0, number, PacketFlags::NONE);
    qp.requester.cursor_psn = psn.next();
    if last {
        qp.complete_front(port);
        qp.check_drained(port);
    }
    Some(transmit)
}

/// A packet arrived.
#[inline]
fn arrived(qp: &mut Qp, port: &mut Port, packet: &Packet, side: &mut ExtHeaders, received: &mut Received) {
    let ext = side.take(packet.ext);
    if matches!(qp.state, QpState::Reset | QpState::Init | QpState::Err) {
        received.dropped = true;
        return;
    }
    inbound::established(qp, port);
    let psn = Psn::new(packet.psn);
    let starts = Opcode::decode(packet.opcode).is_ok_and(Opcode::is_first);
    if starts || psn != qp.responder.expected {
        // What was being received is incomplete for good.
        qp.responder.inbound.kind = Kind::None;
    }
    qp.responder.expected = psn.next();
    match inbound::accept(qp, port, packet, ext.as_ref(), received) {
        Ok(ended) => {
            received.ended = ended;
            received.write = Bytes(u64::from(packet.payload));
            qp.responder.msn = (qp.responder.msn + u32::from(ended)) & 0xff_ffff;
        }
        Err(refusal) => {
            received.dropped = true;
            qp.responder.inbound.kind = Kind::None;
            let status = match refusal {
                Refusal::TooLong => WcStatus::LocLenErr,
                Refusal::LocalProtection => WcStatus::LocProtErr,
                Refusal::NoReceive | Refusal::RemoteAccess | Refusal::Invalid => return,
            };
            if let Some(wqe) = qp.responder.inbound.recv.take() {
                qp.fail_receive(wqe, status, port);
            }
            qp.enter_error(port);
        }
    }
}
