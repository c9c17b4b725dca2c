//! What the stand-ins for the CUDA runtime and NCCL ask: `shim/cuda.c` and `shim/nccl.c` have the same numbers.

use std::collections::{BTreeMap, BTreeSet};

use fabriscope_nccl::Operation;
use fabriscope_nccl_runtime::RankPlacement;
use fabriscope_node::ProgramError;

use super::{Call, Collective, Communicator, Element, Gpus, Reduction, Transfer, Work};
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
                gpus.communicators.push(Communicator {
                    ranks: 0,
                    members: BTreeMap::new(),
                    left: BTreeSet::new(),
                    formed: None,
                    joined: 0,
                    refused: None,
                });
                Answer::number(gpus.communicators.len() as i64 - 1)
            }),
            ask::JOIN => self.join_communicator(args[1] as usize, (args[2] as u32, args[3] as u32), args[4] as u32),
            ask::JOINED => self.until_joined(args[1] as usize).await,
            ask::COLLECTIVE => self.call_collective(&words(&question.data)),
            ask::GROUP => self.call_group(&words(&question.data)),
            ask::WAIT => self.until_ended(args[1] as usize).await,
            ask::DONE => self.ended(args[1] as usize),
            ask::LEAVE => {
                self.with_gpus(|gpus| {
                    if let Some(of) = gpus.communicators.get_mut(args[1] as usize) {
                        of.left.insert(args[2] as u32);
                    }
                });
                Answer::number(0)
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
        let joined = self.shared.world().gpus.as_mut().map(|gpus| gpus.join(id, (ranks, rank), at, self.program));
        match joined {
            Some(Ok(complete)) => {
                let mut world = self.shared.world();
                if complete {
                    let all = world.gpus.as_ref().map_or(0, |gpus| gpus.due.len() as u32);
                    (0..all).for_each(|gpu| world.tell(&self.process, Key::Gpu(gpu), self.process.now()));
                }
                Answer::number(0)
            }
            Some(Err(why)) => self.refuse(&why),
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
                Some(of) if of.formed.is_some() && of.joined as usize == gpus.due.len() => Outcome::Done(0),
                Some(_) => Outcome::Wait(None),
            }
        };
        self.until_done(wait, look).await.into()
    }

    /// Words: communicator, rank, operation, count, type, operator, root, both buffers.
    fn call_collective(&self, of: &[u64]) -> Answer {
        let [communicator, rank, .., from, to] = of[..] else { return Answer::error(libc::EINVAL) };
        let communicator = communicator as usize;
        let collective = match collective(of) {
            Ok(collective) => collective,
            Err(why) => return self.refuse(why),
        };
        match self.with_gpus(|gpus| Some(gpus.plan(communicator, &collective))) {
            Some(Ok(plan)) => self.call(communicator, rank as u32, Work::Collective { collective, from, to, plan }),
            Some(Err(why)) => self.refuse(&why),
            None => Answer::error(libc::ENODEV),
        }
    }

    /// Words: communicator, rank, then of each transfer: peer and whether it is sent, buffer, bytes.
    fn call_group(&self, of: &[u64]) -> Answer {
        let [communicator, rank, ref transfers @ ..] = of[..] else { return Answer::error(libc::EINVAL) };
        let transfer = |of: &[u64]| Transfer { peer: of[0] as u32, sends: of[0] >> 32 != 0, at: of[1], bytes: of[2], done: false };
        let transfers: Vec<Transfer> = transfers.chunks_exact(3).map(transfer).collect();
        let ranks = self.shared.world().gpus.as_ref().and_then(|gpus| Some(gpus.communicators.get(communicator as usize)?.ranks));
        if !fits(transfers.iter().try_fold(0_u64, |sum, transfer| sum.checked_add(transfer.bytes))) {
            return self.refuse("messages that are larger than the memory of a GPU");
        }
        if transfers.iter().any(|transfer| Some(transfer.peer) >= ranks) {
            return self.refuse("a peer that is no rank of the communicator");
        }
        self.call(communicator as usize, rank as u32, Work::Group(transfers))
    }

    fn call(&self, communicator: usize, rank: u32, work: Work) -> Answer {
        let (number, alike, library) = {
            let mut guard = self.shared.world();
            let world = &mut *guard;
            let Some(gpus) = &mut world.gpus else { return Answer::error(libc::ENODEV) };
            if gpus.communicators.get(communicator).is_none_or(|of| of.members.get(&rank) != Some(&self.program)) {
                return Answer::error(libc::EINVAL);
            }
            let number = gpus.call(Call { communicator, rank, program: self.program, work, ended: None });
            let programs = &world.programs;
            let alike = gpus.move_contents(|program| programs[program as usize].memory.clone());
            (number, alike, gpus.library.call)
        };
        self.shared.world().tell(&self.process, Key::Gpu(rank), self.process.now());
        self.process.compute(library);
        if alike { Answer::number(number as i64) } else { self.refuse("ranks called different things") }
    }

    fn ended(&self, call: usize) -> Answer {
        let world = self.shared.world();
        let ended = world.gpus.as_ref().and_then(|gpus| gpus.calls.get(call)?.ended);
        match ended.filter(|at| *at <= self.process.now()) {
            Some(at) => Answer { args: vec![at.as_ps() as i64], ..Answer::number(1) },
            None => Answer::number(0),
        }
    }

    async fn until_ended(&self, call: usize) -> Answer {
        let wait = (&[Key::Kernel(call)][..], Doing::WaitsFor("a kernel of NCCL"), true);
        let look = |world: &mut World, _| {
            let Some(gpus) = &world.gpus else { return Outcome::Failed(libc::ENODEV) };
            let Some(of) = gpus.calls.get(call) else { return Outcome::Failed(libc::EINVAL) };
            of.ended.map_or(Outcome::Wait(None), |at| Outcome::Done((at, gpus.library.synchronise)))
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
