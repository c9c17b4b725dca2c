//! Bytes on the wire outside the payload, as a table that can be checked against the standard.

use std::fmt::Write;

use fabriscope_wire::{LinkLayer, Opcode, pad};

#[test]
fn overhead_of_every_opcode_on_every_link() {
    let mut table =
        format!("{:26}{:>5}{:>6}{:>8}{:>8}{:>10}{:>10}\n", "opcode (bytes)", "ext", "IB", "IB+GRH", "RoCEv1", "RoCEv2/4", "RoCEv2/6");
    for opcode in Opcode::NAMED {
        let [ib, grh, v1, v2, v6, short] = LinkLayer::ALL.map(|layer| layer.overhead(*opcode));
        // Broadcom: 10 B where there were 46.
        assert_eq!(short + 46 - 10, v2, "{opcode}");
        writeln!(table, "{opcode:26}{:>5}{ib:>6}{grh:>8}{v1:>8}{v2:>10}{v6:>10}", opcode.extension_bytes()).unwrap();
    }
    assert_eq!(table, include_str!("../golden/overhead.txt"), "\n{table}");
}

#[test]
fn a_full_packet_of_roce() {
    // 8 preamble + 14 Ethernet + 20 IPv4 + 8 UDP + 12 BTH + 4096 + 4 ICRC + 4 FCS + 12 gap
    assert_eq!(LinkLayer::RoceV2Ipv4.wire_bytes(Opcode::RC_WRITE_MIDDLE, 4096), 4178);
    // 2 delimiters + 8 LRH + 12 BTH + 4096 + 4 ICRC + 2 VCRC
    assert_eq!(LinkLayer::InfiniBand.wire_bytes(Opcode::RC_WRITE_MIDDLE, 4096), 4124);
}

#[test]
fn short_packets_are_padded_and_short_frames_filled() {
    assert_eq!([0, 1, 2, 3, 4, 4095].map(pad), [0, 3, 2, 1, 0, 1]);
    let [empty, small] = [0, 1].map(|payload| LinkLayer::RoceV2Ipv4.wire_bytes(Opcode::RC_SEND_ONLY, payload));
    // 62 bytes of frame become 64; with one byte and three of pad it has 66.
    assert_eq!((empty, small), (64 + 20, 66 + 20));
    assert_eq!(LinkLayer::InfiniBand.wire_bytes(Opcode::RC_SEND_ONLY, 0), 28);
}
