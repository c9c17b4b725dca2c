//! Raw packets: what a program posts goes onto the wire as it is.
//!
//! Source: man page ibv_create_qp(3) (`IBV_QPT_RAW_PACKET`); IBA vol. 1 §5.2.1 (raw packets).
//! Modelled: one packet for each request, to the NIC of an address handle; every raw queue pair of that NIC takes a copy, as if
//! each had a rule for all traffic; no checks, no answers.
//! Not modelled: flow steering, the bytes of an Ethernet header (they are counted on the wire, not taken from the payload).

use fabriscope_units::{Bytes, Time};
use fabriscope_wire::Opcode;

use crate::attr::{QpState, QpType};
use crate::error::PostError;
use crate::ext_headers::{Ext, ExtHeaders};
use crate::ids::WqeIndex;
use crate::memory;
use crate::nic::{Before, Nic};
use crate::packet::{Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::modify::entropy;
use crate::qp::requester::{Extra, Route};
use crate::transport::inbound;
use crate::transport::interface::Transport;
use crate::transport::outbound::{assign, data_ext, local_error};
use crate::transport::relay;
use crate::wc::{WcOpcode, WcStatus};
use crate::words::WordsId;
use crate::wr::{SendFlags, SendWr};

/// Raw packets.
pub(crate) struct Raw;

impl Transport for Raw {
    #[inline]
    fn claims(packet: &Packet) -> bool {
        packet.opcode == Opcode::RAW
    }
    fn route(nic: &Nic, qp: &Qp, wr: &SendWr) -> Result<Option<Route>, PostError> {
        relay::addressed(nic, qp, wr).map(Some)
    }
    #[inline]
    fn poll_transmit(qp: &mut Qp, _: Time, port: &mut Port, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
        poll(qp, port, ext_headers)
    }
    fn handle(nic: &mut Nic, _: Time, packet: &Packet, _: Option<usize>, ext_headers: &mut ExtHeaders) -> Received {
        let mut received = Received::default();
        let before = Before::of(&nic.port);
        arrived(&mut nic.qps, &mut nic.port, packet, ext_headers, &mut received);
        nic.report(before, true, &mut received);
        received
    }
}

/// The next packet; its request completes with it.
fn poll(qp: &mut Qp, port: &mut Port, side: &mut ExtHeaders) -> Option<Transmit> {
    if qp.state != QpState::Rts || qp.requester.cursor >= qp.requester.ready {
        qp.check_drained(port);
        return None;
    }
    if let Some(status) = local_error(qp, port, qp.mtu()) {
        qp.enter_send_error(status, port);
        return None;
    }
    assign(qp);
    let wqe = &qp.requester.queue[0];
    let Extra::Datagram { dest, sl, .. } = wqe.extra else { return None };
    let payload = wqe.length as u16;
    let ext = Ext { src_qp: qp.num, slid: port.lid, ..data_ext(qp.init.pd, wqe, port, (0, payload), false) };
    let traced = if wqe.flags.contains(SendFlags::TRACED) { PacketFlags::TRACED } else { PacketFlags::NONE };
    let packet = Packet {
        dest,
        dest_qp: 0,
        psn: 0,
        ext: side.alloc(ext),
        wire_bytes: port.raw_bytes(payload),
        payload,
        opcode: Opcode::RAW,
        flags: traced,
        syndrome: 0,
        sl,
        entropy: entropy(port.lid, dest, qp.num.0),
        msn: 0,
    };
    let transmit = wqe.in_one(packet, qp.num, WqeIndex(qp.requester.front), &port.regions);
    qp.requester.cursor_psn = qp.requester.next_psn;
    qp.complete_front(port);
    qp.check_drained(port);
    Some(transmit)
}

/// A raw packet arrived.
fn arrived(qps: &mut [Qp], port: &mut Port, packet: &Packet, side: &mut ExtHeaders, received: &mut Received) {
    received.dropped = true;
    let Some(ext) = side.take(packet.ext) else { return };
    if !ext.holds(packet.payload) {
        return;
    }
    let takes = |qp: &&mut Qp| qp.live && qp.qp_type == QpType::RawPacket && matches!(qp.state, QpState::Rtr | QpState::Rts | QpState::Sqd);
    for qp in qps.iter_mut().filter(takes) {
        if inbound::take_receive(qp, port, received).is_err() {
            continue; // nobody looks: dropped, as Ethernet does
        }
        let room = inbound::check_receive(port, qp.init.pd, &qp.responder.inbound.recv);
        if !room.is_ok_and(|room| room >= u32::from(packet.payload)) {
            if let Some(wqe) = qp.responder.inbound.recv.take() {
                qp.fail_receive(wqe, WcStatus::LocLenErr, port);
            }
            continue;
        }
        if let (Some(memory), Some(data), Some(wqe)) = (&mut port.memory, &ext.data, &qp.responder.inbound.recv) {
            memory::scatter(memory.as_mut(), qp.init.pd, &wqe.sge, 0, data);
        }
        received.dropped = false;
        received.ended = true;
        received.write += Bytes(u64::from(packet.payload));
        received.place = inbound::landing(port, &qp.responder.inbound.recv, 0, u32::from(packet.payload));
        qp.complete_receive(WcOpcode::Recv, u32::from(packet.payload), (None, WordsId::NONE), packet, port);
    }
}
