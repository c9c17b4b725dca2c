//! Ranks whose messages a library carries: each has a core that posts, polls and copies, and may share its adapter with others.
//!
//! Modelled: the core does one thing at a time, sends before receives; eager messages over connections with a shared receive
//! queue, or cut into datagrams with sequence numbers, acknowledgements and timeouts (`fabriscope_node::datagram`); ranks at one
//! adapter copy through memory.
//! Not modelled: the rendezvous, coalescing of messages, memory bandwidth shared by the cores of a node.

use std::collections::VecDeque;

use fabriscope_engine::{DatagramCosts, EngineError, Feature, Library};
use fabriscope_node::datagram::{Arrival, Channel, GaveUp};
use fabriscope_node::wqe_bytes;
use fabriscope_node::{CpuCosts, DoorbellPolicy};
use fabriscope_schedule::OpKind;
use fabriscope_units::{Bytes, Remedy, Span, Time};
use fabriscope_verbs::{QpNum, SendFlags, SendWr, Service, Sge, UdDestination, Wc, WcStatus};

use crate::Transfers;
use crate::connect::{Inlet, QKEY, Rank, receive};
use crate::event::Event;
use crate::per_host::PerHost;
use crate::support::refusal;
use crate::transfer::Transferring;
use crate::world::World;

/// The library's side of the ranks of a schedule.
pub(crate) struct Processes {
    /// What each rank pays.
    costs: Vec<RankCosts>,
    /// The costs of datagrams, where the library uses them.
    datagrams: Option<DatagramCosts>,
    per_host: u32,
    cores: Vec<Core>,
    /// By rank and place among its peers; for datagrams.
    channels: Vec<Vec<Channel<Piece>>>,
    again: Vec<(u32, Piece)>,
}

/// The library of a rank, if it has one, on its core.
struct RankCosts {
    library: Option<Library>,
    cpu: CpuCosts,
    doorbell: DoorbellPolicy,
}

/// The core of a rank.
#[derive(Default)]
struct Core {
    /// Sends to post.
    posts: VecDeque<u32>,
    /// What came, and when it can be seen.
    inbox: VecDeque<(Time, Note)>,
    free: Time,
    /// When the one valid turn comes, if one is planned.
    turn_at: Option<Time>,
    /// Requests of the datagram queue, and those known to be complete.
    posted: u64,
    freed: u64,
    /// Requests since the last one with a completion.
    unsignaled: u32,
    /// Peers with packets that wait for room in the send queue.
    blocked: VecDeque<u32>,
    ticking: bool,
}

enum Note {
    Completion(Wc),
    /// A message of a rank at the same adapter.
    Local {
        from: u32,
        tag: u32,
        bytes: Bytes,
    },
}

/// A packet of a message.
#[derive(Debug, Clone, Copy)]
struct Piece {
    op: u32,
    tag: u32,
    bytes: Bytes,
    last: bool,
}

/// Marks an acknowledgement that is sent by itself.
const ACK: u32 = 1 << 31;

impl Processes {
    /// The processes of `ranks`, the first of which is `first`, if a library carries the messages of any.
    pub fn new(
        how: Transfers,
        libraries: &[(u32, Library)],
        (first, ranks): (u32, &[Rank]),
        cpu: &PerHost<CpuCosts>,
        doorbell: &PerHost<DoorbellPolicy>,
    ) -> Option<Box<Processes>> {
        let costs = |rank: u32| {
            let host = rank / how.per_host();
            RankCosts { library: how.of(rank, libraries).library, cpu: cpu.of(host), doorbell: doorbell.of(host) }
        };
        if how.library.is_none() && libraries.is_empty() {
            return None;
        }
        let costs: Vec<RankCosts> = (first..).zip(ranks).map(|(rank, _)| costs(rank)).collect();
        let datagrams = how.library.and_then(|library| library.datagrams).filter(|_| how.service == Service::Ud);
        let channels = match datagrams {
            Some(_) => ranks.iter().map(|rank| vec![Channel::default(); rank.connections.len()]).collect(),
            None => Vec::new(),
        };
        let cores = ranks.iter().map(|_| Core::default()).collect();
        Some(Box::new(Processes { costs, datagrams, per_host: how.per_host(), cores, channels, again: Vec::new() }))
    }

    /// Whether a library carries the messages of the process with this index.
    pub fn carries(&self, index: usize) -> bool {
        self.costs[index].library.is_some()
    }

    fn library(&self, index: usize) -> &Library {
        self.costs[index].library.as_ref().expect("ranks without a library post to the verbs themselves")
    }

    fn cpu(&self, index: usize) -> &CpuCosts {
        &self.costs[index].cpu
    }

    /// A completion that can be seen at `seen` by the process with index `core`, which is `rank`.
    pub fn completed(&mut self, world: &mut World<'_>, (core, rank): (usize, u32), seen: Time, wc: Wc) {
        self.cores[core].inbox.push_back((seen, Note::Completion(wc)));
        self.plan(world, (core, rank), seen);
    }

    fn plan(&mut self, world: &mut World<'_>, (core, rank): (usize, u32), ready: Time) {
        let core = &mut self.cores[core];
        let at = ready.max(core.free).max(world.queue.now());
        if core.turn_at.is_none_or(|planned| at < planned) {
            // What happens at the start of the run comes before what ranks do then.
            let at = at.max(Time::from_ps(1));
            core.turn_at = Some(at);
            world.queue.push(at, Event::turn(rank));
        }
    }

    /// Has the library look at its timers.
    fn plan_tick(&mut self, world: &mut World<'_>, (core, rank): (usize, u32)) {
        let Some(costs) = self.datagrams else { return };
        if !std::mem::replace(&mut self.cores[core].ticking, true) {
            world.queue.push(world.queue.now() + costs.tick, Event::tick(rank));
        }
    }

    /// What copying `bytes` costs.
    fn copy(&self, index: usize, bytes: Bytes) -> Span {
        self.cpu(index).copy(bytes, bytes)
    }

    /// Posts `wr` from `clock` on and rings; returns when the core is free again.
    fn ring(
        &self,
        world: &mut World<'_>,
        (index, rank): (usize, u32),
        (host, qp): (u32, QpNum),
        mut wr: SendWr,
        clock: Time,
    ) -> Result<Time, EngineError> {
        if world.watch.trace.timeline().is_some() {
            wr.flags |= SendFlags::TRACED;
        }
        let inline = wr.length() <= self.library(index).inline_limit;
        if inline {
            wr.flags |= SendFlags::INLINE;
        }
        let built = clock + self.library(index).wqe_build;
        let h = world.host(host);
        let posted = h.nic().post_send(built, qp, &wr).map_err(|error| EngineError::Setup(error.in_full()))?;
        let bytes = wqe_bytes(&wr);
        let rung = built + self.cpu(index).mmio_latency;
        let mut seen = rung;
        if self.costs[index].doorbell.pushes(1, bytes, inline) {
            seen += self.cpu(index).blueflame_block * (bytes.0.div_ceil(64).max(1) - 1);
        } else {
            let timing = *h.pipeline.bus();
            seen += timing.read_latency + timing.completion_time(Bytes(bytes.0.div_ceil(64) * 64));
        }
        world.follow(rank, (host, qp, wr.wr_id), [clock, built, rung.min(seen), seen]);
        world.queue.push(seen, Event::work(host, qp, posted.wqe));
        Ok(built + self.cpu(index).mmio_busy)
    }
}

impl Transferring {
    /// A send of `rank` may be posted: its core will do it.
    pub(crate) fn entrust(&mut self, world: &mut World<'_>, now: Time, rank: u32, op: u32) {
        let core = (rank - self.first_rank) as usize;
        self.open += 1;
        if let Some(processes) = &mut self.processes {
            processes.cores[core].posts.push_back(op);
            processes.plan(world, (core, rank), now);
        }
    }

    /// The core of `rank` has time: it does the next thing.
    pub(crate) fn turn(&mut self, world: &mut World<'_>, now: Time, rank: u32) -> Result<(), EngineError> {
        let Some(mut processes) = self.processes.take() else { return Ok(()) };
        let result = self.act(&mut processes, world, now, rank);
        self.processes = Some(processes);
        result
    }

    fn act(&mut self, p: &mut Processes, world: &mut World<'_>, now: Time, rank: u32) -> Result<(), EngineError> {
        let index = (rank - self.first_rank) as usize;
        if p.cores[index].turn_at != Some(now) {
            return Ok(());
        }
        p.cores[index].turn_at = None;
        let free = if let Some(op) = p.cores[index].posts.pop_front() {
            self.send(p, world, now, rank, op)?
        } else if p.cores[index].inbox.front().is_some_and(|(seen, _)| *seen <= now)
            && let Some((_, note)) = p.cores[index].inbox.pop_front()
        {
            self.take(p, world, now, rank, note)?
        } else {
            now
        };
        let core = &mut p.cores[index];
        core.free = core.free.max(free);
        if !core.posts.is_empty() {
            p.plan(world, (index, rank), free);
        } else if let Some(&(seen, _)) = core.inbox.front() {
            p.plan(world, (index, rank), seen);
        }
        Ok(())
    }

    /// Posts a message; returns when the core is free again.
    fn send(&mut self, p: &mut Processes, world: &mut World<'_>, now: Time, rank: u32, op: u32) -> Result<Time, EngineError> {
        let OpKind::Send { to, bytes, tag } = self.kind(op) else {
            let what = "one-sided operations through a message-passing library";
            return Err(refusal(Feature::Service, what, "use two-sided messages, or reliable connections without a library").into());
        };
        let index = (rank - self.first_rank) as usize;
        let mut clock = now + p.library(index).send;
        let host = rank / p.per_host;
        if to / p.per_host == host {
            clock += p.copy(index, bytes);
            world.queue.push(clock, Event::done(rank, op));
            let peer = (to - self.first_rank) as usize;
            let seen = clock + p.cpu(peer).detect;
            p.cores[peer].inbox.push_back((seen, Note::Local { from: rank, tag, bytes }));
            p.plan(world, (peer, to), seen);
            return Ok(clock);
        }
        let end = &self.ranks[(rank - self.first_rank) as usize];
        let Some(costs) = p.datagrams else {
            let qp = end.connection(to).expect("all peers were connected").qp;
            if bytes <= p.library(index).copy_limit {
                clock += p.copy(index, bytes);
            }
            let length = (bytes + p.library(index).header).saturating_u32();
            let wr = SendWr::send(u64::from(op), Sge { addr: 0, length, lkey: end.memory.lkey }).with_imm(tag);
            clock = p.ring(world, (index, rank), (host, qp), wr, clock)?;
            world.queue.push(clock, Event::done(rank, op));
            return Ok(clock);
        };
        let place = end.place(to).expect("all peers were connected");
        let mut left = bytes + p.library(index).header;
        let channel = &mut p.channels[index][place];
        loop {
            let bytes = left.min(costs.payload);
            left -= bytes;
            let last = left == Bytes::ZERO;
            channel.post(Piece { op, tag, bytes, last });
            if last {
                break;
            }
        }
        self.pump(p, world, clock, rank, place)
    }

    /// Sends the packets to one peer that window and queue allow; returns when the core is free again.
    fn pump(&mut self, p: &mut Processes, world: &mut World<'_>, mut clock: Time, rank: u32, place: usize) -> Result<Time, EngineError> {
        let Some(costs) = p.datagrams else { return Ok(clock) };
        let index = (rank - self.first_rank) as usize;
        loop {
            if !p.has_room(index, &costs) {
                let waits = p.channels[index][place].is_ready(&costs.window) && !p.cores[index].blocked.contains(&(place as u32));
                if waits {
                    p.cores[index].blocked.push_back(place as u32);
                }
                break;
            }
            let Some((number, piece)) = p.channels[index][place].poll_transmit(clock, &costs.window) else { break };
            clock = self.datagram(p, world, clock, rank, place, (piece.bytes, number))?;
            if piece.last {
                world.queue.push(clock, Event::done(rank, piece.op));
            }
        }
        p.plan_tick(world, (index, rank));
        Ok(clock)
    }

    /// Posts one packet that carries `imm`; returns when the core is free again.
    fn datagram(
        &self,
        p: &mut Processes,
        world: &mut World<'_>,
        clock: Time,
        rank: u32,
        place: usize,
        (bytes, imm): (Bytes, u32),
    ) -> Result<Time, EngineError> {
        let Some(costs) = p.datagrams else { return Ok(clock) };
        let end = &self.ranks[(rank - self.first_rank) as usize];
        let (connection, Inlet::Own(qp)) = (end.connections[place], end.inlet) else { return Ok(clock) };
        let length = (bytes + costs.header).saturating_u32();
        let mut wr = SendWr::send(0, Sge { addr: 0, length, lkey: end.memory.lkey }).with_imm(imm);
        wr = wr.to(UdDestination { ah: connection.ah, remote_qpn: connection.qp, remote_qkey: QKEY });
        let index = (rank - self.first_rank) as usize;
        let signal = p.library(index).signal_interval.min(costs.queues.send);
        let core = &mut p.cores[index];
        core.posted += 1;
        core.unsignaled += 1;
        if core.unsignaled >= signal {
            core.unsignaled = 0;
            wr = wr.signaled();
        }
        let clock = clock + costs.packet + p.copy(index, bytes);
        p.ring(world, (index, rank), (rank / p.per_host, qp), wr, clock)
    }

    /// Handles what came; returns when the core is free again.
    fn take(&mut self, p: &mut Processes, world: &mut World<'_>, now: Time, rank: u32, note: Note) -> Result<Time, EngineError> {
        let index = (rank - self.first_rank) as usize;
        let clock = now + p.library(index).progress;
        let wc = match note {
            Note::Local { from, tag, bytes } => {
                let clock = clock + p.library(index).receive + p.copy(index, bytes);
                self.arrived(world, rank, from, tag, clock);
                return Ok(clock);
            }
            Note::Completion(wc) => wc,
        };
        let mut clock = clock + p.library(index).poll_hit + p.cpu(index).dma_touch;
        if wc.status != WcStatus::Success {
            self.lost(rank, &wc);
            return Ok(clock);
        }
        if !wc.opcode.is_recv() {
            p.cores[index].freed = wc.wqe.0 + 1;
            for _ in 0..p.cores[index].blocked.len() {
                let Some(place) = p.cores[index].blocked.pop_front() else { break };
                clock = self.pump(p, world, clock, rank, place as usize)?;
            }
            return Ok(clock);
        }
        let end = &self.ranks[index];
        let h = world.host(rank / p.per_host);
        let queues = p.datagrams.map_or(p.library(index).queues, |costs| costs.queues);
        let again = receive(queues.buffer, end.memory);
        clock += p.cpu(index).post_recv;
        let reposted = match end.inlet {
            Inlet::Shared(srq) => h.nic().post_srq_recv(now, srq, &again),
            _ => h.nic().post_recv(now, wc.qp_num, &again),
        };
        reposted.map_err(|error| EngineError::Setup(error.in_full()))?;
        if p.datagrams.is_some() {
            return self.take_datagram(p, world, clock, rank, &wc);
        }
        let Some(from) = end.peer_of(&wc) else { return Ok(clock) };
        let bytes = Bytes(u64::from(wc.byte_len).saturating_sub(p.library(index).header.0));
        clock += p.library(index).receive + p.copy(index, bytes);
        self.arrived(world, rank, from, wc.imm.unwrap_or(0), clock);
        Ok(clock)
    }

    fn take_datagram(&mut self, p: &mut Processes, world: &mut World<'_>, clock: Time, rank: u32, wc: &Wc) -> Result<Time, EngineError> {
        let Some(costs) = p.datagrams else { return Ok(clock) };
        let mut clock = clock + costs.packet;
        let index = (rank - self.first_rank) as usize;
        let from = wc.slid.0 * p.per_host + wc.src_qp.slot().wrapping_sub(self.ranks[0].first_slot);
        let (Some(place), Some(theirs)) = (self.ranks[index].place(from), self.ranks.get(from as usize).and_then(|end| end.place(rank)))
        else {
            return Ok(clock);
        };
        let number = wc.imm.unwrap_or(0);
        let says =
            if number & ACK != 0 { Some(number & !ACK) } else { p.channels[from as usize][theirs].packet(number).map(|found| found.1) };
        let opened = says.is_some_and(|says| p.channels[index][place].handle_ack(says));
        let mut answer = false;
        if number & ACK == 0 {
            match p.channels[index][place].handle_packet(number) {
                Arrival::Next(count) => {
                    for number in number..number + count {
                        let Some((piece, _)) = p.channels[from as usize][theirs].packet(number) else { continue };
                        clock += p.copy(index, piece.bytes);
                        if piece.last {
                            clock += p.library(index).receive;
                            self.arrived(world, rank, from, piece.tag, clock);
                        }
                    }
                }
                Arrival::Ahead => {}
                Arrival::Repeated => answer = true,
            }
            p.plan_tick(world, (index, rank));
        }
        if opened {
            clock = self.pump(p, world, clock, rank, place)?;
        }
        if answer || p.channels[index][place].owes(&costs.window) {
            clock = self.acknowledge(p, world, clock, rank, place)?;
        }
        Ok(clock)
    }

    /// Sends an acknowledgement by itself, if the send queue has room; else the next tick will.
    fn acknowledge(&self, p: &mut Processes, world: &mut World<'_>, clock: Time, rank: u32, place: usize) -> Result<Time, EngineError> {
        let index = (rank - self.first_rank) as usize;
        if !p.datagrams.is_some_and(|costs| p.has_room(index, &costs)) {
            return Ok(clock);
        }
        let received = p.channels[index][place].acknowledge();
        self.datagram(p, world, clock, rank, place, (Bytes::ZERO, ACK | received))
    }

    /// The library of `rank` looks for what it owes and what it misses.
    pub(crate) fn tick(&mut self, world: &mut World<'_>, now: Time, rank: u32) -> Result<(), EngineError> {
        let Some(mut processes) = self.processes.take() else { return Ok(()) };
        let result = self.look(&mut processes, world, now, rank);
        self.processes = Some(processes);
        result
    }

    fn look(&mut self, p: &mut Processes, world: &mut World<'_>, now: Time, rank: u32) -> Result<(), EngineError> {
        let index = (rank - self.first_rank) as usize;
        let Some(costs) = p.datagrams else { return Ok(()) };
        let core = &mut p.cores[index];
        core.ticking = false;
        let mut clock = core.free.max(now);
        let mut idle = core.blocked.is_empty();
        let mut again = std::mem::take(&mut p.again);
        for place in 0..p.channels[index].len() {
            let channel = &mut p.channels[index][place];
            if channel.is_idle() {
                continue;
            }
            idle = false;
            if let Err(GaveUp { number, tries }) = channel.handle_timeout(now, &costs.window, &mut again) {
                let peer = self.ranks[index].connections[place].peer;
                let status = format!("packet {number} to rank {peer} sent {tries} times in vain");
                self.fail(rank, status);
                return Ok(());
            }
            let answered = !again.is_empty();
            for (number, piece) in again.drain(..) {
                if !p.has_room(index, &costs) {
                    break;
                }
                clock = self.datagram(p, world, clock, rank, place, (piece.bytes, number))?;
            }
            if !answered && p.channels[index][place].is_owing() {
                clock = self.acknowledge(p, world, clock, rank, place)?;
            }
        }
        p.again = again;
        p.cores[index].free = clock;
        if !idle {
            p.plan_tick(world, (index, rank));
        }
        Ok(())
    }
}

impl Processes {
    /// Whether the send queue of a process takes another packet; one place is kept for those sent again.
    fn has_room(&self, index: usize, costs: &DatagramCosts) -> bool {
        let core = &self.cores[index];
        core.posted - core.freed < u64::from(costs.queues.send)
    }
}
