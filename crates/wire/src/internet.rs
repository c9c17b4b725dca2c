//! What RoCE version 2 has between Ethernet and BTH: IPv4 and UDP headers. IPv6 has the layout of a [`crate::Grh`].
//!
//! Source: RFC 791 (IPv4), RFC 3168 §5 (ECN bits), RFC 768 (UDP), annex A17 (port, checksum).
//! Modelled: headers without options, checksum of the IPv4 header, fragments as they are sent.
//! Not modelled: the UDP checksum (0, as RoCE over IPv4 has it); fragments as they are read.

use crate::WireError;
use crate::error::front;

/// IPv4 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ipv4 {
    /// Differentiated services code point, 6 bits.
    pub dscp: u8,
    /// Explicit congestion notification, 2 bits.
    pub ecn: u8,
    /// Bytes from this header to the ICRC, both included.
    pub total_length: u16,
    /// Hops left.
    pub time_to_live: u8,
    /// What follows.
    pub protocol: u8,
    /// Source.
    pub source: [u8; 4],
    /// Destination.
    pub destination: [u8; 4],
}

impl Ipv4 {
    /// Length in bytes, without options.
    pub const BYTES: usize = 20;
    /// ECN: the endpoints understand marks.
    pub const ECT: u8 = 2;
    /// ECN: a switch marked the packet.
    pub const CE: u8 = 3;

    /// The bytes on the wire, with their checksum; never to be fragmented.
    #[must_use]
    pub fn encode(&self) -> [u8; Ipv4::BYTES] {
        self.encode_as(0, DO_NOT_FRAGMENT)
    }
    /// The same of a packet that may be a fragment: byte `offset`, a multiple of 8, of the payload of the packet `identification`, of which
    /// more follows or not.
    #[must_use]
    pub fn encode_fragment(&self, identification: u16, offset: u16, more: bool) -> [u8; Ipv4::BYTES] {
        self.encode_as(identification, (u16::from(more) * MORE_FRAGMENTS) | (offset / 8))
    }
    fn encode_as(&self, identification: u16, flags_and_offset: u16) -> [u8; Ipv4::BYTES] {
        let mut bytes = [0; Ipv4::BYTES];
        bytes[0] = 0x45;
        bytes[1] = self.dscp << 2 | self.ecn & 3;
        bytes[2..4].copy_from_slice(&self.total_length.to_be_bytes());
        bytes[4..6].copy_from_slice(&identification.to_be_bytes());
        bytes[6..8].copy_from_slice(&flags_and_offset.to_be_bytes());
        bytes[8] = self.time_to_live;
        bytes[9] = self.protocol;
        bytes[12..16].copy_from_slice(&self.source);
        bytes[16..20].copy_from_slice(&self.destination);
        let checksum = checksum(&bytes);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }
    /// Reads the header at the front of `bytes`, and how long it is with its options; the checksum is not looked at.
    ///
    /// # Errors
    /// Fewer bytes than the header has, a version other than 4.
    pub fn decode(bytes: &[u8]) -> Result<(Ipv4, usize), WireError> {
        const HEADER: &str = "the IPv4 header";
        let b: [u8; Ipv4::BYTES] = front(HEADER, bytes)?;
        if b[0] >> 4 != 4 {
            return Err(WireError::Version { header: HEADER, version: b[0] >> 4, expected: 4 });
        }
        let length = usize::from(b[0] & 0xF) * 4;
        if length < Ipv4::BYTES || length > bytes.len() {
            return Err(WireError::Short { header: HEADER, needed: length.max(Ipv4::BYTES), present: bytes.len().min(length) });
        }
        let header = Ipv4 {
            dscp: b[1] >> 2,
            ecn: b[1] & 3,
            total_length: u16::from_be_bytes([b[2], b[3]]),
            time_to_live: b[8],
            protocol: b[9],
            source: front(HEADER, &b[12..])?,
            destination: front(HEADER, &b[16..])?,
        };
        Ok((header, length))
    }
}

/// Flags before the offset of a fragment. Basis: standard, RFC 791.
const DO_NOT_FRAGMENT: u16 = 1 << 14;
const MORE_FRAGMENTS: u16 = 1 << 13;

/// The checksum of an IPv4 header whose checksum field is zero; 0 over a header that holds the right one.
#[must_use]
pub fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    let sum = words.fold(0u32, u32::wrapping_add);
    let folded = (sum >> 16) + (sum & 0xFFFF);
    !((folded >> 16) + (folded & 0xFFFF)) as u16
}

/// UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Udp {
    /// Source port: the entropy of the flow.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Bytes from this header to the ICRC, both included.
    pub length: u16,
}

impl Udp {
    /// Length in bytes.
    pub const BYTES: usize = 8;
    /// The number of UDP in an IP header.
    pub const PROTOCOL: u8 = 17;
    /// Destination port of RoCE version 2.
    pub const ROCE_V2: u16 = 4791;

    /// The bytes on the wire, without a checksum.
    #[must_use]
    pub fn encode(&self) -> [u8; Udp::BYTES] {
        let mut bytes = [0; Udp::BYTES];
        bytes[0..2].copy_from_slice(&self.source.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.destination.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
    /// Reads the header at the front of `bytes`.
    ///
    /// # Errors
    /// Fewer than 8 bytes.
    pub fn decode(bytes: &[u8]) -> Result<Udp, WireError> {
        let b: [u8; Udp::BYTES] = front("the UDP header", bytes)?;
        let word = |at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
        Ok(Udp { source: word(0), destination: word(2), length: word(4) })
    }
}
