//! Unreliable connections and datagrams: loss is silent, what arrives is whole.

use crate::pair;
use fabriscope_units::Bytes;
use fabriscope_verbs::*;
use pair::{Faults, Pair};
use proptest::prelude::*;

fn uc(faults: Faults) -> Pair {
    let mut pair = Pair::new(|init| init, QpType::Uc, faults);
    pair.connect(Mtu::B256, 0, |_| (), |_| ());
    pair
}

fn ud() -> (Pair, UdDestination) {
    let mut pair = Pair::new(|init| init, QpType::Ud, Faults::default());
    pair.connect(Mtu::B256, 0, |_| (), |_| ());
    let end = &mut pair.ends[0];
    let ah = end.nic.create_ah(end.pd, AhAttr { dlid: Lid(2), sl: 3 }).unwrap();
    let to = UdDestination { ah, remote_qpn: pair.ends[1].qp, remote_qkey: 7 };
    (pair, to)
}

#[test]
fn an_unreliable_request_completes_when_its_last_packet_left() {
    let mut pair = uc(Faults::default());
    pair.post(0, &SendWr::write(1, pair.sge(0, 0, 600), pair.remote(1, 0)).signaled()).unwrap();
    pair.transmit(0, 2);
    assert!(pair.ends[0].done.is_empty());
    pair.transmit(0, 1);
    assert_eq!(pair.ids(0), [(1, WcStatus::Success)]);
    assert!(pair.run(100));
    assert_eq!((pair.sent, pair.ends[0].nic.poll_timeout()), (3, None), "no acknowledgement, no timer");
}

#[test]
fn a_gap_loses_its_message_and_keeps_its_receive() {
    let mut pair = uc(Faults::default());
    let sge = pair.sge(1, 4096, 1024);
    pair.post_recv(1, 50, sge).unwrap();
    for n in 0..2 {
        pair.fill(0, n * 1024, &[n as u8 + 1; 600]);
        pair.post(0, &SendWr::send(n, pair.sge(0, n * 1024, 600))).unwrap();
    }
    pair.transmit(0, 9);
    let lost = pair.wires[1].remove(1).unwrap();
    pair.side.free(lost.ext);
    assert!(pair.run(100));
    assert_eq!(pair.ids(1), [(50, WcStatus::Success)]);
    assert_eq!(pair.bytes(1, 4096, 600), [2; 600]);
}

#[test]
fn unreliable_messages_without_right_or_receive_are_dropped() {
    let mut pair = uc(Faults::default());
    pair.post(0, &SendWr::write(1, pair.sge(0, 0, 600), Remote { addr: 0, rkey: Rkey(1) })).unwrap();
    pair.post(0, &SendWr::send(2, pair.sge(0, 0, 600))).unwrap();
    assert!(pair.run(100));
    assert_eq!((pair.state(0), pair.state(1)), (QpState::Rts, QpState::Rts));
    let sge = pair.sge(1, 4096, 100);
    pair.post_recv(1, 50, sge).unwrap();
    pair.post(0, &SendWr::send(3, pair.sge(0, 0, 600))).unwrap();
    assert!(pair.run(100));
    assert_eq!((pair.ids(1), pair.state(1)), (vec![(50, WcStatus::LocLenErr)], QpState::Err));
}

#[test]
fn a_local_error_stops_the_send_queue_only() {
    let mut pair = uc(Faults::default());
    let sge = pair.sge(0, 4096, 64);
    pair.post_recv(0, 50, sge).unwrap();
    pair.post(0, &SendWr::send(1, Sge { lkey: Lkey(0), ..pair.sge(0, 0, 8) })).unwrap();
    pair.post(0, &SendWr::send(2, pair.sge(0, 0, 8))).unwrap();
    assert!(pair.run(100));
    assert_eq!(pair.ids(0), [(1, WcStatus::LocProtErr), (2, WcStatus::WrFlushErr)]);
    assert_eq!(pair.state(0), QpState::Sqe);
    pair.post(1, &SendWr::send(3, pair.sge(1, 0, 8))).unwrap();
    assert!(pair.run(100));
    assert_eq!(pair.ids(0)[2], (50, WcStatus::Success));
    let qp = pair.ends[0].qp;
    pair.ends[0].nic.modify_qp(qp, &QpAttr::to(QpState::Rts)).unwrap();
    pair.post(0, &SendWr::send(4, pair.sge(0, 0, 8)).signaled()).unwrap();
    assert!(pair.run(100));
    assert_eq!(pair.ids(0)[3], (4, WcStatus::Success));
}

#[test]
fn a_datagram_brings_40_bytes_and_its_sender() {
    let (mut pair, to) = ud();
    pair.fill(0, 0, &[5; 100]);
    let sge = pair.sge(1, 4096, 140);
    pair.post_recv(1, 50, sge).unwrap();
    pair.post(0, &SendWr::send(1, pair.sge(0, 0, 100)).with_imm(9).to(to).signaled()).unwrap();
    assert!(pair.run(100));
    assert_eq!(pair.ids(0), [(1, WcStatus::Success)]);
    let wc = pair.ends[1].done[0];
    assert_eq!((wc.byte_len, wc.imm, wc.grh), (140, Some(9), true));
    assert_eq!((wc.src_qp, wc.slid, wc.sl), (pair.ends[0].qp, Lid(1), 3));
    assert_eq!(pair.bytes(1, 4096, 140), [&[0; 40][..], &[5; 100]].concat());
}

#[test]
fn datagrams_need_the_key_and_a_receive() {
    let (mut pair, to) = ud();
    pair.post(0, &SendWr::send(1, pair.sge(0, 0, 100)).to(to)).unwrap();
    assert!(pair.run(100));
    let sge = pair.sge(1, 4096, 140);
    pair.post_recv(1, 50, sge).unwrap();
    pair.post(0, &SendWr::send(2, pair.sge(0, 0, 100)).to(UdDestination { remote_qkey: 8, ..to })).unwrap();
    assert!(pair.run(100));
    assert!(pair.ends[1].done.is_empty());
    // The top bit stands for the key of the sending queue pair, which is the right one.
    pair.post(0, &SendWr::send(3, pair.sge(0, 0, 101)).to(UdDestination { remote_qkey: 1 << 31, ..to })).unwrap();
    assert!(pair.run(100));
    assert_eq!(pair.ids(1), [(50, WcStatus::LocLenErr)], "100 B of room and 40 of GRH for 101");
    assert_eq!(pair.side.len(), 0);
}

#[test]
fn a_datagram_is_one_packet() {
    let (mut pair, to) = ud();
    pair.post(0, &SendWr::send(1, pair.sge(0, 0, 4096)).to(to).signaled()).unwrap();
    pair.post(0, &SendWr::send(2, pair.sge(0, 0, 4097)).to(to)).unwrap();
    assert!(pair.run(100));
    assert_eq!(pair.ids(0), [(1, WcStatus::Success), (2, WcStatus::LocLenErr)]);
    assert_eq!(pair.state(0), QpState::Sqe);
}

#[test]
fn a_handle_of_another_domain_is_refused() {
    let (mut pair, to) = ud();
    let end = &mut pair.ends[0];
    let other = end.nic.alloc_pd();
    let ah = end.nic.create_ah(other, AhAttr::default()).unwrap();
    let wr = SendWr::send(1, pair.sge(0, 0, 8));
    assert_eq!(pair.post(0, &wr.clone().to(UdDestination { ah, ..to })), Err(PostError::BadAh { ah }));
    assert!(matches!(pair.post(0, &wr), Err(PostError::MissingField { field: "ud", .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// What arrives is a subsequence of what was sent, whole; what was sent completes.
    #[test]
    fn unreliable_messages_arrive_whole_or_not_at_all(
        lengths in prop::collection::vec(0u32..1500, 1..30), lose in 0u8..60, seed in 1u64..u64::MAX,
    ) {
        let mut pair = uc(Faults { lose, seed, ..Faults::default() });
        for n in 0..lengths.len() as u64 {
            let sge = pair.sge(1, 0x10000 + n * 2048, 2048);
            pair.post_recv(1, n, sge).unwrap();
        }
        for (n, length) in lengths.iter().enumerate() {
            pair.fill(0, n as u64 * 2048, &vec![n as u8 + 1; *length as usize]);
            let wr = SendWr::send(n as u64, pair.sge(0, n as u64 * 2048, *length)).with_imm(n as u32).signaled();
            pair.post(0, &wr).unwrap();
        }
        prop_assert!(pair.run(10_000));
        prop_assert_eq!(pair.ends[0].done.len(), lengths.len());
        let mut next = 0;
        for (n, wc) in pair.ends[1].done.iter().enumerate() {
            let message = wc.imm.unwrap();
            prop_assert!(message >= next && wc.wr_id == n as u64);
            next = message + 1;
            let length = lengths[message as usize];
            prop_assert_eq!(wc.byte_len, length);
            let expected = vec![message as u8 + 1; length as usize];
            prop_assert_eq!(pair.bytes(1, 0x10000 + n as u64 * 2048, length as usize), expected);
        }
        if pair.lost == 0 {
            prop_assert_eq!(pair.ends[1].done.len(), lengths.len());
        }
        prop_assert_eq!(pair.side.len(), 0);
        let posted = Bytes(lengths.iter().map(|length| u64::from(*length)).sum());
        let arrived = Bytes(pair.ends[1].done.iter().map(|wc| u64::from(wc.byte_len)).sum());
        prop_assert!(arrived <= posted);
    }
}
