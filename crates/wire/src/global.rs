//! The global route header, 40 bytes; RoCE version 1 has it behind the Ethernet header.
//!
//! Source: InfiniBand volume 1, §8.3; same layout as an IPv6 header.

use crate::WireError;
use crate::error::front;

/// Global route header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grh {
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes after this header up to and including the ICRC.
    pub payload_length: u16,
    /// What follows; [`Grh::NEXT_BTH`] for the transports here.
    pub next_header: u8,
    /// Hops left.
    pub hop_limit: u8,
    /// Source.
    pub sgid: [u8; 16],
    /// Destination.
    pub dgid: [u8; 16],
}

impl Grh {
    /// Length in bytes.
    pub const BYTES: usize = 40;
    /// Next header: a base transport header.
    pub const NEXT_BTH: u8 = 0x1B;

    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; Grh::BYTES] {
        let mut bytes = [0; Grh::BYTES];
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xF_FFFF;
        bytes[0..4].copy_from_slice(&first.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.payload_length.to_be_bytes());
        bytes[6] = self.next_header;
        bytes[7] = self.hop_limit;
        bytes[8..24].copy_from_slice(&self.sgid);
        bytes[24..40].copy_from_slice(&self.dgid);
        bytes
    }
    /// Reads the header at the front of `bytes`.
    ///
    /// # Errors
    /// Fewer than 40 bytes, a version other than 6.
    pub fn decode(bytes: &[u8]) -> Result<Grh, WireError> {
        let b: [u8; Grh::BYTES] = front("GRH", bytes)?;
        let first = u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
        if first >> 28 != 6 {
            return Err(WireError::Version { header: "GRH", version: (first >> 28) as u8, expected: 6 });
        }
        Ok(Grh {
            traffic_class: (first >> 20) as u8,
            flow_label: first & 0xF_FFFF,
            payload_length: u16::from_be_bytes([b[4], b[5]]),
            next_header: b[6],
            hop_limit: b[7],
            sgid: front("GRH", &b[8..])?,
            dgid: front("GRH", &b[24..])?,
        })
    }
}
