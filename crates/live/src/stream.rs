//! Answers about sockets, waiting for descriptors, and names of hosts.

use fabriscope_node::ProgramError;
use fabriscope_units::{Span, Time};
use fabriscope_verbs::CqId;

use crate::address;
use crate::cm::agent::transmit;
use crate::datagrams::{self, Datagram};
use crate::question::{Answer, Op, Outcome, Question};
use crate::sockets::{Id, LOOPBACK_NET};
use crate::thread::{Parked, Thread, nanoseconds};
use crate::world::{Descriptor, Doing, Key, Watched};

/// A call of the kernel that moves bytes or makes a socket. Basis: assumed, as for the sockets of the model.
const SYSCALL: Span = Span::from_ns(500);

/// Whether something can be read that is there from `at` on; until then it is the `next` to wait for.
fn ready_at(now: Time, at: Option<Time>, next: &mut Time) -> i16 {
    match at {
        Some(at) if at > now => {
            *next = (*next).min(at);
            0
        }
        Some(_) => libc::POLLIN,
        None => 0,
    }
}

/// The address that a host has for those at `address`.
fn own_address(node: u32, address: u32) -> u32 {
    if address >> 24 == LOOPBACK_NET || address == 0 { address } else { address::management(node) }
}

impl Thread {
    pub(crate) async fn stream(&mut self, op: Op, question: &Question) -> Result<Answer, ProgramError> {
        let args = question.args;
        let fd = args[0] as i32;
        self.process.catch_up().await;
        self.process.compute(SYSCALL);
        let now = self.process.now();
        let node = self.own_program(|program| program.node);
        match op {
            Op::Socket => {
                let mut world = self.shared.world();
                let id = world.sockets.open(node, args[1] as i32 == libc::AF_INET6);
                world.programs[self.program as usize].descriptors.insert(fd, Descriptor::Stream(id));
                return Ok(Answer::number(0));
            }
            Op::DatagramSocket => {
                let mut world = self.shared.world();
                let id = world.datagrams.open(node, args[1] as i32 == libc::AF_INET6);
                world.programs[self.program as usize].descriptors.insert(fd, Descriptor::Datagrams(id));
                return Ok(Answer::number(0));
            }
            Op::Resolve => return Ok(self.resolve(node, &question.data)),
            Op::Poll => return self.poll(args[0], i32::try_from(args[1]).ok().filter(|set| *set >= 0), &question.data).await,
            Op::PollSet => {
                self.own_program(|program| *program.poll_sets.entry(fd).or_default() += 1);
                self.shared.world().tell(&self.process, Key::PollSet { process: self.program, fd }, now);
                return Ok(Answer::number(0));
            }
            Op::Close => {
                if let Some(descriptor) = self.own_program(|program| program.descriptors.remove(&fd)) {
                    self.shared.world().close(&self.process, descriptor);
                    transmit(&self.shared, &self.process, node);
                }
                return Ok(Answer::number(0));
            }
            Op::Dup => {
                let mut world = self.shared.world();
                let program = &mut world.programs[self.program as usize];
                let Some(descriptor) = program.descriptors.get(&fd).copied() else { return Ok(Answer::error(libc::EBADF)) };
                program.descriptors.insert(args[1] as i32, descriptor);
                world.share(descriptor);
                return Ok(Answer::number(0));
            }
            _ => {}
        }
        let id = match self.descriptor(fd) {
            Some(Descriptor::Stream(id)) => id,
            Some(Descriptor::Datagrams(id)) => return Ok(self.datagram(op, (node, id), question).await.unwrap_or_else(Answer::error)),
            _ => return Ok(Answer::error(libc::EBADF)),
        };
        match op {
            Op::Bind => Ok(self.shared.world().sockets.bind(id, args[1] as u32, args[2] as u16).map(|()| 0).into()),
            Op::Listen => {
                let mut world = self.shared.world();
                let done = world.sockets.listen(id, usize::try_from(args[1]).unwrap_or(0));
                world.tell(&self.process, Key::Listeners, now);
                Ok(done.map(|()| 0).into())
            }
            Op::Connect => Ok(self.connect(id, node, (args[1] as u32, args[2] as u16)).await.into()),
            Op::Accept => Ok(self.accept(id, args[1] as i32, args[2] != 0).await.unwrap_or_else(Answer::error)),
            Op::Send => Ok(self.send(id, &question.data, args[1] != 0).await.into()),
            Op::Recv => {
                let received = self.receive(id, usize::try_from(args[1]).unwrap_or(0), (args[2] != 0, args[3] != 0)).await;
                Ok(received.unwrap_or_else(Answer::error))
            }
            Op::Shutdown => {
                let mut world = self.shared.world();
                if args[1] as i32 != libc::SHUT_RD {
                    world.sockets.shut_down(now, id);
                    world.tell_peer(&self.process, id);
                }
                Ok(Answer::number(0))
            }
            Op::Name => {
                let name = self.shared.world().sockets.name(id, args[1] != 0);
                Ok(match name {
                    Ok((address, port)) => Answer { args: vec![address.into(), port.into()], ..Answer::number(0) },
                    Err(errno) => Answer::error(errno),
                })
            }
            // A connection stands, or was refused, when `connect` returns: nothing is pending.
            Op::SocketError => Ok(Answer::number(0)),
            _ => Ok(Answer::error(libc::ENOSYS)),
        }
    }

    /// What is asked of a socket of datagrams.
    async fn datagram(&self, op: Op, (node, id): (u32, datagrams::Id), question: &Question) -> Result<Answer, i32> {
        let args = question.args;
        let now = self.process.now();
        match op {
            Op::Bind => self.shared.world().datagrams.bind(id, args[1] as u32, args[2] as u16).map(|()| Answer::number(0)),
            Op::Connect => {
                let to = (args[1] as u32, args[2] as u16);
                // Port 0 ends the association.
                let to = Some(to).filter(|(_, port)| *port != 0);
                let own = to.map_or(0, |(address, _)| own_address(node, address));
                self.shared.world().datagrams.connect(id, to, own).map(|()| Answer::number(0))
            }
            Op::Name => {
                let (address, port) = self.shared.world().datagrams.name(id, args[1] != 0)?;
                Ok(Answer { args: vec![address.into(), port.into()], ..Answer::number(0) })
            }
            Op::Send => {
                let mut world = self.shared.world();
                let named = (args[2] != 0).then_some((args[3] as u32, args[4] as u16));
                let to = named.or(world.datagrams.remote(id)).ok_or(libc::EDESTADDRREQ)?;
                let local = to.0 >> 24 == LOOPBACK_NET || to.0 == 0;
                let host = if local { Some(node) } else { world.host_at(to.0) }.ok_or(libc::ENETUNREACH)?;
                let network = world.sockets.management;
                let reached = world.datagrams.send((now, network), id, (host, to, own_address(node, to.0)), &question.data)?;
                if let Some(there) = reached {
                    world.tell(&self.process, Key::Datagram(there), now);
                }
                Ok(Answer::number(question.data.len() as i64))
            }
            Op::Recv => {
                let wait = (&[Key::Datagram(id)][..], Doing::WaitsFor("a datagram"), args[2] != 0);
                let peek = args[3] != 0;
                let Datagram { from, bytes } = self.until_done(wait, |world, now| world.datagrams.receive(now, id, peek)).await?;
                let length = bytes.len() as i64;
                Ok(Answer { args: vec![from.0.into(), from.1.into()], data: bytes, ..Answer::number(length) })
            }
            Op::Shutdown | Op::SocketError => Ok(Answer::number(0)),
            _ => Err(libc::EOPNOTSUPP),
        }
    }

    async fn connect(&self, id: Id, node: u32, (address, port): (u32, u16)) -> Result<i64, i32> {
        let begun = self.process.now();
        let home = self.own_program(|program| program.home);
        let loopback = address >> 24 == LOOPBACK_NET || address == 0;
        let here = if self.shared.world().sockets.listens(node, port) { node } else { home };
        let to = if loopback { Some(here) } else { self.shared.world().host_at(address) };
        let to = to.ok_or(libc::ENETUNREACH)?;
        let own = own_address(node, address);
        let wait = (&[Key::Listeners][..], Doing::WaitsForListener { port, host: to }, true);
        let listener = self.until_done(wait, |world, now| world.sockets.connect(now, begun, id, (to, address, port), own)).await?;
        let stands = {
            let mut world = self.shared.world();
            world.tell(&self.process, Key::Stream(listener), self.process.now());
            world.sockets.connected(id)
        };
        self.until_done((&[], Doing::Connects, true), |_, now| if now < stands { Outcome::Wait(Some(stands)) } else { Outcome::Done(0) })
            .await
    }

    async fn accept(&self, id: Id, fd: i32, waits: bool) -> Result<Answer, i32> {
        let wait = (&[Key::Stream(id)][..], Doing::WaitsFor("a connection"), waits);
        let (there, (address, port)) = self.until_done(wait, |world, now| world.sockets.accept(now, id)).await?;
        self.own_program(|program| program.descriptors.insert(fd, Descriptor::Stream(there)));
        Ok(Answer { args: vec![address.into(), port.into()], ..Answer::number(0) })
    }

    async fn send(&self, id: Id, bytes: &[u8], waits: bool) -> Result<i64, i32> {
        let wait = (&[Key::Stream(id)][..], Doing::WaitsFor("room in a socket"), waits);
        let sent = self.until_done(wait, |world, now| world.sockets.send(now, id, bytes)).await?;
        self.shared.world().tell_peer(&self.process, id);
        Ok(sent as i64)
    }

    async fn receive(&self, id: Id, most: usize, (waits, peek): (bool, bool)) -> Result<Answer, i32> {
        let wait = (&[Key::Stream(id)][..], Doing::WaitsFor("bytes from a socket"), waits);
        let data = self.until_done(wait, |world, now| world.sockets.receive(now, id, most, peek)).await?;
        let mut world = self.shared.world();
        if let Some(peer) = world.sockets.peer(id).filter(|_| !peek) {
            // It has room now, whatever there is to read.
            world.tell(&self.process, Key::Stream(peer), self.process.now());
        }
        Ok(Answer { result: data.len() as i64, data, ..Answer::default() })
    }

    /// `poll` of descriptors with events, for `ns` or for ever.
    async fn poll(&mut self, ns: i64, set: Option<i32>, data: &[u8]) -> Result<Answer, ProgramError> {
        let number = |bytes: &[u8]| i32::from_ne_bytes(bytes.try_into().expect("four bytes"));
        let asked: Vec<(i32, i16)> = data.chunks_exact(8).map(|pair| (number(&pair[..4]), number(&pair[4..]) as i16)).collect();
        let until = if ns < 0 { Time::MAX } else { self.process.now().saturating_add(nanoseconds(ns)) };
        let changes = || self.own_program(|program| set.and_then(|set| program.poll_sets.get(&set).copied()));
        let before = changes();
        loop {
            let now = self.process.now();
            let changed = changes() != before;
            let (mut keys, mut cqs, mut found, mut next) = (Vec::new(), Vec::new(), Vec::new(), until);
            for (fd, events) in &asked {
                found.push(self.ready(*fd, *events, (&mut keys, &mut cqs, &mut next)));
            }
            if found.iter().any(|events| *events != 0) || changed || now >= until {
                let data = found.iter().flat_map(|events| i32::from(*events as u16 as i16).to_ne_bytes()).collect();
                return Ok(Answer { data, ..Answer::number(changed.into()) });
            }
            keys.extend(set.map(|fd| Key::PollSet { process: self.program, fd }));
            self.doing(Doing::WaitsForDescriptors(asked.len()));
            let Parked::Awake = self.wait_for(&keys, &cqs, next).await else { return Ok(Answer::error(libc::EINTR)) };
        }
    }

    /// What is ready of a descriptor, and what to wait for otherwise.
    fn ready(&self, fd: i32, events: i16, (keys, cqs, next): (&mut Vec<Key>, &mut Vec<(usize, CqId)>, &mut Time)) -> i16 {
        let now = self.process.now();
        let world = self.shared.world();
        let program = &world.programs[self.program as usize];
        match program.descriptors.get(&fd) {
            None => libc::POLLNVAL,
            Some(Descriptor::Stream(id)) => {
                let ready = world.sockets.ready(now, *id, events);
                keys.push(Key::Stream(*id));
                let reads = events & (libc::POLLIN | libc::POLLRDHUP) != 0;
                if let Some(at) = world.sockets.readable_at(*id).filter(|at| reads && *at > now) {
                    *next = (*next).min(at);
                }
                ready
            }
            Some(Descriptor::Datagrams(id)) => {
                keys.push(Key::Datagram(*id));
                let readable = world.datagrams.readable_at(*id).filter(|_| events & libc::POLLIN != 0);
                ready_at(now, readable, next) | events & libc::POLLOUT
            }
            // Whoever does not ask for it does not wait for it.
            Some(Descriptor::Channel(_) | Descriptor::Device(_) | Descriptor::Connections(_) | Descriptor::Management(_))
                if events & libc::POLLIN == 0 =>
            {
                0
            }
            Some(Descriptor::Channel(channel)) => {
                let queues = program.channels.get(channel).map_or(&[][..], |channel| &channel.queues);
                let raised = queues.iter().map(|(nic, cq, _)| (*nic, cq.events()));
                let there = raised.clone().any(|queue| self.is_ready(queue));
                cqs.extend(raised);
                if there { libc::POLLIN } else { 0 }
            }
            Some(Descriptor::Connections(channel)) => {
                keys.push(Key::Connections(*channel));
                ready_at(now, world.connections.readable_at(*channel), next)
            }
            Some(Descriptor::Management(open)) => {
                keys.push(Key::Management(*open));
                ready_at(now, world.management.as_ref().and_then(|of| of.readable_at(*open)), next)
            }
            Some(Descriptor::Device(nic)) => {
                keys.push(Key::Device { node: program.node, nic: *nic });
                if program.events.iter().any(|(of, _)| of == nic) { libc::POLLIN } else { 0 }
            }
        }
    }

    /// The address of a host by its name; the name of the own host for an empty one.
    fn resolve(&self, node: u32, data: &[u8]) -> Answer {
        let name = String::from_utf8_lossy(data.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
        let world = self.shared.world();
        if name.is_empty() {
            let mut own = world.hosts[node as usize].name.clone().into_bytes();
            own.push(0);
            return Answer { data: own, ..Answer::number(address::management(node).into()) };
        }
        match world.hosts.iter().position(|host| host.name == name) {
            Some(found) => Answer::number(address::management(found as u32).into()),
            None => Answer::number(0),
        }
    }

    /// The thread looks at a byte of memory that a peer may write; `waits`: once more, so that it spins.
    pub(crate) async fn look(&mut self, addr: u64, waits: bool) -> Result<Answer, ProgramError> {
        let here = |region: &Watched| region.from <= addr && addr < region.to;
        let regions: Vec<Watched> = self.own_program(|program| program.watched.iter().copied().filter(here).collect());
        let watches: Vec<_> = regions.iter().map(|region| (region.nic, region.watch, region.seen + 1)).collect();
        // What has landed but cannot be seen yet is in memory already: the program sees it when a core would.
        let on_its_way = self.process.earliest(&[], &watches).is_some();
        if waits && !on_its_way {
            self.idle += 1;
            self.check_patience()?;
            let until = self.process.now() + self.pause();
            self.doing(Doing::Spins);
            self.park(&[], &[], &watches, until).await;
        } else if on_its_way {
            self.idle = 0;
            self.park(&[], &[], &watches, Time::MAX).await;
        }
        let now = self.process.now();
        for Watched { nic, watch, seen: before, .. } in regions {
            let seen = self.process.nic(nic, |n| n.watch_count(watch, now));
            if seen > before {
                let mut world = self.shared.world();
                world.progress = world.progress.max(now);
                let known = world.programs[self.program as usize].watched.iter_mut();
                known.filter(|region| (region.nic, region.watch) == (nic, watch)).for_each(|region| region.seen = region.seen.max(seen));
            }
        }
        Ok(Answer::number(0))
    }

    /// How long a thread that polls for nothing is left alone: longer with every time.
    pub(crate) fn pause(&self) -> Span {
        Span::from_us(16 << self.idle.min(6))
    }
}
