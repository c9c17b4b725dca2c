//! ICRC and VCRC by the definition of the standard: polynomials divided bit by bit, with the fields masked one by one.

use crate::bits;
use bits::{hex, pack};
use fabriscope_wire::{Bth, Ethernet, Grh, Ipv4, LinkLayer, Lrh, NextHeader, Opcode, Psn, Udp, icrc, vcrc};
use proptest::prelude::*;

/// IBA vol. 1 §7.8.1: x³² + x²⁶ + x²³ + x²² + x¹⁶ + x¹² + x¹¹ + x¹⁰ + x⁸ + x⁷ + x⁵ + x⁴ + x² + x + 1, ones in front, bits of each byte from
/// the right, the complement at the end; sent so that the coefficient of x³¹ comes first.
fn invariant(bytes: &[u8]) -> u32 {
    let polynomial = [26, 23, 22, 16, 12, 11, 10, 8, 7, 5, 4, 2, 1, 0].iter().fold(0u32, |sum, power| sum | 1 << power);
    let mut rest = u32::MAX;
    for bit in bytes.iter().flat_map(|byte| (0..8).map(move |at| u32::from(byte >> at & 1))) {
        let out = rest >> 31 ^ bit;
        rest = rest << 1 ^ (out * polynomial);
    }
    !rest.reverse_bits()
}

fn bth(psn: u32) -> Bth {
    Bth { fecn: true, ack_request: true, ..Bth::new(Opcode::RC_SEND_ONLY, 0xABCDE, Psn::new(psn)) }
}

/// The base header as the ICRC sees it: the byte of FECN, BECN and reserved bits is ones.
fn masked(psn: u32) -> Vec<u8> {
    pack(&[(4, 8), (0, 8), (0xFFFF, 16), (0xFF, 8), (0xABCDE, 24), (1, 1), (0, 7), (psn.into(), 24)])
}

fn grh(next_header: u8) -> Grh {
    Grh { traffic_class: 0x12, flow_label: 0x34567, payload_length: 40, next_header, hop_limit: 9, sgid: [3; 16], dgid: [4; 16] }
}

/// Version, then ones for traffic class and flow label, then length, next header, ones for the hop limit, and the addresses.
fn masked_grh(next_header: u8) -> Vec<u8> {
    let mut bytes = pack(&[(6, 4), (0xFFF_FFFF, 28), (40, 16), (next_header.into(), 8), (0xFF, 8)]);
    bytes.extend([3; 16]);
    bytes.extend([4; 16]);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// §7.8.1 for a packet of one subnet: the virtual lane counts as ones, since switches change it.
    #[test]
    fn infiniband(vl in 0u8..16, sl in 0u8..16, psn in 0u32..1 << 24, payload in prop::collection::vec(any::<u8>(), 0..64)) {
        let lrh = Lrh { vl, sl, next: NextHeader::Bth, dlid: 1, words: 9, slid: 2 };
        let packet = [&lrh.encode()[..], &bth(psn).encode(), &payload].concat();
        let first = pack(&[(0xF, 4), (0, 4), (sl.into(), 4), (0, 2), (2, 2), (1, 16), (9, 16), (2, 16)]);
        prop_assert_eq!(icrc(LinkLayer::InfiniBand, &packet), Ok(invariant(&[first, masked(psn), payload].concat())));
    }

    /// The same between subnets: what routers change of the GRH counts as ones too.
    #[test]
    fn infiniband_with_a_global_header(vl in 0u8..16, psn in 0u32..1 << 24, payload in prop::collection::vec(any::<u8>(), 0..64)) {
        let lrh = Lrh { vl, sl: 0, next: NextHeader::Grh, dlid: 1, words: 19, slid: 2 };
        let packet = [&lrh.encode()[..], &grh(Grh::NEXT_BTH).encode(), &bth(psn).encode(), &payload].concat();
        let first = pack(&[(0xF, 4), (0, 4), (0, 6), (3, 2), (1, 16), (19, 16), (2, 16)]);
        prop_assert_eq!(icrc(LinkLayer::InfiniBandGrh, &packet), Ok(invariant(&[first, masked_grh(0x1B), masked(psn), payload].concat())));
    }

    /// Annex A16.5.1: 64 ones stand for the LRH that RoCE does not have.
    #[test]
    fn roce_1(psn in 0u32..1 << 24, payload in prop::collection::vec(any::<u8>(), 0..64)) {
        let packet = [&grh(Grh::NEXT_BTH).encode()[..], &bth(psn).encode(), &payload].concat();
        let seen = [vec![0xFF; 8], masked_grh(0x1B), masked(psn), payload].concat();
        prop_assert_eq!(icrc(LinkLayer::RoceV1, &packet), Ok(invariant(&seen)));
    }

    /// Annex A17.3.3: of IPv4 type of service, time to live and checksum, of UDP its checksum, of IPv6 what a GRH has.
    #[test]
    fn roce_2(dscp in 0u8..64, ecn in 0u8..4, time_to_live: u8, psn in 0u32..1 << 24, payload in prop::collection::vec(any::<u8>(), 0..64)) {
        let udp = Udp { source: 0xC000, destination: Udp::ROCE_V2, length: 44 };
        let masked_udp = pack(&[(0xC000, 16), (4791, 16), (44, 16), (0xFFFF, 16)]);
        let ip = Ipv4 { dscp, ecn, total_length: 64, time_to_live, protocol: 17, source: [10, 0, 0, 1], destination: [10, 0, 0, 2] };
        let packet = [&ip.encode()[..], &udp.encode(), &bth(psn).encode(), &payload].concat();
        let masked_ip = pack(&[(0x45, 8), (0xFF, 8), (64, 16), (0, 16), (0x4000, 16), (0xFF, 8), (17, 8), (0xFFFF, 16), (0x0A00_0001, 32), (0x0A00_0002, 32)]);
        let seen = [vec![0xFF; 8], masked_ip, masked_udp.clone(), masked(psn), payload.clone()].concat();
        prop_assert_eq!(icrc(LinkLayer::RoceV2Ipv4, &packet), Ok(invariant(&seen)));

        let packet = [&grh(Udp::PROTOCOL).encode()[..], &udp.encode(), &bth(psn).encode(), &payload].concat();
        let seen = [vec![0xFF; 8], masked_grh(17), masked_udp, masked(psn), payload].concat();
        prop_assert_eq!(icrc(LinkLayer::RoceV2Ipv6, &packet), Ok(invariant(&seen)));
    }

    /// A CRC of 16 bits finds every burst of at most 16 wrong bits (Peterson, Brown, 1961).
    #[test]
    fn bursts_are_found(packet in prop::collection::vec(any::<u8>(), 4..80), at: u16, burst in 1u16..) {
        let mut wrong = packet.clone();
        let at = usize::from(at) % (wrong.len() - 1);
        wrong[at] ^= burst as u8;
        wrong[at + 1] ^= (burst >> 8) as u8;
        prop_assert_ne!(vcrc(&wrong), vcrc(&packet));
    }
}

#[test]
fn the_check_of_ethernet_is_the_same_polynomial() {
    // The division above is right: the CRC-32 of "123456789" is cbf43926, as IEEE 802.3 §3.2.9 gives it.
    assert_eq!(invariant(b"123456789"), 0xCBF4_3926);
}

#[test]
fn a_capture_checks_out() {
    // The acknowledgement of a queue pair 0x12 over RoCE 2, made from its parts: 14 of Ethernet, 20, 8, 12, 4 of AETH, 4 of ICRC, and 62 bytes
    // are two more than the shortest frame has without its check.
    let frame = Ethernet { destination: [2; 6], source: [4; 6], ethertype: Ethernet::IPV4 }.encode().to_vec();
    let ip = Ipv4 { dscp: 26, ecn: 2, total_length: 48, time_to_live: 64, protocol: 17, source: [10, 0, 0, 2], destination: [10, 0, 0, 1] };
    let udp = Udp { source: 0xC123, destination: Udp::ROCE_V2, length: 28 };
    let mut packet = [&ip.encode()[..], &udp.encode(), &Bth::new(Opcode::RC_ACKNOWLEDGE, 0x12, Psn::new(100)).encode()].concat();
    packet.extend(hex("1f000001"));
    let check = icrc(LinkLayer::RoceV2Ipv4, &packet).unwrap().to_le_bytes();
    assert_eq!(frame.len() + packet.len() + check.len(), 62);
    // Its sums say 48 bytes of IP and 28 of UDP, check included.
    assert_eq!((packet.len() + check.len(), packet.len() + check.len() - 20), (48, 28));
    // A router counts down the time to live and a switch marks the packet: end to end nothing changed.
    let mut later = packet.clone();
    (later[1], later[8], later[10], later[32]) = (later[1] | 3, 63, 0, 0x40);
    assert_eq!(icrc(LinkLayer::RoceV2Ipv4, &later).unwrap().to_le_bytes(), check);
    later[40] ^= 1;
    assert_ne!(icrc(LinkLayer::RoceV2Ipv4, &later).unwrap().to_le_bytes(), check);
}
