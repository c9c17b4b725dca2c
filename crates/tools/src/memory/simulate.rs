//! Accesses of cores in time: every queue that they meet on their way.
//!
//! Source: a closed system of queues; the stages stand in `system`.
//! Modelled: threads with so many lines outstanding, one after the other for a chase of pointers; flits, credits and channels as they are.
//! Not modelled: threads that compute.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fabriscope_platform::loads::LINE;
use fabriscope_streams::{GOLDEN, mix};
use fabriscope_units::{Span, Time};

use super::dram::{Access, Channel, Turn};
use super::flits::{Message, Sent};
use super::system::{Hop, System};

/// A thread that reads, and writes so many lines for so many that it reads.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    /// The way of what it reads.
    pub read: Vec<Hop>,
    /// The way of what it writes.
    pub write: Vec<Hop>,
    /// Lines read, then lines written, in turn.
    pub mix: (u32, u32),
    /// Lines outstanding.
    pub outstanding: u32,
    /// From line to line, at least.
    pub pause: Span,
}

/// What threads did within the window that was measured.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    /// Lines read and written.
    pub lines: u64,
    /// Reads that began and ended within it.
    pub reads: u64,
    /// Their times together.
    pub time: Span,
}

impl Measured {
    /// MB/s of 10⁶ bytes.
    pub(super) fn megabytes(&self, window: Span) -> f64 {
        (self.lines * LINE.0) as f64 / 1e6 / window.as_s_f64()
    }
    /// Nanoseconds of a read.
    pub(super) fn latency(&self) -> f64 {
        if self.reads == 0 { 0.0 } else { self.time.as_ns_f64() / self.reads as f64 }
    }
}

/// The place that a message has at the receiver of a link.
type Held = (u32, Message);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Issue(u32),
    Step(u32),
    Flit(u32),
    Bus(u32, u32),
    Credit(u32, Message),
}

#[derive(Debug, Clone, Copy, Default)]
struct Transaction {
    thread: u32,
    write: bool,
    at: u32,
    begun: Time,
    line: u64,
    held: Option<Held>,
}

#[derive(Debug, Default)]
struct Running {
    outstanding: u32,
    issued: u64,
    next: Time,
    asked: bool,
    measured: Measured,
}

struct World<'s> {
    system: &'s mut System,
    threads: &'s [Thread],
    running: Vec<Running>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    sequence: u64,
    transactions: Vec<Transaction>,
    unused: Vec<u32>,
    /// Whether a flit is on its way or planned, for each direction.
    busy: Vec<bool>,
    plain: Vec<Time>,
    channels: Vec<Vec<(Channel<Held>, Option<Time>)>>,
    window: (Time, Time),
    /// What the last flit held; kept for its room.
    flit: (Vec<Sent>, Vec<(u32, Message)>),
}

/// Runs all threads; what each did between `warm` and `warm + window`.
pub(super) fn simulate(system: &mut System, threads: &[Thread], warm: Span, window: Span) -> Vec<Measured> {
    let channels = system.memories.iter().map(|dram| (0..dram.channels).map(|n| (Channel::new(dram, n), None)).collect()).collect();
    let mut world = World {
        running: threads.iter().map(|_| Running::default()).collect(),
        events: BinaryHeap::new(),
        sequence: 0,
        transactions: Vec::new(),
        unused: Vec::new(),
        busy: vec![false; system.cxl.len()],
        plain: vec![Time::ZERO; system.plain],
        channels,
        window: (Time::ZERO + warm, Time::ZERO + warm + window),
        flit: Default::default(),
        system,
        threads,
    };
    for thread in 0..threads.len() as u32 {
        // Threads do not begin together.
        world.plan(Time::from_ps(u64::from(thread) * STAGGER.as_ps()), Event::Issue(thread));
    }
    while let Some(Reverse((now, _, event))) = world.events.pop() {
        if now >= world.window.1 {
            break;
        }
        match event {
            Event::Issue(thread) => world.issue(now, thread),
            Event::Step(id) => world.step(now, id),
            Event::Flit(link) => world.flit(now, link as usize),
            Event::Bus(memory, channel) => world.bus(now, memory as usize, channel as usize),
            Event::Credit(link, message) => {
                world.system.cxl[link as usize].packer.credit(message);
                world.wake(now, link as usize);
            }
        }
    }
    world.running.iter().map(|running| running.measured).collect()
}

impl World<'_> {
    fn plan(&mut self, at: Time, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// Starts as many accesses as the thread may have.
    fn issue(&mut self, now: Time, thread: u32) {
        let spec = &self.threads[thread as usize];
        self.running[thread as usize].asked = false;
        let cycle = u64::from(spec.mix.0 + spec.mix.1).max(1);
        loop {
            let running = &mut self.running[thread as usize];
            if running.outstanding >= spec.outstanding {
                return;
            }
            if now < running.next {
                if !running.asked {
                    running.asked = true;
                    let at = running.next;
                    self.plan(at, Event::Issue(thread));
                }
                return;
            }
            let write = running.issued % cycle >= u64::from(spec.mix.0);
            running.outstanding += 1;
            running.issued += 1;
            running.next = now + spec.pause;
            let line = scatter(u64::from(thread) << 40 | running.issued);
            let transaction = Transaction { thread, write, at: 0, begun: now, line, held: None };
            let id = self.unused.pop().unwrap_or_else(|| {
                self.transactions.push(Transaction::default());
                self.transactions.len() as u32 - 1
            });
            self.transactions[id as usize] = transaction;
            self.step(now, id);
        }
    }

    /// The next stage of an access.
    fn step(&mut self, now: Time, id: u32) {
        let transaction = &mut self.transactions[id as usize];
        let spec = &self.threads[transaction.thread as usize];
        let way = if transaction.write { &spec.write } else { &spec.read };
        let Some(hop) = way.get(transaction.at as usize).copied() else {
            self.done(now, id);
            return;
        };
        transaction.at += 1;
        match hop {
            Hop::Wait(span) => self.plan(now + span, Event::Step(id)),
            Hop::Cxl(link, message) => {
                self.system.cxl[link].packer.post(id, message);
                self.wake(now, link);
            }
            Hop::Plain(link, busy) => {
                let end = self.plain[link].max(now) + busy;
                self.plain[link] = end;
                self.plan(end, Event::Step(id));
            }
            Hop::Read(memory) | Hop::Write(memory) => {
                let dram = self.system.memories[memory];
                let channel = (transaction.line % u64::from(dram.channels)) as usize;
                let bank = (transaction.line / u64::from(dram.channels) % u64::from(dram.banks)) as u32;
                let access = Access { id, bank, held: transaction.held.take() };
                if matches!(hop, Hop::Read(_)) {
                    self.channels[memory][channel].0.read(access);
                } else if self.channels[memory][channel].0.write(&dram, access) {
                    self.plan(now, Event::Step(id));
                }
                self.bus_at(now, memory, channel);
            }
        }
    }

    fn done(&mut self, now: Time, id: u32) {
        let Transaction { thread, write, begun, held, .. } = self.transactions[id as usize];
        self.release(now, held);
        self.unused.push(id);
        let running = &mut self.running[thread as usize];
        running.outstanding -= 1;
        if now >= self.window.0 {
            running.measured.lines += 1;
            if !write && begun >= self.window.0 {
                running.measured.reads += 1;
                running.measured.time += now - begun;
            }
        }
        self.issue(now, thread);
    }

    /// The place of a message at its receiver is free again.
    fn release(&mut self, now: Time, held: Option<Held>) {
        if let Some((link, message)) = held {
            let back = self.system.cxl[link as usize].credit;
            self.plan(now + back, Event::Credit(link, message));
        }
    }

    /// A flit goes if there is something for it and none is on its way.
    fn wake(&mut self, now: Time, link: usize) {
        if !self.busy[link] && self.system.cxl[link].packer.ready() {
            self.busy[link] = true;
            self.plan(now, Event::Flit(link as u32));
        }
    }

    fn flit(&mut self, now: Time, link: usize) {
        self.busy[link] = false;
        let way = &mut self.system.cxl[link];
        if !way.packer.ready() {
            return;
        }
        let (mut sent, mut begun) = std::mem::take(&mut self.flit);
        way.packer.pack(&mut sent, &mut begun);
        let time = way.packer.time(way.rate);
        for (id, message) in begun.drain(..) {
            // It leaves the buffer in which it was for that of the next receiver.
            let before = self.transactions[id as usize].held.replace((link as u32, message));
            self.release(now, before);
        }
        for Sent { id, early } in sent.drain(..) {
            let there = now + if early { Span::from_ps(time.as_ps() / 2) } else { time };
            self.plan(there, Event::Step(id));
        }
        self.flit = (sent, begun);
        self.busy[link] = true;
        self.plan(now + time, Event::Flit(link as u32));
    }

    fn bus_at(&mut self, at: Time, memory: usize, channel: usize) {
        let planned = &mut self.channels[memory][channel].1;
        if planned.is_none_or(|planned| at < planned) {
            *planned = Some(at);
            self.plan(at, Event::Bus(memory as u32, channel as u32));
        }
    }

    fn bus(&mut self, now: Time, memory: usize, channel: usize) {
        let dram = self.system.memories[memory];
        let (served, planned) = &mut self.channels[memory][channel];
        if *planned != Some(now) {
            return;
        }
        *planned = None;
        match served.poll(&dram, now) {
            Turn::Idle => {}
            Turn::Later(at) => self.bus_at(at, memory, channel),
            Turn::Serve(access, there, admitted) => {
                self.release(now, access.held);
                if let Some(there) = there {
                    self.plan(there, Event::Step(access.id));
                }
                if let Some(id) = admitted {
                    self.plan(now, Event::Step(id));
                }
                self.bus_at(now + dram.line, memory, channel);
            }
        }
    }
}

/// Numbers that look like chance: where lines lie is spread over channels and banks.
fn scatter(seed: u64) -> u64 {
    mix(seed.wrapping_mul(GOLDEN))
}

/// Between the first accesses of threads. Basis: assumed, a few cycles.
const STAGGER: Span = Span::from_ps(1_700);
