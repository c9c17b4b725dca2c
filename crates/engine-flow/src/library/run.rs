//! The ranks of a job at work: what happens in the order of time, and what it costs whom.

use std::collections::VecDeque;

use fabriscope_catalog::{ResolvedCluster, SlotParameters};
use fabriscope_collectives::{Amount, Buffer, Message, Move};
use fabriscope_engine::{Cluster, EngineError, Feature, Unsupported};
use fabriscope_kernel::EventQueue;
use fabriscope_mpi::probe::Costs;
use fabriscope_mpi::{Packing, parts_of_slots, reduction_streams};
use fabriscope_units::{Bytes, Span, Time};
use rustc_hash::FxHashMap;

use super::carry::{Came, Counted, Phase, Runner, Step, Steps, Taken, Waiting};
use super::fabric::{Fabric, Queues};
use super::memory::Cores;
use super::table::Table;
use crate::support::{fabric, refusal};

/// Ranks of a library on nodes of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct LibraryWork<'a> {
    /// The nodes, in the order of their ranks.
    pub nodes: &'a [u32],
    /// Ranks on each, one node after the other.
    pub per_node: u32,
    /// What messages cost.
    pub costs: &'a Costs,
    /// Which of the nodes were near and far when that was measured.
    pub measured: [u32; 3],
    /// What collecting blocks costs.
    pub packing: Packing,
    /// Slots of shared memory, where the library has them.
    pub slots: Option<SlotParameters>,
    /// What the program goes through.
    pub footprint: Bytes,
    /// What becomes of routings that look at queues.
    pub queues: Queues,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The time between begins and ends of each rank.
    pub timed: Vec<Span>,
    /// Of them for each part since the last begin, by rank, up to the last part that a step names.
    pub laps: Vec<Vec<Span>>,
    /// What the time of each of these passed with, in the same order.
    pub causes: Vec<Vec<Causes>>,
    /// Messages between ranks.
    pub messages: u64,
    /// When the last rank was done.
    pub end: Time,
}

/// What the time of a part passed with; they add up to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Causes {
    /// The core at its own work: it posts, looks for, and takes messages, or computes.
    pub core: Span,
    /// It copies and adds, beside other cores of the node.
    pub copies: Span,
    /// It waits for a message that nobody has sent yet.
    pub late: Span,
    /// It waits for one that itself waits for others: at adapters, links, and memories of nodes.
    pub contention: Span,
    /// It waits for one on its way.
    pub transfer: Span,
}

impl Causes {
    fn of(lap: u64, counted: Counted) -> Causes {
        let Counted { copies, late, contention, transfer } = counted;
        let core = lap.saturating_sub(copies + late + contention + transfer);
        let [core, copies, late, contention, transfer] = [core, copies, late, contention, transfer].map(Span::from_ps);
        Causes { core, copies, late, contention, transfer }
    }
}

/// Whether programs of a library can be carried without packets on a cluster of these parts.
///
/// # Errors
/// What only packets know.
pub fn supports(parts: &ResolvedCluster) -> Result<(), Unsupported> {
    if parts.uniform().is_none() {
        let what = format!("ranks laid out on the unlike nodes of `{}`", parts.name);
        return Err(refusal(Feature::NodeGroups, what, "name one group of nodes"));
    }
    fabric(parts)
}

/// Runs the steps of all ranks.
///
/// # Errors
/// A cluster that it does not model, nodes that do not exist, ranks that wait for messages that never come.
pub fn run(cluster: &Cluster, work: &LibraryWork<'_>, steps: &dyn Fn(u32) -> Steps) -> Result<Outcome, EngineError> {
    supports(&cluster.parts)?;
    let kinds = work.costs.local.len().max(1);
    let mut fabric = Fabric::new(cluster, work.nodes, kinds, work.queues)?;
    let [here, near, far] = work.measured;
    let mut latency = |to: u32| {
        if to == here {
            return 0;
        }
        let way = fabric.way((here, 0), (to, 0));
        fabric.latency(way)
    };
    let ways = (latency(near), latency(far));
    let ranks = work.nodes.len() as u32 * work.per_node;
    let mut cores = Cores::new(cluster, work.nodes, work.per_node, (work.packing, work.slots));
    cores.goes_through(work.footprint);
    let running = Running {
        work: *work,
        table: Table::new(work.costs, work.per_node, ways),
        fabric,
        cores,
        queue: EventQueue::new(Span::from_ps(1 << 16), 1 << 14),
        runners: (0..ranks).map(|rank| Runner::new(steps(rank))).collect(),
        waiting: FxHashMap::default(),
        spare: Vec::new(),
        met: 0,
        messages: 0,
    };
    running.run()
}

struct Running<'a> {
    work: LibraryWork<'a>,
    table: Table<'a>,
    fabric: Fabric<'a>,
    cores: Cores,
    queue: EventQueue<u32>,
    runners: Vec<Runner>,
    /// By receiver and sender.
    waiting: FxHashMap<u64, Waiting>,
    spare: Vec<Waiting>,
    met: u32,
    messages: u64,
}

impl Running<'_> {
    fn run(mut self) -> Result<Outcome, EngineError> {
        for rank in 0..self.runners.len() as u32 {
            self.queue.push(Time::ZERO, rank);
        }
        while let Some((now, rank)) = self.queue.pop() {
            self.fabric.cluster.go_on(now)?;
            self.go(now.as_ps(), rank);
        }
        let open = self.runners.iter().filter(|runner| runner.phase != Phase::Over).count();
        if open > 0 {
            let first = self.runners.iter().position(|runner| runner.phase != Phase::Over).unwrap_or(0);
            let who = format!("  rank {first}: {} messages of its round have not come", self.runners[first].missing);
            return Err(EngineError::Stalled { at: self.queue.now(), waiting: open, ranks: self.runners.len(), who });
        }
        let end = self.runners.iter().map(|runner| runner.core).max().unwrap_or(0);
        let timed = self.runners.iter().map(|runner| Span::from_ps(runner.total)).collect();
        let parts = |runner: &Runner| runner.laps.iter().map(|lap| Span::from_ps(*lap)).collect();
        let laps = self.runners.iter().map(parts).collect();
        let causes = |runner: &Runner| {
            let counted = |part: usize| runner.causes.get(part).copied().unwrap_or_default();
            runner.laps.iter().enumerate().map(|(part, lap)| Causes::of(*lap, counted(part))).collect()
        };
        let causes = self.runners.iter().map(causes).collect();
        Ok(Outcome { timed, laps, causes, messages: self.messages, end: Time::from_ps(end) })
    }

    fn node(&self, rank: u32) -> u32 {
        rank / self.work.per_node
    }
    fn local(&self, rank: u32) -> u32 {
        rank % self.work.per_node
    }
    fn domain(&self, rank: u32) -> u32 {
        self.work.costs.domains.get(self.local(rank) as usize).copied().unwrap_or(0)
    }
    fn wake(&mut self, at: u64, rank: u32) {
        self.queue.push(Time::from_ps(at), rank);
    }

    /// Lets `rank` go on until it has to wait, or until its core is ahead of the time.
    fn go(&mut self, now: u64, rank: u32) {
        loop {
            let runner = &mut self.runners[rank as usize];
            runner.core = runner.core.max(now);
            match runner.phase {
                Phase::Next => {
                    if !self.next(rank) {
                        return;
                    }
                    let core = self.runners[rank as usize].core;
                    // What others do until then comes first: a server takes what comes in the order of time.
                    if core > now && matches!(self.runners[rank as usize].phase, Phase::Sends | Phase::Next) {
                        self.wake(core, rank);
                        return;
                    }
                }
                Phase::Sends => {
                    let sends = runner.round.sends.len();
                    while runner.sent < sends && runner.round.sends[runner.sent].slot {
                        runner.sent += 1;
                    }
                    if runner.sent < sends {
                        let message = runner.round.sends[runner.sent];
                        runner.sent += 1;
                        let last = runner.sent == sends;
                        self.send(rank, message);
                        let core = self.runners[rank as usize].core;
                        if !last && core > now {
                            self.wake(core, rank);
                            return;
                        }
                        continue;
                    }
                    self.write_slots(rank);
                    let runner = &mut self.runners[rank as usize];
                    runner.phase = Phase::Works;
                    if let Some((part, span)) = runner.beside.take() {
                        runner.core += span;
                        runner.since += span;
                        runner.count(part, span);
                        if runner.core > now {
                            let core = runner.core;
                            self.wake(core, rank);
                            return;
                        }
                    }
                }
                Phase::Works => {
                    let runner = &mut self.runners[rank as usize];
                    (runner.phase, runner.free) = (Phase::Waits, runner.core);
                    let free = runner.free;
                    let pending = std::mem::take(&mut runner.pending);
                    runner.missing -= pending.len() as u32;
                    for (from, call, size) in pending {
                        self.rendezvous(rank, from, (call, free), (size, false));
                    }
                }
                Phase::Waits => {
                    if runner.missing > 0 {
                        return;
                    }
                    runner.phase = Phase::Ends;
                    let last = runner.came.iter().map(|taken| taken.at).max().unwrap_or(0);
                    let at = runner.core.max(last).max(runner.until);
                    if at > now {
                        self.wake(at, rank);
                        return;
                    }
                }
                Phase::Ends => {
                    self.end(rank);
                    self.runners[rank as usize].phase = Phase::Next;
                }
                Phase::Meets | Phase::Over => return,
            }
        }
    }

    /// The next step; whether the rank goes on at once.
    fn next(&mut self, rank: u32) -> bool {
        let runner = &mut self.runners[rank as usize];
        match runner.steps.next() {
            None => {
                runner.phase = Phase::Over;
                false
            }
            Some(Step::Begin) => {
                (runner.begun, runner.since) = (runner.core, runner.core);
                runner.laps.clear();
                runner.causes.clear();
                runner.counted = Counted::default();
                true
            }
            Some(Step::Work(span)) => {
                runner.core += span.as_ps();
                true
            }
            Some(Step::Move(amount)) => {
                let core = runner.core;
                let (node, domain) = (self.node(rank), self.domain(rank));
                let moved = self.cores.moves(core, node, domain, amount);
                let runner = &mut self.runners[rank as usize];
                runner.counted.copies += moved - core;
                runner.core = moved;
                true
            }
            Some(Step::Beside(part, span)) => {
                runner.beside = Some((part, span.as_ps()));
                true
            }
            Some(Step::Lap(part)) => {
                runner.lap(part);
                true
            }
            Some(Step::End) => {
                runner.total += runner.core - runner.begun;
                true
            }
            Some(Step::Meet) => {
                runner.phase = Phase::Meets;
                self.met += 1;
                if self.met as usize == self.runners.len() {
                    self.met = 0;
                    let last = self.runners.iter().map(|runner| runner.core).max().unwrap_or(0);
                    for other in 0..self.runners.len() as u32 {
                        let runner = &mut self.runners[other as usize];
                        (runner.core, runner.phase) = (last, Phase::Next);
                        self.queue.push(Time::from_ps(last), other);
                    }
                }
                false
            }
            Some(Step::Round(round)) => {
                runner.round = round.round;
                runner.after = round.after;
                (runner.sent, runner.until, runner.phase) = (0, 0, Phase::Sends);
                runner.came.clear();
                runner.slots.clear();
                self.begin(rank, round.before);
                true
            }
        }
    }

    /// Moves, and posts the receives.
    fn begin(&mut self, rank: u32, before: Amount) {
        let (node, domain) = (self.node(rank), self.domain(rank));
        let runner = &mut self.runners[rank as usize];
        let core = runner.core;
        runner.core = self.cores.moves(core, node, domain, before);
        runner.counted.copies += runner.core - core;
        if before.moves > 1 && !runner.round.sends.is_empty() {
            runner.core += self.cores.layout().as_ps();
        }
        runner.missing = runner.round.receives.len() as u32;
        let receives = std::mem::take(&mut runner.round.receives);
        for (place, receive) in (0u32..).zip(&receives) {
            if !receive.slot {
                let (size, inside) = (self.table.of(receive.piece.bytes.0), self.node(receive.peer) == node);
                let posting = self.table.receiving(size, inside, self.local(receive.peer), self.local(rank));
                self.runners[rank as usize].core += posting.as_ps();
            }
            let key = key(rank, receive.peer, receive.slot);
            let posted = self.runners[rank as usize].core;
            let came = match self.waiting.get_mut(&key) {
                Some(Waiting::Came(came)) => {
                    let first = came.pop_front();
                    if came.is_empty() {
                        self.release(key);
                    }
                    first
                }
                Some(Waiting::Posted(all)) => {
                    all.push_back(posted);
                    None
                }
                None => {
                    let entry = self.spare.pop();
                    let mut all = if let Some(Waiting::Posted(all)) = entry { all } else { VecDeque::new() };
                    all.push_back(posted);
                    self.waiting.insert(key, Waiting::Posted(all));
                    None
                }
            };
            if let Some(came) = came {
                self.meet(rank, (receive.peer, place), came, posted);
            }
        }
        self.runners[rank as usize].round.receives = receives;
    }

    fn release(&mut self, key: u64) {
        if let Some(entry) = self.waiting.remove(&key)
            && matches!(entry, Waiting::Posted(_))
            && self.spare.len() < SPARE
        {
            self.spare.push(entry);
        }
    }

    /// A message finds its receive, or waits for it.
    fn deliver(&mut self, to: u32, from: u32, came: Came, look: u64) {
        let key = key(to, from, matches!(came, Came::Slots { .. }));
        if let Came::Eager { at, .. } | Came::Waits { at, .. } = came
            && !matches!(self.waiting.get(&key), Some(Waiting::Posted(_)))
        {
            self.runners[to as usize].early.push((at, from, look));
        }
        match self.waiting.get_mut(&key) {
            Some(Waiting::Posted(all)) => {
                let posted = all.pop_front().unwrap_or(0);
                if all.is_empty() {
                    self.release(key);
                }
                self.meet(to, (from, u32::MAX), came, posted);
                self.told(to);
            }
            Some(Waiting::Came(all)) => all.push_back(came),
            None => {
                self.waiting.insert(key, Waiting::Came(VecDeque::from([came])));
            }
        }
    }

    /// One thing less is missing.
    fn told(&mut self, rank: u32) {
        let runner = &self.runners[rank as usize];
        if runner.missing == 0 && runner.phase == Phase::Waits {
            let at = runner.core.max(self.queue.now().as_ps());
            self.wake(at, rank);
        }
    }

    /// Message and receive are together: when the receiver has it, and when the sender knows.
    fn meet(&mut self, rank: u32, (peer, place): (u32, u32), came: Came, posted: u64) {
        let runner = &mut self.runners[rank as usize];
        if let (Came::Waits { from, call, size, looked: false, .. }, Phase::Sends | Phase::Works) = (came, runner.phase) {
            // It will see the message when it has posted all, and not before.
            runner.pending.push((from, call, size));
            return;
        }
        runner.missing -= 1;
        match came {
            // The receive finds it, and takes it before it returns.
            Came::Eager { at: LOOKED_AT, found, .. } => runner.core = runner.core.max(posted) + found,
            Came::Eager { at, late, called, waited, .. } if at <= posted => {
                runner.came.push(Taken { at: posted, take: late, called, waited })
            }
            Came::Eager { at, take, called, waited, .. } => runner.came.push(Taken { at, take, called, waited }),
            Came::Slots { first, last } => {
                let found = |message: &Message| message.slot && message.peer == peer;
                let place = if place == u32::MAX { runner.round.receives.iter().position(found).unwrap_or(0) as u32 } else { place };
                runner.slots.push((place, first, last));
            }
            Came::Waits { from, call, size, looked, .. } => self.rendezvous(rank, from, (call, posted), (size, looked)),
        }
    }

    fn rendezvous(&mut self, rank: u32, from: u32, (call, posted): (u64, u64), (size, looked): (u32, bool)) {
        let (there, here) = (self.node(from), self.node(rank));
        let (sender, receiver) = (self.local(from), self.local(rank));
        let bytes = u64::from(size);
        let row = self.table.of(bytes);
        let (end, over, waited) = if there == here {
            let cost = self.table.local(row, sender, receiver);
            let (ready, late) = (cost.ready.as_ps(), cost.late.as_ps());
            let copy = if looked { cost.found.saturating_sub(cost.receive).as_ps() } else { late };
            let runner = &self.runners[rank as usize];
            let begin = (call + ready.saturating_sub(late)).max(posted).max(runner.copying).max(runner.core);
            let kind = self.table.kind(sender, receiver);
            let gap = self.table.local_gap(row, kind);
            let waited = self.fabric.within(begin, (here, kind), gap, copy);
            let end = begin + copy + waited;
            let runner = &mut self.runners[rank as usize];
            runner.copying = end;
            if looked {
                // The receive finds it, and copies before it returns.
                runner.core = end;
            }
            (end, end + cost.released.unwrap_or_default().as_ps().saturating_sub(late), waited)
        } else {
            let way = self.fabric.way((there, sender), (here, receiver));
            let cost = self.table.remote(row, sender, receiver, self.fabric.latency(way));
            let sender_free = if cost.needs_sender { self.posted_until(from) } else { 0 };
            let begin = (call + cost.post.as_ps()).max(posted);
            let (gap, both) = self.table.gaps(row);
            let busy = self.busy(bytes, gap, both);
            let waited = self.fabric.cross(begin, (there, here), way, bytes, busy);
            let late = if looked { cost.found } else { cost.late };
            // A sender that still posts goes on with it afterwards.
            let meanwhile = sender_free.saturating_sub(call + cost.post.as_ps());
            let end = (call + cost.ready.as_ps() + meanwhile).max(posted + late.as_ps()) + waited;
            (end, (call + cost.sent.as_ps() + meanwhile).max(posted + cost.released.unwrap_or_default().as_ps()) + waited, waited)
        };
        self.runners[rank as usize].came.push(Taken { at: end, take: 0, called: call, waited });
        let sender = &mut self.runners[from as usize];
        // It waits for its receiver, as that one for it.
        sender.holds(Taken { at: over, take: 0, called: posted, waited });
        sender.missing -= 1;
        self.told(from);
    }

    /// Until when a rank posts its round, as far as that is known.
    fn posted_until(&self, rank: u32) -> u64 {
        let runner = &self.runners[rank as usize];
        if matches!(runner.phase, Phase::Sends | Phase::Works) { runner.core } else { runner.free }
    }

    /// What a message keeps the adapters for, in its direction and of both.
    fn busy(&self, bytes: u64, gap: u64, both: u64) -> (u64, u64) {
        (if gap > 0 { gap } else { self.fabric.on_wire(bytes) }, both / 2)
    }

    fn send(&mut self, rank: u32, message: Message) {
        self.messages += 1;
        let (peer, bytes) = (message.peer, message.piece.bytes.0);
        let (here, there) = (self.node(rank), self.node(peer));
        let (sender, receiver) = (self.local(rank), self.local(peer));
        let row = self.table.of(bytes);
        let call = self.runners[rank as usize].core;
        let (cost, way) = if here == there {
            (self.table.local(row, sender, receiver), 0)
        } else {
            let way = self.fabric.way((here, sender), (there, receiver));
            (self.table.remote(row, sender, receiver, self.fabric.latency(way)), way)
        };
        let left = call + cost.post.as_ps();
        self.runners[rank as usize].core = left;
        if cost.released.is_some() {
            self.runners[rank as usize].missing += 1;
            let at = call + cost.ready.saturating_sub(cost.late).as_ps();
            let look = cost.late.saturating_sub(cost.found).as_ps();
            self.deliver(peer, rank, Came::Waits { from: rank, call, size: bytes as u32, at, looked: false }, look);
            return;
        }
        let waited = if here == there {
            let kind = self.table.kind(sender, receiver);
            self.fabric.within(call, (here, kind), self.table.local_gap(row, kind), cost.ready.as_ps())
        } else {
            let (gap, both) = self.table.gaps(row);
            self.fabric.cross(left, (here, there), way, bytes, self.busy(bytes, gap, both))
        };
        if cost.sent > cost.post {
            let runner = &mut self.runners[rank as usize];
            runner.holds(Taken { at: call + cost.sent.as_ps() + waited, take: 0, called: call, waited });
        }
        let at = call + cost.ready.saturating_sub(cost.take).as_ps() + waited;
        let [late, found] = [cost.late, cost.found].map(|span| span.saturating_sub(cost.receive).as_ps());
        self.deliver(
            peer,
            rank,
            Came::Eager { at, take: cost.take.as_ps(), late, found, called: call, waited },
            late.saturating_sub(found),
        );
    }

    fn write_slots(&mut self, rank: u32) {
        let Some(slots) = self.cores.slots else { return };
        let sends: Vec<Message> = self.runners[rank as usize].round.sends.iter().filter(|message| message.slot).copied().collect();
        let (node, domain) = (self.node(rank), self.domain(rank));
        for readers in sends.chunk_by(|one, other| one.piece == other.piece) {
            let bytes = readers.first().map_or(0, |message| message.piece.bytes.saturating_u32());
            let (mut first, mut core) = (None, self.runners[rank as usize].core);
            for part in parts_of_slots(slots, bytes) {
                core = self.cores.copy(core, node, Bytes(part.into()), (domain, domain), Span::ZERO);
                first = first.or(Some(core));
            }
            let runner = &mut self.runners[rank as usize];
            runner.counted.copies += core - runner.core;
            runner.core = core;
            for reader in readers {
                let crossing = self.work.costs.crossing(domain, self.domain(reader.peer)).as_ps();
                self.messages += 1;
                let came = Came::Slots { first: first.unwrap_or(core) + crossing, last: core + crossing };
                self.deliver(reader.peer, rank, came, 0);
            }
        }
    }

    /// Takes what has come, in order, reads slots and moves.
    fn end(&mut self, rank: u32) {
        let (node, domain) = (self.node(rank), self.domain(rank));
        let runner = &mut self.runners[rank as usize];
        let mut came = std::mem::take(&mut runner.came);
        came.sort_unstable();
        // What had come before the posts were over waited for them.
        let mut core = runner.free;
        for taken in &came {
            runner.counted.waits(core, *taken);
            core = core.max(taken.at) + taken.take;
        }
        if runner.until > core {
            runner.counted.waits(core, runner.over);
            core = runner.until;
        }
        // The library looks at all that is there, also at what nobody waits for yet.
        let mut early = std::mem::take(&mut runner.early);
        early.sort_unstable();
        let mut looked = 0;
        while let Some(&(at, from, look)) = early.get(looked).filter(|(at, ..)| *at <= core) {
            looked += 1;
            if self.look_at(rank, from, at) {
                core += look;
            }
        }
        early.drain(..looked);
        let runner = &mut self.runners[rank as usize];
        runner.early = early;
        came.clear();
        runner.came = came;
        let mut after = std::mem::take(&mut runner.round.after);
        let slots = {
            let mut slots = std::mem::take(&mut runner.slots);
            slots.sort_unstable();
            slots
        };
        for (place, first, last) in slots {
            let message = self.runners[rank as usize].round.receives[place as usize];
            core = self.read(rank, core, (node, domain), message, (first, last), &mut after);
        }
        let runner = &mut self.runners[rank as usize];
        let amount = if after.is_empty() { runner.after } else { Amount::of(&after) };
        runner.core = self.cores.moves(core, node, domain, amount);
        runner.counted.copies += runner.core - core;
    }

    /// A message that came from `from` at `at` is looked at, if it still waits.
    fn look_at(&mut self, rank: u32, from: u32, when: u64) -> bool {
        let Some(Waiting::Came(all)) = self.waiting.get_mut(&key(rank, from, false)) else { return false };
        for came in all {
            match came {
                Came::Eager { at, .. } if *at == when => *at = LOOKED_AT,
                Came::Waits { at, looked, .. } if *at == when && !*looked => *looked = true,
                _ => continue,
            }
            return true;
        }
        false
    }

    fn read(
        &mut self,
        rank: u32,
        mut core: u64,
        (node, domain): (u32, u32),
        message: Message,
        (first, last): (u64, u64),
        moves: &mut Vec<Move>,
    ) -> u64 {
        let Some(slots) = self.cores.slots else { return core };
        let theirs = self.domain(message.peer);
        let crossing = self.work.costs.crossing(domain, theirs);
        let copied = !matches!(message.piece.buffer, Buffer::Scratch(_));
        let bytes = message.piece.bytes.saturating_u32();
        let count = parts_of_slots(slots, bytes).count() as u64;
        for (number, part) in (0u64..).zip(parts_of_slots(slots, bytes)) {
            let visible = first + (last - first) * number / count.saturating_sub(1).max(1);
            let spun = core < visible;
            // Its writer has not come so far.
            self.runners[rank as usize].counted.late += visible.saturating_sub(core);
            core = core.max(visible);
            let begun = core;
            // Who spins on the line has it when it sees the change.
            let lines = u64::from(!spun) + u64::from(part > slots.inline);
            core += self.cores.line(crossing) * lines;
            if copied {
                core = self.cores.copy(core, node, Bytes(part.into()), (theirs, domain), crossing);
            }
            self.runners[rank as usize].counted.copies += core - begun;
        }
        let begun = core;
        for _ in moves.extract_if(.., |this| this.from == message.piece) {
            core = self.cores.copy(core, node, reduction_streams(message.piece.bytes), (theirs, domain), crossing);
        }
        self.runners[rank as usize].counted.copies += core - begun;
        core
    }
}

fn key(receiver: u32, sender: u32, slot: bool) -> u64 {
    u64::from(slot) << 63 | u64::from(receiver) << 32 | u64::from(sender)
}

/// When a message came that the library has looked at.
const LOOKED_AT: u64 = 0;
/// Lists that are kept for later. Basis: assumed.
const SPARE: usize = 1 << 16;
