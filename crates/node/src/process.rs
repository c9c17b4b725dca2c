//! A benchmark program's view of its machine: one core with its clock, the NICs of its node, and the other cores there.
//!
//! Programs are `async` functions. Work that takes core time advances the core's own clock, which may run ahead
//! of the simulation; every observation (a poll, a look at memory) first lets the simulation catch up.
//! While a program runs it holds the node's NICs; the engine lends them with [`Process::enter`] and takes them
//! back, with the doorbells that were rung, with [`Process::leave`].
//! Cores of one node may [`tell`](Process::tell) each other of a line in shared memory; who waits for anything sees it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{CqId, Lid, Nic, PostError, QpNum, RecvWr, SendFlags, SendWr, SrqId, WatchId, Wc, WqeIndex};

use crate::adapter::Adapter;
use crate::awaited::Awaited;
use crate::copies::CopyId;
use crate::cpu::{CpuCosts, DoorbellPolicy};
use crate::device::Devices;
use crate::noise::Noise;
use crate::program_error::ProgramError;
use crate::segments::Segments;
use crate::socket::SocketWait;
use crate::sockets::{Route, Sockets};
use crate::work::WorkLog;
use crate::wqe::wqe_bytes;

/// A running program.
pub type Program = Pin<Box<dyn Future<Output = Result<(), ProgramError>>>>;
/// Starts the program of one rank, in the thread where it runs.
pub type Main = Box<dyn FnOnce(Process) -> Program + Send>;

/// Where a program runs that another one starts on its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Core {
    /// On a core like that of the one that starts it.
    Host,
    /// On a core of the adapter with this number.
    Adapter(usize),
}

/// What ranks of different nodes know of each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ties {
    /// Anything, at any moment: the job runs on one core.
    #[default]
    Any,
    /// What messages bring them and fences of the store let them get: nodes of the job may run on several cores.
    Fences,
}

/// What a suspended program waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: run it now.
    Nothing,
    /// A point in time.
    Until(Time),
    /// A completion or a landed message on any of these.
    Any {
        /// (NIC, completion queue) pairs.
        cqs: Vec<(usize, CqId)>,
        /// (NIC, watch, count to reach) triples.
        watches: Vec<(usize, WatchId, u64)>,
        /// No longer than this; `Time::MAX` for ever.
        until: Time,
    },
    /// Any of these at sockets of the kernel.
    Sockets {
        /// What.
        awaited: Vec<SocketWait>,
        /// No longer than this; `Time::MAX` for ever.
        until: Time,
    },
    /// All ranks of the job.
    Barrier,
}

/// A doorbell on its way to a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doorbell {
    /// When the NIC sees it.
    pub at: Time,
    /// The NIC of the node.
    pub nic: usize,
    /// The queue pair that has new work.
    pub qp: QpNum,
    /// The last new entry.
    pub through: WqeIndex,
    /// The WQE came with the doorbell (BlueFlame).
    pub pushed: bool,
    /// Bytes the NIC has to fetch otherwise.
    pub wqe_bytes: Bytes,
    /// Follow the message through the machine.
    pub traced: bool,
    /// `wr_id` of the last request under this doorbell.
    pub wr_id: u64,
    /// When the program began to post.
    pub posted: Time,
    /// When the WQE was built and the store left the core.
    pub built: Time,
}

/// The NICs of the node while the program runs.
#[derive(Default)]
struct Lent {
    // Lent by moving a pointer, not the NIC.
    #[allow(clippy::vec_box)]
    all: Vec<Box<Adapter>>,
    used: UsedNics,
}

/// NICs that a program did something with; those from the 64th on count as one.
#[derive(Debug, Clone, Copy, Default)]
pub struct UsedNics(u64);

impl UsedNics {
    /// Whether the NIC with this number is among them.
    #[must_use]
    pub fn has(self, nic: usize) -> bool {
        self.0 & (1 << nic.min(63)) != 0
    }
}

impl Lent {
    fn at(&mut self, nic: usize) -> &mut Adapter {
        self.used.0 |= 1 << nic.min(63);
        &mut self.all[nic]
    }
}

struct Inner {
    clock: Time,
    engine: Time,
    adapters: Lent,
    doorbells: Vec<Doorbell>,
    wait: Wait,
    trace: bool,
    /// When the program last saw something that it had waited for.
    seen: Time,
    /// How long it has spun in all, with nothing there to see.
    idle: Span,
    /// How long it has slept in the kernel until something woke it, and what interrupts took from it: neither is time of the program.
    away: Span,
    /// Lines that other cores of the node have written for this one: when they can be seen, and who wrote. In order of time.
    notes: VecDeque<(Time, u32)>,
    /// What this core has written for others: for whom, and when it can be seen.
    told: Vec<(u32, Time)>,
    /// The working set of the program in bytes.
    footprint: Bytes,
    /// Copies by GPUs that the program has begun and not waited for.
    copies: Vec<CopyId>,
    /// What was noted of work beside the network.
    works: WorkLog,
    /// Programs that are to be started: where, and what they run.
    spawned: Vec<(Core, Main)>,
    /// A daemon: the job does not wait for its end.
    serves: bool,
    gate: Gate,
    noise: Option<Noise>,
}

impl Inner {
    /// Works until `end`, but for interruptions.
    fn work_until(&mut self, end: Time) {
        self.clock = self.noise.as_mut().map_or(end, |noise| noise.working(end));
    }
    /// Has spun until something was there at `at`.
    fn see_at(&mut self, at: Time) {
        self.clock = self.clock.max(self.noise.as_mut().map_or(at, |noise| noise.spinning(at)));
    }
}

/// Where a program stands that came to the barrier of all ranks and goes on working there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Away,
    /// It came then.
    Come(Time),
    /// All have come, the last one then.
    Open(Time),
}

struct CoreState {
    rank: u32,
    ranks: u32,
    node: u32,
    lids: Vec<Lid>,
    cpu: Cell<CpuCosts>,
    doorbell: DoorbellPolicy,
    sockets: Option<Rc<Sockets>>,
    /// The NUMA domain of the core.
    domain: Cell<u32>,
    devices: Option<Rc<Devices>>,
    segments: Rc<Segments>,
    awaited: Cell<Awaited>,
    inner: RefCell<Inner>,
}

/// One rank's core. Clones are the same core.
#[derive(Clone)]
pub struct Process(Rc<CoreState>);

/// Where a rank lives.
#[derive(Debug, Clone)]
pub struct RankPlacement {
    /// Its number in the job.
    pub rank: u32,
    /// Ranks in the job.
    pub ranks: u32,
    /// The node it runs on.
    pub node: u32,
    /// Address of each NIC of that node.
    pub lids: Vec<Lid>,
    /// Costs of its core.
    pub cpu: CpuCosts,
    /// How NICs are told about work.
    pub doorbell: DoorbellPolicy,
    /// The memories and links that it shares with the other cores of the node.
    pub sockets: Option<Rc<Sockets>>,
    /// The GPUs that it shares with them, if there are any.
    pub devices: Option<Rc<Devices>>,
    /// The memory that its programs share with those of the other cores.
    pub segments: Rc<Segments>,
    /// What the operating system takes of it; nothing where nothing is said.
    pub noise: Option<Noise>,
}

impl Process {
    /// A core with its clock at zero.
    #[must_use]
    pub fn new(seat: RankPlacement) -> Process {
        let RankPlacement { rank, ranks, node, lids, cpu, doorbell, sockets, devices, segments, noise } = seat;
        let inner = Inner {
            clock: Time::ZERO,
            engine: Time::ZERO,
            adapters: Lent::default(),
            doorbells: Vec::new(),
            wait: Wait::Nothing,
            trace: false,
            seen: Time::ZERO,
            idle: Span::ZERO,
            away: Span::ZERO,
            notes: VecDeque::new(),
            told: Vec::new(),
            footprint: Bytes::ZERO,
            copies: Vec::new(),
            works: WorkLog::default(),
            spawned: Vec::new(),
            serves: false,
            gate: Gate::Away,
            noise,
        };

        Process(Rc::new(CoreState {
            rank,
            ranks,
            node,
            lids,
            cpu: Cell::new(cpu),
            doorbell,
            sockets,
            domain: Cell::new(0),
            devices,
            segments,
            awaited: Cell::default(),
            inner: RefCell::new(inner),
        }))
    }

    /// A core beside this one, with its costs, whose program is number `rank`.
    #[must_use]
    pub fn beside(&self, rank: u32) -> Process {
        let CoreState { ranks, node, lids, cpu, doorbell, sockets, devices, segments, .. } = &*self.0;
        Process::new(RankPlacement {
            rank,
            ranks: *ranks,
            node: *node,
            lids: lids.clone(),
            cpu: cpu.get(),
            doorbell: *doorbell,
            sockets: sockets.clone(),
            devices: devices.clone(),
            segments: Rc::clone(segments),
            noise: None,
        })
    }

    /// Number of this rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.0.rank
    }
    /// Ranks in the job.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.0.ranks
    }
    /// The node this rank runs on.
    #[must_use]
    pub fn node(&self) -> u32 {
        self.0.node
    }
    /// The memory that programs of this node share.
    #[must_use]
    pub fn segments(&self) -> &Rc<Segments> {
        &self.0.segments
    }
    /// The core's clock.
    #[must_use]
    pub fn now(&self) -> Time {
        self.0.inner.borrow().clock
    }
    /// How long the core has spun so far on completion queues and watches with nothing there to see.
    #[must_use]
    pub fn idle(&self) -> Span {
        self.0.inner.borrow().idle
    }
    /// How long the core has run the program and calls of it so far, spinning included: what `getrusage` says.
    #[must_use]
    pub fn core_time(&self) -> Span {
        let inner = self.0.inner.borrow();
        inner.clock.since(Time::ZERO).saturating_sub(inner.away)
    }
    /// `span` was not time of the program.
    pub(crate) fn was_away(&self, span: Span) {
        self.0.inner.borrow_mut().away += span;
    }
    /// Sets the clock to at least `time`.
    pub(crate) fn advance_to(&self, time: Time) {
        let inner = &mut *self.0.inner.borrow_mut();
        inner.clock = inner.clock.max(time);
        inner.seen = inner.clock;
    }
    /// Keeps the core busy for `span`.
    pub fn compute(&self, span: Span) {
        let inner = &mut *self.0.inner.borrow_mut();
        inner.work_until(inner.clock + span);
    }
    /// Binds the core to a NUMA domain of the node; until then it is in the first.
    pub fn sit(&self, domain: u32) {
        self.0.domain.set(domain);
    }
    /// The NUMA domain of the core.
    #[must_use]
    pub fn domain(&self) -> u32 {
        self.0.domain.get()
    }
    /// Copies `amount` bytes within the memory next to the core when the copies in progress touch `working_set` bytes: as
    /// [`CpuCosts::copy`], but no faster than that memory lets all cores, where what they go through
    /// ([`goes_through`](Self::goes_through)) is in no cache.
    pub fn copy(&self, amount: Bytes, working_set: Bytes) {
        self.copy_between(amount, working_set, (self.domain(), self.domain()));
    }
    /// The same from the memory of one NUMA domain to that of another: lines from afar take longer, and all copies share the links.
    pub fn copy_between(&self, amount: Bytes, working_set: Bytes, (from, to): (u32, u32)) {
        let route = Route { from, core: self.domain(), to };
        let crossing = self.crossing(from).max(self.crossing(to));
        let inner = &mut *self.0.inner.borrow_mut();
        let begun = inner.clock;
        inner.work_until(begun + self.cpu().copy_across(amount, working_set, crossing));
        if let Some(sockets) = self.0.sockets.as_ref().filter(|_| amount > Bytes::ZERO) {
            inner.clock = inner.clock.max(sockets.copied(begun, amount, inner.footprint, route));
        }
    }
    /// What a cache line from NUMA domain `other` takes longer than one from here.
    #[must_use]
    pub fn crossing(&self, other: u32) -> Span {
        self.0.sockets.as_ref().map_or(Span::ZERO, |sockets| sockets.crossing(self.domain(), other))
    }
    /// The memory next to the core, as an adapter of the node sees it.
    #[must_use]
    pub fn place(&self, nic: usize) -> fabriscope_verbs::MemoryId {
        self.0.sockets.as_ref().map_or(fabriscope_verbs::MemoryId::HOST, |sockets| sockets.place(self.domain(), nic))
    }
    /// From now on the working set of the program is `footprint` bytes, such as a benchmark's buffers.
    pub fn goes_through(&self, footprint: Bytes) {
        self.0.inner.borrow_mut().footprint = footprint;
    }
    /// Writes a line that the core of `rank`, on the same node, sees from `at` on.
    pub fn tell(&self, rank: u32, at: Time) {
        self.0.inner.borrow_mut().told.push((rank, at));
    }
    /// Who has told this core something by now; each line is named once.
    #[must_use]
    pub fn take_notes(&self) -> Vec<u32> {
        let inner = &mut *self.0.inner.borrow_mut();
        let seen = inner.notes.partition_point(|(at, _)| *at <= inner.clock);
        inner.notes.drain(..seen).map(|(_, from)| from).collect()
    }
    /// NICs of the node.
    #[must_use]
    pub fn nics(&self) -> usize {
        self.0.lids.len()
    }
    /// Fabric address of a NIC of the node.
    ///
    /// # Panics
    /// If the node has no such NIC.
    #[must_use]
    pub fn lid(&self, nic: usize) -> Lid {
        self.0.lids[nic]
    }
    /// Costs of the core.
    #[must_use]
    pub fn cpu(&self) -> CpuCosts {
        self.0.cpu.get()
    }
    /// Drives the NICs by a library's own code instead of the user-space driver: other costs of building a work
    /// request and of handling a completion.
    pub fn drive(&self, wqe_build: Option<Span>, poll_hit: Option<Span>) {
        let cpu = self.cpu();
        let (wqe_build, poll_hit) = (wqe_build.unwrap_or(cpu.wqe_build), poll_hit.unwrap_or(cpu.poll_hit));
        self.0.cpu.set(CpuCosts { wqe_build, poll_hit, ..cpu });
    }
    /// Something else than a core of the node drives the NICs from now on, at these costs: a GPU, threads beside this one.
    pub fn drive_as(&self, costs: CpuCosts) {
        self.0.cpu.set(costs);
    }
    pub(crate) fn shared_devices(&self) -> Option<&Devices> {
        self.0.devices.as_deref()
    }
    pub(crate) fn expect_copy(&self, id: CopyId) {
        self.0.inner.borrow_mut().copies.push(id);
    }
    pub(crate) fn forget_copy(&self, id: CopyId) {
        self.0.inner.borrow_mut().copies.retain(|open| *open != id);
    }
    pub(crate) fn expected_copies(&self) -> Vec<CopyId> {
        self.0.inner.borrow().copies.clone()
    }
    /// How far the simulation has come; the core's clock may be ahead of it.
    #[must_use]
    pub fn engine_time(&self) -> Time {
        self.0.inner.borrow().engine
    }
    /// The notes about work beside the network, where messages are followed.
    pub(crate) fn work_log<R>(&self, f: impl FnOnce(&mut WorkLog) -> R) -> Option<R> {
        let inner = &mut *self.0.inner.borrow_mut();
        inner.trace.then(|| f(&mut inner.works))
    }
    /// From a store of this core to the adapter.
    pub(crate) fn mmio_latency(&self, nic: usize) -> Span {
        let away = self.0.sockets.as_ref().map_or(Span::ZERO, |sockets| sockets.to_adapter(self.domain(), nic));
        self.cpu().mmio_latency + away
    }
    pub(crate) fn doorbell_policy(&self) -> &DoorbellPolicy {
        &self.0.doorbell
    }
    pub(crate) fn ring(&self, bell: Doorbell) {
        self.0.inner.borrow_mut().doorbells.push(bell);
    }
    /// Starts a program on a core of the node, now. It is no rank of the job; it takes part in barriers until it
    /// [`serve`](Self::serve)s.
    pub fn spawn(&self, core: Core, main: Main) {
        self.0.inner.borrow_mut().spawned.push((core, main));
    }
    /// From now on the program does what others ask for: no barrier waits for it, and the job ends without it.
    pub fn serve(&self) {
        self.0.inner.borrow_mut().serves = true;
    }
    /// Calls control verbs on a NIC; no time passes.
    ///
    /// # Panics
    /// If the node has no such NIC, or outside a run.
    pub fn nic<R>(&self, nic: usize, f: impl FnOnce(&mut Nic) -> R) -> R {
        self.adapter(nic, |adapter| f(&mut adapter.rnic))
    }
    /// The same with the whole adapter: sockets of the kernel and PSM2 too.
    ///
    /// # Panics
    /// If there is no such adapter.
    pub fn adapter<R>(&self, nic: usize, f: impl FnOnce(&mut Adapter) -> R) -> R {
        f(self.0.inner.borrow_mut().adapters.at(nic))
    }
    /// From now on, follow every posted message through the machine (`explain`).
    pub fn trace(&self, on: bool) {
        self.0.inner.borrow_mut().trace = on;
    }

    /// Posts one send request and rings the doorbell.
    ///
    /// # Errors
    /// As `ibv_post_send`: wrong state, full queue, request the queue pair type does not have.
    pub fn post_send(&self, nic: usize, qp: QpNum, wr: &SendWr) -> Result<(), PostError> {
        self.post_send_list(nic, qp, std::slice::from_ref(wr))
    }

    /// Posts several send requests under one doorbell.
    ///
    /// # Errors
    /// As `ibv_post_send`; requests before the bad one stay posted and their doorbell is rung.
    pub fn post_send_list(&self, nic: usize, qp: QpNum, wrs: &[SendWr]) -> Result<(), PostError> {
        let inner = &mut *self.0.inner.borrow_mut();
        let posted = inner.clock;
        let (cpu, mut wqes, mut bytes, mut inline, mut result) = (self.cpu(), 0, Bytes::ZERO, false, Ok(()));
        let mut through = None;
        for wr in wrs {
            let size = wqe_bytes(wr);
            inner.clock += cpu.wqe_build;
            let mut flagged;
            let mut request = wr;
            if inner.trace {
                flagged = wr.clone();
                flagged.flags |= SendFlags::TRACED;
                request = &flagged;
            }
            match inner.adapters.at(nic).rnic.post_send(inner.clock, qp, request) {
                Ok(entry) => through = Some((entry.wqe, wr.wr_id)),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            inline |= wr.flags.contains(SendFlags::INLINE);
            wqes += 1;
            bytes += size;
        }
        if let Some((through, wr_id)) = through {
            let pushed = self.0.doorbell.pushes(wqes, bytes, inline);
            let (built, blocks) = (inner.clock, if pushed { bytes.0.div_ceil(64).max(1) - 1 } else { 0 });
            let at = built + cpu.blueflame_block * blocks + self.mmio_latency(nic);
            inner.clock = built + cpu.mmio_busy; // further blocks drain from the write-combining buffers meanwhile
            let traced = inner.trace;
            inner.doorbells.push(Doorbell { at, nic, qp, through, pushed, wqe_bytes: bytes, traced, wr_id, posted, built });
        }
        result
    }

    /// Posts one receive request.
    ///
    /// # Errors
    /// As `ibv_post_recv`.
    pub fn post_recv(&self, nic: usize, qp: QpNum, wr: &RecvWr) -> Result<(), PostError> {
        let inner = &mut *self.0.inner.borrow_mut();
        inner.clock += self.cpu().post_recv;
        inner.adapters.at(nic).rnic.post_recv(inner.clock, qp, wr)
    }

    /// Posts one receive request to a shared receive queue.
    ///
    /// # Errors
    /// As `ibv_post_srq_recv`.
    pub fn post_srq_recv(&self, nic: usize, srq: SrqId, wr: &RecvWr) -> Result<(), PostError> {
        let inner = &mut *self.0.inner.borrow_mut();
        inner.clock += self.cpu().post_recv;
        inner.adapters.at(nic).rnic.post_srq_recv(inner.clock, srq, wr)
    }

    /// One poll of a completion queue: up to `max` completions, perhaps none.
    pub async fn poll_cq(&self, nic: usize, cq: CqId, max: usize) -> Vec<Wc> {
        self.catch_up().await;
        let found = self.take_completions(nic, cq, max);
        if found.is_empty() {
            self.compute(self.cpu().poll_empty);
        }
        found
    }

    /// Spins on a completion queue until it has at least one completion; returns up to `max`.
    pub async fn wait_cq(&self, nic: usize, cq: CqId, max: usize) -> Vec<Wc> {
        self.wait_any(&[(nic, cq)], &[]).await;
        self.take_completions(nic, cq, max)
    }

    /// Spins on memory until `count` messages have landed in the watched range.
    pub async fn wait_watch(&self, nic: usize, watch: WatchId, count: u64) {
        self.wait_any(&[], &[(nic, watch, count)]).await;
    }

    /// Spins until one of the completion queues has a completion or one of the watches its count.
    pub async fn wait_any(&self, cqs: &[(usize, CqId)], watches: &[(usize, WatchId, u64)]) {
        self.wait_any_until(cqs, watches, Time::MAX).await;
    }

    /// The same, but gives up at `until`: false if nothing was there by then. The end of a copy by a GPU that the program has begun
    /// ([`memcpy_async`](Self::memcpy_async)) is something, too.
    pub async fn wait_any_until(&self, cqs: &[(usize, CqId)], watches: &[(usize, WatchId, u64)], until: Time) -> bool {
        let begun = self.now();
        self.catch_up().await;
        loop {
            let copy = self.next_copy();
            let ready = self.earliest(cqs, watches).into_iter().chain(self.next_note()).min();
            if let Some(visible) = ready.filter(|visible| *visible <= until && copy.is_none_or(|copy| *visible <= copy)) {
                let inner = &mut *self.0.inner.borrow_mut();
                inner.see_at(visible + self.cpu().detect);
                inner.seen = inner.clock;
                inner.idle += inner.clock.since(begun);
                return true;
            }
            if copy.is_some_and(|copy| copy <= self.now()) || self.opening().is_some_and(|at| at <= self.now()) {
                return true;
            }
            if self.now() >= until {
                return false;
            }
            let until = copy.map_or(until, |copy| copy.min(until));
            self.suspend(Wait::Any { cqs: cqs.to_vec(), watches: watches.to_vec(), until }).await;
        }
    }

    /// Whether `count` messages have landed in the watched range by now, without waiting.
    pub async fn watch_reached(&self, nic: usize, watch: WatchId, count: u64) -> bool {
        self.catch_up().await;
        let now = self.now();
        self.nic(nic, |n| n.watch_count(watch, now)) >= count
    }

    /// Says what the next waits are for, in the program's own terms.
    pub fn awaits(&self, what: Awaited) {
        self.0.awaited.set(what);
    }

    /// Leaves the core idle until `time`.
    pub async fn sleep_until(&self, time: Time) {
        if time > self.now() {
            let begun = self.now();
            self.suspend(Wait::Until(time)).await;
            let inner = &mut *self.0.inner.borrow_mut();
            inner.clock = inner.clock.max(time);
            inner.away += inner.clock.since(begun);
        }
    }

    /// Waits for all ranks of the job, out of band: no network traffic.
    pub async fn barrier(&self) {
        self.suspend(Wait::Barrier).await;
    }
    /// Comes to that barrier and goes on working: the last one to come ends every wait of those that did so, and
    /// [`has_opened`](Self::has_opened) says so.
    pub fn arrive(&self) {
        let inner = &mut *self.0.inner.borrow_mut();
        inner.gate = Gate::Come(inner.clock);
    }
    /// Whether all ranks have come since this one [arrived](Self::arrive); said once.
    #[must_use]
    pub fn has_opened(&self) -> bool {
        let inner = &mut *self.0.inner.borrow_mut();
        let opened = matches!(inner.gate, Gate::Open(at) if at <= inner.clock);
        if opened {
            inner.gate = Gate::Away;
        }
        opened
    }

    /// When the first of the awaited things was, or will be, visible.
    #[must_use]
    pub fn earliest(&self, cqs: &[(usize, CqId)], watches: &[(usize, WatchId, u64)]) -> Option<Time> {
        let inner = self.0.inner.borrow();
        earliest(|nic| inner.adapters.all.get(nic).map(|adapter| &**adapter), cqs, watches)
    }

    fn take_completions(&self, nic: usize, cq: CqId, max: usize) -> Vec<Wc> {
        let inner = &mut *self.0.inner.borrow_mut();
        let mut found = Vec::new();
        inner.adapters.at(nic).rnic.poll_cq(inner.clock, cq, max, &mut found);
        let cpu = self.cpu();
        inner.work_until(inner.clock + (cpu.poll_hit + cpu.dma_touch) * found.len() as u64);
        if !found.is_empty() {
            inner.seen = inner.clock;
        }
        found
    }

    /// Lets the simulation come as far as the core's clock.
    pub async fn catch_up(&self) {
        let (clock, engine) = {
            let inner = self.0.inner.borrow();
            (inner.clock, inner.engine)
        };
        if clock > engine {
            self.suspend(Wait::Until(clock)).await;
        }
    }

    pub(crate) fn suspend(&self, wait: Wait) -> Suspend<'_> {
        Suspend { process: self, wait: Some(wait) }
    }
}

/// For engines: lending the NICs and taking back what the program did.
impl Process {
    #[allow(clippy::vec_box)]
    /// Lends the node's NICs and sets the clock to at least `now`.
    pub fn enter(&self, now: Time, adapters: Vec<Box<Adapter>>) {
        let inner = &mut *self.0.inner.borrow_mut();
        inner.engine = now;
        inner.clock = inner.clock.max(now);
        inner.adapters = Lent { all: adapters, ..Lent::default() };
        inner.wait = Wait::Nothing;
    }
    #[allow(clippy::vec_box)]
    /// Takes the NICs back, and says which of them the program did something with; appends the doorbells that were rung to `doorbells`.
    pub fn leave(&self, doorbells: &mut Vec<Doorbell>) -> (Vec<Box<Adapter>>, UsedNics) {
        let inner = &mut *self.0.inner.borrow_mut();
        doorbells.append(&mut inner.doorbells);
        let Lent { all, used } = std::mem::take(&mut inner.adapters);
        (all, used)
    }
    /// The programs that are to be started since this was last asked: where, and what they run.
    #[must_use]
    pub fn take_spawned(&self) -> Vec<(Core, Main)> {
        std::mem::take(&mut self.0.inner.borrow_mut().spawned)
    }
    /// Whether it is a daemon.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.0.inner.borrow().serves
    }
    /// Whether every posted message is followed.
    #[must_use]
    pub fn is_traced(&self) -> bool {
        self.0.inner.borrow().trace
    }
    /// What the program wrote for other cores since this was last asked: for whom, and when it can be seen.
    #[must_use]
    pub fn take_told(&self) -> Vec<(u32, Time)> {
        std::mem::take(&mut self.0.inner.borrow_mut().told)
    }
    /// The core of rank `from` has written a line that can be seen from `at` on.
    pub fn hear(&self, at: Time, from: u32) {
        let notes = &mut self.0.inner.borrow_mut().notes;
        let place = notes.partition_point(|(before, _)| *before <= at);
        notes.insert(place, (at, from));
    }
    /// When the first line that another core wrote can be seen.
    #[must_use]
    pub fn next_note(&self) -> Option<Time> {
        self.0.inner.borrow().notes.front().map(|(at, _)| *at)
    }
    /// When it came to the barrier of all ranks, if it goes on working there until the last one comes.
    #[must_use]
    pub fn came(&self) -> Option<Time> {
        match self.0.inner.borrow().gate {
            Gate::Come(at) => Some(at),
            Gate::Away | Gate::Open(_) => None,
        }
    }
    /// The last of all ranks came at `at`.
    pub fn let_through(&self, at: Time) {
        self.0.inner.borrow_mut().gate = Gate::Open(at);
    }
    /// When the last of all ranks came, if the program does not know that yet.
    #[must_use]
    pub fn opening(&self) -> Option<Time> {
        match self.0.inner.borrow().gate {
            Gate::Open(at) => Some(at),
            Gate::Away | Gate::Come(_) => None,
        }
    }
    /// When the program last saw something that it had waited for.
    #[must_use]
    pub fn seen_at(&self) -> Time {
        self.0.inner.borrow().seen
    }
    /// What the program said that it waits for.
    #[must_use]
    pub fn awaited(&self) -> Awaited {
        self.0.awaited.get()
    }
    /// What the program waits for.
    #[must_use]
    pub fn waits_for(&self) -> Wait {
        self.0.inner.borrow().wait.clone()
    }
}

/// When the first of the awaited things is visible on the NICs of a node, if that is known.
#[must_use]
pub fn earliest<'a>(
    adapters: impl Fn(usize) -> Option<&'a Adapter>,
    cqs: &[(usize, CqId)],
    watches: &[(usize, WatchId, u64)],
) -> Option<Time> {
    let completions = cqs.iter().filter_map(|&(nic, cq)| adapters(nic)?.cq_next_visible(cq));
    let landings = watches.iter().filter_map(|&(nic, watch, count)| adapters(nic)?.rnic.watch_reaches(watch, count));
    completions.chain(landings).min()
}

pub(crate) struct Suspend<'a> {
    process: &'a Process,
    wait: Option<Wait>,
}

impl Future for Suspend<'_> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match self.wait.take() {
            Some(wait) => {
                self.process.0.inner.borrow_mut().wait = wait;
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}
