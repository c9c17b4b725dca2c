//! The headers of iWARP: MPA, DDP and RDMAP, as they stand in the stream of TCP.
//!
//! Source: RFC 5044 (MPA: framing, markers, CRC), RFC 5041 (DDP: tagged and untagged buffers), RFC 5040 (RDMAP: operations,
//! Terminate), RFC 7306 (immediate data and atomics, which the base has not).
//! Modelled: every header as bytes, the CRC32c of a frame, how much payload one segment of TCP carries.
//! Not modelled: the markers as bytes (their room is counted), the requests and answers that open a connection.
//!
//! ```text
//!  Ethernet 14 | IP 20 | TCP 20 or 32 | length 2 | DDP and RDMAP 14 (tagged) or 18 (untagged) | payload | pad | CRC 4 | FCS 4
//! ```

use crate::WireError;
use crate::error::front;
use crate::pad;

/// The operation of a message, four bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of RFC 5040, figure 3")]
pub enum RdmapOpcode {
    Write = 0,
    ReadRequest = 1,
    ReadResponse = 2,
    Send = 3,
    SendInvalidate = 4,
    SendSolicited = 5,
    SendSolicitedInvalidate = 6,
    Terminate = 7,
}

use RdmapOpcode as Op;

impl RdmapOpcode {
    /// All of the base.
    pub const ALL: [RdmapOpcode; 8] = [
        Op::Write,
        Op::ReadRequest,
        Op::ReadResponse,
        Op::Send,
        Op::SendInvalidate,
        Op::SendSolicited,
        Op::SendSolicitedInvalidate,
        Op::Terminate,
    ];

    /// The opcode of this number.
    ///
    /// # Errors
    /// 8 to 15: immediate data and atomics of RFC 7306, which adapters of the base refuse, and numbers without a meaning.
    pub fn decode(number: u8) -> Result<RdmapOpcode, WireError> {
        let found = RdmapOpcode::ALL.get(usize::from(number)).copied();
        found.ok_or(WireError::Code { what: "an operation of RDMAP", value: number.into(), allowed: "0 to 7; RFC 7306 adds 8 to 11" })
    }
    /// Whether its payload goes to a place that the sender names.
    #[must_use]
    pub const fn is_tagged(self) -> bool {
        matches!(self, Op::Write | Op::ReadResponse)
    }
    /// The queue of an untagged message: sends 0, read requests 1, Terminate 2.
    #[must_use]
    pub const fn queue(self) -> u32 {
        match self {
            Op::ReadRequest => 1,
            Op::Terminate => 2,
            _ => 0,
        }
    }
}

/// Where the payload of a segment belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Into a buffer that the peer has told of.
    Tagged {
        /// The buffer.
        stag: u32,
        /// The place in it.
        offset: u64,
    },
    /// Into the next buffer of a queue.
    Untagged {
        /// The buffer to be made invalid, for sends that do that.
        invalidate: u32,
        /// The queue.
        queue: u32,
        /// Number of the message in its queue, from 1.
        message: u32,
        /// The place in it.
        offset: u32,
    },
}

/// The header of one segment: DDP with RDMAP inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ddp {
    /// The last segment of its message.
    pub last: bool,
    /// What it is part of.
    pub opcode: RdmapOpcode,
    /// Where its payload goes: what lets it be placed before those in front of it have come.
    pub placement: Placement,
}

impl Ddp {
    /// Length of a tagged header in bytes.
    pub const TAGGED: usize = 14;
    /// Length of an untagged header in bytes.
    pub const UNTAGGED: usize = 18;

    /// Length in bytes.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        match self.placement {
            Placement::Tagged { .. } => Ddp::TAGGED,
            Placement::Untagged { .. } => Ddp::UNTAGGED,
        }
    }
    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let tagged = matches!(self.placement, Placement::Tagged { .. });
        let control = u8::from(tagged) << 7 | u8::from(self.last) << 6 | VERSION;
        let mut bytes = vec![control, VERSION << 6 | self.opcode as u8];
        match self.placement {
            Placement::Tagged { stag, offset } => {
                bytes.extend(stag.to_be_bytes());
                bytes.extend(offset.to_be_bytes());
            }
            Placement::Untagged { invalidate, queue, message, offset } => {
                [invalidate, queue, message, offset].iter().for_each(|word| bytes.extend(word.to_be_bytes()));
            }
        }
        bytes
    }
    /// Reads the header at the front of `bytes`.
    ///
    /// # Errors
    /// Too few bytes, another version, an operation that is not of the base, a kind of buffer that it does not use.
    pub fn decode(bytes: &[u8]) -> Result<Ddp, WireError> {
        const HEADER: &str = "the DDP header";
        let [control, rdmap] = front(HEADER, bytes)?;
        for version in [control & 3, rdmap >> 6] {
            if version != VERSION {
                return Err(WireError::Version { header: HEADER, version, expected: VERSION });
            }
        }
        let opcode = RdmapOpcode::decode(rdmap & 0xF)?;
        let tagged = control >> 7 == 1;
        if tagged != opcode.is_tagged() {
            let allowed = "tagged buffers for WRITE and READ responses, untagged ones for the others";
            return Err(WireError::Code { what: "the kind of buffer of this operation", value: tagged.into(), allowed });
        }
        let word = |b: &[u8], at: usize| u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let placement = if tagged {
            let b: [u8; Ddp::TAGGED] = front(HEADER, bytes)?;
            Placement::Tagged { stag: word(&b, 2), offset: u64::from(word(&b, 6)) << 32 | u64::from(word(&b, 10)) }
        } else {
            let b: [u8; Ddp::UNTAGGED] = front(HEADER, bytes)?;
            Placement::Untagged { invalidate: word(&b, 2), queue: word(&b, 6), message: word(&b, 10), offset: word(&b, 14) }
        };
        Ok(Ddp { last: control >> 6 & 1 == 1, opcode, placement })
    }
}

/// What a READ request carries as its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReadRequest {
    /// Where the data goes: buffer and place at the one who asks.
    pub sink: (u32, u64),
    /// Bytes.
    pub size: u32,
    /// Where they are at the peer.
    pub source: (u32, u64),
}

impl ReadRequest {
    /// Length in bytes.
    pub const BYTES: usize = 28;

    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; ReadRequest::BYTES] {
        let mut bytes = [0; ReadRequest::BYTES];
        bytes[0..4].copy_from_slice(&self.sink.0.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.sink.1.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.size.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.source.0.to_be_bytes());
        bytes[20..28].copy_from_slice(&self.source.1.to_be_bytes());
        bytes
    }
    /// Reads one at the front of `bytes`.
    ///
    /// # Errors
    /// Fewer than 28 bytes.
    pub fn decode(bytes: &[u8]) -> Result<ReadRequest, WireError> {
        let b: [u8; ReadRequest::BYTES] = front("the READ request of RDMAP", bytes)?;
        let word = |at: usize| u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        Ok(ReadRequest { sink: (word(0), long(4)), size: word(12), source: (word(16), long(20)) })
    }
}

/// Why a stream ends: the head of a Terminate message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
#[expect(missing_docs, reason = "the names are those of RFC 5040 §4.8 and RFC 5041 §8.2")]
pub enum TerminateCode {
    InvalidStag = 0x0100,
    BaseOrBounds = 0x0101,
    AccessRights = 0x0102,
    StagNotAssociated = 0x0103,
    OffsetWraps = 0x0104,
    UnexpectedOpcode = 0x0206,
    StreamCatastrophic = 0x0207,
    UntaggedInvalidQueue = 0x1201,
    UntaggedNoBuffer = 0x1202,
    UntaggedMessageTooLong = 0x1205,
    MpaCrc = 0x2002,
}

impl TerminateCode {
    /// The first word of the message: layer, kind, code; no copy of headers follows.
    #[must_use]
    pub const fn encode(self) -> [u8; 4] {
        let [high, low] = (self as u16).to_be_bytes();
        [high, low, 0, 0]
    }
}

/// How frames are put into the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mpa {
    /// A marker every 512 bytes, for receivers that lose the place.
    pub markers: bool,
}

impl Mpa {
    /// The longest DDP segment, header included, of which one fits into a segment of TCP of `emss` bytes (MULPDU of RFC
    /// 5044): the frame is aligned, so that each packet can be placed by itself.
    #[must_use]
    pub const fn longest(self, emss: u32) -> u32 {
        let markers = if self.markers { 4 * emss.div_ceil(512) } else { 0 };
        emss.saturating_sub(LENGTH + CRC + markers + emss % 4)
    }
    /// Bytes of the frame around a DDP segment of `ulpdu` bytes, header included.
    #[must_use]
    pub const fn frame_bytes(self, ulpdu: u32) -> u32 {
        let plain = LENGTH + ulpdu + pad(LENGTH + ulpdu) + CRC;
        plain + if self.markers { 4 * plain.div_ceil(508) } else { 0 }
    }
    /// The bytes of a frame without markers: length, header, payload, pad and the CRC over all of them.
    ///
    /// # Errors
    /// More than the length field can say.
    pub fn frame(header: &[u8], payload: &[u8]) -> Result<Vec<u8>, WireError> {
        let ulpdu = header.len() + payload.len();
        // Saturated: the value is only told.
        let length = u16::try_from(ulpdu).map_err(|_| WireError::Code {
            what: "the length of an MPA frame",
            value: u32::try_from(ulpdu).unwrap_or(u32::MAX),
            allowed: "at most 65535 bytes",
        })?;
        let mut bytes = Vec::with_capacity(ulpdu + 9);
        bytes.extend(length.to_be_bytes());
        bytes.extend(header);
        bytes.extend(payload);
        bytes.resize(bytes.len() + pad(bytes.len() as u32) as usize, 0);
        bytes.extend(crc32c(&bytes).to_le_bytes());
        Ok(bytes)
    }
    /// Takes a frame without markers off the front of `bytes`: the DDP segment, and the bytes of the whole frame.
    ///
    /// # Errors
    /// Too few bytes; a CRC that is neither 0 (not used) nor right.
    pub fn unframe(bytes: &[u8]) -> Result<(&[u8], usize), WireError> {
        let length = usize::from(u16::from_be_bytes(front("the MPA frame", bytes)?));
        let padded = 2 + length + pad(2 + length as u32) as usize;
        let needed = padded + 4;
        if bytes.len() < needed {
            return Err(WireError::Short { header: "the MPA frame", needed, present: bytes.len() });
        }
        let found = u32::from_le_bytes([bytes[padded], bytes[padded + 1], bytes[padded + 2], bytes[padded + 3]]);
        if found != 0 && found != crc32c(&bytes[..padded]) {
            return Err(WireError::Code { what: "the CRC of this MPA frame", value: found, allowed: "the CRC32c of the frame, or 0" });
        }
        Ok((&bytes[2..2 + length], needed))
    }
}

/// CRC32c (Castagnoli), as MPA, SCTP and iSCSI have it.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)])
}

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (mut crc, mut bit) = (at as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
}

/// Bits reversed. Basis: standard, RFC 3720 §12.1.
const POLYNOMIAL: u32 = 0x82F6_3B78;
/// Of DDP and of RDMAP. Basis: standard.
const VERSION: u8 = 1;
/// The length field and the CRC, in bytes. Basis: standard.
const LENGTH: u32 = 2;
const CRC: u32 = 4;

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;

    #[test]
    fn headers_come_back() {
        for opcode in RdmapOpcode::ALL {
            let placement = match opcode.is_tagged() {
                true => Placement::Tagged { stag: 0x1122_3344, offset: 0x5566_7788_99AA_BBCC },
                false => Placement::Untagged { invalidate: 7, queue: opcode.queue(), message: 9, offset: 10 },
            };
            let header = Ddp { last: opcode != RdmapOpcode::Write, opcode, placement };
            let bytes = header.encode();
            assert_eq!((bytes.len(), Ddp::decode(&bytes)), (header.header_bytes(), Ok(header)));
            assert!(Ddp::decode(&bytes[..bytes.len() - 1]).is_err());
        }
        let request = ReadRequest { sink: (1, 2 << 40), size: 3, source: (4, 5) };
        assert_eq!(ReadRequest::decode(&request.encode()), Ok(request));
        // A last tagged segment of a WRITE, by RFC 5041 figure 4 and RFC 5040 figure 2.
        let write = Ddp { last: true, opcode: RdmapOpcode::Write, placement: Placement::Tagged { stag: 1, offset: 2 } };
        assert_eq!(write.encode(), [0xC1, 0x40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(TerminateCode::BaseOrBounds.encode(), [1, 1, 0, 0]);
    }

    #[test]
    fn what_the_base_has_not_is_refused() {
        let atomic = [0x41, 0x4A, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0];
        assert!(Ddp::decode(&atomic).unwrap_err().in_full().contains("RFC 7306"));
        assert!(Ddp::decode(&[0xC1, 0x43, 0, 0]).unwrap_err().in_full().contains("untagged"));
        assert!(Ddp::decode(&[0xC2, 0x40]).unwrap_err().in_full().contains("version"));
    }

    #[test]
    fn frames_are_aligned_and_checked() {
        // RFC 3720 §B.4: 32 bytes of zeros.
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        // An MSS of 1460 carries a frame of 1454 bytes of DDP without markers, and three markers' room less with them.
        assert_eq!((Mpa { markers: false }.longest(1460), Mpa { markers: true }.longest(1460)), (1454, 1442));
        for markers in [false, true] {
            let mpa = Mpa { markers };
            for emss in 536..9000 {
                let frame = mpa.frame_bytes(mpa.longest(emss));
                assert!(frame <= emss && (markers || frame + 4 > emss), "{emss}: {frame}");
            }
        }
        let header = Ddp { last: true, opcode: RdmapOpcode::Write, placement: Placement::Tagged { stag: 1, offset: 2 } }.encode();
        for size in 0..9 {
            let payload = vec![0xAB; size];
            let mut frame = Mpa::frame(&header, &payload).unwrap();
            assert_eq!(frame.len() as u32, Mpa::default().frame_bytes((header.len() + size) as u32));
            let (segment, whole) = Mpa::unframe(&frame).unwrap();
            assert_eq!((whole, &segment[..14], &segment[14..]), (frame.len(), &header[..], &payload[..]));
            frame[3] ^= 1;
            assert!(Mpa::unframe(&frame).unwrap_err().in_full().contains("CRC"));
        }
        assert!(Mpa::frame(&header, &vec![0; 70_000]).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
            let _ = (Ddp::decode(&bytes), ReadRequest::decode(&bytes), Mpa::unframe(&bytes).is_ok());
        }
    }
}
