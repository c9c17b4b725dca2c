//! Runs schedules: starts operations when what they wait for is over, and matches messages to receives.
//!
//! Modelled: one core per rank that posts work requests one after the other; sends match receives by (source, tag) in
//! order. Where a library carries the messages, `process.rs` does the posting.
//! Not modelled here: the costs of a message-passing library.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use fabriscope_catalog::ResolvedCluster;
use fabriscope_engine::{Cluster, EngineError, Feature, Library, OpTimes, Order, RankRounds, Run, timing};
use fabriscope_node::{CpuCosts, DoorbellPolicy};
use fabriscope_schedule::{OpKind, Schedule};
use fabriscope_units::{Bytes, Remedy, Time};
use fabriscope_verbs::{CqId, Remote, SendFlags, SendWr, Service, Sge, Wc, WcOpcode, WcStatus};
use rustc_hash::FxHashMap;

use crate::connect::{self, Rank, WR_LIMIT};
use crate::event::{Event, EventKind};
use crate::fast_forward::Tracked;
use crate::host::Host;
use crate::live_rounds::LiveRounds;
use crate::on_demand;
use crate::operations::{Listed, Operations};
use crate::partners::Partners;
use crate::per_host::PerHost;
use crate::process::Processes;
use crate::support::refusal;
use crate::workload::{Divided, Meeting, Workload};
use crate::world::{Client, World};
use crate::{Transfers, connect::PeerConnection};

/// Ranks that a stalled run names.
const MOST_LINES: usize = 20;

/// A schedule in progress: all of it, or the ranks of one part.
pub(crate) struct Transferring {
    /// Its ranks, and the number of the first.
    pub(crate) ranks: Vec<Rank>,
    pub(crate) first_rank: u32,
    /// Ranks at one adapter.
    per_host: u32,
    /// Their library, if one carries their messages.
    pub(crate) processes: Option<Box<Processes>>,
    cpu: PerHost<CpuCosts>,
    doorbell: PerHost<DoorbellPolicy>,
    ops: Operations,
    /// Operations that may start, for use while starting.
    ready: Vec<u32>,
    core_free: Vec<Time>,
    ends: Vec<Time>,
    /// Receives that wait for a message, messages that wait for a receive.
    mailboxes: FxHashMap<(u32, u32, u32), Mailbox>,
    /// Tags of messages outstanding, by source and destination, where the transport carries none and keeps the order.
    tags: Option<FxHashMap<(u32, u32), VecDeque<u32>>>,
    /// By operation, where asked for.
    times: Vec<OpTimes>,
    error: Option<EngineError>,
    /// Errors are counted and do not end the run; which of its operations ended in one.
    forgiving: bool,
    failed_ops: BTreeSet<u32>,
    /// Operations of its own that are outstanding.
    pub(crate) open: usize,
    /// Messages whose sender failed: source, destination, tag.
    unsent: BTreeMap<(u32, u32, u32), usize>,
    found: Vec<Wc>,
    /// Operations end where nobody has answered: what is in flight then arrives all the same.
    unanswered: bool,
    /// What those need who skip steady states.
    tracked: Option<Box<Tracked>>,
}

#[derive(Debug, Default)]
struct Mailbox {
    receives: VecDeque<u32>,
    messages: VecDeque<Time>,
}

impl Transferring {
    /// Everything that comes before the first event: connections, receives, and who waits for what; one for each part.
    pub fn new(worlds: &mut [World<'_>], schedule: &Schedule, how: Transfers, times: bool) -> Result<Vec<Transferring>, EngineError> {
        check(worlds[0].cluster, schedule.ranks(), how)?;
        let mtu = worlds[0].cluster.parts.mtu;
        let ranks = connect::connect(worlds, schedule, mtu, how)?;
        let ops = |range: Range<u32>| Operations::Listed(Listed::new(Order::new(schedule, range)));
        let mut parts = Transferring::divide(worlds, ranks, how, ops);
        for (part, listed) in parts.iter_mut().map(|part| (&mut part.times, &part.ops)) {
            if let Operations::Listed(listed) = listed {
                part.resize(if times { listed.order.len() } else { 0 }, OpTimes::default());
            }
        }
        Ok(parts)
    }

    /// The same for ranks that make their rounds as they go, over connections that are made when they talk.
    pub fn live(worlds: &mut [World<'_>], program: &Arc<dyn RankRounds>, how: Transfers) -> Result<Vec<Transferring>, EngineError> {
        check(worlds[0].cluster, program.ranks(), how)?;
        let partners = Arc::new(Partners::new(program.as_ref())?);
        let ranks = on_demand::connect(worlds, &partners, program.ranks(), how)?;
        Ok(Transferring::divide(worlds, ranks, how, |range| Operations::Live(LiveRounds::new(program, range))))
    }

    /// One for each part, with what its ranks do.
    fn divide(worlds: &mut [World<'_>], ranks: Vec<Rank>, how: Transfers, ops: impl Fn(Range<u32>) -> Operations) -> Vec<Transferring> {
        let count = ranks.len() as u32;
        let mut ranks = ranks.into_iter();
        worlds.iter_mut().flat_map(|world| world.hosts.iter_mut()).for_each(Host::watch_contexts);
        let libraries = Arc::clone(&worlds[0].libraries);
        let part = |world: &World<'_>| {
            let hosts = world.hosts.first..world.hosts.first + world.hosts.all.len() as u32;
            let range = (hosts.start * how.per_host()).min(count)..(hosts.end * how.per_host()).min(count);
            let ranks = ranks.by_ref().take(range.len()).collect();
            Transferring::part(world.cluster, ops(range.clone()), range, ranks, (how, &libraries))
        };
        worlds.iter().map(part).collect()
    }

    /// What the ranks of `range` do.
    fn part(
        cluster: &Cluster,
        ops: Operations,
        range: Range<u32>,
        ranks: Vec<Rank>,
        (how, libraries): (Transfers, &[(u32, Library)]),
    ) -> Transferring {
        let parts = &cluster.parts;
        let (cpu, doorbell) = (per_host(cluster, timing::cpu), per_host(cluster, timing::doorbell));
        Transferring {
            processes: Processes::new(how, libraries, (range.start, &ranks), &cpu, &doorbell),
            ranks,
            first_rank: range.start,
            per_host: how.per_host(),
            cpu,
            doorbell,
            ops,
            ready: Vec::new(),
            times: Vec::new(),
            core_free: vec![Time::ZERO; range.len()],
            ends: vec![Time::ZERO; range.len()],
            mailboxes: FxHashMap::default(),
            tags: parts.groups.iter().any(|group| group.node.nic.iwarp.is_some()).then(FxHashMap::default),
            error: None,
            forgiving: false,
            failed_ops: BTreeSet::new(),
            open: 0,
            unsent: BTreeMap::new(),
            found: Vec::new(),
            unanswered: how.service == Service::Uc,
            tracked: None,
        }
    }

    /// Starts what waits for nothing.
    pub fn begin(&mut self, world: &mut World<'_>) -> Result<(), EngineError> {
        self.forgiving = world.watch.faults.as_ref().is_some_and(|faults| faults.planned());
        if world.watch.trace.timeline().is_some() {
            world.watch.trace.detects(per_host(world.cluster, |parts| timing::cpu(parts).detect));
        }
        for rank in 0..self.ranks.len() as u32 {
            self.begin_rank(world, rank)?;
        }
        Ok(())
    }

    /// Starts what waits for nothing at the rank with this index.
    fn begin_rank(&mut self, world: &mut World<'_>, index: u32) -> Result<(), EngineError> {
        let rank = self.first_rank + index;
        let ops = match &mut self.ops {
            Operations::Listed(listed) => listed.order.ops(index as usize),
            Operations::Live(rounds) => {
                let mut ready = std::mem::take(&mut self.ready);
                rounds.begin(index as usize, &mut ready);
                return self.start_all(world, Time::ZERO, rank, ready);
            }
        };
        for op in ops {
            if matches!(&self.ops, Operations::Listed(listed) if listed.order.is_ready(op)) {
                self.start(world, Time::ZERO, rank, op)?;
            }
        }
        Ok(())
    }

    /// Keeps messages and ends of computations in mind, for those who skip steady states.
    pub fn track(&mut self) {
        self.tracked = Some(Box::default());
    }
    /// What it kept in mind.
    pub(crate) fn tracked(&self) -> &Tracked {
        self.tracked.as_ref().expect("a run that skips tracks its messages")
    }
    pub(crate) fn tracked_mut(&mut self) -> &mut Tracked {
        self.tracked.as_mut().expect("a run that skips tracks its messages")
    }
    /// The time of the run when the clock of the queue says `now`.
    fn time(&self, now: Time) -> Time {
        self.tracked.as_ref().map_or(now, |tracked| now + tracked.agenda.offset())
    }
    /// Whether nothing is left to do, or nothing can be done.
    pub fn finished_or_failed(&self) -> bool {
        self.finished()
    }

    fn start_all(&mut self, world: &mut World<'_>, now: Time, rank: u32, mut ready: Vec<u32>) -> Result<(), EngineError> {
        for next in ready.drain(..) {
            self.start(world, now, rank, next)?;
        }
        self.ready = ready;
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn operations(&self) -> &Operations {
        &self.ops
    }
    /// Pairs of ranks with messages or receives that wait.
    #[cfg(test)]
    pub(crate) fn waiting_mailboxes(&self) -> usize {
        self.mailboxes.len()
    }
    /// What only the workload knows, of all parts: when ranks and operations were done.
    ///
    /// # Errors
    /// A transfer that failed, operations that never ended.
    pub fn join(parts: Vec<Transferring>, at: Time, run: Run) -> Result<Run, EngineError> {
        let mut all = Run { ranks: Vec::new(), ops: Vec::new(), ..run };
        let (mut waiting, mut who, mut count, mut unanswered) = (0, Vec::new(), 0, false);
        let mut parts = parts;
        let explained = Transferring::explained(&mut parts);
        for mut part in parts {
            if let Some(error) = part.error.take() {
                return Err(error);
            }
            count += part.ranks.len();
            unanswered |= part.unanswered;
            if let Some(breakage) = &mut all.breakage {
                breakage.failed += part.failed_ops.len() as u64;
                breakage.cut_off += part.ops.cut_off() as u64;
            }
            let stuck = if explained { Vec::new() } else { part.ops.stuck(part.ranks.len()) };
            waiting += stuck.len();
            who.extend(stuck.iter().take(MOST_LINES - who.len()).map(|stuck| part.ops.describe(part.first_rank, *stuck)));
            all.ranks.append(&mut part.ends);
            all.ops.append(&mut part.times);
        }
        if waiting > 0 {
            return Err(EngineError::Stalled { at, waiting, ranks: count, who: who.join("\n") });
        }
        // Where nobody answers, the last packet arrives after all ranks have ended.
        let last = all.ranks.iter().copied().max().unwrap_or(Time::ZERO);
        all.end = if unanswered { last.max(at) } else { last };
        Ok(all)
    }

    /// Whether everything that has not ended waits for messages whose sender was told that they failed.
    fn explained(parts: &mut [Transferring]) -> bool {
        if parts.iter().all(|part| part.ops.done()) {
            return true;
        }
        if parts.iter().all(|part| part.failed_ops.is_empty()) || parts.iter().any(|part| part.open > 0) {
            return false;
        }
        let mut unsent: BTreeMap<(u32, u32, u32), usize> = BTreeMap::new();
        // A message has one sender, so no two parts know of the same.
        parts.iter_mut().for_each(|part| unsent.append(&mut part.unsent));
        parts.iter().all(|part| part.waits_for(&mut unsent))
    }

    /// Whether the receives that wait for a message wait for one of `unsent`.
    fn waits_for(&self, unsent: &mut BTreeMap<(u32, u32, u32), usize>) -> bool {
        let Operations::Listed(listed) = &self.ops else { return false };
        for rank in 0..self.ranks.len() {
            let me = self.first_rank + rank as u32;
            for op in listed.left_of(rank) {
                let OpKind::Recv { from, tag, .. } = self.ops.kind(op) else { continue };
                if self.mailboxes.get(&(me, from, tag)).is_none_or(|mailbox| !mailbox.receives.contains(&op)) {
                    continue;
                }
                match unsent.get_mut(&(from, me, tag)).filter(|count| **count > 0) {
                    Some(count) => *count -= 1,
                    None => return false,
                }
            }
        }
        true
    }

    fn start(&mut self, world: &mut World<'_>, now: Time, rank: u32, op: u32) -> Result<(), EngineError> {
        let time = self.time(now);
        if let Some(times) = self.times.get_mut(op as usize) {
            times.started = time;
        }
        match self.ops.kind(op) {
            OpKind::Compute { span } => match &mut self.tracked {
                None => world.queue.push(now + span, Event::done(rank, op)),
                Some(tracked) => {
                    if let Some(at) = tracked.agenda.add(now, span, rank, op) {
                        world.queue.push(at, Event::due());
                    }
                }
            },
            OpKind::Recv { from, tag, .. } => {
                let mailbox = self.mailboxes.entry((rank, from, tag)).or_default();
                if let Some(arrived) = mailbox.messages.pop_front() {
                    world.queue.push(arrived.max(now), Event::done(rank, op));
                    self.forget(rank, from, tag);
                } else {
                    mailbox.receives.push_back(op);
                }
            }
            _ if self.is_carried(rank) => self.entrust(world, now, rank, op),
            kind => self.post(world, now, rank, op, kind)?,
        }
        self.release(world, now, rank, op, true)
    }

    fn post(&mut self, world: &mut World<'_>, now: Time, rank: u32, op: u32, kind: OpKind) -> Result<(), EngineError> {
        let peer = kind.peer().expect("only communication is posted");
        let end = &self.ranks[(rank - self.first_rank) as usize];
        let connection = end.connection(peer).expect("all peers were connected");
        let PeerConnection { qp, remote, .. } = connection;
        let host = rank / self.per_host;
        let (cpu, doorbell) = (self.cpu.of(host), self.doorbell.of(host));
        let total = kind.bytes().0;
        self.open += 1;
        if let Some(tracked) = &mut self.tracked {
            tracked.posted(op, host, (qp, connection.address), matches!(kind, OpKind::Get { .. }));
        }
        let (mut offset, mut clock) = (0, now.max(self.core_free[(rank - self.first_rank) as usize]));
        loop {
            let length = (total - offset).min(WR_LIMIT);
            let last = offset + length == total;
            let sge = Sge { addr: offset, length: length as u32, lkey: end.memory.lkey };
            let place = Remote { addr: offset, rkey: remote.rkey };
            let id = u64::from(op);
            let mut wr = match kind {
                OpKind::Send { to, tag, .. } => match &mut self.tags {
                    None => SendWr::send(id, sge).with_imm(tag),
                    Some(tags) => {
                        tags.entry((rank, to)).or_default().push_back(tag);
                        SendWr::send(id, sge)
                    }
                },
                OpKind::Get { .. } => SendWr::read(id, sge, place),
                _ => SendWr::write(id, sge, place),
            };
            wr = connection.address.apply(wr);
            if last {
                wr = wr.signaled();
            }
            let begun = clock;
            clock += cpu.wqe_build;
            if world.watch.trace.timeline().is_some() {
                wr.flags |= SendFlags::TRACED;
            }
            let h = world.host(host);
            let posted = h.nic().post_send(clock, qp, &wr).map_err(|error| EngineError::Setup(error.in_full()))?;
            let timing = *h.pipeline.bus();
            let mut seen = clock + cpu.mmio_latency;
            if !doorbell.pushes(1, Bytes(64), false) {
                seen += timing.read_latency + timing.completion_time(Bytes(64));
            }
            world.follow(rank, (host, qp, id), [begun, clock, clock + cpu.mmio_latency, seen]);
            clock += cpu.mmio_busy;
            world.queue.push(seen, Event::work(host, qp, posted.wqe));
            offset += length;
            if last {
                break;
            }
        }
        self.core_free[(rank - self.first_rank) as usize] = clock;
        Ok(())
    }

    /// Lets go what waited for the start, or the end, of `op`.
    fn release(&mut self, world: &mut World<'_>, now: Time, rank: u32, op: u32, start: bool) -> Result<(), EngineError> {
        if !self.ops.has_followers(op, start) {
            return Ok(());
        }
        let mut ready = std::mem::take(&mut self.ready);
        self.ops.release((rank - self.first_rank) as usize, op, start, &mut ready);
        self.start_all(world, now, rank, ready)
    }

    fn complete(&mut self, world: &mut World<'_>, rank: u32, wc: &Wc, visible: Time) {
        if wc.status != WcStatus::Success && self.forgiving {
            return self.forgive(world, rank, wc, visible);
        }
        if wc.status != WcStatus::Success {
            return self.refuse(rank, wc.status);
        }
        let seen = visible + self.cpu.of(rank / self.per_host).detect;
        if wc.opcode == WcOpcode::Recv {
            // A message of nobody known has tags of no rank.
            let from = self.ranks[(rank - self.first_rank) as usize].peer_of(wc).unwrap_or(u32::MAX);
            let tag = match &mut self.tags {
                None => wc.imm,
                Some(tags) => tags.get_mut(&(from, rank)).and_then(VecDeque::pop_front),
            };
            self.arrived(world, rank, from, tag.unwrap_or(0), seen);
        } else {
            world.queue.push(seen, Event::done(rank, wc.wr_id as u32));
        }
    }

    /// A message is there for `rank` at `seen`.
    pub(crate) fn arrived(&mut self, world: &mut World<'_>, rank: u32, from: u32, tag: u32, seen: Time) {
        let mailbox = self.mailboxes.entry((rank, from, tag)).or_default();
        match mailbox.receives.pop_front() {
            Some(op) => {
                world.queue.push(seen, Event::done(rank, op));
                self.forget(rank, from, tag);
            }
            None => mailbox.messages.push_back(seen),
        }
    }

    /// What two ranks wait for no more is forgotten, where only what is live is in memory.
    fn forget(&mut self, rank: u32, from: u32, tag: u32) {
        if let (Operations::Live(_), Entry::Occupied(mailbox)) = (&self.ops, self.mailboxes.entry((rank, from, tag)))
            && mailbox.get().receives.is_empty()
            && mailbox.get().messages.is_empty()
        {
            mailbox.remove();
        }
    }

    /// Whether a library carries the messages of a rank.
    fn is_carried(&self, rank: u32) -> bool {
        self.processes.as_ref().is_some_and(|processes| processes.carries((rank - self.first_rank) as usize))
    }

    /// What an operation does.
    pub(crate) fn kind(&self, op: u32) -> OpKind {
        self.ops.kind(op)
    }

    /// A transfer of `rank` ended badly: so does the run.
    pub(crate) fn refuse(&mut self, rank: u32, status: WcStatus) {
        self.fail(rank, status.to_string());
    }
    pub(crate) fn fail(&mut self, rank: u32, status: String) {
        let help = "a lost packet was not recovered in time, or a receive was missing; raise the timeout or lower the loss".to_owned();
        self.error.get_or_insert(EngineError::Transfer { rank, status, help });
    }
}

impl Transferring {
    /// An operation ended.
    fn ended(&mut self, world: &mut World<'_>, now: Time, rank: u32, op: u32) -> Result<(), EngineError> {
        let kind = self.ops.kind(op);
        let posted = kind.peer().is_some_and(|_| !matches!(kind, OpKind::Recv { .. }));
        self.open -= usize::from(posted);
        self.ops.finish(op);
        if let Some(tracked) = self.tracked.as_mut().filter(|_| posted) {
            tracked.ended(op, matches!(kind, OpKind::Get { .. }));
        }
        let time = self.time(now);
        if let Some(times) = self.times.get_mut(op as usize) {
            times.ended = time;
        }
        let end = &mut self.ends[(rank - self.first_rank) as usize];
        *end = (*end).max(time);
        self.release(world, now, rank, op, false)
    }

    /// Computations may have ended, in a run that skips.
    fn due(&mut self, world: &mut World<'_>, now: Time) -> Result<(), EngineError> {
        let Some(tracked) = &mut self.tracked else { return Ok(()) };
        let mut due = std::mem::take(&mut tracked.due);
        if let Some(at) = tracked.agenda.take(now, &mut due) {
            world.queue.push(at, Event::due());
        }
        for (rank, op) in due.drain(..) {
            self.ended(world, now, rank, op)?;
        }
        self.tracked_mut().due = due;
        Ok(())
    }

    /// A message that its sender is done with, because a library holds it, ended in an error.
    pub(crate) fn lost(&mut self, rank: u32, wc: &Wc) {
        if !self.forgiving {
            return self.refuse(rank, wc.status);
        }
        let op = wc.wr_id as u32;
        if !wc.opcode.is_recv()
            && self.failed_ops.insert(op)
            && let OpKind::Send { to, tag, .. } = self.ops.kind(op)
        {
            *self.unsent.entry((rank, to, tag)).or_default() += 1;
        }
    }

    /// A message ended in an error in a run with faults: that is counted, and what follows goes on.
    fn forgive(&mut self, world: &mut World<'_>, rank: u32, wc: &Wc, visible: Time) {
        let op = wc.wr_id as u32;
        if wc.opcode.is_recv() || !self.failed_ops.insert(op) {
            return;
        }
        if let OpKind::Send { to, tag, .. } = self.ops.kind(op) {
            *self.unsent.entry((rank, to, tag)).or_default() += 1;
        }
        world.queue.push(visible + self.cpu.of(rank / self.per_host).detect, Event::done(rank, op));
    }
}

impl Client for Transferring {
    fn visible(&mut self, world: &mut World<'_>, host: u32, cq: Option<CqId>, visible: Time) {
        let Some(cq) = cq else { return };
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        world.host(host).nic().poll_cq(visible, cq, usize::MAX, &mut found);
        // Each rank has one completion queue, and they were created in the order of ranks.
        let rank = host * self.per_host + cq.0;
        for wc in &found {
            let carried = self.is_carried(rank);
            match &mut self.processes {
                Some(processes) if carried => {
                    let seen = visible + self.cpu.of(host).detect;
                    processes.completed(world, ((rank - self.first_rank) as usize, rank), seen, *wc);
                }
                _ => self.complete(world, rank, wc, visible),
            }
        }
        self.found = found;
    }

    fn event(&mut self, world: &mut World<'_>, now: Time, event: EventKind) -> Result<(), EngineError> {
        match event {
            EventKind::Turn { rank } => return self.turn(world, now, rank),
            EventKind::Tick { rank } => return self.tick(world, now, rank),
            _ => {}
        }
        match event {
            EventKind::Done { rank, op } => self.ended(world, now, rank, op),
            EventKind::Due => self.due(world, now),
            _ => Ok(()),
        }
    }

    fn finished(&self) -> bool {
        self.done() || self.error.is_some()
    }
}

impl Divided for Transferring {
    fn done(&self) -> bool {
        // Nothing is left in the queue where all has arrived.
        self.ops.done() && !self.unanswered
    }
    fn failed(&self) -> bool {
        self.error.is_some()
    }
    fn meeting(&self) -> Meeting {
        Meeting::Nobody
    }
    fn open(&mut self, _: &mut World<'_>, _: Time) {}
}

/// Operations that have begun.
impl Workload for Transferring {
    type Client = Transferring;
    type WorkloadEnd = Transferring;
    fn begin(self, _: &mut World<'_>) -> Result<Transferring, EngineError> {
        Ok(self)
    }
    fn end(client: Transferring) -> Transferring {
        client
    }
}

/// Whether ranks fit the adapters, and what they ask of these.
fn check(cluster: &Cluster, ranks: u32, how: Transfers) -> Result<(), EngineError> {
    check_library(how)?;
    check_adapter(how, &cluster.parts)?;
    let adapters = cluster.ranks().saturating_mul(how.per_host());
    if ranks > adapters { Err(EngineError::TooManyRanks { ranks, adapters }) } else { Ok(()) }
}

/// Whether the adapter has the service.
fn check_adapter(how: Transfers, parts: &ResolvedCluster) -> Result<(), EngineError> {
    let one = parts.groups.iter().map(|group| &group.node.nic).find(|nic| nic.iwarp.is_some());
    let Some(nic) = one.filter(|_| how.service != Service::Rc || how.library.is_some()) else { return Ok(()) };
    let what = format!("the adapter `{}` has connections over TCP (iWARP) and nothing else", nic.name);
    Err(EngineError::Setup(format!("{what}; write transport = \"rc\"")))
}

/// What `of` says of the node of each host.
fn per_host<T: Copy>(cluster: &Cluster, of: impl Fn(&ResolvedCluster) -> T) -> PerHost<T> {
    if cluster.is_uniform() {
        return PerHost::Same(of(&cluster.parts));
    }
    let groups: Vec<T> = (0..cluster.groups.len()).map(|group| of(cluster.seen_by(group))).collect();
    PerHost::Each((0..cluster.fabric.graph.endpoint_count()).map(|host| groups[cluster.group_at(host)]).collect())
}

/// Whether the library can carry what it is asked to.
fn check_library(how: Transfers) -> Result<(), EngineError> {
    let without =
        |what: &str| -> EngineError { refusal(Feature::Service, what, "use a library with [mpi.connections] and [mpi.datagrams]").into() };
    match (how.service, how.library) {
        (Service::Ud, library) if library.and_then(|library| library.datagrams).is_none() => {
            Err(without("messages over datagrams without a library that makes them reliable"))
        }
        (_, None) if how.per_host() > 1 => Err(without("several ranks at one adapter without a library")),
        (Service::Uc, Some(_)) => Err(without("a library over unreliable connections")),
        _ => Ok(()),
    }
}
