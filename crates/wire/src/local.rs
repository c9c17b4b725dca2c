//! The local route header of InfiniBand, 8 bytes.
//!
//! Source: InfiniBand volume 1, §7.7.
//!
//! ```text
//!  VL:4 LVer:4 | SL:4 rsv:2 LNH:2 | DLID:16
//!  rsv:5 PktLen:11 | SLID:16
//! ```

use crate::WireError;
use crate::error::front;

/// What follows the local route header (LNH).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NextHeader {
    /// A raw packet.
    Raw = 0,
    /// A raw IPv6 packet.
    RawIpv6 = 1,
    /// A base transport header.
    Bth = 2,
    /// A global route header.
    Grh = 3,
}

/// Local route header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lrh {
    /// Virtual lane, 4 bits.
    pub vl: u8,
    /// Service level, 4 bits.
    pub sl: u8,
    /// What follows.
    pub next: NextHeader,
    /// Destination.
    pub dlid: u16,
    /// Four-byte words from this header to the ICRC, both included; 11 bits.
    pub words: u16,
    /// Source.
    pub slid: u16,
}

impl Lrh {
    /// Length in bytes.
    pub const BYTES: usize = 8;

    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; Lrh::BYTES] {
        let [dlid_high, dlid_low] = self.dlid.to_be_bytes();
        let [words_high, words_low] = (self.words & 0x7FF).to_be_bytes();
        let [slid_high, slid_low] = self.slid.to_be_bytes();
        [self.vl << 4, self.sl << 4 | self.next as u8, dlid_high, dlid_low, words_high, words_low, slid_high, slid_low]
    }
    /// Reads the header at the front of `bytes`; reserved bits are ignored.
    ///
    /// # Errors
    /// Fewer than 8 bytes, a link version other than 0.
    pub fn decode(bytes: &[u8]) -> Result<Lrh, WireError> {
        let b: [u8; Lrh::BYTES] = front("LRH", bytes)?;
        if b[0] & 0xF != 0 {
            return Err(WireError::Version { header: "LRH", version: b[0] & 0xF, expected: 0 });
        }
        let next = [NextHeader::Raw, NextHeader::RawIpv6, NextHeader::Bth, NextHeader::Grh][usize::from(b[1] & 3)];
        Ok(Lrh {
            vl: b[0] >> 4,
            sl: b[1] >> 4,
            next,
            dlid: u16::from_be_bytes([b[2], b[3]]),
            words: u16::from_be_bytes([b[4], b[5]]) & 0x7FF,
            slid: u16::from_be_bytes([b[6], b[7]]),
        })
    }
}
