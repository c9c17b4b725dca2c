//! From the kernel to the wire: packets as the adapter asks for them, and what makes connections send.

use fabriscope_units::{Span, Time};

use super::datagram::{Datagram, DatagramSocketId};
use super::frame::{Carried, Content, Cut, Frame, Outgoing};
use super::interface::Interface;
use super::settings::Framing;
use super::socket::SocketId;

/// For the adapter.
impl Interface {
    /// The next packet to build, if its segment has reached the adapter.
    pub fn poll_packet(&mut self, now: Time) -> Option<Outgoing> {
        let settings = &self.settings;
        let mut lane = None;
        let frame = match &mut self.switching {
            None => self.outgoing.front_mut().filter(|frame| frame.ready <= now)?,
            Some(switching) => {
                let queues = &mut self.queues;
                switching.start(settings, now, |machine, took| queues[machine].handled += took);
                let next = switching.passed(now)?;
                lane = Some(next);
                switching.head(next)?
            }
        };
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
            match (&mut self.switching, lane) {
                (Some(switching), Some(lane)) => switching.left(lane, last),
                _ if last => drop(self.outgoing.pop_front()),
                _ => {}
            }
        }
        let words = match (content, &carried) {
            (Content::Segment { socket, .. }, Carried::Tcp(segment)) if whole => {
                self.sockets[socket.0 as usize].words.within(segment.offset..segment.offset + u64::from(segment.payload))
            }
            (Content::Datagram { socket, .. }, Carried::Udp(packet)) if whole => {
                if self.datagram_sockets[socket.0 as usize].taken(now, packet) {
                    self.wakes.push_back(now);
                }
                Vec::new()
            }
            _ => Vec::new(),
        };
        let (source, destination) = carried.ports();
        Some(Outgoing {
            remote,
            words,
            carried: whole.then_some(carried),
            fetch,
            wire: settings.framing.wire_bytes(settings.outer(wire), (starts, ends).into()),
            first: starts_frame && starts,
            last: last && whole,
            entropy: source ^ destination.rotate_left(7),
        })
    }
    /// Whether a packet can be built at `now`.
    #[must_use]
    pub fn wants_to_transmit(&self, now: Time) -> bool {
        self.next_frame().is_some_and(|ready| ready <= now)
    }
    /// When the next packet can be built, or begins to pass the switch.
    pub(super) fn next_frame(&self) -> Option<Time> {
        match &self.switching {
            None => self.outgoing.front().map(|frame| frame.ready),
            Some(switching) => switching.next(),
        }
    }

    /// Hands down what TCP wants to send, the first segment at `at`; returns when the last one left.
    pub(super) fn push(&mut self, now: Time, id: SocketId, at: Time, by: By) -> Time {
        let settings = &self.settings;
        let limit = settings.longest(true);
        let each = settings.each_segment();
        // An adapter that does TCP needs no doorbell for what it finds out itself.
        let doorbell = if settings.offload && by == By::Arrival { Span::ZERO } else { settings.doorbell };
        let mut ready = at;
        let mut count = 0;
        loop {
            let socket = &mut self.sockets[id.0 as usize];
            let Some(mut segment) = socket.connection.poll_transmit(now, limit) else { break };
            (segment.header.source, segment.header.destination) = (socket.port, socket.remote_port);
            if count > 0 {
                ready += each;
            }
            count += 1;
            let content = Content::Segment { socket: id, segment, mss: socket.mss };
            let (frame, queue) = (Frame::of(ready + doorbell, socket.remote, content), socket.queue);
            self.post(frame, queue);
        }
        ready
    }
    /// Hands down a datagram.
    pub(super) fn hand_down(&mut self, now: Time, socket: DatagramSocketId, remote: u32, whole: Datagram) {
        let ready = now + self.settings().doorbell;
        let queue = self.datagram_sockets[socket.0 as usize].queue;
        self.post(Frame::of(ready, remote, Content::Datagram { socket, whole }), queue);
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

/// The header of IP over InfiniBand. Basis: standard, RFC 4755.
const CONNECTED_HEADER: u32 = 4;
