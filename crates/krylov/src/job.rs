//! What all ranks of a job know, what each measures, and how they exchange elements and sums.

use std::collections::BTreeMap;

use fabriscope_collectives::{Algorithm, Call};
use fabriscope_mpi::{Packing, Rank, Request, World};
use fabriscope_node::{ProgramError, Record};
use fabriscope_platform::Layout;
use fabriscope_platform::processor::Pace;
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::Mtu;

use super::adapter::Board;
use super::matrix::Part;
use super::offload::Offload;
use super::options::Settings;
use super::solver::{ELEMENT, INDEX, Operation};

/// What all ranks know.
pub(super) struct Job {
    pub settings: Settings,
    pub layout: Layout,
    /// By rank.
    pub parts: Vec<Part>,
    pub paces: Vec<Pace>,
    /// How so many sums are added up.
    pub reductions: BTreeMap<u32, (Call, Algorithm)>,
    pub world: World,
    pub packing: Packing,
    /// By rank; nobody where adapters do not help.
    pub helpers: Vec<Helper>,
    /// Between a rank and its helper: the path's MTU, and what goes inline.
    pub bridge: (Mtu, u32),
}

/// Where time goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    MatVec,
    Vma,
    Dot,
    Halo,
    Allreduce,
    /// Waiting for the cores on the adapter.
    Cores,
}

impl Phase {
    pub const ALL: [Phase; 6] = [Phase::MatVec, Phase::Vma, Phase::Dot, Phase::Halo, Phase::Allreduce, Phase::Cores];
    pub fn of(operation: Operation) -> Phase {
        match operation {
            Operation::MatVec => Phase::MatVec,
            Operation::Vma { .. } => Phase::Vma,
            Operation::Dot { .. } => Phase::Dot,
        }
    }
}

/// What a rank spent in all measured iterations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// By phase.
    pub each: [Span; 6],
    /// In all.
    pub total: Span,
}

/// What a rank measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    /// By the host's cores alone.
    pub alone: Spent,
    /// With those on the adapter.
    pub together: Option<Spent>,
}

/// Says for what time passed.
pub(super) struct Watch<'r> {
    pub rank: &'r Rank,
    pub spent: Spent,
    pub since: Time,
}

impl Watch<'_> {
    /// What passed since the last call was for `phase`.
    pub fn lap(&mut self, phase: Phase) {
        let now = self.rank.now();
        self.spent.each[phase as usize] += now.since(self.since);
        self.since = now;
    }
}

/// How the rows of a rank are shared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Division {
    /// Those of the host.
    pub own: u64,
    /// Those of the cores on the adapter.
    pub theirs: u64,
    /// Elements that each needs of the other for a product.
    pub border: u64,
    /// What handing over took.
    pub hand_over: Span,
}

/// What a rank and its helper share.
#[derive(Debug)]
pub(super) struct Helper {
    pub board: Board,
    pub mode: Offload,
    /// Known once handing over was measured.
    pub division: Record<Division>,
    /// Of the cores on the adapter, with all rows: fewer are no slower.
    pub pace: Pace,
    /// Rows that fit into their memory.
    pub room: u64,
    /// In percent of the rows, where it was asked for.
    pub asked: Option<u32>,
}

/// Begins to exchange elements with the neighbours.
pub(super) async fn halo(rank: &Rank, part: &Part, pace: Pace) -> Result<Vec<Request>, ProgramError> {
    let mut requests = Vec::with_capacity(2 * part.neighbours.len());
    for (neighbour, elements) in &part.neighbours {
        requests.push(rank.irecv(Some(*neighbour), Some(HALO), (elements * ELEMENT) as u32)?);
    }
    let packed: u64 = part.neighbours.iter().map(|(_, elements)| elements).sum();
    rank.work(pace.rate.time(packing(packed))).await;
    for (neighbour, elements) in &part.neighbours {
        requests.push(rank.isend(*neighbour, HALO, (elements * ELEMENT) as u32)?);
    }
    Ok(requests)
}

/// Adds up so many sums of all ranks.
pub(super) async fn all_reduce(rank: &Rank, job: &Job, sums: u32) -> Result<(), ProgramError> {
    match job.reductions.get(&sums).filter(|_| job.parts.len() > 1) {
        Some((call, algorithm)) => rank.carry_out(algorithm.outlines(call, rank.rank()), job.packing).await,
        None => Ok(()),
    }
}

/// What collecting so many elements for messages moves: each is read by its index and written.
fn packing(elements: u64) -> Bytes {
    Bytes(elements * (2 * ELEMENT + INDEX))
}

/// What `part` of `whole` rows has of so many bytes.
pub(super) fn of_rows(bytes: Bytes, part: u64, whole: u64) -> Bytes {
    Bytes((u128::from(bytes.0) * u128::from(part) / u128::from(whole.max(1))) as u64)
}

/// The tag of elements for neighbours.
const HALO: u32 = 1;
