//! Automatic path migration: who is armed when, and what becomes of a connection whose first path does not answer.

use crate::pair;
use fabriscope_verbs::*;
use pair::{Faults, Pair};

/// A connected pair, with the alternate path loaded at the ends that are named.
fn pair(ends: &[usize]) -> Pair {
    let mut pair = Pair::new(|init| init, QpType::Rc, Faults::default());
    pair.connect(Mtu::B256, 0, |_| (), |attr| (attr.timeout, attr.retry_cnt) = (Some(1), Some(2)));
    for &end in ends {
        arm(&mut pair, end).expect("an alternate path");
    }
    pair
}

fn arm(pair: &mut Pair, end: usize) -> Result<(), VerbsError> {
    let lid = pair.ends[1 - end].nic.lid();
    let alt_path = Some(AltPath { av: AhAttr { dlid: lid, sl: 3 }, path_bits: 1 });
    let attr = QpAttr { alt_path, path_mig_state: Some(MigState::Rearm), ..QpAttr::default() };
    let end = &mut pair.ends[end];
    end.nic.modify_qp(end.qp, &attr)
}

fn state(pair: &Pair, end: usize) -> Option<MigState> {
    pair.ends[end].nic.query_qp(pair.ends[end].qp).unwrap().attr.path_mig_state
}

/// Sends one message from end 0; packets of service level `dead` are lost. True when it is quiet in the end.
fn send(pair: &mut Pair, id: u64, dead: Option<u8>) -> bool {
    let buffer = pair.sge(1, 4096, 64);
    pair.post_recv(1, id, buffer).unwrap();
    let wr = SendWr::send(id, pair.sge(0, 0, 64)).signaled();
    pair.post(0, &wr).unwrap();
    for _ in 0..100 {
        for end in 0..2 {
            pair.transmit(end, 100);
            let wires = &mut pair.wires[1 - end];
            wires.retain(|packet| Some(packet.sl) != dead);
        }
        while pair.receive(0).is_some() || pair.receive(1).is_some() {}
        if let Some(at) = (0..2).filter_map(|end| pair.ends[end].nic.poll_timeout()).min() {
            pair.now = pair.now.max(at);
            (0..2).for_each(|end| pair.ends[end].nic.handle_timeout(pair.now));
        } else if pair.wires.iter().all(|wire| wire.is_empty()) && (0..2).all(|end| !pair.ends[end].nic.wants_to_transmit()) {
            (0..2).for_each(|end| assert!(pair.run(10), "end {end} is quiet"));
            return true;
        }
    }
    false
}

#[test]
fn ends_arm_each_other_with_their_packets() {
    let mut pair = pair(&[0]);
    assert_eq!(state(&pair, 0), Some(MigState::Rearm));
    assert!(send(&mut pair, 1, None));
    assert_eq!(state(&pair, 0), Some(MigState::Rearm), "the peer has no other path");
    arm(&mut pair, 1).expect("an alternate path");
    assert!(send(&mut pair, 2, None));
    assert_eq!((state(&pair, 0), state(&pair, 1)), (Some(MigState::Armed), Some(MigState::Armed)));
}

#[test]
fn an_armed_connection_migrates_where_others_fail() {
    let mut armed = pair(&[0, 1]);
    assert!(send(&mut armed, 1, None));
    assert!(send(&mut armed, 2, Some(0)), "the path of service level 0 is dead");
    assert_eq!(armed.ids(0), [(1, WcStatus::Success), (2, WcStatus::Success)]);
    assert_eq!(armed.ids(1), [(1, WcStatus::Success), (2, WcStatus::Success)]);
    for end in 0..2 {
        assert_eq!(state(&armed, end), Some(MigState::Migrated), "the packets of one end make the other migrate");
        let nic = &mut armed.ends[end].nic;
        assert_eq!(nic.counts().migrations, 1);
        let events: Vec<_> = std::iter::from_fn(|| nic.poll_async_event()).collect();
        assert!(events.iter().any(|event| matches!(event, AsyncEvent::PathMigrated(_))), "{events:?}");
    }
    // The second path dies as well, and there is no third.
    assert!(send(&mut armed, 3, Some(3)));
    assert_eq!(armed.ids(0)[2], (3, WcStatus::RetryExcErr));
    let mut bare = pair(&[]);
    assert!(send(&mut bare, 1, Some(0)));
    assert_eq!(bare.ids(0), [(1, WcStatus::RetryExcErr)]);
}

#[test]
fn states_that_cannot_be_asked_for_are_refused() {
    let mut pair = pair(&[]);
    let end = &mut pair.ends[0];
    let ask = |state| QpAttr { path_mig_state: Some(state), ..QpAttr::default() };
    let error = end.nic.modify_qp(end.qp, &ask(MigState::Armed)).unwrap_err();
    assert!(matches!(error, VerbsError::OutOfRange { what: "path_mig_state", .. }), "{error}");
    let error = end.nic.modify_qp(end.qp, &ask(MigState::Rearm)).unwrap_err();
    assert!(matches!(error, VerbsError::MissingAttribute { attribute: "alt_path", .. }), "{error}");
}
