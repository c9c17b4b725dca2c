//! The headers between BTH and payload: RETH, AETH, DETH, AtomicETH, AtomicAckETH, ImmDt, IETH.
//!
//! Source: InfiniBand volume 1, §9.3 (extended transport headers) and §9.4 (immediate data).

use crate::error::front;
use crate::{Syndrome, WireError};

/// RDMA header: where to write or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reth {
    /// Virtual address at the responder.
    pub address: u64,
    /// The key that permits it.
    pub rkey: u32,
    /// Length of the whole transfer in bytes.
    pub length: u32,
}

/// Acknowledge header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Aeth {
    /// ACK, RNR NAK or NAK.
    pub syndrome: Syndrome,
    /// Messages completed at the responder, 24 bits that wrap.
    pub msn: u32,
}

/// Datagram header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Deth {
    /// The key that the receiving queue pair wants to see.
    pub qkey: u32,
    /// The sending queue pair, 24 bits.
    pub source_qp: u32,
}

/// Atomic request header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AtomicEth {
    /// Virtual address of eight bytes at the responder.
    pub address: u64,
    /// The key that permits it.
    pub rkey: u32,
    /// The value to swap in, or to add.
    pub swap_add: u64,
    /// The value to compare with; not used by fetch-and-add.
    pub compare: u64,
}

/// Atomic acknowledge header: the value found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AtomicAckEth {
    /// The value before the operation.
    pub original: u64,
}

/// Immediate data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ImmDt {
    /// The number handed to the receiver.
    pub immediate: u32,
}

/// Invalidate header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ieth {
    /// The key that becomes invalid.
    pub rkey: u32,
}

impl Reth {
    /// Length in bytes.
    pub const BYTES: usize = 16;
    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; Reth::BYTES] {
        join(&[&self.address.to_be_bytes(), &self.rkey.to_be_bytes(), &self.length.to_be_bytes()])
    }
    /// Reads the header at the front of `bytes`.
    ///
    /// # Errors
    /// Fewer than 16 bytes.
    pub fn decode(bytes: &[u8]) -> Result<Reth, WireError> {
        let b: [u8; Reth::BYTES] = front("RETH", bytes)?;
        Ok(Reth { address: u64_at(&b, 0), rkey: u32_at(&b, 8), length: u32_at(&b, 12) })
    }
}

impl Aeth {
    /// Length in bytes.
    pub const BYTES: usize = 4;
    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; Aeth::BYTES] {
        let mut bytes = self.msn.to_be_bytes();
        bytes[0] = self.syndrome.encode();
        bytes
    }
    /// Reads the header at the front of `bytes`.
    ///
    /// # Errors
    /// Fewer than 4 bytes, a reserved syndrome.
    pub fn decode(bytes: &[u8]) -> Result<Aeth, WireError> {
        let b: [u8; Aeth::BYTES] = front("AETH", bytes)?;
        Ok(Aeth { syndrome: Syndrome::decode(b[0])?, msn: u32_at(&b, 0) & 0xFF_FFFF })
    }
}

impl Deth {
    /// Length in bytes.
    pub const BYTES: usize = 8;
    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; Deth::BYTES] {
        join(&[&self.qkey.to_be_bytes(), &(self.source_qp & 0xFF_FFFF).to_be_bytes()])
    }
    /// Reads the header at the front of `bytes`; reserved bits are ignored.
    ///
    /// # Errors
    /// Fewer than 8 bytes.
    pub fn decode(bytes: &[u8]) -> Result<Deth, WireError> {
        let b: [u8; Deth::BYTES] = front("DETH", bytes)?;
        Ok(Deth { qkey: u32_at(&b, 0), source_qp: u32_at(&b, 4) & 0xFF_FFFF })
    }
}

impl AtomicEth {
    /// Length in bytes.
    pub const BYTES: usize = 28;
    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; AtomicEth::BYTES] {
        join(&[&self.address.to_be_bytes(), &self.rkey.to_be_bytes(), &self.swap_add.to_be_bytes(), &self.compare.to_be_bytes()])
    }
    /// Reads the header at the front of `bytes`.
    ///
    /// # Errors
    /// Fewer than 28 bytes.
    pub fn decode(bytes: &[u8]) -> Result<AtomicEth, WireError> {
        let b: [u8; AtomicEth::BYTES] = front("AtomicETH", bytes)?;
        Ok(AtomicEth { address: u64_at(&b, 0), rkey: u32_at(&b, 8), swap_add: u64_at(&b, 12), compare: u64_at(&b, 20) })
    }
}

impl AtomicAckEth {
    /// Length in bytes.
    pub const BYTES: usize = 8;
    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; AtomicAckEth::BYTES] {
        self.original.to_be_bytes()
    }
    /// Reads the header at the front of `bytes`.
    ///
    /// # Errors
    /// Fewer than 8 bytes.
    pub fn decode(bytes: &[u8]) -> Result<AtomicAckEth, WireError> {
        front("AtomicAckETH", bytes).map(|b| AtomicAckEth { original: u64::from_be_bytes(b) })
    }
}

impl ImmDt {
    /// Length in bytes.
    pub const BYTES: usize = 4;
    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; ImmDt::BYTES] {
        self.immediate.to_be_bytes()
    }
    /// Reads the data at the front of `bytes`.
    ///
    /// # Errors
    /// Fewer than 4 bytes.
    pub fn decode(bytes: &[u8]) -> Result<ImmDt, WireError> {
        front("ImmDt", bytes).map(|b| ImmDt { immediate: u32::from_be_bytes(b) })
    }
}

impl Ieth {
    /// Length in bytes.
    pub const BYTES: usize = 4;
    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; Ieth::BYTES] {
        self.rkey.to_be_bytes()
    }
    /// Reads the header at the front of `bytes`.
    ///
    /// # Errors
    /// Fewer than 4 bytes.
    pub fn decode(bytes: &[u8]) -> Result<Ieth, WireError> {
        front("IETH", bytes).map(|b| Ieth { rkey: u32::from_be_bytes(b) })
    }
}

/// The fields one after the other; their lengths add up to `N`.
fn join<const N: usize>(fields: &[&[u8]]) -> [u8; N] {
    let mut bytes = [0; N];
    let mut at = 0;
    for field in fields {
        bytes[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    }
    bytes
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |value, byte| value << 8 | u32::from(*byte))
}
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}
