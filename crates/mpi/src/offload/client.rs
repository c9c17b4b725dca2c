//! The rank's side: it writes descriptors to its worker and looks at a counter.

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use fabriscope_collectives::{Algorithm, Call, Group, Kind};
use fabriscope_node::{Core, Process, ProgramError};
use fabriscope_units::Bytes;
use fabriscope_verbs::{Access, CqId, Mr, Nic, QpCap, QpInit, QpNum, QpType, Remote, SendFlags, SendWr, Sge, VerbsError, WatchId};

use super::super::one_sided::OneSided;
use super::super::rank::Rank;
use super::super::request::{Carried, Request};
use super::state::{ConnectionEnd, ContactOf, OffloadState, Order, Product, Queues, RankSeat, RingOf, SeatOf, Work};
use super::worker::{self, NIC, connect};

/// A rank's way to its worker.
pub(in super::super) struct OffloadClient {
    desk: OffloadState,
    /// What it shares with its worker.
    queues: Rc<Queues>,
    qp: QpNum,
    cq: CqId,
    /// Where descriptors are written down, and where the counter is.
    own: Mr,
    watch: WatchId,
    ring: Remote,
    /// Words of completion that were seen, and whose they were.
    seen: Cell<u64>,
    over: RefCell<BTreeSet<u64>>,
    next: Cell<u64>,
    /// Collective operations so far, by communicator.
    collectives: RefCell<BTreeMap<u32, u64>>,
    /// Messages so far: (sender, receiver).
    messages: RefCell<BTreeMap<(u32, u32), u64>>,
}

impl Rank {
    /// Opens the way to the workers of a job: all of its ranks have to. The first rank of each node starts those there.
    ///
    /// # Errors
    /// A library without verbs of its own; a queue pair that cannot be made; an adapter without cores.
    pub async fn open_offload(&self, desk: &OffloadState) -> Result<(), ProgramError> {
        let (me, process, shared) = (self.rank(), &self.process, &desk.0);
        let rail = self.state.borrow().rails.iter().find(|rail| rail.nic == NIC).cloned();
        let rail = rail.ok_or_else(|| ProgramError(format!("rank {me} has no verbs on the adapter with the cores")))?;
        let (base, place) = (COUNTER + (u64::from(me) << 16), process.place(NIC));
        let inline = Bytes(shared.inline.into());
        let create = |n: &mut Nic| -> Result<(QpNum, CqId, Mr, WatchId), VerbsError> {
            let cq = n.create_cq(DEPTH)?;
            let own = n.reg_mr_at(rail.pd, base, Bytes(1 << 16), Access::ALL, place)?;
            let cap = QpCap { max_send_wr: DEPTH, max_inline_data: inline, ..QpCap::default() };
            let qp = n.create_qp(&QpInit { cap, ..QpInit::new(rail.pd, QpType::Rc, cq) })?;
            Ok((qp, cq, own, n.create_watch(base, Bytes(8))))
        };
        let (qp, cq, own, watch) = process.nic(NIC, create)?;
        let length = rail.mr.length.0 - (rail.user - rail.mr.addr);
        let counter = (base, own.rkey);
        let seat = RankSeat { node: process.node(), user: rail.user, length, rkey: rail.mr.rkey, place, counter };
        shared.exchange.put(me, SeatOf { rank: me }, seat);
        shared.exchange.fence(process).await;
        shared.assign(me);
        let worker = ConnectionEnd::Worker(shared.worker_of(me)?);
        shared.exchange.put(me, ContactOf { from: ConnectionEnd::Rank(me), to: worker }, (process.lid(NIC), qp));
        if shared.leads(me, process.node()) {
            for id in shared.workers(Some(process.node())) {
                let desk = desk.clone();
                process.spawn(Core::Adapter(NIC), Box::new(move |process| Box::pin(worker::run(process, desk, (id, me)))));
            }
        }
        shared.exchange.fence(process).await;
        connect(process, NIC, desk, ConnectionEnd::Rank(me), worker, qp)?;
        let ring = shared.exchange.get(me, RingOf { rank: me });
        let (addr, rkey) = ring.ok_or_else(|| ProgramError(format!("rank {me}: its worker has no ring for it")))?;
        process.barrier().await;
        *self.door.borrow_mut() = Some(OffloadClient {
            desk: desk.clone(),
            queues: process.segments().of(shared, Queues::default),
            qp,
            cq,
            own,
            watch,
            ring: Remote { addr, rkey },
            seen: Cell::new(0),
            over: RefCell::default(),
            next: Cell::new(0),
            collectives: RefCell::default(),
            messages: RefCell::default(),
        });
        Ok(())
    }

    /// Hands a collective operation to the worker; it goes on without this rank.
    ///
    /// # Errors
    /// The way to the workers is not open; a queue pair in error.
    pub fn hand_over(&self, call: &Call, algorithm: &Algorithm) -> Result<Request, ProgramError> {
        self.hand_over_among(&Group::regular(0, 1, call.ranks), self.rank(), call, algorithm)
    }

    /// The same of a communicator, in which this rank stands at `index`.
    ///
    /// # Errors
    /// As [`hand_over`](Self::hand_over).
    pub fn hand_over_among(&self, group: &Group, index: u32, call: &Call, algorithm: &Algorithm) -> Result<Request, ProgramError> {
        let door = self.door()?;
        let among = context(group);
        let count = *door.collectives.borrow_mut().entry(among).and_modify(|count| *count += 1).or_insert(0);
        let op = u64::from(among) << 32 | (count & u64::from(u32::MAX));
        let vector = matches!(call.operation, Kind::Alltoallv | Kind::Allgatherv | Kind::Gatherv | Kind::Scatterv);
        let entries = if vector { call.ranks } else { 0 };
        let work = Work::Collective { call: *call, algorithm: algorithm.clone(), group: group.clone(), index };
        door.ask(&self.process, op, work, entries)
    }

    /// Hands over reads of others' memory into the worker's, what its core computes with them, and a write of the result.
    ///
    /// # Errors
    /// As [`hand_over`](Self::hand_over).
    pub fn hand_product(&self, product: Product) -> Result<Request, ProgramError> {
        let entries = product.gets.len() as u32 + 1;
        self.door()?.ask(&self.process, MESSAGE, Work::Product(product), entries)
    }

    fn door(&self) -> Result<Ref<'_, OffloadClient>, ProgramError> {
        Ref::filter_map(self.door.borrow(), Option::as_ref)
            .map_err(|_| ProgramError(format!("rank {} has no worker on a DPU", self.rank())))
    }

    /// The same of a message, where those go to the worker as well.
    pub(in super::super) fn hand_message(&self, peer: u32, sends: bool, bytes: u32) -> Option<Result<Request, ProgramError>> {
        let door = self.door.borrow();
        let door = door.as_ref().filter(|door| door.desk.0.settings.everything)?;
        let me = self.rank();
        let (sender, receiver) = if sends { (me, peer) } else { (peer, me) };
        let count = { *door.messages.borrow_mut().entry((sender, receiver)).and_modify(|count| *count += 1).or_insert(0) };
        let op = MESSAGE | u64::from(sender) << 32 | (count & u64::from(u32::MAX));
        let work = if sends { Work::Send { to: peer, bytes } } else { Work::Receive { from: peer } };
        Some(door.ask(&self.process, op, work, 0))
    }

    /// The same of a one-sided operation.
    pub(in super::super) fn hand_one_sided(&self, what: OneSided, target: u32, bytes: u32) -> Option<Result<Request, ProgramError>> {
        self.hands_one_sided().then(|| self.hand_between(what, target, bytes, None))
    }
    /// Hands over a put or get between two addresses, in the memory of this rank and in that of `target`, or between the beginnings of the
    /// buffers.
    pub(in super::super) fn hand_between(
        &self,
        what: OneSided,
        target: u32,
        bytes: u32,
        between: Option<(u64, u64)>,
    ) -> Result<Request, ProgramError> {
        self.door()?.ask(&self.process, MESSAGE, Work::OneSided { what, target, bytes, between }, 0)
    }
    /// Whether one-sided operations go to the worker.
    pub(in super::super) fn hands_one_sided(&self) -> bool {
        self.door.borrow().as_ref().is_some_and(|door| door.desk.0.settings.everything)
    }

    /// What tells of the next word of completion.
    pub(in super::super) fn word(&self) -> Option<(usize, WatchId, u64)> {
        self.door.borrow().as_ref().map(|door| (NIC, door.watch, door.seen.get() + 1))
    }
    /// Takes the words that can be seen.
    pub(in super::super) async fn look_at_words(&self) {
        let Some((nic, watch, next)) = self.word() else { return };
        let cq = self.door.borrow().as_ref().map(|door| door.cq);
        if let Some(cq) = cq
            && self.process.earliest(&[(nic, cq)], &[]).is_some_and(|at| at <= self.process.now())
        {
            self.process.poll_cq(nic, cq, POLL_BATCH).await;
        }
        let now = self.process.now();
        let count = self.process.nic(nic, |n| n.watch_count(watch, now));
        if let Some(door) = self.door.borrow().as_ref() {
            for _ in next..=count {
                let number = door.queues.done.borrow_mut().get_mut(&self.rank()).and_then(std::collections::VecDeque::pop_front);
                door.over.borrow_mut().extend(number);
            }
            door.seen.set(count.max(door.seen.get()));
        }
    }
    pub(in super::super) fn is_over(&self, number: u64) -> bool {
        self.door.borrow().as_ref().is_none_or(|door| door.over.borrow().contains(&number))
    }
    pub(in super::super) fn forget(&self, number: u64) {
        if let Some(door) = self.door.borrow().as_ref() {
            door.over.borrow_mut().remove(&number);
        }
    }
}

impl OffloadClient {
    fn ask(&self, process: &Process, op: u64, work: Work, entries: u32) -> Result<Request, ProgramError> {
        let (settings, number) = (self.desk.0.settings, self.next.get());
        self.next.set(number + 1);
        let begun = process.now();
        process.compute(settings.hand_over);
        process.note_work(begun, &[], || "hand over".to_owned());
        let length = settings.descriptor.saturating_add(settings.entry.saturating_mul(entries)).min(RING);
        let sge = Sge { addr: self.own.addr + WRITTEN, length, lkey: self.own.lkey };
        let mut wr = SendWr::write(number, sge, self.ring);
        if length <= self.desk.0.inline {
            wr = wr.with_flags(SendFlags::INLINE);
        }
        if number.is_multiple_of(SIGNALED) {
            wr = wr.signaled();
        }
        process.post_send(NIC, self.qp, &wr)?;
        self.queues.orders.borrow_mut().entry(process.rank()).or_default().push_back(Order { number, op, work });
        Ok(Request(Carried::Offloaded(number)))
    }
}

/// What all members call a communicator: its ranks mixed as FNV-1a has it, so that nothing need be agreed upon. Two communicators of the
/// same ranks in the same order are one; 31 bits tell others apart.
fn context(group: &Group) -> u32 {
    let mix = |hash: u64, rank: u32| (hash ^ u64::from(rank)).wrapping_mul(0x0100_0000_01b3);
    let hash = group.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    (hash >> 33) as u32
}

/// Requests in the send queue of a rank. Basis: assumed.
const DEPTH: u32 = 4096;
/// Every so many descriptors ask for a completion. Basis: assumed.
const SIGNALED: u64 = 32;
/// Completions taken per poll. Basis: assumed.
const POLL_BATCH: usize = 16;
/// Operations of two ranks, as against those of all.
const MESSAGE: u64 = 1 << 63;
/// Where the counter of a rank lies, and beside it the descriptors. Basis: assumed; no bytes are moved.
const COUNTER: u64 = 0x2_0000_0000_0000;
const WRITTEN: u64 = 4096;
/// Longest descriptor, in bytes. Basis: assumed, what a ring holds.
const RING: u32 = 1 << 15;
