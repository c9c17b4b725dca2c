//! One file that all processes write in small pieces side by side: extent locks that go from client to client.
//!
//! Source: the pattern of `ior-hard` of IO500 (47,008 bytes, interleaved by rank); `ldlm_extent.c` for what a conflict starts.
//! Modelled: whoever has no lock asks the object's server; those in the way are called back, write what is dirty and give up; then the lock
//! is granted. Processes of one client write a file one at a time: its inode is locked. Reads need no lock of their own, and each waits for its data.
//! Not modelled: reading ahead of a stride, what the cache of a server has, pages that two writers share.
//!
//! ```text
//! process ─enqueue─▶ OSS ─blocking callback─▶ holder ─dirty pages─▶ OSS, drives ─▶ holder ─cancel─▶ OSS ─grant─▶ process
//! ```

use std::collections::VecDeque;

use fabriscope_kernel::EventQueue;
use fabriscope_lustre::{Access, Extent, Layout, Locks, Piece, Revoked, System};
use fabriscope_units::{Bytes, Span, Time};

use crate::data::Direction;
use crate::network::{Network, Towards};
use crate::pages::pages_time;
use crate::station::{Cores, Line, Slots};
use crate::usage::{Resource, Usage};
use crate::{PAGE, THREADS, begins, client_of};

/// What all processes do.
#[derive(Clone, Debug, PartialEq)]
pub struct StridedRun {
    /// Which way.
    pub direction: Direction,
    /// How the file lies on OSTs.
    pub layout: Layout,
    /// What a process reads or writes in a call, beside that of the process before it.
    pub transfer: Bytes,
    /// Calls of each process.
    pub segments: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StridedOutcome {
    /// Data that were counted.
    pub bytes: Bytes,
    /// In so much time.
    pub time: Span,
    /// Calls that asked for a lock.
    pub enqueued: u64,
    /// Locks that were called back.
    pub revoked: u64,
    /// Calls.
    pub calls: u64,
    /// What was at work.
    pub usage: Usage,
}

impl StridedOutcome {
    /// Bytes a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.time == Span::ZERO { 0.0 } else { self.bytes.0 as f64 / self.time.as_s_f64() }
    }
}

#[derive(Clone, Copy, Default)]
enum Event {
    #[default]
    Nothing,
    /// A process goes on with its pieces.
    Go(u32),
    /// It is let into the file.
    Enters(u32),
    /// Its request for a lock, or for data, is at the server.
    Asked(u32),
    /// Its data are off the drives.
    Read(u32),
    /// It has what it asked for.
    Has(u32),
    /// A holder has been called back.
    Called(u32),
    /// Its dirty pages are announced at the server.
    Flushed(u32),
    /// They are in the server's memory.
    Landed(u32),
    /// The holder has given up.
    Cancelled(u32),
}

#[derive(Clone, Copy)]
struct Flush {
    object: u32,
    holder: u32,
    dirty: u64,
}

#[derive(Default)]
struct Object {
    locks: Locks,
    /// Who waits for a lock; the first is being served if `open` callbacks are out.
    waiting: VecDeque<u32>,
    open: u32,
    since: Time,
    contended: Span,
}

struct Process {
    call: u64,
    /// It is in the middle of a call.
    within: bool,
    pieces: VecDeque<Piece>,
}

struct Running<'a> {
    system: &'a System,
    run: &'a StridedRun,
    queue: EventQueue<Event>,
    network: Network,
    threads: Vec<Cores>,
    cores: Vec<Cores>,
    drives: Vec<Line>,
    at_drives: Vec<u32>,
    objects: Vec<Object>,
    processes: Vec<Process>,
    /// Of each client: the file, which one of its processes may write.
    inodes: Vec<Slots>,
    flushes: Vec<Flush>,
    calls: u64,
    enqueued: u64,
    revoked: u64,
}

/// Calls of all processes that are simulated, and of each at least and at most. Basis: assumed (seconds of a core; a few rounds of locks).
const CALLS: u64 = 300_000;
const EACH: (u64, u64) = (4, 64);

impl StridedRun {
    /// Runs it until the calls' rate is steady, or to its end where that comes first.
    #[must_use]
    pub fn run(&self, system: &System) -> StridedOutcome {
        let processes = u64::from(system.processes().max(1));
        let each = (CALLS / processes).clamp(EACH.0, EACH.1).min(self.segments.max(1));
        let cores = |count: u32, of: u32| (0..of).map(|_| Cores::new(count)).collect();
        let running = Running {
            system,
            run: self,
            queue: EventQueue::new(Span::from_us(1), 1 << 14),
            network: Network::new(system, &system.oss, Resource::OssAdapters),
            threads: cores(system.clients.cores.min(THREADS), system.clients.nodes),
            cores: cores(system.oss.cores, system.oss.servers),
            drives: vec![Line::default(); system.osts() as usize],
            at_drives: vec![0; system.osts() as usize],
            objects: (0..self.layout.objects()).map(|_| Object::default()).collect(),
            processes: (0..system.processes()).map(|_| Process { call: 0, within: false, pieces: VecDeque::new() }).collect(),
            inodes: vec![Slots::default(); system.clients.nodes as usize],
            flushes: Vec::new(),
            calls: 0,
            enqueued: 0,
            revoked: 0,
        };
        running.go(each)
    }
}

impl Running<'_> {
    fn go(mut self, each: u64) -> StridedOutcome {
        for process in 0..self.processes.len() as u32 {
            self.queue.push(begins(process), Event::Go(process));
        }
        let processes = self.processes.len() as u64;
        let (warm, last) = (if each > 1 { processes } else { 0 }, each * processes);
        let (mut from, mut before, mut end) = (Time::ZERO, 0, Time::ZERO);
        while let Some((now, event)) = self.queue.pop() {
            end = now;
            match event {
                Event::Nothing => {}
                Event::Go(process) => self.goes(now, process, each, false),
                Event::Enters(process) => self.goes(now, process, each, true),
                Event::Asked(process) => self.asked(now, process),
                Event::Read(process) => self.read(now, process),
                Event::Has(process) => self.has(now, process),
                Event::Called(flush) => self.called(now, flush),
                Event::Flushed(flush) => self.flushed(now, flush),
                Event::Landed(flush) => self.landed(now, flush),
                Event::Cancelled(flush) => self.cancelled(now, flush),
            }
            if before == 0 && self.calls >= warm && warm > 0 {
                (from, before) = (now, self.calls);
            }
            if self.calls >= last {
                break;
            }
        }
        let all = end.since(Time::ZERO);
        let mut usage = Usage::default();
        usage.add(Resource::ClientThreads, self.threads.iter().map(Cores::busy), all);
        self.network.tell(&mut usage, all);
        usage.add(Resource::OssCores, self.cores.iter().map(Cores::busy), all);
        usage.add(Resource::OssDrives, self.drives.iter().map(Line::busy), all);
        if self.run.direction == Direction::Write {
            usage.add(Resource::Locks, self.objects.iter().map(|object| object.contended), all);
        }
        let calls = self.calls - before;
        StridedOutcome {
            bytes: Bytes(calls * self.run.transfer.0),
            time: end.since(from),
            enqueued: self.enqueued,
            revoked: self.revoked,
            calls: self.calls,
            usage,
        }
    }

    fn client(&self, process: u32) -> u32 {
        client_of(process, self.system.clients.per_node)
    }
    fn piece(&self, process: u32) -> Option<Piece> {
        self.processes[process as usize].pieces.front().copied()
    }
    fn server(&self, target: u32) -> u32 {
        target / self.system.oss.targets.max(1)
    }

    /// The next piece of a process; a call is over when its pieces are.
    fn goes(&mut self, now: Time, process: u32, each: u64, enters: bool) {
        let count = self.processes.len() as u64;
        let client = self.client(process) as usize;
        let writes = self.run.direction == Direction::Write;
        let own = &mut self.processes[process as usize];
        if own.pieces.is_empty() {
            if std::mem::take(&mut own.within) {
                self.calls += 1;
                let inode = &mut self.inodes[client];
                // Who comes out stands behind those who wait.
                if writes && let Some(next) = inode.leave() {
                    inode.enter(next, 1);
                    if own.call < each {
                        inode.enter(process, 1);
                    }
                    self.queue.push(now, Event::Enters(next));
                    return;
                }
            }
            if own.call >= each {
                return;
            }
            if writes && !enters && !self.inodes[client].enter(process, 1) {
                return;
            }
            own.within = true;
            // Reads go to what the process of another node wrote.
            let shift = if self.run.direction == Direction::Read { u64::from(self.system.clients.per_node) } else { 0 };
            let at = (own.call * count + (u64::from(process) + shift) % count) * self.run.transfer.0;
            own.call += 1;
            let pieces = &mut own.pieces;
            self.run.layout.pieces(0, at, self.run.transfer.0, |piece| pieces.push_back(piece));
        }
        let Some(piece) = self.piece(process) else { return };
        let (client, costs) = (self.client(process), &self.system.costs.client);
        if self.run.direction == Direction::Write && self.objects[piece.object as usize].locks.holds(client, extent(piece)) {
            self.writes(now, process, piece);
            return;
        }
        self.enqueued += 1;
        let ready = self.threads[client as usize].take(now, *costs.rpc);
        self.queue.push(ready.saturating_add(self.system.message), Event::Asked(process));
    }

    /// Under a lock pages go into the cache.
    fn writes(&mut self, now: Time, process: u32, piece: Piece) {
        let end = now.saturating_add(self.writing(piece, true));
        self.objects[piece.object as usize].locks.dirties(piece.begin, piece.bytes, end);
        self.processes[process as usize].pieces.pop_front();
        self.queue.push(end, Event::Go(process));
    }
    /// A call, a copy, pages; and where it begins or ends within a page that is not cached, that page from the server's memory first.
    fn writing(&self, piece: Piece, cached: bool) -> Span {
        let (costs, oss) = (&self.system.costs.client, &self.system.costs.oss);
        let partial = if cached {
            0
        } else {
            u64::from(!piece.begin.is_multiple_of(PAGE)) + u64::from(!(piece.begin + piece.bytes).is_multiple_of(PAGE))
        };
        let read = *costs.rpc + *oss.rpc + self.system.message + self.system.message;
        pages_time(self.system, piece.bytes, true).0 + Span::from_ps(read.as_ps() * partial)
    }

    fn asked(&mut self, now: Time, process: u32) {
        let Some(piece) = self.piece(process) else { return };
        if self.run.direction == Direction::Read {
            let server = self.server(piece.target) as usize;
            let ready = self.cores[server].take(now, *self.system.costs.oss.rpc);
            let end = self.accessed(ready, piece.target, piece.bytes, false);
            self.queue.push(end, Event::Read(process));
            return;
        }
        let object = &mut self.objects[piece.object as usize];
        object.waiting.push_back(process);
        if object.waiting.len() == 1 {
            object.since = now;
            self.resolve(now, piece.object);
        }
    }

    /// Serves the first of those who wait for a lock of the object, until one has to wait for a callback.
    fn resolve(&mut self, now: Time, number: u32) {
        while let Some(process) = self.objects[number as usize].waiting.front().copied() {
            let Some(piece) = self.piece(process) else { return };
            let server = self.server(piece.target) as usize;
            let ready = self.cores[server].take(now, *self.system.costs.oss.lock);
            let client = self.client(process);
            let object = &mut self.objects[number as usize];
            if !object.locks.holds(client, extent(piece)) {
                let gone = object.locks.revoke(client, extent(piece));
                object.open = gone.len() as u32;
                for Revoked { client, dirty, until } in gone {
                    self.revoked += 1;
                    self.flushes.push(Flush { object: number, holder: client, dirty });
                    // Who writes, writes to the end.
                    let called = ready.saturating_add(self.system.message).max(until);
                    self.queue.push(called, Event::Called(self.flushes.len() as u32 - 1));
                }
                if self.objects[number as usize].open > 0 {
                    return;
                }
            }
            self.granted(ready, number, process, piece);
        }
    }

    fn granted(&mut self, now: Time, number: u32, process: u32, piece: Piece) {
        let client = self.client(process);
        let told = now.saturating_add(self.system.message);
        let end = told.saturating_add(self.writing(piece, false));
        let processes = &self.processes;
        let object = &mut self.objects[number as usize];
        object.waiting.pop_front();
        if !object.locks.holds(client, extent(piece)) {
            let waiting = object.waiting.iter().filter_map(|other| processes[*other as usize].pieces.front()).map(|piece| extent(*piece));
            object.locks.grant(client, extent(piece), self.system.costs.oss.grown_extent.0, waiting);
        }
        // The grant covers the write that asked, even if it is called back meanwhile.
        object.locks.dirties(piece.begin, piece.bytes, end);
        if object.waiting.is_empty() {
            object.contended = object.contended.saturating_add(now.since(object.since.min(now)));
        }
        self.queue.push(told, Event::Has(process));
    }

    fn has(&mut self, now: Time, process: u32) {
        let Some(piece) = self.piece(process) else { return };
        self.processes[process as usize].pieces.pop_front();
        if self.run.direction == Direction::Write {
            let end = now.saturating_add(self.writing(piece, false));
            self.queue.push(end, Event::Go(process));
            return;
        }
        let end = now.saturating_add(pages_time(self.system, piece.bytes, false).0);
        self.queue.push(end, Event::Go(process));
    }

    fn read(&mut self, now: Time, process: u32) {
        let Some(piece) = self.piece(process) else { return };
        self.at_drives[piece.target as usize] -= 1;
        let client = self.client(process);
        let ends = (client, self.server(piece.target), client.wrapping_add(piece.target));
        let bytes = Bytes(piece.bytes.next_multiple_of(PAGE));
        let there = self.network.transfer(now, ends, Towards::Client, bytes);
        self.queue.push(there.saturating_add(self.system.message), Event::Has(process));
    }

    fn called(&mut self, now: Time, flush: u32) {
        let Flush { holder, dirty, .. } = self.flushes[flush as usize];
        let costs = &self.system.costs.client;
        let send = if dirty > 0 { *costs.rpc } else { Span::ZERO };
        let ready = self.threads[holder as usize].take(now, *costs.callback + send).saturating_add(self.system.message);
        self.queue.push(ready, if dirty > 0 { Event::Flushed(flush) } else { Event::Cancelled(flush) });
    }
    fn flushed(&mut self, now: Time, flush: u32) {
        let Flush { object, holder, dirty } = self.flushes[flush as usize];
        let target = self.run.layout.target(0, object);
        let server = self.server(target);
        let ready = self.cores[server as usize].take(now, *self.system.costs.oss.rpc).saturating_add(self.system.message);
        let there = self.network.transfer(ready, (holder, server, holder.wrapping_add(target)), Towards::Server, Bytes(dirty));
        self.queue.push(there, Event::Landed(flush));
    }
    fn landed(&mut self, now: Time, flush: u32) {
        let Flush { object, dirty, .. } = self.flushes[flush as usize];
        let target = self.run.layout.target(0, object);
        let pages = Span::from_ps(self.system.costs.oss.page.as_ps() * dirty.div_ceil(PAGE));
        let server = self.server(target) as usize;
        let ready = self.cores[server].take(now, pages);
        let end = self.accessed(ready, target, dirty, true);
        self.at_drives[target as usize] -= 1;
        // The reply to the holder, and its cancel.
        self.queue.push(end.saturating_add(self.system.message).saturating_add(self.system.message), Event::Cancelled(flush));
    }
    fn cancelled(&mut self, now: Time, flush: u32) {
        let number = self.flushes[flush as usize].object;
        let object = &mut self.objects[number as usize];
        object.open -= 1;
        if object.open > 0 {
            return;
        }
        if let Some(process) = object.waiting.front().copied()
            && let Some(piece) = self.piece(process)
        {
            self.granted(now, number, process, piece);
        }
        self.resolve(now, number);
    }

    fn accessed(&mut self, now: Time, target: u32, bytes: u64, write: bool) -> Time {
        let access = Access { write, bytes: Bytes(bytes.next_multiple_of(PAGE)), sequential: false };
        let service = self.system.oss.array.service(access, self.at_drives[target as usize].into());
        self.at_drives[target as usize] += 1;
        self.drives[target as usize].take(now, service.occupied).saturating_add(service.besides)
    }
}

const fn extent(piece: Piece) -> Extent {
    Extent { begin: piece.begin, end: piece.begin + piece.bytes }
}
