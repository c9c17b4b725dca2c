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
use fabriscope_schedule::{Match, OpKind, Schedule, ScheduleError};
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{
    Access, CqId, MemoryId, Mr, Mtu, Peer, QpCap, QpInit, QpNum, QpType, RecvWr, Remote, SendWr, Sge, VerbsError, WcOpcode, WcStatus,
};

use crate::training::tenant::firsts;

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
///
/// # Errors
/// Messages without partner.
pub(crate) fn programs(schedule: &Schedule, nodes: AdaptersOfNodes<'_>) -> Result<SchedulePrograms, ScheduleError> {
    let AdaptersOfNodes { nics, of_gpus, mtu } = nodes;
    let mut peers: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for rank in 0..schedule.ranks() {
        let kinds = schedule.kinds(rank);
        if !kinds.is_empty() {
            peers.entry(rank).or_default();
        }
        for other in kinds.iter().filter_map(|kind| kind.peer()) {
            peers.entry(rank).or_default().insert(other);
            peers.entry(other).or_default().insert(rank);
        }
    }
    let first = firsts(schedule);
    let mut taken_by: BTreeMap<u32, BTreeMap<u32, u32>> = BTreeMap::new();
    for Match { send, recv } in schedule.matches()? {
        taken_by.entry(send.rank).or_default().insert(send.op.0, recv.op.0);
    }
    let ops = Record::new(vec![OpTimes::default(); first.last().copied().unwrap_or(0)]);
    let shared = Arc::new(Shared { channels: Record::default(), ops: ops.clone(), mtu });
    let mut programs: Vec<(u32, Main)> = Vec::with_capacity(peers.len());
    for (rank, peers) in peers {
        let order = Order::new(schedule, rank..rank + 1);
        let gpu = (0..).zip(of_gpus).find(|(_, nic)| **nic == rank % nics).and_then(|(gpu, _)| MemoryId::of_gpu(gpu));
        let (shared, taken_by) = (Arc::clone(&shared), taken_by.remove(&rank).unwrap_or_default());
        let own = Own { rank, first: first[rank as usize], nic: (rank % nics) as usize, gpu };
        let main: Main = Box::new(move |process| Box::pin(async move { run(&process, &shared, own, (order, taken_by, peers)).await }));
        programs.push((rank / nics, main));
    }
    Ok(SchedulePrograms { programs, ops })
}

/// What all programs share.
struct Shared {
    /// Of each pair, by who sends and who receives.
    channels: Record<BTreeMap<(u32, u32), Channel>>,
    ops: Record<Vec<OpTimes>>,
    mtu: Mtu,
}

/// From one adapter to another: the receiver's queue pair and memory, and the messages on the way, each by the receive that takes it.
#[derive(Debug, Default)]
struct Channel {
    receiver: Option<(Peer, Remote)>,
    messages: VecDeque<u32>,
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
    /// Of each send, the receive of its peer.
    taken_by: BTreeMap<u32, u32>,
    /// Receives that have begun, and those whose message came before.
    receiving: BTreeSet<u32>,
    came: BTreeSet<u32>,
    links: Vec<Link>,
    by_peer: BTreeMap<u32, usize>,
    by_qp: BTreeMap<QpNum, usize>,
    computing: BinaryHeap<Reverse<(Time, u32)>>,
    ready: Vec<u32>,
    left: usize,
    begin: Time,
}

/// The operations of a rank, the receive that takes the message of each send, and the ranks that it has to do with.
type Part = (Order, BTreeMap<u32, u32>, BTreeSet<u32>);

async fn run(process: &Process, shared: &Shared, own: Own, part: Part) -> Result<(), ProgramError> {
    let mut this = Rank::open(process, shared, own, part).await?;
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
    async fn open(process: &'s Process, shared: &'s Shared, own: Own, (order, taken_by, peers): Part) -> Result<Rank<'s>, ProgramError> {
        let Own { rank: me, nic, gpu, .. } = own;
        let room = (peers.len() as u32).saturating_mul(2 * DEPTH).max(16);
        let cq = process.nic(nic, |n| n.create_cq(room))?;
        let left = order.len();
        let mut this = Rank {
            process,
            shared,
            own,
            cq,
            order,
            taken_by,
            receiving: BTreeSet::new(),
            came: BTreeSet::new(),
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
            this.links.push(Link { peer, qp, mr, there: None, posted: 0, waiting: VecDeque::new() });
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
                OpKind::Recv { .. } => {
                    if self.came.remove(&op) {
                        self.ended(op, now);
                    } else {
                        self.receiving.insert(op);
                    }
                }
                OpKind::Send { to, bytes, tag } => {
                    let channel = (self.own.rank, to);
                    self.shared.channels.lock().entry(channel).or_default().messages.extend(self.taken_by.get(&op));
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
        let channel = (link.peer, self.own.rank);
        let op = self.shared.channels.lock().get_mut(&channel).and_then(|channel| channel.messages.pop_front());
        let Some(op) = op else { return Ok(()) };
        if self.receiving.remove(&op) {
            self.ended(op, self.process.now());
        } else {
            self.came.insert(op);
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
