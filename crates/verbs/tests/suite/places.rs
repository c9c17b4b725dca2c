//! The NIC says in which memory of the node a payload lies, for every transport and whichever end the memory is at.

use crate::fleet;
use fabriscope_units::Bytes;
use fabriscope_verbs::*;
use fleet::{Faults, Fleet};

const NEAR: MemoryId = MemoryId(3);
const FAR: MemoryId = MemoryId(5);
/// Bytes of a message of four packets.
const LENGTH: u32 = 1000;
const MTU: Mtu = Mtu::B256;

/// Two nodes with a region of their own at `NEAR` and `FAR`.
fn two(kind: QpType, faults: Faults) -> (Fleet, [Mr; 2]) {
    let mut fleet = Fleet::new(kind, 2, MTU, faults, cc::Settings::default());
    let mrs = [NEAR, FAR].map(|place| {
        let node = &mut fleet.nodes[usize::from(place == FAR)];
        node.nic.reach(place);
        node.nic.reg_mr_at(node.pd, 4096, Bytes(65_536), Access::ALL, place).unwrap()
    });
    (fleet, mrs)
}
fn sge(mr: &Mr, length: u32) -> Sge {
    Sge { addr: mr.addr, length, lkey: mr.lkey }
}
fn remote(mr: &Mr) -> Remote {
    Remote { addr: mr.addr, rkey: mr.rkey }
}

#[test]
fn writes_reads_and_atomics_name_the_memory_at_both_ends() {
    for kind in
        [QpType::Rc, QpType::XrcSend, QpType::Dci, QpType::Rd, QpType::Uet, QpType::UetRod, QpType::UetRudi, QpType::Srd, QpType::Iwarp]
    {
        let faults = if matches!(kind, QpType::Uet | QpType::UetRudi | QpType::Srd) {
            Faults { reorder: 300, seed: 5, ..Faults::default() }
        } else {
            Faults::default()
        };
        let (mut fleet, [near, far]) = two(kind, faults);
        fleet.post(0, 1, SendWr::write(1, sge(&near, LENGTH), remote(&far))).unwrap();
        assert!(fleet.run(10_000));
        assert_eq!(fleet.fetched, vec![(0, NEAR); 4], "WRITE of {}", kind.name());
        assert_eq!(fleet.written, vec![(1, FAR); 4], "WRITE of {}", kind.name());

        (fleet.fetched, fleet.written) = Default::default();
        fleet.post(0, 1, SendWr::read(2, sge(&near, LENGTH), remote(&far))).unwrap();
        assert!(fleet.run(10_000));
        assert_eq!(fleet.fetched, vec![(1, FAR); 4], "READ of {}", kind.name());
        assert_eq!(fleet.written, vec![(0, NEAR); 4], "READ of {}", kind.name());

        if !kind.has(WrOpcode::AtomicFetchAndAdd) {
            continue;
        }
        fleet.written.clear();
        fleet.post(0, 1, SendWr::fetch_add(3, sge(&near, 8), remote(&far), 1)).unwrap();
        assert!(fleet.run(10_000));
        assert_eq!(fleet.written, [(1, FAR), (0, NEAR)], "atomic of {}", kind.name());
    }
}

#[test]
fn memory_out_of_reach_is_not_registered() {
    let (mut fleet, _) = two(QpType::Rc, Faults::default());
    let node = &mut fleet.nodes[0];
    for place in [MemoryId(1), MemoryId(4), MemoryId(200)] {
        let error = node.nic.reg_mr_at(node.pd, 0, Bytes(64), Access::ALL, place).unwrap_err();
        assert_eq!(error, VerbsError::OutOfReach { place: place.0 });
    }
    assert!(node.nic.reg_mr_at(node.pd, 0, Bytes(64), Access::ALL, MemoryId::HOST).is_ok());
}

#[test]
fn sends_land_where_the_receive_says() {
    for kind in [QpType::Rc, QpType::XrcSend, QpType::Dci, QpType::Rd, QpType::Uc, QpType::Ud, QpType::Srd, QpType::Uet, QpType::Iwarp] {
        let (mut fleet, [near, far]) = two(kind, Faults::default());
        let length = if matches!(kind, QpType::Ud | QpType::Srd) { 200 } else { LENGTH };
        fleet.post_recv(0, 1, 9, sge(&far, length + 40)).unwrap();
        fleet.post(0, 1, SendWr::send(1, sge(&near, length))).unwrap();
        assert!(fleet.run(10_000));
        let packets = if length == LENGTH { 4 } else { 1 };
        assert_eq!(fleet.fetched, vec![(0, NEAR); packets], "{}", kind.name());
        assert_eq!(fleet.written, vec![(1, FAR); packets], "{}", kind.name());
        assert_eq!(fleet.nodes[1].done.len(), 1);
    }
}

#[test]
fn a_gathered_message_names_the_memory_of_each_packet() {
    let (mut fleet, [near, far]) = two(QpType::Rc, Faults::default());
    // 300 bytes beside the NIC, then 700 elsewhere: the second packet has 44 and 212 of them.
    let host = fleet.sge(0, 0, 300);
    let mut wr = SendWr::write(1, host, remote(&far));
    wr.sge.push(sge(&near, 700));
    fleet.post(0, 1, wr).unwrap();
    assert!(fleet.run(1000));
    assert_eq!(fleet.fetched.iter().map(|(_, place)| place.0).collect::<Vec<_>>(), [0, 3, 3, 3]);
}
