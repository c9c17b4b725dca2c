//! What all programs of a run share: hosts, processes, sockets, and who waits for what.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fabriscope_node::Process;
use fabriscope_units::{Span, Time};
use fabriscope_verbs::{AhId, AsyncEvent, CqId, Lid, Lkey, PdId, QpNum, SrqId, WatchId};

use crate::arena::{Arena, SLOTS};
use crate::cm::agent::AgentPort;
use crate::cm::{ChannelId, Connections};
use crate::datagrams::{self, Datagrams};
use crate::device::Device;
use crate::gpu::Gpus;
use crate::management::Management;
use crate::memory::{HostMemory, ProcessMemory};
use crate::process;
use crate::question::Answer;
use crate::sockets::{self, Sockets};
use crate::xrc::XrcDomains;

/// What a thread may wait for beside the queues of its adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// Something happens to a socket.
    Stream(sockets::Id),
    /// A datagram comes to a socket.
    Datagram(datagrams::Id),
    /// Somebody listens at last.
    Listeners,
    /// An event of a device of the host.
    Device { node: u32, nic: usize },
    /// A thread ends.
    Task(usize),
    /// A child of the process ends.
    Children(u32),
    /// A host is to go on with a thread, or all have ended.
    Host(u32),
    /// Something is told on a channel of connections.
    Connections(ChannelId),
    /// The connection manager of a host has something to do.
    Agent(u32),
    /// A GPU has something to do.
    Gpu(u32),
    /// An answer of subnet management is on its way.
    Management(u32),
    /// All ranks of a communicator have joined.
    Communicator(usize),
    /// The kernel of a call has ended.
    Kernel(usize),
    /// A word of a process changes.
    Word { process: u32, address: u64 },
    /// A set of descriptors that a process waits for changes.
    PollSet { process: u32, fd: i32 },
}

/// What a descriptor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Descriptor {
    Stream(sockets::Id),
    Datagrams(datagrams::Id),
    /// Events of completion queues.
    Channel(u32),
    /// Events of a device.
    Device(usize),
    /// Events of connections.
    Connections(ChannelId),
    /// Answers of subnet management.
    Management(u32),
}

impl Descriptor {
    /// Its kind in `shim/sockets.h`.
    pub fn kind(self) -> i32 {
        match self {
            Descriptor::Stream(_) => 1,
            Descriptor::Channel(_) | Descriptor::Device(_) => 2,
            Descriptor::Connections(_) => 4,
            Descriptor::Management(_) => 5,
            Descriptor::Datagrams(_) => 6,
        }
    }
}

/// Events of completion queues of a process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Channel {
    /// Queues that tell of themselves here: adapter, queue, and what the program calls it.
    pub queues: Vec<(usize, CqId, i64)>,
}

/// Memory that peers may write to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watched {
    pub key: Lkey,
    pub from: u64,
    pub to: u64,
    pub nic: usize,
    pub watch: WatchId,
    /// Messages that had landed when the program looked the last time.
    pub seen: u64,
}

/// A process of a host.
pub(crate) struct Program {
    /// What it is, for people.
    pub name: String,
    pub node: u32,
    /// The host where its launcher started it: what is there listens on the loopback of both.
    pub home: u32,
    /// Of the operating system.
    pub pid: u32,
    /// In this run.
    pub number: u32,
    pub parent: Option<u32>,
    pub memory: Option<Arc<ProcessMemory>>,
    pub descriptors: BTreeMap<i32, Descriptor>,
    /// How often sets of descriptors were changed while a thread waited for them.
    pub poll_sets: BTreeMap<i32, u64>,
    pub channels: BTreeMap<u32, Channel>,
    pub next_channel: u32,
    pub watched: Vec<Watched>,
    pub owned: Owned,
    /// Events of adapters about what it owns, that nobody took yet.
    pub events: VecDeque<(usize, Notice)>,
    /// How it ended, as `wait` says it.
    pub status: Option<i32>,
    /// Its parent knows.
    pub reaped: bool,
}

/// Something that a device tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Of an object of the adapter.
    Object(AsyncEvent),
    /// Of its port.
    Port { up: bool },
}

/// What a process has of the adapters of its host: adapter and number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Owned {
    pub qps: BTreeSet<(usize, QpNum)>,
    pub cqs: BTreeSet<(usize, CqId)>,
    pub srqs: BTreeSet<(usize, SrqId)>,
    pub ahs: BTreeSet<(usize, AhId)>,
    pub mrs: BTreeSet<(usize, Lkey)>,
    pub pds: BTreeSet<(usize, PdId)>,
    /// Groups: adapter, queue pair and address.
    pub groups: BTreeSet<(usize, QpNum, u32)>,
}

/// A host of the run.
pub(crate) struct Host {
    pub name: String,
    /// Of the files that programs there find instead of the machine's.
    pub folder: PathBuf,
    pub devices: Vec<Device>,
    pub memories: Vec<HostMemory>,
    /// Of its connection manager, once that is there.
    pub agent: Vec<AgentPort>,
}

/// A thread that a host begins with, or goes on with.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub slot: usize,
    pub program: u32,
    /// What it is answered first.
    pub first: Answer,
}

/// What a thread does between a question and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Works,
    Sleeps(Time),
    Connects,
    Joins,
    WaitsFor(&'static str),
    WaitsForListener { port: u16, host: u32 },
    WaitsForDescriptors(usize),
    WaitsForEvents(usize),
    Polls { cq: CqId, nic: usize },
    Spins,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doing::Works => f.write_str("works"),
            Doing::Sleeps(until) => write!(f, "sleeps until {until}"),
            Doing::Connects => f.write_str("connects"),
            Doing::Joins => f.write_str("joins a multicast group"),
            Doing::WaitsFor(what) => write!(f, "waits for {what}"),
            Doing::WaitsForListener { port, host } => write!(f, "waits for somebody to listen on port {port} of host {host}"),
            Doing::WaitsForDescriptors(count) => write!(f, "waits for one of {count} descriptors"),
            Doing::WaitsForEvents(queues) => write!(f, "waits for an event of {queues} completion queues"),
            Doing::Polls { cq, nic } => write!(f, "polls completion queue {cq} of adapter {nic}"),
            Doing::Spins => f.write_str("spins on its memory"),
        }
    }
}

/// What a thread is doing, for the report of a run that hangs.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    /// Which of all threads it is: slots are taken again.
    pub serial: i64,
    pub process: u32,
    pub rank: u32,
    pub doing: Doing,
    pub since: Time,
    pub ended: bool,
    /// The call that it waits in, or the next one that could be, ends with EINTR.
    pub interrupted: bool,
}

/// All of it.
pub(crate) struct World {
    pub hosts: Vec<Host>,
    pub programs: Vec<Program>,
    pub sockets: Sockets,
    pub datagrams: Datagrams,
    pub connections: Connections,
    pub xrc: XrcDomains,
    /// Agents of the fabric, where it is InfiniBand.
    pub management: Option<Management>,
    /// Those of the hosts, where NCCL runs on them.
    pub gpus: Option<Gpus>,
    /// Every host is to have a connection manager.
    pub wants_agents: bool,
    /// Threads that a host is to go on with.
    pub starts: Vec<Vec<Arrival>>,
    /// Ranks of a job on each host, where launchers are told apart.
    pub ranks_per_node: Option<u32>,
    /// Multicast groups that were ever joined.
    pub groups: BTreeMap<[u8; 16], Lid>,
    /// Ports that receive from a group: host, adapter and name.
    pub members: BTreeSet<(u32, usize, [u8; 16])>,
    /// Ports whose cable is down: host and adapter.
    pub ports_down: BTreeSet<(u32, usize)>,
    /// Hosts that have started their programs.
    pub begun: usize,
    pub tasks: BTreeMap<usize, Task>,
    /// Threads that ever were.
    pub threads: i64,
    waiting: BTreeMap<Key, BTreeSet<u32>>,
    /// What a program spends on each message that it sent, beyond the calls.
    pub per_message: Span,
    /// When anything last happened that was not waiting.
    pub progress: Time,
    /// What cannot be told to a program: posts that were refused though they seemed certain.
    pub complaints: Vec<String>,
    /// Control verbs that were refused, and why.
    pub refusals: Vec<String>,
}

/// Shared by all programs of a run, which run one at a time.
#[derive(Clone)]
pub(crate) struct Shared {
    pub arena: Arc<Arena>,
    world: Arc<Mutex<World>>,
    pub deaths: Arc<Deaths>,
}

/// Processes that have ended, by what the operating system says.
#[derive(Debug, Default)]
pub(crate) struct Deaths {
    /// Process and status, in the order in which they were seen.
    seen: Mutex<Vec<(u32, i32)>>,
    count: AtomicUsize,
    passed_on: AtomicUsize,
}

impl Deaths {
    /// The process has ended with this status.
    pub fn note(&self, pid: u32, status: i32) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push((pid, status));
        self.count.fetch_add(1, Ordering::SeqCst);
    }
    fn status(&self, pid: u32) -> Option<i32> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().find(|(dead, _)| *dead == pid).map(|(_, status)| *status)
    }
}

impl Shared {
    pub fn new(arena: Arena, world: World) -> Shared {
        Shared { arena: Arc::new(arena), world: Arc::new(Mutex::new(world)), deaths: Arc::default() }
    }
    /// Ends all processes: those that have not ended, and what is left of the groups that any of them leads.
    pub fn end_all(&self) {
        for program in &self.world().programs {
            process::kill_group(program.pid);
            if program.status.is_none() {
                process::kill(program.pid);
            }
        }
    }
    /// The world; not to be held over a wait.
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// How the operating system says that a process has ended.
    pub fn death_of(&self, program: u32) -> Option<i32> {
        let pid = self.world().programs[program as usize].pid;
        self.deaths.status(pid)
    }
    /// Whether a process has said that it ends, or has.
    pub fn is_dead(&self, program: u32) -> bool {
        let world = self.world();
        let of = &world.programs[program as usize];
        of.status.is_some() || self.deaths.count.load(Ordering::Relaxed) > 0 && self.deaths.status(of.pid).is_some()
    }
    /// Programs whose processes have ended since this was last asked.
    pub fn new_deaths(&self) -> Vec<u32> {
        let count = self.deaths.count.load(Ordering::Relaxed);
        let from = self.deaths.passed_on.swap(count, Ordering::Relaxed);
        if from == count {
            return Vec::new();
        }
        let seen = self.deaths.seen.lock().unwrap_or_else(PoisonError::into_inner)[from..count].to_vec();
        let world = self.world();
        (0..).zip(&world.programs).filter(|(_, program)| seen.iter().any(|(pid, _)| *pid == program.pid)).map(|(index, _)| index).collect()
    }
    /// Whether a thread sleeps in the kernel.
    pub fn sleeps(&self, slot: usize) -> bool {
        let (pid, tid) = self.arena.owner(slot);
        tid != 0 && process::sleeps(pid, tid)
    }
    /// Has a thread that does not ask look what it does.
    pub fn look_at(&self, slot: usize) {
        let (pid, tid) = self.arena.owner(slot);
        if tid != 0 {
            process::signal_thread(pid, tid, libc::SIGSTKFLT);
        }
    }
}

impl World {
    pub fn new(hosts: Vec<Host>, sockets: Sockets) -> World {
        World {
            starts: hosts.iter().map(|_| Vec::new()).collect(),
            ranks_per_node: None,
            hosts,
            programs: Vec::new(),
            sockets,
            datagrams: Datagrams::default(),
            connections: Connections::default(),
            xrc: XrcDomains::default(),
            management: None,
            gpus: None,
            wants_agents: false,
            groups: BTreeMap::new(),
            members: BTreeSet::new(),
            ports_down: BTreeSet::new(),
            begun: 0,
            tasks: BTreeMap::new(),
            threads: 0,
            waiting: BTreeMap::new(),
            per_message: Span::ZERO,
            progress: Time::ZERO,
            complaints: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// Whether all threads have ended.
    pub fn is_over(&self) -> bool {
        self.begun == self.hosts.len() && self.starts.iter().all(Vec::is_empty) && self.tasks.values().all(|task| task.ended)
    }

    /// A slot that no thread has.
    pub fn free_slot(&self) -> Option<usize> {
        (0..SLOTS).find(|slot| self.tasks.get(slot).is_none_or(|task| task.ended))
    }

    /// One more descriptor names it.
    pub fn share(&mut self, descriptor: Descriptor) {
        match descriptor {
            Descriptor::Stream(id) => self.sockets.share(id),
            Descriptor::Datagrams(id) => self.datagrams.share(id),
            Descriptor::Connections(channel) => self.connections.share(channel),
            Descriptor::Channel(_) | Descriptor::Device(_) | Descriptor::Management(_) => {}
        }
    }

    /// A descriptor less names it.
    pub fn close(&mut self, process: &Process, descriptor: Descriptor) {
        let id = match descriptor {
            Descriptor::Stream(id) => id,
            Descriptor::Connections(channel) => return self.connections.close(process.now(), channel),
            Descriptor::Datagrams(id) => return self.datagrams.close(id),
            Descriptor::Management(open) => return self.management.iter_mut().for_each(|of| of.close(open)),
            Descriptor::Channel(_) | Descriptor::Device(_) => return,
        };
        let peer = self.sockets.peer(id);
        if self.sockets.close(process.now(), id) {
            peer.into_iter().chain([id]).for_each(|end| self.tell_stream(process, end));
        }
    }

    /// Tells whoever waits at a socket what is there now, or when it will be.
    pub fn tell_stream(&mut self, process: &Process, id: sockets::Id) {
        let at = self.sockets.readable_at(id).unwrap_or(process.now());
        self.tell(process, Key::Stream(id), at);
    }
    /// The same at the other end.
    pub fn tell_peer(&mut self, process: &Process, id: sockets::Id) {
        if let Some(peer) = self.sockets.peer(id) {
            self.tell_stream(process, peer);
        }
    }
    /// Wakes the threads of a process that has ended, so that they end.
    pub fn wake_threads(&self, process: &Process, program: u32) {
        let threads = self.tasks.values().filter(|task| task.process == program && !task.ended);
        threads.for_each(|task| process.tell(task.rank, process.now()));
    }
    /// Tells who waits for `key` that something is there from `at` on.
    pub fn tell(&mut self, process: &Process, key: Key, at: Time) {
        self.tell_some(process, key, at, usize::MAX);
    }
    /// The same to at most so many of them, those with the lowest numbers.
    pub fn tell_some(&mut self, process: &Process, key: Key, at: Time, most: usize) {
        self.progress = self.progress.max(process.now());
        for rank in self.waiting.get(&key).into_iter().flatten().take(most) {
            process.tell(*rank, at.max(process.now()));
        }
    }
    /// Tells GPUs that have something to do.
    pub fn tell_gpus(&mut self, process: &Process) {
        let due = self.gpus.iter().flat_map(|gpus| (0..).zip(&gpus.due));
        let due: Vec<u32> = due.filter(|(_, due)| !due.is_empty()).map(|(gpu, _)| gpu).collect();
        due.into_iter().for_each(|gpu| self.tell(process, Key::Gpu(gpu), process.now()));
    }
    pub fn await_all(&mut self, rank: u32, keys: &[Key]) {
        for key in keys {
            self.waiting.entry(*key).or_default().insert(rank);
        }
    }
    pub fn await_none(&mut self, rank: u32, keys: &[Key]) {
        for key in keys {
            if let Some(ranks) = self.waiting.get_mut(key) {
                ranks.remove(&rank);
                if ranks.is_empty() {
                    self.waiting.remove(key);
                }
            }
        }
    }

    /// Who has not ended, and what each is doing; how the others ended, and what was wrong until then.
    pub fn describe(&self) -> String {
        let lines = self.tasks.values().filter(|task| !task.ended).map(|task| {
            let program = &self.programs[task.process as usize];
            let host = &self.hosts[program.node as usize].name;
            format!("  {host}: {} (process {}) {}, since {}", program.name, program.number, task.doing, task.since)
        });
        let ended = self.programs.iter().filter_map(|program| {
            let host = &self.hosts[program.node as usize].name;
            let how = match program.status? {
                status if libc::WIFSIGNALED(status) => format!("was ended by signal {}", libc::WTERMSIG(status)),
                status => format!("has ended with status {}", libc::WEXITSTATUS(status)),
            };
            Some(format!("  {host}: {} (process {}) {how}", program.name, program.number))
        });
        let wrong = self.complaints.iter().map(|complaint| format!("  {complaint}"));
        lines.chain(ended).chain(wrong).collect::<Vec<_>>().join("\n")
    }
}

/// Without anything that happens, a run of programs that only poll is said to hang after so much virtual time.
pub(crate) const PATIENCE: Span = Span::from_us(120_000_000);
