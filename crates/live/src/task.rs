//! Answers about threads and processes: starting them, waiting for them, waiting for words of memory.

use fabriscope_node::ProgramError;
use fabriscope_units::{Span, Time};

use crate::question::{Answer, Op, Question};
use crate::thread::{Parked, Thread, nanoseconds, spawn};
use crate::world::{Arrival, Descriptor, Doing, Key, Program};

/// Starting a thread, or a process. Basis: assumed, the kernel's clone and what the C library does for it.
const START: Span = Span::from_us(15);
/// Waking a thread that waits for a word. Basis: assumed, as for sockets of the kernel.
const WAKE_UP: Span = Span::from_us(2);
/// What `getpid` says in the first process.
pub(crate) const FIRST_NUMBER: u32 = 1000;

impl Thread {
    pub(crate) async fn task(&mut self, op: Op, question: &Question) -> Result<Answer, ProgramError> {
        let args = question.args;
        // What did not begin must be known before others go on, and so must who waits for a word.
        if !matches!(op, Op::WaitWord | Op::NotBegun) {
            self.process.catch_up().await;
        }
        Ok(match op {
            Op::NewThread => {
                self.process.compute(START);
                self.start(self.program)
            }
            Op::NewProcess => {
                self.process.compute(START);
                self.new_process()
            }
            Op::WaitTask => {
                let slot = usize::try_from(args[0]).unwrap_or(usize::MAX);
                while self.shared.world().tasks.get(&slot).is_some_and(|task| task.serial == args[1] && !task.ended) {
                    self.doing(Doing::WaitsFor("another thread"));
                    match self.wait_for(&[Key::Task(slot)], &[], Time::MAX).await {
                        Parked::Awake => {}
                        Parked::Dead => break,
                        Parked::Interrupted => return Ok(Answer::error(libc::EINTR)),
                    }
                }
                Answer::number(0)
            }
            Op::WaitWord => {
                let key = Key::Word { process: self.program, address: args[0] as u64 };
                let until = if args[1] < 0 { Time::MAX } else { self.process.now().saturating_add(nanoseconds(args[1])) };
                // From its question on, whoever wakes it wakes it: also while its core catches up.
                self.doing(Doing::WaitsFor("a lock, a condition or a semaphore"));
                if args[2] == 0 {
                    self.park(&[key], &[], &[], until).await;
                } else if let Parked::Interrupted = self.wait_for(&[key], &[], until).await {
                    return Ok(Answer::error(libc::EINTR));
                }
                self.process.compute(WAKE_UP);
                if self.process.now() >= until { Answer::error(libc::ETIMEDOUT) } else { Answer::number(0) }
            }
            Op::WakeWord => {
                let key = Key::Word { process: self.program, address: args[0] as u64 };
                let most = usize::try_from(args[1]).unwrap_or(0);
                self.shared.world().tell_some(&self.process, key, self.process.now(), most);
                Answer::number(0)
            }
            Op::NotBegun => {
                let slot = usize::try_from(args[0]).unwrap_or(usize::MAX);
                let mut world = self.shared.world();
                match world.tasks.get(&slot).map(|task| task.process) {
                    Some(program) if program != self.program => {
                        let program = &mut world.programs[program as usize];
                        (program.status, program.reaped) = (Some(0), true);
                    }
                    _ => world.tasks.get_mut(&slot).into_iter().for_each(|task| task.ended = true),
                }
                Answer::number(0)
            }
            Op::Interrupt => {
                let slot = usize::try_from(args[0]).unwrap_or(usize::MAX);
                let mut world = self.shared.world();
                if let Some(task) = world.tasks.get_mut(&slot).filter(|task| task.serial == args[1] && !task.ended) {
                    task.interrupted = true;
                    self.process.tell(task.rank, self.process.now());
                }
                Answer::number(0)
            }
            Op::Kill => self.kill(args[0], args[1] as i32).map(|()| 0).into(),
            Op::WaitChild => return self.wait_child(args[0], args[1]).await,
            Op::RealPid => {
                let world = self.shared.world();
                let found = world.programs.iter().find(|program| i64::from(program.number) == args[0]);
                Answer::number(found.map_or(0, |program| program.pid.into()))
            }
            _ => Answer::error(libc::ENOSYS),
        })
    }

    /// Another thread of a process.
    fn start(&self, program: u32) -> Answer {
        let world = self.shared.world();
        let Some(slot) = world.free_slot() else { return Answer::error(libc::EAGAIN) };
        let (number, parent) = {
            let program = &world.programs[program as usize];
            (program.number, program.parent.map_or(0, |parent| world.programs[parent as usize].number))
        };
        drop(world);
        self.shared.arena.open(slot, number, parent);
        spawn(&self.shared, &self.process, Arrival { slot, program, first: Answer::number(0) });
        let serial = self.shared.world().threads;
        Answer { args: vec![number.into(), serial], ..Answer::number(slot as i64) }
    }

    fn new_process(&self) -> Answer {
        let mut world = self.shared.world();
        let index = world.programs.len() as u32;
        let own = &world.programs[self.program as usize];
        let mut program = Program::new(own.name.clone(), own.node, FIRST_NUMBER + index, Some(self.program));
        program.home = own.home;
        let inherits = |what: &Descriptor| matches!(what, Descriptor::Stream(_) | Descriptor::Datagrams(_) | Descriptor::Connections(_));
        program.descriptors = own.descriptors.iter().filter(|(_, what)| inherits(what)).map(|(fd, what)| (*fd, *what)).collect();
        for what in program.descriptors.values() {
            world.share(*what);
        }
        world.programs.push(program);
        drop(world);
        self.start(index)
    }

    /// Sends a signal to another process of the run. One that dies of it is seen to be dead from this moment on, wherever its threads wait.
    fn kill(&self, number: i64, signal: i32) -> Result<(), i32> {
        let found = {
            let world = self.shared.world();
            let is_meant = |program: &Program| i64::from(program.number) == number && program.pid != 0 && program.status.is_none();
            (0..).zip(&world.programs).find(|(_, program)| is_meant(program)).map(|(index, program)| (index, program.pid))
        };
        let (index, pid) = found.ok_or(libc::ESRCH)?;
        let dies = crate::process::dies_of(pid, signal);
        crate::process::send_signal(pid, signal)?;
        if dies {
            crate::process::await_end(pid);
            self.shared.deaths.note(pid, signal);
            self.shared.world().wake_threads(&self.process, index);
        }
        Ok(())
    }

    /// Children that were killed said nothing: the operating system does.
    fn note_deaths(&self) {
        let children: Vec<(u32, u32)> = {
            let world = self.shared.world();
            let is_child = |program: &Program| program.parent == Some(self.program) && program.status.is_none() && program.pid != 0;
            (0..).zip(&world.programs).filter(|(_, program)| is_child(program)).map(|(index, program)| (index, program.pid)).collect()
        };
        for (child, pid) in children {
            if crate::process::is_gone(pid) {
                self.shared.deaths.note(pid, libc::SIGKILL);
                let mut world = self.shared.world();
                world.programs[child as usize].status = Some(libc::SIGKILL);
                world.wake_threads(&self.process, child);
            }
        }
    }

    /// `waitpid`: the number of a child that has ended, and what the operating system calls it.
    async fn wait_child(&mut self, which: i64, options: i64) -> Result<Answer, ProgramError> {
        loop {
            self.note_deaths();
            let found = {
                let mut world = self.shared.world();
                let own = self.program;
                let is_meant = |program: &Program| {
                    program.parent == Some(own) && !program.reaped && (which <= 0 || i64::from(program.number) == which)
                };
                if !world.programs.iter().any(is_meant) {
                    return Ok(Answer::error(libc::ECHILD));
                }
                world.programs.iter_mut().find(|program| is_meant(program) && program.status.is_some()).map(|program| {
                    program.reaped = true;
                    (program.number, program.pid)
                })
            };
            if let Some((number, pid)) = found {
                return Ok(Answer { args: vec![pid.into()], ..Answer::number(number.into()) });
            }
            if options & i64::from(libc::WNOHANG) != 0 {
                return Ok(Answer::number(0));
            }
            self.doing(Doing::WaitsFor("a child to end"));
            let Parked::Awake = self.wait_for(&[Key::Children(self.program)], &[], Time::MAX).await else {
                return Ok(Answer::error(libc::EINTR));
            };
        }
    }
}
