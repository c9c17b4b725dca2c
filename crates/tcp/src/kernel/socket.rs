//! A socket: a connection, who owns it, and when its owner may go on.

use fabriscope_units::{Bytes, Span, Time};

use super::words::StreamWords;
use crate::config::Algorithm;
use crate::connection::{Connection, TcpError};
use crate::seq::Seq;

/// The number of a socket of an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId(pub u32);

/// What a program waits for at a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// The handshake.
    Connected,
    /// Data, or the end of the stream.
    Readable,
    /// A third of the send buffer.
    Writable,
}

/// What a program chooses when it opens a socket; `None`: as the interface has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SocketOptions {
    /// `TCP_NODELAY`.
    pub no_delay: bool,
    /// `TCP_MAXSEG`.
    pub mss: Option<u32>,
    /// `SO_SNDBUF` and `SO_RCVBUF`.
    pub buffers: Option<Bytes>,
    /// `TCP_CONGESTION`.
    pub algorithm: Option<Algorithm>,
}

/// Why a socket does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub enum SocketError {
    /// The node has no interface there.
    #[error("no IP interface on adapter {nic}")]
    #[diagnostic(help("use a cluster whose adapters carry IP"))]
    NoInterface {
        /// The adapter.
        nic: usize,
    },
    /// Someone listens there already.
    #[error("port {port} is in use")]
    #[diagnostic(help("choose another"))]
    PortInUse {
        /// The port.
        port: u16,
    },
    /// A datagram is longer than IP carries.
    #[error("a datagram of {bytes} B: IP carries {most} B of payload at most")]
    #[diagnostic(help("send at most {most} B at a time"))]
    LongDatagram {
        /// As asked.
        bytes: u32,
        /// What fits.
        most: u32,
    },
    /// The connection.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Tcp(#[from] TcpError),
}

/// What `TCP_INFO` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketView {
    /// Segments sent again.
    pub retransmissions: u64,
    /// Congestion window.
    pub window: Bytes,
    /// Payload of a full segment.
    pub mss: u32,
    /// Smoothed round trip.
    pub round_trip: Option<Span>,
    /// Our port.
    pub port: u16,
    /// The other interface, and the port there.
    pub remote: u32,
    /// The other port.
    pub remote_port: u16,
}

#[derive(Debug)]
pub(super) struct Socket {
    pub connection: Connection,
    pub remote: u32,
    pub port: u16,
    pub remote_port: u16,
    /// The queue of its program.
    pub queue: usize,
    /// Written by the program, not yet posted; read by it, not yet taken.
    pub writing: u64,
    pub reading: u64,
    /// In order at the adapter's engine, and the core was not told yet.
    pub untold: u64,
    /// Of these, those of which the engine has not told the core, and when it does so at the latest.
    pub held: u64,
    pub tell_at: Time,
    pub mss: u32,
    /// Since when the conditions hold.
    pub connected: Time,
    pub readable: Time,
    pub writable: Time,
    pub send_buffer: u64,
    /// What programs say with their messages.
    pub words: StreamWords,
}

impl Socket {
    pub fn ready_at(&self, awaited: Awaited) -> Option<Time> {
        if self.connection.error().is_some() {
            return Some(self.readable);
        }
        match awaited {
            Awaited::Connected => self.connection.is_established().then_some(self.connected),
            Awaited::Readable => (self.readable() > 0 || self.ended()).then_some(self.readable),
            Awaited::Writable => (3 * self.space() >= self.send_buffer).then_some(self.writable),
        }
    }
    /// The peer closed, and the program can know.
    pub fn ended(&self) -> bool {
        self.connection.ended() && self.untold == 0
    }
    /// Bytes a program may read now.
    pub fn readable(&self) -> u64 {
        self.connection.readable() - self.reading - self.untold
    }
    /// Room for what a program writes.
    pub fn space(&self) -> u64 {
        self.connection.send_space().saturating_sub(self.writing)
    }
}

/// The first number of a stream; nothing depends on it. Basis: assumed.
pub(super) fn initial(address: u32, port: u16) -> Seq {
    Seq(address.wrapping_mul(0x9E37_79B9) ^ u32::from(port) << 8)
}
