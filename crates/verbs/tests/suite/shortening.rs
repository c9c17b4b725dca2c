//! Messages made shorter on their way: both ends agree, what follows is not touched, and every extension is freed.

use fabriscope_units::{Bytes, Rate};
use fabriscope_verbs::*;

use crate::fleet::{Faults, Fleet};

const MTU: Mtu = Mtu::B256;
/// More than any window lets go at once.
const PACKETS: u32 = 6000;
const TAKEN: u32 = 1500;
const AFTER: u32 = 10;

/// A long message and a short one behind it from node 0 to node 1, of which the long one loses `TAKEN` packets on its way.
fn shortened(kind: QpType, opcode: WrOpcode, faults: Faults) -> Fleet {
    let mut fleet = Fleet::without_bytes(kind, 2, MTU, faults);
    pace(&mut fleet);
    for (id, packets) in [(1, PACKETS), (2, AFTER)] {
        let sge = fleet.sge(0, 0, packets * 256 - 100);
        let remote = fleet.remote(1, 0);
        let wr = if opcode.is_write() { SendWr::write(id, sge, remote) } else { SendWr::send(id, sge).with_imm(7) };
        if !opcode.is_write() {
            let buffer = fleet.sge(1, 0, PACKETS * 256);
            fleet.post_recv(0, 1, id, buffer).unwrap();
        }
        fleet.post(0, 1, wr.signaled()).unwrap();
    }
    let state = |fleet: &Fleet| fleet.nodes[0].nic.outstanding(fleet.nodes[0].to[1], Some(fleet.nodes[0].ah[1]));
    assert!(state(&fleet).is_none(), "nothing was sent yet");
    let mut message = None;
    for _ in 0..2000 {
        fleet.run(1);
        message = state(&fleet).filter(|message| message.in_order && fleet.nodes[1].nic.receives(Lid(1), message));
        if message.is_some_and(|message| message.sent > 30) {
            break;
        }
    }
    let message = message.expect("the long message is on its way");
    assert_eq!((message.wr_id, message.sent + message.unsent), (1, PACKETS), "{kind:?}");
    let (qp, ah) = (fleet.nodes[0].to[1], Some(fleet.nodes[0].ah[1]));
    let Fleet { nodes, side, .. } = &mut fleet;
    assert!(!nodes[0].nic.shorten(qp, ah, message.unsent, side), "the last packet stays");
    let taken = TAKEN.min(message.unsent - 1);
    assert_eq!(taken, TAKEN, "{kind:?}: {message:?}");
    assert!(nodes[0].nic.shorten(qp, ah, taken, side));
    nodes[1].nic.expect_less(Lid(1), &message, taken);
    assert_eq!(state(&fleet).map(|message| message.sent + message.unsent), Some(PACKETS - TAKEN));
    assert!(fleet.run(200_000), "{kind:?}: nothing may stay outstanding");
    fleet
}

/// The window of a connection would let all of the message go at once.
fn pace(fleet: &mut Fleet) {
    if fleet.kind == QpType::Rc {
        let node = &mut fleet.nodes[0];
        node.nic.set_rate_limit(node.to[1], Some(Rate::from_gbps(100)), Bytes::ZERO).unwrap();
    }
}

#[test]
fn both_ends_agree_on_a_shorter_message() {
    let shaken = Faults { reorder: 200, seed: 5, ..Faults::default() };
    let cases = [(QpType::Rc, Faults::default()), (QpType::Srd, shaken), (QpType::Uet, shaken), (QpType::UetRod, Faults::default())];
    for (kind, faults) in cases {
        for opcode in [WrOpcode::RdmaWrite, WrOpcode::SendWithImm] {
            if kind == QpType::Srd && !opcode.is_write() {
                continue; // its SENDs are one packet
            }
            let fleet = shortened(kind, opcode, faults);
            let ended = |node: usize| fleet.nodes[node].done.iter().map(|wc| (wc.wr_id, wc.status)).collect::<Vec<_>>();
            let mut sent = ended(0);
            sent.sort_unstable_by_key(|(id, _)| *id);
            assert_eq!(sent, [(1, WcStatus::Success), (2, WcStatus::Success)], "{kind:?}, {opcode:?}");
            if !opcode.is_write() {
                let mut lengths: Vec<u32> = fleet.nodes[1].done.iter().map(|wc| wc.byte_len).collect();
                lengths.sort_unstable();
                assert_eq!(lengths, [AFTER * 256 - 100, (PACKETS - TAKEN) * 256 - 100], "{kind:?}");
                assert!(fleet.nodes[1].done.iter().all(|wc| wc.imm == Some(7)), "the last packet says it");
            }
            assert_eq!(fleet.written.len() as u32, PACKETS - TAKEN + AFTER, "{kind:?}: every packet once");
            assert_eq!(fleet.side.len(), 0, "{kind:?}: every extension is freed");
        }
    }
}

/// Losses after the message was shortened are made good: what goes again says the same length.
#[test]
fn a_shorter_message_survives_loss() {
    for kind in [QpType::Uet, QpType::Srd] {
        let mut fleet = Fleet::without_bytes(kind, 2, MTU, Faults { lose: 20, reorder: 100, seed: 9, ..Faults::default() });
        let (sge, remote) = (fleet.sge(0, 0, PACKETS * 256), fleet.remote(1, 0));
        fleet.post(0, 1, SendWr::write(1, sge, remote).signaled()).unwrap();
        let (qp, ah) = (fleet.nodes[0].to[1], Some(fleet.nodes[0].ah[1]));
        let mut taken = false;
        for _ in 0..4000 {
            fleet.run(1);
            let message = fleet.nodes[0].nic.outstanding(qp, ah).filter(|message| message.in_order);
            let Some(message) = message.filter(|message| fleet.nodes[1].nic.receives(Lid(1), message)) else { continue };
            let Fleet { nodes, side, .. } = &mut fleet;
            taken = nodes[0].nic.shorten(qp, ah, 500, side);
            assert!(taken, "{kind:?}");
            nodes[1].nic.expect_less(Lid(1), &message, 500);
            break;
        }
        assert!(taken && fleet.run(500_000), "{kind:?}");
        assert_eq!(fleet.nodes[0].done.iter().map(|wc| wc.status).collect::<Vec<_>>(), [WcStatus::Success], "{kind:?}");
        assert_eq!(fleet.side.len(), 0, "{kind:?}");
    }
}

#[test]
fn an_adapter_with_memory_refuses() {
    let mut fleet = Fleet::new(QpType::Rc, 2, MTU, Faults::default(), cc::Settings::default());
    pace(&mut fleet);
    let (sge, remote) = (fleet.sge(0, 0, 1 << 20), fleet.remote(1, 0));
    fleet.post(0, 1, SendWr::write(1, sge, remote).signaled()).unwrap();
    fleet.run(10);
    let qp = fleet.nodes[0].to[1];
    assert!(fleet.nodes[0].nic.outstanding(qp, None).is_some());
    let Fleet { nodes, side, .. } = &mut fleet;
    assert!(!nodes[0].nic.shorten(qp, None, 1, side));
    assert!(fleet.run(100_000) && fleet.nodes[1].nic.line().mtu <= Bytes(4096));
}
