//! The Ethernet header, 14 bytes, and the frame that pauses priorities.
//!
//! Source: IEEE 802.3 §3 (header), annex 31B and IEEE 802.1Q-2022 clause 36 (priority flow control), annex A16 (RoCE
//! version 1).
//! Modelled: addresses, type, VLAN tags in front of the type when read, the pause frame with a time for each priority.
//! Not modelled: VLAN tags when written, the FCS.

use crate::WireError;
use crate::error::front;

/// Ethernet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ethernet {
    /// Destination address.
    pub destination: [u8; 6],
    /// Source address.
    pub source: [u8; 6],
    /// What follows.
    pub ethertype: u16,
}

impl Ethernet {
    /// Length in bytes, without tags.
    pub const BYTES: usize = 14;
    /// Type: IPv4.
    pub const IPV4: u16 = 0x0800;
    /// Type: IPv6.
    pub const IPV6: u16 = 0x86DD;
    /// Type: RoCE version 1.
    pub const ROCE_V1: u16 = 0x8915;
    /// Type: MAC control, of which the pause frames are one.
    pub const MAC_CONTROL: u16 = 0x8808;

    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; Ethernet::BYTES] {
        let mut bytes = [0; Ethernet::BYTES];
        bytes[0..6].copy_from_slice(&self.destination);
        bytes[6..12].copy_from_slice(&self.source);
        bytes[12..14].copy_from_slice(&self.ethertype.to_be_bytes());
        bytes
    }
    /// Reads the header at the front of `bytes`, and how long it is with its VLAN tags.
    ///
    /// # Errors
    /// Fewer bytes than the header has.
    pub fn decode(bytes: &[u8]) -> Result<(Ethernet, usize), WireError> {
        const HEADER: &str = "the Ethernet header";
        let b: [u8; Ethernet::BYTES] = front(HEADER, bytes)?;
        let mut ethertype = u16::from_be_bytes([b[12], b[13]]);
        let mut length = Ethernet::BYTES;
        while TAGS.contains(&ethertype) {
            let tag: [u8; 4] = front(HEADER, &bytes[length..])?;
            ethertype = u16::from_be_bytes([tag[2], tag[3]]);
            length += tag.len();
        }
        Ok((Ethernet { destination: front(HEADER, &b)?, source: front(HEADER, &b[6..])?, ethertype }, length))
    }
}

/// Types of a VLAN tag: customer, service. Basis: standard, IEEE 802.1Q.
const TAGS: [u16; 2] = [0x8100, 0x88A8];

/// What follows the Ethernet header of a frame that pauses priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PriorityPause {
    /// For each priority that the frame speaks of: pause for so many times 512 bits; 0 ends a pause.
    pub quanta: [Option<u16>; 8],
}

impl PriorityPause {
    /// Where such frames go: to the other end of the cable and no further.
    pub const DESTINATION: [u8; 6] = [0x01, 0x80, 0xC2, 0x00, 0x00, 0x01];
    /// Length in bytes of the fields; the frame is filled up to the shortest one.
    pub const BYTES: usize = 20;
    /// From the addresses to the end, without the FCS.
    pub const FRAME_BYTES: usize = 60;
    const OPCODE: u16 = 0x0101;

    /// A frame about one priority.
    #[must_use]
    pub fn of(priority: u8, quanta: u16) -> PriorityPause {
        let mut pause = PriorityPause::default();
        pause.quanta[usize::from(priority & 7)] = Some(quanta);
        pause
    }
    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; PriorityPause::BYTES] {
        let mut bytes = [0; PriorityPause::BYTES];
        bytes[0..2].copy_from_slice(&PriorityPause::OPCODE.to_be_bytes());
        for (priority, quanta) in self.quanta.iter().enumerate() {
            bytes[3] |= u8::from(quanta.is_some()) << priority;
            bytes[4 + 2 * priority..6 + 2 * priority].copy_from_slice(&quanta.unwrap_or(0).to_be_bytes());
        }
        bytes
    }
    /// Reads the fields at the front of `bytes`.
    ///
    /// # Errors
    /// Fewer than 20 bytes, another opcode of MAC control.
    pub fn decode(bytes: &[u8]) -> Result<PriorityPause, WireError> {
        let b: [u8; PriorityPause::BYTES] = front("the pause frame", bytes)?;
        let opcode = u16::from_be_bytes([b[0], b[1]]);
        if opcode != PriorityPause::OPCODE {
            return Err(WireError::Code { what: "the opcode of a priority pause", value: u32::from(opcode), allowed: "0x0101" });
        }
        let quanta = |priority: usize| u16::from_be_bytes([b[4 + 2 * priority], b[5 + 2 * priority]]);
        Ok(PriorityPause { quanta: std::array::from_fn(|priority| (b[3] >> priority & 1 == 1).then(|| quanta(priority))) })
    }
}
