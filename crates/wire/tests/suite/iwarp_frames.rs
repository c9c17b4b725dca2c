//! iWARP bit by bit: the headers of DDP and RDMAP by the figures of RFC 5041 and RFC 5040, and frames of MPA by RFC 5044.

use crate::bits;
use bits::pack;
use fabriscope_wire::{Ddp, Mpa, Placement, RdmapOpcode, ReadRequest, TerminateCode, crc32c};
use proptest::prelude::*;

/// RFC 5040, figure 4: each operation with its number, its queue where it is untagged.
const OPERATIONS: [(RdmapOpcode, u64, Option<u32>); 8] = [
    (RdmapOpcode::Write, 0, None),
    (RdmapOpcode::ReadRequest, 1, Some(1)),
    (RdmapOpcode::ReadResponse, 2, None),
    (RdmapOpcode::Send, 3, Some(0)),
    (RdmapOpcode::SendInvalidate, 4, Some(0)),
    (RdmapOpcode::SendSolicited, 5, Some(0)),
    (RdmapOpcode::SendSolicitedInvalidate, 6, Some(0)),
    (RdmapOpcode::Terminate, 7, Some(2)),
];

proptest! {
    /// RFC 5041 §4.2: T 1, L 1, reserved 4, DV 2; RFC 5040 §4.1: RV 2, reserved 2, opcode 4; STag 32, offset 64.
    #[test]
    fn tagged_segments(last: bool, stag: u32, offset: u64) {
        for (opcode, number, _) in OPERATIONS.into_iter().filter(|(_, _, queue)| queue.is_none()) {
            let header = Ddp { last, opcode, placement: Placement::Tagged { stag, offset } };
            let figure = pack(&[(1, 1), (last.into(), 1), (0, 4), (1, 2), (1, 2), (0, 2), (number, 4), (stag.into(), 32), (offset, 64)]);
            prop_assert_eq!(header.encode(), figure.clone());
            prop_assert_eq!(Ddp::decode(&figure), Ok(header));
        }
    }

    /// RFC 5041 §4.3: the same two bytes with T = 0, then the STag to invalidate 32, queue 32, message 32, offset 32.
    #[test]
    fn untagged_segments(last: bool, invalidate: u32, message: u32, offset: u32) {
        for (opcode, number, queue) in OPERATIONS {
            let Some(queue) = queue else { continue };
            prop_assert_eq!(opcode.queue(), queue);
            let header = Ddp { last, opcode, placement: Placement::Untagged { invalidate, queue, message, offset } };
            let figure = pack(&[
                (0, 1), (last.into(), 1), (0, 4), (1, 2), (1, 2), (0, 2), (number, 4),
                (invalidate.into(), 32), (queue.into(), 32), (message.into(), 32), (offset.into(), 32),
            ]);
            prop_assert_eq!(header.encode(), figure.clone());
            prop_assert_eq!(Ddp::decode(&figure), Ok(header));
        }
    }

    /// RFC 5040 §4.4: sink STag 32, sink offset 64, size 32, source STag 32, source offset 64.
    #[test]
    fn read_requests(sink: (u32, u64), size: u32, source: (u32, u64)) {
        let figure = pack(&[(sink.0.into(), 32), (sink.1, 64), (size.into(), 32), (source.0.into(), 32), (source.1, 64)]);
        prop_assert_eq!(ReadRequest { sink, size, source }.encode().to_vec(), figure);
    }

    /// RFC 3720 §12.1 by definition: divide by x³² + x²⁸ + x²⁷ + x²⁶ + x²⁵ + x²³ + x²² + x²⁰ + x¹⁹ + x¹⁸ + x¹⁴ + x¹³ + x¹¹ + x¹⁰ + x⁹ + x⁸
    /// + x⁶ + 1, bits of a byte from the right, ones in front, the complement at the end.
    #[test]
    fn checks_by_division(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let polynomial = [28, 27, 26, 25, 23, 22, 20, 19, 18, 14, 13, 11, 10, 9, 8, 6, 0].iter().fold(0u32, |sum, power| sum | 1 << power);
        let mut rest = u32::MAX;
        for bit in bytes.iter().flat_map(|byte| (0..8).map(move |at| u32::from(byte >> at & 1))) {
            let out = rest >> 31 ^ bit;
            rest = rest << 1 ^ (out * polynomial);
        }
        prop_assert_eq!(crc32c(&bytes), !rest.reverse_bits());
    }

    /// RFC 5044 §4.1: length 16 of what follows without pad and check, the segment, up to three zeros, the check over all in front of it.
    #[test]
    fn frames(payload in prop::collection::vec(any::<u8>(), 0..600), behind in prop::collection::vec(any::<u8>(), 0..9), at: u16, flip in 1u8..) {
        let header = Ddp { last: true, opcode: RdmapOpcode::Write, placement: Placement::Tagged { stag: 5, offset: 6 } }.encode();
        let frame = Mpa::frame(&header, &payload).unwrap();
        let ulpdu = 14 + payload.len();
        let pad = (4 - (2 + ulpdu) % 4) % 4;
        prop_assert_eq!(frame.len(), 2 + ulpdu + pad + 4);
        prop_assert_eq!(usize::from(u16::from_be_bytes([frame[0], frame[1]])), ulpdu);
        prop_assert_eq!(&frame[2..16], &header[..]);
        prop_assert_eq!(&frame[16..2 + ulpdu], &payload[..]);
        prop_assert!(frame[2 + ulpdu..frame.len() - 4].iter().all(|byte| *byte == 0));
        prop_assert_eq!(&frame[frame.len() - 4..], &crc32c(&frame[..frame.len() - 4]).to_le_bytes()[..]);
        // It ends where its length says, whatever comes behind; and one wrong byte anywhere is found.
        let stream = [frame.clone(), behind].concat();
        let (segment, whole) = Mpa::unframe(&stream).unwrap();
        prop_assert_eq!((whole, segment), (frame.len(), &frame[2..2 + ulpdu]));
        let mut wrong = frame;
        let at = usize::from(at) % wrong.len();
        wrong[at] ^= flip;
        prop_assert!(Mpa::unframe(&wrong).is_err());
    }
}

#[test]
fn reasons_to_terminate() {
    // RFC 5040, figure 10: layer 4, kind of error 4, code 8, header control 3, reserved 13. Layer 0 is RDMAP, 1 DDP, 2 the layer below.
    let table = [
        (TerminateCode::InvalidStag, 0, 1, 0x00),
        (TerminateCode::BaseOrBounds, 0, 1, 0x01),
        (TerminateCode::AccessRights, 0, 1, 0x02),
        (TerminateCode::StagNotAssociated, 0, 1, 0x03),
        (TerminateCode::OffsetWraps, 0, 1, 0x04),
        (TerminateCode::UnexpectedOpcode, 0, 2, 0x06),
        (TerminateCode::StreamCatastrophic, 0, 2, 0x07),
        (TerminateCode::UntaggedInvalidQueue, 1, 2, 0x01),
        (TerminateCode::UntaggedNoBuffer, 1, 2, 0x02),
        (TerminateCode::UntaggedMessageTooLong, 1, 2, 0x05),
        (TerminateCode::MpaCrc, 2, 0, 0x02),
    ];
    for (code, layer, kind, number) in table {
        assert_eq!(code.encode().to_vec(), pack(&[(layer, 4), (kind, 4), (number, 8), (0, 3), (0, 13)]), "{code:?}");
    }
}

#[test]
fn what_the_base_does_not_have() {
    // RFC 7306 takes operations 8 to 11, and the rest have no meaning; a tagged SEND and an untagged WRITE do not exist; both versions are 1.
    for number in 8..16 {
        assert!(RdmapOpcode::decode(number).is_err());
    }
    let two = |tagged: u64, ddp: u64, rdmap: u64, opcode: u64| {
        let mut bytes = pack(&[(tagged, 1), (1, 1), (0, 4), (ddp, 2), (rdmap, 2), (0, 2), (opcode, 4)]);
        bytes.resize(18, 0);
        Ddp::decode(&bytes)
    };
    for (_, number, queue) in OPERATIONS {
        let right = u64::from(queue.is_none());
        assert!(two(right, 1, 1, number).is_ok() && two(1 - right, 1, 1, number).is_err(), "operation {number}");
        for version in [0, 2, 3] {
            assert!(two(right, version, 1, number).is_err() && two(right, 1, version, number).is_err());
        }
    }
}

#[test]
fn the_longest_segment_fits_wherever_markers_fall() {
    // RFC 5044 §4.3: a marker of 4 bytes stands every 512 bytes of the stream, counted from its beginning. A frame that begins `phase` bytes
    // behind a marker's place meets the next one 512 − phase bytes on, or begins with it.
    let markers = |phase: u32, plain: u32| {
        let (mut at, mut left, mut count) = (phase, plain, 0);
        while left > 0 {
            if at.is_multiple_of(512) {
                (at, count) = (at + 4, count + 1);
            }
            let run = left.min(512 - at % 512);
            (at, left) = (at + run, left - run);
        }
        count
    };
    let marked = Mpa { markers: true };
    for emss in [536, 1024, 1440, 1448, 1460, 2048, 4096, 8960] {
        let longest = marked.longest(emss);
        // §A.1: MULPDU = EMSS − (6 + 4 · ⌈EMSS / 512⌉ + EMSS mod 4).
        assert_eq!(longest, emss - (6 + 4 * emss.div_ceil(512) + emss % 4));
        let plain = Mpa { markers: false }.frame_bytes(longest);
        let worst = (0..128).map(|word| markers(4 * word, plain)).max().unwrap();
        assert!(plain + 4 * worst <= emss, "{plain} bytes and {worst} markers in {emss}");
        assert_eq!(marked.frame_bytes(longest), plain + 4 * worst, "what a frame takes at most");
        // Without markers only the alignment is lost.
        assert_eq!(Mpa { markers: false }.longest(emss), emss - 6 - emss % 4);
    }
}
