//! A thread of a program as a rank of the engine: it is told what to do by questions, and does it on its core.
//!
//! While the thread works the simulation stands still; a question that has to wait lets it go on. So one thread of a run works at a time, the
//! one whose clock is behind all others, and real time decides nothing.

use std::time::Duration;

use fabriscope_node::{Core, Process, ProgramError};
use fabriscope_units::{Span, Time};
use fabriscope_verbs::{CqId, WatchId};

use crate::arena::Came;
use crate::cm::agent::transmit;
use crate::memory::ProcessMemory;
use crate::process;
use crate::question::{Answer, Op, Outcome, Question};
use crate::world::{Arrival, Descriptor, Doing, Key, PATIENCE, Program, Shared, Task, World};

/// How long the fabric waits for a thread before it looks whether the thread spins on its memory.
const FIRST_LOOK: Duration = Duration::from_millis(1);
/// How long between two looks at the most.
const LAST_LOOK: Duration = Duration::from_millis(50);

/// One thread.
pub(crate) struct Thread {
    pub process: Process,
    pub shared: Shared,
    pub slot: usize,
    /// The program it belongs to.
    pub program: u32,
    /// Polls in a row that waited for nothing.
    pub idle: u32,
}

/// How long a thread that yields is left alone. Basis: assumed, a switch to another thread and back.
const YIELDS: Span = Span::from_ns(1_000);

/// A span that a program names, which may be longer than any run.
pub(crate) fn nanoseconds(of: i64) -> Span {
    Span::from_ps(u64::try_from(of).unwrap_or(0).saturating_mul(1000))
}

/// Whether a thread goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Goes,
    Ended,
}

/// Serves a thread from its first question to its end.
pub(crate) async fn serve(mut thread: Thread, first: Answer) -> Result<(), ProgramError> {
    thread.answer(&first);
    loop {
        let Some(question) = thread.next_question() else {
            // A thread that could not be started after all leaves its process as it is.
            if thread.shared.is_dead(thread.program) {
                thread.clear_up(None);
            }
            return Ok(());
        };
        let fate = thread.handle(question).await?;
        if fate == Fate::Ended {
            return Ok(());
        }
    }
}

/// What a thread came to while it waited.
pub(crate) enum Parked {
    /// Something happened, or the time is over.
    Awake,
    /// Its process is dead.
    Dead,
    /// Another thread ends its wait.
    Interrupted,
}

impl Thread {
    /// Waits for the thread to ask; nothing where its process has died.
    fn next_question(&self) -> Option<Question> {
        let mut patience = FIRST_LOOK;
        loop {
            if self.shared.arena.wait(self.slot, patience) == Came::Question {
                self.pass_on_deaths();
                return Some(self.shared.arena.question(self.slot));
            }
            if self.shared.is_dead(self.program) || self.shared.world().tasks.get(&self.slot).is_none_or(|task| task.ended) {
                return None;
            }
            let (pid, _) = self.shared.arena.owner(self.slot);
            if pid != 0 && patience >= LAST_LOOK && process::is_gone(pid) {
                self.shared.deaths.note(pid, libc::SIGKILL);
                return None;
            }
            // Its memory may be what it waits for, or a descriptor of the kernel, past the calls that are seen.
            if self.own_program(|program| !program.watched.is_empty()) || self.shared.sleeps(self.slot) {
                self.shared.look_at(self.slot);
            }
            patience = (patience * 2).min(LAST_LOOK);
        }
    }

    async fn handle(&mut self, question: Question) -> Result<Fate, ProgramError> {
        let posted = self.post_all(&question);
        self.process.compute(Span::from_ps(question.spent));
        let Some(op) = question.op else {
            self.answer(&Answer::error(libc::ENOSYS));
            return Ok(Fate::Goes);
        };
        if !matches!(op, Op::PollCq | Op::Look) || !question.posts.is_empty() {
            self.idle = 0;
        }
        let answer = match op {
            Op::Post => posted,
            Op::Hello => {
                let answer = self.hello();
                if self.moves(question.args[0], &answer) {
                    return Ok(Fate::Ended);
                }
                answer
            }
            Op::Yield => {
                // Whoever yields waits for another thread: long enough that a loop does not last.
                let until = self.process.now() + YIELDS;
                self.park(&[], &[], &[], until).await;
                Answer::number(0)
            }
            Op::Sleep => {
                let until = self.process.now().saturating_add(nanoseconds(question.args[0]));
                let interrupted = self.shared.arena.alarm(self.slot).map(Time::from_ps).filter(|alarm| *alarm < until);
                let until = interrupted.unwrap_or(until);
                self.doing(Doing::Sleeps(until));
                let mut interrupted = interrupted.is_some();
                while self.process.now() < until {
                    match self.wait_for(&[], &[], until).await {
                        Parked::Awake => {}
                        Parked::Dead => {
                            self.clear_up(None);
                            return Ok(Fate::Ended);
                        }
                        Parked::Interrupted => {
                            interrupted = true;
                            break;
                        }
                    }
                }
                if interrupted { Answer::error(libc::EINTR) } else { Answer::number(0) }
            }
            Op::ExitProcess => {
                self.process.catch_up().await;
                self.clear_up(i32::try_from(question.args[0]).ok().map(|status| (status & 0xff) << 8));
                self.answer(&Answer::number(0));
                self.await_end();
                return Ok(Fate::Ended);
            }
            Op::ExitThread => {
                self.process.catch_up().await;
                // Without an answer: the thread has left its slot, which is another's from here on.
                self.end_task();
                return Ok(Fate::Ended);
            }
            op if (op as u32) < Op::Look as u32 || matches!(op, Op::Interrupt | Op::Kill) => self.task(op, &question).await?,
            Op::Look => {
                self.process.catch_up().await;
                self.look(question.args[0] as u64, question.args[1] != 0).await?
            }
            op if (op as u32) < Op::Devices as u32 || matches!(op, Op::DatagramSocket | Op::PollSet) => self.stream(op, &question).await?,
            Op::CmOpen | Op::CmCall => self.connections(op, &question).await?,
            Op::Gpu => self.gpu(&question).await?,
            Op::MadOpen | Op::MadSend | Op::MadReceive | Op::MadRegister | Op::MadUnregister => self.management(op, &question).await,
            op => self.verbs(op, &question).await?,
        };
        if self.shared.is_dead(self.program) {
            self.clear_up(None);
            return Ok(Fate::Ended);
        }
        if answer.result == -i64::from(libc::EINTR) {
            self.own_task(|task| task.interrupted = false);
        }
        self.answer(&answer);
        Ok(Fate::Goes)
    }

    pub(crate) fn answer(&self, answer: &Answer) {
        let now = self.process.now();
        let ready = self.own_program(|program| program.owned.cqs.iter().any(|queue| self.is_ready(*queue)));
        self.shared.arena.answer(self.slot, (now.as_ps(), ready), answer.result, (&answer.args, &answer.data));
    }

    /// The first question of a process: it is there.
    fn hello(&self) -> Answer {
        let mut world = self.shared.world();
        let (pid, _) = self.shared.arena.owner(self.slot);
        let program = &mut world.programs[self.program as usize];
        program.pid = pid;
        program.memory = ProcessMemory::open(pid).ok().map(std::sync::Arc::new);
        let served: Vec<[i32; 2]> = program.descriptors.iter().map(|(fd, what)| [*fd, what.kind()]).collect();
        world.progress = self.process.now();
        let data = served.iter().flatten().flat_map(|number| number.to_ne_bytes()).collect();
        Answer { data, ..Answer::number(served.len() as i64) }
    }

    /// Whether the process is a rank that belongs on another host: then that goes on with it.
    fn moves(&self, rank: i64, answer: &Answer) -> bool {
        let mut world = self.shared.world();
        let hosts = world.hosts.len() as u32;
        let (Ok(rank), Some(per_node)) = (u32::try_from(rank), world.ranks_per_node) else { return false };
        let (from, to) = (world.programs[self.program as usize].node, rank / per_node % hosts);
        if from == to {
            return false;
        }
        world.programs[self.program as usize].node = to;
        world.starts[to as usize].push(Arrival { slot: self.slot, program: self.program, first: answer.clone() });
        world.tell(&self.process, Key::Host(to), self.process.now());
        true
    }

    /// Notes what the thread does, for whoever asks who waits for whom.
    pub(crate) fn doing(&self, what: Doing) {
        let now = self.process.now();
        self.own_task(|task| (task.doing, task.since) = (what, now));
    }
    fn own_task<R>(&self, look: impl FnOnce(&mut Task) -> R) -> Option<R> {
        self.shared.world().tasks.get_mut(&self.slot).map(look)
    }

    /// The program that the thread belongs to.
    pub(crate) fn own_program<R>(&self, look: impl FnOnce(&mut Program) -> R) -> R {
        look(&mut self.shared.world().programs[self.program as usize])
    }

    /// What a descriptor of the program is.
    pub(crate) fn descriptor(&self, fd: i32) -> Option<Descriptor> {
        self.own_program(|program| program.descriptors.get(&fd).copied())
    }
    /// Whether there is something to poll in a completion queue.
    pub(crate) fn is_ready(&self, queue: (usize, CqId)) -> bool {
        self.process.earliest(&[queue], &[]).is_some_and(|at| at <= self.process.now())
    }

    /// Asks the world until it has something to say other than to wait; who does not wait is told that it would have to.
    pub(crate) async fn until_done<T>(
        &self,
        (keys, doing, waits): (&[Key], Doing, bool),
        mut ask: impl FnMut(&mut World, Time) -> Outcome<T>,
    ) -> Result<T, i32> {
        loop {
            let outcome = ask(&mut self.shared.world(), self.process.now());
            match outcome {
                Outcome::Done(done) => return Ok(done),
                Outcome::Failed(errno) => return Err(errno),
                Outcome::Wait(_) if !waits => return Err(libc::EAGAIN),
                Outcome::Wait(until) => {
                    self.doing(doing);
                    let Parked::Awake = self.wait_for(keys, &[], until.unwrap_or(Time::MAX)).await else { return Err(libc::EINTR) };
                }
            }
        }
    }

    /// Waits for any of these in a call that others may end ([`Op::Interrupt`]).
    pub(crate) async fn wait_for(&self, keys: &[Key], cqs: &[(usize, CqId)], until: Time) -> Parked {
        let interrupted = || self.own_task(|task| task.interrupted).unwrap_or(false);
        if interrupted() {
            return Parked::Interrupted;
        }
        match self.park(keys, cqs, &[], until).await {
            Parked::Awake if interrupted() => Parked::Interrupted,
            parked => parked,
        }
    }

    /// Waits for any of these.
    pub(crate) async fn park(&self, keys: &[Key], cqs: &[(usize, CqId)], watches: &[(usize, WatchId, u64)], until: Time) -> Parked {
        let rank = self.process.rank();
        let until = self.shared.arena.alarm(self.slot).map_or(until, |alarm| until.min(Time::from_ps(alarm)));
        self.shared.world().await_all(rank, keys);
        self.process.wait_any_until(cqs, watches, until).await;
        let mut world = self.shared.world();
        world.await_none(rank, keys);
        drop(world);
        drop(self.process.take_notes());
        if self.shared.is_dead(self.program) { Parked::Dead } else { Parked::Awake }
    }

    /// Whether so much time has passed without anything that the run hangs.
    pub(crate) fn check_patience(&self) -> Result<(), ProgramError> {
        let world = self.shared.world();
        if self.process.now() > world.progress + PATIENCE {
            return Err(ProgramError(format!(
                "nothing has happened for {PATIENCE} of virtual time, and these wait:\n{}",
                world.describe()
            )));
        }
        Ok(())
    }

    /// Lets the process end before anybody else goes on: its parent gets the signal then, and not some time later.
    fn await_end(&self) {
        let (pid, _) = self.shared.arena.owner(self.slot);
        process::await_end(pid);
    }

    /// Wakes the threads of processes that were killed, so that they clear up.
    fn pass_on_deaths(&self) {
        for program in self.shared.new_deaths() {
            self.shared.world().wake_threads(&self.process, program);
        }
    }

    /// The thread is no more.
    fn end_task(&self) {
        let mut world = self.shared.world();
        if let Some(task) = world.tasks.get_mut(&self.slot) {
            task.ended = true;
        }
        world.tell(&self.process, Key::Task(self.slot), self.process.now());
        if world.is_over() {
            let hosts = world.hosts.len() as u32;
            let gpus = world.gpus.as_ref().map_or(0, |gpus| gpus.due.len() as u32);
            (0..gpus).for_each(|gpu| world.tell(&self.process, Key::Gpu(gpu), self.process.now()));
            for node in 0..hosts {
                world.tell(&self.process, Key::Host(node), self.process.now());
                world.tell(&self.process, Key::Agent(node), self.process.now());
            }
        }
    }

    /// The process is no more, and gives back all that it has. `status` is as `wait` says it.
    fn clear_up(&mut self, status: Option<i32>) {
        self.end_task();
        let status = status.or_else(|| self.shared.death_of(self.program)).unwrap_or(0);
        let mut world = self.shared.world();
        let now = self.process.now();
        let program = &mut world.programs[self.program as usize];
        program.memory = None;
        if program.status.is_none() {
            program.status = Some(status);
            let parent = program.parent;
            world.wake_threads(&self.process, self.program);
            if let Some(parent) = parent {
                world.tell(&self.process, Key::Children(parent), now);
            }
        }
        let own = self.program;
        world.gpus.iter_mut().for_each(|gpus| gpus.leave_all(own));
        let descriptors = std::mem::take(&mut world.programs[self.program as usize].descriptors);
        for descriptor in descriptors.into_values() {
            world.close(&self.process, descriptor);
        }
        let owned = std::mem::take(&mut world.programs[self.program as usize].owned);
        let node = world.programs[self.program as usize].node;
        let memories = world.hosts[node as usize].memories.clone();
        world.progress = world.progress.max(now);
        drop(world);
        transmit(&self.shared, &self.process, node);
        self.give_back(owned, &memories);
    }
}

/// Serves a thread on a core of the node of `process`.
pub(crate) fn spawn(shared: &Shared, process: &Process, Arrival { slot, program, first }: Arrival) {
    {
        let mut world = shared.world();
        world.threads += 1;
        let serial = world.threads;
        let task =
            Task { serial, process: program, rank: u32::MAX, doing: Doing::Works, since: process.now(), ended: false, interrupted: false };
        world.tasks.insert(slot, task);
    }
    let shared = shared.clone();
    let begin = move |process: Process| -> fabriscope_node::Program {
        if let Some(task) = shared.world().tasks.get_mut(&slot) {
            task.rank = process.rank();
        }
        if shared.world().gpus.is_some() {
            process.serve();
        }
        Box::pin(serve(Thread { process, shared, slot, program, idle: 0 }, first))
    };
    process.spawn(Core::Host, Box::new(begin));
}

impl Program {
    /// A program that has not begun.
    pub(crate) fn new(name: String, node: u32, number: u32, parent: Option<u32>) -> Program {
        Program {
            name,
            node,
            home: node,
            pid: 0,
            number,
            parent,
            memory: None,
            descriptors: std::collections::BTreeMap::new(),
            channels: std::collections::BTreeMap::new(),
            next_channel: 0,
            poll_sets: std::collections::BTreeMap::new(),
            watched: Vec::new(),
            owned: crate::world::Owned::default(),
            events: std::collections::VecDeque::new(),
            status: None,
            reaped: false,
        }
    }
}
