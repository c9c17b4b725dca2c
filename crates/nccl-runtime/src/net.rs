//! The proxy of a rank: slices that leave for other nodes and that come from there.
//!
//! ```text
//! write  sender   slot filled ─ RDMA WRITE with immediate ─▶ receiver   completion ─ flush ─ slot filled for the kernel
//!                 ◀───────────── room for so many slots ────────────   slot emptied
//! read   sender   slot filled ─ what is ready ─▶ receiver   RDMA READ ─ slot filled ─ done ─▶ sender   slot emptied
//! ```
//! Source: NCCL, src/transport/net.cc (sendProxyProgress, recvProxyProgress), net_ib.cc (ncclIbIsend, ncclIbIrecv, ncclIbIflush);
//! libfabric, prov/efa (read protocols).
//! Modelled: slots of both ends, one queue pair for each connection and channel (one for all over SRD and UET, whose messages overtake each
//! other), GPU memory read and written by the adapter where it is near enough, and by kernels through host memory where not; a read of the
//! GPU's memory behind each message.
//! Not modelled: several messages under one request; room is told by sends instead of writes that the sender polls for; where a
//! message is shorter than 8 KiB, and adaptive routing is on, NCCL sends the immediate data apart.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use fabriscope_catalog::Rdma;
use fabriscope_machine::Access as Moved;
use fabriscope_nccl::{NetWay, Protocol};
use fabriscope_node::aggregation::Region;
use fabriscope_node::{Memory, Process, ProgramError};
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{
    Access, AhAttr, AppWords, CqId, MemoryId, Mr, PdId, Peer, QpCap, QpInit, QpNum, QpType, RecvWr, Remote, SendWr, Sge, UdDestination,
    VerbsError, Wc, WcStatus,
};

use super::fifo::{Fifo, FifoEnd, FifoId, FifoPath, Filled};
use super::in_network::Outlet;
use super::kernels::Kernels;
use super::proxy::Proxy;
use super::slices::{InOrder, Slice};
use super::world::{Contact, ContactOf, Node, RankPlacement, SLOTS, Shared, Wire, WireKind};

/// What an adapter has for this rank.
pub(super) struct Rail {
    pub nic: usize,
    pd: PdId,
    pub cq: CqId,
    host: Mr,
    device: Option<Mr>,
    /// The queue pair of all connections, over SRD and UET.
    shared: Option<QpNum>,
    /// The queue pair that reads behind messages, and where it leads over SRD and UET.
    flush: Option<(QpNum, Option<UdDestination>)>,
}

/// One end of a connection.
struct Link {
    wire: Wire,
    sends: bool,
    /// What arrives is read behind.
    flush: bool,
    /// Adapters that share its messages; control messages go by the first.
    stripes: Vec<Stripe>,
    lanes: [Lane; 3],
}

/// A connection by one adapter.
#[derive(Clone, Copy)]
struct Stripe {
    rail: usize,
    qp: QpNum,
    to: Option<UdDestination>,
    peer: Contact,
}

/// A connection with one protocol.
struct Lane {
    fifo: FifoId,
    /// The slots are in the GPU's memory here; and there.
    device: (bool, bool),
    /// Slots that may be filled there.
    credits: u32,
    /// Slices that wait for room, at the sender.
    filled: VecDeque<Filled>,
    /// Those that wait to be fetched, at the receiver.
    ready: VecDeque<Slice>,
    /// Pieces outstanding and slots of each slice that was sent.
    sending: VecDeque<(u32, u32)>,
    /// Slices that were sent.
    sent: u32,
    /// What is known of those that come, and which of them are in place.
    coming: InOrder,
    placed: InOrder,
}

/// A queue pair that is not connected yet.
struct Made {
    number: u32,
    wire: Wire,
    sends: bool,
    stripe: u32,
    rail: usize,
    qp: QpNum,
}

/// What a completed request was for.
#[derive(Debug, Clone, Copy)]
enum Done {
    /// A piece of a slice that was written, by the number of the slice.
    Sent { link: usize, lane: usize, number: u32 },
    /// A slice that was fetched: it is read behind.
    Fetched { link: usize, lane: usize, slice: Slice },
    /// A slice that is in place.
    Came { link: usize, lane: usize, slice: Slice },
    /// Nothing waits for it.
    Control,
}

/// The proxy with its connections.
#[derive(Default)]
pub(super) struct Net {
    /// Senders write; otherwise receivers read.
    writes: bool,
    rails: Vec<Rail>,
    made: Vec<Made>,
    links: Vec<Link>,
    numbers: BTreeMap<(u32, bool), usize>,
    /// The way through switches that reduce, of a head.
    outlet: Option<Outlet>,
    /// Ranks for which this proxy sends, and those whose proxies send for this rank (PXN).
    pub serves: BTreeSet<u32>,
    pub served_by: BTreeSet<u32>,
    /// Requests outstanding, by number.
    open: BTreeMap<u64, Done>,
    next: u64,
}

/// What a message between proxies says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    /// A slice is in its slots.
    Data,
    /// So many slots are empty.
    Room(u32),
    /// A slice is ready to be fetched.
    Ready,
    /// It was fetched; its slots.
    Fetched(u32),
}

impl Says {
    fn pack(self, number: u32, lane: usize) -> u32 {
        let (kind, count) = match self {
            Says::Data => (0, 0),
            Says::Room(count) => (1, count),
            Says::Ready => (2, 0),
            Says::Fetched(count) => (3, count),
        };
        (number << 8) | ((lane as u32) << 6) | (kind << 4) | (count & 15)
    }
    fn unpack(imm: u32) -> (u32, usize, Says) {
        let says = match (imm >> 4) & 3 {
            0 => Says::Data,
            1 => Says::Room(imm & 15),
            2 => Says::Ready,
            _ => Says::Fetched(imm & 15),
        };
        (imm >> 8, ((imm >> 6) & 3) as usize, says)
    }
}

impl Net {
    /// Makes queue pairs for those of `wires` that lead from or to other nodes, and tells the others of them.
    pub fn open(
        process: &Process,
        world: &Shared,
        (me, seat): (u32, RankPlacement),
        wires: &[(Wire, Option<NetWay>)],
    ) -> Result<Net, ProgramError> {
        let writes = world.rdma == Rdma::ReadWrite;
        let mut net = Net { writes, ..Net::default() };
        let mut across = Vec::new();
        for (number, (wire, way)) in wires.iter().enumerate() {
            // With PXN the proxy of another rank sends, and its GPU has the slots.
            let proxy = way.map_or(wire.from, |way| way.send_proxy);
            let (sends, receives) = (proxy == me, wire.to == me);
            if (sends || receives || wire.from == me) && world.seat_of(me, wire.from)?.node != world.seat_of(me, wire.to)?.node {
                if sends || receives {
                    across.push((number as u32, *wire, *way, sends));
                }
                if sends && wire.from != me {
                    net.serves.insert(wire.from);
                } else if wire.from == me && proxy != me {
                    net.served_by.insert(proxy);
                }
            }
        }
        if world.rdma == Rdma::None && !across.is_empty() {
            let what = "the adapters neither write nor read remote memory, which this model of NCCL needs between nodes";
            return Err(ProgramError(format!("{what}; take one node")));
        }
        for &(number, wire, way, sends) in &across {
            let told =
                way.map(|way| if sends { (way.send_adapter, way.send_gpudirect) } else { (way.receive_adapter, way.receive_gpudirect) });
            // Readers fetch whole slices.
            for stripe in 0..way.map_or(1, |way| if writes { way.rails } else { 1 }) {
                let told = told.map(|(adapter, reached)| (adapter + stripe, reached));
                let rail = net.rail(process, world, (me, seat), told, across.len() as u32)?;
                let at = &net.rails[rail];
                let qp = match at.shared {
                    Some(qp) => qp,
                    None => process.nic(at.nic, |nic| nic.create_qp(&queue_pair(at.pd, at.cq, QpType::Rc, 1)))?,
                };
                let memory = |mr: &Mr| (mr.addr, mr.rkey);
                let contact =
                    Contact { number, lid: process.lid(at.nic), qp, host: memory(&at.host), device: at.device.as_ref().map(memory) };
                world.exchange.put(me, ContactOf { wire, sends, stripe }, contact);
                net.made.push(Made { number, wire, sends, stripe, rail, qp });
            }
        }
        Ok(net)
    }

    /// Connects them, when all ranks have told of theirs.
    pub async fn connect(
        &mut self,
        process: &Process,
        world: &Shared,
        (me, seat): (u32, RankPlacement),
        node: &Rc<RefCell<Node>>,
        wires: &[(Wire, Option<NetWay>)],
    ) -> Result<(), ProgramError> {
        let made = std::mem::take(&mut self.made);
        let net = self;
        let across = made.iter().filter(|made| made.stripe == 0).count() as u32;
        for Made { number, wire, sends, stripe, rail, qp } in made {
            let found = world.exchange.get(me, ContactOf { wire, sends: !sends, stripe });
            let peer = found.ok_or_else(|| ProgramError(format!("rank {me}: {wire:?} has no other end")))?;
            let at = &net.rails[rail];
            let to = if at.shared.is_some() {
                let ah = process.nic(at.nic, |nic| nic.create_ah(at.pd, AhAttr { dlid: peer.lid, sl: 0 }))?;
                Some(UdDestination { ah, remote_qpn: peer.qp, remote_qkey: Peer::QKEY })
            } else {
                let there = Peer { lid: peer.lid, qp: peer.qp, sl: 0, mtu: world.mtu };
                process.nic(at.nic, |nic| nic.connect(qp, &there, Access::ALL))?;
                net.post_receives(process, rail, qp, RECEIVES)?;
                None
            };
            if let Some(link) = net.links.last_mut().filter(|_| stripe > 0) {
                link.stripes.push(Stripe { rail, qp, to, peer });
                continue;
            }
            let flush = wires[number as usize].1.is_none_or(|way| way.flush);
            let from = world.seat_of(me, wire.from)?.gpu;
            let lanes = net.lanes(process, (world.number, seat, from), node, (wire, sends), rail, peer.device.is_some())?;
            net.numbers.insert((number, sends), net.links.len());
            net.links.push(Link { wire, sends, flush, stripes: vec![Stripe { rail, qp, to, peer }], lanes });
        }
        let heads = wires.iter().filter(|(wire, _)| wire.from == me && wire.kind == WireKind::ToNetwork);
        let channels: Vec<u32> = heads.map(|(wire, _)| wire.channel).collect();
        if !channels.is_empty() {
            let rail = net.rail(process, world, (me, seat), None, across)?;
            let at = &net.rails[rail];
            let memory = at.device.as_ref().unwrap_or(&at.host);
            let region = Region { addr: memory.addr, lkey: memory.lkey };
            let place = super::in_network::SlotAddress { nic: at.nic, pd: at.pd, region, near: at.device.is_some() };
            net.outlet = Some(Outlet::open(process, world, (me, seat), node, place, &channels).await?);
        }
        Ok(())
    }

    /// An adapter, opened the first time: the one that the plan says and whether it reaches the GPU, or the nearest.
    fn rail(
        &mut self,
        process: &Process,
        world: &Shared,
        (me, seat): (u32, RankPlacement),
        told: Option<(u32, bool)>,
        links: u32,
    ) -> Result<usize, ProgramError> {
        let machine = process.devices()?.machine();
        let gpu = machine.gpus()[seat.gpu as usize];
        let adapters = machine.nics();
        let classes: Vec<_> = adapters.iter().take(process.nics()).map(|nic| machine.class(gpu, *nic)).collect();
        let nearest = classes.iter().min().copied();
        let equal: Vec<usize> = (0..classes.len()).filter(|nic| Some(classes[*nic]) == nearest).collect();
        let none = || ProgramError(format!("node {} has no adapter to other nodes", process.node()));
        let nearest = *equal.get(seat.gpu as usize % equal.len().max(1)).ok_or_else(none)?;
        let nic = told.map_or(nearest, |(nic, _)| nic as usize);
        if let Some(place) = self.rails.iter().position(|rail| rail.nic == nic) {
            return Ok(place);
        }
        let reached = told.map_or(classes[nearest] <= world.library_of(me).farthest, |(_, reached)| reached);
        let rail = open_rail(process, (nic, reached.then_some(seat.gpu)), world, me, links)?;
        self.rails.push(rail);
        let place = self.rails.len() - 1;
        if let Some(qp) = self.rails[place].shared {
            self.post_receives(process, place, qp, RECEIVES.saturating_mul(links))?;
        }
        Ok(place)
    }

    /// The FIFOs of a connection: LL in host memory, the others in the GPU's where the adapter reaches it.
    fn lanes(
        &self,
        process: &Process,
        (communicator, seat, from): (u32, RankPlacement, u32),
        node: &Rc<RefCell<Node>>,
        (wire, sends): (Wire, bool),
        rail: usize,
        there: bool,
    ) -> Result<[Lane; 3], ProgramError> {
        let devices = process.devices()?;
        let own = devices.vertex(Memory::Device(seat.gpu))?;
        let host = devices.vertex(devices.home(seat.gpu)?)?;
        // The GPU that fills the slots: another one than the proxy's with PXN.
        let writer = if sends { devices.vertex(Memory::Device(from))? } else { own };
        let (out, latency) = devices.way(writer, host, Moved::Write)?;
        let (into, back) = devices.way(host, own, Moved::Read)?;
        let lane = |protocol: Protocol| {
            let near = protocol != Protocol::Ll && self.rails[rail].device.is_some();
            let far = protocol != Protocol::Ll && there;
            let make = || {
                let local = || Ok::<_, ProgramError>(devices.way(writer, own, Moved::Write)?.0);
                let mut way = FifoPath { latency, back, ..FifoPath::default() };
                let (sender, receiver) = if sends {
                    way.uses = if near { local()?.to_vec() } else { out.to_vec() };
                    (FifoEnd::Block, FifoEnd::Proxy(seat.gpu))
                } else {
                    // The proxy's flag is a store of a core; the kernel's credit comes the other way.
                    (way.latency, way.back) = (back, latency);
                    way.takes = if near { Vec::new() } else { into.to_vec() };
                    (FifoEnd::Proxy(seat.gpu), FifoEnd::Block)
                };
                Ok(Fifo::new(way, SLOTS, sender, receiver))
            };
            let fifo = node.borrow_mut().fifo(communicator, (wire, protocol), make)?;
            if !sends && self.writes {
                // The sender knows from the beginning that all slots are empty.
                let _ = node.borrow_mut().kernels.occupy(fifo, Time::MAX, SLOTS);
            }
            Ok::<Lane, ProgramError>(Lane {
                fifo,
                device: (near, far),
                credits: SLOTS,
                filled: VecDeque::new(),
                ready: VecDeque::new(),
                sending: VecDeque::new(),
                sent: 0,
                coming: InOrder::default(),
                placed: InOrder::default(),
            })
        };
        Ok([lane(Protocol::Ll)?, lane(Protocol::Ll128)?, lane(Protocol::Simple)?])
    }

    /// The FIFO here of a connection.
    pub fn fifo(&self, wire: Wire, protocol: Protocol) -> Result<FifoId, ProgramError> {
        if let Some(fifo) = self.outlet.as_ref().filter(|_| wire.kind.is_of_network()).and_then(|outlet| outlet.fifo(wire)) {
            return Ok(fifo);
        }
        let link = self.links.iter().find(|link| link.wire == wire);
        let unknown = || ProgramError(format!("ranks {} and {} are not connected on channel {}", wire.from, wire.to, wire.channel));
        Ok(link.ok_or_else(unknown)?.lanes[protocol as usize].fifo)
    }
    /// Where completions show.
    pub fn queues(&self) -> Vec<(usize, CqId)> {
        self.rails.iter().map(|rail| (rail.nic, rail.cq)).chain(self.outlet.as_ref().map(Outlet::queue)).collect()
    }
    /// Nothing that this proxy sends is in slots or on the way.
    pub fn is_idle(&self, node: &Node) -> bool {
        let sent = |link: &Link| link.lanes.iter().all(|lane| node.kernels.is_empty(lane.fifo));
        self.links.iter().filter(|link| link.sends).all(sent) && self.outlet.as_ref().is_none_or(Outlet::is_idle)
    }
    /// A kernel will send so many slices of these channels through the switches.
    pub fn expect_of_network(&mut self, slices: Vec<(u32, u64)>) {
        if let Some(outlet) = &mut self.outlet {
            outlet.expect(slices);
        }
    }

    /// Carries on what there is.
    pub fn progress(&mut self, c: &Proxy, completions: &[(usize, Wc, Option<AppWords>)]) -> Result<(), ProgramError> {
        for (rail, wc, words) in completions {
            if let Some(outlet) = self.outlet.as_mut().filter(|_| *rail == self.rails.len()) {
                outlet.complete(wc)?;
                continue;
            }
            if wc.status != WcStatus::Success {
                return Err(ProgramError(format!("rank {}: {}", c.rank(), wc.status)));
            }
            if wc.opcode.is_recv() {
                let receive = receive(&self.rails[*rail]);
                c.process.post_recv(self.rails[*rail].nic, wc.qp_num, &receive)?;
                self.hear(c, wc, *words)?;
            } else if let Some(done) = self.open.remove(&wc.wr_id) {
                self.complete(c, done)?;
            }
        }
        for link in 0..self.links.len() {
            for lane in 0..self.links[link].lanes.len() {
                if self.rests(&c.node.borrow().kernels, link, lane) {
                    continue;
                }
                if self.links[link].sends { self.send(c, link, lane)? } else { self.receive(c, link, lane)? }
            }
        }
        if let Some(outlet) = &mut self.outlet {
            outlet.progress(c)?;
        }
        Ok(())
    }

    /// Nothing waits at a lane for this proxy: most of a rank's lanes are of protocols and channels that are not in use.
    fn rests(&self, kernels: &Kernels, link: usize, lane: usize) -> bool {
        let Link { sends, lanes, .. } = &self.links[link];
        let of = &lanes[lane];
        match (sends, self.writes) {
            (true, _) => of.filled.is_empty() && !kernels.has_filled(of.fifo),
            (false, true) => !kernels.has_room(of.fifo),
            (false, false) => of.ready.is_empty(),
        }
    }

    fn hear(&mut self, c: &Proxy, wc: &Wc, words: Option<AppWords>) -> Result<(), ProgramError> {
        let Some((number, lane, says)) = wc.imm.map(Says::unpack) else { return Ok(()) };
        let sends = matches!(says, Says::Room(_) | Says::Fetched(_));
        let Some(&link) = self.numbers.get(&(number, sends)) else { return Ok(()) };
        let fifo = self.links[link].lanes[lane].fifo;
        match says {
            Says::Room(slots) => self.links[link].lanes[lane].credits += slots,
            Says::Fetched(slots) => c.node.borrow_mut().kernels.release(fifo, c.process.now(), slots),
            Says::Data | Says::Ready => {
                let unheard = || ProgramError(format!("rank {}: a message says nothing of its slice", c.rank()));
                let slice = words.and_then(Slice::heard).ok_or_else(unheard)?;
                self.links[link].lanes[lane].coming.arrive(slice, slice.pieces);
                while let Some(slice) = self.links[link].lanes[lane].coming.next() {
                    c.process.compute(c.library().proxy_step + c.library().plugin);
                    if says == Says::Ready {
                        self.links[link].lanes[lane].ready.push_back(slice);
                    } else {
                        self.read_behind(c, link, lane, Done::Came { link, lane, slice })?;
                    }
                }
            }
        }
        Ok(())
    }

    fn complete(&mut self, c: &Proxy, done: Done) -> Result<(), ProgramError> {
        match done {
            Done::Control => Ok(()),
            Done::Sent { link, lane, number } => {
                let of = &mut self.links[link].lanes[lane];
                let first = of.sent.wrapping_sub(of.sending.len() as u32);
                let Some((pieces, _)) = of.sending.get_mut(number.wrapping_sub(first) as usize) else { return Ok(()) };
                *pieces -= 1;
                while let Some((0, slots)) = of.sending.front().copied() {
                    of.sending.pop_front();
                    c.node.borrow_mut().kernels.release(of.fifo, c.process.now(), slots);
                }
                Ok(())
            }
            Done::Came { link, lane, slice } => {
                let of = &mut self.links[link].lanes[lane];
                of.placed.arrive(slice, 1);
                while let Some(slice) = of.placed.next() {
                    c.node.borrow_mut().kernels.fill(of.fifo, c.process.now(), slice.bytes, slice.slots, slice.contents);
                }
                Ok(())
            }
            Done::Fetched { link, lane, slice } => {
                self.read_behind(c, link, lane, Done::Came { link, lane, slice })?;
                self.say(c, link, lane, Says::Fetched(slice.slots))
            }
        }
    }

    /// The sender: slices that the kernel has filled leave as far as there is room.
    fn send(&mut self, c: &Proxy, link: usize, lane: usize) -> Result<(), ProgramError> {
        let fifo = self.links[link].lanes[lane].fifo;
        loop {
            let filled = c.node.borrow_mut().kernels.take_filled(fifo, c.process.now());
            let Some(filled) = filled else { break };
            c.process.compute(c.library().proxy_step + c.library().plugin);
            self.links[link].lanes[lane].filled.push_back(filled);
        }
        while let Some(slice) = self.links[link].lanes[lane].filled.front().copied() {
            let Filled { bytes, slots, contents, .. } = slice;
            if self.writes && slots > self.links[link].lanes[lane].credits {
                break;
            }
            self.links[link].lanes[lane].filled.pop_front();
            let stripes = self.links[link].stripes.len() as u32;
            let connection = self.links[link].stripes[0].peer.number;
            let length = Protocol::ALL[lane].wire(bytes).saturating_u32();
            let pieces = if length > c.library().stripe { stripes } else { 1 };
            let of = &mut self.links[link].lanes[lane];
            let number = of.sent;
            let words = Slice { number, pieces, bytes, slots, contents }.words();
            of.sent = of.sent.wrapping_add(1);
            if !self.writes {
                let wr = self.control(c, link, lane, Says::Ready).saying(words);
                self.post(c, (link, 0), wr, Done::Control)?;
                continue;
            }
            of.credits -= slots;
            of.sending.push_back((pieces, slots));
            // Short messages take the adapters in turn.
            let first = if pieces == 1 { (self.next % u64::from(stripes)) as usize } else { 0 };
            let each = length.div_ceil(pieces);
            for piece in 0..pieces {
                let stripe = first + piece as usize;
                let (sge, remote) = self.ends((link, stripe), lane, each.min(length - piece * each));
                let wr = SendWr::write(0, sge, remote).with_imm(Says::Data.pack(connection, lane)).saying(words);
                self.post(c, (link, stripe), wr, Done::Sent { link, lane, number })?;
            }
        }
        Ok(())
    }

    /// The receiver: room is told as kernels empty slots, or slices are fetched into them.
    fn receive(&mut self, c: &Proxy, link: usize, lane: usize) -> Result<(), ProgramError> {
        let fifo = self.links[link].lanes[lane].fifo;
        let occupy = |slots| c.node.borrow_mut().kernels.occupy(fifo, c.process.now(), slots);
        if self.writes {
            let free = (0..SLOTS).take_while(|_| occupy(1)).count() as u32;
            if free > 0 {
                c.process.compute(c.library().proxy_step);
                self.say(c, link, lane, Says::Room(free))?;
            }
            return Ok(());
        }
        while let Some(slice) = self.links[link].lanes[lane].ready.front().copied().filter(|slice| occupy(slice.slots)) {
            self.links[link].lanes[lane].ready.pop_front();
            let length = Protocol::ALL[lane].wire(slice.bytes).saturating_u32();
            let (sge, remote) = self.ends((link, 0), lane, length);
            self.post(c, (link, 0), SendWr::read(0, sge, remote), Done::Fetched { link, lane, slice })?;
        }
        Ok(())
    }

    /// Where a piece of `length` bytes of a slice lies here and there.
    fn ends(&self, (link, stripe): (usize, usize), lane: usize, length: u32) -> (Sge, Remote) {
        let Link { stripes, lanes, .. } = &self.links[link];
        let (Stripe { rail, peer, .. }, lane_of) = (stripes[stripe], &lanes[lane]);
        let rail = &self.rails[rail];
        let own = rail.device.as_ref().filter(|_| lane_of.device.0).unwrap_or(&rail.host);
        let (addr, rkey) = peer.device.filter(|_| lane_of.device.1).unwrap_or(peer.host);
        (Sge { addr: own.addr, length, lkey: own.lkey }, Remote { addr, rkey })
    }

    fn control(&self, c: &Proxy, link: usize, lane: usize, says: Says) -> SendWr {
        let Stripe { rail, peer, .. } = self.links[link].stripes[0];
        let host = &self.rails[rail].host;
        let sge = Sge { addr: host.addr, length: c.library().control, lkey: host.lkey };
        SendWr::send(0, sge).with_imm(says.pack(peer.number, lane))
    }
    fn say(&mut self, c: &Proxy, link: usize, lane: usize, says: Says) -> Result<(), ProgramError> {
        let wr = self.control(c, link, lane, says);
        self.post(c, (link, 0), wr, Done::Control)
    }

    fn post(&mut self, c: &Proxy, (link, stripe): (usize, usize), wr: SendWr, done: Done) -> Result<(), ProgramError> {
        let Stripe { rail, qp, to, .. } = self.links[link].stripes[stripe];
        let wr = SendWr { wr_id: self.next, ..wr }.signaled();
        let wr = match to {
            Some(to) => wr.to(to),
            None => wr,
        };
        self.open.insert(self.next, done);
        self.next += 1;
        Ok(c.process.post_send(self.rails[rail].nic, qp, &wr)?)
    }

    /// The adapter reads the GPU's memory: what came before is in place when that is back.
    fn read_behind(&mut self, c: &Proxy, link: usize, lane: usize, done: Done) -> Result<(), ProgramError> {
        let of = &self.links[link];
        let rail = &self.rails[of.stripes[0].rail];
        let device = rail.device.as_ref().filter(|_| of.flush && of.lanes[lane].device.0);
        let (Some((qp, to)), Some(device)) = (rail.flush, device) else { return self.complete(c, done) };
        let sge = Sge { addr: rail.host.addr, length: FLUSH, lkey: rail.host.lkey };
        let wr = SendWr::read(self.next, sge, Remote { addr: device.addr, rkey: device.rkey }).signaled();
        let wr = match to {
            Some(to) => wr.to(to),
            None => wr,
        };
        self.open.insert(self.next, done);
        self.next += 1;
        Ok(c.process.post_send(rail.nic, qp, &wr)?)
    }

    fn post_receives(&self, process: &Process, rail: usize, qp: QpNum, count: u32) -> Result<(), ProgramError> {
        let rail = &self.rails[rail];
        let wr = receive(rail);
        (0..count).try_for_each(|_| Ok(process.post_recv(rail.nic, qp, &wr)?))
    }
}

fn receive(rail: &Rail) -> RecvWr {
    RecvWr::new(u64::MAX, Sge { addr: rail.host.addr, length: ROOM, lkey: rail.host.lkey })
}

fn open_rail(process: &Process, (nic, gpu): (usize, Option<u32>), world: &Shared, me: u32, links: u32) -> Result<Rail, VerbsError> {
    let base = MEMORY + (u64::from(process.rank()) << 40) + u64::from(world.number % COMMUNICATORS) * 2 * BUFFERS;
    let lid = process.lid(nic);
    process.nic(nic, |n| {
        let pd = n.alloc_pd();
        let host = n.reg_mr(pd, base, Bytes(BUFFERS), Access::ALL)?;
        let place = gpu.and_then(MemoryId::of_gpu);
        let device = place.map(|place| n.reg_mr_at(pd, base + BUFFERS, Bytes(BUFFERS), Access::ALL, place)).transpose()?;
        let cq = n.create_cq((RECEIVES + 2 * SENDS).saturating_mul(links.max(1)))?;
        let to = |qp| Peer { lid, qp, sl: 0, mtu: world.mtu };
        let shared = match world.datagrams {
            Some(transport) => {
                let qp = n.create_qp(&queue_pair(pd, cq, transport, links.max(1)))?;
                n.connect(qp, &to(qp), Access::ALL)?;
                Some(qp)
            }
            None => None,
        };
        let flush = match shared {
            _ if !world.library_of(me).flush || device.is_none() => None,
            Some(qp) => {
                let ah = n.create_ah(pd, AhAttr { dlid: lid, sl: 0 })?;
                Some((qp, Some(UdDestination { ah, remote_qpn: qp, remote_qkey: Peer::QKEY })))
            }
            None => {
                let qp = n.create_qp(&queue_pair(pd, cq, QpType::Rc, links.max(1)))?;
                n.connect(qp, &to(qp), Access::ALL)?;
                Some((qp, None))
            }
        };
        Ok(Rail { nic, pd, cq, host, device, shared, flush })
    })
}

fn queue_pair(pd: PdId, cq: CqId, qp_type: QpType, peers: u32) -> QpInit {
    let cap = QpCap { max_send_wr: SENDS.saturating_mul(peers), max_recv_wr: RECEIVES.saturating_mul(peers), ..QpCap::default() };
    QpInit { cap, ..QpInit::new(pd, qp_type, cq) }
}

/// Receives that stand ready for a connection: as many messages as can be on the way with three protocols, and as many answers.
const RECEIVES: u32 = 6 * SLOTS;
/// Requests of a connection that can be outstanding: as many.
const SENDS: u32 = 6 * SLOTS;
/// What is read behind a message, in bytes. Basis: published (NCCL, src/transport/net_ib.cc: one integer).
const FLUSH: u32 = 4;
/// Room of a receive for a message between proxies, in bytes. Basis: assumed; no bytes are moved.
const ROOM: u32 = 1 << 20;
/// Where a rank's memory lies, and how much there is for buffers. Basis: assumed; no bytes are moved.
const MEMORY: u64 = 0x4000_0000_0000;
const BUFFERS: u64 = 1 << 33;
/// Communicators of a rank that have buffers of their own there; further ones have those of the first again.
const COMMUNICATORS: u32 = 64;
