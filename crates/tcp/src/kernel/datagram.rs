//! Sockets of UDP: datagrams, cut into fragments of IP and put together again, without promise.
//!
//! Source: RFC 768 (UDP), RFC 791 §3.2 (fragments of multiples of 8 bytes), Linux `udp(7)` and `socket(7)` (buffers count what the kernel takes
//! besides, and what does not fit is dropped).
//! Modelled: room for what is not sent yet, which a sender waits for; fragments by the core; a datagram of which a fragment is missing is lost;
//! what finds the receive buffer full is dropped and counted; the core's time of each datagram and of each packet.
//! Not modelled: connected sockets, broadcast, groups, segmentation offload of UDP (UDP_SEGMENT), reassembly timeouts (a fragment that stays
//! alone is kept), errors of ICMP.

use std::collections::{BTreeMap, VecDeque};

use fabriscope_units::{Bytes, Span, Time};
use fabriscope_wire::AppWords;

use super::interface::{Action, Interface};
use super::socket::{Awaited, SocketError};

/// The number of a datagram socket of an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DatagramSocketId(pub u32);

/// A packet of UDP: a datagram, or a fragment of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Port it comes from.
    pub source: u16,
    /// Port it goes to.
    pub destination: u16,
    /// IP's identification: the same for all fragments of a datagram.
    pub identification: u32,
    /// Bytes of payload of the whole datagram.
    pub length: u32,
    /// How many of them, with the header of UDP, come before this packet.
    pub offset: u32,
    /// Bytes of payload in this packet.
    pub payload: u32,
    /// What the program says with it.
    pub words: Option<AppWords>,
}

impl Datagram {
    /// Bytes behind the header of IP.
    pub(super) const fn bytes(&self) -> u32 {
        self.payload + if self.offset == 0 { UDP } else { 0 }
    }
    /// Whether it ends its datagram.
    pub(super) const fn is_last(&self) -> bool {
        self.offset + self.bytes() >= self.length + UDP
    }
    /// The packet of the whole datagram that begins at `offset`, where packets of IP have `mtu` bytes.
    pub(super) fn fragment(&self, offset: u32, mtu: u32) -> Datagram {
        let left = self.length + UDP - offset;
        let most = mtu - IP;
        let here = if left <= most { left } else { most / EIGHT * EIGHT };
        Datagram { offset, payload: here - if offset == 0 { UDP } else { 0 }, ..*self }
    }
}

/// A datagram that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The interface it comes from.
    pub from: u32,
    /// The port there.
    pub port: u16,
    /// Its payload.
    pub bytes: u32,
    /// What its sender says with it.
    pub words: Option<AppWords>,
}

/// A socket of UDP.
#[derive(Debug)]
pub(super) struct DatagramSocket {
    pub port: u16,
    /// The queue of its program.
    pub queue: usize,
    send_buffer: u64,
    receive_buffer: u64,
    /// Given to the kernel and not yet taken by the adapter.
    unsent: u64,
    writable: Time,
    arrived: VecDeque<(Time, Message)>,
    /// Of the receive buffer.
    held: u64,
    dropped: u64,
    /// Bytes of datagrams of which fragments are missing, by sender and identification.
    partial: BTreeMap<(u32, u32), u32>,
    sent: u32,
}

impl DatagramSocket {
    /// The adapter has taken a packet; `true` if that makes the socket writable.
    pub fn taken(&mut self, now: Time, packet: &Datagram) -> bool {
        let was = self.has_room();
        self.unsent = self.unsent.saturating_sub(taken(packet.payload));
        let becomes = !was && self.has_room();
        if becomes {
            self.writable = now;
        }
        becomes
    }
    /// Linux wakes writers when half of the buffer is free.
    const fn has_room(&self) -> bool {
        2 * self.unsent <= self.send_buffer
    }
    /// A packet has gone up to the socket at `now`; `true` if there is something to read now, and was not before.
    pub fn arrive(&mut self, now: Time, from: u32, packet: &Datagram) -> bool {
        if packet.payload < packet.length {
            let got = self.partial.entry((from, packet.identification)).or_default();
            *got += packet.payload;
            if *got < packet.length {
                return false;
            }
            self.partial.remove(&(from, packet.identification));
        }
        if self.held + taken(packet.length) > self.receive_buffer {
            self.dropped += 1;
            return false;
        }
        self.held += taken(packet.length);
        let message = Message { from, port: packet.source, bytes: packet.length, words: packet.words };
        self.arrived.push_back((now, message));
        self.arrived.len() == 1
    }
}

/// For programs: what system calls on sockets of UDP do. Times are those of the program's clock, which may run ahead.
impl Interface {
    /// `socket` and `bind` by the program `owner`, to a port that is free if none is given; `buffers` as `SO_SNDBUF` and `SO_RCVBUF`.
    ///
    /// # Errors
    /// The port is in use.
    pub fn bind(&mut self, owner: u32, port: Option<u16>, buffers: Option<Bytes>) -> Result<DatagramSocketId, SocketError> {
        let port = match port {
            Some(port) if self.bound.contains_key(&port) => return Err(SocketError::PortInUse { port }),
            Some(port) => port,
            None => self.free_port(),
        };
        let id = DatagramSocketId(self.datagram_sockets.len() as u32);
        let buffer = buffers.map_or(self.settings().kernel.datagram_buffer, |asked| Bytes(2 * asked.0)).0;
        let queue = self.queue(owner);
        self.datagram_sockets.push(DatagramSocket {
            port,
            queue,
            send_buffer: buffer,
            receive_buffer: buffer,
            unsent: 0,
            writable: Time::ZERO,
            arrived: VecDeque::new(),
            held: 0,
            dropped: 0,
            partial: BTreeMap::new(),
            sent: 0,
        });
        self.bound.insert(port, id);
        Ok(id)
    }
    /// The port of a socket.
    #[must_use]
    pub fn port(&self, socket: DatagramSocketId) -> u16 {
        self.datagram_sockets[socket.0 as usize].port
    }
    /// `sendto` of `bytes` that were copied until `now`; returns the core time of sending them.
    ///
    /// # Errors
    /// More bytes than a datagram of IP holds.
    pub fn send_to(
        &mut self,
        now: Time,
        socket: DatagramSocketId,
        (remote, port): (u32, u16),
        bytes: u32,
        words: Option<AppWords>,
    ) -> Result<Span, SocketError> {
        if bytes > LONGEST_DATAGRAM {
            return Err(SocketError::LongDatagram { bytes, most: LONGEST_DATAGRAM });
        }
        let settings = &self.settings;
        let own = &mut self.datagram_sockets[socket.0 as usize];
        own.sent += 1;
        let whole = Datagram {
            source: own.port,
            destination: port,
            identification: u32::from(own.port) << 16 ^ own.sent,
            length: bytes,
            offset: 0,
            payload: bytes,
            words,
        };
        let (mut packets, mut held) = (0, 0);
        for packet in fragments(settings.mtu, &whole) {
            (packets, held) = (packets + 1, held + taken(packet.payload));
        }
        own.unsent += held;
        // Once for itself, once for each fragment beyond the first.
        let costs = &settings.kernel;
        let cost = costs.send_datagram + costs.send_packet * (packets - 1) + settings.payload(bytes.into());
        self.act(now + cost, Action::SendTo(socket, remote, whole));
        Ok(cost)
    }
    /// `recvfrom`: the oldest datagram that had arrived by `now`, if there is one.
    pub fn receive_from(&mut self, now: Time, socket: DatagramSocketId) -> Option<Message> {
        let socket = &mut self.datagram_sockets[socket.0 as usize];
        socket.arrived.front().filter(|(at, _)| *at <= now)?;
        let (_, message) = socket.arrived.pop_front()?;
        socket.held -= taken(message.bytes);
        Some(message)
    }
    /// Since when the condition holds, if it does.
    #[must_use]
    pub fn datagrams_ready_at(&self, socket: DatagramSocketId, awaited: Awaited) -> Option<Time> {
        let socket = self.datagram_sockets.get(socket.0 as usize)?;
        match awaited {
            Awaited::Connected => Some(Time::ZERO),
            Awaited::Readable => socket.arrived.front().map(|(at, _)| *at),
            Awaited::Writable => socket.has_room().then_some(socket.writable),
        }
    }
    /// The program of a socket is busy until `now`; returns what interrupts took from its core since it last said so.
    pub fn datagram_busy_until(&mut self, socket: DatagramSocketId, now: Time) -> Span {
        self.queues[self.datagram_sockets[socket.0 as usize].queue].busy_until(now)
    }
    /// Core time that interrupts for the program of a socket have taken so far, on whatever core.
    #[must_use]
    pub fn datagram_interrupt_time(&self, socket: DatagramSocketId) -> Span {
        self.queues[self.datagram_sockets[socket.0 as usize].queue].handled
    }
    /// Datagrams that found the receive buffer full.
    #[must_use]
    pub fn dropped(&self, socket: DatagramSocketId) -> u64 {
        self.datagram_sockets[socket.0 as usize].dropped
    }
}

/// The packets of a datagram.
fn fragments(mtu: u32, whole: &Datagram) -> impl Iterator<Item = Datagram> {
    let whole = *whole;
    let first = whole.fragment(0, mtu);
    std::iter::successors(Some(first), move |packet| (!packet.is_last()).then(|| whole.fragment(packet.offset + packet.bytes(), mtu)))
}

/// What a datagram, or a packet that waits for the adapter, takes of a buffer.
const fn taken(bytes: u32) -> u64 {
    bytes as u64 + BOOKKEEPING
}

/// Header. Basis: standard, RFC 768.
const UDP: u32 = 8;
/// IPv4 without options. Basis: standard, RFC 791.
const IP: u32 = 20;
/// Fragments begin at multiples of it. Basis: standard, RFC 791.
const EIGHT: u32 = 8;
/// The largest packet of IPv4 less both headers. Basis: standard, RFC 791.
const LONGEST_DATAGRAM: u32 = 65_507;
/// What buffers count for a packet beside its bytes: the kernel's record of it, and what its data are rounded up to. Basis: estimated (Linux on
/// x86-64: 232 B of `sk_buff`, 320 B of `skb_shared_info`, headers and room before them, in blocks of 2 KiB for packets of 1500 B).
const BOOKKEEPING: u64 = 768;
