//! The library in one process: peers, requests, and what is sent when.
//!
//! Source: PSM2, `ptl_ips/ips_proto_mq.c` (`ips_proto_mq_isend`, `ips_proto_mq_send`), `ips_proto.c`
//! (`ips_proto_flow_flush_pio`, `ips_proto_flow_flush_dma`).
//! Modelled: tiny messages in a header, short and eager ones from the program's buffer until they are acknowledged, or from a
//! copy where the program waits for the send; a system call for all packets that a flow hands to an engine.
//! Not modelled: a limit on packets that wait, connecting.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fabriscope_units::{Bytes, Time};

use crate::adapter::{Adapter, Notice};
use crate::cpu::Cpu;
use crate::flow::{Item, Sender};
use crate::matching::Matching;
use crate::request::{Buffer, Requests};
use crate::settings::{AdapterSettings, Library};
use crate::state::{Endpoint, Peer, Psm2Error, Unacknowledged};
use fabriscope_wire::psm2::RequestId;
use fabriscope_wire::psm2::{Address, Flow, Header, Kind};

/// For programs.
impl Endpoint {
    /// A process with a context of its own at `adapter`.
    ///
    /// # Errors
    /// No context is left.
    pub fn open(adapter: &mut Adapter, library: Library) -> Result<Endpoint, Psm2Error> {
        let contexts = adapter.settings().parameters.contexts;
        let context = adapter.open().ok_or(Psm2Error::NoContext { contexts })?;
        Ok(Endpoint {
            me: Address { lid: adapter.lid(), context },
            library,
            peers: Vec::new(),
            ranks: BTreeMap::new(),
            addresses: BTreeMap::new(),
            requests: Requests::default(),
            matching: Matching::default(),
            incoming: BTreeMap::new(),
            sessions: BTreeMap::new(),
            wanted: VecDeque::new(),
            windows: 0,
            registered: BTreeMap::new(),
            grants: BTreeMap::new(),
            copies: VecDeque::new(),
            parked: BTreeMap::new(),
            control: VecDeque::new(),
            owing: Vec::new(),
            blocked: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            armed: BTreeMap::new(),
            began: None,
        })
    }
    /// Its address.
    #[must_use]
    pub fn address(&self) -> Address {
        self.me
    }
    /// From now on `rank` is at `address`.
    pub fn connect(&mut self, rank: u32, address: Address) {
        let at = self.peers.len();
        let (senders, receivers) = (Default::default(), Default::default());
        self.peers.push(Peer { rank, address, sent: 0, announced: 0, early: BTreeMap::new(), senders, receivers });
        self.ranks.insert(rank, at);
        self.addresses.insert(address, at);
    }
    pub(crate) fn peer_of(&self, rank: u32) -> Result<usize, Psm2Error> {
        self.ranks.get(&rank).copied().ok_or(Psm2Error::NoPeer { rank })
    }

    /// Sends `size` bytes; `blocking` where the program does nothing until the send is done. `began` is when it called.
    ///
    /// # Errors
    /// Nobody connected to `rank`.
    pub fn send(
        &mut self,
        adapter: &mut Adapter,
        cpu: &mut dyn Cpu,
        (rank, tag): (u32, u32),
        (size, buffer): (u32, Buffer),
        (blocking, began): (bool, Time),
    ) -> Result<RequestId, Psm2Error> {
        let peer = self.peer_of(rank)?;
        self.began = Some(began);
        cpu.spend(self.library.parameters.send);
        let request = self.requests.open(size, buffer);
        let number = self.peers[peer].sent;
        self.peers[peer].sent += 1;
        let library = self.library;
        let place = buffer.place();
        let eager = if buffer == Buffer::Host { library.parameters.eager_limit } else { library.eager_device };
        if size > eager || buffer == Buffer::Staged {
            let kind = Kind::RequestToSend { number, tag, length: size, sender: request };
            self.push(peer, Flow::Pio, Item { kind, payload: 0, asks: true, finishes: None, place: 0 });
            self.flush(adapter, cpu, Unacknowledged::Flow(peer, Flow::Pio));
            self.prefetch(request);
            self.began = None;
            return Ok(request);
        }
        let limit = if blocking { library.parameters.sdma_limit_blocking } else { library.parameters.sdma_limit };
        // A core does not store what it cannot read.
        let flow = if size <= limit && buffer == Buffer::Host { Flow::Pio } else { Flow::Dma };
        let most = if flow == Flow::Pio { adapter.settings().pio_payload() } else { adapter.settings().parameters.mtu };
        let tiny = size <= library.parameters.tiny_limit && buffer == Buffer::Host;
        // The program's buffer is free when a copy was made.
        let replay = library.parameters.replay && flow == Flow::Pio;
        let copied = flow == Flow::Pio && (replay || blocking && size <= most);
        let done = tiny || copied;
        let mut offset = 0;
        loop {
            let part = (size - offset).min(most);
            let last = offset + part == size;
            let kind = Kind::Message { number, tag, length: size, offset };
            let payload = if tiny { 0 } else { part };
            let finishes = (last && !done).then_some(request);
            self.push(peer, flow, Item { kind, payload, asks: last && !tiny && !replay, finishes, place });
            offset += part;
            if last {
                break;
            }
        }
        self.flush(adapter, cpu, Unacknowledged::Flow(peer, flow));
        if done {
            if !tiny {
                cpu.copy(Bytes(size.into()), Bytes(2 * u64::from(size)));
            }
            self.requests.at(request).done = true;
        }
        self.began = None;
        Ok(request)
    }
    /// Whether a request is done.
    #[must_use]
    pub fn is_done(&self, request: RequestId) -> bool {
        self.requests.is_done(request)
    }
    /// Forgets a request that is done.
    pub fn close(&mut self, request: RequestId) {
        self.requests.close(request);
    }
    /// What may give the library something to do.
    #[must_use]
    pub fn awaited(&self) -> Vec<Notice> {
        let context = self.me.context;
        let mut notices = vec![Notice::Entry(context)];
        if !self.blocked.is_empty() || !self.control.is_empty() {
            notices.extend([Notice::Blocks(context), Notice::Request(context)]);
        }
        notices
    }
    /// When it wants to run if nothing comes.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }
    /// Whether everything it sent was acknowledged.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.grants.is_empty() && self.peers.iter().all(|peer| peer.senders.iter().all(Sender::is_idle))
    }
    /// Asks for all acknowledgements that are missing, without waiting for the timeouts.
    pub fn hasten(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu) {
        for way in self.armed.keys().copied().collect::<Vec<_>>() {
            self.check(adapter, cpu, way, Time::MAX);
        }
    }
}

/// Sending.
impl Endpoint {
    pub(crate) fn push(&mut self, peer: usize, flow: Flow, item: Item) {
        let interval = self.library.ack_interval();
        self.peers[peer].senders[flow as usize].push(item, interval);
    }
    /// Sends what a flow or a window may send.
    pub(crate) fn flush(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, way: Unacknowledged) {
        let all = match way {
            Unacknowledged::Flow(peer, Flow::Pio) => self.flush_pio(adapter, cpu, peer),
            _ => self.flush_dma(adapter, cpu, way),
        };
        if all {
            self.blocked.remove(&way);
        } else {
            self.blocked.insert(way);
        }
        self.watch(way);
    }
    fn flush_pio(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, peer: usize) -> bool {
        while let Some((number, item)) = self.peers[peer].senders[Flow::Pio as usize].peek(self.library.parameters.flow_credits) {
            let header = self.header(peer, Flow::Pio, number, item, cpu);
            if !self.store(adapter, cpu, header) {
                return false;
            }
            let timeout = self.library.parameters.timeout;
            self.peers[peer].senders[Flow::Pio as usize].advance(1, cpu.now(), timeout);
        }
        true
    }
    /// Stores a packet into the adapter, if there is room.
    fn store(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, header: Header) -> bool {
        let blocks = AdapterSettings::blocks(header.payload);
        if adapter.free_blocks(self.me.context, cpu.now()) < blocks {
            return false;
        }
        let began = self.began.take().unwrap_or(cpu.now());
        cpu.spend(self.library.parameters.packet);
        let (left, there) = cpu.store(blocks, adapter.settings().parameters.store_block);
        adapter.store(header, (began, left, there));
        true
    }
    fn flush_dma(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, way: Unacknowledged) -> bool {
        let (peer, window) = match way {
            Unacknowledged::Flow(peer, _) => (peer, self.library.parameters.flow_credits),
            // A window is granted as a whole.
            Unacknowledged::Grant(peer, _) => (peer, u32::MAX),
        };
        let Some(sender) = self.sender(way) else { return true };
        let items: Vec<(u32, Item)> = (0..).map_while(|ahead| sender.peek_at(ahead, window)).collect();
        if items.is_empty() {
            return true;
        }
        if adapter.free_requests(self.me.context, cpu.now()) == 0 {
            return false;
        }
        let generation =
            if let Unacknowledged::Grant(peer, id) = way { self.grants.get(&(peer, id)).map(|grant| grant.generation) } else { None };
        let mut headers = Vec::with_capacity(items.len());
        for (number, mut item) in items {
            if let (Kind::Expected { generation: stale, .. }, Some(fresh)) = (&mut item.kind, generation) {
                *stale = fresh;
            }
            headers.push(self.header(peer, Flow::Dma, number, item, cpu));
        }
        let began = self.began.take().unwrap_or(cpu.now());
        let costs = self.library.parameters;
        cpu.spend(costs.system_call + costs.descriptor * headers.len() as u64);
        let (left, there) = cpu.store(1, adapter.settings().parameters.store_block);
        adapter.request(&headers, (began, left, there));
        let (now, timeout) = (cpu.now(), self.library.parameters.timeout);
        if let Some(sender) = self.sender(way) {
            sender.advance(headers.len(), now, timeout);
        }
        true
    }
    pub(crate) fn sender(&mut self, way: Unacknowledged) -> Option<&mut Sender> {
        match way {
            Unacknowledged::Flow(peer, flow) => Some(&mut self.peers[peer].senders[flow as usize]),
            Unacknowledged::Grant(peer, id) => self.grants.get_mut(&(peer, id)).map(|grant| &mut grant.sender),
        }
    }
    fn header(&self, peer: usize, flow: Flow, number: u32, item: Item, cpu: &dyn Cpu) -> Header {
        let Item { kind, payload, asks, place, .. } = item;
        Header { from: self.me, to: self.peers[peer].address, kind, flow, number, asks, payload, place, traced: cpu.traces() }
    }

    /// Sends a packet outside of the flows, now or when there is room.
    pub(crate) fn say(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, peer: usize, (kind, flow, number): (Kind, Flow, u32)) {
        debug_assert!(!kind.sequenced());
        let item = Item { kind, payload: 0, asks: false, finishes: None, place: 0 };
        let header = Header { traced: false, ..self.header(peer, flow, number, item, cpu) };
        if !self.control.is_empty() || !self.store(adapter, cpu, header) {
            self.control.push_back(header);
        }
    }
    /// Tries again what found no room.
    pub(crate) fn retry(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu) {
        while let Some(&header) = self.control.front() {
            if !self.store(adapter, cpu, header) {
                return;
            }
            self.control.pop_front();
        }
        for way in std::mem::take(&mut self.blocked) {
            self.flush(adapter, cpu, way);
        }
    }
}

/// Timeouts.
impl Endpoint {
    /// Notes the deadline of `way` as it is now.
    pub(crate) fn watch(&mut self, way: Unacknowledged) {
        let deadline = self.sender(way).and_then(|sender| sender.deadline());
        let before = match deadline {
            Some(at) => self.armed.insert(way, at),
            None => self.armed.remove(&way),
        };
        if before == deadline {
            return;
        }
        if let Some(at) = before {
            self.deadlines.remove(&(at, way));
        }
        if let Some(at) = deadline {
            self.deadlines.insert((at, way));
        }
    }
    pub(crate) fn expire(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu) {
        while let Some(&(at, way)) = self.deadlines.first()
            && at <= cpu.now()
        {
            let now = cpu.now();
            self.check(adapter, cpu, way, now);
        }
    }
    fn check(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, way: Unacknowledged, now: Time) {
        let most = self.library.parameters.timeout_max;
        let hurried = now == Time::MAX;
        let number = match self.sender(way) {
            Some(sender) if hurried => sender.last_sent(),
            Some(sender) => sender.expired(now, most),
            None => None,
        };
        self.watch(way);
        let (Some(number), (peer, flow, kind)) = (number, self.question(way)) else { return };
        self.say(adapter, cpu, peer, (kind, flow, number));
    }
    fn question(&self, way: Unacknowledged) -> (usize, Flow, Kind) {
        match way {
            Unacknowledged::Flow(peer, flow) => (peer, flow, Kind::Check),
            Unacknowledged::Grant(peer, id) => {
                let kind = self.grants.get(&(peer, id)).map_or(Kind::Check, |grant| Kind::CheckExpected { window: grant.window });
                (peer, Flow::Dma, kind)
            }
        }
    }
}
