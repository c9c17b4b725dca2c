//! Runs a schedule: operations start when what they wait for is over, messages become flows, flows end.

use std::collections::VecDeque;

use fabriscope_engine::{Cluster, EngineError, LinkLoad, OpTimes, Order, Run, RunOptions, Stats, Watch};
use fabriscope_fabric::{Link, LinkId};
use fabriscope_schedule::{OpKind, Schedule};
use fabriscope_units::{Bytes, Span, Time};
use rustc_hash::FxHashMap;

use crate::fluid::{Event, Fluid, Kind};
use crate::latency::Latency;
use crate::network::Network;
use crate::paths::Paths;

/// Whose a flow is.
#[derive(Debug, Clone, Copy)]
struct Message {
    rank: u32,
    op: u32,
    /// Switches and cables (ps).
    latency: u64,
}

/// A run in progress.
struct State<'a> {
    op_times: Watch,
    fluid: Fluid<Message>,
    paths: Paths<'a>,
    /// Of the nodes of each group.
    latencies: Vec<Latency>,
    order: Order,
    cluster: &'a Cluster,
    core_free: Vec<Time>,
    nic_free: Vec<Time>,
    ends: Vec<Time>,
    times: Vec<OpTimes>,
    finished: Vec<bool>,
    left: usize,
    /// Receives that wait for a message, messages that wait for a receive; an entry goes when it is empty.
    mailboxes: FxHashMap<(u32, u32, u32), Mailbox>,
    loads: Vec<(f64, f64)>,
    stats: Stats,
    path: Vec<(u32, f64)>,
    ready: Vec<u32>,
}

#[derive(Debug, Default)]
struct Mailbox {
    receives: VecDeque<u32>,
    messages: VecDeque<Time>,
}

pub(crate) fn run(cluster: &Cluster, schedule: &Schedule, options: &RunOptions) -> Result<Run, EngineError> {
    let parts = &cluster.parts;
    let ranks = schedule.ranks();
    if ranks > cluster.ranks() {
        return Err(EngineError::TooManyRanks { ranks, adapters: cluster.ranks() });
    }
    let paths = Paths::new(&cluster.fabric, parts.routing)?;
    let graph = &cluster.fabric.graph;
    let latencies = Latency::of_groups(cluster);
    let endpoints = graph.endpoint_count();
    // The end of a host's link that is a host has the lower number.
    let capacity = |link: &Link| latencies[cluster.group_at(link.from.0.min(link.to.0))].capacity(link, endpoints);
    let network = Network::new(graph.links().iter().map(capacity), paths.stride);
    let order = Order::new(schedule, 0..ranks);
    let ops = order.len();
    let mut state = State {
        op_times: options.op_times,
        fluid: Fluid::new(network),
        paths,
        latencies,
        cluster,
        core_free: vec![Time::ZERO; ranks as usize],
        nic_free: vec![Time::ZERO; ranks as usize],
        ends: vec![Time::ZERO; ranks as usize],
        times: vec![OpTimes::default(); if options.op_times == Watch::On { ops } else { 0 }],
        finished: vec![false; ops],
        left: ops,
        mailboxes: FxHashMap::default(),
        loads: vec![(0.0, 0.0); if options.link_loads == Watch::On { graph.link_count() as usize } else { 0 }],
        stats: Stats::default(),
        path: Vec::new(),
        ready: Vec::new(),
        order,
    };
    for rank in 0..ranks {
        for op in state.order.ops(rank as usize) {
            if state.order.is_ready(op) {
                state.start(Time::ZERO, rank, op);
            }
        }
    }
    state.events()?;
    state.result()
}

impl State<'_> {
    /// Hands out events instant by instant; rates are solved once for all that happens in one.
    fn events(&mut self) -> Result<(), EngineError> {
        while let Some((now, event)) = self.fluid.queue.pop() {
            self.cluster.go_on(now)?;
            self.event(now, event);
            let end = now + Span::from_ps(1);
            while let Some((_, event)) = self.fluid.queue.pop_before(end) {
                self.event(now, event);
            }
            self.fluid.settle(now);
        }
        Ok(())
    }

    fn event(&mut self, now: Time, event: Event) {
        self.stats.events += 1;
        match event.kind {
            Kind::Inject => self.inject(now, event.rank, event.what),
            Kind::Drain => {
                if let Some((Message { rank, op, latency }, tail)) = self.fluid.drained(now, event) {
                    self.landed(tail, rank, op, latency);
                }
            }
            Kind::Done => self.finish(now, event.rank, event.what),
        }
    }

    fn start(&mut self, now: Time, rank: u32, op: u32) {
        if let Some(times) = self.times.get_mut(op as usize) {
            times.started = now;
        }
        match self.order.kind(op) {
            OpKind::Compute { span } => self.done(now + span, rank, op),
            OpKind::Recv { from, tag, .. } => {
                let key = (rank, from, tag);
                let waiting = self.mailboxes.get_mut(&key).and_then(|mailbox| {
                    let arrived = mailbox.messages.pop_front();
                    arrived.map(|arrived| (arrived, mailbox.messages.is_empty() && mailbox.receives.is_empty()))
                });
                match waiting {
                    Some((arrived, last)) => {
                        if last {
                            self.mailboxes.remove(&key);
                        }
                        self.done(arrived.max(now), rank, op);
                    }
                    None => self.mailboxes.entry(key).or_default().receives.push_back(op),
                }
            }
            kind => self.post(now, rank, op, kind),
        }
        if self.order.has_followers(op) {
            self.release(now, rank, op, true);
        }
    }

    /// The core writes the work request; the NIC takes messages one after the other.
    fn post(&mut self, now: Time, rank: u32, op: u32, kind: OpKind) {
        let own = &self.latencies[self.cluster.group_at(rank)];
        let core = &mut self.core_free[rank as usize];
        let posted = now.max(*core);
        *core = posted + own.cpu.wqe_build + own.cpu.mmio_busy;
        let nic = &mut self.nic_free[rank as usize];
        let begin = (posted + own.rung()).max(*nic);
        *nic = begin + own.message_interval();
        let bytes = kind.bytes().0;
        let at = match kind {
            // The request travels first; the far side then sends as this one would.
            OpKind::Get { from, .. } => {
                let requested = own.requested(&self.latencies[self.cluster.group_at(from)]);
                self.paths.path(rank, from, rank, &mut self.path);
                begin + requested + Span::from_ps(self.path_latency()) + self.latency(from).ends(bytes).out
            }
            _ => begin + self.latency(rank).ends(bytes).out,
        };
        self.fluid.queue.push(at, Event { kind: Kind::Inject, rank, what: op });
    }

    /// What messages need at the host of a rank.
    fn latency(&mut self, rank: u32) -> &mut Latency {
        &mut self.latencies[self.cluster.group_at(rank)]
    }

    /// Switches and cables of the path at hand (ps): of the average path, where there are several.
    fn path_latency(&self) -> u64 {
        let graph = &self.cluster.fabric.graph;
        let (mut links, mut delay) = (0.0, 0.0);
        for &(link, share) in &self.path {
            links += share;
            delay += share * graph.link(LinkId(link)).delay.as_ps() as f64;
        }
        (delay + self.latencies[0].switch.along(graph, &self.path, links)) as u64
    }

    fn inject(&mut self, now: Time, rank: u32, op: u32) {
        let kind = self.order.kind(op);
        let peer = kind.peer().unwrap_or(rank);
        let bytes = kind.bytes().0;
        let (src, dest) = if matches!(kind, OpKind::Get { .. }) { (peer, rank) } else { (rank, peer) };
        self.stats.bytes_sent += bytes;
        let mut path = std::mem::take(&mut self.path);
        if src == dest {
            // To itself: through the NIC's own link and back is not modelled; memory is not the limit.
            path.clear();
            self.path = path;
            self.landed(now, rank, op, 0);
            return;
        }
        self.paths.path(src, dest, src, &mut path);
        self.path = path;
        let source = self.latency(src);
        let (ends, wire) = (source.ends(bytes), source.wire_bytes(bytes));
        if !self.loads.is_empty() {
            let packets = bytes.div_ceil(self.cluster.parts.mtu.0).max(1) as f64;
            for &(link, share) in &self.path {
                let load = &mut self.loads[link as usize];
                load.0 += packets * share;
                load.1 += wire as f64 * share;
            }
        }
        let floor = Time::from_ps((now + ends.fetched).as_ps().saturating_sub(ends.out.as_ps()));
        self.fluid.start(now, &self.path, wire, floor, Message { rank, op, latency: self.path_latency() });
    }

    /// The tail of a message left at `tail` and needs `latency` (ps) to the far NIC.
    fn landed(&mut self, tail: Time, rank: u32, op: u32, latency: u64) {
        let kind = self.order.kind(op);
        let way = Span::from_ps(latency);
        let peer = kind.peer().unwrap_or(rank);
        let receiver = self.latency(if matches!(kind, OpKind::Get { .. }) { rank } else { peer });
        let received = tail + way + receiver.ends(kind.bytes().0).received + receiver.cpu.detect;
        self.stats.messages += 1;
        self.stats.bytes_delivered += kind.bytes().0;
        match kind {
            OpKind::Get { .. } => self.done(received, rank, op),
            OpKind::Send { to, tag, .. } => {
                self.deliver(received, rank, to, tag);
                self.acknowledge(tail + way, way, (rank, peer), op);
            }
            _ => self.acknowledge(tail + way, way, (rank, peer), op),
        }
    }

    fn acknowledge(&mut self, arrived: Time, way: Span, (rank, peer): (u32, u32), op: u32) {
        let [own, far] = [rank, peer].map(|rank| &self.latencies[self.cluster.group_at(rank)]);
        let seen = arrived + own.acknowledged(far) + way + own.cpu.detect;
        self.done(seen, rank, op);
    }

    fn deliver(&mut self, at: Time, from: u32, to: u32, tag: u32) {
        let key = (to, from, tag);
        let mailbox = self.mailboxes.entry(key).or_default();
        match mailbox.receives.pop_front() {
            Some(op) => {
                if mailbox.receives.is_empty() && mailbox.messages.is_empty() {
                    self.mailboxes.remove(&key);
                }
                self.done(at, to, op);
            }
            None => mailbox.messages.push_back(at),
        }
    }

    /// `op` will have ended at `at`: an event where others wait for it, else a note.
    fn done(&mut self, at: Time, rank: u32, op: u32) {
        if self.order.has_followers(op) {
            self.fluid.queue.push(at, Event { kind: Kind::Done, rank, what: op });
        } else {
            self.finish(at, rank, op);
        }
    }

    fn finish(&mut self, at: Time, rank: u32, op: u32) {
        self.left -= 1;
        self.finished[op as usize] = true;
        let end = &mut self.ends[rank as usize];
        *end = (*end).max(at);
        if let Some(times) = self.times.get_mut(op as usize) {
            times.ended = at;
        }
        if self.order.has_followers(op) {
            self.release(at, rank, op, false);
        }
    }

    fn release(&mut self, now: Time, rank: u32, op: u32, start: bool) {
        let mut ready = std::mem::take(&mut self.ready);
        if start {
            self.order.started(op, &mut ready)
        } else {
            self.order.ended(op, &mut ready)
        }
        for next in ready.drain(..) {
            self.start(now, rank, next);
        }
        self.ready = ready;
    }

    fn result(self) -> Result<Run, EngineError> {
        if self.left > 0 {
            return Err(self.stalled());
        }
        let load = |(link, (packets, bytes)): (usize, (f64, f64))| LinkLoad {
            link: link as u32,
            packets: packets as u64,
            bytes: Bytes(bytes as u64),
            rested: Span::ZERO,
        };
        let links = self.loads.iter().copied().enumerate().filter(|(_, (packets, _))| *packets > 0.0).map(load).collect();
        let end = self.ends.iter().copied().max().unwrap_or(Time::ZERO);
        debug_assert!(self.op_times == Watch::Off || self.times.len() == self.finished.len());
        Ok(Run { end, ranks: self.ends, stats: self.stats, links, ops: self.times, ..Run::default() })
    }

    fn stalled(&self) -> EngineError {
        let ranks = self.ends.len();
        let first = |rank: usize| self.order.ops(rank).find(|&op| !self.finished[op as usize]);
        let stuck: Vec<(usize, u32)> = (0..ranks).filter_map(|rank| Some((rank, first(rank)?))).collect();
        let line = |(rank, op): &(usize, u32)| {
            let (kind, number) = (self.order.kind(*op), op - self.order.ops(*rank).start);
            format!("  rank {rank}: operation {number} ({kind}) has not ended")
        };
        let who = stuck.iter().take(20).map(line).collect::<Vec<_>>().join("\n");
        EngineError::Stalled { at: self.fluid.queue.now(), waiting: stuck.len(), ranks, who }
    }
}
