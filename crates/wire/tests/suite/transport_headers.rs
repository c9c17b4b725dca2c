//! The headers of InfiniBand bit by bit, as the figures of the standard draw them: a field that moves by one bit is found here even if it
//! comes back from its own decoder.

use crate::bits;
use bits::pack;
use fabriscope_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Credits, Deth, Grh, Ieth, ImmDt, Lrh, NakCode, NextHeader, Opcode, Psn, Reth, RnrTimer, Syndrome,
    WireError,
};
use proptest::prelude::*;

proptest! {
    /// IBA vol. 1, figure 79: OpCode 8, SE 1, M 1, Pad 2, TVer 4, P_Key 16; FECN 1, BECN 1, reserved 6, DestQP 24; A 1, reserved 7, PSN 24.
    #[test]
    fn base_transport_header(flags: [bool; 5], pad in 0u8..4, pkey: u16, dest_qp in 0u32..1 << 24, psn in 0u32..1 << 24) {
        let [solicited, migrated, fecn, becn, ack_request] = flags;
        let opcode = Opcode::RC_WRITE_ONLY_IMM;
        let header = Bth { opcode, solicited, migrated, pad, pkey, fecn, becn, dest_qp, ack_request, psn: Psn::new(psn) };
        let figure = pack(&[
            (0x0B, 8), (solicited.into(), 1), (migrated.into(), 1), (pad.into(), 2), (0, 4), (pkey.into(), 16),
            (fecn.into(), 1), (becn.into(), 1), (0, 6), (dest_qp.into(), 24),
            (ack_request.into(), 1), (0, 7), (psn.into(), 24),
        ]);
        prop_assert_eq!(header.encode().to_vec(), figure);
    }

    /// What a sender wrote into reserved bits says nothing (§9.2: ignored by the receiver).
    #[test]
    fn reserved_bits_of_the_base_header(six in 0u64..64, seven in 0u64..128, psn in 0u32..1 << 24) {
        let bytes = pack(&[(4, 8), (0, 8), (0xFFFF, 16), (0b10, 2), (six, 6), (7, 24), (1, 1), (seven, 7), (psn.into(), 24)]);
        let mut expected = Bth::new(Opcode::RC_SEND_ONLY, 7, Psn::new(psn));
        (expected.fecn, expected.ack_request) = (true, true);
        prop_assert_eq!(Bth::decode(&bytes), Ok(expected));
    }

    /// Figure 47: VL 4, LVer 4, SL 4, reserved 2, LNH 2, DLID 16; reserved 5, PktLen 11, SLID 16.
    #[test]
    fn local_route_header(vl in 0u8..16, sl in 0u8..16, dlid: u16, words in 0u16..1 << 11, slid: u16, reserved in 0u64..4, five in 0u64..32) {
        for (code, next) in [(0, NextHeader::Raw), (1, NextHeader::RawIpv6), (2, NextHeader::Bth), (3, NextHeader::Grh)] {
            let header = Lrh { vl, sl, next, dlid, words, slid };
            let figure = |reserved, five| {
                let first = [(vl.into(), 4), (0, 4), (sl.into(), 4), (reserved, 2), (code, 2), (dlid.into(), 16)];
                pack(&[&first[..], &[(five, 5), (words.into(), 11), (slid.into(), 16)]].concat())
            };
            prop_assert_eq!(header.encode().to_vec(), figure(0, 0));
            prop_assert_eq!(Lrh::decode(&figure(reserved, five)), Ok(header));
        }
    }

    /// Figure 54: IPVer 4, TClass 8, FlowLabel 20; PayLen 16, NxtHdr 8, HopLmt 8; SGID 128; DGID 128.
    #[test]
    fn global_route_header(traffic_class: u8, flow_label in 0u32..1 << 20, payload_length: u16, hop_limit: u8, gids: [u64; 4]) {
        let gid = |high: u64, low: u64| (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        let (sgid, dgid) = (gid(gids[0], gids[1]), gid(gids[2], gids[3]));
        let header = Grh { traffic_class, flow_label, payload_length, next_header: Grh::NEXT_BTH, hop_limit, sgid, dgid };
        let figure = pack(&[
            (6, 4), (traffic_class.into(), 8), (flow_label.into(), 20),
            (payload_length.into(), 16), (0x1B, 8), (hop_limit.into(), 8),
            (gids[0], 64), (gids[1], 64), (gids[2], 64), (gids[3], 64),
        ]);
        prop_assert_eq!(header.encode().to_vec(), figure);
    }

    /// §9.3.1: RETH is address 64, R_Key 32, length 32. §9.3.3.1: AtomicETH is address 64, R_Key 32, swap or add 64, compare 64.
    #[test]
    fn where_a_packet_reads_and_writes(address: u64, rkey: u32, length: u32, swap_add: u64, compare: u64) {
        let reth = Reth { address, rkey, length };
        prop_assert_eq!(reth.encode().to_vec(), pack(&[(address, 64), (rkey.into(), 32), (length.into(), 32)]));
        let atomic = AtomicEth { address, rkey, swap_add, compare };
        prop_assert_eq!(atomic.encode().to_vec(), pack(&[(address, 64), (rkey.into(), 32), (swap_add, 64), (compare, 64)]));
        prop_assert_eq!(AtomicAckEth { original: compare }.encode().to_vec(), pack(&[(compare, 64)]));
        prop_assert_eq!(ImmDt { immediate: length }.encode().to_vec(), pack(&[(length.into(), 32)]));
        prop_assert_eq!(Ieth { rkey }.encode().to_vec(), pack(&[(rkey.into(), 32)]));
    }

    /// §9.3.2: DETH is Q_Key 32, reserved 8, source QP 24; the reserved byte is ignored.
    #[test]
    fn datagram_header(qkey: u32, source_qp in 0u32..1 << 24, reserved: u8) {
        let header = Deth { qkey, source_qp };
        prop_assert_eq!(header.encode().to_vec(), pack(&[(qkey.into(), 32), (0, 8), (source_qp.into(), 24)]));
        let noisy = pack(&[(qkey.into(), 32), (reserved.into(), 8), (source_qp.into(), 24)]);
        prop_assert_eq!(Deth::decode(&noisy), Ok(header));
    }

    /// §9.5.1: AETH is syndrome 8, MSN 24. A syndrome is a zero bit, two bits of kind, five of value (table 43): 0 acknowledges and has
    /// credits, 1 asks to wait and has a timer, 2 is reserved, 3 refuses and has the reason.
    #[test]
    fn acknowledgements(kind in 0u64..4, value in 0u8..32, msn in 0u32..1 << 24) {
        let bytes = pack(&[(0, 1), (kind, 2), (value.into(), 5), (msn.into(), 24)]);
        let read = Aeth::decode(&bytes);
        match (kind, &read) {
            (0, Ok(Aeth { syndrome: Syndrome::Ack(credits), msn: number })) => prop_assert_eq!((credits.code(), *number), (value, msn)),
            (1, Ok(Aeth { syndrome: Syndrome::RnrNak(timer), msn: number })) => prop_assert_eq!((timer.code(), *number), (value, msn)),
            (3, Ok(Aeth { syndrome: Syndrome::Nak(reason), msn: number })) => prop_assert_eq!((*reason as u8, *number), (value, msn)),
            (3, Err(_)) => prop_assert!(value > 4, "a reason of the standard is refused"),
            (2, Err(_)) => {}
            other => prop_assert!(false, "{:?}", other),
        }
        if let Ok(header) = read {
            prop_assert_eq!(header.encode().to_vec(), bytes);
        }
    }
}

#[test]
fn every_header_says_how_long_it_is() {
    // Lengths in bytes of IBA vol. 1, table 38 and §7.7, §8.3; one byte less is too short, and more is what follows.
    fn lengths<T>(name: &str, wanted: usize, decode: impl Fn(&[u8]) -> Result<T, WireError>) {
        // A byte of zeros is a version of 0, an opcode and a syndrome of the standard; a GRH begins with version 6.
        let mut bytes = vec![0; wanted + 3];
        bytes[0] = if name == "GRH" { 0x60 } else { 0 };
        assert!(decode(&bytes).is_ok() && decode(&bytes[..wanted]).is_ok(), "{name}");
        for present in 0..wanted {
            match decode(&bytes[..present]).err() {
                Some(WireError::Short { needed, present: found, .. }) => assert_eq!((needed, found), (wanted, present), "{name}"),
                other => panic!("{name} of {present} bytes: {other:?}"),
            }
        }
    }
    lengths("LRH", 8, Lrh::decode);
    lengths("GRH", 40, Grh::decode);
    lengths("BTH", 12, Bth::decode);
    lengths("RETH", 16, Reth::decode);
    lengths("AETH", 4, Aeth::decode);
    lengths("DETH", 8, Deth::decode);
    lengths("AtomicETH", 28, AtomicEth::decode);
    lengths("AtomicAckETH", 8, AtomicAckEth::decode);
    lengths("ImmDt", 4, ImmDt::decode);
    lengths("IETH", 4, Ieth::decode);
}

#[test]
fn other_versions_are_other_headers() {
    // TVer of the BTH and LVer of the LRH are 0, IPVer of the GRH is 6; nothing else is read.
    for version in 1..16u8 {
        let bth = pack(&[(4, 8), (0, 4), (version.into(), 4), (0xFFFF, 16), (0, 32), (0, 32)]);
        assert_eq!(Bth::decode(&bth), Err(WireError::Version { header: "BTH", version, expected: 0 }));
        let lrh = pack(&[(0, 4), (version.into(), 4), (0, 56)]);
        assert_eq!(Lrh::decode(&lrh), Err(WireError::Version { header: "LRH", version, expected: 0 }));
        if version != 6 {
            let mut grh = pack(&[(version.into(), 4), (0, 28)]);
            grh.resize(40, 0);
            assert_eq!(Grh::decode(&grh), Err(WireError::Version { header: "GRH", version, expected: 6 }));
        }
    }
}

#[test]
fn what_a_field_does_not_hold_is_cut() {
    // 24 bits of a queue pair, of a source and of a message number, 20 of a flow label, 11 of a length: what is above must not reach the
    // field beside it.
    let mut bth = Bth::new(Opcode::RC_SEND_ONLY, 0xFF12_3456, Psn::new(0xFF65_4321));
    assert_eq!(bth.encode()[4..], [0, 0x12, 0x34, 0x56, 0, 0x65, 0x43, 0x21]);
    bth.pad = 0xFF;
    assert_eq!(bth.encode()[1], 0b0011_0000);
    assert_eq!(Deth { qkey: 0, source_qp: 0xFF00_0001 }.encode()[4..], [0, 0, 0, 1]);
    assert_eq!(Aeth { syndrome: Syndrome::ACK, msn: 0xFF00_0001 }.encode(), [0x1F, 0, 0, 1]);
    let grh =
        Grh { traffic_class: 0, flow_label: 0xFFF_0000, payload_length: 0, next_header: 0, hop_limit: 0, sgid: [0; 16], dgid: [0; 16] };
    assert_eq!(grh.encode()[..4], [0x60, 0x0F, 0, 0]);
    let lrh = Lrh { vl: 0, sl: 0, next: NextHeader::Bth, dlid: 0, words: 0xF801, slid: 0 };
    assert_eq!(lrh.encode()[4..6], [0, 1]);
}

#[test]
fn a_packet_as_the_standard_puts_it_together() {
    // An RDMA WRITE with immediate data of 5 bytes on a virtual lane, as in §5.2: LRH, BTH, RETH, ImmDt, payload with three bytes of pad,
    // ICRC, VCRC. PktLen counts words from the LRH to the ICRC: 8 + 12 + 16 + 4 + 8 + 4 = 52 bytes are 13.
    let opcode = Opcode::RC_WRITE_ONLY_IMM;
    assert_eq!(opcode.extension_bytes() as usize, Reth::BYTES + ImmDt::BYTES);
    let words = (Lrh::BYTES + Bth::BYTES + Reth::BYTES + ImmDt::BYTES + 8 + 4) / 4;
    let lrh = Lrh { vl: 2, sl: 3, next: NextHeader::Bth, dlid: 0x0011, words: words as u16, slid: 0x0022 };
    assert_eq!(lrh.encode(), [0x20, 0x32, 0, 0x11, 0, 13, 0, 0x22]);
    let bth = Bth { pad: 3, ack_request: true, ..Bth::new(opcode, 0x48, Psn::new(9)) };
    assert_eq!(bth.encode(), [0x0B, 0x30, 0xFF, 0xFF, 0, 0, 0, 0x48, 0x80, 0, 0, 9]);
    // Its answer: acknowledged without a limit, the first message done. 20 bytes of headers and the ICRC, 6 words.
    let answer =
        [&Bth::new(Opcode::RC_ACKNOWLEDGE, 0x49, Psn::new(9)).encode()[..], &Aeth { syndrome: Syndrome::ACK, msn: 1 }.encode()].concat();
    assert_eq!(answer, [0x11, 0, 0xFF, 0xFF, 0, 0, 0, 0x49, 0, 0, 0, 9, 0x1F, 0, 0, 1]);
}

#[test]
fn syndromes_of_the_tables() {
    // Table 43 by kind, table 46 by reason, table 45 by timer, table 44 by credits.
    let nak = |reason| Syndrome::Nak(reason).encode();
    assert_eq!(NakCode::ALL.map(nak), [0x60, 0x61, 0x62, 0x63, 0x64]);
    assert_eq!(
        (0..32).map(|code| Syndrome::RnrNak(RnrTimer::from_code(code).unwrap()).encode()).collect::<Vec<_>>(),
        (0x20..0x40).collect::<Vec<_>>()
    );
    assert_eq!([0, 1, 2, 3, 4, 6, 8, 12].map(|count| Syndrome::Ack(Credits::of(count)).encode()), [0, 1, 2, 3, 4, 5, 6, 7]);
    // Credits never promise more than there is.
    for requests in 0..40_000 {
        let told = Credits::of(requests).count().unwrap();
        assert!(told <= requests && (requests < 4 || 3 * told > 2 * requests || told == 32_768), "{requests}: {told}");
    }
}
