//! An accelerator of the job as a program: what came, what leaves behind it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use fabriscope_experts::links::Links;
use fabriscope_experts::wires::{FOR_EVER, Wires};
use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::AppWords;

use crate::job::{HclJob, Operation};

/// What a part of a slice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// To be added up within the server, for the one of that number of some server.
    Scatter,
    /// Added up within a server, to be added up among servers.
    Sum,
    /// Whole, from server to server.
    Spread,
    /// Whole, within a server.
    Gather,
}

/// A part of a slice that comes, or something that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A slice may begin.
    Begin,
    /// A part came.
    Came(Part),
    /// What came within the server has been added up.
    Added,
    /// The own part is whole.
    Whole,
    /// A whole part of another server may go on within this one.
    Passed,
}

/// Of a slice, about a server.
type Note = (u64, u32, Event);

/// A server: its links, and what is on its way to each accelerator.
struct Server {
    links: Links,
    mail: Vec<Vec<(Time, Note)>>,
    ranks: Vec<u32>,
}

/// What a slice still waits for.
struct Slice {
    /// Parts that have not come within the server, for each server.
    scatter: Vec<u32>,
    /// Pieces of sums of other servers, and the own one.
    sums: u32,
    /// Pieces of whole parts of each other server.
    spread: Vec<u32>,
    /// All that has not happened.
    left: u32,
}

struct Card {
    process: Process,
    job: Arc<HclJob>,
    me: u32,
    server: u32,
    place: u32,
    gpu: u32,
    wires: Wires,
    shared: Rc<RefCell<Server>>,
    /// What is due when, in the order of its making.
    due: BTreeMap<(Time, u64), Note>,
    made: u64,
    slices: BTreeMap<u64, Slice>,
    begun: Time,
    next: u64,
    done: u64,
    /// Slices of each call that are not over.
    open: Vec<u64>,
    ends: Vec<Span>,
    /// When the engine that adds up is free.
    adder: Time,
}

/// Runs a job on one of its accelerators.
///
/// # Errors
/// Servers without accelerators or ports, ports that refuse what is posted.
pub async fn run(process: Process, job: Arc<HclJob>) -> Result<(), ProgramError> {
    let mut card = Card::seated(process, job).await?;
    card.process.barrier().await;
    card.begun = card.process.now();
    for _ in 0..u64::from(*card.job.hcl.in_flight).min(card.job.items()) {
        card.begin_next(card.begun);
    }
    while card.done < card.job.items() {
        card.take()?;
        if card.done == card.job.items() {
            break;
        }
        let until = card.due.first_key_value().map_or(FOR_EVER, |((at, _), _)| *at);
        let watches = card.wires.watches(&card.process);
        let _ = card.process.wait_any_until(&[], &watches, until).await;
        let _ = card.process.take_notes();
        card.wires.clean(&card.process)?;
    }
    let ends = std::mem::take(&mut card.ends);
    card.job.ends.lock()[card.me as usize] = ends;
    card.process.barrier().await;
    Ok(())
}

impl Card {
    async fn seated(process: Process, job: Arc<HclJob>) -> Result<Card, ProgramError> {
        let settings = job.settings;
        let me = process.rank();
        let (server, place) = (me / settings.per_server, me % settings.per_server);
        let count = process.devices()?.count();
        let gpu = job.binding.gpu(place, count as u32).unwrap_or(0);
        if gpu as usize >= count {
            return Err(ProgramError(format!("rank {me} has accelerator {gpu} of a server with {count}")));
        }
        // Engines of the ports post and see what comes, no core does.
        process.drive_as(process.cpu().posted_by_others());
        let shared = process.segments().of(&job.owner, || {
            RefCell::new(Server { links: Links::default(), mail: vec![Vec::new(); count], ranks: vec![u32::MAX; count] })
        });
        shared.borrow_mut().ranks[gpu as usize] = me;
        let peers: Vec<u32> =
            (0..settings.servers).filter(|other| *other != server).map(|other| other * settings.per_server + place).collect();
        let ports = if peers.is_empty() { 0 } else { fabriscope_experts::wires::adapters_of(&process, gpu)?.len() as u32 };
        job.net.fence(&process).await;
        let (mut wires, made) = Wires::open(&process, &job.net, (me, gpu), (&peers, ports))?;
        job.net.fence(&process).await;
        wires.connect(&process, &job.net, me, made)?;
        let open = vec![job.slices.count(); settings.calls as usize];
        let ends = vec![Span::ZERO; settings.calls as usize];
        let (due, slices) = (BTreeMap::new(), BTreeMap::new());
        let (begun, adder) = (Time::ZERO, Time::ZERO);
        Ok(Card { process, job, me, server, place, gpu, wires, shared, due, made: 0, slices, begun, next: 0, done: 0, open, ends, adder })
    }

    /// Everything that is due, has come or was told.
    fn take(&mut self) -> Result<(), ProgramError> {
        let lanes = self.wires.rails.len() as u32;
        debug_assert!(lanes > 0 || self.job.settings.servers == 1, "ports out were found");
        loop {
            let now = self.process.now();
            for AppWords([kind, slice, about, _]) in self.wires.heard(&self.process) {
                let part = if kind == 0 { Part::Sum } else { Part::Spread };
                self.put(now, (slice, about as u32, Event::Came(part)));
            }
            let mail = std::mem::take(&mut self.shared.borrow_mut().mail[self.gpu as usize]);
            for (at, note) in mail {
                self.put(at, note);
            }
            let Some(first) = self.due.first_entry().filter(|first| first.key().0 <= now) else { return Ok(()) };
            let note = first.remove();
            self.happens(now, note)?;
        }
    }

    fn put(&mut self, at: Time, note: Note) {
        self.due.insert((at, self.made), note);
        self.made += 1;
    }

    /// The next slice, not before its call.
    fn begin_next(&mut self, now: Time) {
        if self.next < self.job.items() {
            let call = self.next / self.job.slices.count();
            let at = now.max(self.begun + *self.job.hcl.call * (call + 1));
            self.put(at, (self.next, self.server, Event::Begin));
            self.next += 1;
        }
    }

    fn happens(&mut self, now: Time, (number, about, event): Note) -> Result<(), ProgramError> {
        let operation = self.job.settings.operation;
        let step = *self.job.hcl.step;
        match event {
            Event::Begin => {
                self.slice(number);
                if operation == Operation::AllGather {
                    self.put(now, (number, about, Event::Whole));
                } else {
                    self.scatter(now, number)?;
                }
            }
            Event::Came(Part::Scatter) => {
                self.one_less(now, number);
                let left = &mut self.slice(number).scatter[about as usize];
                *left -= 1;
                if *left == 0 {
                    let at = self.added(now, number, self.job.settings.per_server);
                    self.put(at + step, (number, about, Event::Added));
                }
            }
            Event::Added if about != self.server => {
                let part = self.bytes(number);
                let bytes = if operation == Operation::AllToAll { part * u64::from(self.job.settings.per_server) } else { part };
                self.send_out(number, about, (Part::Sum, bytes))?;
                self.one_less(now, number);
            }
            Event::Added | Event::Came(Part::Sum) => {
                self.one_less(now, number);
                let sums = &mut self.slice(number).sums;
                *sums -= 1;
                if *sums == 0 {
                    let servers = self.job.settings.servers;
                    let at = if servers > 1 { self.added(now, number, servers) + step } else { now };
                    self.put(at, (number, self.server, Event::Whole));
                }
            }
            Event::Whole => {
                if matches!(operation, Operation::AllReduce | Operation::AllGather) {
                    for other in self.others() {
                        self.send_out(number, other, (Part::Spread, self.bytes(number)))?;
                    }
                    self.gather(now, number, self.server)?;
                }
                self.one_less(now, number);
            }
            Event::Came(Part::Spread) => {
                self.one_less(now, number);
                let left = &mut self.slice(number).spread[about as usize];
                *left -= 1;
                if *left == 0 {
                    self.put(now + step, (number, about, Event::Passed));
                }
            }
            Event::Passed => {
                self.gather(now, number, about)?;
                self.one_less(now, number);
            }
            Event::Came(Part::Gather) => self.one_less(now, number),
        }
        Ok(())
    }

    /// What there is to wait for in a slice: parts may come before it begins here.
    fn slice(&mut self, number: u64) -> &mut Slice {
        let settings = self.job.settings;
        let (servers, beside) = (settings.servers, settings.per_server - 1);
        let (own, part) = (self.server as usize, self.bytes(number));
        let rails = self.wires.rails.len() as u64;
        self.slices.entry(number).or_insert_with(|| {
            let operation = settings.operation;
            let scatters = operation != Operation::AllGather;
            let gathers = matches!(operation, Operation::AllReduce | Operation::AllGather);
            let sent = if operation == Operation::AllToAll { part * u64::from(settings.per_server) } else { part };
            let sums = if scatters { 1 + (servers - 1) * pieces(sent, rails) } else { 0 };
            let mut spread = vec![if gathers { pieces(part, rails) } else { 0 }; servers as usize];
            spread[own] = 0;
            let scatter = if scatters { servers * beside + servers - 1 + sums } else { 0 };
            let gather = if gathers { servers * beside + spread.iter().sum::<u32>() + servers - 1 } else { 0 };
            Slice { scatter: vec![beside; servers as usize], sums, spread, left: scatter + gather + 1 }
        })
    }

    fn one_less(&mut self, now: Time, number: u64) {
        let slice = self.slice(number);
        slice.left -= 1;
        if slice.left > 0 {
            return;
        }
        self.slices.remove(&number);
        self.done += 1;
        let call = (number / self.job.slices.count()) as usize;
        self.open[call] -= 1;
        if self.open[call] == 0 {
            self.ends[call] = now.since(self.begun);
        }
        self.begin_next(now);
    }

    fn bytes(&self, number: u64) -> Bytes {
        self.job.slices.bytes(number % self.job.slices.count())
    }

    /// Other servers, from the next on.
    fn others(&self) -> Vec<u32> {
        let servers = self.job.settings.servers;
        (1..servers).map(|step| (self.server + step) % servers).collect()
    }

    /// When so many parts have been read and their sum written, one slice after the other; parts of an all-to-all stay where they are.
    fn added(&mut self, now: Time, number: u64, parts: u32) -> Time {
        if self.job.settings.operation == Operation::AllToAll || self.job.memory.as_bps() == 0 {
            return now;
        }
        self.adder = self.adder.max(now) + self.job.memory.time(self.bytes(number) * (u64::from(parts) + 1));
        self.adder
    }

    /// Parts for all others of the server, of the own server first.
    fn scatter(&mut self, now: Time, number: u64) -> Result<(), ProgramError> {
        for about in std::iter::once(self.server).chain(self.others()) {
            if self.job.settings.per_server == 1 {
                self.put(now, (number, about, Event::Added));
            }
            self.send_within(now, (number, about, Event::Came(Part::Scatter)))?;
        }
        Ok(())
    }

    /// A whole part to all others of the server.
    fn gather(&mut self, now: Time, number: u64, about: u32) -> Result<(), ProgramError> {
        self.send_within(now, (number, about, Event::Came(Part::Gather)))
    }

    /// A part to each other accelerator of the server, over the links to it.
    fn send_within(&mut self, now: Time, note: Note) -> Result<(), ProgramError> {
        let bytes = self.bytes(note.0);
        let count = self.job.settings.per_server;
        for step in 1..count {
            let place = (self.place + step) % count;
            let rank = self.server * count + place;
            let server = &mut *self.shared.borrow_mut();
            let gpu = server.ranks.iter().position(|known| *known == rank);
            let gpu = gpu.ok_or_else(|| ProgramError(format!("rank {rank} has no accelerator on its server")))?;
            let at = server.links.carry(self.process.devices()?, now, (self.gpu, gpu as u32), bytes)?;
            server.mail[gpu].push((at, note));
            self.process.tell(rank, at.max(self.process.engine_time()));
        }
        Ok(())
    }

    /// A part to the accelerator of this number of another server, by all ports out; it says from which server it is.
    fn send_out(&mut self, number: u64, other: u32, (part, bytes): (Part, Bytes)) -> Result<(), ProgramError> {
        let peer = other * self.job.settings.per_server + self.place;
        let count = pieces(bytes, self.wires.rails.len() as u64);
        for lane in 0..count {
            let until = |lane: u32| bytes.0 * u64::from(lane) / u64::from(count);
            let words = AppWords([u64::from(part == Part::Spread), number, u64::from(self.server), 0]);
            self.wires.write(&self.process, (peer, lane), Bytes(until(lane + 1) - until(lane)), words)?;
        }
        Ok(())
    }
}

/// Pieces of a part, one for each port out.
fn pieces(bytes: Bytes, ports: u64) -> u32 {
    bytes.0.min(ports).max(1) as u32
}
