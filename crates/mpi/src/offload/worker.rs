//! A worker: a program on a core of the adapter that carries out what the ranks of its node hand over.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use fabriscope_collectives::{Action, Buffer, Message, Move, Round, Rounds};
use fabriscope_node::{Process, ProgramError};
use fabriscope_units::Bytes;
use fabriscope_verbs::{
    Access, CqId, Lkey, Mr, Nic, PdId, Peer, QpCap, QpInit, QpNum, QpType, RecvWr, Remote, Rkey, SendFlags, SendWr, Sge, SrqId, VerbsError,
    WatchId, Wc, WcStatus,
};

use super::super::one_sided::OneSided;
use super::super::rounds::reduction_streams;
use super::links::{DEPTH, Links, Next, Signal};
use super::state::{ConnectionEnd, ContactOf, CrossedOf, Notice, OffloadState, Order, Product, Queues, RingOf, StagingOf, Work, WorkerId};
use super::task::{Step, Task, TaskId};

/// A rank that it serves.
struct Served {
    rank: u32,
    /// Its ring, and the descriptors taken from it.
    watch: WatchId,
    taken: u64,
}

pub(super) struct Worker {
    process: Process,
    desk: OffloadState,
    /// What it shares with its ranks.
    queues: Rc<Queues>,
    me: WorkerId,
    cq: CqId,
    srq: SrqId,
    /// Its own memory: rings, receives, staged payload.
    own: Mr,
    served: Vec<Served>,
    /// The memory of its ranks, registered across: first byte and keys.
    crossed: BTreeMap<u32, (u64, Lkey, Rkey)>,
    links: Links,
    tasks: BTreeMap<TaskId, Task>,
    woken: BTreeSet<TaskId>,
    /// Receivers that may be written to.
    ready: BTreeSet<(u32, u64)>,
    /// What has come and nobody asked for yet: (rank, operation, from).
    arrived: BTreeMap<(u32, u64, u32), u32>,
}

/// The program of a worker that this rank has started.
pub(super) async fn run(process: Process, desk: OffloadState, (me, starter): (WorkerId, u32)) -> Result<(), ProgramError> {
    desk.0.exchange.start(starter, process.rank());
    let mut worker = Worker::open(process, desk, me).await?;
    worker.process.serve();
    loop {
        worker.turn().await?;
    }
}

impl Worker {
    async fn open(process: Process, desk: OffloadState, me: WorkerId) -> Result<Worker, ProgramError> {
        let shared = &desk.0;
        let (ranks, all) = (shared.ranks_of(me), shared.workers(None));
        let (place, number) = (process.place(NIC), process.rank());
        let queues = process.segments().of(shared, Queues::default);
        let base = OWN + (u64::from(me) << 36);
        let create = |n: &mut Nic| -> Result<(PdId, CqId, SrqId, Mr), VerbsError> {
            let pd = n.alloc_pd();
            let receives = RECEIVES.max(4 * all.len() as u32);
            let cq = n.create_cq(receives + (all.len() + ranks.len()) as u32 * DEPTH as u32)?;
            let own = n.reg_mr_at(pd, base, Bytes(STAGING + (1 << 33)), Access::ALL, place)?;
            let srq = n.create_srq(pd, receives, 1)?;
            Ok((pd, cq, srq, own))
        };
        let (pd, cq, srq, own) = process.nic(NIC, create)?;
        let mut worker = Worker {
            process,
            desk: desk.clone(),
            queues,
            me,
            cq,
            srq,
            own,
            served: Vec::new(),
            crossed: BTreeMap::new(),
            links: Links::new(NIC),
            tasks: BTreeMap::new(),
            woken: BTreeSet::new(),
            ready: BTreeSet::new(),
            arrived: BTreeMap::new(),
        };
        shared.exchange.put(number, StagingOf { worker: me }, (base + STAGING, own.rkey));
        for _ in 0..RECEIVES.max(4 * all.len() as u32) {
            worker.post_receive()?;
        }
        for (at, rank) in ranks.iter().copied().enumerate() {
            let seat = shared.seat(number, rank)?;
            let ring = base + at as u64 * RING;
            let watch = worker.process.nic(NIC, |n| n.create_watch(ring, Bytes(RING)));
            worker.served.push(Served { rank, watch, taken: 0 });
            shared.exchange.put(number, RingOf { rank }, (ring, own.rkey));
            if !shared.settings.staged {
                // The key of the host's registration, as the cores may use it (GVMI).
                let across = |n: &mut Nic| n.reg_mr_at(pd, seat.user, Bytes(seat.length), Access::ALL, seat.place);
                let key = worker.process.nic(NIC, across)?;
                worker.crossed.insert(rank, (seat.user, key.lkey, key.rkey));
                shared.exchange.put(number, CrossedOf { rank }, key.rkey);
            }
            worker.create(pd, ConnectionEnd::Rank(rank))?;
        }
        for other in all {
            worker.create(pd, ConnectionEnd::Worker(other))?;
        }
        shared.exchange.fence(&worker.process).await;
        let pairs: Vec<(ConnectionEnd, QpNum)> = worker.links.all().collect();
        for (end, qp) in pairs {
            connect(&worker.process, NIC, &desk, ConnectionEnd::Worker(me), end, qp)?;
        }
        worker.process.barrier().await;
        Ok(worker)
    }

    fn create(&mut self, pd: PdId, end: ConnectionEnd) -> Result<(), ProgramError> {
        let inline = Bytes(self.desk.0.inline.into());
        let cap = QpCap { max_send_wr: DEPTH as u32, max_inline_data: inline, ..QpCap::default() };
        let init = QpInit { cap, srq: Some(self.srq), ..QpInit::new(pd, QpType::Rc, self.cq) };
        let qp = self.process.nic(NIC, |n| n.create_qp(&init))?;
        self.links.add(end, qp);
        let key = ContactOf { from: ConnectionEnd::Worker(self.me), to: end };
        self.desk.0.exchange.put(self.process.rank(), key, (self.process.lid(NIC), qp));
        Ok(())
    }

    fn post_receive(&self) -> Result<(), ProgramError> {
        let sge = Sge { addr: self.own.addr + RECEIVED, length: self.desk.0.settings.notice, lkey: self.own.lkey };
        Ok(self.process.post_srq_recv(NIC, self.srq, &RecvWr::new(0, sge))?)
    }

    /// Waits for something to do and does it: what came, what was handed over, what can go on.
    async fn turn(&mut self) -> Result<(), ProgramError> {
        let rings: Vec<_> = self.served.iter().map(|served| (NIC, served.watch, served.taken + 1)).collect();
        self.process.wait_any(&[(NIC, self.cq)], &rings).await;
        let begun = self.process.now();
        self.process.compute(self.desk.0.settings.turn);
        while self.process.earliest(&[(NIC, self.cq)], &[]).is_some_and(|at| at <= self.process.now()) {
            for wc in self.process.poll_cq(NIC, self.cq, POLL_BATCH).await {
                self.complete(&wc)?;
            }
        }
        for index in 0..self.served.len() {
            let (Served { rank, watch, .. }, now) = (&self.served[index], self.process.now());
            let (rank, watch) = (*rank, *watch);
            let count = self.process.nic(NIC, |n| n.watch_count(watch, now));
            while self.served[index].taken < count {
                self.served[index].taken += 1;
                let order = self.queues.orders.borrow_mut().get_mut(&rank).and_then(std::collections::VecDeque::pop_front);
                if let Some(order) = order {
                    self.begin(rank, order)?;
                }
            }
        }
        while let Some(id) = self.woken.pop_first() {
            self.advance(id)?;
        }
        self.process.note_work(begun, &[("worker: turn", self.desk.0.settings.turn)], || "worker: tasks".to_owned());
        self.links.flush(&self.process)
    }

    /// A rank has handed something over.
    fn begin(&mut self, rank: u32, order: Order) -> Result<(), ProgramError> {
        self.process.compute(self.desk.0.settings.step + self.process.cpu().dma_touch);
        let Order { number, op, work } = order;
        let piece = |bytes: u32| Buffer::Recv.piece(Bytes::ZERO, Bytes(bytes.into()));
        let mut result = None;
        let (rounds, pending): (Rounds, u32) = match work {
            Work::Collective { call, algorithm, group, index } => {
                let mut sources = BTreeSet::new();
                for round in algorithm.rounds(&call, index) {
                    for message in &round.receives {
                        sources.insert(self.desk.0.worker_of(group.rank(message.peer))?);
                    }
                }
                for source in sources {
                    self.tell_ready(source, rank, op)?;
                }
                let among = move |mut round: Round| {
                    round.receives.iter_mut().chain(&mut round.sends).for_each(|message| message.peer = group.rank(message.peer));
                    round
                };
                (Box::new(algorithm.rounds(&call, index).map(among)), 0)
            }
            Work::Product(Product { gets, computes, put }) => {
                for (target, bytes) in &gets {
                    self.process.compute(self.desk.0.settings.step);
                    let (sge, there) = (self.staged(*bytes), self.remote(*target)?);
                    let link = ConnectionEnd::Worker(self.desk.0.worker_of(*target)?);
                    self.links.push(link, SendWr::read(0, sge, there), Some(Signal::Moved((rank, number))))?;
                }
                result = Some((computes, put));
                (Box::new(std::iter::empty()), gets.len() as u32)
            }
            Work::Send { to, bytes } => {
                let round = Round { sends: vec![piece(bytes).with(to)], ..Round::default() };
                (Box::new(std::iter::once(round)), 0)
            }
            Work::Receive { from } => {
                self.tell_ready(self.desk.0.worker_of(from)?, rank, op)?;
                let round = Round { receives: vec![piece(0).with(from)], ..Round::default() };
                (Box::new(std::iter::once(round)), 0)
            }
            Work::OneSided { what, target, bytes, between } => {
                let (mut sge, mut there) = (self.buffer(rank, bytes)?, self.remote(target)?);
                (sge.addr, there.addr) = between.unwrap_or((sge.addr, there.addr));
                let wr = if what == OneSided::Put { SendWr::write(0, sge, there) } else { SendWr::read(0, sge, there) };
                let link = ConnectionEnd::Worker(self.desk.0.worker_of(target)?);
                self.links.push(link, wr, Some(Signal::Moved((rank, number))))?;
                (Box::new(std::iter::empty()), 1)
            }
        };
        let task = Task { pending, result, ..Task::new(rank, number, op, rounds) };
        self.woken.insert(task.id());
        self.tasks.insert(task.id(), task);
        Ok(())
    }

    /// The buffers of `receiver` may be written by the ranks of a worker.
    fn tell_ready(&mut self, worker: WorkerId, receiver: u32, op: u64) -> Result<(), ProgramError> {
        if worker == self.me {
            self.be_ready(receiver, op);
            return Ok(());
        }
        self.process.compute(self.desk.0.settings.step);
        let length = self.desk.0.settings.notice;
        let mut wr = SendWr::send(0, Sge { addr: self.own.addr + RECEIVED, length, lkey: self.own.lkey });
        if length <= self.desk.0.inline {
            wr = wr.with_flags(SendFlags::INLINE);
        }
        self.links.push(ConnectionEnd::Worker(worker), wr.saying(Notice::Ready { receiver, op }.words()), None)
    }

    fn be_ready(&mut self, receiver: u32, op: u64) {
        self.ready.insert((receiver, op));
        let concerned = self.tasks.values().filter(|task| task.op == op && task.sends.iter().any(|message| message.peer == receiver));
        let concerned: Vec<TaskId> = concerned.map(Task::id).collect();
        self.woken.extend(concerned);
    }

    fn complete(&mut self, wc: &Wc) -> Result<(), ProgramError> {
        if wc.status == WcStatus::Success && wc.opcode.is_recv() {
            self.post_receive()?;
            if !matches!(self.links.peer(wc.qp_num), Some(ConnectionEnd::Worker(_))) {
                return Ok(());
            }
            self.process.compute(self.desk.0.settings.step);
            let words = self.process.nic(NIC, |n| n.words(wc));
            return match words.and_then(Notice::heard) {
                Some(Notice::Ready { receiver, op }) => {
                    self.be_ready(receiver, op);
                    Ok(())
                }
                Some(Notice::Data { to, from, op, bytes }) if self.desk.0.settings.staged && bytes > 0 => {
                    let (sge, there) = (self.staged(bytes), self.host(to)?);
                    self.links.push(ConnectionEnd::Rank(to), SendWr::write(0, sge, there), Some(Signal::Landed { to, from, op }))
                }
                Some(Notice::Data { to, from, op, .. }) => {
                    self.arrive(to, from, op);
                    Ok(())
                }
                None => Ok(()),
            };
        }
        for signal in self.links.complete(wc)? {
            match signal {
                Signal::Moved(id) => self.moved(id),
                Signal::Landed { to, from, op } => self.arrive(to, from, op),
                Signal::Fetched(id, Next::To { rank, bytes }) => {
                    let op = self.tasks.get(&id).map_or(0, |task| task.op);
                    self.write_to(id, rank, bytes, op, self.staged(bytes))?;
                }
                Signal::Fetched(id, next @ (Next::Back { bytes } | Next::Reduced { bytes })) => {
                    if let Next::Reduced { .. } = next {
                        // The core serves nobody else meanwhile.
                        self.process.copy(reduction_streams(Bytes(bytes.into())), Bytes(u64::MAX));
                    }
                    let (sge, there) = (self.staged(bytes), self.host(id.0)?);
                    self.links.push(ConnectionEnd::Rank(id.0), SendWr::write(0, sge, there), Some(Signal::Moved(id)))?;
                }
            }
        }
        Ok(())
    }

    fn moved(&mut self, id: TaskId) {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.pending = task.pending.saturating_sub(1);
            self.woken.insert(id);
        }
    }

    fn arrive(&mut self, to: u32, from: u32, op: u64) {
        *self.arrived.entry((to, op, from)).or_default() += 1;
        let concerned: Vec<TaskId> = self.tasks.values().filter(|task| task.rank == to && task.op == op).map(Task::id).collect();
        self.woken.extend(concerned);
    }

    /// Goes on with a task as far as it can.
    fn advance(&mut self, id: TaskId) -> Result<(), ProgramError> {
        let Some(mut task) = self.tasks.remove(&id) else { return Ok(()) };
        loop {
            match task.step {
                _ if task.pending > 0 && task.step != Step::Exchange => break,
                Step::Between => {
                    if let Some((computes, (target, bytes))) = task.result.take() {
                        // The core serves nobody else meanwhile.
                        self.process.compute(computes);
                        let (sge, there) = (self.staged(bytes), self.remote(target)?);
                        let link = ConnectionEnd::Worker(self.desk.0.worker_of(target)?);
                        self.links.push(link, SendWr::write(0, sge, there), Some(Signal::Moved(id)))?;
                        self.links.flush(&self.process)?;
                        task.pending = 1;
                        continue;
                    }
                    let Some(round) = task.rounds.next() else { return self.finish(&task) };
                    if round.joint.is_some() {
                        return Err(ProgramError("a worker on a DPU asks no switches; take another algorithm".to_owned()));
                    }
                    task.pending = self.copy(id, &round.before)?;
                    (task.round, task.step) = (round, Step::Opening);
                }
                Step::Opening => {
                    task.sends = std::mem::take(&mut task.round.sends);
                    task.receives = task.round.receives.iter().map(|message| message.peer).collect();
                    task.step = Step::Exchange;
                }
                Step::Exchange => {
                    let sends = std::mem::take(&mut task.sends);
                    for message in sends {
                        if self.ready.contains(&(message.peer, task.op)) {
                            task.pending += 1;
                            self.send(&task, &message)?;
                        } else {
                            task.sends.push(message);
                        }
                    }
                    let (op, arrived) = (task.op, &mut self.arrived);
                    task.receives.retain(|from| match arrived.get_mut(&(id.0, op, *from)) {
                        Some(count) => {
                            *count -= 1;
                            if *count == 0 {
                                arrived.remove(&(id.0, op, *from));
                            }
                            false
                        }
                        None => true,
                    });
                    if task.pending > 0 || !task.sends.is_empty() || !task.receives.is_empty() {
                        break;
                    }
                    let after = std::mem::take(&mut task.round.after);
                    task.pending = self.copy(id, &after)?;
                    task.step = Step::Closing;
                }
                Step::Closing => task.step = Step::Between,
            }
        }
        self.tasks.insert(id, task);
        Ok(())
    }

    /// Copies within the memory of the rank: writes that the adapter turns back; reductions: operands come into the worker's memory, where
    /// one of them is if payload is staged, and the result goes back. How many.
    fn copy(&mut self, id: TaskId, moves: &[Move]) -> Result<u32, ProgramError> {
        let mut count = 0;
        for this in moves.iter().filter(|this| !this.is_idle() && this.to.bytes > Bytes::ZERO) {
            self.process.compute(self.desk.0.settings.step);
            let bytes = length(this.to.bytes)?;
            if this.action != Action::Copy {
                let operands = if self.desk.0.settings.staged { bytes } else { length(this.to.bytes * 2)? };
                self.fetch(id, Next::Reduced { bytes }, operands)?;
            } else if self.desk.0.settings.staged {
                self.fetch(id, Next::Back { bytes }, bytes)?;
            } else {
                let (sge, there) = (self.buffer(id.0, bytes)?, self.remote(id.0)?);
                self.links.push(ConnectionEnd::Worker(self.me), SendWr::write(0, sge, there), Some(Signal::Moved(id)))?;
            }
            count += 1;
        }
        Ok(count)
    }

    fn send(&mut self, task: &Task, message: &Message) -> Result<(), ProgramError> {
        self.process.compute(self.desk.0.settings.step);
        let bytes = length(message.piece.bytes)?;
        if self.desk.0.settings.staged && bytes > 0 {
            return self.fetch(task.id(), Next::To { rank: message.peer, bytes }, bytes);
        }
        let from = if bytes == 0 { self.staged(0) } else { self.buffer(task.rank, bytes)? };
        self.write_to(task.id(), message.peer, bytes, task.op, from)
    }

    /// Reads from the memory of a rank into that of the worker.
    fn fetch(&mut self, id: TaskId, next: Next, bytes: u32) -> Result<(), ProgramError> {
        let (sge, there) = (self.staged(bytes), self.host(id.0)?);
        self.links.push(ConnectionEnd::Rank(id.0), SendWr::read(0, sge, there), Some(Signal::Fetched(id, next)))
    }

    /// Writes a message to another rank, or to where its worker stages it, and tells that worker.
    fn write_to(&mut self, id: TaskId, to: u32, bytes: u32, op: u64, from: Sge) -> Result<(), ProgramError> {
        let worker = self.desk.0.worker_of(to)?;
        let told = self.desk.0.exchange.get(self.process.rank(), StagingOf { worker });
        let staging = || told.map(|(addr, rkey)| Remote { addr, rkey });
        let there = if self.desk.0.settings.staged { staging().ok_or_else(|| unknown(to))? } else { self.remote(to)? };
        let wr = SendWr::write(0, from, there).with_imm(0).saying(Notice::Data { to, from: id.0, op, bytes }.words());
        self.links.push(ConnectionEnd::Worker(worker), wr, Some(Signal::Moved(id)))
    }

    /// All of a task is done: the rank's counter says so.
    fn finish(&mut self, task: &Task) -> Result<(), ProgramError> {
        self.process.compute(self.desk.0.settings.step);
        let (addr, rkey) = self.desk.0.seat(self.process.rank(), task.rank)?.counter;
        self.queues.done.borrow_mut().entry(task.rank).or_default().push_back(task.number);
        let sge = Sge { addr: self.own.addr + RECEIVED, length: WORD, lkey: self.own.lkey };
        let wr = SendWr::write(0, sge, Remote { addr, rkey }).with_flags(SendFlags::INLINE);
        self.links.push(ConnectionEnd::Rank(task.rank), wr, None)
    }

    /// The buffer of an own rank, by the key registered across.
    fn buffer(&self, rank: u32, length: u32) -> Result<Sge, ProgramError> {
        let (addr, lkey, _) = self.crossed.get(&rank).ok_or_else(|| unknown(rank))?;
        Ok(Sge { addr: *addr, length, lkey: *lkey })
    }
    /// The buffer of any rank, by the key that its worker knows.
    fn remote(&self, rank: u32) -> Result<Remote, ProgramError> {
        let (shared, me) = (&self.desk.0, self.process.rank());
        let rkey = shared.exchange.get(me, CrossedOf { rank }).ok_or_else(|| unknown(rank))?;
        Ok(Remote { addr: shared.seat(me, rank)?.user, rkey })
    }
    /// The buffer of an own rank, by the rank's own key.
    fn host(&self, rank: u32) -> Result<Remote, ProgramError> {
        let seat = self.desk.0.seat(self.process.rank(), rank)?;
        Ok(Remote { addr: seat.user, rkey: seat.rkey })
    }
    fn staged(&self, length: u32) -> Sge {
        Sge { addr: self.own.addr + STAGING, length, lkey: self.own.lkey }
    }
}

/// Connects one end of a pair, once both have said which queue pair it is.
pub(super) fn connect(
    process: &Process,
    nic: usize,
    desk: &OffloadState,
    me: ConnectionEnd,
    end: ConnectionEnd,
    qp: QpNum,
) -> Result<(), ProgramError> {
    let contact = desk.0.exchange.get(process.rank(), ContactOf { from: end, to: me });
    let (lid, remote) = contact.ok_or_else(|| ProgramError(format!("{me:?} wants to talk to {end:?}, which does not expect it")))?;
    let peer = Peer { lid, qp: remote, sl: 0, mtu: desk.0.mtu };
    process.nic(nic, |n| n.connect(qp, &peer, Access::ALL)).map_err(ProgramError::from)
}

fn unknown(rank: u32) -> ProgramError {
    ProgramError(format!("a worker has no key for the memory of rank {rank}"))
}

fn length(bytes: Bytes) -> Result<u32, ProgramError> {
    u32::try_from(bytes.0).map_err(|_| ProgramError(format!("a worker is to move {bytes} at once; use smaller blocks")))
}

/// The adapter on which it is.
pub(super) const NIC: usize = 0;
/// Receives that it keeps posted, at least. Basis: assumed.
const RECEIVES: u32 = 1024;
/// Completions taken per poll. Basis: assumed, as the library's on the host.
const POLL_BATCH: usize = 16;
/// Where a worker's memory lies, and in it the buffers of notices and of staged payload. Basis: assumed; no bytes are moved.
const OWN: u64 = 0x4000_0000_0000;
const RECEIVED: u64 = 1 << 32;
const STAGING: u64 = 1 << 33;
/// Room for the descriptors of a rank. Basis: assumed.
const RING: u64 = 1 << 16;
/// A word of completion, in bytes. Basis: assumed.
const WORD: u32 = 8;
