//! One rank of the solver.
//!
//! Modelled: elements that neighbours need are collected by the cores and sent, the rows that need none of theirs go on meanwhile, the others
//! afterwards, as PETSc's MatMult_MPIAIJ does; a library that moves messages only while it is called moves none of them meanwhile.
//! Not modelled: threads of progress, messages straight out of the vector.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use fabriscope_collectives::{Algorithm, Call};
use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Bytes, Span, Time};

use super::matrix::Part;
use super::options::Settings;
use super::pace::Pace;
use super::solver::{ELEMENT, INDEX, Operation};
use crate::mpi::{Packing, Rank, World};
use crate::target::Layout;

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
}

/// Where time goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    MatVec,
    Vma,
    Dot,
    Halo,
    Allreduce,
}

impl Phase {
    pub const ALL: [Phase; 5] = [Phase::MatVec, Phase::Vma, Phase::Dot, Phase::Halo, Phase::Allreduce];
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
    pub each: [Span; 5],
    /// In all.
    pub total: Span,
}

/// Takes time on the core, and says for what.
struct Watch<'r> {
    rank: &'r Rank,
    spent: Spent,
    since: Time,
}

impl Watch<'_> {
    /// What passed since the last call was for `phase`.
    fn lap(&mut self, phase: Phase) {
        let now = self.rank.now();
        self.spent.each[phase as usize] += now.since(self.since);
        self.since = now;
    }
}

/// One rank: an iteration that is not measured, then those that are.
pub(super) async fn run(process: Process, job: Rc<Job>, results: Rc<RefCell<Vec<Spent>>>) -> Result<(), ProgramError> {
    let me = process.rank();
    let part = &job.parts[me as usize];
    let mut peers: Vec<u32> = part.neighbours.iter().map(|(neighbour, _)| *neighbour).collect();
    peers.extend(job.reductions.values().flat_map(|(call, algorithm)| algorithm.peers(call, me)));
    peers.sort_unstable();
    peers.dedup();
    let rank = Rank::init(process, job.world.clone(), &peers).await?;
    rank.goes_through(job.settings.solver.footprint(job.settings.preconditioner, part.rows, part.nonzeros));
    iterations(&rank, &job, 0..1).await?;
    rank.synchronise().await?;
    let spent = iterations(&rank, &job, 0..job.settings.iterations).await?;
    results.borrow_mut().push(spent);
    rank.synchronise().await
}

async fn iterations(rank: &Rank, job: &Job, numbers: std::ops::Range<u32>) -> Result<Spent, ProgramError> {
    let (part, pace) = (&job.parts[rank.rank() as usize], job.paces[rank.rank() as usize]);
    let begun = rank.now();
    let mut watch = Watch { rank, spent: Spent::default(), since: begun };
    for number in numbers {
        for operation in job.settings.solver.iteration(job.settings.preconditioner, number) {
            match operation {
                Operation::MatVec => product(&mut watch, part, pace).await?,
                Operation::Vma { .. } => {
                    rank.work(pace.rate.time(operation.bytes(part.rows, part.nonzeros))).await;
                    watch.lap(Phase::Vma);
                }
                Operation::Dot { sums, .. } => {
                    rank.work(pace.rate.time(operation.bytes(part.rows, part.nonzeros))).await;
                    watch.lap(Phase::Dot);
                    if let Some((call, algorithm)) = job.reductions.get(&sums).filter(|_| rank.ranks() > 1) {
                        rank.carry_out(algorithm.rounds(call, rank.rank()), job.packing).await?;
                    }
                    watch.lap(Phase::Allreduce);
                }
            }
        }
    }
    watch.spent.total = rank.now().since(begun);
    Ok(watch.spent)
}

/// The product with the matrix: halo, inner rows, the rest.
async fn product(watch: &mut Watch<'_>, part: &Part, pace: Pace) -> Result<(), ProgramError> {
    let rank = watch.rank;
    let all = Operation::MatVec.bytes(part.rows, part.nonzeros);
    let outer = share(all, part.outer, part.rows);
    let mut requests = Vec::with_capacity(2 * part.neighbours.len());
    for (neighbour, elements) in &part.neighbours {
        requests.push(rank.irecv(Some(*neighbour), Some(HALO), (elements * ELEMENT) as u32)?);
    }
    let packed: u64 = part.neighbours.iter().map(|(_, elements)| elements).sum();
    rank.work(pace.rate.time(packing(packed))).await;
    for (neighbour, elements) in &part.neighbours {
        requests.push(rank.isend(*neighbour, HALO, (elements * ELEMENT) as u32)?);
    }
    watch.lap(Phase::Halo);
    rank.work(pace.rate.time(all - outer)).await;
    watch.lap(Phase::MatVec);
    rank.wait_all(requests).await?;
    watch.lap(Phase::Halo);
    rank.work(pace.rate.time(outer)).await;
    watch.lap(Phase::MatVec);
    Ok(())
}

/// What collecting so many elements for messages moves: each is read by its index and written.
pub(super) fn packing(elements: u64) -> Bytes {
    Bytes(elements * (2 * ELEMENT + INDEX))
}

/// `part` of `whole` of so many bytes.
pub(super) fn share(bytes: Bytes, part: u64, whole: u64) -> Bytes {
    Bytes((u128::from(bytes.0) * u128::from(part) / u128::from(whole.max(1))) as u64)
}

/// The tag of elements for neighbours.
const HALO: u32 = 1;
