//! One rank of a communicator as a program: the host thread that starts kernels and waits for their end, and the proxy thread.
//!
//! Source: NCCL, src/enqueue.cc, src/proxy.cc; CUDA streams.
//! Modelled: calls that return when the kernel is in its stream, one proxy thread for each rank that carries on what there is, a host
//! thread whose clock is its own; several communicators of a GPU that one thread carries on.
//! Not modelled: what host threads and proxies take from each other's cores.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use fabriscope_nccl::{self as nccl, NetWay, Protocol};
use fabriscope_node::{Process, ProgramError};
use fabriscope_platform::nccl::Library;
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{AppWords, Wc};

use super::fifo::FifoId;
use super::kernels::{BlockPlan, StreamId, Turn};
use super::net::Net;
use super::notes::Notes;
use super::proxy::Proxy;
use super::world::{Node, RankPlacement, Wire, World, local_fifo};

/// One rank after `ncclCommInitRank`.
pub struct Communicator {
    pub(super) proxy: Proxy,
    pub(super) net: RefCell<Net>,
    /// The clock of the host thread.
    host: Cell<Time>,
    /// When the proxy has to look again.
    due: RefCell<BTreeSet<Time>>,
    /// What the next kernel waits for beside those of its stream.
    after: RefCell<Vec<(StreamId, Turn)>>,
    pub(super) notes: Notes,
}

impl Communicator {
    /// Joins the job and connects `wires`; every rank must name the same. Connecting takes no time.
    ///
    /// # Errors
    /// Nodes without GPUs, two ranks on one GPU, queue pairs that cannot be made.
    pub async fn init(process: Process, world: World, wires: &[(Wire, Option<NetWay>)]) -> Result<Communicator, ProgramError> {
        let (seat, node) = world.seat(&process)?;
        let exchange = world.0.exchange.clone();
        exchange.fence(&process).await;
        let mut communicator = Communicator::seated(process.clone(), world, (seat, node), wires)?;
        exchange.fence(&process).await;
        communicator.connect_wires(wires).await?;
        process.barrier().await;
        communicator.host.set(process.now());
        Ok(communicator)
    }

    /// Joins the job where it is known who sits where ([`World::on_gpus`]), and makes what `wires` take here. No other rank is waited for:
    /// when all have come as far, each is to [`connect`](Self::connect).
    ///
    /// # Errors
    /// As [`init`](Self::init), and a rank of the job that no rank of the communicator has.
    pub fn open(process: Process, world: World, wires: &[(Wire, Option<NetWay>)]) -> Result<Communicator, ProgramError> {
        let place = world.seat(&process)?;
        Communicator::seated(process, world, place, wires)
    }

    /// Connects the wires, when all ranks are [open](Self::open). It can be used when all are connected.
    ///
    /// # Errors
    /// As [`init`](Self::init).
    pub async fn connect(&mut self, wires: &[(Wire, Option<NetWay>)]) -> Result<(), ProgramError> {
        self.proxy.world.0.exchange.pass(self.rank());
        self.connect_wires(wires).await
    }

    fn seated(
        process: Process,
        world: World,
        (seat, node): (RankPlacement, Rc<RefCell<Node>>),
        wires: &[(Wire, Option<NetWay>)],
    ) -> Result<Communicator, ProgramError> {
        let rank = world.rank_of(&process)?;
        let net = RefCell::new(Net::open(&process, &world.0, (rank, seat), wires)?);
        let host = Cell::new(process.now());
        let proxy = Proxy { process, rank, world, seat, node };
        Ok(Communicator { proxy, net, host, due: RefCell::default(), after: RefCell::default(), notes: Notes::default() })
    }

    async fn connect_wires(&mut self, wires: &[(Wire, Option<NetWay>)]) -> Result<(), ProgramError> {
        let Proxy { process, rank, world, seat, node } = &self.proxy;
        self.net.get_mut().connect(process, &world.0, (*rank, *seat), node, wires).await
    }
    /// The number of this rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.proxy.rank()
    }
    /// Its kernels among those of the node.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        StreamId { gpu: self.proxy.seat.gpu, stream: self.proxy.world.0.number }
    }
    /// Ranks of the communicator.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.plan().ranks()
    }
    /// Who is whose neighbour in which channel.
    #[must_use]
    pub fn plan(&self) -> &nccl::Communicator {
        self.proxy.world.plan()
    }
    /// Whether this rank is of the communicator: programs of a job join those of fewer ranks as well, to meet the others at barriers.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.rank() < self.ranks()
    }
    /// The library on the node of this rank.
    #[must_use]
    pub fn library(&self) -> &Library {
        self.proxy.library()
    }
    /// Bytes that GPUs of this node kept by now with other contents than they should have.
    #[must_use]
    pub fn wrong(&self) -> Bytes {
        self.proxy.node.borrow().kernels.wrong()
    }
    /// Whether this is the first rank of its node.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.proxy.node.borrow().ranks.values().min() == Some(&self.proxy.process.rank())
    }
    /// What the host thread's clock says.
    #[must_use]
    pub fn now(&self) -> Time {
        self.host.get()
    }
    /// Keeps the host thread busy.
    pub fn compute(&self, span: Span) {
        self.host.set(self.host.get() + span);
    }

    /// The FIFO on this rank's node of a connection that begins or ends at this rank.
    ///
    /// # Errors
    /// Ranks that are not connected.
    pub fn fifo(&self, wire: Wire, protocol: Protocol) -> Result<FifoId, ProgramError> {
        let (shared, me) = (&self.proxy.world.0, self.rank());
        let (from, to) = (shared.seat_of(me, wire.from)?, shared.seat_of(me, wire.to)?);
        if from.node == to.node && !wire.kind.is_of_network() {
            let devices = self.proxy.process.devices()?;
            return self.proxy.node.borrow_mut().fifo(shared.number, (wire, protocol), || local_fifo(devices, (shared, me), wire));
        }
        let made = self.proxy.node.borrow().known_fifo(shared.number, wire, protocol);
        made.map_or_else(|| self.net.borrow().fifo(wire, protocol), Ok)
    }

    /// A call whose kernel runs `plans`: the host thread goes on when it is in the stream.
    pub fn enqueue(&self, plans: Vec<BlockPlan>) -> Turn {
        self.launch(plans).0
    }
    /// The next kernel begins when these have ended as well, which are on the same node.
    pub fn wait_for(&self, kernels: impl IntoIterator<Item = (StreamId, Turn)>) {
        self.after.borrow_mut().extend(kernels);
    }
    /// When a kernel ended, if that is known by now; it may be yet to come.
    #[must_use]
    pub fn ended(&self, turn: Turn) -> Option<Time> {
        self.proxy.node.borrow().kernels.ended(self.stream(), turn)
    }
    /// `ncclCommAbort`: ends all kernels of this rank now, whatever they wait for.
    pub fn abort(&self) {
        self.proxy.node.borrow_mut().kernels.abort(self.stream(), self.proxy.process.engine_time());
        self.kick();
    }

    /// The same; beside the number of the kernel, when it can begin at the earliest.
    pub(super) fn launch(&self, plans: Vec<BlockPlan>) -> (Turn, Time) {
        let library = self.library();
        let called = self.host.get().max(self.proxy.process.engine_time()) + library.call;
        self.host.set(called);
        let launched = called + library.kernel_start;
        let turn = self.proxy.node.borrow_mut().kernels.launch_after(self.stream(), launched, self.after.take(), plans);
        self.kick();
        (turn, launched)
    }

    /// `cudaStreamSynchronize`: waits until a kernel has ended, while the proxy works on. When the kernel ended.
    ///
    /// # Errors
    /// A queue pair in error.
    pub async fn synchronise(&self, turn: Turn) -> Result<Time, ProgramError> {
        let stream = self.stream();
        let called = self.host.get();
        let back = self.library().synchronise;
        self.run_until(|node| Some(node.kernels.ended(stream, turn)?.max(called) + back)).await?;
        let ended = self.proxy.node.borrow().kernels.ended(stream, turn).unwrap_or_default();
        self.host.set(ended.max(called) + back);
        self.tell_ended();
        Ok(ended)
    }

    /// Waits for all ranks out of band, with nothing of the own on the way.
    ///
    /// # Errors
    /// As [`synchronise`](Self::synchronise).
    pub async fn barrier(&self) -> Result<(), ProgramError> {
        // Those for whom this proxy sends may still be at work.
        let turn = self.proxy.node.borrow_mut().arrive(self.rank());
        for proxy in &self.net.borrow().served_by {
            self.proxy.process.tell(self.proxy.world.0.process_of(*proxy), self.proxy.process.engine_time());
        }
        let idle = |node: &Node| {
            let net = self.net.borrow();
            (net.serves.iter().all(|rank| node.has_arrived(*rank, turn)) && net.is_idle(node)).then_some(Time::ZERO)
        };
        self.run_until(idle).await?;
        self.proxy.process.sleep_until(self.host.get()).await;
        self.proxy.process.barrier().await;
        self.host.set(self.proxy.process.engine_time());
        self.tell_ended();
        Ok(())
    }

    /// Works on, as the proxies of all these communicators of one GPU do, until the first of `turns` has ended, each a kernel of the
    /// communicator at that place; or until `stop` says so, which is asked whenever something happens, [`Process::tell`] included. For host
    /// threads that do not wait themselves.
    ///
    /// # Errors
    /// A queue pair in error.
    pub async fn attend(all: &[&Communicator], turns: &[(usize, Turn)], stop: impl Fn() -> bool) -> Result<(), ProgramError> {
        let Some(first) = all.first() else { return Ok(()) };
        let streams: Vec<(StreamId, Turn)> = turns.iter().map(|(place, turn)| (all[*place].stream(), *turn)).collect();
        let ended = |node: &Node| streams.iter().filter_map(|(stream, turn)| node.kernels.ended(*stream, *turn)).min();
        first.run_with(all, ended, stop).await?;
        all.iter().for_each(|communicator| communicator.tell_ended());
        Ok(())
    }

    /// Lets time go on until what `goal` says is over; `None` is not known yet.
    async fn run_until(&self, goal: impl Fn(&Node) -> Option<Time>) -> Result<(), ProgramError> {
        self.run_with(&[self], goal, || false).await
    }

    /// The same for all these communicators of the GPU, of which this is one.
    async fn run_with(
        &self,
        all: &[&Communicator],
        goal: impl Fn(&Node) -> Option<Time>,
        stop: impl Fn() -> bool,
    ) -> Result<(), ProgramError> {
        let (me, process) = (self.proxy.process.rank(), &self.proxy.process);
        loop {
            for communicator in all {
                let completions = communicator.poll().await;
                communicator.proxy.node.borrow_mut().kernels.advance(process.engine_time());
                communicator.net.borrow_mut().progress(&communicator.proxy, &completions)?;
                communicator.kick();
            }
            let now = process.engine_time();
            let end = goal(&self.proxy.node.borrow());
            if end.is_some_and(|end| end <= now) || stop() {
                break;
            }
            let due = all.iter().filter_map(|communicator| communicator.next_due(now)).min();
            let until = {
                let node = &mut *self.proxy.node.borrow_mut();
                let drives = *node.driver.get_or_insert(me) == me;
                let next = if drives { node.kernels.next_event().unwrap_or(Time::MAX) } else { Time::MAX };
                if drives {
                    node.until = next;
                } else {
                    node.waiting.insert(me);
                }
                [end, due].into_iter().flatten().fold(next, Time::min)
            };
            let queues: Vec<_> = all.iter().flat_map(|communicator| communicator.net.borrow().queues()).collect();
            let _ = process.wait_any_until(&queues, &[], until).await;
            let _ = process.take_notes();
            self.proxy.node.borrow_mut().waiting.remove(&me);
        }
        self.hand_over();
        Ok(())
    }

    /// When the proxy has to look again, after `now`.
    fn next_due(&self, now: Time) -> Option<Time> {
        let mut due = self.due.borrow_mut();
        while due.first().is_some_and(|at| *at <= now) {
            due.pop_first();
        }
        due.first().copied()
    }

    /// Completions that can be seen, with the number of their adapter among those in use, and what their messages say: the adapter keeps that
    /// until it is polled again.
    async fn poll(&self) -> Vec<(usize, Wc, Option<AppWords>)> {
        let queues = self.net.borrow().queues();
        let mut found = Vec::new();
        for (rail, (nic, cq)) in queues.into_iter().enumerate() {
            while self.proxy.process.earliest(&[(nic, cq)], &[]).is_some_and(|at| at <= self.proxy.process.now()) {
                let taken = self.proxy.process.poll_cq(nic, cq, AT_A_TIME).await;
                self.proxy.process.nic(nic, |n| found.extend(taken.into_iter().map(|wc| (rail, wc, n.words(&wc)))));
            }
        }
        found
    }

    /// Who made time go on leaves that to another one who waits.
    fn hand_over(&self) {
        let node = &mut *self.proxy.node.borrow_mut();
        if node.driver == Some(self.proxy.process.rank()) {
            node.driver = node.waiting.first().copied();
            if let Some(next) = node.driver {
                self.proxy.process.tell(next, self.proxy.process.engine_time());
            }
        }
    }

    /// Tells those who should look again.
    fn deliver(&self) {
        let node = &mut *self.proxy.node.borrow_mut();
        for (gpu, at) in node.kernels.take_notices() {
            match node.ranks.get(&gpu) {
                Some(rank) if *rank == self.proxy.process.rank() => drop(self.due.borrow_mut().insert(at)),
                Some(rank) => self.proxy.process.tell(*rank, at.max(self.proxy.process.engine_time())),
                None => {}
            }
        }
    }

    /// Something of this rank may happen before the one who makes time go on wakes.
    fn kick(&self) {
        self.deliver();
        let node = &mut *self.proxy.node.borrow_mut();
        let Some(driver) = node.driver.filter(|driver| *driver != self.proxy.process.rank()) else { return };
        if let Some(next) = node.kernels.next_event().filter(|next| *next < node.until) {
            node.until = next;
            self.proxy.process.tell(driver, self.proxy.process.engine_time());
        }
    }
}

/// Completions that one poll takes. Basis: assumed; polling again costs little.
const AT_A_TIME: usize = 16;
