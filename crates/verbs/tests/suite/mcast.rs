//! Groups at an adapter: attaching, copies for several queue pairs, loopback, keys, and what is refused.

use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::*;

const GROUP: Lid = Lid::multicast(0xC001);
const MTU: Mtu = Mtu::B2048;

struct TestEnd {
    nic: Nic,
    pd: PdId,
    mr: Mr,
    cq: CqId,
}

fn end(lid: u32) -> TestEnd {
    let mut nic = Nic::new(NicConfig { lid: Lid(lid), datagram_mtu: MTU.bytes(), ..NicConfig::default() });
    let pd = nic.alloc_pd();
    let mr = nic.reg_mr(pd, 0, Bytes(1 << 20), Access::ALL).unwrap();
    let cq = nic.create_cq(64).unwrap();
    TestEnd { nic, pd, mr, cq }
}

impl TestEnd {
    fn qp(&mut self, qkey: u32, change: impl Fn(&mut QpInit)) -> QpNum {
        let mut init = QpInit::new(self.pd, QpType::Ud, self.cq);
        change(&mut init);
        let qp = self.nic.create_qp(&init).unwrap();
        for step in [QpAttr::init_ud(qkey), QpAttr::rtr_ud(), QpAttr::rts(0)] {
            self.nic.modify_qp(qp, &step).unwrap();
        }
        let buffer = Sge { addr: 0, length: 8192, lkey: self.mr.lkey };
        self.nic.post_recv(Time::ZERO, qp, &RecvWr::new(u64::from(qp.0), buffer)).unwrap();
        qp
    }
    fn post(&mut self, qp: QpNum, dlid: Lid, remote_qpn: QpNum, qkey: u32, length: u32) -> Result<Posted, PostError> {
        let ah = self.nic.create_ah(self.pd, AhAttr { dlid, sl: 0 }).unwrap();
        let sge = Sge { addr: 4096, length, lkey: self.mr.lkey };
        let wr = SendWr::send(1, sge).signaled().to(UdDestination { ah, remote_qpn, remote_qkey: qkey });
        self.nic.post_send(Time::ZERO, qp, &wr)
    }
    fn send(&mut self, side: &mut ExtHeaders, qp: QpNum, qkey: u32, length: u32) -> Option<Packet> {
        let posted = self.post(qp, GROUP, QpNum::MULTICAST, qkey, length).unwrap();
        self.nic.doorbell(Time::ZERO, qp, posted.wqe);
        self.nic.poll_transmit(Time::ZERO, side).map(|transmit| transmit.packet)
    }
    /// What the engine does with a packet for a group: once for each listener.
    fn deliver(&mut self, packet: &Packet, side: &mut ExtHeaders) -> Vec<(QpNum, Received)> {
        let mut listeners = Vec::new();
        self.nic.mcast_listeners(packet, side, &mut listeners);
        let copies = listeners.into_iter().map(|qp| {
            let copy = Packet { dest_qp: qp.0, ext: side.duplicate(packet.ext), ..*packet };
            (qp, self.nic.handle_packet(Time::ZERO, &copy, side))
        });
        copies.collect()
    }
    fn status(&mut self) -> Option<WcStatus> {
        self.nic.poll_completion().map(|(_, wc)| wc.status)
    }
}

#[test]
fn every_attached_queue_pair_gets_a_copy_behind_forty_bytes() {
    let (mut from, mut to, mut side) = (end(1), end(2), ExtHeaders::new());
    let sender = from.qp(7, |_| ());
    let listeners = [to.qp(7, |_| ()), to.qp(7, |_| ())];
    let (other_key, stranger) = (to.qp(8, |_| ()), to.qp(7, |_| ()));
    for qp in [listeners[0], listeners[1], other_key] {
        to.nic.attach_mcast(qp, GROUP).unwrap();
    }
    to.nic.attach_mcast(stranger, Lid::multicast(0xC002)).unwrap();
    let packet = from.send(&mut side, sender, 7, 100).unwrap();
    assert_eq!((packet.dest.mlid(), packet.dest_qp), (Some(0xC001), 0xFF_FFFF));
    // LRH 8, GRH 40, BTH 12, DETH 8, ICRC 4, VCRC 2, delimiters 2.
    assert_eq!(u32::from(packet.wire_bytes), 100 + 76);
    let got = to.deliver(&packet, &mut side);
    let taken: Vec<QpNum> = got.iter().filter(|(_, received)| !received.dropped).map(|(qp, _)| *qp).collect();
    assert_eq!(taken, listeners, "a queue pair with another Q_Key and one of another group do not");
    for (qp, received) in got.iter().filter(|(_, received)| !received.dropped) {
        let (_, wc) = received.completion.unwrap();
        assert_eq!((wc.byte_len, wc.grh, wc.qp_num, wc.slid, wc.src_qp), (140, true, *qp, Lid(1), sender));
        assert_eq!(received.write, Bytes(140));
    }
    to.nic.detach_mcast(listeners[0], GROUP).unwrap();
    assert_eq!(to.deliver(&packet, &mut side).len(), 2);
    side.free(packet.ext);
    assert!(side.is_empty());
}

#[test]
fn loopback_may_be_blocked() {
    let (mut me, mut side) = (end(1), ExtHeaders::new());
    let (open, blocked) = (me.qp(7, |_| ()), me.qp(7, |init| init.block_mcast_loopback = true));
    for qp in [open, blocked] {
        me.nic.attach_mcast(qp, GROUP).unwrap();
    }
    for (sender, expected) in [(open, vec![open, blocked]), (blocked, vec![open])] {
        let packet = me.send(&mut side, sender, 7, 64).unwrap();
        let got: Vec<QpNum> = me.deliver(&packet, &mut side).iter().map(|(qp, _)| *qp).collect();
        assert_eq!(got, expected);
        side.free(packet.ext);
    }
}

#[test]
fn what_is_too_long_ends_in_an_error() {
    let (mut from, mut side) = (end(1), ExtHeaders::new());
    let qp = from.qp(7, |_| ());
    assert!(from.send(&mut side, qp, 7, 2048).is_some());
    assert_eq!(from.status(), Some(WcStatus::Success));
    assert!(from.send(&mut side, qp, 7, 2049).is_none());
    assert_eq!(from.status(), Some(WcStatus::LocLenErr));
    assert_eq!(from.nic.query_qp(qp).unwrap().state, QpState::Sqe);
}

#[test]
fn refusals() {
    let mut end = end(1);
    let qp = end.qp(7, |_| ());
    let rc = end.nic.create_qp(&QpInit::new(end.pd, QpType::Rc, end.cq)).unwrap();
    assert_eq!(end.nic.attach_mcast(rc, GROUP), Err(VerbsError::NotDatagram { qp: rc, qp_type: QpType::Rc }));
    assert_eq!(end.nic.attach_mcast(qp, Lid(3)), Err(VerbsError::NotMulticast { lid: Lid(3) }));
    assert_eq!(end.nic.detach_mcast(qp, GROUP), Err(VerbsError::NotAttached { qp }));
    end.nic.attach_mcast(qp, GROUP).unwrap();
    assert_eq!(end.nic.attach_mcast(qp, GROUP), Err(VerbsError::AlreadyAttached { qp }));
    assert!(matches!(end.nic.destroy_qp(qp), Err(VerbsError::Busy { .. })));
    // 0xFFFFFF goes with groups, and groups with it.
    assert_eq!(end.post(qp, GROUP, qp, 7, 1), Err(PostError::MulticastQp { dest: GROUP, qp }));
    assert_eq!(end.post(qp, Lid(2), QpNum::MULTICAST, 7, 1), Err(PostError::MulticastQp { dest: Lid(2), qp: QpNum::MULTICAST }));
    end.nic.detach_mcast(qp, GROUP).unwrap();
    end.nic.destroy_qp(qp).unwrap();
    assert_eq!(end.nic.attach_mcast(qp, GROUP), Err(VerbsError::NoSuchQp { qp }));
}

#[test]
fn answers_come_as_completions() {
    let mut end = end(1);
    let change = Change::Join { state: JoinState::Full, qkey: 7 };
    let request = Membership { mgid: [0xFF; 16], change, cq: end.cq, wr_id: 9 };
    end.nic.post_membership(request);
    assert_eq!((end.nic.poll_membership(), end.nic.poll_membership()), (Some(request), None));
    for (mlid, status) in [(Some(0xC000), WcStatus::Success), (None, WcStatus::RemInvReqErr)] {
        end.nic.deliver(Time::ZERO, end.cq, request.answer(mlid));
        let mut into = Vec::new();
        end.nic.poll_cq(Time::ZERO, end.cq, 1, &mut into);
        assert_eq!((into[0].wr_id, into[0].status, into[0].imm), (9, status, mlid.map(u32::from)));
    }
}
