//! Tables and figures of the standards, written down by hand: what each field can say, and what each transport needs and promises.

use fabriscope_units::{Bytes, Span};
use fabriscope_wire::{
    AckTimeout, Credits, Delivery, Ipv4, LinkLayer, Mpa, Mtu, Opcode, Operation, Order, Psn, RnrTimer, Scale, Service, Transport, Udp,
    checksum, crc32c, pad,
};
use proptest::prelude::*;

#[test]
fn timers_of_receivers_that_are_not_ready() {
    // IBA vol. 1, table 45, in units of 10 us.
    let table = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192,
        12_288, 16_384, 24_576, 32_768, 49_152,
    ];
    for (code, tens) in (0u8..).zip(table) {
        assert_eq!(RnrTimer::from_code(code).unwrap().span(), Span::from_us(10 * tens), "code {code}");
    }
    assert!(RnrTimer::from_code(32).is_err());
}

#[test]
fn credits_by_code() {
    // Table 44: every code from 4 on is half as much again, or a third more, than the one before: 2ⁿ and 3 · 2ⁿ⁻¹.
    let mut expected = vec![0, 1, 2, 3];
    let mut two = 4;
    while two <= 32_768 {
        expected.extend([two, two / 2 * 3]);
        two *= 2;
    }
    for (code, count) in expected.iter().take(31).enumerate() {
        let credits = Credits::of(*count);
        assert_eq!((usize::from(credits.code()), credits.count()), (code, Some(*count)));
    }
}

/// What stands behind the base header: RETH, AETH, DETH, AtomicETH, AtomicAckETH, immediate data, key to invalidate, in bytes.
const HEADERS: [(Operation, u32); 23] = [
    (Operation::SendFirst, 0),
    (Operation::SendMiddle, 0),
    (Operation::SendLast, 0),
    (Operation::SendLastImm, 4),
    (Operation::SendOnly, 0),
    (Operation::SendOnlyImm, 4),
    (Operation::WriteFirst, 16),
    (Operation::WriteMiddle, 0),
    (Operation::WriteLast, 0),
    (Operation::WriteLastImm, 4),
    (Operation::WriteOnly, 16),
    (Operation::WriteOnlyImm, 20),
    (Operation::ReadRequest, 16),
    (Operation::ReadResponseFirst, 4),
    (Operation::ReadResponseMiddle, 0),
    (Operation::ReadResponseLast, 4),
    (Operation::ReadResponseOnly, 4),
    (Operation::Acknowledge, 4),
    (Operation::AtomicAcknowledge, 12),
    (Operation::CompareSwap, 28),
    (Operation::FetchAdd, 28),
    (Operation::SendLastInvalidate, 4),
    (Operation::SendOnlyInvalidate, 4),
];

#[test]
fn headers_behind_the_base_header() {
    // IBA vol. 1, tables 38 and 39, for RC; XRC has the number of the shared receive queue besides, in requests: 4 bytes.
    for (operation, bytes) in HEADERS {
        let opcode = Opcode::new(Transport::Rc, operation).unwrap();
        assert_eq!(opcode.extension_bytes(), bytes, "{operation:?}");
        assert_eq!(opcode.as_u8(), operation as u8, "{operation:?}");
        // A packet is first or only, last or only; what is both is only.
        assert_eq!(opcode.is_only(), opcode.is_first() && opcode.is_last(), "{operation:?}");
        let xrc = Opcode::new(Transport::Xrc, operation).unwrap();
        let request = !opcode.is_response();
        assert_eq!(xrc.extension_bytes(), bytes + if request { 4 } else { 0 }, "XRC {operation:?}");
    }
    // UD: the datagram header of 8 B, and nothing but sends.
    let ud = |operation| Opcode::new(Transport::Ud, operation).map(Opcode::extension_bytes);
    assert_eq!((ud(Operation::SendOnly), ud(Operation::SendOnlyImm)), (Ok(8), Ok(12)));
    assert!(ud(Operation::SendFirst).is_err() && ud(Operation::WriteOnly).is_err() && ud(Operation::Acknowledge).is_err());
    // UC: no answers.
    let uc = |operation| Opcode::new(Transport::Uc, operation).is_ok();
    assert!(uc(Operation::SendFirst) && uc(Operation::WriteLastImm));
    assert!(!uc(Operation::ReadRequest) && !uc(Operation::Acknowledge) && !uc(Operation::CompareSwap));
}

#[test]
fn packets_on_the_wire() {
    // InfiniBand: delimiters 2, LRH 8, BTH 12, ICRC 4, VCRC 2. RoCE v2: Ethernet 14 and check 4, IPv4 20, UDP 8, BTH 12, ICRC 4, preamble 8, gap 12.
    let (write, send) = (Opcode::RC_WRITE_ONLY, Opcode::RC_SEND_MIDDLE);
    let table = [
        (LinkLayer::InfiniBand, send, 4096, 4096 + 28),
        (LinkLayer::InfiniBand, write, 4096, 4096 + 28 + 16),
        (LinkLayer::InfiniBand, send, 1, 4 + 28),
        (LinkLayer::InfiniBand, send, 0, 28),
        (LinkLayer::RoceV2Ipv4, send, 4096, 4096 + 82),
        (LinkLayer::RoceV2Ipv4, write, 1024, 1024 + 82 + 16),
        // The shortest frame has 64 B, with preamble and gap 84 B.
        (LinkLayer::RoceV2Ipv4, send, 1, 86),
    ];
    for (layer, opcode, payload, bytes) in table {
        assert_eq!(layer.wire_bytes(opcode, payload), bytes, "{layer:?}, {payload} B");
    }
}

#[test]
fn frames_of_iwarp() {
    // MPA: 2 B of length, padding to four, 4 B of CRC32c; a segment of 1460 B holds a frame of 1460 B: 1454 B of ULPDU, 1452 with whole
    // words behind the length. With markers every 512 B takes 4 more.
    let plain = Mpa { markers: false };
    assert_eq!(plain.longest(1460), 1454);
    assert_eq!([plain.frame_bytes(1454), plain.frame_bytes(1), plain.frame_bytes(2)], [1460, 8, 8]);
    let marked = Mpa { markers: true };
    assert!(marked.longest(1460) < plain.longest(1460));
    assert!(marked.frame_bytes(marked.longest(1460)) <= 1460);
}

#[test]
fn checksums_of_the_standards() {
    // RFC 3720, appendix B.4: CRC32c of 32 zeros, 32 ones, and the numbers 0 to 31.
    let counted: Vec<u8> = (0..32).collect();
    assert_eq!([crc32c(&[0; 32]), crc32c(&[0xff; 32]), crc32c(&counted)], [0x8a91_36aa, 0x62a8_ab43, 0x46dd_794e]);
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    // RFC 1071, §3: 0001 f203 f4f5 f6f7 sum up to ddf2, whose complement is 220d.
    assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0x220d);
}

#[test]
fn queue_pairs_of_a_node() {
    // 28 processes on each of 32 nodes: RC 28 · (896 − 1), XRC 28 · 32, RD, DC and datagrams 28.
    let table = [
        (Service::Rc, 28 * 895),
        (Service::Uc, 28 * 895),
        (Service::Xrc, 28 * 32),
        (Service::Rd, 28),
        (Service::Dc, 28),
        (Service::Srd, 28),
        (Service::Ud, 28),
        (Service::Raw, 1),
    ];
    for (service, count) in table {
        assert_eq!(service.scale().count(28, 32), count, "{service}");
    }
    assert_eq!(Scale::EachPair.count(1, 2), 1, "a pair of processes has one connection");
}

#[test]
fn promises_of_transports() {
    // IBA vol. 1 §9.2 for RC, UC, UD, RD; libfabric's efa(7) for SRD; Ultra Ethernet 1.0 for its modes: reliable, order, order asked for.
    let table = [
        (Service::Rc, true, Order::PerConnection, Delivery::Rud),
        (Service::Uc, false, Order::Gaps, Delivery::Rud),
        (Service::Ud, false, Order::None, Delivery::Rud),
        (Service::Rd, true, Order::PerDestination, Delivery::Rud),
        (Service::Srd, true, Order::None, Delivery::Srd),
        (Service::Uet, true, Order::None, Delivery::Rud),
        (Service::UetRod, true, Order::PerDestination, Delivery::Rod),
        (Service::UetRudi, true, Order::None, Delivery::Rudi),
        (Service::UetUud, false, Order::None, Delivery::Uud),
        (Service::Iwarp, true, Order::PerConnection, Delivery::Rud),
    ];
    for (service, reliable, order, delivery) in table {
        assert_eq!((service.is_reliable(), service.order(), service.delivery()), (reliable, order, delivery), "{service}");
    }
}

proptest! {
    /// The timeout that is taken for a time is not shorter, and its half would be.
    #[test]
    fn timeouts_are_the_next_power(us in 1u64..1 << 40) {
        let timeout = AckTimeout::at_least(Span::from_us(us));
        let span = timeout.span().unwrap();
        prop_assert!(span >= Span::from_us(us) || timeout.code() == 31);
        prop_assert!(timeout.code() == 1 || span.as_ps() / 2 < us * 1_000_000);
    }

    /// The same of timers for receivers that are not ready.
    #[test]
    fn timers_are_the_next(us in 1u64..655_360) {
        let timer = RnrTimer::at_least(Span::from_us(us));
        prop_assert!(timer.span() >= Span::from_us(us));
        let shorter = (1..32).map(|code| RnrTimer::from_code(code).unwrap().span()).filter(|span| *span < timer.span()).max();
        prop_assert!(shorter.is_none_or(|span| span < Span::from_us(us)));
    }

    /// Numbers of packets are of 24 bits and in order over half of them.
    #[test]
    fn numbers_of_packets_wrap(start in 0u32..1 << 24, steps in 0u32..1 << 23) {
        let base = Psn::new(start);
        let later = Psn::new(start.wrapping_add(steps));
        prop_assert_eq!(later.distance(base), steps as i32);
        prop_assert_eq!(base.is_before(later), steps > 0);
        prop_assert_eq!(later.next().previous(), later);
        prop_assert!(later.as_u32() < 1 << 24);
    }

    /// A message is cut into so many packets that the last is not empty and all but it are full.
    #[test]
    fn messages_are_cut_by_the_mtu(bytes in 1u64..1 << 31, mtu in prop::sample::select(Mtu::ALL.to_vec())) {
        let packets = mtu.packets(Bytes(bytes));
        prop_assert!((packets - 1) * mtu.bytes().0 < bytes && bytes <= packets * mtu.bytes().0);
    }

    /// Payload is filled to four bytes, and a header of IP adds up to nothing.
    #[test]
    fn sums_come_out(payload in 0u32..10_000, total_length: u16, source: [u8; 4], destination: [u8; 4], port: u16) {
        prop_assert!((payload + pad(payload)).is_multiple_of(4) && pad(payload) < 4);
        let header = Ipv4 { dscp: 0, ecn: 0, total_length, time_to_live: 64, protocol: 17, source, destination };
        prop_assert_eq!(checksum(&header.encode()), 0);
        let udp = Udp { source: port, destination: Udp::ROCE_V2, length: 100 };
        prop_assert_eq!(Udp::decode(&udp.encode()), Ok(udp));
    }
}
