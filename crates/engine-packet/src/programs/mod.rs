//! Runs `async` programs on their cores: wakes them when what they wait for is visible, carries their doorbells.

mod parts;
mod spawned;

pub(crate) use parts::{Mains, ProgramsEnd};

use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use fabriscope_engine::{Cluster, EngineError, Moment, Timeline, timing};
use fabriscope_node::adapter::{Adapter, is_adapter_queue};
use fabriscope_node::process::{Doorbell, RankPlacement, Wait, earliest};
use fabriscope_node::socket::first_ready;
use fabriscope_node::{Awaited, Devices, Main, Noise, Process, Program, Segments, Sockets, Work};
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{CqId, Lid};

use crate::event::{Event, EventKind};
use crate::host::{TimerUse, posting};
use crate::workload::Meeting;
use crate::world::{Client, World};

/// The programs of a job, or those of its ranks on the nodes of one part.
#[allow(clippy::vec_box)] // As `Process::enter` takes them.
pub(crate) struct Programs {
    slots: Vec<Slot>,
    /// The slot of each rank of the job; [`ELSEWHERE`] for those of other parts.
    slot_of: Vec<u32>,
    /// Slots of each node.
    on_node: Vec<Vec<u32>>,
    /// Adapters of each node, and the node of each adapter.
    adapters: Vec<Range<u32>>,
    node_at: Vec<u32>,
    /// GPUs of each node.
    devices: Vec<Option<Rc<Devices>>>,
    doorbells: Vec<Doorbell>,
    free_doorbells: Vec<u32>,
    rung: Vec<Doorbell>,
    lent: Vec<Box<Adapter>>,
    running: usize,
    /// A slot that had not come to the barrier when that was last looked at; all before it had.
    late: usize,
    /// Ranks here; what they started on adapters comes behind them.
    ranks: usize,
    barrier: AcrossParts,
}

/// A rank of another part.
const ELSEWHERE: u32 = u32::MAX;

/// How ranks meet that are in one part or in several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AcrossParts {
    /// All are here.
    Alone,
    /// Others are elsewhere: who opens the barrier is told how it stands here.
    Among { meeting: Meeting, news: bool },
}

struct Slot {
    process: Process,
    program: Option<Program>,
    wait: Wait,
    /// When the one valid wake event comes.
    wake_at: Time,
    ended: Time,
    /// Nobody waits for it at barriers any more.
    serves: bool,
}

impl Slot {
    /// Whether others wait for it at barriers.
    fn is_awaited(&self) -> bool {
        self.program.is_some() && !self.serves
    }
    /// When it came to the barrier, if it is there.
    fn came(&self) -> Option<Time> {
        if self.wait == Wait::Barrier { Some(self.process.now()) } else { self.process.came() }
    }
}

impl Programs {
    /// The programs of a whole job; `homes` has the node of each rank.
    #[cfg(test)]
    pub fn new(world: &World<'_>, cluster: &Cluster, homes: &[u32], mains: Vec<Main>) -> Result<Programs, EngineError> {
        Programs::with_beside(world, cluster, homes, (mains, 0))
    }

    /// The programs of a whole job; `homes` has the node of each. The last `beside` of them are no ranks of the job.
    pub fn with_beside(
        world: &World<'_>,
        cluster: &Cluster,
        homes: &[u32],
        (mains, beside): (Vec<Main>, u32),
    ) -> Result<Programs, EngineError> {
        Programs::of_part(world, cluster, homes, ((0..homes.len() as u32).zip(mains).collect(), beside))
    }

    /// Those of ranks `mains`, which are all of `homes` or those of the part that `world` is; in the order of ranks. The last `beside` of all
    /// are no ranks.
    fn of_part(
        world: &World<'_>,
        cluster: &Cluster,
        homes: &[u32],
        (mains, beside): (Vec<(u32, Main)>, u32),
    ) -> Result<Programs, EngineError> {
        let parts = &cluster.parts;
        let endpoints = world.links.endpoints;
        let adapters: Vec<Range<u32>> =
            (0..parts.nodes()).filter_map(|node| parts.endpoints_of(node)).take_while(|adapters| adapters.end <= endpoints).collect();
        let nodes = adapters.len() as u32;
        let mut node_at = vec![u32::MAX; endpoints as usize];
        for (node, adapters) in (0..).zip(&adapters) {
            adapters.clone().for_each(|adapter| node_at[adapter as usize] = node);
        }
        let costs: Vec<_> =
            (0..cluster.groups.len()).map(|group| cluster.seen_by(group)).map(|p| (timing::cpu(p), timing::doorbell(p))).collect();
        let ranks = (homes.len() as u32).saturating_sub(beside);
        let mut on_node = vec![Vec::new(); nodes as usize];
        let mut slots = Vec::with_capacity(mains.len());
        let mut shares = vec![0; nodes as usize];
        let here = mains.iter().filter(|(rank, _)| *rank < ranks).map(|(rank, _)| homes[*rank as usize]);
        here.filter_map(|node| shares.get_mut(node as usize).map(|share: &mut u32| *share += 1)).for_each(drop);
        let devices = devices_of(cluster, &shares);
        let sockets = |(node, share): (u32, u32)| {
            let group = cluster.group_of(node);
            let machine = cluster.groups[group].machine.as_deref().filter(|_| share > 0)?;
            Some(Rc::new(timing::sockets(cluster.seen_by(group), machine, share)))
        };
        let sockets: Vec<Option<Rc<Sockets>>> = (0..).zip(shares).map(sockets).collect();
        let segments: Vec<Rc<Segments>> = (0..nodes).map(|_| Rc::default()).collect();
        let (mut slot_of, whole) = (vec![ELSEWHERE; homes.len()], mains.len() == homes.len());
        for (rank, main) in mains {
            let node = homes[rank as usize];
            if node >= nodes {
                return Err(EngineError::NoSuchNode { rank, node, nodes });
            }
            slot_of[rank as usize] = slots.len() as u32;
            on_node[node as usize].push(slots.len() as u32);
            let process = Process::new(RankPlacement {
                rank,
                ranks,
                node,
                lids: adapters[node as usize].clone().map(Lid).collect(),
                cpu: costs[cluster.group_of(node)].0,
                doorbell: costs[cluster.group_of(node)].1,
                sockets: sockets[node as usize].clone(),
                devices: devices[node as usize].clone(),
                segments: Rc::clone(&segments[node as usize]),
                noise: parts.noise.map(|noise| Noise::new((noise.every, noise.lasts), world.streams, rank)),
            });
            let program = main(process.clone());
            slots.push(Slot {
                process,
                program: Some(program),
                wait: Wait::Nothing,
                wake_at: Time::MAX,
                ended: Time::ZERO,
                serves: rank >= ranks,
            });
        }
        let running = slots.len().saturating_sub(beside as usize);
        Ok(Programs {
            slots,
            slot_of,
            on_node,
            adapters,
            node_at,
            devices,
            doorbells: Vec::new(),
            free_doorbells: Vec::new(),
            rung: Vec::new(),
            lent: Vec::new(),
            running,
            late: 0,
            ranks: running,
            barrier: if whole { AcrossParts::Alone } else { AcrossParts::Among { meeting: Meeting::Expected, news: false } },
        })
    }

    pub fn begin(&mut self, world: &mut World<'_>) {
        for slot in 0..self.slots.len() as u32 {
            self.wake(world, slot, Time::ZERO);
        }
        self.open_barrier(world);
    }

    /// Refuses to end while programs still wait.
    pub fn check(&self, world: &World<'_>) -> Result<(), EngineError> {
        if self.running == 0 {
            return Ok(());
        }
        let mut who = self.waiting();
        who.extend(world.groups.aggregation.waiting(&world.cluster.fabric.graph));
        let at = world.queue.now();
        Err(EngineError::Stalled { at, waiting: self.running, ranks: self.ranks, who: who.join("\n") })
    }

    /// Who has not ended, and what each waits for.
    fn waiting(&self) -> Vec<String> {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.program.is_some())
            .take(NAMED)
            .map(|(index, slot)| {
                let own = match slot.process.awaited() {
                    Awaited::Unsaid => String::new(),
                    awaited => format!("{awaited}: "),
                };
                let rank = slot.process.rank();
                let who = if index < self.ranks { format!("rank {rank}") } else { format!("worker {}", index - self.ranks) };
                format!("  {who} on node {} waits for {own}{}", slot.process.node(), describe(&slot.wait))
            })
            .collect()
    }

    /// What the ranks noted of work beside the network.
    pub fn works(&self) -> Vec<Work> {
        self.slots.iter().flat_map(|slot| slot.process.take_works()).collect()
    }

    pub fn ends(&self) -> Vec<Time> {
        self.slots.iter().take(self.ranks).map(|slot| slot.ended).collect()
    }

    fn wake(&mut self, world: &mut World<'_>, index: u32, at: Time) {
        let slot = &mut self.slots[index as usize];
        if at < slot.wake_at {
            slot.wake_at = at;
            world.queue.push(at, Event::wake(index));
        }
    }

    fn resume(&mut self, world: &mut World<'_>, now: Time, index: u32) -> Result<(), EngineError> {
        let slot = &mut self.slots[index as usize];
        if slot.wake_at != now {
            return Ok(());
        }
        slot.wake_at = Time::MAX;
        let Some(program) = &mut slot.program else { return Ok(()) };
        let was_there = slot.process.came().is_some();
        let adapters = self.adapters[slot.process.node() as usize].clone();
        let first = adapters.start;
        let hosts = (first - world.hosts.first) as usize..(adapters.end - world.hosts.first) as usize;
        self.lent.extend(world.hosts.all[hosts.clone()].iter_mut().filter_map(|host| host.adapter.take()));
        slot.process.enter(now, std::mem::take(&mut self.lent));
        let result = program.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let used;
        (self.lent, used) = slot.process.leave(&mut self.rung);
        for (nic, (host, adapter)) in world.hosts.all[hosts.clone()].iter_mut().zip(self.lent.drain(..)).enumerate() {
            host.adapter = Some(adapter);
            if used.has(nic) {
                host.watch_contexts();
            }
        }
        let met = || adapters.clone().enumerate().filter(|(nic, _)| used.has(*nic)).map(|(_, host)| host);
        let slot = &self.slots[index as usize];
        for host in adapters.clone() {
            world.watch.trace.seen((host, slot.process.rank()), slot.process.seen_at());
        }
        if let Some(timeline) = world.watch.trace.timeline() {
            tell(timeline, &slot.process, now);
        }
        let slot = &mut self.slots[index as usize];
        match result {
            Poll::Ready(outcome) => {
                slot.program = None;
                slot.ended = slot.process.now();
                self.running -= usize::from((index as usize) < self.ranks);
                let rank = slot.process.rank();
                outcome.map_err(|error| EngineError::Program { rank, at: slot.ended, message: error.to_string() })?;
            }
            Poll::Pending => slot.wait = slot.process.waits_for(),
        }
        for host in met() {
            while let Some(request) = world.host(host).nic().poll_membership() {
                world.ask(slot.process.now(), host, request);
            }
            while let Some(request) = world.host(host).nic().poll_group_request() {
                world.ask_group(slot.process.now(), host, request);
            }
        }
        let node = self.node_at[first as usize] as usize;
        if let Some(devices) = self.devices[node].as_ref().filter(|devices| devices.take_asked()) {
            if let Some(reach) = &world.cluster.groups[world.cluster.group_of(node as u32)].reach {
                // A part that does not begin with the first host begins with the first one of a node, and all nodes are alike.
                let before = (world.hosts.first / (adapters.end - first)) as usize;
                world.hosts.hops.meet(reach, node - before, devices);
            }
            world.hosts.all[hosts].iter_mut().for_each(|host| host.pipeline.meet_copies());
        }
        world.serve_control();
        self.send_doorbells(world, first, self.slots[index as usize].process.rank());
        self.pass_on(world, now, index);
        self.start_spawned(world, index)?;
        let slot = &mut self.slots[index as usize];
        let serves = slot.process.serves() && !slot.serves;
        slot.serves |= serves;
        if serves || slot.process.came().is_some() && !was_there {
            self.open_barrier(world);
        }
        for host in met() {
            world.flush_completions(self, now, host);
            if world.host(host).adapter().sockets_in_use().is_some() {
                world.hosts.timers = TimerUse::Everything;
                world.arm_timer(host);
            }
        }
        self.suspend(world, now, index);
        Ok(())
    }

    /// Shows other cores of the node what a rank has written for them.
    fn pass_on(&mut self, world: &mut World<'_>, now: Time, index: u32) {
        let from = self.slots[index as usize].process.rank();
        for (to, at) in self.slots[index as usize].process.take_told() {
            // Nobody is told anything on another node.
            let Some(&to) = self.slot_of.get(to as usize).filter(|to| **to != ELSEWHERE) else { continue };
            let slot = &self.slots[to as usize];
            slot.process.hear(at, from);
            if matches!(slot.wait, Wait::Any { .. }) && slot.program.is_some() {
                self.wake(world, to, at.max(now));
            }
        }
    }

    /// Plans the wake-up of a rank that has just stopped.
    fn suspend(&mut self, world: &mut World<'_>, now: Time, index: u32) {
        let slot = &self.slots[index as usize];
        let at = match (&slot.program, &slot.wait) {
            (Some(_), Wait::Nothing) => Some(now),
            (Some(_), Wait::Until(time)) => Some(*time),
            (Some(_), Wait::Any { .. } | Wait::Sockets { .. }) => self.ready_at(world, index),
            (_, Wait::Barrier) | (None, _) => {
                self.open_barrier(world);
                None
            }
        };
        if let Some(at) = at {
            self.wake(world, index, at.max(now));
        }
    }

    /// Lets all ranks go on when every one that still runs has reached the barrier, or says so where others run elsewhere.
    fn open_barrier(&mut self, world: &mut World<'_>) {
        let is_late = |slot: &Slot| slot.is_awaited() && slot.came().is_none();
        // Those before the one that was late the last time have been here since.
        if let Some(more) = self.slots.iter().skip(self.late).position(is_late) {
            self.late += more;
            return;
        }
        self.late = 0;
        if self.slots.iter().any(is_late) {
            return;
        }
        let last = self.slots.iter().filter(|slot| slot.is_awaited()).filter_map(Slot::came).max();
        match (&mut self.barrier, last) {
            (AcrossParts::Among { meeting, news }, _) => {
                *meeting = last.map_or(Meeting::Nobody, Meeting::There);
                *news = last.is_some();
            }
            (AcrossParts::Alone, Some(at)) => self.go_on(world, at),
            (AcrossParts::Alone, None) => {}
        }
    }

    /// All ranks here that are at the barrier go on at `at`.
    fn go_on(&mut self, world: &mut World<'_>, at: Time) {
        for index in 0..self.slots.len() as u32 {
            let slot = &mut self.slots[index as usize];
            if !slot.is_awaited() {
                continue;
            }
            if slot.wait == Wait::Barrier {
                slot.wait = Wait::Nothing;
            } else {
                slot.process.let_through(at);
            }
            // Who is busy finds it open.
            if matches!(slot.wait, Wait::Nothing | Wait::Any { .. }) {
                self.wake(world, index, at.max(world.queue.now()));
            }
        }
    }

    fn ready_at(&self, world: &World<'_>, index: u32) -> Option<Time> {
        let slot = &self.slots[index as usize];
        let first = (self.adapters[slot.process.node() as usize].start - world.hosts.first) as usize;
        let adapter = |nic: usize| world.hosts.all[first + nic].adapter.as_deref();
        match &slot.wait {
            Wait::Any { cqs, watches, until } => {
                let at = earliest(adapter, cqs, watches).into_iter().chain(slot.process.next_note()).chain(slot.process.opening()).min();
                let at = at.unwrap_or(Time::MAX).min(*until);
                at.is_known().then_some(at)
            }
            Wait::Sockets { awaited, until } => {
                let at = first_ready(adapter, awaited).unwrap_or(Time::MAX).min(*until);
                at.is_known().then_some(at)
            }
            _ => None,
        }
    }

    fn send_doorbells(&mut self, world: &mut World<'_>, first_host: u32, rank: u32) {
        for bell in self.rung.drain(..) {
            let host = first_host + bell.nic as u32;
            if bell.traced {
                world.watch.trace.owns(host, bell.qp.0, rank);
            }
            let index = if let Some(index) = self.free_doorbells.pop() {
                self.doorbells[index as usize] = bell;
                index
            } else {
                self.doorbells.push(bell);
                (self.doorbells.len() - 1) as u32
            };
            world.queue.push(bell.at, Event::doorbell(host, index));
        }
    }

    fn ring(&mut self, world: &mut World<'_>, now: Time, host: u32, doorbell: u32) {
        let bell = self.doorbells[doorbell as usize];
        self.free_doorbells.push(doorbell);
        let h = world.host(host);
        let fetched = if bell.pushed && !is_adapter_queue(bell.qp) {
            now
        } else if bell.pushed {
            h.pipeline.take_requests(now, bell.wqe_bytes)
        } else {
            let entries = Bytes(bell.wqe_bytes.0.div_ceil(64) * 64);
            h.pipeline.fetch_requests(now, entries)
        };
        if bell.traced {
            let log = posting(host, bell.posted, bell.built, now, fetched);
            world.watch.trace.post(host, bell.qp.0, bell.wr_id, log);
        }
        if fetched == now {
            world.work(now, host, bell.qp, bell.through);
            // Unreliable requests are complete once their last packet is built.
            world.flush_completions(self, now, host);
        } else {
            world.queue.push(fetched, Event::work(host, bell.qp, bell.through));
        }
    }
}

impl Client for Programs {
    fn visible(&mut self, world: &mut World<'_>, host: u32, queue: Option<CqId>, visible: Time) {
        let node = self.node_at[host as usize];
        let nic = (host - self.adapters[node as usize].start) as usize;
        // Of the cores of a node most wait for other queues.
        let concerns = |wait: &Wait| match (wait, queue) {
            (Wait::Any { cqs, watches, .. }, Some(cq)) => {
                !watches.is_empty() || cqs.contains(&(nic, cq)) || cqs.contains(&(nic, cq.events()))
            }
            (Wait::Any { .. } | Wait::Sockets { .. }, _) => true,
            _ => false,
        };
        for i in 0..self.on_node[node as usize].len() {
            let index = self.on_node[node as usize][i];
            let slot = &self.slots[index as usize];
            if visible < slot.wake_at
                && slot.program.is_some()
                && concerns(&slot.wait)
                && let Some(at) = self.ready_at(world, index)
            {
                self.wake(world, index, at.max(world.queue.now()));
            }
        }
    }

    fn event(&mut self, world: &mut World<'_>, now: Time, event: EventKind) -> Result<(), EngineError> {
        match event {
            EventKind::Wake { slot } => self.resume(world, now, slot),
            EventKind::Doorbell { host, doorbell } => {
                self.ring(world, now, host, doorbell);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn finished(&self) -> bool {
        self.running == 0
    }

    fn pauses(&mut self) -> bool {
        match &mut self.barrier {
            AcrossParts::Alone => false,
            AcrossParts::Among { news, .. } => std::mem::take(news),
        }
    }
}

/// Tells what a core did since it was woken at `from`, and what its program noted.
#[cold]
fn tell(timeline: &Timeline, process: &Process, from: Time) {
    let (rank, node, until) = (process.rank(), process.node(), process.now());
    if until > from {
        timeline.record(Moment::Core { rank, node, from, until });
    }
    process.take_works().into_iter().map(Moment::Work).for_each(|work| timeline.record(work));
    process.take_activities().into_iter().map(Moment::Activity).for_each(|activity| timeline.record(activity));
}

/// The GPUs of each node that runs programs: its ranks share them.
fn devices_of(cluster: &Cluster, shares: &[u32]) -> Vec<Option<Rc<Devices>>> {
    let machines: Vec<_> =
        cluster.groups.iter().map(|model| model.inside.as_ref().map(|inside| (Rc::new(inside.machine.clone()), inside.costs))).collect();
    let of = |(node, share): (u32, &u32)| {
        let (machine, costs) = machines[cluster.group_of(node)].as_ref().filter(|_| *share > 0)?;
        Some(Rc::new(Devices::new(Rc::clone(machine), *costs)))
    };
    (0..).zip(shares).map(of).collect()
}

fn describe(wait: &Wait) -> String {
    match wait {
        Wait::Nothing => "its turn".to_owned(),
        Wait::Until(time) => format!("the time {time}"),
        Wait::Barrier => "the other ranks at a barrier".to_owned(),
        Wait::Sockets { awaited, .. } => awaited.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "),
        Wait::Any { cqs, watches, .. } => {
            let mut things: Vec<String> = cqs.iter().map(|(nic, cq)| format!("a completion on queue {} of NIC {nic}", cq.0)).collect();
            things.extend(watches.iter().map(|(nic, _, count)| format!("message {count} in watched memory of NIC {nic}")));
            things.join(" or ")
        }
    }
}

/// Ranks that a stalled job names.
const NAMED: usize = 20;
