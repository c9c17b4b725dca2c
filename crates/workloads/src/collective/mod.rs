//! Benchmarks of collective operations: `osu_alltoall` and `IMB-MPI1 Alltoall`, over [`crate::mpi`].
//!
//! Source: OMB 7.4 (FORMATS.md §10) and Intel MPI Benchmarks 2019: loops, options and output.
//! Modelled: all ranks of the job, filling its nodes one after the other; the algorithm that the library takes or that is asked
//! for; OSU's barrier after every iteration, IMB's iterations back to back.
//! Not modelled: other collectives, smaller groups than all ranks (`-npmin` below their number), buffers that are never cached.

mod imb;
mod osu;

use std::cell::RefCell;
use std::rc::Rc;

use fabriscope_collectives::alltoall::{Algorithm, Rules};
use fabriscope_node::{Main, Process, ProgramError};
use fabriscope_units::{Bytes, Span};

use crate::error::UsageError;
use crate::mpi::{Rank, World};
use crate::output::ToolOutput;
use crate::target::Target;
use crate::tool::{Placing, Prepared};

/// One benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Benchmark {
    /// `osu_alltoall`.
    OsuAlltoall,
    /// `IMB-MPI1 Alltoall`.
    ImbAlltoall,
}

/// Every benchmark.
pub const BENCHMARKS: [Benchmark; 2] = [Benchmark::OsuAlltoall, Benchmark::ImbAlltoall];

impl Benchmark {
    /// The program's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::OsuAlltoall => "osu_alltoall",
            Benchmark::ImbAlltoall => "IMB-MPI1",
        }
    }
    /// One line for a list of tools.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Benchmark::OsuAlltoall => "MPI_Alltoall among the ranks of several nodes (OSU Micro-Benchmarks)",
            Benchmark::ImbAlltoall => "Alltoall among the ranks of several nodes (Intel MPI Benchmarks)",
        }
    }
}

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq)]
struct Plan {
    /// Bytes of a block, in order.
    sizes: Vec<u32>,
    /// Given by the user.
    iterations: Option<u32>,
    warm_up: Option<u32>,
    /// Name of an algorithm instead of the library's choice.
    algorithm: Option<String>,
    /// Ranks wait for each other after every iteration, out of band.
    separate: bool,
}

impl Plan {
    fn iterations(&self, size: u32) -> u32 {
        self.iterations.unwrap_or(if size > LARGE { 1 } else { ITERATIONS })
    }
    fn warm_up(&self, size: u32) -> u32 {
        self.warm_up.unwrap_or(u32::from(size <= LARGE))
    }
}

/// What the ranks of a size measured: the mean of each rank's iterations.
type Means = Vec<Span>;
type Results = Rc<RefCell<Vec<Means>>>;

/// Reads the command line of `benchmark` and makes its programs.
///
/// # Errors
/// A wrong command line; software without MPI or without rules for `MPI_Alltoall`; too few ranks.
pub fn prepare(benchmark: Benchmark, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    match benchmark {
        Benchmark::OsuAlltoall => osu::prepare(args, target),
        Benchmark::ImbAlltoall => imb::prepare(args, target),
    }
}

/// The programs of `plan`, and the report that `finish` makes of what they measured.
fn programs(
    tool: &str,
    plan: Plan,
    target: &Target,
    finish: impl FnOnce(&Plan, &[Means]) -> ToolOutput + 'static,
) -> Result<Prepared, UsageError> {
    let (per_node, ranks) = (target.layout.per_node, target.layout.ranks());
    let lacks = |what: &str| UsageError::Conflict {
        what: format!("{tool} needs {what}, and the cluster's software has none"),
        remedy: "choose software with an [mpi] table and [mpi.alltoall]".to_owned(),
    };
    let mpi = target.mpi.as_ref().ok_or_else(|| lacks("an MPI library"))?;
    let part = mpi.alltoall.as_ref().ok_or_else(|| lacks("a library with MPI_Alltoall"))?;
    let rules = Rules {
        bruck_limit: *part.bruck_limit,
        bruck_ranks: *part.bruck_ranks,
        posted_limit: *part.posted_limit,
        at_a_time: *part.at_a_time,
        exclusive_or: part.exclusive_or,
    };
    let forced = match plan.algorithm.as_deref() {
        None => None,
        Some(name) => Some(rules.named(name).ok_or_else(|| UsageError::NotOneOf {
            option: "--algorithm".to_owned(),
            value: name.to_owned(),
            known: "bruck, posted, pairwise",
        })?),
    };
    let choices: Vec<(u32, Algorithm)> =
        plan.sizes.iter().map(|&size| (size, forced.unwrap_or_else(|| rules.select(ranks, Bytes(size.into()))))).collect();
    let job = Rc::new(Job { plan, choices, world: World::new(mpi, target, ranks), block_overhead: *part.block_overhead });
    let results: Results = Rc::new(RefCell::new(vec![Vec::new(); job.choices.len()]));
    let main = || -> Main {
        let (job, results) = (job.clone(), results.clone());
        Box::new(move |process| Box::pin(run(process, job, results)))
    };
    let mains = (0..ranks).map(|_| main()).collect();
    let finish = move || finish(&job.plan, &results.borrow());
    Ok(Prepared { placing: Placing::Blocks { per_node }, mains, finish: Box::new(finish) })
}

struct Job {
    plan: Plan,
    /// By size, as in the plan.
    choices: Vec<(u32, Algorithm)>,
    world: World,
    block_overhead: Span,
}

/// One rank: all sizes in turn.
async fn run(process: Process, job: Rc<Job>, results: Results) -> Result<(), ProgramError> {
    let (me, ranks) = (process.rank(), process.ranks());
    let mut peers: Vec<u32> = job.choices.iter().flat_map(|(_, algorithm)| algorithm.peers(me, ranks)).collect();
    peers.sort_unstable();
    peers.dedup();
    let rank = Rank::init(process, job.world.clone(), &peers).await?;
    for (at, &(size, algorithm)) in job.choices.iter().enumerate() {
        let block = Bytes(size.into());
        // A buffer to send and one to receive.
        rank.goes_through(block * (2 * u64::from(ranks)));
        rank.synchronise().await?;
        let (iterations, warm_up) = (job.plan.iterations(size), job.plan.warm_up(size));
        let mut total = Span::ZERO;
        for iteration in 0..warm_up + iterations {
            let start = rank.now();
            if size > 0 {
                rank.carry_out(algorithm.rounds(me, ranks, block), job.block_overhead).await?;
            }
            if iteration >= warm_up {
                total += rank.now().since(start);
            }
            if job.plan.separate {
                rank.synchronise().await?;
            }
        }
        results.borrow_mut()[at].push(total / u64::from(iterations));
    }
    rank.synchronise().await
}

/// Mean, least and most of what the ranks measured, in µs.
fn statistics(means: &[Span]) -> (f64, f64, f64) {
    let us = |span: Option<&Span>| span.map_or(0.0, |span| span.as_us_f64());
    let sum: Span = means.iter().copied().sum();
    (sum.as_us_f64() / means.len().max(1) as f64, us(means.iter().min()), us(means.iter().max()))
}

/// Iterations of sizes up to [`LARGE`]. Basis: assumed; they hardly differ.
const ITERATIONS: u32 = 3;
/// Above, in bytes, one iteration without warm-up is simulated. Basis: assumed; what is cold costs little there.
const LARGE: u32 = 8192;
