//! A network interface of the kernel: the sockets of a node at one port of an adapter, and what system calls do with them.
//!
//! `transmit` has the way down to the adapter, `receive` the way up, `udp` the calls on sockets of UDP.

use std::collections::{BTreeMap, VecDeque};

use fabriscope_units::{Span, Time};
use fabriscope_wire::AppWords;

use super::datagram::{Datagram, DatagramSocket, DatagramSocketId};
use super::frame::{Carried, Frame};
use super::moderation::Moderation;
use super::queue::{FromWire, Queue};
use super::settings::Settings;
use super::socket::{Awaited, Socket, SocketError, SocketId, SocketOptions, SocketView, initial};
use super::switching::Switching;
use super::words::StreamWords;
use crate::config::Config;
use crate::connection::Connection;

/// What a program did, to be done when its clock says.
#[derive(Debug, Clone, Copy)]
pub(super) enum Action {
    Write(SocketId, u64),
    Read(SocketId, u64),
    Close(SocketId),
    SendTo(DatagramSocketId, u32, Datagram),
}

/// A network interface.
#[derive(Debug)]
pub struct Interface {
    address: u32,
    pub(super) settings: Settings,
    pub(super) sockets: Vec<Socket>,
    /// (our port, remote, remote port) → socket. Looked up only.
    pub(super) by_pair: BTreeMap<(u16, u32, u16), SocketId>,
    /// Sockets established and not yet accepted, by port.
    pub(super) listening: BTreeMap<u16, (SocketOptions, VecDeque<SocketId>)>,
    pub(super) datagram_sockets: Vec<DatagramSocket>,
    /// Sockets of UDP by their port.
    pub(super) bound: BTreeMap<u16, DatagramSocketId>,
    pub(super) queues: Vec<Queue>,
    pub(super) outgoing: VecDeque<Frame>,
    /// What stands between it and the adapter, and holds what goes down instead.
    pub(super) switching: Option<Box<Switching>>,
    /// Arrived and not in memory yet: from whom, what, whether it is marked.
    pub(super) incoming: VecDeque<(u32, Carried, bool)>,
    /// What the adapter's engine for TCP gets, and when.
    pub(super) engine: VecDeque<(Time, FromWire)>,
    pub(super) actions: BTreeMap<(Time, u64), Action>,
    order: u64,
    next_port: u16,
    /// Someone may be waiting for what changed at these times.
    pub(super) wakes: VecDeque<Time>,
    /// When it was last looked at: what was ready then waits for the adapter, not for a time.
    pub(super) seen: Time,
}

/// For programs: what system calls do. Times are those of the program's clock, which may run ahead.
impl Interface {
    /// An interface with an address.
    #[must_use]
    pub fn new(address: u32, settings: Settings) -> Interface {
        Interface {
            address,
            switching: Switching::new(&settings),
            settings,
            sockets: Vec::new(),
            by_pair: BTreeMap::new(),
            listening: BTreeMap::new(),
            datagram_sockets: Vec::new(),
            bound: BTreeMap::new(),
            queues: Vec::new(),
            outgoing: VecDeque::new(),
            incoming: VecDeque::new(),
            engine: VecDeque::new(),
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
        let ours = self.free_port();
        let (config, mss) = self.config(options);
        let connection = Connection::connect(config, initial(self.address, ours))?;
        let socket = self.open(connection, config, mss, (ours, remote, port), owner);
        self.act(now, Action::Write(socket, 0));
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
        socket.ended() && socket.readable() == 0
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
        let each = if self.settings.offload { self.settings.kernel.offload_send } else { self.settings.kernel.send_segment };
        let mut cost = each * segments + self.settings.payload(bytes);
        if !self.settings.kernel.segmentation_offload && !self.settings.offload {
            cost += self.settings.kernel.send_packet * bytes.div_ceil(u64::from(self.sockets[socket.0 as usize].mss));
        }
        self.sockets[socket.0 as usize].writing += bytes;
        self.act(now + cost, Action::Write(socket, bytes));
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
        self.act(now, Action::Read(socket, bytes));
    }
    /// `shutdown` of our direction.
    pub fn close(&mut self, now: Time, socket: SocketId) {
        self.act(now, Action::Close(socket));
    }
    /// The program of `socket` is busy until `now`; returns what interrupts took from its core since it last said so.
    pub fn busy_until(&mut self, socket: SocketId, now: Time) -> Span {
        self.queues[self.sockets[socket.0 as usize].queue].busy_until(now)
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

    pub(super) fn address(&self) -> u32 {
        self.address
    }
    /// A port of those that programs get that do not ask for one.
    pub(super) fn free_port(&mut self) -> u16 {
        let ours = self.next_port;
        self.next_port = self.next_port.wrapping_add(1).max(FIRST_PORT);
        ours
    }
    pub(super) fn config(&self, options: SocketOptions) -> (Config, u32) {
        let mss = options.mss.map_or(self.settings.mss(), |mss| mss.min(self.settings.mss()));
        let mut config = Config { mss, no_delay: options.no_delay, ..self.settings.tcp };
        if let Some(buffers) = options.buffers {
            (config.send_buffer, config.receive_buffer) = (buffers, buffers);
        }
        config.algorithm = options.algorithm.unwrap_or(config.algorithm);
        (config, mss)
    }
    pub(super) fn open(&mut self, connection: Connection, config: Config, mss: u32, pair: (u16, u32, u16), owner: u32) -> SocketId {
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
            untold: 0,
            held: 0,
            tell_at: Time::MAX,
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
    pub(super) fn queue(&mut self, owner: u32) -> usize {
        if let Some(known) = self.queues.iter().position(|queue| queue.owner == owner) {
            return known;
        }
        // A machine's ring tells of what is there at once; the host's queue has the moderation of the adapter.
        let held = self.switching.as_ref().is_none_or(|switching| !switching.is_host());
        let kernel = if held { self.settings.kernel } else { self.settings.kernel.unmoderated() };
        self.queues.push(Queue::of(owner, Moderation::new(kernel)));
        self.queues.len() - 1
    }
    pub(super) fn act(&mut self, at: Time, action: Action) {
        self.actions.insert((at, self.order), action);
        self.order += 1;
    }
}

/// Ports of programs that connect. Basis: published (Linux, ip_local_port_range).
const FIRST_PORT: u16 = 32_768;
