//! From the kernel to the wire: segments and datagrams, cut into packets as the adapter asks for them.

use fabriscope_units::{Span, Time};
use fabriscope_wire::{AppWords, TcpFlags};

use super::datagram::{Datagram, DatagramSocketId};
use super::interface::Interface;
use super::settings::Framing;
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
    remote: u32,
    content: Content,
    /// Bytes already in packets (of a datagram with the header), and pieces of the packet that is being cut.
    done: u32,
    piece: u32,
}

#[derive(Clone, Copy, Debug)]
enum Content {
    Segment { socket: SocketId, segment: Segment, mss: u32 },
    Datagram { socket: DatagramSocketId, whole: Datagram },
}

impl Frame {
    fn of(ready: Time, remote: u32, content: Content) -> Frame {
        Frame { ready, remote, content, done: 0, piece: 0 }
    }
}

/// A packet of a frame: what it carries, bytes of IP, how far it brings the frame, whether it ends it.
struct Cut {
    carried: Carried,
    bytes: u32,
    done: u32,
    last: bool,
}

impl Frame {
    fn cut(&self, mtu: u32) -> Cut {
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

/// For the adapter.
impl Interface {
    /// The next packet to build, if its segment has reached the adapter.
    pub fn poll_packet(&mut self, now: Time) -> Option<Outgoing> {
        let settings = &self.settings;
        let frame = self.outgoing.front_mut().filter(|frame| frame.ready <= now)?;
        let starts_frame = frame.done == 0;
        let Cut { carried, bytes, done, last } = frame.cut(settings.mtu);
        let (mut fetch, mut wire, mut whole) = (bytes, bytes, true);
        let (mut starts, mut ends) = (true, true);
        if let Framing::InfinibandConnected { path_mtu } = settings.framing {
            let offset = frame.piece * path_mtu;
            wire = (bytes + CONNECTED_HEADER - offset).min(path_mtu);
            fetch = wire;
            (starts, ends) = (frame.piece == 0, offset + wire >= bytes + CONNECTED_HEADER);
            whole = ends;
            frame.piece += 1;
        } else if settings.offload
            && let Carried::Tcp(segment) = &carried
        {
            // The adapter writes the headers itself.
            fetch = segment.payload;
        }
        let (remote, content) = (frame.remote, frame.content);
        if whole {
            (frame.done, frame.piece) = (done, 0);
            if last {
                self.outgoing.pop_front();
            }
        }
        let words = match (content, &carried) {
            (Content::Segment { socket, .. }, Carried::Tcp(segment)) if whole => {
                self.sockets[socket.0 as usize].words.within(segment.offset..segment.offset + u64::from(segment.payload))
            }
            _ => Vec::new(),
        };
        if let (Content::Datagram { socket, .. }, Carried::Udp(packet)) = (content, &carried)
            && whole
            && self.datagram_sockets[socket.0 as usize].taken(now, packet)
        {
            self.wakes.push_back(now);
        }
        let (source, destination) = carried.ports();
        Some(Outgoing {
            remote,
            words,
            carried: whole.then_some(carried),
            fetch,
            wire: settings.framing.wire_bytes(wire, (starts, ends).into()),
            first: starts_frame && starts,
            last: last && whole,
            entropy: source ^ destination.rotate_left(7),
        })
    }
    /// Whether a packet can be built at `now`.
    #[must_use]
    pub fn wants_to_transmit(&self, now: Time) -> bool {
        self.outgoing.front().is_some_and(|frame| frame.ready <= now)
    }

    /// Hands down what TCP wants to send, the first segment at `at`; returns when the last one left.
    pub(super) fn push(&mut self, now: Time, id: SocketId, at: Time, by: By) -> Time {
        let settings = &self.settings;
        let socket = &mut self.sockets[id.0 as usize];
        let limit = settings.longest(true);
        // An adapter that does TCP needs no core for segments, and no doorbell for what it finds out itself.
        let each = if settings.offload { Span::ZERO } else { settings.kernel.send_segment };
        let doorbell = if settings.offload && by == By::Arrival { Span::ZERO } else { settings.doorbell };
        let mut ready = at;
        let mut count = 0;
        while let Some(mut segment) = socket.connection.poll_transmit(now, limit) {
            (segment.header.source, segment.header.destination) = (socket.port, socket.remote_port);
            if count > 0 {
                ready += each;
            }
            count += 1;
            let content = Content::Segment { socket: id, segment, mss: socket.mss };
            self.outgoing.push_back(Frame::of(ready + doorbell, socket.remote, content));
        }
        ready
    }
    /// Hands down a datagram.
    pub(super) fn hand_down(&mut self, now: Time, socket: DatagramSocketId, remote: u32, whole: Datagram) {
        let ready = now + self.settings().doorbell;
        self.outgoing.push_back(Frame::of(ready, remote, Content::Datagram { socket, whole }));
    }
}

/// What makes a connection send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// A program, through the core.
    Program,
    /// A packet that came, or a timer.
    Arrival,
}

/// IPv4 without options. Basis: standard.
const IP: u32 = 20;
/// The header of IP over InfiniBand. Basis: standard, RFC 4755.
const CONNECTED_HEADER: u32 = 4;
