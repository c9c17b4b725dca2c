//! A transport of the tests: datagrams that the adapter drops when they arrive, as the discard service of RFC 863 does.
//!
//! Source: RFC 863.
//! Modelled: that a transport is this file and its line in `registry`; nothing else in the crate names it.

use fabriscope_units::Time;

use super::interface::Transport;
use super::{relay, ud::datagram};
use crate::error::PostError;
use crate::ext_headers::ExtHeaders;
use crate::nic::Nic;
use crate::packet::{Packet, Received, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::requester::Route;
use crate::wr::SendWr;

/// Its packets; no transport of the standard, and no body of ours, has the number.
const OPCODE: u8 = 0x9A;

/// Datagrams that are dropped.
pub(crate) struct Discard;

impl Transport for Discard {
    fn claims(packet: &Packet) -> bool {
        packet.opcode == OPCODE
    }
    fn route(nic: &Nic, qp: &Qp, wr: &SendWr) -> Result<Option<Route>, PostError> {
        relay::addressed(nic, qp, wr).map(Some)
    }
    fn poll_transmit(qp: &mut Qp, _: Time, port: &mut Port, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
        let mut transmit = datagram::poll(qp, port, ext_headers)?;
        transmit.packet.opcode = OPCODE;
        Some(transmit)
    }
    fn handle(_: &mut Nic, _: Time, packet: &Packet, _: Option<usize>, ext_headers: &mut ExtHeaders) -> Received {
        ext_headers.free(packet.ext);
        Received { ended: true, ..Received::default() }
    }
}

/// What is sent arrives at this transport and at no other: the request completes, the posted receive of the other side does not.
#[test]
fn a_transport_is_a_file_and_a_line() {
    use crate::{Access, AhAttr, Lid, NicConfig, QpAttr, QpInit, QpType, RecvWr, SendWr, Sge, UdDestination, WcStatus};
    use fabriscope_units::Bytes;

    let mut ends = [1, 2].map(|lid| {
        let mut nic = Nic::new(NicConfig { lid: Lid(lid), ..NicConfig::default() });
        let pd = nic.alloc_pd();
        let mr = nic.reg_mr(pd, 0, Bytes(4096), Access::ALL).unwrap();
        let cq = nic.create_cq(16).unwrap();
        let qp = nic.create_qp(&QpInit::new(pd, QpType::Discard, cq)).unwrap();
        [QpAttr::init_ud(7), QpAttr::rtr_ud(), QpAttr::rts(0)].iter().for_each(|step| nic.modify_qp(qp, step).unwrap());
        (nic, pd, mr, qp)
    });
    let mut ext_headers = ExtHeaders::new();
    let (to, lkey) = (ends[1].3, ends[1].2.lkey);
    ends[1].0.post_recv(Time::ZERO, to, &RecvWr::new(1, Sge { addr: 0, length: 2048, lkey })).unwrap();

    let (nic, pd, mr, qp) = &mut ends[0];
    let ah = nic.create_ah(*pd, AhAttr { dlid: Lid(2), sl: 0 }).unwrap();
    let request = SendWr::send(2, Sge { addr: 0, length: 100, lkey: mr.lkey }).signaled();
    let posted = nic.post_send(Time::ZERO, *qp, &request.to(UdDestination { ah, remote_qpn: to, remote_qkey: 7 })).unwrap();
    nic.doorbell(Time::ZERO, *qp, posted.wqe);
    let packet = nic.poll_transmit(Time::ZERO, &mut ext_headers).unwrap().packet;
    assert_eq!(nic.poll_completion().map(|(_, wc)| (wc.wr_id, wc.status)), Some((2, WcStatus::Success)));

    let nic = &mut ends[1].0;
    let received = nic.handle_packet(Time::ZERO, &packet, &mut ext_headers);
    assert!(received.ended && !received.dropped);
    assert!(nic.poll_completion().is_none());
}
