//! Reliable connections: what a requester sends and hears, what a responder takes and answers.
//!
//! Source: IBA vol. 1 §9.7 (reliable service). XRC, DC and RD are the same with an object that their requests name.

pub(crate) mod requester;
pub(crate) mod responder;
pub(crate) mod target;

use fabriscope_units::Time;
use fabriscope_wire::{Operation, Transport as Code};

use crate::ext_headers::ExtHeaders;
use crate::nic::{Before, Nic, note_mark};
use crate::packet::{Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::transport::interface::Transport;
use crate::transport::outbound::is_response;

/// Reliable connection.
pub(crate) struct Rc;

impl Transport for Rc {
    #[inline]
    fn claims(packet: &Packet) -> bool {
        packet.opcode >> 5 == Code::Rc as u8
    }
    #[inline]
    fn poll_transmit(qp: &mut Qp, now: Time, port: &mut Port, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
        requester::poll(qp, now, port, ext_headers)
    }
    #[inline]
    fn handle(nic: &mut Nic, now: Time, packet: &Packet, slot: Option<usize>, ext_headers: &mut ExtHeaders) -> Received {
        let mut received = Received::default();
        let Some(slot) = slot else {
            ext_headers.free(packet.ext);
            received.dropped = true;
            return received;
        };
        let Nic { qps, port, .. } = nic;
        let before = Before::of(port);
        let qp = &mut qps[slot];
        if packet.flags.contains(PacketFlags::ECN_CE) {
            note_mark(qp, now, port);
        }
        if qp.path_flag != PacketFlags::NONE {
            qp.hear_migration(packet.flags, port);
        }
        let mut follows_payload = true;
        if is_response(packet.opcode) {
            follows_payload = packet.opcode != Operation::Acknowledge as u8;
            requester::handle(qp, now, port, packet, ext_headers, &mut received);
        } else {
            responder::handle(qp, port, packet, ext_headers, &mut received);
        }
        before.report(port, follows_payload, &mut received);
        received
    }
    fn handle_timeout(qp: &mut Qp, now: Time, port: &mut Port) {
        requester::handle_timeout(qp, now, port);
    }
}
