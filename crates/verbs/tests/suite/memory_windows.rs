//! Memory windows between two queue pairs: bound and closed in the order of the send queue, and what a peer may do meanwhile.

use crate::pair;
use fabriscope_units::Bytes;
use fabriscope_verbs::*;
use pair::Pair;

/// A pair whose second end has 4 KiB that no peer reaches, and a window of type 2; gives its piece and the key to bind.
fn with_window() -> (Pair, Sge, Rkey) {
    let mut pair = Pair::rc();
    let end = &mut pair.ends[1];
    let mr = end.nic.reg_mr(end.pd, 0x4000, Bytes(4096), Access::LOCAL_WRITE | Access::MW_BIND).unwrap();
    let key = end.nic.alloc_mw(end.pd, WindowKind::Two).unwrap();
    (pair, Sge { addr: 0x4100, length: 256, lkey: mr.lkey }, Rkey(key.0 + 1))
}

/// How a write of the first end to `addr` under `rkey` ends.
fn write(pair: &mut Pair, addr: u64, rkey: Rkey) -> WcStatus {
    let source = pair.sge(0, 0, 16);
    pair.post(0, &SendWr::write(7, source, Remote { addr, rkey }).signaled()).unwrap();
    assert!(pair.run(1000));
    pair.ids(0).last().unwrap().1
}

#[test]
fn a_peer_writes_while_the_window_is_open() {
    let (mut pair, at, rkey) = with_window();
    pair.fill(0, 0, &[9; 16]);
    // Behind a write of its own: it is done when that is acknowledged.
    let (source, target) = (pair.sge(1, 0, 600), pair.remote(0, 4096));
    pair.post(1, &SendWr::write(1, source, target).signaled()).unwrap();
    pair.post(1, &SendWr::bind(2, rkey, at, Access::REMOTE_WRITE).signaled()).unwrap();
    assert!(pair.run(1000));
    assert_eq!(pair.ids(1), [(1, WcStatus::Success), (2, WcStatus::Success)]);
    assert_eq!(pair.ends[1].done[1].opcode, WcOpcode::BindMw);
    assert_eq!(write(&mut pair, 0x4100, rkey), WcStatus::Success);
    assert_eq!(pair.bytes(1, 0x4100, 16), [9; 16]);
    assert_eq!(write(&mut pair, 0x40f0, rkey), WcStatus::RemAccessErr, "before its first byte");
}

#[test]
fn an_invalidated_key_is_a_remote_access_error() {
    let (mut pair, at, rkey) = with_window();
    pair.post(1, &SendWr::bind(1, rkey, at, Access::REMOTE_WRITE).signaled()).unwrap();
    pair.post(1, &SendWr::invalidate(2, rkey).signaled()).unwrap();
    assert!(pair.run(1000));
    assert_eq!(pair.ids(1), [(1, WcStatus::Success), (2, WcStatus::Success)]);
    assert_eq!(write(&mut pair, 0x4100, rkey), WcStatus::RemAccessErr);
    assert_eq!(pair.state(0), QpState::Err);
}

/// SEND with invalidate closes the window that the receiver had opened for the sender (IBA vol. 1 §9.4.1.1).
#[test]
fn a_send_closes_the_window_of_its_receiver() {
    let (mut pair, at, rkey) = with_window();
    pair.post(1, &SendWr::bind(1, rkey, at, Access::REMOTE_WRITE).signaled()).unwrap();
    assert!(pair.run(1000));
    let into = pair.sge(1, 0, 1024);
    pair.post_recv(1, 5, into).unwrap();
    let source = pair.sge(0, 0, 700);
    pair.post(0, &SendWr::send(3, source).invalidating(rkey).signaled()).unwrap();
    assert!(pair.run(1000));
    assert_eq!((pair.ids(0), pair.ids(1).last()), (vec![(3, WcStatus::Success)], Some(&(5, WcStatus::Success))));
    assert_eq!(write(&mut pair, 0x4100, rkey), WcStatus::RemAccessErr);
}

#[test]
fn what_cannot_be_bound_fails_at_home() {
    let (mut pair, at, rkey) = with_window();
    let beyond = Sge { length: 4096, ..at };
    pair.post(1, &SendWr::bind(1, rkey, beyond, Access::REMOTE_READ)).unwrap();
    assert!(pair.run(1000));
    assert_eq!((pair.ids(1), pair.state(1)), (vec![(1, WcStatus::MwBindErr)], QpState::Err));
    let bind = SendWr::bind(1, rkey, at, Access::NONE);
    let mut uc = Pair::new(|init| init, QpType::Uc, pair::Faults::default());
    uc.connect(Mtu::B256, 0, |_| (), |_| ());
    assert_eq!(uc.post(1, &bind), Err(PostError::OpcodeNotSupported { opcode: WrOpcode::BindMw, qp_type: QpType::Uc }));
}
