//! Connections of iWARP, driven packet by packet: segments and their sizes, placement out of order, delivery in order, Terminate.

use crate::pair;
use fabriscope_units::Remedy;
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::iwarp::Control;
use fabriscope_verbs::*;
use fabriscope_wire::{Placement, RdmapOpcode};
use pair::{Faults, Pair};

fn pair() -> Pair {
    let cap = QpCap { max_send_sge: 2, ..QpCap::default() };
    let mut pair = Pair::new(|init| QpInit { cap, ..init }, QpType::Iwarp, Faults::default());
    pair.connect(Mtu::B256, 0, |_| (), |_| ());
    pair
}

/// Every packet that waits for `to`: operation, payload, bytes on the wire.
fn waiting(pair: &Pair, to: usize) -> Vec<(Option<RdmapOpcode>, u16, u16)> {
    let opcode = |packet: &Packet| pair.side.at(packet.ext).and_then(|ext| ext.frame()?.ddp).map(|ddp| ddp.opcode);
    pair.wires[to].iter().map(|packet| (opcode(packet), packet.payload, packet.wire_bytes)).collect()
}

fn events(pair: &mut Pair, end: usize) -> Vec<AsyncEvent> {
    std::iter::from_fn(|| pair.ends[end].nic.poll_async_event()).collect()
}

#[test]
fn a_message_is_cut_into_frames_of_one_segment_each() {
    let mut pair = pair();
    pair.fill(0, 0, &[7; 600]);
    pair.post_recv(1, 9, pair.sge(1, 0, 700)).unwrap();
    pair.post(0, &SendWr::write(1, pair.sge(0, 0, 600), pair.remote(1, 4096)).signaled()).unwrap();
    pair.post(0, &SendWr::send(2, pair.sge(0, 0, 5)).with_flags(SendFlags::SOLICITED).signaled()).unwrap();
    pair.transmit(0, 100);
    // An MSS of 300 B holds 2 of length, 14 of header, 280 of payload and 4 of CRC; around it 20 + 20 + 38. The short SEND: 2 + 18 + 5,
    // 3 of pad and 4 of CRC.
    let write = Some(RdmapOpcode::Write);
    let full = 38 + 40 + 300;
    let expected = [(write, 280, full), (write, 280, full), (write, 40, 38 + 40 + 60), (Some(RdmapOpcode::SendSolicited), 5, 38 + 40 + 32)];
    assert_eq!(waiting(&pair, 1), expected);
    let headers: Vec<_> = pair.wires[1].iter().filter_map(|packet| pair.side.at(packet.ext)?.frame()?.ddp).collect();
    let rkey = pair.ends[1].mr.rkey.0;
    let places: Vec<_> = headers.iter().map(|ddp| (ddp.placement, ddp.last)).collect();
    let tagged = |offset| Placement::Tagged { stag: rkey, offset };
    let send = Placement::Untagged { invalidate: 0, queue: 0, message: 1, offset: 0 };
    assert_eq!(places, [(tagged(4096), false), (tagged(4376), false), (tagged(4656), true), (send, true)]);
    assert!(pair.ends[0].done.is_empty(), "nothing is acknowledged");
    assert!(pair.run(1000));
    assert_eq!(pair.ids(0), [(1, WcStatus::Success), (2, WcStatus::Success)]);
    assert_eq!(pair.bytes(1, 4096, 601), [&[7; 600][..], &[0]].concat());
    let seen: Vec<_> = pair.ends[1].done.iter().map(|wc| (wc.wr_id, wc.opcode, wc.byte_len, wc.solicited)).collect();
    assert_eq!(seen, [(9, WcOpcode::Recv, 5, true)]);
}

#[test]
fn payload_is_placed_as_it_comes_and_delivered_in_order() {
    let mut pair = pair();
    pair.fill(0, 0, &[5; 300]);
    for id in 0..2 {
        pair.post_recv(1, id, pair.sge(1, 1000 * id, 300)).unwrap();
    }
    pair.post(0, &SendWr::send(1, pair.sge(0, 0, 100)).signaled()).unwrap();
    pair.post(0, &SendWr::write(2, pair.sge(0, 0, 100), pair.remote(1, 4096)).signaled()).unwrap();
    pair.post(0, &SendWr::send(3, pair.sge(0, 0, 200)).signaled()).unwrap();
    pair.transmit(0, 100);
    let first = pair.wires[1].pop_front().unwrap();
    while pair.receive(1).is_some() {}
    // Behind the gap: everything is where it belongs, and nobody is told.
    assert_eq!((pair.bytes(1, 4096, 100), pair.bytes(1, 1000, 200)), (vec![5; 100], vec![5; 200]));
    let (now, watch) = (pair.now, pair.ends[1].watch);
    assert!(pair.ends[1].done.is_empty() && pair.ends[1].nic.watch_count(watch, now) == 0);
    // Two segments beyond it are acknowledged by blocks alone: no request ends.
    pair.transmit(1, 100);
    while pair.receive(0).is_some() {}
    assert!(pair.ends[0].done.is_empty());
    pair.wires[1].push_back(first);
    assert!(pair.run(1000));
    let seen: Vec<_> = pair.ends[1].done.iter().map(|wc| (wc.wr_id, wc.byte_len)).collect();
    assert_eq!((seen, pair.ends[1].nic.watch_count(watch, now)), (vec![(0, 100), (1, 200)], 1));
    assert_eq!(pair.ids(0), [(1, WcStatus::Success), (2, WcStatus::Success), (3, WcStatus::Success)]);
}

#[test]
fn requests_end_in_order_though_a_read_takes_longer() {
    let mut pair = pair();
    pair.fill(1, 0, &[9; 700]);
    pair.post_recv(1, 0, pair.sge(1, 8000, 10)).unwrap();
    pair.post(0, &SendWr::read(1, pair.sge(0, 0, 700), pair.remote(1, 0)).signaled()).unwrap();
    pair.post(0, &SendWr::send(2, pair.sge(0, 2000, 10)).signaled()).unwrap();
    pair.transmit(0, 100);
    let request = pair.side.at(pair.wires[1][0].ext).and_then(|ext| ext.frame()).map(|frame| frame.control);
    assert!(matches!(request, Some(Control::Read(request)) if request.size == 700));
    // 2 + 18 + 28 + 4 bytes of frame: the request carries no data of a program.
    assert_eq!(waiting(&pair, 1)[0], (Some(RdmapOpcode::ReadRequest), 0, 38 + 40 + 52));
    while pair.receive(1).is_some() {}
    pair.transmit(1, 100);
    let response = Some(RdmapOpcode::ReadResponse);
    let sizes: Vec<_> = waiting(&pair, 0).into_iter().filter(|packet| packet.0 == response).map(|packet| packet.1).collect();
    assert_eq!(sizes, [280, 280, 140]);
    pair.receive(0);
    assert!(pair.ends[0].done.is_empty(), "the SEND is acknowledged, the READ in front of it is not over");
    assert!(pair.run(1000));
    assert_eq!(pair.ids(0), [(1, WcStatus::Success), (2, WcStatus::Success)]);
    assert_eq!(pair.bytes(0, 0, 700), [9; 700]);
}

#[test]
fn a_fence_waits_for_reads_and_reads_for_their_limit() {
    let mut pair = Pair::new(|init| init, QpType::Iwarp, Faults::default());
    pair.connect(Mtu::B256, 0, |rtr| rtr.max_dest_rd_atomic = Some(1), |rts| rts.max_rd_atomic = Some(1));
    for id in 0..2 {
        pair.post(0, &SendWr::read(id, pair.sge(0, 0, 100), pair.remote(1, 0)).signaled()).unwrap();
    }
    let fenced = SendWr::write(2, pair.sge(0, 0, 8), pair.remote(1, 0)).with_flags(SendFlags::FENCE).signaled();
    pair.post(0, &fenced).unwrap();
    pair.transmit(0, 100);
    assert_eq!(waiting(&pair, 1).len(), 1);
    assert!(pair.run(1000));
    assert_eq!(pair.ids(0), [(0, WcStatus::Success), (1, WcStatus::Success), (2, WcStatus::Success)]);
}

#[test]
fn a_send_without_a_receive_ends_the_stream() {
    let mut pair = pair();
    pair.post_recv(1, 0, pair.sge(1, 0, 10)).unwrap();
    pair.post(0, &SendWr::send(1, pair.sge(0, 0, 10)).signaled()).unwrap();
    pair.post(0, &SendWr::send(2, pair.sge(0, 0, 10)).signaled()).unwrap();
    pair.post(0, &SendWr::read(3, pair.sge(0, 0, 10), pair.remote(1, 0)).signaled()).unwrap();
    assert!(pair.run(1000));
    // TCP of the peer had the second SEND: its sender thinks that all is well. The READ behind it hears why nothing comes.
    assert_eq!(pair.ids(0), [(1, WcStatus::Success), (2, WcStatus::Success), (3, WcStatus::RemInvReqErr)]);
    assert_eq!(pair.ids(1), [(0, WcStatus::Success)]);
    assert_eq!((pair.state(0), pair.state(1)), (QpState::Err, QpState::Err));
    assert_eq!(events(&mut pair, 1), [AsyncEvent::QpRequestError(pair.ends[1].qp)]);
    assert!(pair.side.is_empty());
}

#[test]
fn a_long_send_and_a_wrong_key_are_refused_with_their_reasons() {
    let mut long = pair();
    long.post_recv(1, 0, long.sge(1, 0, 300)).unwrap();
    long.post_recv(1, 1, long.sge(1, 0, 300)).unwrap();
    long.post(0, &SendWr::send(1, long.sge(0, 0, 2000)).signaled()).unwrap();
    assert!(long.run(1000));
    assert_eq!(long.ids(1), [(0, WcStatus::LocLenErr), (1, WcStatus::WrFlushErr)]);
    let mut key = pair();
    let nowhere = Remote { addr: 1 << 40, rkey: key.ends[1].mr.rkey };
    key.post(0, &SendWr::read(1, key.sge(0, 0, 20), nowhere).signaled()).unwrap();
    key.post(0, &SendWr::write(2, key.sge(0, 0, 20), key.remote(1, 0)).signaled()).unwrap();
    assert!(key.run(1000));
    assert_eq!(key.ids(0), [(1, WcStatus::RemAccessErr), (2, WcStatus::WrFlushErr)]);
    assert_eq!(events(&mut key, 1), [AsyncEvent::QpAccessError(key.ends[1].qp)]);
}

#[test]
fn nobody_answers() {
    let mut pair = pair();
    pair.post_recv(0, 7, pair.sge(0, 0, 10)).unwrap();
    for id in 0..3 {
        pair.post(0, &SendWr::write(id, pair.sge(0, 0, 300), pair.remote(1, 0)).signaled()).unwrap();
    }
    for _ in 0..10 {
        while pair.transmit(0, 100) {}
        let lost: Vec<_> = pair.wires[1].drain(..).collect();
        lost.into_iter().for_each(|packet| pair.side.free(packet.ext));
        if let Some(at) = pair.ends[0].nic.poll_timeout() {
            pair.now = pair.now.max(at);
            pair.ends[0].nic.handle_timeout(pair.now);
        }
    }
    pair.transmit(0, 100);
    // 50 us doubled seven times: 50 · (2^8 - 1).
    assert_eq!(pair.now.since(Time::from_ps(1)).as_ps(), 12_750_000_000);
    let flushed = WcStatus::WrFlushErr;
    assert_eq!(pair.ids(0), [(0, WcStatus::RetryExcErr), (1, flushed), (2, flushed), (7, flushed)]);
}

#[test]
fn what_iwarp_has_not_is_refused() {
    let mut pair = pair();
    let (near, far) = (pair.sge(0, 0, 8), pair.remote(1, 0));
    for wr in [SendWr::send(0, near).with_imm(1), SendWr::write(0, near, far).with_imm(1), SendWr::fetch_add(0, near, far, 1)] {
        assert!(matches!(pair.post(0, &wr), Err(PostError::OpcodeNotSupported { .. })), "{wr:?}");
    }
    let mut two = SendWr::read(0, near, far);
    two.sge.push(near);
    assert_eq!(pair.post(0, &two), Err(PostError::TooManySges { sges: 2, max: 1 }));
    // The response to a READ is a WRITE of the peer: the memory has to allow it.
    let TestEnd { nic, pd, .. } = &mut pair.ends[0];
    let local = nic.reg_mr(*pd, 1 << 30, Bytes(64), Access::LOCAL_WRITE).unwrap();
    let sink = Sge { addr: 1 << 30, length: 8, lkey: local.lkey };
    pair.post(0, &SendWr::read(5, sink, far).signaled()).unwrap();
    assert!(pair.run(1000));
    assert_eq!(pair.ids(0), [(5, WcStatus::LocProtErr)]);
    // Its peer is told by a reset.
    assert_eq!((pair.state(1), events(&mut pair, 1)), (QpState::Err, vec![AsyncEvent::QpFatal(pair.ends[1].qp)]));
}

#[test]
fn an_adapter_has_iwarp_or_everything_else() {
    let mut pair = pair();
    let TestEnd { nic, pd, cq, .. } = &mut pair.ends[0];
    let message = nic.create_qp(&QpInit::new(*pd, QpType::Ud, *cq)).unwrap_err().in_full();
    assert_eq!(message, "a queue pair of type UD with an adapter of iWARP, which has connections and nothing else; use RC");
    let rc = nic.create_qp(&QpInit::new(*pd, QpType::Rc, *cq)).unwrap();
    assert_eq!(nic.query_qp(rc).unwrap().init.qp_type, QpType::Iwarp);
    let mut plain = Pair::rc();
    let TestEnd { nic, pd, cq, .. } = &mut plain.ends[0];
    let message = nic.create_qp(&QpInit::new(*pd, QpType::Iwarp, *cq)).unwrap_err().in_full();
    assert_eq!(message, "a queue pair of type IWARP with an adapter that has no TCP of its own; use RC");
}

use pair::TestEnd;
