//! NCCL programs without GPUs: communicators, what their ranks called, and what is due on each GPU.
//!
//! Source: NCCL's user guide (communicators, groups, streams). Modelled: the kernels and proxies of `fabriscope_nccl_runtime`, one engine rank for
//! each GPU (`rank`), which serves all communicators on it: kernels follow those of their communicator and of their stream, others run beside
//! them; contents are moved and reduced in the memory of the programs (`contents`), in the same order.
//! Not modelled: kernels of programs, configurations of communicators, proxy threads of their own for each communicator.

pub(crate) mod calls;
mod contents;
mod groups;
pub(crate) mod rank;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use fabriscope_nccl::{NetWay, Operation, Plan, Tuner};
use fabriscope_nccl_runtime::{Gpus as Shares, RankPlacement, Turn, Wire, World as Ranks};
use fabriscope_platform::Target;
use fabriscope_platform::nccl::Library;
use fabriscope_units::{Bytes, Time};

pub(crate) use contents::{Element, Reduction};

type Wires = Vec<(Wire, Option<NetWay>)>;

/// The GPUs of a run.
pub(crate) struct Gpus {
    pub target: Target,
    pub library: Library,
    /// Of each host.
    pub per_node: u32,
    pub communicators: Vec<Communicator>,
    pub calls: Vec<Call>,
    /// What each GPU has to do, by its number in the run.
    pub due: Vec<VecDeque<Due>>,
    /// GPUs with calls that wait until others are launched.
    pub held: BTreeSet<u32>,
    shares: Shares,
    /// Communicators with calls whose contents were not moved yet.
    open: BTreeSet<usize>,
    /// Calls of each GPU that have not ended.
    running: Vec<BTreeSet<usize>>,
}

/// Something for a GPU to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// To make its ends of the connections of a communicator.
    Open(usize),
    /// To connect them.
    Connect(usize),
    /// To run the kernel of a call.
    Run(usize),
    /// To end all kernels of a communicator.
    Abort(usize),
    /// To forget it.
    Close(usize),
}

/// `ncclComm_t`, of all its ranks.
#[derive(Default)]
pub(crate) struct Communicator {
    pub ranks: u32,
    /// Each rank that has called.
    pub members: BTreeMap<u32, Member>,
    /// Of those, which have left again.
    pub left: BTreeSet<u32>,
    /// The plan of channels, once all are there.
    pub formed: Option<Formed>,
    /// GPUs that have made their ends of connections, and those that have connected them.
    pub opened: u32,
    pub joined: u32,
    /// Why there is none.
    pub refused: Option<String>,
    /// `ncclCommSplit`, in the order of calls.
    splits: Vec<groups::Split>,
    /// Calls of each rank whose contents were not moved yet.
    open: Vec<VecDeque<usize>>,
    /// The last call of each rank.
    last: BTreeMap<u32, usize>,
    /// What was sent and not received, by sender and receiver.
    mail: BTreeMap<(u32, u32), VecDeque<Vec<u8>>>,
    /// Calls that have not ended.
    running: u32,
}

/// A rank of a communicator: its process, and its GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub program: u32,
    pub at: RankPlacement,
}

#[derive(Clone)]
pub(crate) struct Formed {
    pub ranks: Ranks,
    pub tuner: Arc<Tuner>,
    pub wires: Arc<Wires>,
}

/// What a rank called.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub communicator: usize,
    pub member: Member,
    pub work: Work,
    /// Calls that it comes behind: of its communicator, and of its stream.
    pub before: Vec<usize>,
    /// Its number in the stream of its communicator, once it is there.
    pub launched: Option<Turn>,
    /// Its contents are where they should be.
    pub moved: bool,
    /// When its kernel ended.
    pub ended: Option<Time>,
}

#[derive(Debug, Clone)]
pub(crate) enum Work {
    Collective {
        collective: Collective,
        /// What this rank's elements are multiplied by first, as bits of the type.
        scalar: u64,
        from: u64,
        to: u64,
        plan: Arc<Plan>,
    },
    /// Sends and receives of one group.
    Group(Vec<Transfer>),
    /// No kernel, but all of these: where a stream waits for another.
    All(Vec<usize>),
}

/// What all ranks of a communicator must call alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Collective {
    pub operation: Operation,
    pub count: u64,
    pub element: Element,
    pub reduction: Reduction,
    pub root: u32,
}

impl Collective {
    /// What the library's choice goes by: of each rank, or of all together where each has its own part.
    pub fn bytes(&self, ranks: u32) -> Bytes {
        let parts = if matches!(self.operation, Operation::AllGather | Operation::ReduceScatter) { u64::from(ranks) } else { 1 };
        Bytes((self.count * self.element.bytes() * parts).max(1))
    }
}

/// `ncclSend` or `ncclRecv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub peer: u32,
    pub sends: bool,
    pub at: u64,
    pub bytes: u64,
    /// What is sent was taken, or what is received has come.
    pub done: bool,
}

impl Gpus {
    pub fn new(target: Target, library: Library, (hosts, per_node): (u32, u32)) -> Gpus {
        let all = (hosts * per_node) as usize;
        Gpus {
            target,
            library,
            per_node,
            communicators: Vec::new(),
            calls: Vec::new(),
            due: vec![VecDeque::new(); all],
            held: BTreeSet::new(),
            shares: Shares::default(),
            open: BTreeSet::new(),
            running: vec![BTreeSet::new(); all],
        }
    }

    /// The number of a GPU in the run, which is that of the engine's rank as well.
    pub fn number(&self, at: RankPlacement) -> u32 {
        at.node * self.per_node + at.gpu
    }

    /// A rank calls something in a stream whose last call is `after`: the number of the call.
    pub fn call(&mut self, (communicator, rank): (usize, u32), member: Member, work: Work, after: Option<usize>) -> usize {
        let (number, gpu) = (self.calls.len(), self.number(member.at) as usize);
        let of = &mut self.communicators[communicator];
        let own = of.last.insert(rank, number);
        of.open[rank as usize].push_back(number);
        of.running += 1;
        let mut before = after.map_or_else(Vec::new, |after| self.kernels_of(after));
        before.extend(own);
        before.sort_unstable();
        before.dedup();
        before.retain(|call| self.calls[*call].ended.is_none() || !self.calls[*call].moved);
        self.calls.push(Call { communicator, member, work, before, launched: None, moved: false, ended: None });
        self.due[gpu].push_back(Due::Run(number));
        self.open.insert(communicator);
        self.running[gpu].insert(number);
        number
    }

    /// A call that has ended when these have.
    pub fn all_of(&mut self, calls: [usize; 2]) -> usize {
        let mut all: Vec<usize> = calls.into_iter().flat_map(|call| self.kernels_of(call)).collect();
        all.sort_unstable();
        all.dedup();
        let Some(first) = all.first().and_then(|call| self.calls.get(*call)) else { return calls[0] };
        let call = Call { work: Work::All(all), before: Vec::new(), launched: None, moved: true, ended: None, ..first.clone() };
        self.calls.push(call);
        self.calls.len() - 1
    }
    /// The kernels that a call stands for.
    pub fn kernels_of(&self, call: usize) -> Vec<usize> {
        match self.calls.get(call).map(|call| &call.work) {
            Some(Work::All(calls)) => calls.clone(),
            Some(_) => vec![call],
            None => Vec::new(),
        }
    }
    /// When all kernels of a call had ended, if they have.
    pub fn ended(&self, call: usize) -> Option<Time> {
        self.kernels_of(call).into_iter().map(|kernel| self.calls[kernel].ended).try_fold(Time::ZERO, |last, end| Some(last.max(end?)))
    }
    /// Whether all that a call comes behind is in its streams.
    pub fn can_launch(&self, call: usize) -> bool {
        self.calls[call].before.iter().all(|before| self.calls[*before].ended.is_some() || self.calls[*before].launched.is_some())
    }
    /// The kernel of a call has ended.
    pub fn end(&mut self, call: usize, at: Time) {
        let gpu = self.number(self.calls[call].member.at) as usize;
        let of = &mut self.calls[call];
        if of.ended.replace(at).is_none() {
            let id = of.communicator;
            self.running[gpu].remove(&call);
            self.communicators[id].running -= 1;
            self.close_if_over(id);
        }
    }
    /// Kernels of a process on a GPU that have not ended.
    pub fn running(&self, gpu: u32, program: u32) -> Vec<usize> {
        let all = self.running.get(gpu as usize).into_iter().flatten().copied();
        all.filter(|call| self.calls[*call].member.program == program).collect()
    }

    /// The plan of a collective, as all ranks make it.
    pub fn plan(&self, communicator: usize, of: &Collective) -> Result<Arc<Plan>, String> {
        let formed = self.communicators.get(communicator).and_then(|of| of.formed.as_ref()).ok_or("the communicator is not complete")?;
        let size = of.element.bytes();
        let channels = formed.ranks.plan();
        let refused = |error: fabriscope_nccl::NcclError| error.to_string();
        let choice = formed.tuner.choose(of.operation, of.bytes(channels.ranks())).map_err(refused)?;
        // What only moves is counted in bytes.
        let moves = matches!(of.operation, Operation::AllGather | Operation::Broadcast);
        let count = if moves { of.count * size } else { of.count };
        Plan::new(channels, choice, count, Bytes(size), of.root, false).map(Arc::new).map_err(refused)
    }
}
