//! Reliable connections, driven packet by packet: what goes over the wire, and what the program sees of errors.

use crate::pair;
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::*;
use fabriscope_wire::Opcode;
use pair::{Faults, Pair};

fn names(log: &[Packet]) -> Vec<String> {
    log.iter().map(|packet| format!("{}+{}", Opcode::decode(packet.opcode).unwrap(), packet.psn as i32 - 0xff_fff0)).collect()
}

/// Runs and gives the packets that arrived, with PSNs relative to the first.
fn packets(pair: &mut Pair) -> Vec<String> {
    pair.log = Some(Vec::new());
    assert!(pair.run(10_000));
    names(&pair.log.take().unwrap())
}

#[test]
fn a_message_is_cut_at_the_mtu_and_acknowledged_once() {
    let mut pair = Pair::rc();
    let (source, target) = (pair.sge(0, 0, 600), pair.remote(1, 4096));
    pair.fill(0, 0, &[7; 600]);
    pair.post(0, &SendWr::write(1, source, target).signaled()).unwrap();
    assert_eq!(packets(&mut pair), ["RC_WRITE_FIRST+0", "RC_WRITE_MIDDLE+1", "RC_WRITE_LAST+2", "RC_ACKNOWLEDGE+2"]);
    assert_eq!(pair.ids(0), [(1, WcStatus::Success)]);
    assert_eq!(pair.bytes(1, 4096, 601), [&[7; 600][..], &[0]].concat());
    let now = pair.now;
    let watch = pair.ends[1].watch;
    assert_eq!(pair.ends[1].nic.watch_count(watch, now), 1);
    assert!(pair.ends[1].done.is_empty(), "a WRITE goes unnoticed");
}

#[test]
fn immediate_data_and_empty_messages() {
    let mut pair = Pair::rc();
    for n in 0..3 {
        let sge = pair.sge(1, n * 512, 512);
        pair.post_recv(1, n, sge).unwrap();
    }
    let (source, target) = (pair.sge(0, 0, 300), pair.remote(1, 4096));
    pair.post(0, &SendWr::send(1, pair.sge(0, 0, 0)).with_imm(5)).unwrap();
    pair.post(0, &SendWr::write(2, source, target).with_imm(6)).unwrap();
    pair.post(0, &SendWr::send(3, source).with_flags(SendFlags::SOLICITED)).unwrap();
    pair.post(0, &SendWr::write(4, pair.sge(0, 0, 0), Remote { addr: 1 << 60, rkey: Rkey(0) })).unwrap();
    pair.run(1000);
    let seen: Vec<_> = pair.ends[1].done.iter().map(|wc| (wc.wr_id, wc.opcode, wc.byte_len, wc.imm, wc.solicited)).collect();
    let expected =
        [(0, WcOpcode::Recv, 0, Some(5), false), (1, WcOpcode::RecvRdmaWithImm, 300, Some(6), false), (2, WcOpcode::Recv, 300, None, true)];
    assert_eq!(seen, expected);
    assert!(pair.ends[0].done.is_empty(), "nothing was signalled");
    assert_eq!(pair.state(0), QpState::Rts, "an empty WRITE touches no memory");
}

#[test]
fn a_read_takes_a_number_for_each_response_and_answers_in_turn() {
    let mut pair = Pair::rc();
    pair.fill(1, 0, &[9; 700]);
    pair.post(0, &SendWr::read(1, pair.sge(0, 0, 700), pair.remote(1, 0)).signaled()).unwrap();
    pair.post(0, &SendWr::fetch_add(2, pair.sge(0, 1000, 8), pair.remote(1, 2048), 3).signaled()).unwrap();
    pair.post(0, &SendWr::cmp_swap(3, pair.sge(0, 1008, 8), pair.remote(1, 2048), 3, 8).signaled()).unwrap();
    assert_eq!(
        packets(&mut pair),
        [
            "RC_READ_REQUEST+0",
            "RC_FETCH_ADD+3",
            "RC_COMPARE_SWAP+4",
            "RC_READ_RESPONSE_FIRST+0",
            "RC_READ_RESPONSE_MIDDLE+1",
            "RC_READ_RESPONSE_LAST+2",
            "RC_ATOMIC_ACKNOWLEDGE+3",
            "RC_ATOMIC_ACKNOWLEDGE+4"
        ]
    );
    assert_eq!(pair.bytes(0, 0, 700), [9; 700]);
    let value = |end, addr| u64::from_ne_bytes(pair.bytes(end, addr, 8).try_into().unwrap());
    assert_eq!((value(0, 1000), value(0, 1008), value(1, 2048)), (0, 3, 8));
    let opcodes: Vec<_> = pair.ends[0].done.iter().map(|wc| (wc.opcode, wc.byte_len)).collect();
    assert_eq!(opcodes, [(WcOpcode::RdmaRead, 700), (WcOpcode::FetchAdd, 8), (WcOpcode::CompSwap, 8)]);
}

#[test]
fn acknowledgements_are_coalesced_until_one_can_leave() {
    let mut pair = Pair::rc();
    let (source, target) = (pair.sge(0, 0, 8), pair.remote(1, 0));
    for n in 0..10 {
        pair.post(0, &SendWr::write(n, source, target).signaled()).unwrap();
    }
    pair.transmit(0, 100);
    while pair.receive(1).is_some() {}
    pair.transmit(1, 100);
    assert_eq!(pair.wires[0].len(), 1, "one for all ten");
    assert_eq!(pair.wires[0][0].msn, 10);
    let received = pair.receive(0).unwrap();
    assert_eq!((received.completions_sent, pair.ends[0].done.len()), (10, 10));
}

#[test]
fn long_messages_ask_for_acknowledgement_on_the_way() {
    let mut pair = Pair::new(|init| init, QpType::Rc, Faults::default());
    pair.connect(Mtu::B256, 0, |_| (), |attr| attr.ack_interval = Some(4));
    pair.post(0, &SendWr::write(1, pair.sge(0, 0, 256 * 10), pair.remote(1, 0))).unwrap();
    pair.transmit(0, 100);
    let asks: Vec<_> = pair.wires[1].iter().filter(|packet| packet.flags.contains(PacketFlags::ACK_REQ)).map(|packet| packet.psn).collect();
    assert_eq!(asks, [3, 7, 9]);
}

#[test]
fn a_lost_packet_is_asked_for_once_and_everything_after_it_sent_again() {
    let mut pair = Pair::rc();
    pair.post(0, &SendWr::write(1, pair.sge(0, 0, 256 * 6), pair.remote(1, 0)).signaled()).unwrap();
    pair.transmit(0, 100);
    let lost = pair.wires[1].remove(2).unwrap();
    pair.side.free(lost.ext);
    let log = packets(&mut pair);
    assert_eq!(log[..5], ["RC_WRITE_FIRST+0", "RC_WRITE_MIDDLE+1", "RC_WRITE_MIDDLE+3", "RC_WRITE_MIDDLE+4", "RC_WRITE_LAST+5"]);
    assert_eq!(
        log[5..],
        ["RC_ACKNOWLEDGE+2", "RC_WRITE_MIDDLE+2", "RC_WRITE_MIDDLE+3", "RC_WRITE_MIDDLE+4", "RC_WRITE_LAST+5", "RC_ACKNOWLEDGE+5"]
    );
    assert_eq!(pair.retransmitted, 4);
    assert_eq!(pair.ids(0), [(1, WcStatus::Success)]);
}

/// Packet 1 comes behind 2 and 3 and before the NAK for it has left: 2 and 3 were dropped, and somebody has to ask for them.
#[test]
fn a_gap_that_is_closed_before_it_is_told_leaves_the_next() {
    let mut pair = Pair::rc();
    pair.post(0, &SendWr::write(1, pair.sge(0, 0, 256 * 4), pair.remote(1, 0)).signaled()).unwrap();
    pair.transmit(0, 100);
    let late = pair.wires[1].remove(1).unwrap();
    pair.wires[1].push_back(late);
    while pair.receive(1).is_some() {}
    assert!(pair.run(1000));
    assert_eq!(pair.ids(0), [(1, WcStatus::Success)]);
    assert_eq!((pair.retransmitted, pair.ends[0].nic.counts().ack_timeouts), (2, 0));
}

#[test]
fn lost_responses_are_read_again_from_the_first_that_is_missing() {
    let mut pair = Pair::rc();
    pair.post(0, &SendWr::read(1, pair.sge(0, 0, 256 * 5), pair.remote(1, 0)).signaled()).unwrap();
    pair.transmit(0, 9);
    pair.receive(1);
    pair.transmit(1, 9);
    let lost = pair.wires[0].remove(1).unwrap();
    pair.side.free(lost.ext);
    let log = packets(&mut pair);
    assert_eq!(log[4], "RC_READ_REQUEST+1", "{log:?}");
    assert_eq!(log[5..], ["RC_READ_RESPONSE_FIRST+1", "RC_READ_RESPONSE_MIDDLE+2", "RC_READ_RESPONSE_MIDDLE+3", "RC_READ_RESPONSE_LAST+4"]);
    assert_eq!(pair.ids(0), [(1, WcStatus::Success)]);
}

#[test]
fn a_repeated_atomic_is_answered_from_memory() {
    let mut pair = Pair::rc();
    pair.post(0, &SendWr::fetch_add(1, pair.sge(0, 64, 8), pair.remote(1, 0), 5).signaled()).unwrap();
    pair.transmit(0, 9);
    pair.receive(1);
    pair.transmit(1, 9);
    let lost = pair.wires[0].pop_front().unwrap();
    pair.side.free(lost.ext);
    assert!(pair.run(1000));
    assert_eq!((pair.retransmitted, pair.ids(0)), (1, vec![(1, WcStatus::Success)]));
    assert_eq!(pair.bytes(1, 0, 8), 5u64.to_ne_bytes());
}

#[test]
fn without_an_answer_the_queue_pair_gives_up_after_its_retries() {
    let mut pair = Pair::new(|init| init, QpType::Rc, Faults::default());
    pair.connect(Mtu::B256, 0, |_| (), |attr| (attr.timeout, attr.retry_cnt) = (Some(4), Some(3)));
    pair.ends[1].nic.modify_qp(pair.ends[1].qp, &QpAttr::to(QpState::Reset)).unwrap();
    for n in 0..2 {
        pair.post(0, &SendWr::write(n, pair.sge(0, 0, 8), pair.remote(1, 0))).unwrap();
    }
    assert!(pair.run(1000));
    assert_eq!(pair.ids(0), [(0, WcStatus::RetryExcErr), (1, WcStatus::WrFlushErr)]);
    assert_eq!((pair.state(0), pair.retransmitted), (QpState::Err, 6));
    // Four waits of 4.096 us · 2^4.
    let waited = pair.now.since(Time::ZERO);
    assert!(waited >= Span::from_ps(65_536_000) * 4 && waited < Span::from_ps(65_536_000) * 4 + Span::from_us(2), "{waited}");
}

#[test]
fn a_receiver_that_is_not_ready_is_tried_again() {
    let mut pair = Pair::new(|init| init, QpType::Rc, Faults::default());
    pair.connect(Mtu::B256, 0, |attr| attr.min_rnr_timer = Some(14), |attr| attr.rnr_retry = Some(2));
    pair.post(0, &SendWr::send(1, pair.sge(0, 0, 8)).signaled()).unwrap();
    pair.transmit(0, 9);
    pair.receive(1);
    pair.transmit(1, 9);
    assert_eq!(pair.wires[0][0].syndrome, 0x2e);
    pair.receive(0);
    // Code 14 is 1.28 ms.
    assert_eq!(pair.ends[0].nic.poll_timeout(), Some(pair.now + Span::from_us(1280)));
    assert!(!pair.transmit(0, 9), "it waits");
    let sge = pair.sge(1, 0, 8);
    pair.post_recv(1, 1, sge).unwrap();
    assert!(pair.run(100));
    assert_eq!(pair.ids(0), [(1, WcStatus::Success)]);
    pair.post(0, &SendWr::send(2, pair.sge(0, 0, 8))).unwrap();
    let before = pair.sent;
    assert!(pair.run(1000));
    assert_eq!(pair.ids(0)[1], (2, WcStatus::RnrRetryExcErr));
    assert_eq!(pair.sent - before, 6, "three attempts, three refusals");
}

#[test]
fn seven_receiver_retries_mean_for_ever() {
    let mut pair = Pair::rc();
    pair.post(0, &SendWr::send(1, pair.sge(0, 0, 8)).signaled()).unwrap();
    assert!(!pair.run(200));
    assert!(pair.sent > 40);
    let sge = pair.sge(1, 0, 8);
    pair.post_recv(1, 1, sge).unwrap();
    assert!(pair.run(100));
    assert_eq!(pair.ids(0), [(1, WcStatus::Success)]);
}

type Ended = Vec<(u64, WcStatus)>;

/// What a refused request looks like at both ends: requester status, responder completions, event.
fn refusal(wr: impl Fn(&Pair) -> SendWr, receive: Option<u32>) -> (Ended, Ended, Option<AsyncEvent>) {
    let mut pair = Pair::rc();
    if let Some(length) = receive {
        let sge = pair.sge(1, 0, length);
        pair.post_recv(1, 50, sge).unwrap();
    }
    let wr = wr(&pair);
    pair.post(0, &wr).unwrap();
    assert!(pair.run(1000));
    assert_eq!(pair.state(0), QpState::Err);
    assert_eq!(pair.state(1), QpState::Err);
    assert_eq!(pair.side.len(), 0);
    (pair.ids(0), pair.ids(1), pair.ends[1].nic.poll_async_event())
}

#[test]
fn refused_requests() {
    use WcStatus::*;
    let qp = QpNum(2);
    let bad = Rkey(0xdead);
    let write = |pair: &Pair| SendWr::write(1, pair.sge(0, 0, 600), Remote { addr: 0, rkey: bad });
    assert_eq!(refusal(write, None), (vec![(1, RemAccessErr)], vec![], Some(AsyncEvent::QpAccessError(qp))));
    let beyond = |pair: &Pair| SendWr::write(1, pair.sge(0, 0, 2), pair.remote(1, pair::MEMORY as u64 - 1));
    assert_eq!(refusal(beyond, None).0, [(1, RemAccessErr)]);
    let read = |pair: &Pair| SendWr::read(1, pair.sge(0, 0, 600), Remote { addr: 0, rkey: bad });
    assert_eq!(refusal(read, None), (vec![(1, RemAccessErr)], vec![], Some(AsyncEvent::QpAccessError(qp))));
    let atomic = |pair: &Pair| SendWr::fetch_add(1, pair.sge(0, 0, 8), Remote { addr: 0, rkey: bad }, 1);
    assert_eq!(refusal(atomic, None).0, [(1, RemAccessErr)]);
    let misaligned = |pair: &Pair| SendWr::fetch_add(1, pair.sge(0, 0, 8), pair.remote(1, 4), 1);
    assert_eq!(refusal(misaligned, None), (vec![(1, RemInvReqErr)], vec![], Some(AsyncEvent::QpRequestError(qp))));
    let long = |pair: &Pair| SendWr::send(1, pair.sge(0, 0, 600));
    assert_eq!(refusal(long, Some(599)), (vec![(1, RemInvReqErr)], vec![(50, LocLenErr)], None));
}

#[test]
fn a_receive_with_a_bad_key_fails_at_both_ends() {
    let mut pair = Pair::rc();
    pair.post_recv(1, 50, Sge { addr: 0, length: 100, lkey: Lkey(77) }).unwrap();
    pair.post(0, &SendWr::send(1, pair.sge(0, 0, 8))).unwrap();
    assert!(pair.run(1000));
    assert_eq!(pair.ids(0), [(1, WcStatus::RemOpErr)]);
    assert_eq!(pair.ids(1), [(50, WcStatus::LocProtErr)]);
}

#[test]
fn a_local_error_shows_after_everything_before_it_completed() {
    let mut pair = Pair::rc();
    let target = pair.remote(1, 0);
    pair.post(0, &SendWr::write(1, pair.sge(0, 0, 600), target).signaled()).unwrap();
    pair.post(0, &SendWr::write(2, Sge { lkey: Lkey(9), ..pair.sge(0, 0, 8) }, target)).unwrap();
    pair.post(0, &SendWr::write(3, pair.sge(0, 0, 8), target)).unwrap();
    assert!(pair.run(1000));
    assert_eq!(pair.ids(0), [(1, WcStatus::Success), (2, WcStatus::LocProtErr), (3, WcStatus::WrFlushErr)]);
    assert_eq!(pair.state(1), QpState::Rts, "the peer does not notice");
    // A READ needs the right to write locally.
    let mut pair = Pair::rc();
    let mr = pair.ends[0].nic.reg_mr(pair.ends[0].pd, 0, Bytes(64), Access::NONE).unwrap();
    pair.post(0, &SendWr::read(1, Sge { addr: 0, length: 8, lkey: mr.lkey }, target)).unwrap();
    assert!(pair.run(1000));
    assert_eq!(pair.ids(0), [(1, WcStatus::LocProtErr)]);
}

#[test]
fn deregistered_memory_is_refused() {
    let mut pair = Pair::rc();
    let target = pair.remote(1, 0);
    let key = pair.ends[1].mr.lkey;
    pair.ends[1].nic.dereg_mr(key).unwrap();
    pair.ends[1].nic.reg_mr(pair.ends[1].pd, 0, Bytes(4096), Access::ALL).unwrap();
    pair.post(0, &SendWr::write(1, pair.sge(0, 0, 8), target)).unwrap();
    assert!(pair.run(1000));
    assert_eq!(pair.ids(0), [(1, WcStatus::RemAccessErr)]);
}

#[test]
fn errors_flush_both_queues_in_order() {
    let mut pair = Pair::rc();
    for n in 0..3 {
        let sge = pair.sge(0, 0, 64);
        pair.post_recv(0, 10 + n, sge).unwrap();
        pair.post(0, &SendWr::write(n, pair.sge(0, 0, 8), pair.remote(1, 0))).unwrap();
    }
    let qp = pair.ends[0].qp;
    pair.ends[0].nic.modify_qp(qp, &QpAttr::to(QpState::Err)).unwrap();
    pair.run(10);
    let flushed: Vec<_> = [0, 1, 2, 10, 11, 12].map(|id| (id, WcStatus::WrFlushErr)).into();
    assert_eq!(pair.ids(0), flushed);
    // What is posted now is flushed too.
    pair.post(0, &SendWr::write(3, pair.sge(0, 0, 8), pair.remote(1, 0))).unwrap();
    let sge = pair.sge(0, 0, 64);
    pair.post_recv(0, 13, sge).unwrap();
    pair.run(10);
    assert_eq!(pair.ids(0)[6..], [(3, WcStatus::WrFlushErr), (13, WcStatus::WrFlushErr)]);
}

#[test]
fn reads_wait_for_the_limit_and_fences_for_reads() {
    let mut pair = Pair::new(|init| init, QpType::Rc, Faults::default());
    pair.connect(Mtu::B256, 0, |_| (), |attr| attr.max_rd_atomic = Some(2));
    for n in 0..3 {
        pair.post(0, &SendWr::read(n, pair.sge(0, 0, 8), pair.remote(1, 0))).unwrap();
    }
    pair.transmit(0, 9);
    assert_eq!(pair.wires[1].len(), 2);
    assert!(pair.run(100));
    pair.post(0, &SendWr::read(3, pair.sge(0, 0, 8), pair.remote(1, 0))).unwrap();
    pair.post(0, &SendWr::write(4, pair.sge(0, 0, 8), pair.remote(1, 0))).unwrap();
    pair.post(0, &SendWr::write(5, pair.sge(0, 0, 8), pair.remote(1, 0)).with_flags(SendFlags::FENCE)).unwrap();
    pair.transmit(0, 9);
    assert_eq!(pair.wires[1].len(), 2, "the fenced one waits");
    assert!(pair.run(100));
    assert_eq!(pair.sent, 4 + 4 + 2 + 2, "four READs, four responses, two WRITEs, two acknowledgements");
}

#[test]
fn more_reads_than_the_responder_takes_are_refused() {
    let mut pair = Pair::new(|init| init, QpType::Rc, Faults::default());
    pair.connect(Mtu::B256, 0, |attr| attr.max_dest_rd_atomic = Some(1), |attr| attr.max_rd_atomic = Some(8));
    for n in 0..3 {
        pair.post(0, &SendWr::read(n, pair.sge(0, 0, 600), pair.remote(1, 0))).unwrap();
    }
    assert!(pair.run(1000));
    assert_eq!(pair.ids(0), [(1, WcStatus::RemInvReqErr), (2, WcStatus::WrFlushErr)], "the first is still answered");
}

#[test]
fn a_draining_send_queue_finishes_what_it_began() {
    let mut pair = Pair::rc();
    let target = pair.remote(1, 0);
    pair.post(0, &SendWr::write(1, pair.sge(0, 0, 600), target).signaled()).unwrap();
    pair.post(0, &SendWr::write(2, pair.sge(0, 0, 600), target).signaled()).unwrap();
    pair.transmit(0, 1);
    let qp = pair.ends[0].qp;
    pair.ends[0].nic.modify_qp(qp, &QpAttr::to(QpState::Sqd)).unwrap();
    assert_eq!(pair.ends[0].nic.poll_async_event(), None);
    assert!(pair.run(100));
    assert_eq!(pair.ids(0), [(1, WcStatus::Success)]);
    assert_eq!(pair.ends[0].nic.poll_async_event(), Some(AsyncEvent::SendQueueDrained(qp)));
    pair.ends[0].nic.modify_qp(qp, &QpAttr::to(QpState::Rts)).unwrap();
    assert!(pair.run(100));
    assert_eq!(pair.ids(0), [(1, WcStatus::Success), (2, WcStatus::Success)]);
}

#[test]
fn packets_of_queue_pairs_take_turns_and_acknowledgements_go_first() {
    let mut pair = Pair::rc();
    let end = &mut pair.ends[0];
    let second = end.nic.create_qp(&QpInit::new(end.pd, QpType::Rc, end.cq)).unwrap();
    let peer = Peer { lid: Lid(9), qp: QpNum(5), sl: 0, mtu: Mtu::B256 };
    end.nic.connect(second, &peer, Access::ALL).unwrap();
    let (sge, remote) = (Sge { addr: 0, length: 512, lkey: end.mr.lkey }, Remote::default());
    for qp in [end.qp, second] {
        let posted = end.nic.post_send(pair.now, qp, &SendWr::write(0, sge, remote)).unwrap();
        end.nic.doorbell(pair.now, qp, posted.wqe);
    }
    pair.post(1, &SendWr::write(1, pair.sge(1, 0, 8), pair.remote(0, 0))).unwrap();
    pair.transmit(1, 1);
    let first = pair.ends[0].nic.poll_transmit(pair.now, &mut pair.side).unwrap();
    assert!(pair.receive(0).unwrap().transmit);
    let mut order = vec![(first.qp, first.responder)];
    while let Some(transmit) = pair.ends[0].nic.poll_transmit(pair.now, &mut pair.side) {
        order.push((transmit.qp, transmit.responder));
    }
    let one = pair.ends[0].qp;
    assert_eq!(order, [(one, false), (one, true), (second, false), (one, false), (second, false)]);
}

#[test]
fn spraying_changes_the_entropy_of_every_packet() {
    let entropies = |spray| {
        let mut pair = Pair::new(|init| init, QpType::Rc, Faults::default());
        pair.connect(Mtu::B256, 0, |attr| attr.spray = Some(spray), |_| ());
        pair.post(0, &SendWr::write(1, pair.sge(0, 0, 1024), pair.remote(1, 0))).unwrap();
        pair.transmit(0, 9);
        let all: std::collections::BTreeSet<u16> = pair.wires[1].iter().map(|packet| packet.entropy).collect();
        all.len()
    };
    assert_eq!((entropies(false), entropies(true)), (1, 4));
}

#[test]
fn any_order_completes_in_order_and_never_asks_for_a_gap() {
    let mut pair = Pair::new(|init| init, QpType::Rc, Faults::default());
    pair.connect(Mtu::B256, 0, |attr| attr.any_order = Some(true), |_| ());
    for n in 0..3 {
        let sge = pair.sge(1, 4096 + n * 1024, 1024);
        pair.post_recv(1, n, sge).unwrap();
        pair.fill(0, n * 1024, &[n as u8 + 1; 600]);
        pair.post(0, &SendWr::send(n, pair.sge(0, n * 1024, 600)).signaled()).unwrap();
    }
    pair.transmit(0, 100);
    pair.wires[1].make_contiguous().reverse();
    let early: Vec<_> = (0..8).map(|_| pair.receive(1).unwrap()).collect();
    assert!(early.iter().all(|received| received.write > Bytes::ZERO && received.completion.is_none() && !received.transmit));
    pair.receive(1);
    assert_eq!(pair.ids(1), [0, 1, 2].map(|id| (id, WcStatus::Success)));
    for n in 0..3 {
        assert_eq!(pair.bytes(1, 4096 + n * 1024, 600), [n as u8 + 1; 600]);
    }
    assert!(pair.run(100));
    assert_eq!((pair.ids(0).len(), pair.retransmitted), (3, 0));
}

#[test]
fn a_window_closes_and_opens() {
    let mut pair = Pair::new(|init| init, QpType::Rc, Faults::default());
    pair.connect(Mtu::B256, 0, |attr| attr.window = Some(64), |attr| attr.ack_interval = Some(0));
    pair.post(0, &SendWr::write(1, pair.sge(0, 0, 256 * 100), pair.remote(1, 0)).signaled()).unwrap();
    pair.transmit(0, 1000);
    assert_eq!(pair.wires[1].len(), 64);
    assert!(pair.wires[1][63].flags.contains(PacketFlags::ACK_REQ), "else it would wait for ever");
    assert!(pair.run(100));
    assert_eq!((pair.ids(0), pair.retransmitted), (vec![(1, WcStatus::Success)], 0));
}

#[test]
fn a_read_longer_than_the_window_goes_in_pieces() {
    let mut pair = Pair::new(|init| init, QpType::Rc, Faults::default());
    pair.connect(Mtu::B256, 0, |attr| (attr.window, attr.any_order) = (Some(64), Some(true)), |attr| attr.max_rd_atomic = Some(3));
    pair.fill(1, 0, &[3; 256 * 200]);
    pair.post(0, &SendWr::read(1, pair.sge(0, 0, 256 * 200), pair.remote(1, 0)).signaled()).unwrap();
    assert!(pair.run(1000));
    assert_eq!((pair.ids(0), pair.retransmitted), (vec![(1, WcStatus::Success)], 0));
    assert_eq!(pair.bytes(0, 0, 256 * 200), [3; 256 * 200]);
}

#[test]
fn a_message_longer_than_the_transport_allows() {
    let mut pair = Pair::new(|init| QpInit { cap: QpCap { max_send_sge: 2, ..init.cap }, ..init }, QpType::Rc, Faults::default());
    pair.connect(Mtu::B4096, 0, |_| (), |_| ());
    let mut wr = SendWr::write(1, pair.sge(0, 0, 1 << 31), pair.remote(1, 0));
    wr.sge.push(pair.sge(0, 0, 1));
    pair.post(0, &wr).unwrap();
    assert!(pair.run(100));
    assert_eq!(pair.ids(0), [(1, WcStatus::LocLenErr)]);
}

#[test]
fn early_packets_of_a_write_land_where_its_first_packet_says() {
    let mut pair = Pair::new(|init| init, QpType::Rc, Faults::default());
    pair.connect(Mtu::B256, 0, |attr| attr.any_order = Some(true), |_| ());
    let elsewhere = MemoryId(5);
    let end = &mut pair.ends[1];
    end.nic.reach(elsewhere);
    let far = end.nic.reg_mr_at(end.pd, 4096, Bytes(65_536), Access::ALL, elsewhere).unwrap();
    for target in [Remote { addr: far.addr, rkey: far.rkey }, pair.remote(1, 0)] {
        pair.post(0, &SendWr::write(1, pair.sge(0, 0, 1000), target)).unwrap();
    }
    pair.transmit(0, 8);
    // The second message begins before the third packet of the first one comes.
    let sent: Vec<Packet> = pair.wires[1].drain(..).collect();
    pair.wires[1].extend([0, 2, 4, 5, 1, 3, 7, 6].map(|place| sent[place]));
    let places: Vec<MemoryId> = (0..8).map(|_| pair.receive(1).unwrap().place).collect();
    let host = MemoryId::HOST;
    assert_eq!(places, [elsewhere, elsewhere, host, host, elsewhere, elsewhere, host, host]);
}
