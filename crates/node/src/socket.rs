//! Sockets of the kernel, as a program sees them: system calls with their copies.
//!
//! Source: socket(7), tcp(7), udp(7).
//! Modelled: connect, accept, write and read that block or are asked in a loop; bind, sendto and recvfrom of UDP; the copy between the
//! program's buffer and the kernel's, at the copy rate of the core; what interrupts take from the core where it handles them itself.
//! Not modelled: zero-copy (MSG_ZEROCOPY, sendfile), vectors, several programs on one socket.

use std::fmt;

use fabriscope_tcp::kernel::{Awaited, DatagramSocketId, SocketError, SocketId};
use fabriscope_units::{Remedy, Time};

use crate::adapter::Adapter;
use crate::program_error::ProgramError;

/// A socket of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Socket {
    pub(crate) nic: usize,
    pub(crate) id: SocketId,
}

/// A socket of UDP of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatagramSocket {
    pub(crate) nic: usize,
    pub(crate) id: DatagramSocketId,
}

/// What a program waits for at the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketWait {
    /// A socket becomes ready.
    Ready(Socket, Awaited),
    /// A socket of UDP becomes ready.
    Datagrams(DatagramSocket, Awaited),
    /// A connection comes to a port of a NIC's interface.
    Accept {
        /// The NIC.
        nic: usize,
        /// The port.
        port: u16,
    },
}

/// How a program waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// In the kernel, which wakes it.
    Asleep,
    /// It asks again and again, as libraries with a progress loop do.
    Asking,
}

impl SocketWait {
    /// The NIC at whose interface it is.
    pub(crate) const fn nic(self) -> usize {
        match self {
            SocketWait::Ready(socket, _) => socket.nic,
            SocketWait::Datagrams(socket, _) => socket.nic,
            SocketWait::Accept { nic, .. } => nic,
        }
    }
    /// When it became so at that NIC, if it did.
    pub(crate) fn ready_at(self, adapter: &Adapter) -> Option<Time> {
        let interface = adapter.sockets_in_use()?;
        match self {
            SocketWait::Ready(socket, awaited) => interface.ready_at(socket.id, awaited),
            SocketWait::Datagrams(socket, awaited) => interface.datagrams_ready_at(socket.id, awaited),
            SocketWait::Accept { port, .. } => interface.acceptable_at(port),
        }
    }
}

impl fmt::Display for SocketWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketWait::Ready(socket, Awaited::Connected) => write!(f, "the handshake of socket {} of NIC {}", socket.id.0, socket.nic),
            SocketWait::Ready(socket, Awaited::Readable) => write!(f, "data on socket {} of NIC {}", socket.id.0, socket.nic),
            SocketWait::Ready(socket, Awaited::Writable) => write!(f, "room in socket {} of NIC {}", socket.id.0, socket.nic),
            SocketWait::Datagrams(socket, Awaited::Writable) => write!(f, "room in UDP socket {} of NIC {}", socket.id.0, socket.nic),
            SocketWait::Datagrams(socket, _) => write!(f, "a datagram on UDP socket {} of NIC {}", socket.id.0, socket.nic),
            SocketWait::Accept { nic, port } => write!(f, "a connection to port {port} of NIC {nic}"),
        }
    }
}

impl From<SocketError> for ProgramError {
    fn from(error: SocketError) -> ProgramError {
        ProgramError(error.in_full())
    }
}

/// When the first of the awaited things became so, if any did.
#[must_use]
pub fn first_ready<'a>(adapters: impl Fn(usize) -> Option<&'a Adapter>, awaited: &[SocketWait]) -> Option<Time> {
    awaited.iter().filter_map(|wait| wait.ready_at(adapters(wait.nic())?)).min()
}
