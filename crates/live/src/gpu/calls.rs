//! What the stand-ins for the CUDA runtime and NCCL ask: `shim/cuda.c` and `shim/nccl.c` have the same numbers.

use fabriscope_nccl::Operation;
use fabriscope_nccl_runtime::RankPlacement;
use fabriscope_node::ProgramError;

use super::{Collective, Communicator, Element, Gpus, Member, Reduction, Transfer, Work};
use crate::arena::words;
use crate::question::{Answer, Outcome, Question};
use crate::thread::Thread;
use crate::world::{Doing, Key, World};

/// What is asked, in the first number of a question.
mod ask {
    pub const DEVICES: i64 = 0;
    pub const NEW: i64 = 1;
    pub const JOIN: i64 = 2;
    pub const JOINED: i64 = 3;
    pub const COLLECTIVE: i64 = 4;
    pub const GROUP: i64 = 5;
    pub const WAIT: i64 = 6;
    pub const DONE: i64 = 7;
    pub const LEAVE: i64 = 8;
    pub const ESTIMATE: i64 = 9;
    pub const SPLIT: i64 = 10;
    pub const PART: i64 = 11;
    pub const BOTH: i64 = 12;
    pub const IDLE: i64 = 13;
    pub const FLUSH: i64 = 14;
}

/// In the numbers of the stand-in.
const OPERATIONS: [Operation; 5] =
    [Operation::AllReduce, Operation::Broadcast, Operation::Reduce, Operation::AllGather, Operation::ReduceScatter];

/// Whether so many bytes are no more than the stand-in says that a GPU has (`shim/cuda.c`).
fn fits(bytes: Option<u64>) -> bool {
    bytes.is_some_and(|bytes| bytes <= 80 << 30)
}

impl Thread {
    pub(crate) async fn gpu(&mut self, question: &Question) -> Result<Answer, ProgramError> {
        self.process.catch_up().await;
        let args = question.args;
        if self.shared.world().gpus.is_none() {
            return Ok(if args[0] == ask::DEVICES { Answer::number(0) } else { Answer::error(libc::ENODEV) });
        }
        Ok(match args[0] {
            ask::DEVICES => self.gpu_devices(),
            ask::NEW => self.with_gpus(|gpus| {
                gpus.communicators.push(Communicator::default());
                Answer::number(gpus.communicators.len() as i64 - 1)
            }),
            ask::JOIN => self.join_communicator(args[1] as usize, (args[2] as u32, args[3] as u32), args[4] as u32),
            ask::JOINED => self.until_joined(args[1] as usize).await,
            ask::COLLECTIVE => self.call_collective(&words(&question.data)),
            ask::GROUP => self.call_group(&words(&question.data)),
            ask::WAIT => self.until_ended(args[1] as usize).await,
            ask::DONE => self.ended(args[1] as usize),
            ask::LEAVE => {
                self.with_gpus(|gpus| gpus.leave(args[1] as usize, args[2] as u32, args[3] != 0));
                self.shared.world().tell_gpus(&self.process);
                Answer::number(0)
            }
            ask::SPLIT => self.split(args[1] as usize, args[2] as u32, (args[3] as i32, args[4] as i32)),
            ask::PART => self.until_split(args[1] as usize, args[2] as u32, args[3] as usize).await,
            ask::BOTH => self.with_gpus(|gpus| Answer::number(gpus.all_of([args[1] as usize, args[2] as usize]) as i64)),
            ask::IDLE => {
                let node = self.own_program(|program| program.node);
                let program = self.program;
                let all = self.with_gpus(|gpus| gpus.running(gpus.number(RankPlacement { node, gpu: args[1] as u32 }), program));
                self.until_all_ended(&all).await
            }
            ask::FLUSH => {
                let last = self.with_gpus(|gpus| gpus.communicators.get(args[1] as usize)?.last.get(&(args[2] as u32)).copied());
                self.until_all_ended(last.as_slice()).await
            }
            ask::ESTIMATE => self.estimate(&words(&question.data)),
            _ => Answer::error(libc::ENOSYS),
        })
    }

    fn with_gpus<R: Default>(&self, use_them: impl FnOnce(&mut Gpus) -> R) -> R {
        self.shared.world().gpus.as_mut().map(use_them).unwrap_or_default()
    }
    /// A refusal that the program is told as invalid usage, and a person why.
    fn refuse(&self, why: &str) -> Answer {
        let mut world = self.shared.world();
        let number = world.programs[self.program as usize].number;
        world.complaints.push(format!("NCCL of process {number}: {why}"));
        Answer::error(libc::EINVAL)
    }

    /// GPUs of the host, and what they are called: a name of 64 bytes, compute capability in tenths, PCI addresses of 16 bytes.
    fn gpu_devices(&self) -> Answer {
        let world = self.shared.world();
        let Some(gpus) = &world.gpus else { return Answer::number(0) };
        let field = |text: &str, size: usize| text.bytes().chain(std::iter::repeat(0)).take(size).collect::<Vec<u8>>();
        let title = gpus.target.gpu.as_ref().map_or("", |gpu| gpu.title.as_str());
        let mut data = field(title, 63);
        data.push(0);
        data.extend(u64::from(gpus.library.capability().unwrap_or(0)).to_ne_bytes());
        for bus in gpus.target.gpu.iter().flat_map(|gpu| &gpu.buses) {
            data.extend(field(bus, 15));
            data.push(0);
        }
        Answer { data, ..Answer::number(gpus.per_node.into()) }
    }

    fn join_communicator(&self, id: usize, (ranks, rank): (u32, u32), gpu: u32) -> Answer {
        let at = RankPlacement { node: self.own_program(|program| program.node), gpu };
        let joined = self.shared.world().gpus.as_mut().map(|gpus| gpus.join(id, (ranks, rank), Member { program: self.program, at }));
        match joined {
            Some(Ok(complete)) => {
                if complete {
                    self.shared.world().tell_gpus(&self.process);
                }
                Answer::number(0)
            }
            Some(Err(why)) => {
                self.shared.world().tell(&self.process, Key::Communicator(id), self.process.now());
                self.refuse(&why)
            }
            None => Answer::error(libc::ENODEV),
        }
    }

    async fn until_joined(&self, id: usize) -> Answer {
        let wait = (&[Key::Communicator(id)][..], Doing::WaitsFor("the other ranks of a communicator"), true);
        let look = |world: &mut World, _| {
            let Some(gpus) = &world.gpus else { return Outcome::Failed(libc::ENODEV) };
            match gpus.communicators.get(id) {
                None => Outcome::Failed(libc::EINVAL),
                Some(of) if of.refused.is_some() => Outcome::Failed(libc::EINVAL),
                Some(of) if of.ranks > 0 && of.joined == of.ranks => Outcome::Done(0),
                Some(_) => Outcome::Wait(None),
            }
        };
        self.until_done(wait, look).await.into()
    }

    /// A rank asks for its part of a communicator that is split: the number of the split.
    fn split(&self, id: usize, rank: u32, wish: (i32, i32)) -> Answer {
        // The world is free again when the others are told.
        let asked = self.shared.world().gpus.as_mut().map(|gpus| gpus.split(id, rank, wish));
        let Some(asked) = asked else { return Answer::error(libc::ENODEV) };
        if !matches!(asked, Ok((_, false))) {
            let mut world = self.shared.world();
            world.tell_gpus(&self.process);
            world.tell(&self.process, Key::Communicator(id), self.process.now());
        }
        asked.map_or_else(|why| self.refuse(&why), |(turn, _)| Answer::number(turn as i64))
    }
    /// 1 with the communicator, rank and number of ranks that a rank got; 0 where it is of none.
    async fn until_split(&self, id: usize, rank: u32, turn: usize) -> Answer {
        let wait = (&[Key::Communicator(id)][..], Doing::WaitsFor("the other ranks to split a communicator"), true);
        let look = |world: &mut World, _| {
            let part = world.gpus.as_ref().and_then(|gpus| gpus.part(id, rank, turn));
            part.map_or(Outcome::Wait(None), Outcome::Done)
        };
        match self.until_done(wait, look).await {
            Ok(Some(part)) => Answer { args: vec![part.communicator as i64, part.rank.into(), part.ranks.into()], ..Answer::number(1) },
            Ok(None) => Answer::number(0),
            Err(errno) => Answer::error(errno),
        }
    }

    /// Words: communicator, rank, operation, count, type, operator, root, both buffers, a scalar, the last call of the stream.
    fn call_collective(&self, of: &[u64]) -> Answer {
        let [communicator, rank, .., from, to, scalar, after] = of[..] else { return Answer::error(libc::EINVAL) };
        let communicator = communicator as usize;
        let collective = match collective(of) {
            Ok(collective) => collective,
            Err(why) => return self.refuse(why),
        };
        match self.with_gpus(|gpus| Some(gpus.plan(communicator, &collective))) {
            Some(Ok(plan)) => self.call((communicator, rank as u32), Work::Collective { collective, scalar, from, to, plan }, after),
            Some(Err(why)) => self.refuse(&why),
            None => Answer::error(libc::ENODEV),
        }
    }

    /// Words: communicator, rank, the last call of the stream, then of each transfer: peer and whether it is sent, buffer, bytes.
    fn call_group(&self, of: &[u64]) -> Answer {
        let [communicator, rank, after, ref transfers @ ..] = of[..] else { return Answer::error(libc::EINVAL) };
        let transfer = |of: &[u64]| Transfer { peer: of[0] as u32, sends: of[0] >> 32 != 0, at: of[1], bytes: of[2], done: false };
        let transfers: Vec<Transfer> = transfers.chunks_exact(3).map(transfer).collect();
        let ranks = self.shared.world().gpus.as_ref().and_then(|gpus| Some(gpus.communicators.get(communicator as usize)?.ranks));
        if !fits(transfers.iter().try_fold(0_u64, |sum, transfer| sum.checked_add(transfer.bytes))) {
            return self.refuse("messages that are larger than the memory of a GPU");
        }
        if transfers.iter().any(|transfer| Some(transfer.peer) >= ranks) {
            return self.refuse("a peer that is no rank of the communicator");
        }
        self.call((communicator as usize, rank as u32), Work::Group(transfers), after)
    }

    fn call(&self, (communicator, rank): (usize, u32), work: Work, after: u64) -> Answer {
        let (number, gpu, alike, library) = {
            let mut guard = self.shared.world();
            let world = &mut *guard;
            let Some(gpus) = &mut world.gpus else { return Answer::error(libc::ENODEV) };
            let member = gpus.communicators.get(communicator).filter(|of| of.formed.is_some()).and_then(|of| of.members.get(&rank));
            let Some(member) = member.copied().filter(|member| member.program == self.program) else {
                return Answer::error(libc::EINVAL);
            };
            // The stand-in has a negative number where the stream holds nothing.
            let after = usize::try_from(after).ok().filter(|after| *after < gpus.calls.len());
            let number = gpus.call((communicator, rank), member, work, after);
            let programs = &world.programs;
            let alike = gpus.move_contents(|program| programs[program as usize].memory.clone());
            (number, gpus.number(member.at), alike, gpus.library.call)
        };
        self.shared.world().tell(&self.process, Key::Gpu(gpu), self.process.now());
        self.process.compute(library);
        if alike { Answer::number(number as i64) } else { self.refuse("ranks called different things") }
    }

    fn ended(&self, call: usize) -> Answer {
        let world = self.shared.world();
        let ended = world.gpus.as_ref().and_then(|gpus| gpus.ended(call));
        match ended.filter(|at| *at <= self.process.now()) {
            Some(at) => Answer { args: vec![at.as_ps() as i64], ..Answer::number(1) },
            None => Answer::number(0),
        }
    }

    async fn until_all_ended(&self, calls: &[usize]) -> Answer {
        for call in calls {
            let answer = self.until_ended(*call).await;
            if answer.result < 0 {
                return answer;
            }
        }
        Answer::number(0)
    }

    async fn until_ended(&self, call: usize) -> Answer {
        let keys: Vec<Key> = self.with_gpus(|gpus| gpus.kernels_of(call).into_iter().map(Key::Kernel).collect());
        let wait = (&keys[..], Doing::WaitsFor("a kernel of NCCL"), true);
        let look = |world: &mut World, _| {
            let Some(gpus) = &world.gpus else { return Outcome::Failed(libc::ENODEV) };
            if call >= gpus.calls.len() {
                return Outcome::Failed(libc::EINVAL);
            }
            gpus.ended(call).map_or(Outcome::Wait(None), |at| Outcome::Done((at, gpus.library.synchronise)))
        };
        match self.until_done(wait, look).await {
            Ok((at, back)) => {
                // Whoever waits is told some time after the end.
                let now = self.process.now();
                self.process.compute(back.saturating_sub(now.since(at.min(now))));
                Answer { args: vec![at.as_ps() as i64], ..Answer::number(0) }
            }
            Err(errno) => Answer::error(errno),
        }
    }

    /// What the library itself thinks that a collective takes, in ns: words as of a collective.
    fn estimate(&self, of: &[u64]) -> Answer {
        let (Some(communicator), Ok(collective)) = (of.first(), collective(of)) else { return Answer::error(libc::EINVAL) };
        let span = self.with_gpus(|gpus| {
            let formed = gpus.communicators.get(*communicator as usize)?.formed.as_ref()?;
            let (operation, bytes) = (collective.operation, collective.bytes(formed.ranks.plan().ranks()));
            let choice = formed.tuner.choose(operation, bytes).ok()?;
            formed.tuner.estimate(operation, choice.algorithm, choice.protocol, bytes)
        });
        span.map_or(Answer::error(libc::EINVAL), |span| Answer::number((span.as_ps() / 1000) as i64))
    }
}

/// What words say of a collective, from the third on; or why there is none.
fn collective(words: &[u64]) -> Result<Collective, &'static str> {
    let missing = "a type or an operator that is not there";
    let [_, _, operation, count, element, reduction, root, ..] = words[..] else { return Err(missing) };
    let operation = OPERATIONS.get(operation as usize).copied();
    let (Some(operation), Some(element), Some(reduction)) = (operation, Element::of(element), Reduction::of(reduction)) else {
        return Err(missing);
    };
    if !fits(count.checked_mul(element.bytes())) {
        return Err("a buffer that is larger than the memory of a GPU");
    }
    Ok(Collective { operation, count, element, reduction, root: root as u32 })
}
