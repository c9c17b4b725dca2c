//! Objects and queues as a program sees them: what is refused, when slots are free, what is shared.

use crate::pair;
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::*;
use pair::{Faults, Pair};

fn small(qp_type: QpType) -> Pair {
    let cap = QpCap { max_send_wr: 4, max_recv_wr: 2, max_send_sge: 2, max_recv_sge: 1, max_inline_data: Bytes(64) };
    let mut pair = Pair::new(|init| QpInit { cap, ..init }, qp_type, Faults::default());
    pair.connect(Mtu::B256, 0, |_| (), |_| ());
    pair
}

#[test]
fn slots_are_free_when_a_later_signalled_completion_was_polled() {
    let mut pair = small(QpType::Rc);
    let wr = SendWr::write(1, pair.sge(0, 0, 8), pair.remote(1, 0));
    for _ in 0..4 {
        pair.post(0, &wr).unwrap();
    }
    assert!(pair.run(100));
    let full = pair.post(0, &wr).unwrap_err();
    assert_eq!((full.clone(), full.errno_name()), (PostError::QueueFull { depth: 4 }, "ENOMEM"), "unsignalled requests free nothing");

    let mut pair = small(QpType::Rc);
    for n in 0..4 {
        let wr = if n == 2 { wr.clone().signaled() } else { wr.clone() };
        pair.post(0, &wr).unwrap();
    }
    assert!(pair.run(100));
    for _ in 0..3 {
        pair.post(0, &wr).unwrap();
    }
    assert!(pair.post(0, &wr).is_err(), "the fourth is still taken");
}

#[test]
fn all_requests_complete_if_the_queue_pair_says_so() {
    let mut pair = Pair::new(|init| QpInit { sq_sig_all: true, ..init }, QpType::Rc, Faults::default());
    pair.connect(Mtu::B256, 0, |_| (), |_| ());
    pair.post(0, &SendWr::write(1, pair.sge(0, 0, 8), pair.remote(1, 0))).unwrap();
    assert!(pair.run(100));
    assert_eq!(pair.ids(0), [(1, WcStatus::Success)]);
}

#[test]
fn nothing_leaves_before_the_doorbell() {
    let mut pair = small(QpType::Rc);
    let end = &mut pair.ends[0];
    let wr = SendWr::write(1, Sge { addr: 0, length: 8, lkey: end.mr.lkey }, Remote { addr: 0, rkey: end.mr.rkey });
    let first = end.nic.post_send(pair.now, end.qp, &wr).unwrap();
    end.nic.post_send(pair.now, end.qp, &wr).unwrap();
    assert_eq!((first.wqe, first.bytes, first.inline, first.sges), (WqeIndex(0), Bytes(8), false, 1));
    assert!(!pair.transmit(0, 9));
    pair.ends[0].nic.doorbell(pair.now, pair.ends[0].qp, first.wqe);
    pair.transmit(0, 9);
    assert_eq!(pair.wires[1].len(), 1);
}

#[test]
fn inline_data_is_copied_when_posted() {
    let mut pair = small(QpType::Rc);
    pair.fill(0, 0, &[1; 64]);
    pair.post(0, &SendWr::write(1, pair.sge(0, 0, 64), pair.remote(1, 0)).with_flags(SendFlags::INLINE)).unwrap();
    let no_key = Sge { lkey: Lkey(0), ..pair.sge(0, 0, 8) };
    pair.post(0, &SendWr::write(2, no_key, pair.remote(1, 512)).with_flags(SendFlags::INLINE)).unwrap();
    pair.fill(0, 0, &[2; 64]);
    let transmit = pair.ends[0].nic.poll_transmit(pair.now, &mut pair.side).unwrap();
    assert_eq!((transmit.fetch, transmit.inline, transmit.packet.payload), (Bytes(0), true, 64));
    pair.wires[1].push_back(transmit.packet);
    assert!(pair.run(100));
    assert_eq!(pair.bytes(1, 0, 64), [1; 64]);
    assert_eq!(pair.bytes(1, 512, 8), [1; 8], "inline data needs no key");
}

#[test]
fn requests_that_are_refused_when_posted() {
    let mut pair = small(QpType::Rc);
    let sge = pair.sge(0, 0, 65);
    let remote = pair.remote(1, 0);
    let inline = SendWr::write(1, sge, remote).with_flags(SendFlags::INLINE);
    assert_eq!(pair.post(0, &inline), Err(PostError::InlineTooLong { length: Bytes(65), max: Bytes(64) }));
    let read = SendWr::read(1, pair.sge(0, 0, 8), remote).with_flags(SendFlags::INLINE);
    assert!(matches!(pair.post(0, &read), Err(PostError::InlineTooLong { max: Bytes(0), .. })));
    let many = SendWr { sge: [sge; 3].into_iter().collect(), ..SendWr::write(1, sge, remote) };
    assert_eq!(pair.post(0, &many), Err(PostError::TooManySges { sges: 3, max: 2 }));
    let nowhere = SendWr { remote: None, ..SendWr::write(1, sge, remote) };
    assert_eq!(pair.post(0, &nowhere), Err(PostError::MissingField { opcode: WrOpcode::RdmaWrite, field: "remote" }));
    let silent = SendWr { opcode: WrOpcode::SendWithImm, ..SendWr::send(1, sge) };
    assert_eq!(pair.post(0, &silent), Err(PostError::MissingField { opcode: WrOpcode::SendWithImm, field: "imm" }));
    let idle = SendWr { atomic: None, ..SendWr::fetch_add(1, pair.sge(0, 0, 8), remote, 1) };
    assert!(matches!(pair.post(0, &idle), Err(PostError::MissingField { field: "atomic", .. })));
    assert_eq!(pair.ends[0].nic.post_send(Time::ZERO, QpNum(77), &nowhere), Err(PostError::NoSuchQp { qp: QpNum(77) }));
    let mut uc = small(QpType::Uc);
    let refused = uc.post(0, &SendWr::read(1, pair.sge(0, 0, 8), remote)).unwrap_err();
    assert_eq!(refused, PostError::OpcodeNotSupported { opcode: WrOpcode::RdmaRead, qp_type: QpType::Uc });
    assert_eq!(refused.errno_name(), "EINVAL");
}

#[test]
fn states_in_which_posting_is_refused() {
    let mut pair = Pair::new(|init| init, QpType::Rc, Faults::default());
    let sge = pair.sge(0, 0, 8);
    let wr = SendWr::send(1, sge);
    let state = |state| Err(PostError::WrongState { qp: QpNum(2), state });
    assert_eq!(pair.post(0, &wr), state(QpState::Reset));
    assert_eq!(pair.post_recv(0, 1, sge), state(QpState::Reset));
    let qp = pair.ends[0].qp;
    pair.ends[0].nic.modify_qp(qp, &QpAttr::init(Access::ALL)).unwrap();
    assert_eq!(pair.post(0, &wr), state(QpState::Init));
    assert_eq!(pair.post_recv(0, 1, sge), Ok(()));
}

#[test]
fn a_shared_queue_serves_its_queue_pairs_in_order() {
    let mut pair = Pair::new(|init| init, QpType::Rc, Faults::default());
    let end = &mut pair.ends[1];
    let srq = end.nic.create_srq(end.pd, 4, 1).unwrap();
    end.nic.set_srq_limit(srq, 2).unwrap();
    end.nic.destroy_qp(end.qp).unwrap();
    end.qp = end.nic.create_qp(&QpInit { srq: Some(srq), ..QpInit::new(end.pd, QpType::Rc, end.cq) }).unwrap();
    let wr = |n, key| RecvWr::new(n, Sge { addr: 4096, length: 64, lkey: key });
    for n in 0..4 {
        end.nic.post_srq_recv(Time::ZERO, srq, &wr(n, end.mr.lkey)).unwrap();
    }
    assert_eq!(end.nic.post_srq_recv(Time::ZERO, srq, &wr(9, end.mr.lkey)), Err(PostError::QueueFull { depth: 4 }));
    assert_eq!(end.nic.post_recv(Time::ZERO, end.qp, &wr(9, end.mr.lkey)), Err(PostError::UsesSrq { qp: end.qp }));
    assert!(matches!(end.nic.destroy_srq(srq), Err(VerbsError::Busy { .. })));
    pair.connect(Mtu::B256, 0, |_| (), |_| ());
    for n in 0..3 {
        pair.post(0, &SendWr::send(n, pair.sge(0, 0, 8))).unwrap();
    }
    assert!(pair.run(100));
    assert_eq!(pair.ids(1), [0, 1, 2].map(|id| (id, WcStatus::Success)));
    let end = &mut pair.ends[1];
    assert_eq!(end.nic.poll_async_event(), Some(AsyncEvent::SrqLimitReached(srq)));
    assert_eq!(end.nic.poll_async_event(), None);
    end.nic.post_srq_recv(Time::ZERO, srq, &wr(4, end.mr.lkey)).unwrap();
    end.nic.modify_qp(end.qp, &QpAttr::to(QpState::Err)).unwrap();
    assert_eq!(end.nic.poll_async_event(), Some(AsyncEvent::LastWqeReached(end.qp)));
    assert_eq!(pair.ends[1].nic.poll_completion(), None, "the shared queue is not flushed");
    let qp = pair.ends[1].qp;
    pair.ends[1].nic.destroy_qp(qp).unwrap();
    pair.ends[1].nic.destroy_srq(srq).unwrap();
}

#[test]
fn an_overflow_of_the_completion_queue_ends_its_queue_pairs() {
    let mut pair = Pair::rc();
    let end = &mut pair.ends[0];
    let cq = end.nic.create_cq(1).unwrap();
    let qp = end.nic.create_qp(&QpInit::new(end.pd, QpType::Rc, cq)).unwrap();
    let peer = Peer { lid: Lid(9), qp: QpNum(5), sl: 0, mtu: Mtu::B256 };
    end.nic.connect(qp, &peer, Access::ALL).unwrap();
    for n in 0..3 {
        end.nic.post_recv(Time::ZERO, qp, &RecvWr::new(n, Sge::default())).unwrap();
    }
    end.nic.modify_qp(qp, &QpAttr::to(QpState::Err)).unwrap();
    while let Some((cq, wc)) = end.nic.poll_completion() {
        end.nic.deliver(Time::ZERO, cq, wc);
    }
    assert_eq!(end.nic.poll_async_event(), Some(AsyncEvent::CqError(cq)));
    assert_eq!(end.nic.poll_async_event(), Some(AsyncEvent::QpFatal(qp)));
    assert!(end.nic.cq_overflowed(cq).unwrap());
    let mut done = Vec::new();
    assert_eq!(end.nic.poll_cq(Time::ZERO, cq, 10, &mut done), 1);
}

#[test]
fn objects_in_use_are_not_destroyed_and_old_numbers_are_refused() {
    let mut pair = Pair::rc();
    let end = &mut pair.ends[0];
    assert!(matches!(end.nic.dealloc_pd(end.pd), Err(VerbsError::Busy { .. })));
    assert!(matches!(end.nic.destroy_cq(end.cq), Err(VerbsError::Busy { .. })));
    end.nic.destroy_qp(end.qp).unwrap();
    let again = end.nic.create_qp(&QpInit::new(end.pd, QpType::Rc, end.cq)).unwrap();
    assert_ne!(again, end.qp);
    assert_eq!(end.nic.query_qp(end.qp).unwrap_err(), VerbsError::NoSuchQp { qp: end.qp });
    end.nic.destroy_qp(again).unwrap();
    end.nic.destroy_cq(end.cq).unwrap();
    end.nic.dereg_mr(end.mr.lkey).unwrap();
    end.nic.dealloc_pd(end.pd).unwrap();
    assert!(end.nic.alloc_pd() != end.pd);
}

#[test]
fn packets_for_nobody_are_dropped() {
    let mut pair = Pair::rc();
    pair.post(0, &SendWr::write(1, pair.sge(0, 0, 8), pair.remote(1, 0))).unwrap();
    let qp = pair.ends[1].qp;
    pair.ends[1].nic.destroy_qp(qp).unwrap();
    pair.transmit(0, 9);
    assert!(pair.receive(1).unwrap().dropped);
    assert!(pair.side.is_empty());
}

#[test]
fn completions_are_visible_on_time() {
    let mut pair = Pair::rc();
    let end = &mut pair.ends[0];
    end.nic.post_recv(Time::ZERO, end.qp, &RecvWr::new(1, Sge::default())).unwrap();
    end.nic.modify_qp(end.qp, &QpAttr::to(QpState::Err)).unwrap();
    let (cq, wc) = end.nic.poll_completion().unwrap();
    end.nic.req_notify_cq(cq, false).unwrap();
    assert!(end.nic.deliver(Time::from_ps(500), cq, wc), "an event was asked for");
    let mut done = Vec::new();
    assert_eq!(end.nic.poll_cq(Time::from_ps(499), cq, 1, &mut done), 0);
    assert_eq!(end.nic.cq_next_visible(cq), Some(Time::from_ps(500)));
    assert_eq!(end.nic.poll_cq(Time::from_ps(500), cq, 1, &mut done), 1);
}
