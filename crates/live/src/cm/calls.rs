//! What librdmacm asks of the kernel: the commands on a channel of events.

use fabriscope_node::ProgramError;
use fabriscope_units::{Span, Time};
use fabriscope_verbs::JoinState;

use super::abi::{AddressVector, Call, Command, Param, Path, QpAttributes, Terms, event, route};
use super::{ChannelId, DATAGRAM_QKEY, Identifier, State, kind};
use crate::address;
use crate::device::Device;
use crate::question::{Answer, Op, Outcome, Question, mask};
use crate::sockets::LOOPBACK_NET;
use crate::thread::Thread;
use crate::world::{Descriptor, Doing, Key, World};

/// A command of the kernel. Basis: assumed, as for its sockets.
const SYSCALL: Span = Span::from_ns(500);
/// Finding the neighbour that has an address: a broadcast and its answer. Basis: assumed.
const NEIGHBOUR: Span = Span::from_us(50);
/// Asking the subnet manager for a path. Basis: assumed.
const PATH: Span = Span::from_us(100);
/// How long packets live, as the exponent that paths tell: 4.096 us << 18 (InfiniBand), << 16 (the kernel's for Ethernet).
const LIFE_TIME: u8 = 18;
const LIFE_TIME_ETHERNET: u8 = 16;

/// Where datagrams to a port go.
pub(super) fn vector(device: &Device) -> AddressVector {
    let (lid, ethernet) = (device.lid, device.addresses.ethernet);
    AddressVector {
        gid: device.addresses.gid(lid),
        dlid: if ethernet { 0 } else { (lid.0 + 1) as u16 },
        sgid_index: if ethernet { 3 } else { 0 },
        global: ethernet,
    }
}

impl Thread {
    pub(crate) async fn connections(&mut self, op: Op, question: &Question) -> Result<Answer, ProgramError> {
        self.process.catch_up().await;
        self.process.compute(SYSCALL);
        let fd = question.args[0] as i32;
        if op == Op::CmOpen {
            let mut world = self.shared.world();
            let channel = world.connections.open();
            world.programs[self.program as usize].descriptors.insert(fd, Descriptor::Connections(channel));
            if !std::mem::replace(&mut world.wants_agents, true) {
                let hosts = world.hosts.len() as u32;
                (0..hosts).for_each(|node| world.tell(&self.process, Key::Host(node), self.process.now()));
            }
            return Ok(Answer::number(0));
        }
        let Some(Descriptor::Connections(channel)) = self.descriptor(fd) else { return Ok(Answer::error(libc::EBADF)) };
        let command = match Command::read(&question.data) {
            Ok(command) => command,
            Err(errno) => return Ok(Answer::error(errno)),
        };
        let done = match command.call {
            Call::GetEvent => self.next_event(channel, question.args[1] != 0).await,
            Call::JoinIpMulticast => self.join_group(channel, &command).await,
            _ => self.command(channel, &command),
        };
        let node = self.own_program(|program| program.node);
        super::agent::transmit(&self.shared, &self.process, node);
        Ok(match done {
            Ok(data) => Answer { args: vec![command.response() as i64], data, ..Answer::number(0) },
            Err(errno) => Answer::error(errno),
        })
    }

    async fn next_event(&self, channel: ChannelId, waits: bool) -> Result<Vec<u8>, i32> {
        let wait = (&[Key::Connections(channel)][..], Doing::WaitsFor("an event of a connection"), waits);
        let take = |world: &mut World, now| match world.connections.take_event(now, channel) {
            Some(of) => Outcome::Done(of),
            None => Outcome::Wait(world.connections.readable_at(channel)),
        };
        let of = self.until_done(wait, take).await?;
        Ok(event((of.uid, of.group.unwrap_or(of.id)), (of.kind, of.status), (&of.param, of.room)))
    }

    fn command(&self, channel: ChannelId, command: &Command<'_>) -> Result<Vec<u8>, i32> {
        let now = self.process.now();
        let node = self.own_program(|program| program.node);
        let mut guard = self.shared.world();
        let world = &mut *guard;
        let id = command.id();
        if !matches!(command.call, Call::CreateId | Call::LeaveMulticast | Call::MigrateId) {
            world.connections.of(channel, id)?;
        }
        let number = |of: u32| of.to_ne_bytes().to_vec();
        let none = |()| Vec::new();
        match command.call {
            Call::CreateId => Ok(number(world.connections.create(node, channel, (command.u64(0), command.u16(16))))),
            Call::DestroyId => Ok(number(world.connections.destroy(now, id))),
            Call::BindIp => {
                let (address, port) = command.address(8).ok_or(libc::EADDRNOTAVAIL)?;
                let nic = world.bound(node, address)?;
                world.connections.bind(id, (address, port), nic).map(none)
            }
            Call::ResolveIp => resolve(world, (now, node), id, command).map(none),
            Call::ResolveRoute => {
                let of = world.connections.id(id)?;
                if of.state != State::Resolved {
                    return Err(libc::EINVAL);
                }
                of.state = State::Routed;
                let ethernet = world.hosts[node as usize].devices[of.nic.unwrap_or(0)].addresses.ethernet;
                let at = if ethernet { now } else { now + PATH };
                world.connections.tell(at, id, (kind::ROUTE_RESOLVED, 0), (Param::Nothing, 0));
                Ok(Vec::new())
            }
            Call::QueryRoute => {
                let of = world.connections.of(channel, id)?;
                let guid = of.nic.map(|nic| world.hosts[node as usize].devices[nic].guid());
                Ok(route(guid, path(world, of), of.local, of.remote))
            }
            Call::Connect => world.connections.connect(now, id, command.terms(0).0).map(none),
            Call::Listen => world.connections.listen(id, command.u32(4)).map(none),
            Call::Accept => {
                let (terms, valid) = command.terms(8);
                if valid {
                    world.connections.id(id)?.uid = command.u64(0);
                }
                world.connections.accept(now, id, valid.then_some(terms)).map(none)
            }
            Call::Reject => world.connections.reject(id, command.bytes(8, usize::from(command.u8(4)))).map(none),
            Call::Disconnect => world.connections.disconnect(now, id).map(none),
            Call::InitQpAttr => attributes(world, world.connections.of(channel, id)?, command.u32(12)).map(|of| of.bytes()),
            // What type of service, reuse and time-outs would change is not modelled.
            Call::SetOption | Call::Notify => Ok(Vec::new()),
            Call::LeaveMulticast => world.connections.left(channel, id).map(number),
            Call::MigrateId => {
                let from = match world.programs[self.program as usize].descriptors.get(&(command.u32(12) as i32)) {
                    Some(Descriptor::Connections(from)) => *from,
                    _ => return Err(libc::EBADF),
                };
                world.connections.migrate(id, from, channel).map(number)
            }
            Call::GetEvent | Call::JoinIpMulticast => Err(libc::ENOSYS),
        }
    }

    /// Joins the group that stands for an IP address.
    async fn join_group(&mut self, channel: ChannelId, command: &Command<'_>) -> Result<Vec<u8>, i32> {
        let id = command.id();
        let (address, _) = command.address(16).ok_or(libc::EADDRNOTAVAIL)?;
        let (nic, ethernet) = {
            let world = self.shared.world();
            let of = world.connections.of(channel, id)?;
            let nic = of.nic.ok_or(libc::EINVAL)?;
            (nic, world.hosts[of.node as usize].devices[nic].addresses.ethernet)
        };
        let gid = address::group(ethernet, address);
        let lid = self.join(nic, gid, JoinState::Full).await?;
        let vector = AddressVector { gid, dlid: lid.mlid().unwrap_or(0), sgid_index: if ethernet { 3 } else { 0 }, global: true };
        let terms = Terms { qp_num: 0xff_ffff, qkey: DATAGRAM_QKEY, ..Terms::default() };
        let told = (self.process.now(), command.u64(8));
        Ok(self.shared.world().connections.joined(told, id, Param::Datagram(terms, vector)).to_ne_bytes().to_vec())
    }
}

/// Whether an address stands for all of a host: zero, and those of the loopback, as for the kernel's connection manager.
fn is_any(address: u32) -> bool {
    address == 0 || address >> 24 == LOOPBACK_NET
}

/// Finds who has an address, and the adapter to it.
fn resolve(world: &mut World, (now, node): (Time, u32), id: u32, command: &Command<'_>) -> Result<(), i32> {
    let (address, port) = command.address(28).ok_or(libc::EAFNOSUPPORT)?;
    let asked = command.address(0).filter(|(address, _)| *address != 0);
    if world.connections.id(id)?.state == State::Idle {
        let (own, port) = asked.unwrap_or((0, 0));
        let nic = world.bound(node, own)?;
        world.connections.bind(id, (own, port), nic)?;
    }
    let group = address >> 28 == 0xe;
    let host = if group || is_any(address) { Some(node) } else { world.host_at(address) };
    let patience = Span::from_us(u64::from(command.u32(60)).saturating_mul(1000));
    let of = world.connections.id(id)?;
    if of.state != State::Bound {
        return Err(libc::EINVAL);
    }
    of.remote = (address, port);
    let Some(host) = host else {
        world.connections.tell(now.saturating_add(patience), id, (kind::ADDR_ERROR, -libc::ETIMEDOUT), (Param::Nothing, 0));
        return Ok(());
    };
    let bound = of.nic;
    let there = if group || is_any(address) { bound.unwrap_or(0) } else { world.adapter_at(host, address).unwrap_or(0) };
    // The adapter of the same rail, where there is one.
    let nic = bound.unwrap_or_else(|| if there < world.hosts[node as usize].devices.len() { there } else { 0 });
    let own = world.address_of(node, nic, address);
    let of = world.connections.id(id)?;
    (of.nic, of.to, of.state) = (Some(nic), Some((host, there)), State::Resolved);
    if of.local.0 == 0 {
        of.local.0 = own;
    }
    world.connections.tell(now + NEIGHBOUR, id, (kind::ADDR_RESOLVED, 0), (Param::Nothing, 0));
    Ok(())
}

fn path(world: &World, of: &Identifier) -> Option<Path> {
    let (nic, (host, there)) = (of.nic?, of.to.filter(|_| of.knows_path())?);
    let (own, other) = (&world.hosts[of.node as usize].devices[nic], &world.hosts[host as usize].devices[there]);
    let end = |device: &Device| (vector(device).gid, vector(device).dlid);
    Some(Path { from: end(own), to: end(other), mtu: own.mtu_code(), life_time: life_time(own) })
}

fn life_time(device: &Device) -> u8 {
    if device.addresses.ethernet { LIFE_TIME_ETHERNET } else { LIFE_TIME }
}

/// What a queue pair of an identifier needs to get to a state.
fn attributes(world: &World, of: &Identifier, state: u32) -> Result<QpAttributes, i32> {
    let nic = of.nic.ok_or(libc::EINVAL)?;
    let own = &world.hosts[of.node as usize].devices[nic];
    let mut attr = QpAttributes { mask: mask::STATE, state, ..QpAttributes::default() };
    match (state, of.is_datagram()) {
        (1, true) => {
            attr.mask |= mask::PKEY | mask::PORT | mask::QKEY;
            attr.qkey = DATAGRAM_QKEY;
        }
        (1, false) => {
            attr.mask |= mask::ACCESS | mask::PKEY | mask::PORT;
            // Writing from afar, and reading and atomics where the other end will do them.
            attr.access = if of.theirs.initiator_depth > 0 { 14 } else { 2 };
        }
        (2, false) => {
            let (host, there) = of.to.ok_or(libc::EINVAL)?;
            attr.mask |= mask::AV | mask::MTU | mask::DEST_QPN | mask::RQ_PSN | mask::DEST_READS | mask::RNR_TIMER;
            attr.vector = vector(&world.hosts[host as usize].devices[there]);
            attr.mtu = own.mtu_code();
            attr.dest_qp_num = of.theirs.qp_num;
            attr.rq_psn = of.theirs.psn;
            attr.max_dest_rd_atomic = of.theirs.initiator_depth;
        }
        (3, false) => {
            attr.mask |= mask::SQ_PSN | mask::TIMEOUT | mask::RETRY | mask::RNR_RETRY | mask::READS;
            attr.sq_psn = of.own.psn;
            attr.timeout = life_time(own) + 1;
            // How often a request is repeated, who asks says; how often while nothing is posted, each tells the other.
            attr.retry_cnt = if of.listener.is_some() { of.theirs.retry_count } else { of.own.retry_count }.min(7);
            attr.rnr_retry = of.theirs.rnr_retry_count.min(7);
            attr.max_rd_atomic = of.theirs.responder_resources;
        }
        (3, true) => attr.mask |= mask::SQ_PSN,
        _ => {}
    }
    Ok(attr)
}

impl World {
    /// The host that has an address, of the management network or of an adapter.
    pub(crate) fn host_at(&self, address: u32) -> Option<u32> {
        let managed = address::managed(address).filter(|host| (*host as usize) < self.hosts.len());
        managed.or_else(|| {
            (0..).zip(&self.hosts).find(|(_, host)| host.devices.iter().any(|of| of.address() == address)).map(|(node, _)| node)
        })
    }
    /// The adapter that an identifier has with an address: none with one that stands for all.
    fn bound(&self, node: u32, address: u32) -> Result<Option<usize>, i32> {
        if is_any(address) { Ok(None) } else { self.adapter_at(node, address).map(Some).ok_or(libc::ENODEV) }
    }
    /// The adapter of a host to which an address belongs; that of the management network leads to the first.
    pub(crate) fn adapter_at(&self, node: u32, address: u32) -> Option<usize> {
        let devices = &self.hosts[node as usize].devices;
        if address == address::management(node) {
            return (!devices.is_empty()).then_some(0);
        }
        devices.iter().position(|device| device.address() == address)
    }
    /// The own address towards another one: of the same network.
    fn address_of(&self, node: u32, nic: usize, to: u32) -> u32 {
        if is_any(to) {
            to
        } else if address::managed(to).is_some() {
            address::management(node)
        } else {
            self.hosts[node as usize].devices[nic].address()
        }
    }
}
