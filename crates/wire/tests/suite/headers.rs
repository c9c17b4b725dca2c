//! Every header to bytes and back, and the one complete packet that was checked with a capture tool.

use crate::bits::hex;
use fabriscope_units::Remedy;
use fabriscope_wire::*;
use proptest::prelude::*;

fn opcodes() -> impl Strategy<Value = Opcode> {
    any::<u8>().prop_filter_map("undefined", |byte| Opcode::decode(byte).ok())
}
fn syndromes() -> impl Strategy<Value = Syndrome> {
    any::<u8>().prop_filter_map("reserved", |byte| Syndrome::decode(byte).ok())
}

proptest! {
    #[test]
    fn bth(opcode in opcodes(), flags in any::<[bool; 5]>(), pad in 0u8..4, pkey: u16, dest_qp in 0u32..1 << 24, psn: u32) {
        let [solicited, migrated, fecn, becn, ack_request] = flags;
        let header = Bth { opcode, solicited, migrated, pad, pkey, fecn, becn, dest_qp, ack_request, psn: Psn::new(psn) };
        prop_assert_eq!(Bth::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn lrh(vl in 0u8..16, sl in 0u8..16, next in prop::sample::select(vec![NextHeader::Raw, NextHeader::RawIpv6, NextHeader::Bth, NextHeader::Grh]), dlid: u16, slid: u16, words in 0u16..1 << 11) {
        let header = Lrh { vl, sl, next, dlid, words, slid };
        prop_assert_eq!(Lrh::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn grh(traffic_class: u8, flow_label in 0u32..1 << 20, payload_length: u16, next_header: u8, hop_limit: u8, sgid: [u8; 16], dgid: [u8; 16]) {
        let header = Grh { traffic_class, flow_label, payload_length, next_header, hop_limit, sgid, dgid };
        prop_assert_eq!(Grh::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn extended_headers(address: u64, rkey: u32, length: u32, swap_add: u64, compare: u64, syndrome in syndromes(), low in 0u32..1 << 24) {
        let reth = Reth { address, rkey, length };
        prop_assert_eq!(Reth::decode(&reth.encode()), Ok(reth));
        let aeth = Aeth { syndrome, msn: low };
        prop_assert_eq!(Aeth::decode(&aeth.encode()), Ok(aeth));
        let deth = Deth { qkey: rkey, source_qp: low };
        prop_assert_eq!(Deth::decode(&deth.encode()), Ok(deth));
        let atomic = AtomicEth { address, rkey, swap_add, compare };
        prop_assert_eq!(AtomicEth::decode(&atomic.encode()), Ok(atomic));
        let ack = AtomicAckEth { original: compare };
        prop_assert_eq!(AtomicAckEth::decode(&ack.encode()), Ok(ack));
        prop_assert_eq!(ImmDt::decode(&ImmDt { immediate: length }.encode()), Ok(ImmDt { immediate: length }));
        prop_assert_eq!(Ieth::decode(&Ieth { rkey }.encode()), Ok(Ieth { rkey }));
    }

    #[test]
    fn internet_headers(dscp in 0u8..64, ecn in 0u8..4, total_length: u16, time_to_live: u8, protocol: u8, source: [u8; 4], destination: [u8; 4]) {
        let header = Ipv4 { dscp, ecn, total_length, time_to_live, protocol, source, destination };
        let bytes = header.encode();
        prop_assert_eq!(Ipv4::decode(&bytes), Ok((header, Ipv4::BYTES)));
        prop_assert_eq!(checksum(&bytes), 0);
        let udp = Udp { source: total_length, destination: !total_length, length: total_length / 2 };
        prop_assert_eq!(Udp::decode(&udp.encode()), Ok(udp));
    }

    #[test]
    fn ethernet_headers(destination: [u8; 6], source: [u8; 6], tags in 0usize..3, quanta: [Option<u16>; 8]) {
        let header = Ethernet { destination, source, ethertype: Ethernet::IPV4 };
        let mut bytes = header.encode().to_vec();
        (0..tags).for_each(|_| drop(bytes.splice(12..12, [0x81, 0x00, 0x60, 0x01])));
        prop_assert_eq!(Ethernet::decode(&bytes), Ok((header, Ethernet::BYTES + 4 * tags)));
        let pause = PriorityPause { quanta };
        prop_assert_eq!(PriorityPause::decode(&pause.encode()), Ok(pause));
    }

    /// Bytes from outside never panic, and what is read is what was there, apart from reserved bits.
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        for layer in LinkLayer::ALL {
            let _ = icrc(layer, &bytes);
        }
        let _ = vcrc(&bytes);
        let _ = (Ethernet::decode(&bytes), Ipv4::decode(&bytes), Udp::decode(&bytes), PriorityPause::decode(&bytes));
        let _ = (Lrh::decode(&bytes), Grh::decode(&bytes), Aeth::decode(&bytes), Deth::decode(&bytes), AtomicEth::decode(&bytes));
        if let Ok(header) = Bth::decode(&bytes) {
            prop_assert_eq!(Bth::decode(&header.encode()), Ok(header));
            prop_assert_eq!(header.encode()[..4].to_vec(), bytes[..4].to_vec());
        }
        if bytes.len() < Reth::BYTES {
            prop_assert_eq!(Reth::decode(&bytes), Err(WireError::Short { header: "RETH", needed: 16, present: bytes.len() }));
        }
    }

    /// The ICRC is blind to what may change on the way, and to nothing else.
    #[test]
    fn icrc_covers_what_must_not_change(at in 0usize..108, flip in 1u8..) {
        let packet = roce_packet();
        let mut other = packet.clone();
        other[at] ^= flip;
        // TOS, TTL, IP checksum, UDP checksum, FECN/BECN byte of the BTH; the first byte steers the parser.
        let free = [1, 8, 10, 11, 26, 27, 32];
        prop_assume!(at != 0);
        let same = icrc(LinkLayer::RoceV2Ipv4, &packet) == icrc(LinkLayer::RoceV2Ipv4, &other);
        prop_assert_eq!(same, free.contains(&at));
    }
}

/// RDMA WRITE of 64 bytes over RoCE version 2, from the IP header to the end of the payload, made from headers.
fn roce_packet() -> Vec<u8> {
    let mut packet = hex("456a007c0000400040112605 0a000001 0a000002 c12312b700680000");
    let mut bth = Bth::new(Opcode::RC_WRITE_ONLY, 0x12, Psn::new(100));
    bth.ack_request = true;
    packet.extend(bth.encode());
    packet.extend(Reth { address: 0x7f00_0000_1000, rkey: 0x0020_0c00, length: 64 }.encode());
    packet.extend(0..64);
    packet
}

#[test]
fn the_roce_test_vector() {
    let packet = roce_packet();
    let expected = hex("0a00ffff 00000012 80000064 00007f0000001000 00200c00 00000040");
    assert_eq!(packet[28..56], expected);
    assert_eq!(icrc(LinkLayer::RoceV2Ipv4, &packet).unwrap().to_le_bytes(), [0xd2, 0xf0, 0x89, 0x78]);
    // 138 bytes with the Ethernet header and the ICRC; preamble 8, FCS 4 and gap 12 come on top.
    assert_eq!(14 + packet.len() + 4, 138);
    assert_eq!(LinkLayer::RoceV2Ipv4.wire_bytes(Opcode::RC_WRITE_ONLY, 64), 138 + 24);
}

#[test]
fn the_link_may_change_the_lane_only() {
    let lrh = Lrh { vl: 0, sl: 1, next: NextHeader::Bth, dlid: 7, words: 6, slid: 9 };
    let packet = |lrh: Lrh| [&lrh.encode()[..], &Bth::new(Opcode::RC_ACKNOWLEDGE, 3, Psn::new(1)).encode(), &[0x1F, 0, 0, 1]].concat();
    let check = |lrh| icrc(LinkLayer::InfiniBand, &packet(lrh)).unwrap();
    assert_eq!(check(lrh), check(Lrh { vl: 5, ..lrh }));
    assert_ne!(check(lrh), check(Lrh { sl: 5, ..lrh }));
    assert_ne!(vcrc(&packet(lrh)), vcrc(&packet(Lrh { vl: 5, ..lrh })));
}

#[test]
fn the_variant_crc_is_a_crc() {
    // Bit by bit, most significant coefficient first, straight from the polynomial x^16 + x^12 + x^3 + x + 1.
    let bitwise = |bytes: &[u8]| {
        let mut crc = 0xFFFFu16;
        for bit in bytes.iter().flat_map(|byte| (0..8).map(move |n| u16::from(byte >> n & 1))) {
            let feedback = crc >> 15 ^ bit;
            crc = crc << 1 ^ if feedback == 1 { 0x100B } else { 0 };
        }
        !crc.reverse_bits()
    };
    for bytes in [&b""[..], b"\0", b"123456789", &[0xFF; 40]] {
        assert_eq!(vcrc(bytes), bitwise(bytes));
    }
}

#[test]
fn version_fields_are_checked_with_a_remedy() {
    assert!(Grh::decode(&[0x45; 40]).unwrap_err().in_full().contains("version 4 instead of 6"));
    assert!(Lrh::decode(&[1; 8]).is_err());
    assert!(icrc(LinkLayer::RoceV2Ipv6, &roce_packet()).is_err());
}
