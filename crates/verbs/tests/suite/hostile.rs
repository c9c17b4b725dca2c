//! Packets that no well-behaved NIC would send: nothing panics, nothing outside a region is touched, nothing leaks.

use crate::pair;
use fabriscope_verbs::*;
use pair::{Faults, Pair};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Forged {
    opcode: u8,
    /// Relative to the first PSN.
    psn: i32,
    payload: u16,
    flags: u8,
    syndrome: u8,
    ext: Option<Ext>,
}

fn forged() -> impl Strategy<Value = Forged> {
    let addr = prop_oneof![Just(0u64), Just(8u64), 0u64..2_000_000, Just(u64::MAX - 3)];
    let length = prop_oneof![0u32..700, Just(u32::MAX), Just(1u32 << 31)];
    let ext =
        (addr, length, any::<bool>(), any::<u64>(), prop::option::of(0usize..600)).prop_map(|(addr, length, good, value, data)| Ext {
            remote_addr: addr,
            dma_length: length,
            rkey: Rkey(if good { 256 } else { value as u32 }),
            compare_add: value,
            qkey: 7,
            data: data.map(|length| vec![1; length].into()),
            ..Ext::default()
        });
    let opcode = prop_oneof![8 => 0u8..0x18, 1 => any::<u8>(), 2 => 0x20u8..0x2c, 1 => 0x64u8..0x66];
    let payload = prop_oneof![3 => Just(256u16), 2 => 0u16..260, 1 => any::<u16>()];
    let syndrome = prop_oneof![Just(0x1fu8), Just(0x60u8), 0x61u8..0x64, 0x20u8..0x40, any::<u8>()];
    let psn = prop_oneof![5 => -3i32..12, 1 => any::<i32>()];
    (opcode, psn, payload, 0u8..32, syndrome, prop::option::weighted(0.8, ext))
        .prop_map(|(opcode, psn, payload, flags, syndrome, ext)| Forged { opcode, psn, payload, flags, syndrome, ext })
}

fn bombard(qp_type: QpType, any_order: bool, packets: &[Forged]) -> Result<(), TestCaseError> {
    let mut pair = Pair::new(|init| init, qp_type, Faults::default());
    let rc = qp_type == QpType::Rc;
    pair.connect(
        Mtu::B256,
        5,
        |attr| {
            if rc {
                (attr.any_order, attr.window) = (Some(any_order), Some(64))
            }
        },
        |_| (),
    );
    for n in 0..4 {
        let sge = pair.sge(0, n * 1024, 300);
        pair.post_recv(0, n, sge).unwrap();
        if rc {
            pair.post(0, &SendWr::read(n, pair.sge(0, 0, 600), pair.remote(1, 0)).signaled()).unwrap();
            pair.post(0, &SendWr::fetch_add(n, pair.sge(0, 0, 8), pair.remote(1, 0), 1)).unwrap();
            pair.post(0, &SendWr::send(n, pair.sge(0, 0, 600)).signaled()).unwrap();
        }
    }
    for forged in packets {
        let ext = forged.ext.clone().map_or(ExtId::NONE, |ext| pair.side.alloc(ext));
        let packet = Packet {
            dest: Lid(1),
            dest_qp: pair.ends[0].qp.0,
            psn: forged.psn.wrapping_add(5) as u32 & 0xff_ffff,
            ext,
            wire_bytes: 0,
            payload: forged.payload,
            opcode: forged.opcode,
            flags: PacketFlags(forged.flags),
            syndrome: forged.syndrome,
            sl: 0,
            entropy: 0,
            msn: 0,
        };
        pair.wires[0].push_back(packet);
        let _ = pair.receive(0);
        pair.transmit(0, 3);
        for sent in pair.wires[1].drain(..) {
            pair.side.free(sent.ext);
        }
    }
    let qp = pair.ends[0].qp;
    pair.ends[0].nic.modify_qp(qp, &QpAttr::to(QpState::Err)).unwrap();
    let dropped = Packet { dest_qp: 0, ..Packet::default() };
    pair.wires[0].push_back(dropped);
    let _ = pair.receive(0);
    prop_assert_eq!(pair.side.len(), 0, "extensions leaked");
    let done = &pair.ends[0].done;
    let mut receives: Vec<u64> = done.iter().filter(|wc| wc.opcode.is_recv()).map(|wc| wc.wr_id).collect();
    receives.sort_unstable();
    prop_assert_eq!(receives, [0, 1, 2, 3], "each receive completes once");
    if rc {
        prop_assert!(done.iter().filter(|wc| !wc.opcode.is_recv()).count() >= 8, "each signalled request completes");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn forged_packets_do_no_harm(packets in prop::collection::vec(forged(), 1..40), kind in 0..4) {
        let qp_type = [QpType::Rc, QpType::Rc, QpType::Uc, QpType::Ud][kind as usize];
        bombard(qp_type, kind == 1, &packets)?;
    }
}
