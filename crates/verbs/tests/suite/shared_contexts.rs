//! Transports whose queue pairs reach every peer: what they share, what they survive, how they fail.

use crate::fleet;
use fabriscope_units::Remedy;
use fabriscope_units::Span;
use fabriscope_verbs::*;
use fleet::{Faults, Fleet, QKEY};

fn fleet(kind: QpType) -> Fleet {
    Fleet::new(kind, 3, Mtu::B1024, Faults::default(), cc::Settings::default())
}

/// (`wr_id`, status) of the sends and receives that completed at a node.
fn ends(fleet: &Fleet, node: usize) -> Vec<(u64, &'static str)> {
    fleet.nodes[node].done.iter().map(|wc| (wc.wr_id, wc.status.name())).collect()
}

fn send(fleet: &mut Fleet, from: usize, to: usize, id: u64, length: u32) {
    let sge = fleet.sge(from, 0, length);
    fleet.post(from, to, SendWr::send(id, sge).signaled()).unwrap();
}

fn receive(fleet: &mut Fleet, from: usize, to: usize, id: u64) {
    let sge = fleet.sge(to, 0x10000, 0x8000);
    fleet.post_recv(from, to, id, sge).unwrap();
}

#[test]
fn one_context_serves_all_queue_pairs_of_a_peer() {
    for kind in [QpType::Srd, QpType::Uet] {
        let mut fleet = fleet(kind);
        for (id, to) in [(1, 1), (2, 2), (3, 1), (4, 2)] {
            receive(&mut fleet, 0, to, id);
            send(&mut fleet, 0, to, id, 900);
        }
        assert!(fleet.run(10_000));
        assert_eq!(fleet.nodes[0].done.len(), 4);
        let contexts: Vec<usize> = fleet.nodes.iter().map(|node| node.nic.contexts()).collect();
        assert_eq!(contexts, [2, 1, 1], "{kind:?}");
    }
}

/// 32 packets of 1 KiB: SRD acknowledges each, Ultra Ethernet after 16 KiB, which the last packet makes twice.
#[test]
fn ultra_ethernet_acknowledges_by_bytes() {
    for (kind, packets) in [(QpType::Srd, 32 + 32), (QpType::Uet, 32 + 2), (QpType::UetRod, 32 + 2)] {
        let mut fleet = fleet(kind);
        let (sge, remote) = (fleet.sge(0, 0, 0x8000), fleet.remote(1, 0x8000));
        fleet.post(0, 1, SendWr::write(1, sge, remote).signaled()).unwrap();
        assert!(fleet.run(10_000));
        assert_eq!(ends(&fleet, 0), [(1, "IBV_WC_SUCCESS")]);
        assert_eq!(fleet.sent, packets, "{kind:?}");
        assert!(fleet.side.is_empty(), "{kind:?}");
    }
}

#[test]
fn a_message_without_a_receive_waits_and_the_others_go_on() {
    for kind in [QpType::Srd, QpType::Uet, QpType::Rd, QpType::Dci, QpType::XrcSend] {
        let mut fleet = fleet(kind);
        send(&mut fleet, 0, 1, 1, 900);
        receive(&mut fleet, 0, 2, 2);
        fleet.run(60);
        if kind != QpType::Dci && kind != QpType::XrcSend {
            send(&mut fleet, 0, 2, 2, 900);
            fleet.run(40);
            assert_eq!(ends(&fleet, 0), [(2, "IBV_WC_SUCCESS")], "{kind:?}");
        }
        receive(&mut fleet, 0, 1, 1);
        assert!(fleet.run(10_000), "{kind:?}");
        assert_eq!(ends(&fleet, 1), [(1, "IBV_WC_SUCCESS")], "{kind:?}");
    }
}

#[test]
fn receiver_retries_run_out_for_one_message_only() {
    let mut fleet = fleet(QpType::Uet);
    let qp = fleet.nodes[0].to[1];
    fleet.nodes[0].nic.modify_qp(qp, &QpAttr { rnr_retry: Some(2), ..QpAttr::default() }).unwrap_err();
    fleet.nodes[0].nic.modify_qp(qp, &QpAttr::to(QpState::Reset)).unwrap();
    for attr in [QpAttr::init_datagram(QKEY, Access::ALL), QpAttr::rtr_ud(), QpAttr { rnr_retry: Some(2), ..QpAttr::rts(0) }] {
        fleet.nodes[0].nic.modify_qp(qp, &attr).unwrap();
    }
    send(&mut fleet, 0, 1, 1, 3000);
    assert!(fleet.run(10_000));
    assert_eq!(ends(&fleet, 0), [(1, "IBV_WC_RNR_RETRY_EXC_ERR")]);
    receive(&mut fleet, 0, 1, 2);
    send(&mut fleet, 0, 1, 2, 3000);
    assert!(fleet.run(10_000));
    assert_eq!(ends(&fleet, 0)[1], (2, "IBV_WC_SUCCESS"));
    assert_eq!(ends(&fleet, 1), [(2, "IBV_WC_SUCCESS")]);
}

#[test]
fn a_refused_message_ends_and_the_others_go_on() {
    for kind in [QpType::Srd, QpType::Uet] {
        let mut fleet = fleet(kind);
        let sge = fleet.sge(0, 0, 2000);
        let wrong = Remote { rkey: Rkey(0xdead), ..fleet.remote(1, 0x10000) };
        let right = fleet.remote(1, 0x20000);
        fleet.post(0, 1, SendWr::write(1, sge, wrong).signaled()).unwrap();
        fleet.post(0, 1, SendWr::read(2, sge, wrong).signaled()).unwrap();
        fleet.post(0, 1, SendWr::write(3, sge, right).signaled()).unwrap();
        receive(&mut fleet, 0, 1, 4);
        send(&mut fleet, 0, 1, 4, 100);
        assert!(fleet.run(10_000));
        let mut seen = ends(&fleet, 0);
        seen.sort_unstable();
        let refused = "IBV_WC_REM_ACCESS_ERR";
        assert_eq!(seen, [(1, refused), (2, refused), (3, "IBV_WC_SUCCESS"), (4, "IBV_WC_SUCCESS")], "{kind:?}");
    }
}

/// On RD the queue pair whose request was refused fails; its end-to-end context goes on for others.
#[test]
fn an_end_to_end_context_survives_a_refused_request() {
    let mut fleet = fleet(QpType::Rd);
    let sge = fleet.sge(0, 0, 2000);
    let wrong = Remote { rkey: Rkey(0xdead), ..fleet.remote(1, 0x10000) };
    fleet.post(0, 1, SendWr::write(1, sge, wrong).signaled()).unwrap();
    assert!(fleet.run(10_000));
    assert_eq!(ends(&fleet, 0), [(1, "IBV_WC_REM_ACCESS_ERR")]);
    let qp = fleet.nodes[0].to[1];
    assert_eq!(fleet.nodes[0].nic.query_qp(qp).unwrap().state, QpState::Err);
    fleet.nodes[0].nic.modify_qp(qp, &QpAttr::to(QpState::Reset)).unwrap();
    for attr in [QpAttr::init_datagram(QKEY, Access::ALL), QpAttr::rtr_ud(), QpAttr::rts(0)] {
        fleet.nodes[0].nic.modify_qp(qp, &attr).unwrap();
    }
    receive(&mut fleet, 0, 1, 2);
    send(&mut fleet, 0, 1, 2, 3000);
    assert!(fleet.run(10_000));
    assert_eq!(ends(&fleet, 0)[1], (2, "IBV_WC_SUCCESS"));
}

/// A peer that does not answer: every request ends, and when it answers again a new incarnation of the context reaches it.
#[test]
fn a_silent_peer_ends_requests_and_may_come_back() {
    for kind in [QpType::Srd, QpType::Uet] {
        let mut fleet = Fleet::new(kind, 2, Mtu::B1024, Faults { lose: 1000, seed: 1, ..Faults::default() }, cc::Settings::default());
        for id in 1..4 {
            receive(&mut fleet, 0, 1, id);
            send(&mut fleet, 0, 1, id, 500);
        }
        let remote = fleet.remote(1, 0);
        let sge = fleet.sge(0, 0, 64);
        fleet.post(0, 1, SendWr::read(4, sge, remote).signaled()).unwrap();
        assert!(fleet.run(10_000));
        let gone = "IBV_WC_RETRY_EXC_ERR";
        assert_eq!(ends(&fleet, 0), [(1, gone), (2, gone), (3, gone), (4, gone)], "{kind:?}");
        assert!(fleet.now - fabriscope_units::Time::ZERO < Span::from_us(100_000));
        fleet.heal();
        send(&mut fleet, 0, 1, 5, 500);
        assert!(fleet.run(10_000));
        assert_eq!(ends(&fleet, 0)[4], (5, "IBV_WC_SUCCESS"), "{kind:?}");
        assert_eq!(ends(&fleet, 1), [(1, "IBV_WC_SUCCESS")]);
    }
}

/// An initiator that turns from target to target connects anew each time; a target makes one responder for each initiator.
#[test]
fn dynamic_connections_follow_the_requests() {
    let mut fleet = fleet(QpType::Dci);
    let before = fleet.sent;
    for (id, to) in [(1, 1), (2, 1), (3, 2), (4, 1)] {
        receive(&mut fleet, 0, to, id);
        send(&mut fleet, 0, to, id, 100);
    }
    assert!(fleet.run(10_000));
    let done = ends(&fleet, 0);
    assert_eq!(done, [1, 2, 3, 4].map(|id| (id, "IBV_WC_SUCCESS")));
    // Three connections, two of them left: 3 connect, 2 disconnect, 4 data and 4 acknowledgements.
    assert_eq!(fleet.sent - before, 13);
    assert_eq!([1, 2].map(|node| fleet.nodes[node].nic.dc_responders()), [1, 1]);
}

#[test]
fn a_wrong_access_key_is_refused() {
    let mut fleet = fleet(QpType::Dci);
    receive(&mut fleet, 0, 1, 1);
    let (ah, dct) = (fleet.nodes[0].ah[1], fleet.nodes[1].from[0]);
    let sge = fleet.sge(0, 0, 100);
    let wr = SendWr::send(1, sge).signaled().to(UdDestination { ah, remote_qpn: dct, remote_qkey: QKEY + 1 });
    let (now, qp) = (fleet.now, fleet.nodes[0].to[1]);
    let posted = fleet.nodes[0].nic.post_send(now, qp, &wr).unwrap();
    fleet.nodes[0].nic.doorbell(now, qp, posted.wqe);
    assert!(fleet.run(10_000));
    assert_eq!(ends(&fleet, 0), [(1, "IBV_WC_REM_ACCESS_ERR")]);
}

#[test]
fn messages_longer_than_the_transport_takes_fail_locally() {
    let mut fleet = fleet(QpType::Srd);
    send(&mut fleet, 0, 1, 1, 1025);
    assert!(fleet.run(1000));
    assert_eq!(ends(&fleet, 0), [(1, "IBV_WC_LOC_LEN_ERR")]);
}

#[test]
fn objects_that_do_not_fit_a_type_are_named() {
    let mut nic = Nic::new(NicConfig::default());
    let pd = nic.alloc_pd();
    let cq = nic.create_cq(16).unwrap();
    let srq = Some(nic.create_srq(pd, 4, 1).unwrap());
    let mut message = |init: QpInit| nic.create_qp(&init).unwrap_err().in_full();
    let of = |qp_type| QpInit::new(pd, qp_type, cq);
    assert_eq!(
        message(of(QpType::Dct)),
        "a queue pair of type DCT with no shared receive queue; targets of DC receive from one: give `srq`"
    );
    assert_eq!(message(of(QpType::XrcRecv)), "a queue pair of type XRC_RECV with no XRC domain; take one from open_xrcd and give `xrcd`");
    assert_eq!(message(QpInit { srq, ..of(QpType::Srd) }), "a queue pair of type SRD with a shared receive queue; leave `srq` out");
}

/// A request that is refused ends so, however its refusal and the acknowledgements of others overtake each other and are lost.
#[test]
fn no_acknowledgement_hides_a_refusal() {
    for kind in [QpType::Srd, QpType::Uet, QpType::UetRod, QpType::UetRudi] {
        for seed in 1..30 {
            let faults = Faults { lose: 100, duplicate: 50, reorder: 300, trim: 30, seed };
            let mut fleet = Fleet::new(kind, 2, Mtu::B256, faults, cc::Settings::default());
            for id in 0..30 {
                let (sge, remote) = (fleet.sge(0, 0, 600), fleet.remote(1, 0x1000 * (1 + id)));
                let remote = if id % 3 == 0 { Remote { rkey: Rkey(remote.rkey.0 ^ 1), ..remote } } else { remote };
                fleet.post(0, 1, SendWr::write(id, sge, remote).signaled()).unwrap();
            }
            assert!(fleet.run(100_000), "{kind:?}");
            let mut found = ends(&fleet, 0);
            found.sort_unstable();
            let due = |id: u64| if id.is_multiple_of(3) { "IBV_WC_REM_ACCESS_ERR" } else { "IBV_WC_SUCCESS" };
            let due: Vec<_> = (0..30).map(|id| (id, due(id))).collect();
            assert_eq!(found, due, "{kind:?}, seed {seed}");
        }
    }
}

/// A packet that was trimmed is told by its header: the peer is there, and no counter runs down, however often that happens.
#[test]
fn trimming_is_no_silence() {
    for kind in [QpType::Srd, QpType::Uet, QpType::UetRod, QpType::UetRudi] {
        for seed in 1..10 {
            // Nine packets of ten lose their payload: of a packet in three the eighth copy is cut off too.
            let faults = Faults { lose: 0, duplicate: 0, reorder: 0, trim: 900, seed };
            let mut fleet = Fleet::new(kind, 2, Mtu::B256, faults, cc::Settings::default());
            for id in 0..10 {
                let (sge, remote) = (fleet.sge(0, 0, 600), fleet.remote(1, 0x1000 * (1 + id)));
                fleet.post(0, 1, SendWr::write(id, sge, remote).signaled()).unwrap();
            }
            assert!(fleet.run(100_000), "{kind:?}");
            let mut found = ends(&fleet, 0);
            found.sort_unstable();
            assert_eq!(found, (0..10).map(|id| (id, "IBV_WC_SUCCESS")).collect::<Vec<_>>(), "{kind:?}, seed {seed}");
            // Headers are never lost here, so nobody ever waits in vain; the timer of idempotent requests runs on when they are over.
            if kind != QpType::UetRudi {
                assert_eq!(fleet.nodes[0].nic.counts().ack_timeouts, 0, "{kind:?}, seed {seed}");
            }
        }
    }
}

#[test]
fn idempotent_delivery_leaves_nothing_at_the_receiver() {
    let mut fleet = fleet(QpType::UetRudi);
    for (id, to) in [(1, 1), (2, 2)] {
        let (sge, remote) = (fleet.sge(0, 0, 5000), fleet.remote(to, 0x1000));
        fleet.post(0, to, SendWr::write(id, sge, remote).signaled()).unwrap();
        fleet.post(0, to, SendWr::read(10 + id, sge, remote).signaled()).unwrap();
    }
    assert!(fleet.run(10_000));
    assert!(fleet.nodes[0].done.iter().all(|wc| wc.status == WcStatus::Success) && fleet.nodes[0].done.len() == 4);
    let contexts: Vec<usize> = fleet.nodes.iter().map(|node| node.nic.contexts()).collect();
    assert_eq!(contexts, [2, 0, 0]);
    let sge = fleet.sge(0, 0, 8);
    let refused = fleet.post(0, 1, SendWr::send(1, sge));
    assert_eq!(refused, Err(PostError::OpcodeNotSupported { opcode: WrOpcode::Send, qp_type: QpType::UetRudi }));
}
