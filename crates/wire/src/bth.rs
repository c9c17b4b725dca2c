//! The base transport header, 12 bytes.
//!
//! Source: InfiniBand volume 1, §9.2.
//!
//! ```text
//!  opcode:8 | SE:1 M:1 Pad:2 TVer:4 | P_Key:16
//!  FECN:1 BECN:1 rsv:6 | DestQP:24
//!  AckReq:1 rsv:7 | PSN:24
//! ```

use crate::error::front;
use crate::{Opcode, Psn, WireError};

/// Base transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bth {
    /// What the packet is.
    pub opcode: Opcode,
    /// The receiver shall raise an event (SE).
    pub solicited: bool,
    /// Path migration state (M).
    pub migrated: bool,
    /// Bytes added to the payload to reach a multiple of four, 0 to 3.
    pub pad: u8,
    /// Partition key.
    pub pkey: u16,
    /// A switch on the way marked the packet.
    pub fecn: bool,
    /// The peer saw marked packets of ours.
    pub becn: bool,
    /// Queue pair at the destination, 24 bits.
    pub dest_qp: u32,
    /// The responder shall acknowledge.
    pub ack_request: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

impl Bth {
    /// Length in bytes.
    pub const BYTES: usize = 12;
    /// The partition every port belongs to, as a full member.
    pub const DEFAULT_PKEY: u16 = 0xFFFF;

    /// A header with this opcode and number, in the default partition and without flags.
    #[must_use]
    pub const fn new(opcode: Opcode, dest_qp: u32, psn: Psn) -> Bth {
        Bth {
            opcode,
            solicited: false,
            migrated: false,
            pad: 0,
            pkey: Bth::DEFAULT_PKEY,
            fecn: false,
            becn: false,
            dest_qp,
            ack_request: false,
            psn,
        }
    }
    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; Bth::BYTES] {
        let mut bytes = [0; Bth::BYTES];
        bytes[0] = self.opcode.as_u8();
        bytes[1] = u8::from(self.solicited) << 7 | u8::from(self.migrated) << 6 | (self.pad & 3) << 4;
        bytes[2..4].copy_from_slice(&self.pkey.to_be_bytes());
        bytes[4..8].copy_from_slice(&(self.dest_qp & 0xFF_FFFF).to_be_bytes());
        bytes[4] = u8::from(self.fecn) << 7 | u8::from(self.becn) << 6;
        bytes[8..12].copy_from_slice(&self.psn.as_u32().to_be_bytes());
        bytes[8] = u8::from(self.ack_request) << 7;
        bytes
    }
    /// Reads the header at the front of `bytes`; reserved bits are ignored.
    ///
    /// # Errors
    /// Fewer than 12 bytes, an unknown opcode, a transport version other than 0.
    pub fn decode(bytes: &[u8]) -> Result<Bth, WireError> {
        let b: [u8; Bth::BYTES] = front("BTH", bytes)?;
        if b[1] & 0xF != 0 {
            return Err(WireError::Version { header: "BTH", version: b[1] & 0xF, expected: 0 });
        }
        Ok(Bth {
            opcode: Opcode::decode(b[0])?,
            solicited: b[1] & 0x80 != 0,
            migrated: b[1] & 0x40 != 0,
            pad: b[1] >> 4 & 3,
            pkey: u16::from_be_bytes([b[2], b[3]]),
            fecn: b[4] & 0x80 != 0,
            becn: b[4] & 0x40 != 0,
            dest_qp: u32::from_be_bytes([0, b[5], b[6], b[7]]),
            ack_request: b[8] & 0x80 != 0,
            psn: Psn::new(u32::from_be_bytes([0, b[9], b[10], b[11]])),
        })
    }
}
