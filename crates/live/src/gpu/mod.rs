//! NCCL programs without GPUs: communicators, what their ranks called, and what is due on each GPU.
//!
//! Source: NCCL's user guide (communicators, groups, streams). Modelled: the kernels and proxies of `fabriscope_nccl_runtime`, one engine rank for
//! each GPU (`rank`); contents are moved and reduced in the memory of the programs (`contents`), in the order of their calls.
//! Not modelled: kernels of programs, several communicators at a time, GPUs of a node in another order than theirs.

pub(crate) mod calls;
mod contents;
pub(crate) mod rank;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use fabriscope_nccl::{NetWay, Operation, Plan, Tuner};
use fabriscope_nccl_runtime::{RankPlacement, Wire, World as Ranks, connections, pairs};
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
    /// Calls of each GPU whose contents were not moved yet.
    open: Vec<VecDeque<usize>>,
}

/// Something for a GPU to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// To join a communicator, also one that it is no member of.
    Join(usize),
    /// To run the kernel of a call.
    Run(usize),
}

/// `ncclComm_t`, of all its ranks.
pub(crate) struct Communicator {
    pub ranks: u32,
    /// The process of each rank that has called.
    pub members: BTreeMap<u32, u32>,
    /// Of those, which have left again.
    pub left: BTreeSet<u32>,
    /// The plan of channels, once all are there.
    pub formed: Option<Formed>,
    /// GPUs of the run that have joined.
    pub joined: u32,
    /// Why there is none.
    pub refused: Option<String>,
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
    pub rank: u32,
    /// The process, in whose memory the buffers are.
    pub program: u32,
    pub work: Work,
    /// When its kernel ended.
    pub ended: Option<Time>,
}

#[derive(Debug, Clone)]
pub(crate) enum Work {
    Collective {
        collective: Collective,
        from: u64,
        to: u64,
        plan: Arc<Plan>,
    },
    /// Sends and receives of one group.
    Group(Vec<Transfer>),
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
            open: vec![VecDeque::new(); all],
        }
    }

    /// A rank of `ranks` joins; true when it was the last one, so that all GPUs have something to do.
    pub fn join(&mut self, id: usize, (ranks, rank): (u32, u32), at: RankPlacement, program: u32) -> Result<bool, String> {
        let (per_node, RankPlacement { node: host, gpu }) = (self.per_node, at);
        let busy =
            self.communicators.iter().enumerate().any(|(other, of)| other != id && of.formed.is_some() && of.left.len() < of.members.len());
        let of = self.communicators.get_mut(id).ok_or_else(|| "no such communicator".to_owned())?;
        if busy {
            return Err("another communicator is in use, which has to be destroyed first".to_owned());
        }
        if of.members.is_empty() {
            of.ranks = ranks;
        }
        if ranks == 0 || rank >= ranks || ranks != of.ranks || of.members.contains_key(&rank) {
            return Err(format!("rank {rank} of {ranks}, in a communicator of {} that has {} already", of.ranks, of.members.len()));
        }
        if host * per_node + gpu != rank || (ranks > per_node && !ranks.is_multiple_of(per_node)) {
            let order =
                format!("rank {rank} on gpu{gpu} of host {host}: ranks are to be in the order of hosts and of their {per_node} GPUs");
            return Err(order);
        }
        of.members.insert(rank, program);
        if of.members.len() < ranks as usize {
            return Ok(false);
        }
        let shape = (ranks.div_ceil(per_node), ranks.min(per_node));
        match form(&self.library, &self.target, shape) {
            Ok(formed) => of.formed = Some(formed),
            Err(error) => {
                of.refused = Some(error.clone());
                return Err(error);
            }
        }
        self.due.iter_mut().for_each(|due| due.push_back(Due::Join(id)));
        Ok(true)
    }

    /// A process has ended, and with it its ranks.
    pub fn leave(&mut self, program: u32) {
        for of in &mut self.communicators {
            let own = of.members.iter().filter(|(_, member)| **member == program).map(|(rank, _)| *rank);
            of.left.extend(own);
        }
    }

    /// A rank calls something: the number of the call.
    pub fn call(&mut self, call: Call) -> usize {
        let (number, rank) = (self.calls.len(), call.rank as usize);
        self.calls.push(call);
        self.due[rank].push_back(Due::Run(number));
        self.open[rank].push_back(number);
        number
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

/// Plans a communicator of so many nodes and GPUs of each, with all connections that its operations take.
fn form(library: &Library, target: &Target, shape: (u32, u32)) -> Result<Formed, String> {
    let refused = |error: fabriscope_nccl::NcclError| error.to_string();
    let ranks = Ranks::new(library.clone(), target, shape, &library.settings).map_err(refused)?;
    let tuner = Arc::new(Tuner::new(ranks.plan()));
    let mut plans = Vec::new();
    for operation in Operation::ALL {
        for size in (0..=MOST_SIZE).map(|power| 1_u64 << power) {
            let Ok(choice) = tuner.choose(operation, Bytes(size)) else { continue };
            plans.push(Plan::new(ranks.plan(), choice, size, Bytes(1), 0, false).map_err(refused)?);
        }
    }
    let mut wires: BTreeMap<_, _> = connections(&ranks, plans).into_iter().collect();
    let all = shape.0 * shape.1;
    let everybody: Vec<(u32, u32)> = (0..all).flat_map(|from| (0..all).map(move |to| (from, to))).filter(|(from, to)| from != to).collect();
    let lengths: Vec<Bytes> = (0..=MOST_SIZE).map(|power| Bytes(1 << power)).collect();
    wires.extend(pairs(&ranks, &everybody, &lengths));
    Ok(Formed { ranks, tuner, wires: Arc::new(wires.into_iter().collect()) })
}

/// Sizes for which connections are made: 1 B to 2^34 B. A larger message takes those of the largest.
const MOST_SIZE: u32 = 34;
