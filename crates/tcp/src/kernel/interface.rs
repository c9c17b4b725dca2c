//! A network interface of the kernel: sockets above, packets below, interrupts in between.

use std::collections::{BTreeMap, VecDeque};

use fabriscope_units::{Span, Time};
use fabriscope_wire::{AppWords, TcpFlags};

use super::moderation::Moderation;
use super::settings::{Framing, Settings};
use super::socket::{Awaited, Socket, SocketError, SocketId, SocketOptions, SocketView};
use super::words::StreamWords;
use crate::config::Config;
use crate::connection::Connection;
use crate::segment::Segment;
use crate::seq::Seq;

/// A packet for the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// The interface it goes to.
    pub remote: u32,
    /// What it carries; `None`: a piece of an IP packet whose last piece carries it.
    pub segment: Option<Segment>,
    /// Bytes that the adapter reads from memory for it.
    pub fetch: u32,
    /// Bytes on the wire.
    pub wire: u32,
    /// The adapter reads a new descriptor.
    pub first: bool,
    /// The last of its segment.
    pub last: bool,
    /// Chooses among equal paths: the same for all packets of a connection.
    pub entropy: u16,
    /// What programs say with messages that end in it, by the position in the stream at which they end.
    pub words: Vec<(u64, AppWords)>,
}

/// A segment on its way down, cut into packets as they are asked for.
#[derive(Clone, Copy, Debug)]
struct Frame {
    ready: Time,
    remote: u32,
    socket: SocketId,
    segment: Segment,
    /// Payload bytes already in packets, and of the packet that is being cut into pieces.
    done: u32,
    piece: u32,
    mss: u32,
}

/// A packet on its way up.
#[derive(Clone, Copy, Debug)]
struct Landed {
    from: u32,
    segment: Segment,
    marked: bool,
}

/// The packets for one program, and the core that handles them.
#[derive(Debug)]
struct Queue {
    owner: u32,
    ring: VecDeque<(Time, Landed)>,
    moderation: Moderation,
    stage: Stage,
    /// Packets of this interrupt, and their payload.
    brought: (u32, u64),
    /// The program's core is busy until then, as far as it said.
    program: Time,
    /// What interrupts took from it since.
    stolen: Span,
    /// Core time that interrupts and the packets they brought have taken so far, of whatever core.
    handled: Span,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Interrupts are on.
    Idle,
    /// An interrupt is due.
    Interrupt(Time),
    /// The core handles a segment until then.
    Busy(Time, Option<Landed>),
}

/// What a program did, to be done when its clock says.
#[derive(Debug, Clone, Copy)]
enum Action {
    Write(u64),
    Read(u64),
    Close,
}

/// A network interface.
#[derive(Debug)]
pub struct Interface {
    address: u32,
    settings: Settings,
    sockets: Vec<Socket>,
    /// (our port, remote, remote port) → socket. Looked up only.
    by_pair: BTreeMap<(u16, u32, u16), SocketId>,
    /// Sockets established and not yet accepted, by port.
    listening: BTreeMap<u16, (SocketOptions, VecDeque<SocketId>)>,
    queues: Vec<Queue>,
    outgoing: VecDeque<Frame>,
    incoming: VecDeque<Landed>,
    actions: BTreeMap<(Time, u64), (SocketId, Action)>,
    order: u64,
    next_port: u16,
    /// Someone may be waiting for what changed at these times.
    wakes: VecDeque<Time>,
    /// When it was last looked at: what was ready then waits for the adapter, not for a time.
    seen: Time,
}

/// For programs: what system calls do. Times are those of the program's clock, which may run ahead.
impl Interface {
    /// An interface with an address.
    #[must_use]
    pub fn new(address: u32, settings: Settings) -> Interface {
        Interface {
            address,
            settings,
            sockets: Vec::new(),
            by_pair: BTreeMap::new(),
            listening: BTreeMap::new(),
            queues: Vec::new(),
            outgoing: VecDeque::new(),
            incoming: VecDeque::new(),
            actions: BTreeMap::new(),
            order: 0,
            next_port: FIRST_PORT,
            wakes: VecDeque::new(),
            seen: Time::ZERO,
        }
    }
    /// What it was made with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
    /// `listen`.
    ///
    /// # Errors
    /// The port is in use.
    pub fn listen(&mut self, port: u16, options: SocketOptions) -> Result<(), SocketError> {
        if self.listening.contains_key(&port) {
            return Err(SocketError::PortInUse { port });
        }
        self.listening.insert(port, (options, VecDeque::new()));
        Ok(())
    }
    /// `connect` to a port of another interface, by the program `owner`.
    ///
    /// # Errors
    /// Options with which nothing could be sent.
    pub fn connect(&mut self, now: Time, owner: u32, remote: u32, port: u16, options: SocketOptions) -> Result<SocketId, SocketError> {
        let ours = self.next_port;
        self.next_port = self.next_port.wrapping_add(1).max(FIRST_PORT);
        let (config, mss) = self.config(options);
        let connection = Connection::connect(config, initial(self.address, ours))?;
        let socket = self.open(connection, config, mss, (ours, remote, port), owner);
        self.act(now, socket, Action::Write(0));
        Ok(socket)
    }
    /// `accept`: a connection that came to `port`, if there is one; from now on it belongs to `owner`.
    pub fn accept(&mut self, owner: u32, port: u16) -> Option<SocketId> {
        let socket = self.listening.get_mut(&port)?.1.pop_front()?;
        self.sockets[socket.0 as usize].queue = self.queue(owner);
        Some(socket)
    }
    /// When a connection that came to `port` could be accepted.
    #[must_use]
    pub fn acceptable_at(&self, port: u16) -> Option<Time> {
        let socket = *self.listening.get(&port)?.1.front()?;
        Some(self.sockets[socket.0 as usize].connected)
    }
    /// Room for a write.
    #[must_use]
    pub fn space(&self, socket: SocketId) -> u64 {
        self.sockets[socket.0 as usize].space()
    }
    /// Bytes written that the peer has not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self, socket: SocketId) -> u64 {
        let socket = &self.sockets[socket.0 as usize];
        socket.connection.unacknowledged() + socket.writing
    }
    /// Bytes to read.
    #[must_use]
    pub fn readable(&self, socket: SocketId) -> u64 {
        self.sockets[socket.0 as usize].readable()
    }
    /// Whether the peer closed and all of its stream was read.
    #[must_use]
    pub fn ended(&self, socket: SocketId) -> bool {
        let socket = &self.sockets[socket.0 as usize];
        socket.connection.ended() && socket.readable() == 0
    }
    /// Why a connection is dead, if it is.
    #[must_use]
    pub fn error(&self, socket: SocketId) -> Option<SocketError> {
        self.sockets[socket.0 as usize].connection.error().map(SocketError::Tcp)
    }
    /// Since when the condition holds, if it does.
    #[must_use]
    pub fn ready_at(&self, socket: SocketId, awaited: Awaited) -> Option<Time> {
        self.sockets.get(socket.0 as usize)?.ready_at(awaited)
    }
    /// `write` of bytes that were copied until `now`; returns the core time of sending them.
    pub fn write(&mut self, now: Time, socket: SocketId, bytes: u64) -> Span {
        let longest = u64::from(self.settings.longest(true));
        let segments = bytes.div_ceil(longest).max(1);
        let mut cost = self.settings.kernel.send_segment * segments + self.settings.payload(bytes);
        if !self.settings.kernel.segmentation_offload {
            cost += self.settings.kernel.send_packet * bytes.div_ceil(u64::from(self.sockets[socket.0 as usize].mss));
        }
        self.sockets[socket.0 as usize].writing += bytes;
        self.act(now + cost, socket, Action::Write(bytes));
        cost
    }
    /// The program says `words` with the message that ends at byte `end` of what it writes to `socket`; its last byte is yet to be written.
    pub fn say(&mut self, socket: SocketId, end: u64, words: AppWords) {
        self.sockets[socket.0 as usize].words.say(end, words);
    }
    /// What the peer says with the next message that ends by byte `position` of its stream, up to which the program has read.
    pub fn words(&mut self, socket: SocketId, position: u64) -> Option<AppWords> {
        self.sockets[socket.0 as usize].words.read(position)
    }
    /// `read` of bytes that were copied until `now`.
    pub fn read(&mut self, now: Time, socket: SocketId, bytes: u64) {
        self.sockets[socket.0 as usize].reading += bytes;
        self.act(now, socket, Action::Read(bytes));
    }
    /// `shutdown` of our direction.
    pub fn close(&mut self, now: Time, socket: SocketId) {
        self.act(now, socket, Action::Close);
    }
    /// The program of `socket` is busy until `now`; returns what interrupts took from its core since it last said so.
    pub fn busy_until(&mut self, socket: SocketId, now: Time) -> Span {
        let queue = &mut self.queues[self.sockets[socket.0 as usize].queue];
        let stolen = std::mem::take(&mut queue.stolen);
        queue.program = now + stolen;
        stolen
    }
    /// Core time that interrupts for the program of `socket` have taken so far, on whatever core: soft interrupts, as `/proc/stat` counts them.
    #[must_use]
    pub fn interrupt_time(&self, socket: SocketId) -> Span {
        self.queues[self.sockets[socket.0 as usize].queue].handled
    }
    /// `TCP_INFO`.
    #[must_use]
    pub fn view(&self, socket: SocketId) -> SocketView {
        let Socket { connection, mss, port, remote, remote_port, .. } = &self.sockets[socket.0 as usize];
        SocketView {
            retransmissions: connection.retransmissions(),
            window: fabriscope_units::Bytes(connection.congestion_window()),
            mss: *mss,
            round_trip: connection.round_trip(),
            port: *port,
            remote: *remote,
            remote_port: *remote_port,
        }
    }

    fn config(&self, options: SocketOptions) -> (Config, u32) {
        let mss = options.mss.map_or(self.settings.mss(), |mss| mss.min(self.settings.mss()));
        let mut config = Config { mss, no_delay: options.no_delay, ..self.settings.tcp };
        if let Some(buffers) = options.buffers {
            (config.send_buffer, config.receive_buffer) = (buffers, buffers);
        }
        config.algorithm = options.algorithm.unwrap_or(config.algorithm);
        (config, mss)
    }
    fn open(&mut self, connection: Connection, config: Config, mss: u32, pair: (u16, u32, u16), owner: u32) -> SocketId {
        let id = SocketId(self.sockets.len() as u32);
        let queue = self.queue(owner);
        self.sockets.push(Socket {
            connection,
            remote: pair.1,
            port: pair.0,
            remote_port: pair.2,
            queue,
            writing: 0,
            reading: 0,
            mss,
            connected: Time::ZERO,
            readable: Time::ZERO,
            writable: Time::ZERO,
            send_buffer: config.send_buffer.0,
            words: StreamWords::default(),
        });
        self.by_pair.insert(pair, id);
        id
    }
    fn queue(&mut self, owner: u32) -> usize {
        if let Some(known) = self.queues.iter().position(|queue| queue.owner == owner) {
            return known;
        }
        self.queues.push(Queue {
            owner,
            ring: VecDeque::new(),
            moderation: Moderation::new(self.settings.kernel),
            stage: Stage::Idle,
            brought: (0, 0),
            program: Time::ZERO,
            stolen: Span::ZERO,
            handled: Span::ZERO,
        });
        self.queues.len() - 1
    }
    fn act(&mut self, at: Time, socket: SocketId, action: Action) {
        self.actions.insert((at, self.order), (socket, action));
        self.order += 1;
    }
}

/// For the adapter.
impl Interface {
    /// The next packet to build, if its segment has reached the adapter.
    pub fn poll_packet(&mut self, now: Time) -> Option<Outgoing> {
        let frame = self.outgoing.front_mut().filter(|frame| frame.ready <= now)?;
        let payload = frame.segment.payload;
        let here = (payload - frame.done).min(frame.mss);
        let mut segment = frame.segment;
        segment.payload = here;
        segment.offset += u64::from(frame.done);
        segment.header.seq = segment.header.seq.wrapping_add(frame.done);
        let last = frame.done + here >= payload;
        if !last {
            // What ends the segment is said by its last packet.
            segment.header.flags = TcpFlags(segment.header.flags.0 & !(TcpFlags::PSH.0 | TcpFlags::FIN.0));
        }
        if frame.done > 0 {
            segment.header.flags = TcpFlags(segment.header.flags.0 & !TcpFlags::CWR.0);
        }
        let bytes = IP + segment.header.header_bytes() + here;
        let entropy = segment.header.source ^ segment.header.destination.rotate_left(7);
        let (mut fetch, mut whole) = (bytes, true);
        let (mut starts, mut ends) = (true, true);
        if let Framing::InfinibandConnected { path_mtu } = self.settings.framing {
            let offset = frame.piece * path_mtu;
            fetch = (bytes + CONNECTED_HEADER - offset).min(path_mtu);
            (starts, ends) = (frame.piece == 0, offset + fetch >= bytes + CONNECTED_HEADER);
            whole = ends;
            frame.piece += 1;
        }
        let said = &self.sockets[frame.socket.0 as usize].words;
        let outgoing = Outgoing {
            remote: frame.remote,
            words: if whole { said.within(segment.offset..segment.offset + u64::from(here)) } else { Vec::new() },
            segment: whole.then_some(segment),
            fetch,
            wire: self.settings.framing.wire_bytes(fetch, (starts, ends).into()),
            first: frame.done == 0 && starts,
            last: last && whole,
            entropy,
        };
        if whole {
            (frame.done, frame.piece) = (frame.done + here, 0);
            if last {
                self.outgoing.pop_front();
            }
        }
        Some(outgoing)
    }
    /// The packet that [`handle_packet`](Self::handle_packet) is told of next carries words.
    pub fn handle_words(&mut self, from: u32, segment: &Segment, words: &[(u64, AppWords)]) {
        let pair = (segment.header.destination, from, segment.header.source);
        if let Some(socket) = self.by_pair.get(&pair) {
            self.sockets[socket.0 as usize].words.arrive(words);
        }
    }
    /// A packet arrived; `landed` follows when it is in memory.
    pub fn handle_packet(&mut self, from: u32, segment: Segment, marked: bool) {
        self.incoming.push_back(Landed { from, segment, marked });
    }
    /// The oldest packet that arrived is in memory from `at` on.
    pub fn landed(&mut self, at: Time) {
        let Some(packet) = self.incoming.pop_front() else { return };
        let queue = match self.socket_of(&packet) {
            Some(socket) => self.sockets[socket.0 as usize].queue,
            None => self.queue(KERNEL),
        };
        let queue = &mut self.queues[queue];
        queue.ring.push_back((at, packet));
        if let Stage::Idle | Stage::Interrupt(_) = queue.stage {
            let first = queue.ring.front().map_or(at, |(first, _)| *first);
            let due = queue.moderation.due(first, at, queue.ring.len() as u32) + self.settings.kernel.interrupt;
            queue.stage = match queue.stage {
                Stage::Interrupt(earlier) => Stage::Interrupt(earlier.min(due)),
                _ => Stage::Interrupt(due),
            };
        }
    }
    /// When to call `handle_timeout`; an early call is harmless.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let queues = self.queues.iter().filter_map(|queue| match queue.stage {
            Stage::Idle => None,
            Stage::Interrupt(at) | Stage::Busy(at, _) => Some(at),
        });
        let frame = self.outgoing.front().map(|frame| frame.ready).filter(|ready| *ready > self.seen);
        let action = self.actions.first_key_value().map(|((at, _), _)| *at);
        let timers = self.sockets.iter().filter_map(|socket| socket.connection.poll_timeout());
        queues.chain(timers).chain(frame).chain(action).min()
    }
    /// Whether a packet can be built at `now`.
    #[must_use]
    pub fn wants_to_transmit(&self, now: Time) -> bool {
        self.outgoing.front().is_some_and(|frame| frame.ready <= now)
    }
    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.seen = now;
        while let Some(entry) = self.actions.first_entry().filter(|entry| entry.key().0 <= now) {
            let (socket, action) = entry.remove();
            self.perform(now, socket, action);
        }
        for queue in 0..self.queues.len() {
            self.turn(now, queue);
        }
        for socket in 0..self.sockets.len() {
            if self.sockets[socket].connection.poll_timeout().is_some_and(|at| at <= now) {
                self.sockets[socket].connection.handle_timeout(now);
                if self.sockets[socket].connection.error().is_some() {
                    self.sockets[socket].readable = now;
                    self.wakes.push_back(now);
                }
                let at = now + self.settings.kernel.send_segment;
                self.push(now, SocketId(socket as u32), at);
            }
        }
    }
    /// A time at which something became ready that a program may wait for.
    pub fn poll_wake(&mut self) -> Option<Time> {
        self.wakes.pop_front()
    }

    fn perform(&mut self, now: Time, id: SocketId, action: Action) {
        let socket = &mut self.sockets[id.0 as usize];
        match action {
            Action::Write(bytes) => {
                socket.words.posted(socket.connection.post_send(bytes));
                socket.writing -= bytes;
            }
            Action::Read(bytes) => {
                socket.connection.read(bytes);
                socket.reading -= bytes;
            }
            Action::Close => socket.connection.close(),
        }
        self.push(now, id, now);
    }

    /// Hands down what TCP wants to send, the first segment at `at`; returns when the last one left.
    fn push(&mut self, now: Time, id: SocketId, at: Time) -> Time {
        let settings = &self.settings;
        let socket = &mut self.sockets[id.0 as usize];
        let limit = settings.longest(true);
        let mut ready = at;
        let mut count = 0;
        while let Some(mut segment) = socket.connection.poll_transmit(now, limit) {
            (segment.header.source, segment.header.destination) = (socket.port, socket.remote_port);
            if count > 0 {
                ready += settings.kernel.send_segment;
            }
            count += 1;
            let (remote, mss) = (socket.remote, socket.mss);
            self.outgoing.push_back(Frame { ready: ready + settings.doorbell, remote, socket: id, segment, done: 0, piece: 0, mss });
        }
        ready
    }

    /// One step of the core that handles a queue.
    fn turn(&mut self, now: Time, index: usize) {
        match self.queues[index].stage {
            Stage::Interrupt(at) if at <= now => {
                self.queues[index].brought = (0, 0);
                self.queues[index].handled += self.settings.kernel.interrupt;
                self.take_up(now, now, index);
            }
            Stage::Busy(at, landed) if at <= now => {
                let free = match landed {
                    Some(landed) => self.deliver(now, &landed),
                    None => now,
                };
                self.queues[index].handled += free.since(now);
                self.steal(index, now, free);
                self.take_up(now, free, index);
            }
            _ => {}
        }
    }

    /// The core begins with the next segment at `from`, or goes back to what it did before.
    fn take_up(&mut self, now: Time, from: Time, index: usize) {
        if from > now {
            self.queues[index].stage = Stage::Busy(from, None);
            return;
        }
        let (gro, longest) = (self.settings.kernel.receive_offload, self.settings.longest(true));
        let queue = &mut self.queues[index];
        let Some((_, mut landed)) = queue.ring.front().copied().filter(|(at, _)| *at <= now) else {
            let (packets, bytes) = queue.brought;
            queue.moderation.brought(packets, bytes);
            queue.stage = match queue.ring.front() {
                Some((at, _)) => Stage::Interrupt(queue.moderation.due(*at, *at, queue.ring.len() as u32) + self.settings.kernel.interrupt),
                None => Stage::Idle,
            };
            return;
        };
        queue.ring.pop_front();
        let mut packets = 1;
        while gro
            && packets < BUDGET
            && let Some((_, next)) = queue.ring.front().copied().filter(|(at, _)| *at <= now)
            && follows(&landed, &next, longest)
        {
            merge(&mut landed, &next);
            queue.ring.pop_front();
            packets += 1;
        }
        let costs = &self.settings.kernel;
        let payload = u64::from(landed.segment.payload);
        queue.brought = (queue.brought.0 + packets as u32, queue.brought.1 + payload);
        let end = now + costs.receive_packet * packets + costs.receive_segment + self.settings.payload(payload);
        queue.stage = Stage::Busy(end, Some(landed));
        queue.handled += end.since(now);
        self.steal(index, now, end);
    }

    /// The core of the program cannot do anything else meanwhile.
    fn steal(&mut self, index: usize, from: Time, to: Time) {
        let queue = &mut self.queues[index];
        if self.settings.kernel.flow_steering && queue.program > from {
            let span = to.since(from);
            queue.program += span;
            queue.stolen += span;
        }
    }

    /// TCP gets a segment; returns when the core has sent what follows from it.
    fn deliver(&mut self, now: Time, landed: &Landed) -> Time {
        let Some(id) = self.socket_of(landed).or_else(|| self.answer(landed)) else { return now };
        let socket = &mut self.sockets[id.0 as usize];
        let arrival = socket.connection.handle_segment(now, &landed.segment, landed.marked);
        let socket = &mut self.sockets[id.0 as usize];
        if arrival.in_order > 0 && socket.readable() == arrival.in_order || arrival.ended || arrival.reset {
            socket.readable = now;
        }
        if arrival.acked > 0 {
            socket.writable = now;
            socket.words.acknowledged(socket.connection.unacknowledged());
        }
        if arrival.established {
            (socket.connected, socket.writable) = (now, now);
            if let Some((_, waiting)) = self.listening.get_mut(&socket.port) {
                waiting.push_back(id);
            }
        }
        if arrival.in_order > 0 || arrival.acked > 0 || arrival.established || arrival.ended || arrival.reset {
            self.wakes.push_back(now);
        }
        let before = self.outgoing.len();
        let end = self.push(now, id, now + self.settings.kernel.send_segment);
        if self.outgoing.len() > before { end } else { now }
    }

    /// A SYN for a port where someone listens opens a socket.
    fn answer(&mut self, landed: &Landed) -> Option<SocketId> {
        let header = &landed.segment.header;
        if !landed.segment.has(TcpFlags::SYN) || landed.segment.has(TcpFlags::ACK) {
            return None;
        }
        let options = self.listening.get(&header.destination)?.0;
        let (config, mss) = self.config(options);
        let connection = Connection::listen(config, initial(self.address, header.destination)).ok()?;
        Some(self.open(connection, config, mss, (header.destination, landed.from, header.source), KERNEL))
    }

    fn socket_of(&self, landed: &Landed) -> Option<SocketId> {
        let header = &landed.segment.header;
        self.by_pair.get(&(header.destination, landed.from, header.source)).copied()
    }
}

/// Whether GRO puts `next` behind `first`.
fn follows(first: &Landed, next: &Landed, longest: u32) -> bool {
    let (a, b) = (&first.segment, &next.segment);
    let (x, y) = (&a.header, &b.header);
    let plain = TcpFlags::ACK.with(TcpFlags::PSH).0;
    first.from == next.from
        && (x.source, x.destination) == (y.source, y.destination)
        && a.payload > 0
        && b.payload > 0
        && y.seq == x.seq.wrapping_add(a.payload)
        && x.flags == TcpFlags::ACK
        && y.flags.0 & !plain == 0
        && first.marked == next.marked
        && a.payload + b.payload <= longest
}

fn merge(first: &mut Landed, next: &Landed) {
    let segment = &mut first.segment;
    segment.payload += next.segment.payload;
    segment.header.ack = next.segment.header.ack;
    segment.header.window = next.segment.header.window;
    segment.header.flags = next.segment.header.flags;
    segment.header.sack = next.segment.header.sack;
}

/// The first number of a stream; nothing depends on it. Basis: assumed.
fn initial(address: u32, port: u16) -> Seq {
    Seq(address.wrapping_mul(0x9E37_79B9) ^ u32::from(port) << 8)
}

/// IPv4 without options. Basis: standard.
const IP: u32 = 20;
/// The header of IP over InfiniBand. Basis: standard, RFC 4755.
const CONNECTED_HEADER: u32 = 4;
/// Packets of one poll. Basis: published (Linux, NAPI_POLL_WEIGHT).
const BUDGET: u64 = 64;
/// Owner of connections that nobody accepted yet.
const KERNEL: u32 = u32::MAX;
/// Ports of programs that connect. Basis: published (Linux, ip_local_port_range).
const FIRST_PORT: u16 = 32_768;
