//! Reliable connections: what a requester sends and hears, what a responder takes and answers.
//!
//! Source: IBA vol. 1 §9.7 (reliable service). XRC, DC and RD are the same with an object that their requests name.

pub(crate) mod requester;
pub(crate) mod responder;
pub(crate) mod target;

use fabriscope_units::Time;
use fabriscope_wire::{Operation, Transport as Code};

use crate::ext_headers::ExtHeaders;
use crate::nic::Nic;
use crate::packet::{Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::transport::interface::{Transport, to_queue_pair};
use crate::transport::outbound::is_response;

/// Reliable connection.
pub(crate) struct Rc;

impl Transport for Rc {
    const CODE: Option<Code> = Some(Code::Rc);

    #[inline]
    fn poll_transmit(qp: &mut Qp, now: Time, port: &mut Port, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
        requester::poll(qp, now, port, ext_headers)
    }
    #[inline]
    fn handle(nic: &mut Nic, now: Time, packet: &Packet, slot: Option<usize>, ext_headers: &mut ExtHeaders) -> Received {
        to_queue_pair(nic, now, packet, slot, ext_headers, |qp, port, ext_headers, received| {
            if qp.path_flag != PacketFlags::NONE {
                qp.hear_migration(packet.flags, port);
            }
            if is_response(packet.opcode) {
                requester::handle(qp, now, port, packet, ext_headers, received);
                return packet.opcode != Operation::Acknowledge as u8;
            }
            responder::handle(qp, port, packet, ext_headers, received);
            true
        })
    }
    fn handle_timeout(qp: &mut Qp, now: Time, port: &mut Port) {
        requester::handle_timeout(qp, now, port);
    }
}
