//! A schedule as programs, one at each adapter that has operations: what lets it run beside other programs.
//!
//! Modelled: a thread that posts what may begin, and takes completions, as the proxy of a library of collective operations does; a reliable
//! connection of each pair of adapters with messages for each other; a message is an RDMA write with immediate data, which is over for its sender
//! with the acknowledgement, and for its receiver once it is there and waited for; computing takes no core, as GPUs do it.
//! Not modelled: the set-up of connections, which takes no messages; buffers, which share their addresses.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;

use fabriscope_engine::{OpTimes, Order};
use fabriscope_node::{Main, Process, ProgramError, Record};
use fabriscope_schedule::{OpKind, Schedule};
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{
    Access, CqId, MemoryId, Mr, Mtu, Peer, QpCap, QpInit, QpNum, QpType, RecvWr, Remote, SendWr, Sge, VerbsError, WcOpcode, WcStatus,
};

/// Programs with the node of each, and when their operations will have begun and ended, counted from when all are connected.
pub(crate) struct SchedulePrograms {
    /// By adapter; those without operations have none.
    pub programs: Vec<(u32, Main)>,
    /// Of all operations, rank by rank.
    pub ops: Record<Vec<OpTimes>>,
}

/// Nodes as a schedule sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdaptersOfNodes<'s> {
    /// Adapters of a node: rank *r* is adapter *r* mod *nics* of node *r* / *nics*.
    pub nics: u32,
    /// The adapter of each GPU of a node: data are in the memory of the first that it is the adapter of, where it reaches that.
    pub of_gpus: &'s [u32],
    /// The largest payload of a packet.
    pub mtu: Mtu,
}

/// The programs of a schedule.
pub(crate) fn programs(schedule: &Schedule, nodes: AdaptersOfNodes<'_>) -> SchedulePrograms {
    let AdaptersOfNodes { nics, of_gpus, mtu } = nodes;
    let active: Vec<u32> = (0..schedule.ranks()).filter(|rank| !schedule.kinds(*rank).is_empty()).collect();
    let mut peers: BTreeMap<u32, BTreeSet<u32>> = active.iter().map(|rank| (*rank, BTreeSet::new())).collect();
    for rank in &active {
        for other in schedule.kinds(*rank).iter().filter_map(peer) {
            peers.entry(*rank).or_default().insert(other);
            peers.entry(other).or_default().insert(*rank);
        }
    }
    let all: usize = active.iter().map(|rank| schedule.kinds(*rank).len()).sum();
    let ops = Record::new(vec![OpTimes::default(); all]);
    let shared = Arc::new(Shared { channels: Record::default(), ops: ops.clone(), mtu });
    let mut first = 0;
    let mut programs: Vec<(u32, Main)> = Vec::with_capacity(peers.len());
    for (rank, peers) in peers {
        let order = Order::new(schedule, rank..rank + 1);
        let gpu = of_gpus.iter().position(|nic| *nic == rank % nics).and_then(|gpu| u8::try_from(gpu + 1).ok()).map(MemoryId);
        let (shared, own) = (Arc::clone(&shared), Own { rank, first, nic: (rank % nics) as usize, gpu });
        first += order.len();
        let main: Main = Box::new(move |process| Box::pin(async move { run(&process, &shared, own, (order, peers)).await }));
        programs.push((rank / nics, main));
    }
    SchedulePrograms { programs, ops }
}

fn peer(kind: &OpKind) -> Option<u32> {
    match *kind {
        OpKind::Send { to, .. } | OpKind::Put { to, .. } => Some(to),
        OpKind::Recv { from, .. } | OpKind::Get { from, .. } => Some(from),
        OpKind::Compute { .. } => None,
    }
}

/// Of each operation of a rank, which of those with its peer and tag it is.
fn numbers(order: &Order) -> Vec<u32> {
    let mut counts: BTreeMap<(bool, u32, u32), u32> = BTreeMap::new();
    let mut number = |op| {
        let key = match order.kind(op) {
            OpKind::Send { to, tag, .. } => (true, to, tag),
            OpKind::Recv { from, tag, .. } => (false, from, tag),
            _ => return 0,
        };
        let count = counts.entry(key).or_default();
        *count += 1;
        *count - 1
    };
    (0..order.len() as u32).map(&mut number).collect()
}

/// What all programs share.
struct Shared {
    /// Of each pair, by who sends and who receives.
    channels: Record<BTreeMap<(u32, u32), Channel>>,
    ops: Record<Vec<OpTimes>>,
    mtu: Mtu,
}

/// A message from one adapter to another: its tag, and which of those with that tag it is in the order of the schedule, in which they match.
type Matched = (u32, u32);

/// From one adapter to another: the receiver's queue pair and memory, and the messages on the way.
#[derive(Debug, Default)]
struct Channel {
    receiver: Option<(Peer, Remote)>,
    messages: VecDeque<Matched>,
}

/// One end of a connection.
struct Link {
    peer: u32,
    qp: QpNum,
    mr: Mr,
    there: Option<Remote>,
    /// Requests in flight, and those that wait for room.
    posted: u32,
    waiting: VecDeque<SendWr>,
    /// Messages that came before they were waited for, and receives that wait.
    came: BTreeSet<Matched>,
    receives: BTreeMap<Matched, u32>,
}

/// What a program is told of itself.
#[derive(Debug, Clone, Copy)]
struct Own {
    rank: u32,
    /// Where its operations begin among all.
    first: usize,
    nic: usize,
    /// The memory of its GPU.
    gpu: Option<MemoryId>,
}

struct Rank<'s> {
    process: &'s Process,
    shared: &'s Shared,
    own: Own,
    cq: CqId,
    order: Order,
    /// Of each operation, which of those with its peer and tag it is.
    numbers: Vec<u32>,
    links: Vec<Link>,
    by_peer: BTreeMap<u32, usize>,
    by_qp: BTreeMap<QpNum, usize>,
    computing: BinaryHeap<Reverse<(Time, u32)>>,
    ready: Vec<u32>,
    left: usize,
    begin: Time,
}

async fn run(process: &Process, shared: &Shared, own: Own, (order, peers): (Order, BTreeSet<u32>)) -> Result<(), ProgramError> {
    let mut this = Rank::open(process, shared, own, (order, peers)).await?;
    let nic = own.nic;
    this.begin = process.now();
    let all = 0..this.order.len() as u32;
    this.ready.extend(all.filter(|op| this.order.is_ready(*op)));
    this.start_ready()?;
    while this.left > 0 {
        let next = this.computing.peek().map_or(Time::MAX, |Reverse((at, _))| *at);
        process.wait_any_until(&[(nic, this.cq)], &[], next).await;
        for wc in process.poll_cq(nic, this.cq, MOST).await {
            if wc.status != WcStatus::Success {
                return Err(ProgramError(format!("an operation of the schedule with error: {} ({})", wc.status.text(), wc.status.name())));
            }
            let Some(link) = this.by_qp.get(&wc.qp_num).copied() else { continue };
            if wc.opcode == WcOpcode::RecvRdmaWithImm {
                this.arrived(link)?;
            } else {
                this.acknowledged(link, wc.wr_id as u32)?;
            }
        }
        while let Some(Reverse((at, op))) = this.computing.peek().copied()
            && at <= process.now()
        {
            this.computing.pop();
            this.ended(op, at);
        }
        this.start_ready()?;
    }
    // Others may still wait for what this adapter acknowledges by itself.
    Ok(())
}

impl<'s> Rank<'s> {
    async fn open(
        process: &'s Process,
        shared: &'s Shared,
        own: Own,
        (order, peers): (Order, BTreeSet<u32>),
    ) -> Result<Rank<'s>, ProgramError> {
        let Own { rank: me, nic, gpu, .. } = own;
        let room = (peers.len() as u32).saturating_mul(2 * DEPTH).max(16);
        let cq = process.nic(nic, |n| n.create_cq(room))?;
        let (left, numbers) = (order.len(), numbers(&order));
        let mut this = Rank {
            process,
            shared,
            own,
            cq,
            order,
            numbers,
            links: Vec::new(),
            by_peer: BTreeMap::new(),
            by_qp: BTreeMap::new(),
            computing: BinaryHeap::new(),
            ready: Vec::new(),
            left,
            begin: Time::ZERO,
        };
        let near = process.place(nic);
        for (number, peer) in (0..).zip(peers) {
            let (qp, mr) = process.nic(nic, |n| -> Result<_, VerbsError> {
                let pd = n.alloc_pd();
                let mut at = |place| n.reg_mr_at(pd, BUFFERS + number * BETWEEN, LARGEST, Access::ALL, place);
                let mr = gpu.and_then(|gpu| at(gpu).ok()).map_or_else(|| at(near), Ok)?;
                let cap = QpCap { max_send_wr: DEPTH, max_recv_wr: DEPTH, ..QpCap::default() };
                Ok((n.create_qp(&QpInit { cap, ..QpInit::new(pd, QpType::Rc, cq) })?, mr))
            })?;
            let receiver = (Peer { lid: process.lid(nic), qp, sl: 0, mtu: shared.mtu }, Remote { addr: mr.addr, rkey: mr.rkey });
            shared.channels.lock().entry((peer, me)).or_default().receiver = Some(receiver);
            this.by_peer.insert(peer, this.links.len());
            this.by_qp.insert(qp, this.links.len());
            let (waiting, came, receives) = (VecDeque::new(), BTreeSet::new(), BTreeMap::new());
            this.links.push(Link { peer, qp, mr, there: None, posted: 0, waiting, came, receives });
        }
        process.barrier().await;
        for link in &mut this.links {
            let receiver = shared.channels.lock().get(&(me, link.peer)).and_then(|channel| channel.receiver);
            let (peer, remote) = receiver.ok_or_else(|| ProgramError("a peer of the schedule opened no queue pair".to_owned()))?;
            process.nic(nic, |n| n.connect(link.qp, &peer, Access::ALL))?;
            (0..DEPTH).try_for_each(|_| link.post_receive(process, nic))?;
            link.there = Some(remote);
        }
        process.barrier().await;
        Ok(this)
    }

    /// Begins what waits for nothing any more, and what that lets begin.
    fn start_ready(&mut self) -> Result<(), ProgramError> {
        let mut begun = 0;
        while let Some(op) = self.ready.get(begun).copied() {
            begun += 1;
            let now = self.process.now();
            self.shared.ops.lock()[self.own.first + op as usize].started = self.counted(now);
            self.order.started(op, &mut self.ready);
            match self.order.kind(op) {
                OpKind::Compute { span } => self.computing.push(Reverse((now.saturating_add(span), op))),
                OpKind::Recv { from, tag, .. } => {
                    let (link, message) = (&mut self.links[self.by_peer[&from]], (tag, self.numbers[op as usize]));
                    if link.came.remove(&message) {
                        self.ended(op, now);
                    } else {
                        link.receives.insert(message, op);
                    }
                }
                OpKind::Send { to, bytes, tag } => {
                    self.shared
                        .channels
                        .lock()
                        .entry((self.own.rank, to))
                        .or_default()
                        .messages
                        .push_back((tag, self.numbers[op as usize]));
                    self.post(op, to, bytes, |id, sge, there| SendWr::write(id, sge, there).with_imm(tag))?;
                }
                OpKind::Put { to, bytes } => self.post(op, to, bytes, SendWr::write)?,
                OpKind::Get { from, bytes } => self.post(op, from, bytes, SendWr::read)?,
            }
        }
        self.ready.clear();
        Ok(())
    }
    fn post(&mut self, op: u32, peer: u32, bytes: Bytes, request: impl Fn(u64, Sge, Remote) -> SendWr) -> Result<(), ProgramError> {
        let link = &mut self.links[self.by_peer[&peer]];
        let Some(there) = link.there else { return Ok(()) };
        if bytes > LARGEST {
            return Err(ProgramError(format!("a message of {bytes}, and one request moves at most {LARGEST}")));
        }
        let sge = Sge { addr: link.mr.addr, length: bytes.0 as u32, lkey: link.mr.lkey };
        link.waiting.push_back(request(u64::from(op), sge, there).signaled());
        link.pump(self.process, self.own.nic)
    }

    /// A message came; which one, its sender has noted in the order of sending.
    fn arrived(&mut self, link: usize) -> Result<(), ProgramError> {
        let link = &mut self.links[link];
        link.post_receive(self.process, self.own.nic)?;
        let key = (link.peer, self.own.rank);
        let message = self.shared.channels.lock().get_mut(&key).and_then(|channel| channel.messages.pop_front());
        let Some(message) = message else { return Ok(()) };
        match link.receives.remove(&message) {
            Some(op) => self.ended(op, self.process.now()),
            None => drop(link.came.insert(message)),
        }
        Ok(())
    }
    fn acknowledged(&mut self, link: usize, op: u32) -> Result<(), ProgramError> {
        let link = &mut self.links[link];
        link.posted -= 1;
        link.pump(self.process, self.own.nic)?;
        self.ended(op, self.process.now());
        Ok(())
    }
    fn ended(&mut self, op: u32, at: Time) {
        self.shared.ops.lock()[self.own.first + op as usize].ended = self.counted(at);
        self.left -= 1;
        self.order.ended(op, &mut self.ready);
    }
    /// The time since all are connected.
    fn counted(&self, at: Time) -> Time {
        Time::ZERO.saturating_add(at.since(self.begin))
    }
}

impl Link {
    fn post_receive(&self, process: &Process, nic: usize) -> Result<(), ProgramError> {
        let sge = Sge { addr: self.mr.addr, length: 0, lkey: self.mr.lkey };
        Ok(process.post_recv(nic, self.qp, &RecvWr::new(0, sge))?)
    }
    fn pump(&mut self, process: &Process, nic: usize) -> Result<(), ProgramError> {
        while self.posted < DEPTH
            && let Some(request) = self.waiting.pop_front()
        {
            process.post_send(nic, self.qp, &request)?;
            self.posted += 1;
        }
        Ok(())
    }
}

/// Requests and receives of a connection. Basis: assumed (NCCL has 8 slices in flight by channel; a connection here carries all channels).
const DEPTH: u32 = 256;
/// Completions of one poll. Basis: assumed.
const MOST: usize = 64;
/// The largest message. Basis: IBA vol. 1, 9.7.2 (2 GiB).
const LARGEST: Bytes = Bytes(1 << 31);
/// Where buffers of a node lie, and how far from each other. Basis: assumed; it decides nothing.
const BUFFERS: u64 = 0x80_0000_0000;
const BETWEEN: u64 = 0x1_0000_0000;
