//! Datagrams between virtual hosts, on the management network: sockets of UDP.
//!
//! Modelled: one after the other in order, with the delay and the rate of that network; ports of a host; the receive buffer of Linux, beyond
//! which datagrams are lost; a port that nobody has, of which a connected sender within the own host is told.
//! Not modelled: loss on the way, fragments, broadcast and multicast, ICMP from other hosts.

use std::collections::{BTreeMap, VecDeque};

use fabriscope_units::{Bytes, Time};

use crate::question::Outcome;
use crate::sockets::{Address, FIRST_EPHEMERAL, LOOPBACK, Management};

/// A socket.
pub(crate) type Id = usize;

/// Bytes that wait to be read at the most (`net.core.rmem_default`).
const BUFFER: usize = 212_992;
/// What is sent at once at the most: 64 KiB less the headers of IP and UDP.
const MOST: usize = 65_507;

/// What came, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub from: Address,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct Socket {
    host: u32,
    /// Of IP version 6, whose ports are others.
    six: bool,
    local: Address,
    /// Where it sends to, and from where alone it receives.
    remote: Option<Address>,
    arriving: VecDeque<(Time, Datagram)>,
    held: usize,
    /// When what was sent last is on the wire.
    sent: Time,
    refused: bool,
    users: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    sockets: Vec<Socket>,
    /// Who has a port: by host, version of IP and number.
    ports: BTreeMap<(u32, bool, u16), Id>,
    next_port: BTreeMap<u32, u16>,
}

impl Datagrams {
    /// A socket of a host.
    pub fn open(&mut self, host: u32, six: bool) -> Id {
        self.sockets.push(Socket { host, six, users: 1, ..Socket::default() });
        self.sockets.len() - 1
    }
    /// One more descriptor names it.
    pub fn share(&mut self, id: Id) {
        self.sockets[id].users += 1;
    }
    /// A descriptor less.
    pub fn close(&mut self, id: Id) {
        let socket = &mut self.sockets[id];
        socket.users -= 1;
        if socket.users == 0 {
            socket.arriving.clear();
            let port = (socket.host, socket.six, socket.local.1);
            if self.ports.get(&port) == Some(&id) {
                self.ports.remove(&port);
            }
        }
    }

    /// Binds to a port; 0 chooses one.
    pub fn bind(&mut self, id: Id, address: u32, port: u16) -> Result<(), i32> {
        let (host, six) = (self.sockets[id].host, self.sockets[id].six);
        let port = if port == 0 { self.free_port(host, six) } else { port };
        if self.ports.get(&(host, six, port)).is_some_and(|other| *other != id) {
            return Err(libc::EADDRINUSE);
        }
        self.ports.insert((host, six, port), id);
        self.sockets[id].local = (address, port);
        Ok(())
    }
    fn free_port(&mut self, host: u32, six: bool) -> u16 {
        let next = self.next_port.entry(host).or_insert(FIRST_EPHEMERAL);
        loop {
            let port = *next;
            *next = next.checked_add(1).unwrap_or(FIRST_EPHEMERAL);
            if !self.ports.contains_key(&(host, six, port)) {
                return port;
            }
        }
    }
    /// Sends to `to` from now on, as `own`; nothing undoes it.
    pub fn connect(&mut self, id: Id, to: Option<Address>, own: u32) -> Result<(), i32> {
        self.name_it(id, own)?;
        self.sockets[id].remote = to;
        Ok(())
    }
    /// A socket that is used has a port, and one that leaves the host an address.
    fn name_it(&mut self, id: Id, own: u32) -> Result<(), i32> {
        let (address, port) = self.sockets[id].local;
        match (address, port) {
            (_, 0) => self.bind(id, own, 0),
            (0, port) => {
                self.sockets[id].local = (own, port);
                Ok(())
            }
            _ => Ok(()),
        }
    }
    pub fn name(&self, id: Id, of_peer: bool) -> Result<Address, i32> {
        if of_peer { self.sockets[id].remote.ok_or(libc::ENOTCONN) } else { Ok(self.sockets[id].local) }
    }
    /// Where it sends to if nothing else is said.
    pub fn remote(&self, id: Id) -> Option<Address> {
        self.sockets[id].remote
    }

    /// Sends to an address, which is one of `host`; gives the socket there, if there is one that takes it.
    pub fn send(
        &mut self,
        (now, network): (Time, Management),
        id: Id,
        (host, to, own): (u32, Address, u32),
        bytes: &[u8],
    ) -> Result<Option<Id>, i32> {
        if bytes.len() > MOST {
            return Err(libc::EMSGSIZE);
        }
        if std::mem::take(&mut self.sockets[id].refused) {
            return Err(libc::ECONNREFUSED);
        }
        let bound = self.sockets[id].local.0;
        if self.sockets[id].local.1 == 0 {
            self.bind(id, bound, 0)?;
        }
        let from = (if bound == 0 { own } else { bound }, self.sockets[id].local.1);
        let near = self.sockets[id].host == host;
        let on_wire = if near { now } else { now.max(self.sockets[id].sent) + network.rate.time(Bytes(bytes.len() as u64)) };
        self.sockets[id].sent = on_wire;
        let at = on_wire + if near { LOOPBACK } else { network.latency };
        let there = [false, true].into_iter().find_map(|six| self.ports.get(&(host, six, to.1)).copied());
        let Some(there) = there else {
            self.sockets[id].refused = near && self.sockets[id].remote.is_some();
            return Ok(None);
        };
        let socket = &mut self.sockets[there];
        let expected = socket.remote.is_none_or(|remote| remote == from);
        if !expected || socket.held + bytes.len() > BUFFER {
            return Ok(None);
        }
        socket.held += bytes.len();
        let place = socket.arriving.partition_point(|(other, _)| *other <= at);
        socket.arriving.insert(place, (at, Datagram { from, bytes: bytes.to_vec() }));
        Ok(Some(there))
    }

    /// The next datagram; it stays where one only looks at it.
    pub fn receive(&mut self, now: Time, id: Id, peek: bool) -> Outcome<Datagram> {
        let socket = &mut self.sockets[id];
        if std::mem::take(&mut socket.refused) {
            return Outcome::Failed(libc::ECONNREFUSED);
        }
        match socket.arriving.front() {
            None => Outcome::Wait(None),
            Some((at, _)) if *at > now => Outcome::Wait(Some(*at)),
            Some((_, datagram)) if peek => Outcome::Done(datagram.clone()),
            Some(_) => match socket.arriving.pop_front() {
                Some((_, datagram)) => {
                    socket.held -= datagram.bytes.len();
                    Outcome::Done(datagram)
                }
                None => Outcome::Wait(None),
            },
        }
    }
    /// When there is, or will be, something to read.
    pub fn readable_at(&self, id: Id) -> Option<Time> {
        let socket = &self.sockets[id];
        if socket.refused { Some(Time::ZERO) } else { socket.arriving.front().map(|(at, _)| *at) }
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Span;

    use super::*;

    const NEAR: Time = Time::from_ps(5_000_000);
    const FAR: Time = Time::from_ps(25_000_000);

    fn network() -> Management {
        Management { latency: Span::from_us(25), ..Management::default() }
    }

    #[test]
    fn datagrams_come_whole_and_in_order() {
        let mut all = Datagrams::default();
        let (server, client) = (all.open(0, false), all.open(1, false));
        all.bind(server, 0, 7000).unwrap();
        assert_eq!(all.bind(client, 0, 7000), Ok(()));
        let other = all.open(0, false);
        assert_eq!(all.bind(other, 0, 7000), Err(libc::EADDRINUSE));
        let to = (0, (10, 7000), 20);
        for bytes in [&b"first"[..], b""] {
            assert_eq!(all.send((Time::ZERO, network()), client, to, bytes), Ok(Some(server)));
        }
        // 5 bytes at 10 Gbit/s take 4 ns.
        let at = FAR + Span::from_ns(4);
        assert!(matches!(all.receive(Time::ZERO, server, false), Outcome::Wait(Some(when)) if when == at));
        let first = Datagram { from: (20, 7000), bytes: b"first".to_vec() };
        for peek in [true, false] {
            assert!(matches!(all.receive(at, server, peek), Outcome::Done(datagram) if datagram == first));
        }
        assert!(matches!(all.receive(at, server, false), Outcome::Done(datagram) if datagram.bytes.is_empty()));
        assert!(matches!(all.receive(at, server, false), Outcome::Wait(None)));
        assert_eq!(all.send((Time::ZERO, network()), client, to, &[0; 65_508]), Err(libc::EMSGSIZE));
    }

    #[test]
    fn what_finds_no_room_or_nobody_is_lost() {
        let mut all = Datagrams::default();
        let (server, client) = (all.open(0, false), all.open(0, false));
        all.bind(server, 0, 7000).unwrap();
        let sent = |all: &mut Datagrams, port| all.send((Time::ZERO, network()), client, (0, (127, port), 127), &[0; 60_000]);
        let taken: Vec<_> = (0..5).map(|_| sent(&mut all, 7000)).collect();
        assert_eq!(taken, [Ok(Some(server)), Ok(Some(server)), Ok(Some(server)), Ok(None), Ok(None)]);
        assert_eq!(all.readable_at(server), Some(NEAR));
        // Only who is connected hears that nobody is there.
        assert_eq!([sent(&mut all, 7001), sent(&mut all, 7001)], [Ok(None), Ok(None)]);
        all.connect(client, Some((127, 7001)), 127).unwrap();
        assert_eq!([sent(&mut all, 7001), sent(&mut all, 7001)], [Ok(None), Err(libc::ECONNREFUSED)]);
        // Who is connected hears nobody else.
        all.connect(server, Some((127, 9)), 127).unwrap();
        assert!(matches!(all.receive(NEAR, server, false), Outcome::Done(_)));
        assert_eq!(sent(&mut all, 7000), Ok(None));
    }
}
