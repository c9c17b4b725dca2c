//! Names made, looked at, read and removed by many processes.
//!
//! Source: Lustre Operations Manual, "Lustre metadata"; the messages of an operation as `mdtest` causes them: intents of open, getattr and
//! unlink to the MDT, glimpses and reads to the OST, a close behind every open.
//! Modelled: the lock that the kernel of a client holds on a directory while it changes it, RPCs in flight of a client to an MDT, cores,
//! the directory's lock and the journal of an MDT, its drives, objects and short files on OSTs.
//! Not modelled: caches of clients (mdtest asks other nodes than those that created), migration, quotas.

use fabriscope_kernel::EventQueue;
use fabriscope_lustre::{Access, System};
use fabriscope_units::{Bytes, Rate, Span, Time};
use rustc_hash::FxHashMap;

use crate::counts::MdsRequests;
use crate::station::{Cores, Line, Slots};
use crate::usage::{Resource, Usage};
use crate::{PAGE, begins, client_of};

/// What is done to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is made, and written to.
    Create,
    /// Its attributes are asked for.
    Stat,
    /// It is opened and read.
    Read,
    /// It is removed.
    Remove,
}

/// What all processes do, one name after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataRun {
    /// To each name.
    pub operation: Operation,
    /// All names are in one directory; otherwise each process has a directory of its own.
    pub shared: bool,
    /// MDTs that have them: stripes of the one directory, or MDTs to which the directories are given in turn.
    pub mdts: u32,
    /// What a file holds.
    pub bytes: Bytes,
    /// Names of each process.
    pub names: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetadataOutcome {
    /// Names that were counted.
    pub names: u64,
    /// In so much time.
    pub time: Span,
    /// The mean time of a name for its process.
    pub each: Span,
    /// What was at work.
    pub usage: Usage,
    /// Requests of all that was simulated, by MDT.
    pub requests: Vec<MdsRequests>,
}

impl MetadataOutcome {
    /// Names a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.time == Span::ZERO { 0.0 } else { self.names as f64 / self.time.as_s_f64() }
    }
}

/// A message and what its server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// At an MDT: cores' time, whether something changes.
    Mds { core: Span, changes: bool },
    /// At an OST: cores' time, data from its drives, whether a client that wrote has to be asked.
    Oss { core: Span, read: u64, glimpse: bool },
}

#[derive(Clone, Copy, Default)]
enum Event {
    #[default]
    Nothing,
    /// A process turns to its next name.
    Next(u32),
    /// It has what it needs at home, and sends.
    Sends(u32),
    /// Its message is there.
    Arrived(u32),
    /// It has the reply.
    Replied(u32),
    /// Data of a short file are at the OST of a name.
    Written(u32),
}

struct Process {
    name: u64,
    step: u8,
    began: Time,
}

struct Running<'a> {
    system: &'a System,
    run: MetadataRun,
    steps: Vec<Step>,
    queue: EventQueue<Event>,
    processes: Vec<Process>,
    /// Of each client: the shared directory, which one of its processes may be in.
    directories: Vec<Slots>,
    client_busy: Vec<Span>,
    client_since: Vec<Time>,
    slots: FxHashMap<u64, Slots>,
    mds: Vec<Cores>,
    journals: Vec<Line>,
    entries: Vec<Line>,
    logs: Vec<Line>,
    oss: Vec<Cores>,
    drives: Vec<Line>,
    done: u64,
    spent: u128,
    requests: Vec<MdsRequests>,
}

/// Names of all processes that are simulated, and of each at least and at most. Basis: assumed (seconds of a core).
const NAMES: u64 = 400_000;
const EACH: (u64, u64) = (4, 2000);

impl MetadataRun {
    /// Runs it until the rate is steady, or to its end where that comes first.
    #[must_use]
    pub fn run(self, system: &System) -> MetadataOutcome {
        let processes = u64::from(system.processes().max(1));
        let each = (NAMES / processes).clamp(EACH.0, EACH.1).min(self.names.max(1));
        let clients = system.clients.nodes as usize;
        let cores = |count: u32, of: u32| (0..of).map(|_| Cores::new(count)).collect();
        let running = Running {
            system,
            run: self,
            steps: self.steps(system),
            queue: EventQueue::new(Span::from_us(1), 1 << 14),
            processes: (0..processes).map(|_| Process { name: 0, step: 0, began: Time::ZERO }).collect(),
            directories: vec![Slots::default(); clients],
            client_busy: vec![Span::ZERO; clients],
            client_since: vec![Time::ZERO; clients],
            slots: FxHashMap::default(),
            mds: cores((*system.costs.mds.parallel).min(system.mds.cores), system.mds.servers),
            journals: vec![Line::default(); system.mdts() as usize],
            entries: vec![Line::default(); system.mdts() as usize],
            logs: vec![Line::default(); system.mdts() as usize],
            oss: cores(system.oss.cores, system.oss.servers),
            drives: vec![Line::default(); system.osts() as usize],
            done: 0,
            spent: 0,
            requests: vec![MdsRequests::default(); system.mdts() as usize],
        };
        running.go(each)
    }

    fn steps(self, system: &System) -> Vec<Step> {
        let (mds, oss) = (&system.costs.mds, &system.costs.oss);
        let close = Step::Mds { core: *mds.close, changes: false };
        let pages = |bytes: u64| Span::from_ps(oss.page.as_ps() * bytes.div_ceil(PAGE));
        match self.operation {
            Operation::Create => vec![Step::Mds { core: *mds.open + *mds.create, changes: true }, close],
            // The size of a file is known to its OSTs.
            Operation::Stat => {
                vec![Step::Mds { core: *mds.getattr, changes: false }, Step::Oss { core: *oss.lock, read: 0, glimpse: self.bytes.0 > 0 }]
            }
            Operation::Read => {
                let data = Step::Oss { core: *oss.rpc + *oss.lock + pages(self.bytes.0), read: self.bytes.0, glimpse: true };
                vec![Step::Mds { core: *mds.open, changes: false }, data, close]
            }
            Operation::Remove => vec![Step::Mds { core: *mds.unlink, changes: true }],
        }
    }
}

impl Running<'_> {
    fn go(mut self, each: u64) -> MetadataOutcome {
        for process in 0..self.processes.len() as u32 {
            self.queue.push(begins(process), Event::Next(process));
        }
        let processes = self.processes.len() as u64;
        let (warm, last) = (if each > 1 { processes } else { 0 }, each * processes * 9 / 10);
        let (mut from, mut before, mut end) = (Time::ZERO, (0u64, 0u128), Time::ZERO);
        while let Some((now, event)) = self.queue.pop() {
            end = now;
            match event {
                Event::Nothing => {}
                Event::Next(process) => self.next(now, process, each),
                Event::Sends(process) => self.sends(now, process),
                Event::Arrived(process) => self.arrived(now, process),
                Event::Replied(process) => self.replied(now, process),
                Event::Written(ost) => self.written(now, ost),
            }
            if before.0 == 0 && warm > 0 && self.done >= warm {
                (from, before) = (now, (self.done, self.spent));
            }
            if self.done >= last.max(1) {
                break;
            }
        }
        let all = end.since(Time::ZERO);
        let names = self.done - before.0;
        let mut usage = Usage::default();
        usage.add(Resource::ClientDirectory, self.client_busy.iter().copied(), all);
        usage.add(Resource::MdsCores, self.mds.iter().map(Cores::busy), all);
        usage.add(Resource::Directory, self.entries.iter().map(Line::busy), all);
        usage.add(Resource::Journals, self.journals.iter().map(Line::busy), all);
        usage.add(Resource::MdsDrives, self.logs.iter().map(Line::busy), all);
        usage.add(Resource::OssCores, self.oss.iter().map(Cores::busy), all);
        usage.add(Resource::OssDrives, self.drives.iter().map(Line::busy), all);
        let each = Span::from_ps(((self.spent - before.1) / u128::from(names.max(1))) as u64);
        MetadataOutcome { names, time: end.since(from), each, usage, requests: self.requests }
    }

    fn client(&self, process: u32) -> u32 {
        client_of(process, self.system.clients.per_node)
    }
    /// The MDT and the OST of a process's present name.
    fn targets(&self, process: u32) -> (u32, u32) {
        let name = u64::from(process).wrapping_add(self.processes[process as usize].name.wrapping_mul(7919));
        let mdts = u64::from(self.run.mdts.clamp(1, self.system.mdts().max(1)));
        let mdt = if self.run.shared { name % mdts } else { u64::from(process) % mdts };
        (mdt as u32, (name % u64::from(self.system.osts().max(1))) as u32)
    }
    /// Names of one directory are made and removed one at a time by the kernel of a client.
    fn excludes(&self) -> bool {
        self.run.shared && matches!(self.run.operation, Operation::Create | Operation::Remove)
    }

    fn next(&mut self, now: Time, process: u32, each: u64) {
        let own = &mut self.processes[process as usize];
        if own.name >= each {
            return;
        }
        own.name += 1;
        own.step = 0;
        own.began = now;
        if self.excludes() {
            let client = self.client(process) as usize;
            if !self.directories[client].enter(process, 1) {
                return;
            }
            self.client_since[client] = now;
        }
        self.queue.push(now.saturating_add(*self.system.costs.client.call), Event::Sends(process));
    }

    fn sends(&mut self, now: Time, process: u32) {
        let step = self.steps[usize::from(self.processes[process as usize].step)];
        if let Step::Mds { changes, .. } = step {
            let slots = self.slot(process, changes);
            let costs = &self.system.costs.client;
            let most = if changes { *costs.max_mod_rpcs_in_flight } else { *costs.max_metadata_rpcs_in_flight };
            if !self.slots.entry(slots).or_default().enter(process, most) {
                return;
            }
        }
        let ready = now.saturating_add(*self.system.costs.client.rpc + self.system.message);
        self.queue.push(ready, Event::Arrived(process));
    }
    fn slot(&self, process: u32, changes: bool) -> u64 {
        u64::from(self.client(process)) << 32 | u64::from(self.targets(process).0) << 1 | u64::from(changes)
    }

    fn arrived(&mut self, now: Time, process: u32) {
        let (mdt, ost) = self.targets(process);
        self.counted(mdt, self.processes[process as usize].step);
        let step = self.steps[usize::from(self.processes[process as usize].step)];
        let end = match step {
            Step::Mds { core, changes } => {
                let entry = if self.run.shared { self.entries[mdt as usize].take(now, *self.system.costs.mds.directory) } else { now };
                let served = self.mds[(mdt / self.system.mds.targets.max(1)) as usize].take(entry, core);
                if changes { self.changes(served, mdt) } else { served }
            }
            Step::Oss { core, read, glimpse } => {
                let served = self.oss[(ost / self.system.oss.targets.max(1)) as usize].take(now, core);
                let glimpsed = if glimpse { served.saturating_add(self.called_back()) } else { served };
                if read == 0 { glimpsed } else { self.accessed(glimpsed, ost, read, false) }
            }
        };
        self.queue.push(end.saturating_add(self.system.message), Event::Replied(process));
    }
    /// A request is at its MDT.
    fn counted(&mut self, mdt: u32, step: u8) {
        let Some(requests) = self.requests.get_mut(mdt as usize) else { return };
        if !matches!(self.steps.get(usize::from(step)), Some(Step::Mds { .. })) {
            return;
        }
        let count = match (self.run.operation, step) {
            (Operation::Create | Operation::Read, 0) => &mut requests.open,
            (Operation::Create | Operation::Read, _) => &mut requests.close,
            (Operation::Stat, _) => &mut requests.getattr,
            (Operation::Remove, _) => &mut requests.unlink,
        };
        *count += 1;
    }
    /// A client gives up what it holds, or says what it knows: there and back.
    fn called_back(&self) -> Span {
        *self.system.costs.client.callback + self.system.message + self.system.message
    }
    /// A record of the journal, which its drives take at their own rate; in a directory that others know, they are told first.
    fn changes(&mut self, now: Time, mdt: u32) -> Time {
        let now = if self.run.shared && self.system.clients.nodes > 1 { now.saturating_add(self.called_back()) } else { now };
        let costs = &self.system.costs.mds;
        let journal = self.journals[mdt as usize].take(now, *costs.journal);
        let array = &self.system.mds.array;
        let rate = Rate::from_bps(array.rates[1].as_bps().saturating_mul(array.data));
        let log = self.logs[mdt as usize].take(journal, rate.time(*costs.journal_bytes));
        // Replies wait for no commit, but over minutes a journal takes no more than its drives do.
        log.max(journal)
    }
    fn accessed(&mut self, now: Time, ost: u32, bytes: u64, write: bool) -> Time {
        let access = Access { write, bytes: Bytes(bytes.next_multiple_of(PAGE)), sequential: false };
        let service = self.system.oss.array.service(access, 8);
        self.drives[ost as usize].take(now, service.occupied).saturating_add(service.besides)
    }

    fn replied(&mut self, now: Time, process: u32) {
        let own = &self.processes[process as usize];
        if let Step::Mds { changes, .. } = self.steps[usize::from(own.step)] {
            let slot = self.slot(process, changes);
            if let Some(next) = self.slots.get_mut(&slot).and_then(Slots::leave) {
                self.sends(now, next);
            }
            if changes && self.excludes() {
                let client = self.client(process) as usize;
                self.client_busy[client] = self.client_busy[client].saturating_add(now.since(self.client_since[client]));
                if let Some(next) = self.directories[client].leave() {
                    self.directories[client].enter(next, 1);
                    self.client_since[client] = now;
                    self.queue.push(now.saturating_add(*self.system.costs.client.call), Event::Sends(next));
                }
            }
        }
        let (_, ost) = self.targets(process);
        let own = &mut self.processes[process as usize];
        own.step += 1;
        if usize::from(own.step) < self.steps.len() {
            self.queue.push(now, Event::Sends(process));
            return;
        }
        self.done += 1;
        self.spent += u128::from(now.since(own.began).as_ps());
        if self.run.operation == Operation::Create && self.run.bytes.0 > 0 {
            self.queue.push(now.saturating_add(self.system.message), Event::Written(ost));
        } else if self.run.operation == Operation::Remove {
            let costs = &self.system.costs.oss;
            self.oss[(ost / self.system.oss.targets.max(1)) as usize].take(now, *costs.object);
        }
        self.queue.push(now, Event::Next(process));
    }
    /// Pages of a short file go when its client has time; nobody waits for them.
    fn written(&mut self, now: Time, ost: u32) {
        let costs = &self.system.costs.oss;
        let pages = Span::from_ps(costs.page.as_ps() * self.run.bytes.0.div_ceil(PAGE));
        let served = self.oss[(ost / self.system.oss.targets.max(1)) as usize].take(now, *costs.rpc + pages);
        self.accessed(served, ost, self.run.bytes.0, true);
    }
}
