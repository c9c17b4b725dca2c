//! From the wire to sockets: packets that landed, interrupts, and the core that brings them up.
//!
//! Where the adapter does TCP (`Settings::offload`), its engine handles segments when they are in memory, and the core is told of bytes that
//! are in order, like packets: with an interrupt, and merged while they wait. It waits for 12 KiB, a PSH or 20 us before it tells.

use fabriscope_units::{Span, Time};
use fabriscope_wire::{AppWords, TcpFlags};

use super::frame::Carried;
use super::interface::{Action, Interface};
use super::queue::{FromWire, Landed, Queue, Stage};
use super::socket::{SocketId, initial};
use super::transmit::By;
use crate::connection::Connection;
use crate::segment::Segment;

/// For the adapter.
impl Interface {
    /// The packet that [`handle_packet`](Self::handle_packet) is told of next carries words.
    pub fn handle_words(&mut self, from: u32, segment: &Segment, words: &[(u64, AppWords)]) {
        let pair = (segment.header.destination, from, segment.header.source);
        if let Some(socket) = self.by_pair.get(&pair) {
            self.sockets[socket.0 as usize].words.arrive(words);
        }
    }
    /// A packet arrived; `landed` follows when it is in memory.
    pub fn handle_packet(&mut self, from: u32, carried: Carried, marked: bool) {
        self.incoming.push_back((from, carried, marked));
    }
    /// The oldest packet that arrived is in memory from `at` on.
    pub fn landed(&mut self, at: Time) {
        let Some((from, carried, marked)) = self.incoming.pop_front() else { return };
        let (landed, queue) = match carried {
            Carried::Tcp(segment) => {
                let packet = FromWire { from, segment, marked };
                if self.settings.offload {
                    self.engine.push_back((at, packet));
                    return;
                }
                (Landed::Segment(packet), self.socket_of(&packet).map(|socket| self.sockets[socket.0 as usize].queue))
            }
            Carried::Udp(packet) => {
                let socket = self.bound.get(&packet.destination);
                (Landed::Datagram { from, packet }, socket.map(|socket| self.datagram_sockets[socket.0 as usize].queue))
            }
        };
        let queue = queue.unwrap_or_else(|| self.queue(KERNEL));
        if let Some((queue, at)) = self.switch_up(at, &landed, queue) {
            self.queues[queue].add(at, landed, self.settings.kernel.interrupt);
        }
    }
    /// When to call `handle_timeout`; an early call is harmless.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let queues = self.queues.iter().filter_map(Queue::poll_timeout);
        let frame = self.next_frame().filter(|ready| *ready > self.seen);
        let action = self.actions.first_key_value().map(|((at, _), _)| *at);
        let timers = self.sockets.iter().flat_map(|socket| {
            let tell = (socket.held > 0).then_some(socket.tell_at);
            socket.connection.poll_timeout().into_iter().chain(tell)
        });
        let engine = self.engine.front().map(|(at, _)| *at);
        let wake = self.wakes.front().copied();
        queues.chain(timers).chain(frame).chain(action).chain(engine).chain(wake).min()
    }
    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.seen = now;
        while let Some(entry) = self.actions.first_entry().filter(|entry| entry.key().0 <= now) {
            let action = entry.remove();
            self.perform(now, action);
        }
        while let Some((_, packet)) = self.engine.front().copied().filter(|(at, _)| *at <= now) {
            self.engine.pop_front();
            self.place(now, &packet);
        }
        for queue in 0..self.queues.len() {
            self.turn(now, queue);
        }
        for socket in 0..self.sockets.len() {
            if self.sockets[socket].held > 0 && self.sockets[socket].tell_at <= now {
                self.tell(now, SocketId(socket as u32));
            }
            if self.sockets[socket].connection.poll_timeout().is_some_and(|at| at <= now) {
                self.sockets[socket].connection.handle_timeout(now);
                if self.sockets[socket].connection.error().is_some() {
                    self.sockets[socket].readable = now;
                    self.wakes.push_back(now);
                }
                let at = now + self.settings.each_segment();
                self.push(now, SocketId(socket as u32), at, By::Arrival);
            }
        }
    }
    /// A time at which something became ready that a program may wait for.
    pub fn poll_wake(&mut self) -> Option<Time> {
        self.wakes.pop_front()
    }

    fn perform(&mut self, now: Time, action: Action) {
        let id = match action {
            Action::SendTo(socket, remote, whole) => return self.hand_down(now, socket, remote, whole),
            Action::Write(id, bytes) => {
                let socket = &mut self.sockets[id.0 as usize];
                socket.words.posted(socket.connection.post_send(bytes));
                socket.writing -= bytes;
                id
            }
            Action::Read(id, bytes) => {
                let socket = &mut self.sockets[id.0 as usize];
                socket.connection.read(bytes);
                socket.reading -= bytes;
                id
            }
            Action::Close(id) => {
                self.sockets[id.0 as usize].connection.close();
                id
            }
        };
        self.push(now, id, now, By::Program);
    }

    /// One step of the core that handles a queue.
    fn turn(&mut self, now: Time, index: usize) {
        match self.queues[index].stage {
            Stage::Interrupt(at) if at <= now => {
                self.queues[index].brought = (0, 0);
                self.charge(index, self.settings.kernel.interrupt);
                self.take_up(now, now, index);
            }
            Stage::Busy(at, landed) if at <= now => {
                let free = match (landed, self.queues[index].machine) {
                    (Some(landed), None) => self.deliver(now, &landed),
                    (Some(landed), Some(machine)) => {
                        self.hand_over(now, &landed, machine);
                        now
                    }
                    (None, _) => now,
                };
                self.charge(index, free.since(now));
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
        let settings = &self.settings;
        let (gro, longest) = (settings.kernel.receive_offload, settings.longest(true));
        let queue = &mut self.queues[index];
        let Some((_, mut landed)) = queue.ring.front().copied().filter(|(at, _)| *at <= now) else {
            let (packets, bytes) = queue.brought;
            queue.moderation.brought(packets, bytes);
            queue.stage = match queue.ring.front() {
                Some((at, _)) => Stage::Interrupt(queue.moderation.due(*at, *at, queue.ring.len() as u32) + settings.kernel.interrupt),
                None => Stage::Idle,
            };
            return;
        };
        queue.ring.pop_front();
        let mut packets = 1;
        while (gro || matches!(landed, Landed::Placed { .. }))
            && packets < BUDGET
            && let Some((_, next)) = queue.ring.front().copied().filter(|(at, _)| *at <= now)
            && merge(&mut landed, &next, longest)
        {
            queue.ring.pop_front();
            packets += 1;
        }
        let costs = &settings.kernel;
        let (payload, each, once) = match &landed {
            Landed::Segment(packet) => (u64::from(packet.segment.payload), costs.receive_packet, costs.receive_segment),
            Landed::Datagram { packet, .. } => {
                let once = if packet.is_last() { costs.receive_datagram } else { Span::ZERO };
                (u64::from(packet.payload), costs.receive_packet, once)
            }
            Landed::Placed { bytes, .. } => (*bytes, Span::ZERO, costs.offload_receive),
        };
        // The host's core does not bring it up to a socket, but to the ring of a machine.
        let (once, each) = match (&self.switching, queue.machine) {
            (Some(switching), Some(_)) => {
                let (once, ciphered) = switching.bringing_up(payload);
                (once, each + ciphered)
            }
            _ => (once, each),
        };
        queue.brought = (queue.brought.0 + packets as u32, queue.brought.1 + payload);
        let end = now + each * packets + once + settings.payload(payload);
        queue.stage = Stage::Busy(end, Some(landed));
        self.charge(index, end.since(now));
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

    /// A socket gets what landed; returns when the core has sent what follows from it.
    fn deliver(&mut self, now: Time, landed: &Landed) -> Time {
        match landed {
            Landed::Segment(packet) => self.deliver_segment(now, packet),
            Landed::Datagram { from, packet } => {
                if let Some(id) = self.bound.get(&packet.destination)
                    && self.datagram_sockets[id.0 as usize].arrive(now, *from, packet)
                {
                    self.wakes.push_back(now);
                }
                now
            }
            Landed::Placed { socket, bytes } => {
                let socket = &mut self.sockets[socket.0 as usize];
                let waited = socket.readable() == 0;
                socket.untold -= bytes;
                if waited {
                    socket.readable = now;
                }
                self.wakes.push_back(now);
                now
            }
        }
    }

    /// TCP gets a segment on the core.
    fn deliver_segment(&mut self, now: Time, packet: &FromWire) -> Time {
        let Some((id, _)) = self.take_in(now, packet) else { return now };
        let before = self.waiting();
        let end = self.push(now, id, now + self.settings.each_segment(), By::Arrival);
        if self.waiting() > before { end } else { now }
    }

    /// The adapter's engine gets a segment, and tells the core of what is in order.
    fn place(&mut self, now: Time, packet: &FromWire) {
        let Some((id, placed)) = self.take_in(now, packet) else { return };
        if placed > 0 {
            let socket = &mut self.sockets[id.0 as usize];
            if socket.held == 0 {
                socket.tell_at = now + HELD_FOR;
            }
            socket.held += placed;
            let asked = packet.segment.has(TcpFlags::PSH) || packet.segment.has(TcpFlags::FIN);
            if asked || socket.held >= COALESCED {
                self.tell(now, id);
            }
        }
        self.push(now, id, now, By::Arrival);
    }

    /// The engine tells the core of the bytes that it has put in order.
    fn tell(&mut self, now: Time, id: SocketId) {
        let socket = &mut self.sockets[id.0 as usize];
        let landed = Landed::Placed { socket: id, bytes: std::mem::take(&mut socket.held) };
        self.queues[socket.queue].add(now, landed, self.settings.kernel.interrupt);
    }

    /// TCP gets a segment: the socket it belongs to, and bytes that are in order now.
    fn take_in(&mut self, now: Time, packet: &FromWire) -> Option<(SocketId, u64)> {
        let id = self.socket_of(packet).or_else(|| self.answer(packet))?;
        let socket = &mut self.sockets[id.0 as usize];
        let arrival = socket.connection.handle_segment(now, &packet.segment, packet.marked);
        let placed = arrival.in_order;
        // Of what the adapter's engine places the program does not know yet.
        let told = if self.settings.offload { 0 } else { placed };
        socket.untold += placed - told;
        if told > 0 && socket.readable() == told || arrival.ended || arrival.reset {
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
        if told > 0 || arrival.acked > 0 || arrival.established || arrival.ended || arrival.reset {
            self.wakes.push_back(now);
        }
        Some((id, placed))
    }

    /// A SYN for a port where someone listens opens a socket.
    fn answer(&mut self, packet: &FromWire) -> Option<SocketId> {
        let header = &packet.segment.header;
        if !packet.segment.has(TcpFlags::SYN) || packet.segment.has(TcpFlags::ACK) {
            return None;
        }
        let options = self.listening.get(&header.destination)?.0;
        let (config, mss) = self.config(options);
        let connection = Connection::listen(config, initial(self.address(), header.destination)).ok()?;
        Some(self.open(connection, config, mss, (header.destination, packet.from, header.source), KERNEL))
    }

    fn socket_of(&self, packet: &FromWire) -> Option<SocketId> {
        let header = &packet.segment.header;
        self.by_pair.get(&(header.destination, packet.from, header.source)).copied()
    }
}

/// Puts `next` behind `first`, if the core merges them: segments by GRO, bytes of the adapter's engine always.
fn merge(first: &mut Landed, next: &Landed, longest: u32) -> bool {
    match (first, next) {
        (Landed::Segment(first), Landed::Segment(next)) if follows(first, next, longest) => {
            let (segment, next) = (&mut first.segment, &next.segment);
            segment.payload += next.payload;
            segment.header.ack = next.header.ack;
            segment.header.window = next.header.window;
            segment.header.flags = next.header.flags;
            segment.header.sack = next.header.sack;
            true
        }
        (Landed::Placed { socket, bytes }, Landed::Placed { socket: same, bytes: more })
            if socket == same && *bytes + more <= u64::from(longest) =>
        {
            *bytes += more;
            true
        }
        _ => false,
    }
}

/// Whether GRO puts `next` behind `first`.
fn follows(first: &FromWire, next: &FromWire, longest: u32) -> bool {
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

/// Packets of one poll. Basis: published (Linux, NAPI_POLL_WEIGHT).
const BUDGET: u64 = 64;
/// Bytes of which the adapter's engine tells the core at once. Basis: published (Linux, cxgb3/common.h: MAX_RX_COALESCING_LEN).
const COALESCED: u64 = 12_288;
/// How long it keeps fewer that no PSH follows. Basis: assumed.
const HELD_FOR: Span = Span::from_us(20);
/// Owner of connections that nobody accepted yet.
pub(super) const KERNEL: u32 = u32::MAX;
