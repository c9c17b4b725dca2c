//! Files read and written by many processes: pages, RPCs, bulk transfers, drives.
//!
//! Source: Lustre Operations Manual, "Tuning the client I/O RPC stream"; the client's path of a page (llite, osc), the server's (ost_io).
//! Modelled: writes into the page cache until dirty pages reach their limit, RPCs of consecutive pages of an object, so many in flight for
//! each OST, reads ahead of a stream, direct I/O, files of their own and blocks of a shared file.
//! Not modelled: eviction of pages that nobody reads again, reads that the cache of a server has.
//!
//! ```text
//! process: copy ─▶ dirty pages of an OST ─▶ RPC ─message─▶ OSS core ◀─bulk─ client      write
//!                                                       └─▶ drives ─reply─▶ client: pages are clean, the next RPC goes
//! process: needs pages ─▶ RPC ahead ─message─▶ OSS core ─▶ drives ─bulk─▶ client        read
//! ```

use std::collections::VecDeque;

use fabriscope_kernel::EventQueue;
use fabriscope_lustre::{Access, Layout, System};
use fabriscope_units::{Bytes, Span, Time};
use rustc_hash::FxHashMap;

use crate::counts::DataCounts;
use crate::network::{Network, Towards};
use crate::pages::{pages_time, read_window};
use crate::station::{Cores, Line};
use crate::usage::{Resource, Usage};
use crate::{PAGE, THREADS, begins, client_of};

/// Which way data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the servers.
    Write,
    /// From them.
    Read,
}

/// Whose files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each process has its own.
    Own,
    /// All have one, in which each has a block of its own in every segment.
    Shared,
}

/// What all processes do.
#[derive(Clone, Debug, PartialEq)]
pub struct DataRun {
    /// Which way.
    pub direction: Direction,
    /// Whose files.
    pub sharing: Sharing,
    /// How files lie on OSTs.
    pub layout: Layout,
    /// What a process reads or writes in a call.
    pub transfer: Bytes,
    /// What it reads or writes in all.
    pub bytes: Bytes,
    /// Calls go anywhere in the file, not one after the other.
    pub random: bool,
    /// Pages are not kept: a call waits for its data.
    pub direct: bool,
    /// A process ends when its data are on drives.
    pub fsync: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataOutcome {
    /// Data that were counted.
    pub bytes: Bytes,
    /// In so much time.
    pub time: Span,
    /// All data passed; otherwise rates were steady, and the rest takes as long as it has to.
    pub whole: bool,
    /// What was at work.
    pub usage: Usage,
}

impl DataOutcome {
    /// Bytes a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.time == Span::ZERO { 0.0 } else { self.bytes.0 as f64 / self.time.as_s_f64() }
    }
    /// How long so many bytes take.
    #[must_use]
    pub fn time_of(&self, bytes: f64) -> f64 {
        if self.whole { self.time.as_s_f64() } else { bytes / self.rate().max(f64::MIN_POSITIVE) }
    }
}

#[derive(Clone, Copy, Default)]
enum Event {
    #[default]
    Nothing,
    /// A process calls.
    Call(u32),
    /// Its pages are in the cache.
    Cached(u32),
    /// The request is at its server.
    Arrived(u32),
    /// Its data are at the server, or off its drives.
    Moved(u32),
    /// The client has the reply.
    Replied(u32),
}

#[derive(Clone, Copy, Default)]
struct Rpc {
    process: u32,
    channel: u32,
    bytes: u32,
    /// Which of the process's, of reads.
    number: u32,
}

/// RPCs of a client for an OST.
struct Channel {
    client: u32,
    ost: u32,
    in_flight: u32,
    dirty: u64,
    pending: VecDeque<u32>,
    /// Who waits for room, and for which object of his.
    waiting: Vec<(u32, u32)>,
}

struct Process {
    done: u64,
    /// Pages of each object that are no RPC yet.
    gathered: Vec<u64>,
    outstanding: u32,
    /// Waits for an RPC, for all of them, or for room.
    blocked: bool,
    asked: u32,
    arrived: u32,
    /// Which of the RPCs behind `arrived` are there as well.
    early: u64,
    over: bool,
}

struct Running<'a> {
    system: &'a System,
    run: &'a DataRun,
    queue: EventQueue<Event>,
    network: Network,
    shared: Vec<Line>,
    threads: Vec<Cores>,
    cores: Vec<Cores>,
    drives: Vec<Line>,
    waiting_at: Vec<u32>,
    processes: Vec<Process>,
    channels: Vec<Channel>,
    by_pair: FxHashMap<u64, u32>,
    credits: FxHashMap<u64, (u32, VecDeque<u32>)>,
    rpcs: Vec<Rpc>,
    spare: Vec<u32>,
    rpc_bytes: u64,
    unit: u64,
    window: u32,
    working: Span,
    open: u32,
    finished: u64,
    moved: u64,
    /// What Lustre counts; nothing where nobody asks.
    counts: Option<DataCounts>,
}

/// RPCs up to which a run is carried to its end. Basis: assumed (a few seconds of a core).
const WHOLE: u64 = 400_000;
/// RPCs that are counted once rates are steady, at most and at least.
const COUNTED: (u64, u64) = (30_000, 1_200_000);

impl DataRun {
    /// Runs it.
    #[must_use]
    pub fn run(&self, system: &System) -> DataOutcome {
        self.go(system, None).0
    }

    /// Runs it, and counts what Lustre counts.
    #[must_use]
    pub fn run_counted(&self, system: &System) -> (DataOutcome, DataCounts) {
        let (outcome, counts) = self.go(system, Some(DataCounts::of(system.osts())));
        (outcome, counts.unwrap_or_default())
    }

    fn go(&self, system: &System, counts: Option<DataCounts>) -> (DataOutcome, Option<DataCounts>) {
        let processes = system.processes();
        let rpc = self.rpc_bytes(system);
        let all = u64::from(processes) * self.bytes.0.div_ceil(rpc.max(1));
        let whole = all <= WHOLE;
        let running = Running::new(system, self);
        let slots = u64::from(processes) * u64::from(running.window.min(*system.costs.client.max_rpcs_in_flight).max(1));
        let warm = if whole { 0 } else { 2 * slots.max(10_000) };
        let last = if whole { u64::MAX } else { warm + (2 * slots).clamp(COUNTED.0, COUNTED.1) };
        Running { counts, ..running }.go(warm, last)
    }

    fn rpc_bytes(&self, system: &System) -> u64 {
        let most = system.costs.client.max_pages_per_rpc.0;
        if self.random || self.direct { most.min(self.transfer.0) } else { most }
    }
}

impl<'a> Running<'a> {
    fn new(system: &'a System, run: &'a DataRun) -> Running<'a> {
        let client = &system.costs.client;
        let count = system.processes();
        let objects = run.layout.objects();
        let rpc_bytes = run.rpc_bytes(system).max(1);
        // A stream that is read ahead over several objects has as much of each as the window gives it.
        let stripe = run.layout.components().last().map_or(1 << 20, |component| component.size.0);
        let ahead = client.max_read_ahead.0.max(rpc_bytes);
        let unit = if objects <= 1 || run.random || run.direct {
            rpc_bytes
        } else {
            (ahead / u64::from(objects)).clamp(stripe, rpc_bytes.max(stripe))
        };
        let unit = unit.min(rpc_bytes);
        let window = if run.random || run.direct { 1 } else { read_window(ahead, unit) };
        let gathered = if run.direction == Direction::Write && !run.direct && !run.random { objects as usize } else { 0 };
        let clients = system.clients.nodes as usize;
        let threads = system.clients.cores.min(THREADS);
        Running {
            system,
            run,
            queue: EventQueue::new(Span::from_us(1), 1 << 14),
            network: Network::new(system, &system.oss, Resource::OssAdapters),
            shared: vec![Line::default(); clients],
            threads: vec![Cores::new(threads); clients],
            cores: vec![Cores::new(system.oss.cores); system.oss.servers as usize],
            drives: vec![Line::default(); system.osts() as usize],
            waiting_at: vec![0; system.osts() as usize],
            processes: (0..count)
                .map(|_| Process {
                    done: 0,
                    gathered: vec![0; gathered],
                    outstanding: 0,
                    blocked: false,
                    asked: 0,
                    arrived: 0,
                    early: 0,
                    over: false,
                })
                .collect(),
            channels: Vec::new(),
            by_pair: FxHashMap::default(),
            credits: FxHashMap::default(),
            rpcs: Vec::new(),
            spare: Vec::new(),
            rpc_bytes,
            unit,
            window,
            working: Span::ZERO,
            open: count,
            finished: 0,
            moved: 0,
            counts: None,
        }
    }

    /// Dirty pages beyond those in flight change no steady rate, and need not be gathered.
    fn max_dirty(&self) -> u64 {
        let client = &self.system.costs.client;
        let flying = (u64::from(*client.max_rpcs_in_flight) + 2) * client.max_pages_per_rpc.0;
        client.max_dirty.0.min(flying)
    }

    fn go(mut self, warm: u64, last: u64) -> (DataOutcome, Option<DataCounts>) {
        for process in 0..self.processes.len() as u32 {
            self.queue.push(begins(process), Event::Call(process));
        }
        let (mut from, mut before) = (Time::ZERO, 0);
        let mut end = Time::ZERO;
        while let Some((now, event)) = self.queue.pop() {
            match event {
                Event::Nothing => {}
                Event::Call(process) => self.call(now, process),
                Event::Cached(process) => self.cached(now, process),
                Event::Arrived(rpc) => self.arrived(now, rpc),
                Event::Moved(rpc) => self.moved(now, rpc),
                Event::Replied(rpc) => {
                    self.replied(now, rpc);
                    if self.finished == warm && warm > 0 {
                        (from, before) = (now, self.moved);
                    }
                    if self.finished >= last {
                        end = now;
                        break;
                    }
                }
            }
            end = now;
            if self.open == 0 {
                break;
            }
        }
        let all = end.since(Time::ZERO);
        let mut usage = Usage::default();
        usage.add(Resource::Processes, std::iter::once(Span::from_ps(self.working.as_ps() / self.processes.len().max(1) as u64)), all);
        usage.add(Resource::ClientShared, self.shared.iter().map(Line::busy), all);
        usage.add(Resource::ClientThreads, self.threads.iter().map(Cores::busy), all);
        self.network.tell(&mut usage, all);
        usage.add(Resource::OssCores, self.cores.iter().map(Cores::busy), all);
        usage.add(Resource::OssDrives, self.drives.iter().map(Line::busy), all);
        let counts = self.counts.take().map(|counts| DataCounts { time: all, ..counts });
        let outcome = DataOutcome {
            bytes: if warm == 0 { Bytes(u64::from(self.system.processes()) * self.run.bytes.0) } else { Bytes(self.moved - before) },
            time: end.since(from),
            whole: warm == 0,
            usage,
        };
        (outcome, counts)
    }

    fn client_of(&self, process: u32) -> u32 {
        client_of(process, self.system.clients.per_node)
    }
    /// The file of a process, and where its data begin there.
    fn file(&self, process: u32) -> (u64, u64) {
        match self.run.sharing {
            Sharing::Own => (process.into(), 0),
            Sharing::Shared => (0, u64::from(process) * self.run.bytes.0),
        }
    }
    /// Where the next call of a process goes: to the next place, or to one that has no order.
    fn place(&self, process: u32, done: u64) -> u64 {
        if !self.run.random {
            return done;
        }
        let calls = (self.run.bytes.0 / self.run.transfer.0).max(1);
        let call = done / self.run.transfer.0.max(1);
        // An odd factor visits every call of a power of two once; others nearly.
        let mixed = call.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(u64::from(process).wrapping_mul(0xD1B5_4A32_D192_ED03)) >> 17;
        mixed % calls * self.run.transfer.0
    }

    fn call(&mut self, now: Time, process: u32) {
        let done = self.processes[process as usize].done;
        if done >= self.run.bytes.0 {
            self.ends(process);
            return;
        }
        let transfer = self.run.transfer.0.min(self.run.bytes.0 - done);
        match self.run.direction {
            Direction::Write if !self.run.direct => {
                let end = self.copied(now, process, transfer, true);
                self.queue.push(end, Event::Cached(process));
            }
            Direction::Read if !self.run.direct && !self.run.random => self.read_ahead(now, process),
            _ => {
                let now = now.saturating_add(*self.system.costs.client.call);
                self.ask(now, process, self.place(process, done), transfer);
                self.processes[process as usize].blocked = true;
            }
        }
    }
    /// A copy between the buffer of a process and pages.
    fn copied(&mut self, now: Time, process: u32, bytes: u64, write: bool) -> Time {
        let (own, together) = pages_time(self.system, bytes, write);
        let place = self.client_of(process) as usize;
        let shared = self.shared[place].take(now, together);
        self.working = self.working.saturating_add(own);
        now.saturating_add(own).max(shared)
    }

    fn cached(&mut self, now: Time, process: u32) {
        let (file, base) = self.file(process);
        let done = self.processes[process as usize].done;
        let transfer = self.run.transfer.0.min(self.run.bytes.0 - done);
        let at = base + self.place(process, done);
        self.processes[process as usize].done += transfer;
        let client = self.client_of(process);
        if let Some(counts) = &mut self.counts {
            counts.called(client, transfer);
        }
        let mut pieces = Vec::new();
        self.run.layout.pieces(file, at, transfer, |piece| pieces.push(piece));
        let mut full = None;
        for piece in pieces {
            let channel = self.channel(client, piece.target);
            self.channels[channel as usize].dirty += piece.bytes;
            if self.run.random {
                self.make(now, (process, channel), piece.bytes, 0);
            } else {
                let gathered = self.processes[process as usize].gathered[piece.object as usize] + piece.bytes;
                let mut left = gathered;
                while left >= self.rpc_bytes {
                    self.make(now, (process, channel), self.rpc_bytes, 0);
                    left -= self.rpc_bytes;
                }
                self.processes[process as usize].gathered[piece.object as usize] = left;
            }
            if self.channels[channel as usize].dirty > self.max_dirty() {
                full = Some((channel, piece.object));
            }
        }
        match full {
            None => self.queue.push(now, Event::Call(process)),
            Some((channel, object)) => {
                let idle = self.channels[channel as usize].in_flight == 0 && self.channels[channel as usize].pending.is_empty();
                if idle {
                    self.flush(now, process, object, channel);
                }
                let none = self.channels[channel as usize].in_flight == 0;
                if none {
                    // What others gathered fills the room; they send it when they are full themselves.
                    self.queue.push(now, Event::Call(process));
                } else {
                    self.processes[process as usize].blocked = true;
                    self.channels[channel as usize].waiting.push((process, object));
                }
            }
        }
    }

    fn flush(&mut self, now: Time, process: u32, object: u32, channel: u32) {
        let Some(gathered) = self.processes[process as usize].gathered.get_mut(object as usize) else { return };
        let bytes = std::mem::take(gathered);
        if bytes > 0 {
            self.make(now, (process, channel), bytes, 0);
        }
    }

    /// A process has called for the last time: what it gathered goes as well.
    fn ends(&mut self, process: u32) {
        let now = self.queue.now();
        if self.run.direction == Direction::Write && !self.run.direct && !self.run.random {
            let (client, (file, _)) = (self.client_of(process), self.file(process));
            for object in 0..self.run.layout.objects() {
                let target = self.run.layout.target(file, object);
                if self.processes[process as usize].gathered[object as usize] > 0 {
                    let channel = self.channel(client, target);
                    self.flush(now, process, object, channel);
                }
            }
        }
        let own = &mut self.processes[process as usize];
        let waits = self.run.direction == Direction::Write && self.run.fsync && own.outstanding > 0;
        if !own.over && !waits {
            own.over = true;
            self.open -= 1;
        }
    }

    fn read_ahead(&mut self, now: Time, process: u32) {
        let own = &self.processes[process as usize];
        let all = self.run.bytes.0.div_ceil(self.unit) as u32;
        let needed = ((own.done + self.run.transfer.0.min(self.run.bytes.0 - own.done)).div_ceil(self.unit)) as u32;
        let until = (own.done / self.unit) as u32 + self.window;
        let (file, base) = self.file(process);
        let objects = u64::from(self.run.layout.objects().max(1));
        for number in own.asked..until.max(needed).min(all) {
            let bytes = self.unit.min(self.run.bytes.0 - u64::from(number) * self.unit);
            // Units of a stream go to one object after the other.
            let object = ((base / self.unit + u64::from(number)) % objects) as u32;
            let target = self.run.layout.target(file, object);
            let channel = self.channel(self.client_of(process), target);
            self.processes[process as usize].asked = number + 1;
            self.make(now, (process, channel), bytes, number);
        }
        let own = &mut self.processes[process as usize];
        if own.arrived < needed {
            own.blocked = true;
            return;
        }
        let transfer = self.run.transfer.0.min(self.run.bytes.0 - own.done);
        own.done += transfer;
        let client = self.client_of(process);
        if let Some(counts) = &mut self.counts {
            counts.called(client, transfer);
        }
        let end = self.copied(now, process, transfer, false);
        self.queue.push(end, Event::Call(process));
    }

    /// RPCs for a call that waits for them.
    fn ask(&mut self, now: Time, process: u32, at: u64, transfer: u64) {
        let ((file, base), client) = (self.file(process), self.client_of(process));
        let mut pieces: Vec<(u32, u64)> = Vec::new();
        self.run.layout.pieces(file, base + at, transfer, |piece| match pieces.iter_mut().find(|(target, _)| *target == piece.target) {
            Some((_, bytes)) => *bytes += piece.bytes,
            None => pieces.push((piece.target, piece.bytes)),
        });
        for (target, bytes) in pieces {
            let channel = self.channel(client, target);
            let mut left = bytes;
            while left > 0 {
                let bytes = left.min(self.rpc_bytes);
                self.make(now, (process, channel), bytes, 0);
                left -= bytes;
            }
        }
    }

    fn channel(&mut self, client: u32, ost: u32) -> u32 {
        let key = u64::from(client) << 32 | u64::from(ost);
        let next = self.channels.len() as u32;
        let channel = *self.by_pair.entry(key).or_insert(next);
        if channel == next {
            self.channels.push(Channel { client, ost, in_flight: 0, dirty: 0, pending: VecDeque::new(), waiting: Vec::new() });
        }
        channel
    }

    fn make(&mut self, now: Time, (process, channel): (u32, u32), bytes: u64, number: u32) {
        let rpc = Rpc { process, channel, bytes: bytes.min(u64::from(u32::MAX)) as u32, number };
        let place = self.spare.pop().unwrap_or_else(|| {
            self.rpcs.push(Rpc::default());
            self.rpcs.len() as u32 - 1
        });
        self.rpcs[place as usize] = rpc;
        self.processes[process as usize].outstanding += 1;
        self.channels[channel as usize].pending.push_back(place);
        self.send(now, channel);
    }

    fn send(&mut self, now: Time, channel: u32) {
        let client = &self.system.costs.client;
        let own = &mut self.channels[channel as usize];
        while own.in_flight < *client.max_rpcs_in_flight {
            let Some(rpc) = own.pending.pop_front() else { return };
            own.in_flight += 1;
            let bytes = Bytes(self.rpcs[rpc as usize].bytes.into());
            if let Some(counts) = &mut self.counts {
                counts.sent((own.client, own.ost), bytes, own.in_flight);
            }
            let checksum = if self.run.direction == Direction::Write { client.checksum_rate.time(bytes) } else { Span::ZERO };
            let ready = self.threads[own.client as usize].take(now, *client.rpc + checksum);
            self.queue.push(ready.saturating_add(self.system.message), Event::Arrived(rpc));
        }
    }

    /// Client, server and target of an RPC.
    fn ends_of(&self, rpc: u32) -> (u32, u32, u32) {
        let channel = &self.channels[self.rpcs[rpc as usize].channel as usize];
        (channel.client, channel.ost / self.system.oss.targets.max(1), channel.ost)
    }

    fn arrived(&mut self, now: Time, rpc: u32) {
        let (client, server, _) = self.ends_of(rpc);
        let fragments = u64::from(self.rpcs[rpc as usize].bytes).div_ceil(self.system.costs.lnet.fragment.0) as u32;
        let pair = u64::from(client) << 32 | u64::from(server);
        let (used, waiting) = self.credits.entry(pair).or_default();
        if *used > 0 && *used + fragments > *self.system.costs.lnet.peer_credits {
            waiting.push_back(rpc);
            return;
        }
        *used += fragments;
        self.served(now, rpc);
    }

    fn served(&mut self, now: Time, rpc: u32) {
        let (client, server, ost) = self.ends_of(rpc);
        let bytes = Bytes(self.rpcs[rpc as usize].bytes.into());
        let ready = self.cores[server as usize].take(now, *self.system.costs.oss.rpc);
        let end = match self.run.direction {
            Direction::Write => self.network.transfer(
                ready.saturating_add(self.system.message),
                (client, server, client.wrapping_add(ost)),
                Towards::Server,
                bytes,
            ),
            Direction::Read => self.accessed(ready, ost, bytes),
        };
        self.queue.push(end, Event::Moved(rpc));
    }

    fn accessed(&mut self, now: Time, ost: u32, bytes: Bytes) -> Time {
        let access = Access { write: self.run.direction == Direction::Write, bytes, sequential: !self.run.random };
        let service = self.system.oss.array.service(access, self.waiting_at[ost as usize].into());
        self.waiting_at[ost as usize] += 1;
        self.drives[ost as usize].take(now, service.occupied).saturating_add(service.besides)
    }

    fn moved(&mut self, now: Time, rpc: u32) {
        let (client, server, ost) = self.ends_of(rpc);
        let bytes = Bytes(self.rpcs[rpc as usize].bytes.into());
        let pages = Span::from_ps(self.system.costs.oss.page.as_ps() * bytes.0.div_ceil(PAGE));
        let ready = self.cores[server as usize].take(now, pages);
        let end = match self.run.direction {
            Direction::Write => self.accessed(ready, ost, bytes).saturating_add(self.system.message),
            Direction::Read => {
                let there = self
                    .network
                    .transfer(ready, (client, server, client.wrapping_add(ost)), Towards::Client, bytes)
                    .saturating_add(self.system.message);
                let costs = &self.system.costs.client;
                self.threads[client as usize].take(there, costs.checksum_rate.time(bytes))
            }
        };
        self.queue.push(end, Event::Replied(rpc));
    }

    fn replied(&mut self, now: Time, rpc: u32) {
        let (client, server, ost) = self.ends_of(rpc);
        let Rpc { process, channel, bytes, number } = self.rpcs[rpc as usize];
        self.spare.push(rpc);
        self.waiting_at[ost as usize] = self.waiting_at[ost as usize].saturating_sub(1);
        self.finished += 1;
        self.moved += u64::from(bytes);
        if let Some(counts) = &mut self.counts {
            counts.served(ost, bytes.into());
        }
        let fragments = u64::from(bytes).div_ceil(self.system.costs.lnet.fragment.0) as u32;
        let pair = u64::from(client) << 32 | u64::from(server);
        let mut next = None;
        if let Some((used, waiting)) = self.credits.get_mut(&pair) {
            *used -= fragments.min(*used);
            next = waiting.pop_front();
        }
        if let Some(next) = next {
            self.arrived(now, next);
        }
        self.channels[channel as usize].in_flight -= 1;
        self.send(now, channel);
        let own = &mut self.processes[process as usize];
        own.outstanding -= 1;
        match self.run.direction {
            Direction::Write if !self.run.direct => {
                let limit = self.max_dirty();
                let room = &mut self.channels[channel as usize];
                room.dirty = room.dirty.saturating_sub(bytes.into());
                let has_room = room.dirty <= limit;
                if !has_room && room.in_flight == 0 && room.pending.is_empty() {
                    // What fills the room is gathered for RPCs that are not full; it goes as it is.
                    for (waiting, object) in self.channels[channel as usize].waiting.clone() {
                        self.flush(now, waiting, object, channel);
                    }
                }
                let room = &mut self.channels[channel as usize];
                if has_room || room.in_flight == 0 {
                    for (waiting, _) in std::mem::take(&mut room.waiting) {
                        self.processes[waiting as usize].blocked = false;
                        self.queue.push(now, Event::Call(waiting));
                    }
                }
                let own = &mut self.processes[process as usize];
                if own.done >= self.run.bytes.0 && own.outstanding == 0 && !own.blocked && !own.over && self.run.fsync {
                    self.queue.push(now, Event::Call(process));
                }
            }
            Direction::Read if !self.run.direct && !self.run.random => {
                own.early |= 1 << (number - own.arrived).min(63);
                while own.early & 1 == 1 {
                    own.early >>= 1;
                    own.arrived += 1;
                }
                if own.blocked {
                    own.blocked = false;
                    self.queue.push(now, Event::Call(process));
                }
            }
            _ => {
                if own.outstanding == 0 && own.blocked {
                    own.blocked = false;
                    let transfer = self.run.transfer.0.min(self.run.bytes.0 - own.done);
                    own.done += transfer;
                    if let Some(counts) = &mut self.counts {
                        counts.called(client, transfer);
                    }
                    self.queue.push(now, Event::Call(process));
                }
            }
        }
    }
}
