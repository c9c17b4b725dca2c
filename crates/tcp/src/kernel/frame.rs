//! What goes down to the adapter: segments and datagrams, and how they become packets.

use fabriscope_units::Time;
use fabriscope_wire::{AppWords, TcpFlags};

use super::datagram::{Datagram, DatagramSocketId};
use super::settings::IP;
use super::socket::SocketId;
use crate::segment::Segment;

/// What a packet of IP carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carried {
    /// A segment of TCP.
    Tcp(Segment),
    /// A datagram of UDP, or a fragment of one.
    Udp(Datagram),
}

impl Carried {
    /// Ports of source and destination.
    #[must_use]
    pub const fn ports(&self) -> (u16, u16) {
        match self {
            Carried::Tcp(segment) => (segment.header.source, segment.header.destination),
            Carried::Udp(datagram) => (datagram.source, datagram.destination),
        }
    }
}

/// A packet for the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// The interface it goes to.
    pub remote: u32,
    /// What it carries; `None`: a piece of an IP packet whose last piece carries it.
    pub carried: Option<Carried>,
    /// Bytes that the adapter reads from memory for it.
    pub fetch: u32,
    /// Bytes on the wire.
    pub wire: u32,
    /// The adapter reads a new descriptor.
    pub first: bool,
    /// The last of its segment or datagram.
    pub last: bool,
    /// Chooses among equal paths: the same for all packets of a connection.
    pub entropy: u16,
    /// What programs say with messages that end in it, by the position in the stream at which they end.
    pub words: Vec<(u64, AppWords)>,
}

/// What goes down, cut into packets as they are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub ready: Time,
    pub remote: u32,
    pub content: Content,
    /// Bytes already in packets (of a datagram with the header), and pieces of the packet that is being cut.
    pub done: u32,
    pub piece: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Segment { socket: SocketId, segment: Segment, mss: u32 },
    Datagram { socket: DatagramSocketId, whole: Datagram },
}

impl Frame {
    pub fn of(ready: Time, remote: u32, content: Content) -> Frame {
        Frame { ready, remote, content, done: 0, piece: 0 }
    }
}

/// A packet of a frame: what it carries, bytes of IP, how far it brings the frame, whether it ends it.
pub(super) struct Cut {
    pub carried: Carried,
    pub bytes: u32,
    pub done: u32,
    pub last: bool,
}

impl Frame {
    pub fn cut(&self, mtu: u32) -> Cut {
        match self.content {
            Content::Segment { mut segment, mss, .. } => {
                let payload = segment.payload;
                let here = (payload - self.done).min(mss);
                segment.payload = here;
                segment.offset += u64::from(self.done);
                segment.header.seq = segment.header.seq.wrapping_add(self.done);
                let last = self.done + here >= payload;
                if !last {
                    // What ends the segment is said by its last packet.
                    segment.header.flags = TcpFlags(segment.header.flags.0 & !(TcpFlags::PSH.0 | TcpFlags::FIN.0));
                }
                if self.done > 0 {
                    segment.header.flags = TcpFlags(segment.header.flags.0 & !TcpFlags::CWR.0);
                }
                let bytes = IP + segment.header.header_bytes() + here;
                Cut { carried: Carried::Tcp(segment), bytes, done: self.done + here, last }
            }
            Content::Datagram { whole, .. } => {
                let packet = whole.fragment(self.done, mtu);
                let done = self.done + packet.bytes();
                Cut { carried: Carried::Udp(packet), bytes: IP + packet.bytes(), done, last: packet.is_last() }
            }
        }
    }
}
