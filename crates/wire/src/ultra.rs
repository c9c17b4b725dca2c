//! The headers of Ultra Ethernet's transport: packet delivery (PDS) and semantics (SES), behind UDP to port 4793.
//!
//! Source: Ultra Ethernet specification 1.0, §3.5.10 (PDS: tables 3-32 to 3-38) and §3.4.2 (SES: tables 3-8 to 3-13), as public
//! dissectors of it have them (Wireshark's `packet-uet.c`; the XDP2 project's `uet` headers).
//! Modelled: requests and acknowledgements of RUD and ROD, requests and responses of RUDI, requests of UUD, NACKs; the standard
//! request header with its extensions for atomics, responses without and with data.
//! Not modelled: control packets, extended congestion state (ACK_CCX), security (TSS), small and medium request headers,
//! rendezvous and deferrable sends, the optional checksum from end to end, whose polynomial no public text gives.
//!
//! ```text
//!  prologue   2  type:5 | next header:4 | flags:7
//!  request   12  prologue | CLEAR_PSN offset:16 | PSN:32 | SPDCID:16 | DPDCID:16, with SYN: use_rsv:1 rsv:3 PSN offset:12
//!  ACK_CC    32  prologue | ACK_PSN offset:16 | CACK_PSN:32 | SPDCID:16 | DPDCID:16 | CC type:4 flags:4 | MPR:8
//!                | SACK offset:16 | SACK bits:64 | CC state:64
//!  NACK      16  prologue | code:8 | vendor:8 | PSN:32 | SPDCID:16 | DPDCID:16 | payload:32
//!  RUDI       6  prologue | packet id:32            UUD  4  prologue | rsv:16
//!  SES       44  rsv:2 opcode:6 | ver:2 DC IE REL HD EOM SOM | message id:16 | generation:8 | job:24 | PID:16 | index:16
//!                | buffer offset:64 | initiator:32 | key or match bits:64 | header data:64, or length:32 offset:32 | length:32
//!  response  12  list:2 opcode:6 | ver:2 return code:6 | message id:16 | generation:8 | job:24 | modified length:32
//!  with data 20  … | rsv:8 | job:24 | id of the read:16 | payload length:16 | modified length:32 | message offset:32
//! ```

use crate::WireError;
use crate::error::front;

/// The UDP port (IANA; specification §3.2).
pub const ULTRA_ETHERNET_PORT: u16 = 4793;

/// What follows the header of packet delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NextSes {
    /// Nothing.
    None = 0,
    /// The standard request header.
    Request = 3,
    /// A response without data.
    Response = 4,
    /// A response with data.
    ResponseData = 5,
}

/// The numbers of a context (PDC) at both ends of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pdcids {
    /// At the sender of the packet.
    pub source: u16,
    /// At its receiver.
    pub destination: u16,
}

/// What an ACK_CC says of packets beyond the one that it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AckState {
    /// The first number of the bits, less the cumulative one.
    pub sack_offset: i16,
    /// Which numbers from there on have come.
    pub sack_bits: u64,
    /// Credit given to the sender, where receivers give it (CC type 1); else the state of NSCC (type 0), which is zero.
    pub credit: Option<u32>,
}

/// A header of packet delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pds {
    /// A packet with a number of its context.
    Request {
        /// ROD, else RUD.
        ordered: bool,
        /// What follows.
        next: NextSes,
        /// The receiver shall acknowledge (AR).
        ack_request: bool,
        /// The first packets of a context: how far the number is from the first.
        syn: Option<u16>,
        /// The highest number that is cleared, less the packet's own.
        clear_offset: i16,
        /// The number.
        psn: u32,
        /// The context.
        pdcids: Pdcids,
    },
    /// A packet of RUDI.
    Idempotent {
        /// The answer to one.
        response: bool,
        /// What follows.
        next: NextSes,
        /// Its number, by which the answer is found.
        id: u32,
    },
    /// A packet of UUD.
    Unreliable {
        /// What follows.
        next: NextSes,
    },
    /// ACK_CC.
    Ack {
        /// What follows.
        next: NextSes,
        /// What it answers was marked by a switch (M).
        marked: bool,
        /// The number that it answers, less the cumulative one.
        ack_offset: i16,
        /// All up to here have come.
        cumulative: u32,
        /// The context.
        pdcids: Pdcids,
        /// What else has come.
        state: AckState,
    },
    /// NACK.
    Nack {
        /// Why (table 3-58).
        code: u8,
        /// What it answers was marked by a switch (M).
        marked: bool,
        /// The number that is asked for again.
        psn: u32,
        /// The context.
        pdcids: Pdcids,
    },
}

/// Codes of a NACK (table 3-58).
pub mod nack {
    /// The packet was trimmed.
    pub const TRIMMED: u8 = 0x01;
    /// A resource is missing.
    pub const NO_RESOURCE: u8 = 0x0A;
    /// A packet of ROD came out of order.
    pub const ROD_OOO: u8 = 0x0D;
}

mod kind {
    pub(super) const RUD: u8 = 2;
    pub(super) const ROD: u8 = 3;
    pub(super) const RUDI_REQUEST: u8 = 4;
    pub(super) const RUDI_RESPONSE: u8 = 5;
    pub(super) const UUD: u8 = 6;
    pub(super) const ACK_CC: u8 = 8;
    pub(super) const NACK: u8 = 10;
}

/// Flags of requests and acknowledgements.
const AR: u8 = 0x08;
const SYN: u8 = 0x04;
const MARKED: u8 = 0x20;

const fn flag(is_set: bool, bit: u8) -> u8 {
    if is_set { bit } else { 0 }
}

impl Pds {
    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let prologue = |kind: u8, next: NextSes, flags: u8| {
            (u16::from(kind) << 11 | u16::from(next as u8) << 7 | u16::from(flags & 0x7F)).to_be_bytes().to_vec()
        };
        let ends = |pdcids: Pdcids| [pdcids.source.to_be_bytes(), pdcids.destination.to_be_bytes()].concat();
        match *self {
            Pds::Request { ordered, next, ack_request, syn, clear_offset, psn, pdcids } => {
                let flags = flag(ack_request, AR) | flag(syn.is_some(), SYN);
                let mut bytes = prologue(if ordered { kind::ROD } else { kind::RUD }, next, flags);
                bytes.extend(clear_offset.to_be_bytes());
                bytes.extend(psn.to_be_bytes());
                let destination = syn.map_or(pdcids.destination, |offset| offset & 0xFFF);
                bytes.extend(ends(Pdcids { destination, ..pdcids }));
                bytes
            }
            Pds::Idempotent { response, next, id } => {
                let mut bytes = prologue(if response { kind::RUDI_RESPONSE } else { kind::RUDI_REQUEST }, next, 0);
                bytes.extend(id.to_be_bytes());
                bytes
            }
            Pds::Unreliable { next } => {
                let mut bytes = prologue(kind::UUD, next, 0);
                bytes.extend([0, 0]);
                bytes
            }
            Pds::Ack { next, marked, ack_offset, cumulative, pdcids, state } => {
                let mut bytes = prologue(kind::ACK_CC, next, flag(marked, MARKED));
                bytes.extend(ack_offset.to_be_bytes());
                bytes.extend(cumulative.to_be_bytes());
                bytes.extend(ends(pdcids));
                bytes.extend([u8::from(state.credit.is_some()) << 4, 0]);
                bytes.extend(state.sack_offset.to_be_bytes());
                bytes.extend(state.sack_bits.to_be_bytes());
                bytes.extend((u64::from(state.credit.unwrap_or(0) & 0xFF_FFFF) << 40).to_be_bytes());
                bytes
            }
            Pds::Nack { code, marked, psn, pdcids } => {
                let mut bytes = prologue(kind::NACK, NextSes::None, flag(marked, MARKED));
                bytes.extend([code, 0]);
                bytes.extend(psn.to_be_bytes());
                bytes.extend(ends(pdcids));
                bytes.extend([0; 4]);
                bytes
            }
        }
    }

    /// Reads the header at the front of `bytes`, and how long it is.
    ///
    /// # Errors
    /// Too few bytes; a type that is not among those here.
    pub fn decode(bytes: &[u8]) -> Result<(Pds, usize), WireError> {
        const HEADER: &str = "the PDS header";
        let prologue = u16::from_be_bytes(front(HEADER, bytes)?);
        let (kind, flags) = ((prologue >> 11) as u8, prologue as u8 & 0x7F);
        let next = match prologue >> 7 & 0xF {
            0 => NextSes::None,
            3 => NextSes::Request,
            4 => NextSes::Response,
            5 => NextSes::ResponseData,
            other => {
                return Err(WireError::Code { what: "a header that follows PDS", value: other.into(), allowed: "0, 3, 4 and 5" });
            }
        };
        let word = |b: &[u8], at: usize| u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let half = |b: &[u8], at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
        let ends = |b: &[u8]| Pdcids { source: half(b, 8), destination: half(b, 10) };
        match kind {
            kind::RUD | kind::ROD => {
                let b: [u8; 12] = front(HEADER, bytes)?;
                let with_syn = flags & SYN != 0;
                let syn = with_syn.then(|| half(&b, 10) & 0xFFF);
                let pdcids = if with_syn { Pdcids { destination: 0, ..ends(&b) } } else { ends(&b) };
                let (ordered, ack_request) = (kind == kind::ROD, flags & AR != 0);
                let (clear_offset, psn) = (half(&b, 2) as i16, word(&b, 4));
                Ok((Pds::Request { ordered, next, ack_request, syn, clear_offset, psn, pdcids }, 12))
            }
            kind::RUDI_REQUEST | kind::RUDI_RESPONSE => {
                let b: [u8; 6] = front(HEADER, bytes)?;
                Ok((Pds::Idempotent { response: kind == kind::RUDI_RESPONSE, next, id: word(&b, 2) }, 6))
            }
            kind::UUD => front::<4>(HEADER, bytes).map(|_| (Pds::Unreliable { next }, 4)),
            kind::ACK_CC => {
                let b: [u8; 32] = front(HEADER, bytes)?;
                let credit = (b[12] >> 4 == 1).then(|| word(&b, 24) >> 8);
                let sack_bits = u64::from(word(&b, 16)) << 32 | u64::from(word(&b, 20));
                let state = AckState { sack_offset: half(&b, 14) as i16, sack_bits, credit };
                let (marked, ack_offset, cumulative) = (flags & MARKED != 0, half(&b, 2) as i16, word(&b, 4));
                Ok((Pds::Ack { next, marked, ack_offset, cumulative, pdcids: ends(&b), state }, 32))
            }
            kind::NACK => {
                let b: [u8; 16] = front(HEADER, bytes)?;
                Ok((Pds::Nack { code: b[2], marked: flags & MARKED != 0, psn: word(&b, 4), pdcids: ends(&b) }, 16))
            }
            _ => Err(WireError::Code { what: "a type of PDS", value: kind.into(), allowed: "2 to 6, 8 and 10" }),
        }
    }
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of the specification, table 3-17")]
pub enum SesOpcode {
    NoOp = 0,
    Write = 1,
    Read = 2,
    FetchingAtomic = 4,
    Send = 5,
    DatagramSend = 7,
}

/// Where a packet stands in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SesPlace {
    /// The first (SOM), with what the program says with it (HD).
    Start {
        /// 64 bits for the receiver's program.
        header_data: Option<u64>,
    },
    /// One of the others.
    Inner {
        /// Bytes in it, 14 bits.
        payload: u16,
        /// Where they belong in the message.
        offset: u32,
    },
}

/// An atomic on 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SesAtomic {
    /// The operand is the payload.
    Add,
    /// Both operands stand in the header, each in the first half of its 16 bytes.
    CompareSwap {
        /// What is compared.
        compare: u64,
        /// What is stored.
        swap: u64,
    },
}

/// The standard request header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SesRequest {
    /// What is asked for.
    pub opcode: SesOpcode,
    /// Where the packet stands.
    pub place: SesPlace,
    /// It is the last (EOM).
    pub end: bool,
    /// The message.
    pub message: u16,
    /// The job, 24 bits.
    pub job: u32,
    /// The process at the target, 12 bits.
    pub pid: u16,
    /// The resource of that process, 12 bits.
    pub index: u16,
    /// Where in the buffer.
    pub buffer_offset: u64,
    /// Who asks.
    pub initiator: u32,
    /// The key of the memory, or what is matched.
    pub key: u64,
    /// Bytes of the whole request.
    pub length: u32,
    /// Of atomics.
    pub atomic: Option<SesAtomic>,
}

/// Flags of a request: where it stands, whether there is header data.
const HD: u8 = 0x04;
const EOM: u8 = 0x02;
const SOM: u8 = 0x01;
/// Codes of atomics on unsigned 64 bits (tables 3-21, 3-22).
const SUM: u8 = 0x02;
const CSWAP: u8 = 0x0D;
const UINT64: u8 = 0x07;

impl SesRequest {
    /// Length in bytes without the extension of atomics.
    pub const BYTES: usize = 44;

    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (som, data, rest) = match self.place {
            SesPlace::Start { header_data } => (SOM, flag(header_data.is_some(), HD), header_data.unwrap_or(0)),
            SesPlace::Inner { payload, offset } => (0, 0, u64::from(payload & 0x3FFF) << 32 | u64::from(offset)),
        };
        let mut bytes = vec![self.opcode as u8, data | flag(self.end, EOM) | som];
        bytes.extend(self.message.to_be_bytes());
        bytes.extend((self.job & 0xFF_FFFF).to_be_bytes());
        bytes.extend((self.pid & 0xFFF).to_be_bytes());
        bytes.extend((self.index & 0xFFF).to_be_bytes());
        bytes.extend(self.buffer_offset.to_be_bytes());
        bytes.extend(self.initiator.to_be_bytes());
        bytes.extend(self.key.to_be_bytes());
        bytes.extend(rest.to_be_bytes());
        bytes.extend(self.length.to_be_bytes());
        match self.atomic {
            None => {}
            Some(SesAtomic::Add) => bytes.extend([SUM, UINT64, 0, 0]),
            Some(SesAtomic::CompareSwap { compare, swap }) => {
                bytes.extend([CSWAP, UINT64, 0, 0]);
                [compare, 0, swap, 0].iter().for_each(|half| bytes.extend(half.to_be_bytes()));
            }
        }
        bytes
    }
}

/// How a request ended (table 3-19).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of the specification")]
pub enum ReturnCode {
    Ok = 0x01,
    PermViolation = 0x17,
    OpViolation = 0x18,
    Uncor = 0x20,
}

/// A response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SesResponse {
    /// How the request ended.
    pub code: ReturnCode,
    /// The message.
    pub message: u16,
    /// The job, 24 bits.
    pub job: u32,
    /// Bytes that were moved.
    pub length: u32,
    /// Of responses with data: the message of the request, bytes in the packet, where they belong.
    pub data: Option<(u16, u16, u32)>,
}

impl SesResponse {
    /// Length in bytes without and with data.
    pub const BYTES: [usize; 2] = [12, 20];

    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        const DEFAULT: u8 = 0;
        const RESPONSE: u8 = 1;
        const WITH_DATA: u8 = 2;
        let opcode = match (self.data, self.code) {
            (Some(_), _) => WITH_DATA,
            (None, ReturnCode::Ok) => DEFAULT,
            (None, _) => RESPONSE,
        };
        let mut bytes = vec![opcode, self.code as u8];
        bytes.extend(self.message.to_be_bytes());
        bytes.extend((self.job & 0xFF_FFFF).to_be_bytes());
        match self.data {
            None => bytes.extend(self.length.to_be_bytes()),
            Some((request, payload, offset)) => {
                bytes.extend(request.to_be_bytes());
                bytes.extend((payload & 0x3FFF).to_be_bytes());
                bytes.extend(self.length.to_be_bytes());
                bytes.extend(offset.to_be_bytes());
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: Pdcids = Pdcids { source: 0x1234, destination: 0x5678 };

    #[test]
    fn headers_of_packet_delivery_come_back() {
        let state = AckState { sack_offset: 1, sack_bits: 0x8000_0000_0000_0005, credit: Some(0xAB_CDEF) };
        let all = [
            (
                12,
                Pds::Request {
                    ordered: false,
                    next: NextSes::Request,
                    ack_request: true,
                    syn: None,
                    clear_offset: -3,
                    psn: 7,
                    pdcids: ENDS,
                },
            ),
            (6, Pds::Idempotent { response: false, next: NextSes::Request, id: 0x0102_0304 }),
            (6, Pds::Idempotent { response: true, next: NextSes::ResponseData, id: 9 }),
            (4, Pds::Unreliable { next: NextSes::Request }),
            (32, Pds::Ack { next: NextSes::Response, marked: true, ack_offset: -1, cumulative: 8, pdcids: ENDS, state }),
            (
                32,
                Pds::Ack { next: NextSes::Response, marked: false, ack_offset: 0, cumulative: 8, pdcids: ENDS, state: AckState::default() },
            ),
            (16, Pds::Nack { code: nack::ROD_OOO, marked: false, psn: 0xFF_FFFF, pdcids: ENDS }),
        ];
        for (length, header) in all {
            let bytes = header.encode();
            assert_eq!((bytes.len(), Pds::decode(&bytes)), (length, Ok((header, length))));
            assert!(Pds::decode(&bytes[..length - 1]).is_err());
        }
        let pdcids = Pdcids { destination: 0, ..ENDS };
        let syn = Pds::Request { ordered: true, next: NextSes::Request, ack_request: false, syn: Some(2), clear_offset: 0, psn: 9, pdcids };
        assert_eq!(Pds::decode(&syn.encode()), Ok((syn, 12)));
        assert!(Pds::decode(&[0x08, 0]).is_err() && Pds::decode(&[0x10, 0x80]).is_err());
    }

    /// Bits by the tables: type 2 (RUD), standard header, AR and SYN; then as an ACK_CC.
    #[test]
    fn bits_stand_where_the_tables_have_them() {
        let pdcids = Pdcids { source: 1, destination: 0 };
        let next = NextSes::Request;
        let request =
            Pds::Request { ordered: false, next, ack_request: true, syn: Some(0x123), clear_offset: -1, psn: 0x0A0B_0C0D, pdcids };
        // 00010 0011 0001100
        assert_eq!(request.encode(), [0x11, 0x8C, 0xFF, 0xFF, 0x0A, 0x0B, 0x0C, 0x0D, 0, 1, 0x01, 0x23]);
        let ack = Pds::Ack { next: NextSes::Response, marked: true, ack_offset: 2, cumulative: 5, pdcids, state: AckState::default() };
        // 01000 0100 0100000
        assert_eq!(ack.encode()[..12], [0x42, 0x20, 0, 2, 0, 0, 0, 5, 0, 1, 0, 0]);
    }

    #[test]
    fn semantics() {
        let request = SesRequest {
            opcode: SesOpcode::Write,
            place: SesPlace::Start { header_data: Some(0xABCD) },
            end: true,
            message: 0x0102,
            job: 0x03_0405,
            pid: 0x0607,
            index: 0x0809,
            buffer_offset: 0x1011_1213_1415_1617,
            initiator: 0x1819_1A1B,
            key: 0x1C1D_1E1F_2021_2223,
            length: 0x2425_2627,
            atomic: None,
        };
        let bytes = request.encode();
        assert_eq!(bytes.len(), SesRequest::BYTES);
        assert_eq!(bytes[..12], [1, 7, 1, 2, 0, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(bytes[12..32], (0x10..0x24).collect::<Vec<u8>>());
        assert_eq!((&bytes[32..40], &bytes[40..]), (&[0, 0, 0, 0, 0, 0, 0xAB, 0xCD][..], &[0x24, 0x25, 0x26, 0x27][..]));
        let inner = SesRequest { place: SesPlace::Inner { payload: 4096, offset: 8192 }, end: false, ..request }.encode();
        assert_eq!((inner[1], &inner[32..40]), (0, &[0, 0, 0x10, 0, 0, 0, 0x20, 0][..]));
        let swap = SesAtomic::CompareSwap { compare: 1, swap: 2 };
        let atomics =
            [SesAtomic::Add, swap].map(|atomic| SesRequest { opcode: SesOpcode::FetchingAtomic, atomic: Some(atomic), ..request });
        assert_eq!(atomics.map(|request| request.encode().len()), [48, 80]);
        let plain = SesResponse { code: ReturnCode::Ok, message: 7, job: 1, length: 9, data: None };
        assert_eq!(plain.encode(), [0, 1, 0, 7, 0, 0, 0, 1, 0, 0, 0, 9]);
        let data = SesResponse { data: Some((3, 64, 128)), ..plain }.encode();
        assert_eq!(data, [2, 1, 0, 7, 0, 0, 0, 1, 0, 3, 0, 64, 0, 0, 0, 9, 0, 0, 0, 128]);
        assert_eq!([plain.encode().len(), data.len()], SesResponse::BYTES);
    }
}
