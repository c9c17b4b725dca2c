//! Ethernet, IPv4, UDP and TCP headers bit by bit, their checksums, and the frames that pause priorities.

use crate::bits;
use bits::{hex, pack};
use fabriscope_wire::{Ethernet, Ipv4, PriorityPause, SackBlocks, Tcp, TcpFlags, Udp, WireError, checksum};
use proptest::prelude::*;

/// RFC 1071 §1, in the words of the RFC: the one's complement of the one's complement sum of all 16-bit words.
fn ones_complement(words: &[u16]) -> u16 {
    let mut sum: u16 = 0;
    for word in words {
        let (added, carry) = sum.overflowing_add(*word);
        sum = added + u16::from(carry);
    }
    !sum
}

#[test]
fn an_ip_header_of_the_textbook() {
    // 115 bytes of UDP from 192.168.0.1 to 192.168.0.199, not to be fragmented. The words without the sum: 4500 + 0073 + 0000 + 4000 + 4011
    // + c0a8 + 0001 + c0a8 + 00c7 = 2479c, folded 479e, complement b861.
    let header = Ipv4 {
        dscp: 0,
        ecn: 0,
        total_length: 115,
        time_to_live: 64,
        protocol: Udp::PROTOCOL,
        source: [192, 168, 0, 1],
        destination: [192, 168, 0, 199],
    };
    assert_eq!(header.encode().to_vec(), hex("4500 0073 0000 4000 4011 b861 c0a8 0001 c0a8 00c7"));
}

proptest! {
    /// RFC 791 §3.1: version 4, length 4, DSCP 6 and ECN 2 (RFC 2474, RFC 3168), total length 16; identification 16, flags 3, fragment 13;
    /// time to live 8, protocol 8, checksum 16; source 32; destination 32.
    #[test]
    fn ipv4(dscp in 0u8..64, ecn in 0u8..4, total_length: u16, time_to_live: u8, source: u32, destination: u32) {
        let header = Ipv4 { dscp, ecn, total_length, time_to_live, protocol: 17, source: source.to_be_bytes(), destination: destination.to_be_bytes() };
        let figure = |sum: u16| pack(&[
            (4, 4), (5, 4), (dscp.into(), 6), (ecn.into(), 2), (total_length.into(), 16),
            (0, 16), (0b010, 3), (0, 13),
            (time_to_live.into(), 8), (17, 8), (sum.into(), 16),
            (source.into(), 32), (destination.into(), 32),
        ]);
        let words: Vec<u16> = figure(0).chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
        let sum = ones_complement(&words);
        prop_assert_eq!(header.encode().to_vec(), figure(sum));
        // The sum over the header with its sum is all ones, whose complement is nothing.
        prop_assert_eq!(checksum(&header.encode()), 0);
    }

    /// A single wrong bit is always found, and two exchanged words never are (RFC 1071 §1: the sum is commutative).
    #[test]
    fn what_a_checksum_sees(bytes in prop::collection::vec(any::<u8>(), 2..64), bit in 0usize..4096, swap in 0usize..32) {
        let mut even = bytes;
        even.truncate(even.len() / 2 * 2);
        let sum = checksum(&even);
        let mut wrong = even.clone();
        let bit = bit % (8 * wrong.len());
        wrong[bit / 8] ^= 1 << (bit % 8);
        prop_assert_ne!(checksum(&wrong), sum);
        let at = swap % (even.len() / 2) * 2;
        even.swap(0, at);
        even.swap(1, at + 1);
        prop_assert_eq!(checksum(&even), sum);
    }

    /// RFC 768: source 16, destination 16, length 16, checksum 16; RoCE leaves the sum 0 (annex A17.3.1).
    #[test]
    fn udp(source: u16, length: u16) {
        let header = Udp { source, destination: 4791, length };
        prop_assert_eq!(Udp::ROCE_V2, 4791);
        prop_assert_eq!(header.encode().to_vec(), pack(&[(source.into(), 16), (4791, 16), (length.into(), 16), (0, 16)]));
    }

    /// IEEE 802.3 §3.2: destination 48, source 48, type 16; a tag of IEEE 802.1Q (type 8100, priority 3, DEI 1, VLAN 12) goes in front of
    /// the type.
    #[test]
    fn ethernet(destination: u64, source: u64, priority in 0u64..8, vlan in 0u64..4096) {
        let (destination, source) = (destination >> 16, source >> 16);
        let address = |bits: u64| { let b = bits.to_be_bytes(); [b[2], b[3], b[4], b[5], b[6], b[7]] };
        let header = Ethernet { destination: address(destination), source: address(source), ethertype: Ethernet::IPV6 };
        prop_assert_eq!(header.encode().to_vec(), pack(&[(destination, 48), (source, 48), (0x86DD, 16)]));
        let tagged = pack(&[(destination, 48), (source, 48), (0x8100, 16), (priority, 3), (0, 1), (vlan, 12), (0x86DD, 16)]);
        prop_assert_eq!(Ethernet::decode(&tagged), Ok((header, 18)));
        let twice = pack(&[(destination, 48), (source, 48), (0x88A8, 16), (vlan, 16), (0x8100, 16), (vlan, 16), (0x86DD, 16)]);
        prop_assert_eq!(Ethernet::decode(&twice), Ok((header, 22)));
    }

    /// IEEE 802.1Q clause 36: opcode 0101, a vector with a bit for each priority, and eight times; times of priorities without their bit
    /// are not looked at.
    #[test]
    fn pauses(enabled: u8, quanta: [u16; 8]) {
        let mut fields = vec![(0x0101, 16), (0, 8), (enabled.into(), 8)];
        fields.extend(quanta.map(|time| (u64::from(time), 16)));
        let read = PriorityPause::decode(&pack(&fields)).unwrap();
        for (priority, time) in quanta.into_iter().enumerate() {
            let asked = enabled >> priority & 1 == 1;
            prop_assert_eq!(read.quanta[priority], asked.then_some(time));
        }
        // What is written has no times besides.
        let written = read.encode();
        prop_assert_eq!(written[3], enabled);
        for priority in 0..8 {
            let time = if enabled >> priority & 1 == 1 { quanta[priority] } else { 0 };
            prop_assert_eq!([written[4 + 2 * priority], written[5 + 2 * priority]], time.to_be_bytes());
        }
    }

    /// RFC 9293 §3.1: ports 16 and 16, number 32, acknowledgement 32; offset 4, reserved 4, flags 8, window 16; checksum 16, urgent 16.
    #[test]
    fn tcp(ports: [u16; 2], seq: u32, ack: u32, flags: u8, window: u16) {
        let header = Tcp { source: ports[0], destination: ports[1], seq, ack, flags: TcpFlags(flags), window, ..Tcp::default() };
        let figure = pack(&[
            (ports[0].into(), 16), (ports[1].into(), 16), (seq.into(), 32), (ack.into(), 32),
            (5, 4), (0, 4), (flags.into(), 8), (window.into(), 16), (0, 16), (0, 16),
        ]);
        prop_assert_eq!(header.encode(), figure);
    }

    /// A header of any options is a whole number of words, at most 60 bytes with three blocks beside timestamps, and comes back.
    #[test]
    fn tcp_options(mss: Option<u16>, window_scale in prop::option::of(0u8..15), sack_permitted: bool, timestamps: Option<(u32, u32)>, blocks in prop::collection::vec(any::<(u32, u32)>(), 0..4)) {
        let mut sack = SackBlocks::default();
        blocks.iter().take(if timestamps.is_some() { 3 } else { 4 }).for_each(|(from, to)| sack.push(*from, *to));
        // Blocks stand in acknowledgements, the others in SYNs.
        let syn = Tcp { mss, window_scale, sack_permitted, timestamps, flags: TcpFlags::SYN, ..Tcp::default() };
        let ack = Tcp { timestamps, sack, flags: TcpFlags::ACK, ..Tcp::default() };
        for header in [syn, ack] {
            let bytes = header.encode();
            prop_assert!(bytes.len() <= 60 && bytes.len().is_multiple_of(4));
            prop_assert_eq!(usize::from(bytes[12] >> 4) * 4, bytes.len());
            prop_assert_eq!(bytes.len() as u32, header.header_bytes());
            prop_assert_eq!(Tcp::decode(&bytes), Ok((header, bytes.len())));
        }
    }
}

#[test]
fn flags_of_tcp() {
    // RFC 9293 §3.1, from the right: FIN SYN RST PSH ACK URG ECE CWR.
    let flags = [
        (TcpFlags::FIN, 0),
        (TcpFlags::SYN, 1),
        (TcpFlags::RST, 2),
        (TcpFlags::PSH, 3),
        (TcpFlags::ACK, 4),
        (TcpFlags::ECE, 6),
        (TcpFlags::CWR, 7),
    ];
    for (flag, bit) in flags {
        assert_eq!(flag.0, 1 << bit);
        assert!(flags.iter().all(|(other, _)| flag.contains(*other) == (flag == *other)));
    }
    assert!(TcpFlags::SYN.with(TcpFlags::ACK).contains(TcpFlags::ACK) && !TcpFlags::SYN.contains(TcpFlags::SYN.with(TcpFlags::ACK)));
}

#[test]
fn a_syn_as_linux_sends_it() {
    // RFC 9293: kind 2, length 4, MSS 1460. RFC 2018 §2: kind 4, length 2. RFC 7323 §3.2: kind 8, length 10, two clocks. RFC 7323 §2.2:
    // kind 3, length 3, shift 7, with a no-operation (1) in front.
    let syn = Tcp {
        source: 40_000,
        destination: 5201,
        seq: 1,
        flags: TcpFlags::SYN,
        window: 64_240,
        mss: Some(1460),
        sack_permitted: true,
        timestamps: Some((0x0102_0304, 0)),
        window_scale: Some(7),
        ..Tcp::default()
    };
    let bytes = syn.encode();
    assert_eq!(bytes[12], 0xA0, "ten words");
    assert_eq!(bytes[20..], hex("0204 05b4 0402 080a 01020304 00000000 01 03 03 07"));
}

#[test]
fn blocks_of_selective_acknowledgements() {
    // RFC 2018 §3: kind 5, length 8 n + 2, the first number of each block and the one behind its last; two no-operations fill the word.
    let mut sack = SackBlocks::default();
    sack.push(5500, 6000);
    sack.push(7000, 7500);
    let header = Tcp { flags: TcpFlags::ACK, sack, ..Tcp::default() };
    assert_eq!(header.encode()[20..], [&[1, 1, 5, 18][..], &pack(&[(5500, 32), (6000, 32), (7000, 32), (7500, 32)])].concat());
    // §3: at most four fit, and what finds no room is left out.
    (0..9).for_each(|block| sack.push(block, block + 1));
    assert_eq!(sack.as_slice().len(), 4);
    assert_eq!(Tcp { sack, ..header }.encode().len(), 20 + 4 + 32);
}

#[test]
fn lengths_that_lie_are_refused() {
    // An offset of four words is less than a header; one of fifteen is more than there is.
    let mut short = Tcp::default().encode();
    short[12] = 4 << 4;
    assert!(matches!(Tcp::decode(&short), Err(WireError::Short { needed: 20, .. })));
    short[12] = 15 << 4;
    assert!(matches!(Tcp::decode(&short), Err(WireError::Short { needed: 60, present: 20, .. })));
    // The same of IP: lengths of 4 words and of 15.
    let mut ip =
        Ipv4 { dscp: 0, ecn: 0, total_length: 20, time_to_live: 1, protocol: 6, source: [0; 4], destination: [0; 4] }.encode().to_vec();
    ip[0] = 0x44;
    assert!(matches!(Ipv4::decode(&ip), Err(WireError::Short { needed: 20, .. })));
    ip[0] = 0x4F;
    assert!(Ipv4::decode(&ip).is_err());
    ip.resize(60, 0);
    assert_eq!(Ipv4::decode(&ip).unwrap().1, 60, "options are passed over");
    ip[0] = 0x65;
    assert!(matches!(Ipv4::decode(&ip), Err(WireError::Version { version: 6, expected: 4, .. })));
    // A pause frame of the old kind, for all priorities at once (annex 31B: opcode 0001).
    let mut pause = PriorityPause::of(3, 0xFFFF).encode();
    assert_eq!(pause[..12], [1, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]);
    pause[0] = 0;
    assert!(matches!(PriorityPause::decode(&pause), Err(WireError::Code { value: 1, .. })));
}
