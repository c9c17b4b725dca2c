//! Connections as the kernel's RDMA connection manager makes them: identifiers, who listens, requests and their answers, what is told.
//!
//! Source: InfiniBand Architecture Specification, Volume 1, chapter 12 (messages and their order, repetition); the kernel's `rdma_cm` for what
//! programs are told and when. Modelled: requests, replies, ready to use, rejects, disconnects, lookups of datagram services, each a message of
//! 256 bytes over the fabric (`agent`); they are repeated where no answer comes. Multicast groups.
//! Not modelled: alternate paths, delay by message receipt acknowledgements, duplicates beyond what is ignored, several keys of partitions.

pub(crate) mod abi;
pub(crate) mod agent;
pub(crate) mod calls;
mod messages;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fabriscope_units::{Span, Time};

use abi::{Param, Terms};
pub(crate) use messages::{Message, Outgoing};

/// A channel of events.
pub(crate) type ChannelId = u32;
/// Host and adapter.
pub(crate) type Port = (u32, usize);
/// Address and port number.
pub(crate) type Address = (u32, u16);

/// What programs are told; the numbers of `enum rdma_cm_event_type`.
pub(crate) mod kind {
    pub const ADDR_RESOLVED: u32 = 0;
    pub const ADDR_ERROR: u32 = 1;
    pub const ROUTE_RESOLVED: u32 = 2;
    pub const CONNECT_REQUEST: u32 = 4;
    pub const CONNECT_RESPONSE: u32 = 5;
    pub const UNREACHABLE: u32 = 7;
    pub const REJECTED: u32 = 8;
    pub const ESTABLISHED: u32 = 9;
    pub const DISCONNECTED: u32 = 10;
    pub const MULTICAST_JOIN: u32 = 12;
    pub const TIMEWAIT_EXIT: u32 = 15;
}

/// Spaces of port numbers in which connections are made, of `enum rdma_port_space`; in all others datagrams are looked up.
mod space {
    pub const TCP: u16 = 0x0106;
    pub const IB: u16 = 0x013f;
}
/// What lasts as long as a packet may live, twice (4.096 us << 19).
const TIME_WAIT: Span = Span::from_us(2_147_484);
/// Port numbers that nobody asked for begin here.
const FIRST_PORT: u16 = 0x8000;

/// Requests that wait to be answered, at the most (the kernel's `max_backlog`).
const BACKLOG: usize = 1024;

/// How far an identifier is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    Bound,
    /// It knows the address, and the adapter to it.
    Resolved,
    /// And the path.
    Routed,
    Listening {
        backlog: usize,
    },
    /// It asked for a connection.
    Asks,
    /// It was asked.
    Asked,
    /// Its peer has agreed.
    Agreed,
    /// It has agreed.
    Agrees,
    Connected,
    /// It has said that it goes.
    Parting,
    /// Its peer has.
    Parted,
    Over,
}

/// What a program calls `struct rdma_cm_id`.
#[derive(Debug, Clone)]
pub(crate) struct Identifier {
    pub channel: ChannelId,
    /// What the program calls it.
    pub uid: u64,
    pub space: u16,
    pub node: u32,
    pub nic: Option<usize>,
    pub local: Address,
    pub remote: Address,
    pub to: Option<Port>,
    pub state: State,
    /// The other end's identifier.
    pub peer: Option<u32>,
    pub own: Terms,
    pub theirs: Terms,
    /// Events that the program was told.
    pub reported: u32,
    /// Of whom it was asked.
    listener: Option<u32>,
    /// The program knows of it.
    known: bool,
    /// Groups that it joined, and what of each was told.
    pub groups: BTreeMap<u32, u32>,
}

impl Identifier {
    pub fn is_datagram(&self) -> bool {
        !matches!(self.space, space::TCP | space::IB)
    }
    pub fn knows_path(&self) -> bool {
        !matches!(self.state, State::Idle | State::Bound | State::Resolved | State::Listening { .. })
    }
}

/// Something to be told.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub at: Time,
    pub id: u32,
    pub uid: u64,
    pub kind: u32,
    pub status: i32,
    pub param: Param,
    /// Room for private data in the message that brought it.
    pub room: usize,
    /// The group that it is about.
    pub group: Option<u32>,
}

#[derive(Debug, Default)]
struct Channel {
    events: VecDeque<Event>,
    /// Descriptors that name it.
    users: u32,
}

/// A message that waits for its answer.
#[derive(Debug, Clone)]
struct Unanswered {
    out: Outgoing,
    again: Time,
    tries: u32,
}

/// All connections of a run.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    ids: BTreeMap<u32, Identifier>,
    next_id: u32,
    channels: BTreeMap<ChannelId, Channel>,
    next_channel: ChannelId,
    /// Who has a port: by host, space and number.
    ports: BTreeMap<(u32, u16, u16), u32>,
    next_port: u16,
    /// Messages that are to be sent.
    outbox: Vec<Outgoing>,
    /// On their way, by the number that the packet carries.
    on_the_way: BTreeMap<u32, (Port, Message)>,
    next_message: u32,
    unanswered: BTreeMap<u32, Unanswered>,
    /// Channels with something new.
    news: BTreeSet<ChannelId>,
    psn: u32,
}

impl Connections {
    // ---- channels ----

    pub fn open(&mut self) -> ChannelId {
        self.next_channel += 1;
        self.channels.insert(self.next_channel, Channel { users: 1, ..Channel::default() });
        self.next_channel
    }
    pub fn share(&mut self, channel: ChannelId) {
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.users += 1;
        }
    }
    /// A descriptor less names the channel; with the last one all of its identifiers end.
    pub fn close(&mut self, now: Time, channel: ChannelId) {
        let Some(of) = self.channels.get_mut(&channel) else { return };
        of.users -= 1;
        if of.users > 0 {
            return;
        }
        let ids: Vec<u32> = self.ids.iter().filter(|(_, id)| id.channel == channel).map(|(number, _)| *number).collect();
        for id in ids {
            self.destroy(now, id);
        }
        self.channels.remove(&channel);
    }
    /// When there is something to be told, or will be.
    pub fn readable_at(&self, channel: ChannelId) -> Option<Time> {
        self.channels.get(&channel)?.events.iter().map(|event| event.at).min()
    }
    /// The next event, if it is there by `now`.
    pub fn take_event(&mut self, now: Time, channel: ChannelId) -> Option<Event> {
        let events = &mut self.channels.get_mut(&channel)?.events;
        let first = (0..events.len()).filter(|at| events[*at].at <= now).min_by_key(|at| (events[*at].at, *at))?;
        let event = events.remove(first)?;
        let mut counts = event.id;
        if let Some(id) = self.ids.get_mut(&event.id) {
            id.known = true;
            // A request is an event of who listens.
            counts = id.listener.filter(|_| event.kind == kind::CONNECT_REQUEST).unwrap_or(counts);
            if let Some(group) = event.group {
                *id.groups.entry(group).or_default() += 1;
            }
        }
        if let Some(id) = self.ids.get_mut(&counts) {
            id.reported += 1;
        }
        Some(event)
    }
    /// Channels that somebody may wait at.
    pub fn take_news(&mut self) -> BTreeSet<ChannelId> {
        std::mem::take(&mut self.news)
    }
    pub(crate) fn tell(&mut self, at: Time, id: u32, (kind, status): (u32, i32), (param, room): (Param, usize)) {
        let Some(of) = self.ids.get(&id) else { return };
        self.tell_as((at, of.uid), id, (kind, status), (param, room));
    }
    /// The same, under another name.
    pub(crate) fn tell_as(&mut self, (at, uid): (Time, u64), id: u32, (kind, status): (u32, i32), (param, room): (Param, usize)) {
        self.push(Event { at, id, uid, kind, status, param, room, group: None });
    }
    /// On the channel of the identifier that it is about.
    fn push(&mut self, event: Event) {
        let Some(channel) = self.ids.get(&event.id).map(|of| of.channel) else { return };
        if let Some(to) = self.channels.get_mut(&channel) {
            to.events.push_back(event);
            self.news.insert(channel);
        }
    }

    /// A group was joined at `at`: the number that the program is given for it.
    pub fn joined(&mut self, (at, uid): (Time, u64), id: u32, param: Param) -> u32 {
        self.next_id += 1;
        let group = self.next_id;
        if let Some(of) = self.ids.get_mut(&id) {
            of.groups.insert(group, 0);
        }
        self.push(Event { at, id, uid, kind: kind::MULTICAST_JOIN, status: 0, param, room: 0, group: Some(group) });
        group
    }
    /// A group is left: how many events of it were told.
    pub fn left(&mut self, channel: ChannelId, group: u32) -> Result<u32, i32> {
        let of = self.ids.values_mut().find(|of| of.channel == channel && of.groups.contains_key(&group)).ok_or(libc::ENOENT)?;
        let reported = of.groups.remove(&group).unwrap_or(0);
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.events.retain(|event| event.group != Some(group));
        }
        Ok(reported)
    }

    // ---- identifiers ----

    pub fn create(&mut self, node: u32, channel: ChannelId, (uid, space): (u64, u16)) -> u32 {
        self.next_id += 1;
        let id = Identifier {
            channel,
            uid,
            space,
            node,
            nic: None,
            local: (0, 0),
            remote: (0, 0),
            to: None,
            state: State::Idle,
            peer: None,
            own: Terms { psn: self.psn(), ..Terms::default() },
            theirs: Terms::default(),
            reported: 0,
            listener: None,
            known: true,
            groups: BTreeMap::new(),
        };
        self.ids.insert(self.next_id, id);
        self.next_id
    }
    /// The identifier, if it belongs to the channel.
    pub fn of(&self, channel: ChannelId, id: u32) -> Result<&Identifier, i32> {
        self.ids.get(&id).filter(|of| of.channel == channel).ok_or(libc::ENOENT)
    }
    pub(crate) fn id(&mut self, id: u32) -> Result<&mut Identifier, i32> {
        self.ids.get_mut(&id).ok_or(libc::ENOENT)
    }
    /// Ends an identifier: its peer hears of it. Gives how many events of it were told.
    pub fn destroy(&mut self, now: Time, id: u32) -> u32 {
        let Some(of) = self.ids.get(&id).cloned() else { return 0 };
        self.unanswered.remove(&id);
        match of.state {
            State::Connected | State::Agreed | State::Agrees => self.say_goodbye(now, id, false),
            State::Asks => self.send(&of, Message::Reject { from: id, to: None, reason: reason::TIMEOUT, private: Vec::new() }),
            State::Asked => self.send(&of, Message::Reject { from: id, to: of.peer, reason: reason::CONSUMER, private: Vec::new() }),
            State::Parted => self.send(&of, Message::Disconnected { to: of.peer.unwrap_or(0) }),
            _ => {}
        }
        if self.ports.get(&(of.node, of.space, of.local.1)) == Some(&id) {
            self.ports.remove(&(of.node, of.space, of.local.1));
        }
        if let Some(channel) = self.channels.get_mut(&of.channel) {
            channel.events.retain(|event| event.id != id);
        }
        self.ids.remove(&id);
        if matches!(of.state, State::Listening { .. }) {
            // Whoever asked and was not answered is refused.
            let asked: Vec<u32> = self.ids.iter().filter(|(_, other)| other.listener == Some(id)).map(|(number, _)| *number).collect();
            for request in asked {
                if self.ids.get(&request).is_some_and(|other| !other.known && other.state == State::Asked) {
                    self.destroy(now, request);
                }
            }
        }
        of.reported
    }
    /// Binds to an address; the adapter is that of the address.
    pub fn bind(&mut self, id: u32, (address, port): Address, nic: Option<usize>) -> Result<(), i32> {
        let of = self.id(id)?;
        if of.state != State::Idle {
            return Err(libc::EINVAL);
        }
        let (node, space) = (of.node, of.space);
        let port = if port == 0 { self.free_port(node, space)? } else { port };
        if self.ports.contains_key(&(node, space, port)) {
            return Err(libc::EADDRINUSE);
        }
        self.ports.insert((node, space, port), id);
        let of = self.id(id)?;
        (of.local, of.nic, of.state) = ((address, port), nic, State::Bound);
        Ok(())
    }
    fn free_port(&mut self, node: u32, space: u16) -> Result<u16, i32> {
        for _ in FIRST_PORT..u16::MAX {
            self.next_port = self.next_port.wrapping_add(1);
            let port = FIRST_PORT | self.next_port;
            if !self.ports.contains_key(&(node, space, port)) {
                return Ok(port);
            }
        }
        Err(libc::EADDRNOTAVAIL)
    }
    /// Takes events and name of an identifier to another channel; gives how many were told.
    pub fn migrate(&mut self, id: u32, from: ChannelId, to: ChannelId) -> Result<u32, i32> {
        self.of(from, id)?;
        let of = self.id(id)?;
        of.channel = to;
        let reported = of.reported;
        let old = &mut self.channels.get_mut(&from).ok_or(libc::EBADF)?.events;
        let (moved, kept): (VecDeque<Event>, VecDeque<Event>) = std::mem::take(old).into_iter().partition(|event| event.id == id);
        *old = kept;
        self.news.insert(to);
        self.channels.get_mut(&to).ok_or(libc::EBADF)?.events.extend(moved);
        Ok(reported)
    }

    // ---- connections ----

    pub fn listen(&mut self, id: u32, backlog: u32) -> Result<(), i32> {
        if self.id(id)?.state == State::Idle {
            self.bind(id, (0, 0), None)?;
        }
        let of = self.id(id)?;
        match of.state {
            State::Bound => of.state = State::Listening { backlog: if backlog == 0 { BACKLOG } else { (backlog as usize).min(BACKLOG) } },
            State::Listening { .. } => {}
            _ => return Err(libc::EINVAL),
        }
        Ok(())
    }
    fn psn(&mut self) -> u32 {
        self.psn = (self.psn + 0x1_0101) & 0xff_ffff;
        self.psn
    }
    /// Asks for a connection.
    pub fn connect(&mut self, now: Time, id: u32, mut terms: Terms) -> Result<(), i32> {
        let of = self.id(id)?;
        terms.psn = of.own.psn;
        if of.state != State::Routed {
            return Err(libc::EINVAL);
        }
        let room = if of.is_datagram() { messages::LOOKUP_ROOM } else { messages::REQUEST_ROOM };
        if terms.private.len() > room {
            return Err(libc::EINVAL);
        }
        (of.own, of.state) = (terms.clone(), State::Asks);
        let of = of.clone();
        self.expect_answer(now, id, &of, Message::Request { from: id, local: of.local, remote: of.remote, space: of.space, terms });
        Ok(())
    }
    /// Agrees to a request, or says that all is ready after the peer has agreed.
    pub fn accept(&mut self, now: Time, id: u32, terms: Option<Terms>) -> Result<(), i32> {
        let of = self.id(id)?;
        let peer = of.peer.ok_or(libc::EINVAL)?;
        match of.state {
            State::Asked => {
                let terms = Terms { psn: of.own.psn, ..terms.ok_or(libc::EINVAL)? };
                of.own = terms.clone();
                if of.is_datagram() {
                    of.state = State::Over;
                    let of = of.clone();
                    self.send(&of, Message::Found { to: peer, terms: Terms { qkey: DATAGRAM_QKEY, ..terms } });
                } else {
                    of.state = State::Agrees;
                    let of = of.clone();
                    self.expect_answer(now, id, &of, Message::Reply { from: id, to: peer, terms });
                }
            }
            State::Agreed => {
                of.state = State::Connected;
                let of = of.clone();
                self.send(&of, Message::Ready { to: peer });
            }
            _ => return Err(libc::EINVAL),
        }
        Ok(())
    }
    pub fn reject(&mut self, id: u32, private: Vec<u8>) -> Result<(), i32> {
        let of = self.id(id)?;
        if !matches!(of.state, State::Asked | State::Agreed) {
            return Err(libc::EINVAL);
        }
        of.state = State::Over;
        let of = of.clone();
        self.send(&of, Message::Reject { from: id, to: of.peer, reason: reason::CONSUMER, private });
        Ok(())
    }
    /// Ends a connection, or agrees that it ends.
    pub fn disconnect(&mut self, now: Time, id: u32) -> Result<(), i32> {
        let of = self.id(id)?;
        match of.state {
            State::Connected | State::Agrees | State::Agreed => self.say_goodbye(now, id, true),
            State::Parted => {
                of.state = State::Over;
                let of = of.clone();
                self.send(&of, Message::Disconnected { to: of.peer.unwrap_or(0) });
                self.tell(now + TIME_WAIT, id, (kind::TIMEWAIT_EXIT, 0), (Param::Nothing, 0));
            }
            State::Parting | State::Over => {}
            _ => return Err(libc::EINVAL),
        }
        Ok(())
    }
    fn say_goodbye(&mut self, now: Time, id: u32, waits: bool) {
        let Ok(of) = self.id(id) else { return };
        of.state = State::Parting;
        let of = of.clone();
        let message = Message::Disconnect { to: of.peer.unwrap_or(0) };
        if waits {
            self.expect_answer(now, id, &of, message);
        } else {
            self.send(&of, message);
        }
    }
}

/// The key of datagram queue pairs that the connection manager makes.
pub(crate) const DATAGRAM_QKEY: u32 = 0x0123_4567;

/// Reasons of a reject.
pub(crate) mod reason {
    pub const TIMEOUT: u32 = 4;
    pub const NO_SERVICE: u32 = 8;
    pub const CONSUMER: u32 = 28;
}
