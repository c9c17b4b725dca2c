//! What a connection hands to the network.

use fabriscope_wire::{Tcp, TcpFlags};

/// A header and how much payload follows; the caller knows the bytes by their position in the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// The header. Ports are left to the caller.
    pub header: Tcp,
    /// Bytes of payload.
    pub payload: u32,
    /// Position of the first byte of payload in the sender's stream, from 0; for the caller, not on the wire.
    pub offset: u64,
    /// It was on the wire before; for the caller, not on the wire.
    pub retransmission: bool,
}

impl Segment {
    /// Whether the header has all bits of `flags`.
    #[must_use]
    pub const fn has(&self, flags: TcpFlags) -> bool {
        self.header.flags.contains(flags)
    }
    /// Whether it takes sequence numbers: data, SYN or FIN. Others are never sent again.
    #[must_use]
    pub const fn counts(&self) -> bool {
        self.payload > 0 || self.has(TcpFlags::SYN) || self.has(TcpFlags::FIN)
    }
}
