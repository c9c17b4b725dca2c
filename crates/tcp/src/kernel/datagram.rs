//! Sockets of UDP: datagrams, cut into fragments of IP and put together again, without promise.
//!
//! Source: RFC 768 (UDP), RFC 791 §3.2 (fragments of multiples of 8 bytes), Linux `udp(7)` and `socket(7)` (buffers count what the kernel takes
//! besides, and what does not fit is dropped).
//! Modelled: room for what is not sent yet, which a sender waits for; fragments by the core; a datagram of which a fragment is missing is lost;
//! what finds the receive buffer full is dropped and counted; the core's time of each datagram and of each packet.
//! Not modelled: connected sockets, broadcast, groups, segmentation offload of UDP (UDP_SEGMENT), reassembly timeouts (a fragment that stays
//! alone is kept), errors of ICMP.

use std::collections::{BTreeMap, VecDeque};

use fabriscope_units::Time;
use fabriscope_wire::AppWords;

use super::settings::IP;
use super::socket::Awaited;

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
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        self.payload + if self.offset == 0 { UDP } else { 0 }
    }
    /// Whether it ends its datagram.
    #[must_use]
    pub const fn is_last(&self) -> bool {
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
    pub send_buffer: u64,
    receive_buffer: u64,
    /// Given to the kernel and not yet taken by the adapter.
    unsent: u64,
    writable: Time,
    arrived: VecDeque<(Time, Message)>,
    /// Of the receive buffer.
    held: u64,
    /// Found it full.
    pub dropped: u64,
    /// Bytes of datagrams of which fragments are missing, by sender and identification.
    partial: BTreeMap<(u32, u32), u32>,
    sent: u32,
}

impl DatagramSocket {
    /// A socket at a port, with so much room in each direction.
    pub fn new(port: u16, queue: usize, buffer: u64) -> DatagramSocket {
        DatagramSocket {
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
        }
    }
    /// The program sends `bytes`: the datagram, and its packets where those of IP have `mtu` bytes.
    pub fn give(&mut self, mtu: u32, destination: u16, bytes: u32, words: Option<AppWords>) -> (Datagram, u64) {
        self.sent += 1;
        let whole = Datagram {
            source: self.port,
            destination,
            identification: u32::from(self.port) << 16 ^ self.sent,
            length: bytes,
            offset: 0,
            payload: bytes,
            words,
        };
        let mut packets = 0;
        for packet in fragments(mtu, &whole) {
            packets += 1;
            self.unsent += taken(packet.payload);
        }
        (whole, packets)
    }
    /// The oldest datagram that had arrived by `now`, if there is one.
    pub fn take(&mut self, now: Time) -> Option<Message> {
        self.arrived.front().filter(|(at, _)| *at <= now)?;
        let (_, message) = self.arrived.pop_front()?;
        self.held -= taken(message.bytes);
        Some(message)
    }
    /// Since when the condition holds, if it does.
    pub fn ready_at(&self, awaited: Awaited) -> Option<Time> {
        match awaited {
            Awaited::Connected => Some(Time::ZERO),
            Awaited::Readable => self.arrived.front().map(|(at, _)| *at),
            Awaited::Writable => self.has_room().then_some(self.writable),
        }
    }
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
/// Fragments begin at multiples of it. Basis: standard, RFC 791.
const EIGHT: u32 = 8;
/// What buffers count for a packet beside its bytes: the kernel's record of it, and what its data are rounded up to. Basis: estimated (Linux on
/// x86-64: 232 B of `sk_buff`, 320 B of `skb_shared_info`, headers and room before them, in blocks of 2 KiB for packets of 1500 B).
const BOOKKEEPING: u64 = 768;
