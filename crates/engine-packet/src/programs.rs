//! Runs `async` programs on their cores: wakes them when what they wait for is visible, carries their doorbells.

use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use fabriscope_engine::{Cluster, EngineError, timing};
use fabriscope_node::adapter::{Adapter, is_adapter_queue};
use fabriscope_node::process::{Doorbell, RankPlacement, Wait, earliest};
use fabriscope_node::socket::first_ready;
use fabriscope_node::{Awaited, Devices, Main, Process, Program, Segments, Sockets, Work};
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{CqId, Lid};

use crate::event::{Event, EventKind};
use crate::host::{TimerUse, posting};
use crate::world::{Client, World};

/// The programs of a job.
#[allow(clippy::vec_box)] // As `Process::enter` takes them.
pub(crate) struct Programs {
    slots: Vec<Slot>,
    /// Ranks of each node.
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
    /// A rank that had not come to the barrier when that was last looked at; all before it had.
    late: usize,
    /// Ranks of the job; what they started on adapters comes behind them.
    ranks: usize,
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
}

impl Programs {
    pub fn new(world: &World<'_>, cluster: &Cluster, homes: Vec<u32>, mains: Vec<Main>) -> Result<Programs, EngineError> {
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
        let ranks = homes.len() as u32;
        let mut on_node = vec![Vec::new(); nodes as usize];
        let mut slots = Vec::with_capacity(homes.len());
        let mut shares = vec![0; nodes as usize];
        homes.iter().filter_map(|node| shares.get_mut(*node as usize).map(|share: &mut u32| *share += 1)).for_each(drop);
        let devices = devices_of(cluster, &shares);
        let sockets = |(node, share): (u32, u32)| {
            let group = cluster.group_of(node);
            let machine = cluster.groups[group].machine.as_deref().filter(|_| share > 0)?;
            Some(Rc::new(timing::sockets(cluster.seen_by(group), machine, share)))
        };
        let sockets: Vec<Option<Rc<Sockets>>> = (0..).zip(shares).map(sockets).collect();
        let segments: Vec<Rc<Segments>> = (0..nodes).map(|_| Rc::default()).collect();
        for (rank, (node, main)) in homes.into_iter().zip(mains).enumerate() {
            let rank = rank as u32;
            if node >= nodes {
                return Err(EngineError::NoSuchNode { rank, node, nodes });
            }
            on_node[node as usize].push(rank);
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
            });
            let program = main(process.clone());
            slots.push(Slot { process, program: Some(program), wait: Wait::Nothing, wake_at: Time::MAX, ended: Time::ZERO, serves: false });
        }
        let running = slots.len();
        Ok(Programs {
            slots,
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
        })
    }

    pub fn begin(&mut self, world: &mut World<'_>) {
        for rank in 0..self.slots.len() as u32 {
            self.wake(world, rank, Time::ZERO);
        }
    }

    /// Refuses to end while programs still wait.
    pub fn check(&self, world: &World<'_>) -> Result<(), EngineError> {
        if self.running == 0 {
            return Ok(());
        }
        let mut who: Vec<String> = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.program.is_some())
            .take(20)
            .map(|(rank, slot)| {
                let own = match slot.process.awaited() {
                    Awaited::Unsaid => String::new(),
                    awaited => format!("{awaited}: "),
                };
                let who = if rank < self.ranks { format!("rank {rank}") } else { format!("worker {}", rank - self.ranks) };
                format!("  {who} on node {} waits for {own}{}", slot.process.node(), describe(&slot.wait))
            })
            .collect();
        who.extend(world.groups.aggregation.waiting(&world.cluster.fabric.graph));
        let at = world.queue.now();
        Err(EngineError::Stalled { at, waiting: self.running, ranks: self.ranks, who: who.join("\n") })
    }

    /// What the ranks noted of work beside the network.
    pub fn works(&self) -> Vec<Work> {
        self.slots.iter().flat_map(|slot| slot.process.take_works()).collect()
    }

    pub fn ends(&self) -> Vec<Time> {
        self.slots.iter().take(self.ranks).map(|slot| slot.ended).collect()
    }

    fn wake(&mut self, world: &mut World<'_>, rank: u32, at: Time) {
        let slot = &mut self.slots[rank as usize];
        if at < slot.wake_at {
            slot.wake_at = at;
            world.queue.push(at, Event::wake(rank));
        }
    }

    fn resume(&mut self, world: &mut World<'_>, now: Time, rank: u32) -> Result<(), EngineError> {
        let slot = &mut self.slots[rank as usize];
        if slot.wake_at != now {
            return Ok(());
        }
        slot.wake_at = Time::MAX;
        let Some(program) = &mut slot.program else { return Ok(()) };
        let adapters = self.adapters[slot.process.node() as usize].clone();
        let first = adapters.start;
        let hosts = adapters.start as usize..adapters.end as usize;
        self.lent.extend(world.hosts.all[hosts.clone()].iter_mut().filter_map(|host| host.adapter.take()));
        slot.process.enter(now, std::mem::take(&mut self.lent));
        let result = program.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let used;
        (self.lent, used) = slot.process.leave(&mut self.rung);
        for (nic, (host, adapter)) in world.hosts.all[hosts].iter_mut().zip(self.lent.drain(..)).enumerate() {
            host.adapter = Some(adapter);
            if used.has(nic) {
                host.watch_contexts();
            }
        }
        let met = || adapters.clone().enumerate().filter(|(nic, _)| used.has(*nic)).map(|(_, host)| host);
        let slot = &self.slots[rank as usize];
        for host in adapters.clone() {
            world.watch.trace.seen(host, slot.process.seen_at());
        }
        let slot = &mut self.slots[rank as usize];
        match result {
            Poll::Ready(outcome) => {
                slot.program = None;
                slot.ended = slot.process.now();
                self.running -= usize::from((rank as usize) < self.ranks);
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
                world.hosts.hops.meet(reach, node, devices);
            }
            let hosts = &mut world.hosts.all[adapters.start as usize..adapters.end as usize];
            hosts.iter_mut().for_each(|host| host.pipeline.meet_copies());
        }
        self.send_doorbells(world, first);
        self.pass_on(world, now, rank);
        self.start_spawned(world, rank)?;
        if self.slots[rank as usize].process.serves() && !self.slots[rank as usize].serves {
            self.slots[rank as usize].serves = true;
            self.open_barrier(world);
        }
        for host in met() {
            world.flush_completions(self, now, host);
            if world.host(host).adapter().sockets_in_use().is_some() {
                world.hosts.timers = TimerUse::Everything;
                world.arm_timer(host);
            }
        }
        self.suspend(world, now, rank);
        Ok(())
    }

    /// Shows other cores of the node what `rank` has written for them.
    fn pass_on(&mut self, world: &mut World<'_>, now: Time, rank: u32) {
        for (to, at) in self.slots[rank as usize].process.take_told() {
            let slot = &self.slots[to as usize];
            slot.process.hear(at, rank);
            if matches!(slot.wait, Wait::Any { .. }) && slot.program.is_some() {
                self.wake(world, to, at.max(now));
            }
        }
    }

    /// Plans the wake-up of a rank that has just stopped.
    fn suspend(&mut self, world: &mut World<'_>, now: Time, rank: u32) {
        let slot = &self.slots[rank as usize];
        let at = match (&slot.program, &slot.wait) {
            (Some(_), Wait::Nothing) => Some(now),
            (Some(_), Wait::Until(time)) => Some(*time),
            (Some(_), Wait::Any { .. } | Wait::Sockets(_)) => self.ready_at(world, rank),
            (_, Wait::Barrier) | (None, _) => {
                self.open_barrier(world);
                None
            }
        };
        if let Some(at) = at {
            self.wake(world, rank, at.max(now));
        }
    }

    /// Lets all ranks go on when every one that still runs has reached the barrier.
    fn open_barrier(&mut self, world: &mut World<'_>) {
        let is_late = |slot: &Slot| slot.is_awaited() && slot.wait != Wait::Barrier;
        // Those before the one that was late the last time have been here since.
        if let Some(more) = self.slots.iter().skip(self.late).position(is_late) {
            self.late += more;
            return;
        }
        self.late = 0;
        if self.slots.iter().any(is_late) {
            return;
        }
        let awaited = self.slots.iter().filter(|slot| slot.is_awaited());
        let Some(at) = awaited.map(|slot| slot.process.now()).max() else { return };
        for rank in 0..self.slots.len() as u32 {
            let slot = &mut self.slots[rank as usize];
            if slot.is_awaited() {
                slot.wait = Wait::Nothing;
                self.wake(world, rank, at);
            }
        }
    }

    fn ready_at(&self, world: &World<'_>, rank: u32) -> Option<Time> {
        let slot = &self.slots[rank as usize];
        let first = self.adapters[slot.process.node() as usize].start as usize;
        let adapter = |index: usize| world.hosts.all[first + index].adapter.as_deref();
        match &slot.wait {
            Wait::Any { cqs, watches, until } => {
                let at = earliest(adapter, cqs, watches).into_iter().chain(slot.process.next_note()).min();
                let at = at.unwrap_or(Time::MAX).min(*until);
                at.is_known().then_some(at)
            }
            Wait::Sockets(awaited) => first_ready(adapter, awaited),
            _ => None,
        }
    }

    fn send_doorbells(&mut self, world: &mut World<'_>, first_host: u32) {
        for bell in self.rung.drain(..) {
            let host = first_host + bell.nic as u32;
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

/// Programs on the cores of adapters.
impl Programs {
    /// Starts what `rank` asked for.
    fn start_spawned(&mut self, world: &mut World<'_>, rank: u32) -> Result<(), EngineError> {
        let spawned = self.slots[rank as usize].process.take_spawned();
        if spawned.is_empty() {
            return Ok(());
        }
        let parent = self.slots[rank as usize].process.clone();
        let here = spawned.len() as u32;
        let mut memories: Vec<(usize, Option<Rc<Sockets>>)> = Vec::new();
        for (nic, main) in spawned {
            let group = world.cluster.group_of(parent.node());
            let parts = world.cluster.seen_by(group);
            let dpu = parts.sole().node.dpu.as_ref().ok_or_else(|| {
                EngineError::Setup(format!(
                    "a program for the cores of `{}`, which has none; use a cluster with a DPU",
                    parts.sole().node.nic.name
                ))
            })?;
            if here > dpu.part.cores {
                let (name, cores) = (&parts.sole().node.nic.name, dpu.part.cores);
                return Err(EngineError::Setup(format!("{here} programs for the {cores} cores of `{name}`; start at most {cores}")));
            }
            let reach = world.cluster.groups[group].reach.as_deref();
            let known = memories.iter().find(|(other, _)| *other == nic).map(|(_, memory)| memory.clone());
            let memory = known.unwrap_or_else(|| reach.and_then(|reach| timing::on_adapter(parts, reach, nic, here)).map(Rc::new));
            memories.push((nic, memory.clone()));
            let number = self.slots.len() as u32;
            let process = Process::new(RankPlacement {
                rank: number,
                ranks: self.ranks as u32,
                node: parent.node(),
                lids: (0..parent.nics()).map(|nic| parent.lid(nic)).collect(),
                cpu: dpu.cpu.core(),
                doorbell: timing::doorbell(parts),
                sockets: memory,
                devices: None,
                segments: Rc::clone(parent.segments()),
            });
            process.trace(parent.is_traced());
            let program = main(process.clone());
            self.on_node[parent.node() as usize].push(number);
            self.slots.push(Slot {
                process,
                program: Some(program),
                wait: Wait::Nothing,
                wake_at: Time::MAX,
                ended: Time::ZERO,
                serves: false,
            });
            self.wake(world, number, world.queue.now());
        }
        Ok(())
    }
}

impl Client for Programs {
    fn visible(&mut self, world: &mut World<'_>, host: u32, queue: Option<CqId>, visible: Time) {
        let node = self.node_at[host as usize];
        let nic = (host - self.adapters[node as usize].start) as usize;
        // Of the cores of a node most wait for other queues.
        let concerns = |wait: &Wait| match (wait, queue) {
            (Wait::Any { cqs, watches, .. }, Some(cq)) => !watches.is_empty() || cqs.contains(&(nic, cq)),
            (Wait::Any { .. } | Wait::Sockets(_), _) => true,
            _ => false,
        };
        for i in 0..self.on_node[node as usize].len() {
            let rank = self.on_node[node as usize][i];
            let slot = &self.slots[rank as usize];
            if visible < slot.wake_at
                && slot.program.is_some()
                && concerns(&slot.wait)
                && let Some(at) = self.ready_at(world, rank)
            {
                self.wake(world, rank, at.max(world.queue.now()));
            }
        }
    }

    fn event(&mut self, world: &mut World<'_>, now: Time, event: EventKind) -> Result<(), EngineError> {
        match event {
            EventKind::Wake { rank } => self.resume(world, now, rank),
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
        Wait::Sockets(awaited) => awaited.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "),
        Wait::Any { cqs, watches, .. } => {
            let mut things: Vec<String> = cqs.iter().map(|(nic, cq)| format!("a completion on queue {} of NIC {nic}", cq.0)).collect();
            things.extend(watches.iter().map(|(nic, _, count)| format!("message {count} in watched memory of NIC {nic}")));
            things.join(" or ")
        }
    }
}
