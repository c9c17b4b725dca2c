//! Sockets between virtual hosts, on a management network of their own.
//!
//! Modelled: streams with a delay and a rate, in order, a window of what is not read, ends in both directions, listening with a backlog,
//! a SYN to a port on which nobody listens, which is repeated for a second as behind a firewall that drops it.
//! Not modelled: congestion of that network, segments, loss. Datagrams are in `datagrams`.

use std::collections::{BTreeMap, VecDeque};

use fabriscope_units::{Rate, Span, Time};

use crate::question::Outcome;

/// A stream's end.
pub(crate) type Id = usize;

/// What the management network costs. Basis: assumed, a datacentre's 10 Gbit/s Ethernet through the kernel.
#[derive(Debug, Clone, Copy)]
pub struct Management {
    /// From a send to where it can be read.
    pub latency: Span,
    /// How fast bytes follow.
    pub rate: Rate,
}

impl Default for Management {
    fn default() -> Management {
        Management { latency: Span::from_us(25), rate: Rate::from_gbps(10) }
    }
}

/// How long a connection waits for somebody to listen.
const PATIENCE: Span = Span::from_us(1_000_000);
/// Bytes on their way or not read, of one direction.
const WINDOW: usize = 256 * 1024;
/// Within a host. Basis: assumed.
pub(crate) const LOOPBACK: Span = Span::from_us(5);
pub(crate) const FIRST_EPHEMERAL: u16 = 32768;
/// The first byte of addresses that never leave a host.
pub(crate) const LOOPBACK_NET: u32 = 127;

/// An address: host and port.
pub(crate) type Address = (u32, u16);

#[derive(Debug, Default)]
struct Stream {
    host: u32,
    /// Of IP version 6, whose ports are others.
    six: bool,
    local: Address,
    remote: Address,
    peer: Option<Id>,
    state: State,
    arriving: VecDeque<(Time, VecDeque<u8>)>,
    held: usize,
    last: Time,
    /// When the peer's end can be seen.
    ends: Option<Time>,
    /// No more is sent.
    shut: bool,
    /// Nobody reads any more.
    gone: bool,
    /// When it is known that nobody does: something was sent, and the peer's kernel refused it.
    refused: Option<Time>,
    users: u32,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Fresh,
    Listening {
        backlog: VecDeque<(Time, Id)>,
        most: usize,
    },
    Connected,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    streams: Vec<Stream>,
    /// Who has a port: by host, version of IP and number.
    ports: BTreeMap<(u32, bool, u16), Id>,
    next_port: BTreeMap<u32, u16>,
    pub management: Management,
}

impl Sockets {
    /// A socket of a host.
    pub fn open(&mut self, host: u32, six: bool) -> Id {
        self.streams.push(Stream { host, six, users: 1, ..Stream::default() });
        self.streams.len() - 1
    }
    /// One more descriptor names it.
    pub fn share(&mut self, id: Id) {
        self.streams[id].users += 1;
    }
    /// A descriptor less; true when it was the last.
    pub fn close(&mut self, now: Time, id: Id) -> bool {
        self.streams[id].users -= 1;
        if self.streams[id].users > 0 {
            return false;
        }
        self.shut_down(now, id);
        let stream = &mut self.streams[id];
        stream.arriving.clear();
        let port = (stream.host, stream.six, stream.local.1);
        let state = std::mem::take(&mut stream.state);
        if self.ports.get(&port) == Some(&id) {
            self.ports.remove(&port);
        }
        if let State::Listening { backlog, .. } = state {
            for (_, waiting) in backlog {
                self.streams[waiting].users = 1;
                self.close(now, waiting);
            }
        }
        if let Some(peer) = self.streams[id].peer {
            self.streams[peer].gone = true;
        }
        true
    }
    /// Sends no more.
    pub fn shut_down(&mut self, now: Time, id: Id) {
        let Some(peer) = self.streams[id].peer else { return };
        if !std::mem::replace(&mut self.streams[id].shut, true) {
            let at = self.arrival(now, id, 0);
            self.streams[peer].ends = Some(at);
        }
    }
    pub fn peer(&self, id: Id) -> Option<Id> {
        self.streams[id].peer
    }
    pub fn name(&self, id: Id, of_peer: bool) -> Result<Address, i32> {
        match (of_peer, &self.streams[id].state) {
            (true, State::Connected) => Ok(self.streams[id].remote),
            (true, _) => Err(libc::ENOTCONN),
            (false, _) => Ok(self.streams[id].local),
        }
    }

    fn free_port(&mut self, host: u32) -> u16 {
        let next = self.next_port.entry(host).or_insert(FIRST_EPHEMERAL);
        let port = *next;
        *next = next.checked_add(1).unwrap_or(FIRST_EPHEMERAL);
        port
    }
    /// Binds to a port; 0 chooses one.
    pub fn bind(&mut self, id: Id, address: u32, port: u16) -> Result<(), i32> {
        let (host, six) = (self.streams[id].host, self.streams[id].six);
        let port = if port == 0 { self.free_port(host) } else { port };
        if self.ports.get(&(host, six, port)).is_some_and(|other| *other != id) {
            return Err(libc::EADDRINUSE);
        }
        self.ports.insert((host, six, port), id);
        self.streams[id].local = (address, port);
        Ok(())
    }
    /// Lets connections come.
    pub fn listen(&mut self, id: Id, most: usize) -> Result<(), i32> {
        if self.streams[id].local.1 == 0 {
            self.bind(id, 0, 0)?;
        }
        match self.streams[id].state {
            State::Connected => return Err(libc::EINVAL),
            State::Listening { .. } => return Ok(()),
            State::Fresh => {}
        }
        self.streams[id].state = State::Listening { backlog: VecDeque::new(), most: most.max(1) };
        Ok(())
    }
    /// Whether anybody listens on a port of a host.
    pub fn listens(&self, host: u32, port: u16) -> bool {
        self.listener(host, port).is_some()
    }
    fn listener(&self, host: u32, port: u16) -> Option<Id> {
        let of = |six| self.ports.get(&(host, six, port)).copied();
        [of(false), of(true)].into_iter().flatten().find(|id| matches!(self.streams[*id].state, State::Listening { .. }))
    }
    /// Connects to a port of a host, asked for at `begun`; gives who listens there.
    pub fn connect(&mut self, now: Time, begun: Time, id: Id, (host, address, port): (u32, u32, u16), own: u32) -> Outcome<Id> {
        if matches!(self.streams[id].state, State::Connected) {
            return Outcome::Failed(libc::EISCONN);
        }
        let Some(listener) = self.listener(host, port) else {
            // The own kernel refuses at once, and so does that of the host on whose loopback the launcher is.
            let near = host == self.streams[id].host || address >> 24 == LOOPBACK_NET;
            let until = if near { begun } else { begun + PATIENCE };
            return if now >= until { Outcome::Failed(libc::ECONNREFUSED) } else { Outcome::Wait(Some(until)) };
        };
        let way = self.way(self.streams[id].host, host);
        let from = self.streams[id].host;
        let State::Listening { backlog, most } = &mut self.streams[listener].state else { return Outcome::Failed(libc::ECONNREFUSED) };
        if backlog.len() > *most {
            return Outcome::Wait(None);
        }
        if self.streams[id].local.1 == 0 {
            self.streams[id].local = (own, self.free_port(from));
        }
        let local = (if self.streams[id].local.0 == 0 { own } else { self.streams[id].local.0 }, self.streams[id].local.1);
        let there = self.open(host, false);
        let arrives = now + way;
        let accepted = &mut self.streams[there];
        (accepted.peer, accepted.state, accepted.local, accepted.remote) = (Some(id), State::Connected, (address, port), local);
        (accepted.last, accepted.users) = (arrives, 0);
        let stream = &mut self.streams[id];
        (stream.peer, stream.state, stream.local, stream.remote) = (Some(there), State::Connected, local, (address, port));
        stream.last = arrives + way;
        if let State::Listening { backlog, .. } = &mut self.streams[listener].state {
            backlog.push_back((arrives, there));
        }
        Outcome::Done(listener)
    }
    /// When a connection that was asked for at `now` is known to stand: a round trip later.
    pub fn connected(&self, id: Id) -> Time {
        self.streams[id].last
    }
    /// Takes the next connection.
    pub fn accept(&mut self, now: Time, id: Id) -> Outcome<(Id, Address)> {
        let State::Listening { backlog, .. } = &mut self.streams[id].state else { return Outcome::Failed(libc::EINVAL) };
        match backlog.front() {
            None => Outcome::Wait(None),
            Some((arrives, _)) if *arrives > now => Outcome::Wait(Some(*arrives)),
            Some(_) => {
                let Some((_, there)) = backlog.pop_front() else { return Outcome::Wait(None) };
                self.streams[there].users = 1;
                Outcome::Done((there, self.streams[there].remote))
            }
        }
    }

    fn way(&self, from: u32, to: u32) -> Span {
        if from == to { LOOPBACK } else { self.management.latency }
    }
    /// When bytes that are sent now can be read.
    fn arrival(&mut self, now: Time, id: Id, bytes: usize) -> Time {
        let Some(peer) = self.streams[id].peer else { return now };
        let (from, to) = (self.streams[id].host, self.streams[peer].host);
        let at = now
            + self.way(from, to)
            + if from == to { Span::ZERO } else { self.management.rate.time(fabriscope_units::Bytes(bytes as u64)) };
        let last = &mut self.streams[peer].last;
        *last = (*last).max(at);
        *last
    }
    /// Sends what there is room for; gives how much that was.
    pub fn send(&mut self, now: Time, id: Id, bytes: &[u8]) -> Outcome<usize> {
        let stream = &self.streams[id];
        let Some(peer) = stream.peer else { return Outcome::Failed(libc::ENOTCONN) };
        if stream.shut || stream.refused.is_some_and(|at| at <= now) {
            return Outcome::Failed(libc::EPIPE);
        }
        if stream.gone {
            let back = self.way(self.streams[id].host, self.streams[peer].host) * 2;
            self.streams[id].refused.get_or_insert(now + back);
            return Outcome::Done(bytes.len());
        }
        let room = WINDOW.saturating_sub(self.streams[peer].held);
        if room == 0 {
            return Outcome::Wait(None);
        }
        let part = room.min(bytes.len());
        let at = self.arrival(now, id, part);
        let to = &mut self.streams[peer];
        to.held += part;
        to.arriving.push_back((at, bytes[..part].iter().copied().collect()));
        Outcome::Done(part)
    }
    /// Reads at most so much; nothing at the end of the stream.
    pub fn receive(&mut self, now: Time, id: Id, most: usize, peek: bool) -> Outcome<Vec<u8>> {
        let stream = &mut self.streams[id];
        if stream.peer.is_none() {
            return Outcome::Failed(libc::ENOTCONN);
        }
        let mut read = Vec::new();
        if peek {
            for (_, bytes) in stream.arriving.iter().take_while(|(at, _)| *at <= now) {
                read.extend(bytes.iter().take(most - read.len()));
            }
        } else {
            while read.len() < most
                && let Some((at, bytes)) = stream.arriving.front_mut()
                && *at <= now
            {
                let part = bytes.len().min(most - read.len());
                read.extend(bytes.drain(..part));
                if bytes.is_empty() {
                    stream.arriving.pop_front();
                }
            }
            stream.held -= read.len();
        }
        if !read.is_empty() {
            return Outcome::Done(read);
        }
        match self.readable_at(id) {
            Some(at) if at > now => Outcome::Wait(Some(at)),
            Some(_) => Outcome::Done(Vec::new()),
            None => Outcome::Wait(None),
        }
    }
    /// When there is, or will be, something to read, to accept, or the end.
    pub fn readable_at(&self, id: Id) -> Option<Time> {
        let stream = &self.streams[id];
        match &stream.state {
            State::Listening { backlog, .. } => backlog.front().map(|(at, _)| *at),
            _ => stream.arriving.front().map(|(at, _)| *at).or(stream.ends),
        }
    }
    /// What `poll` says at `now`.
    pub fn ready(&self, now: Time, id: Id, events: i16) -> i16 {
        let stream = &self.streams[id];
        let mut found = 0;
        if self.readable_at(id).is_some_and(|at| at <= now) {
            found |= libc::POLLIN;
        }
        let room = stream.peer.is_some_and(|peer| self.streams[peer].held < WINDOW);
        if matches!(stream.state, State::Connected) && (room || stream.gone || stream.shut) {
            found |= libc::POLLOUT;
        }
        let ended = stream.ends.is_some_and(|at| at <= now);
        let always = if matches!(stream.state, State::Fresh) || ended && stream.shut { libc::POLLHUP } else { 0 };
        found & events | if ended { libc::POLLRDHUP & events } else { 0 } | always
    }
}
