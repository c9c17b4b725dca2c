//! The TCP header with its options.
//!
//! Source: RFC 9293 §3.1 (header, maximum segment size), RFC 7323 §2.2 and §3.2 (window scale, timestamps), RFC 2018 §2 and §3
//! (selective acknowledgement), RFC 3168 §6.1 (ECE and CWR).
//! Modelled: the options named above, padded by no-operations as Linux does.
//! Not modelled: the checksum (0; adapters fill it in), urgent data, other options (skipped when read).

use crate::WireError;
use crate::error::front;

/// The bits of a TCP header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: TcpFlags = TcpFlags(1);
    /// Sequence numbers are synchronised.
    pub const SYN: TcpFlags = TcpFlags(2);
    /// The connection is reset.
    pub const RST: TcpFlags = TcpFlags(4);
    /// Hand it to the program at once.
    pub const PSH: TcpFlags = TcpFlags(8);
    /// The acknowledgement number counts.
    pub const ACK: TcpFlags = TcpFlags(16);
    /// A marked packet came.
    pub const ECE: TcpFlags = TcpFlags(64);
    /// The congestion window was reduced.
    pub const CWR: TcpFlags = TcpFlags(128);

    /// Whether all bits of `other` are set.
    #[must_use]
    pub const fn contains(self, other: TcpFlags) -> bool {
        self.0 & other.0 == other.0
    }
    /// Both.
    #[must_use]
    pub const fn with(self, other: TcpFlags) -> TcpFlags {
        TcpFlags(self.0 | other.0)
    }
}

/// Up to four ranges that arrived out of order: the first number of each and that behind its last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SackBlocks {
    blocks: [(u32, u32); SackBlocks::MOST],
    count: u8,
}

impl SackBlocks {
    /// As many as fit into the options; one less beside timestamps.
    pub const MOST: usize = 4;

    /// Adds a block; those that find no room are left out.
    pub fn push(&mut self, from: u32, to: u32) {
        if let Some(block) = self.blocks.get_mut(usize::from(self.count)) {
            *block = (from, to);
            self.count += 1;
        }
    }
    /// The blocks.
    #[must_use]
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }
}

/// A TCP header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Tcp {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Number of the first byte of payload.
    pub seq: u32,
    /// Number of the next byte expected.
    pub ack: u32,
    /// Its bits.
    pub flags: TcpFlags,
    /// Bytes the sender of this header has room for, shifted right by its window scale.
    pub window: u16,
    /// Option 2: the largest segment the sender of this header takes.
    pub mss: Option<u16>,
    /// Option 3: by how much the sender shifts its windows.
    pub window_scale: Option<u8>,
    /// Option 4: selective acknowledgements are understood.
    pub sack_permitted: bool,
    /// Option 8: the sender's clock, and the peer's as last heard.
    pub timestamps: Option<(u32, u32)>,
    /// Option 5: what arrived out of order.
    pub sack: SackBlocks,
}

impl Tcp {
    /// Length in bytes, without options.
    pub const BYTES: usize = 20;
    /// The number of TCP in an IP header.
    pub const PROTOCOL: u8 = 6;
    /// The longest header: 15 words.
    pub const LONGEST: usize = 60;

    /// Bytes of the header with its options.
    #[must_use]
    pub fn header_bytes(&self) -> u32 {
        let blocks = self.sack.as_slice().len();
        let options = if self.mss.is_some() { 4 } else { 0 }
            + if self.window_scale.is_some() { 4 } else { 0 }
            // The permission shares its word with the timestamps, if there are any.
            + if self.sack_permitted && self.timestamps.is_none() { 4 } else { 0 }
            + if self.timestamps.is_some() { 12 } else { 0 }
            + if blocks > 0 { 4 + 8 * blocks } else { 0 };
        (Tcp::BYTES + options) as u32
    }

    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Tcp::LONGEST);
        bytes.extend(self.source.to_be_bytes());
        bytes.extend(self.destination.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.extend([0, self.flags.0]);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0; 4]); // checksum, urgent pointer
        if let Some(mss) = self.mss {
            bytes.extend([2, 4]);
            bytes.extend(mss.to_be_bytes());
        }
        if self.sack_permitted {
            bytes.extend(if self.timestamps.is_some() { [4, 2].as_slice() } else { &[NOP, NOP, 4, 2] });
        }
        if let Some((value, echo)) = self.timestamps {
            bytes.extend(if self.sack_permitted { [8, 10].as_slice() } else { &[NOP, NOP, 8, 10] });
            bytes.extend(value.to_be_bytes());
            bytes.extend(echo.to_be_bytes());
        }
        if let Some(shift) = self.window_scale {
            bytes.extend([NOP, 3, 3, shift]);
        }
        let blocks = self.sack.as_slice();
        if !blocks.is_empty() {
            bytes.extend([NOP, NOP, 5, 2 + 8 * blocks.len() as u8]);
            for (from, to) in blocks {
                bytes.extend(from.to_be_bytes());
                bytes.extend(to.to_be_bytes());
            }
        }
        bytes[12] = (bytes.len() as u8 / 4) << 4;
        bytes
    }

    /// Reads the header at the front of `bytes`, and how long it is.
    ///
    /// # Errors
    /// Fewer bytes than the header says; an option that ends behind the header.
    pub fn decode(bytes: &[u8]) -> Result<(Tcp, usize), WireError> {
        let b: [u8; Tcp::BYTES] = front(HEADER, bytes)?;
        let half = |at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
        let length = usize::from(b[12] >> 4) * 4;
        if length < Tcp::BYTES || length > bytes.len() {
            return Err(WireError::Short { header: HEADER, needed: length.max(Tcp::BYTES), present: bytes.len().min(length) });
        }
        let mut header = Tcp {
            source: half(0),
            destination: half(2),
            seq: word(&b, 4),
            ack: word(&b, 8),
            flags: TcpFlags(b[13]),
            window: half(14),
            ..Tcp::default()
        };
        let mut options = &bytes[Tcp::BYTES..length];
        while let [kind, rest @ ..] = options {
            match *kind {
                0 => break,
                NOP => options = rest,
                kind => {
                    let size = usize::from(*rest.first().unwrap_or(&0));
                    if size < 2 || size > options.len() {
                        return Err(WireError::Short { header: "a TCP option", needed: size.max(2), present: options.len() });
                    }
                    header.take_option(kind, &options[2..size]);
                    options = &options[size..];
                }
            }
        }
        Ok((header, length))
    }

    fn take_option(&mut self, kind: u8, value: &[u8]) {
        match (kind, value) {
            (2, [high, low]) => self.mss = Some(u16::from_be_bytes([*high, *low])),
            (3, [shift]) => self.window_scale = Some(*shift),
            (4, []) => self.sack_permitted = true,
            (5, blocks) => blocks.chunks_exact(8).for_each(|block| self.sack.push(word(block, 0), word(block, 4))),
            (8, clocks) if clocks.len() == 8 => self.timestamps = Some((word(clocks, 0), word(clocks, 4))),
            _ => {}
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

const HEADER: &str = "the TCP header";
/// The option that does nothing.
const NOP: u8 = 1;

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;

    #[test]
    fn headers_come_back() {
        let mut sack = SackBlocks::default();
        sack.push(0x1111_2222, 0x3333_4444);
        sack.push(5, 6);
        let plain =
            Tcp { source: 5201, destination: 40_000, seq: 7, ack: 0xFFFF_FFF0, flags: TcpFlags::ACK, window: 501, ..Tcp::default() };
        let syn =
            Tcp { flags: TcpFlags::SYN, mss: Some(1460), window_scale: Some(7), sack_permitted: true, timestamps: Some((1, 0)), ..plain };
        let data = Tcp { flags: TcpFlags::ACK.with(TcpFlags::PSH), timestamps: Some((9, 8)), ..plain };
        // Linux: 40 bytes for a SYN, 32 for data, 20 without options.
        for (header, size) in
            [(plain, 20), (syn, 40), (data, 32), (Tcp { sack, ..data }, 52), (Tcp { sack_permitted: true, timestamps: None, ..plain }, 24)]
        {
            let bytes = header.encode();
            assert_eq!((bytes.len(), header.header_bytes()), (size, size as u32));
            assert_eq!(Tcp::decode(&bytes), Ok((header, size)));
            assert!(Tcp::decode(&bytes[..size - 1]).is_err());
        }
    }

    #[test]
    fn wrong_options_are_told() {
        let mut bytes = Tcp { mss: Some(536), ..Tcp::default() }.encode();
        bytes[21] = 9;
        assert!(Tcp::decode(&bytes).unwrap_err().in_full().contains("option"));
        bytes[20] = 200; // an unknown option is skipped
        bytes[21] = 4;
        assert_eq!(Tcp::decode(&bytes).unwrap().0.mss, None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
            let _ = Tcp::decode(&bytes);
        }
    }
}
