//! `krylov`: the iteration of a Krylov solver, on vectors and a sparse matrix that are spread over the ranks of a job.
//!
//! Source: PETSc's KSP and HYPRE's solvers for what an iteration is made of (`solver.rs`); their ways of keeping a matrix (`matrix.rs`).
//! Modelled: products with the matrix, whose elements of neighbours are MPI messages beside the rows that need none; dot products with
//! MPI_Allreduce by the library's algorithm; multiply-adds; memory bandwidth of the cores that take part (`fabriscope_platform::processor`).
//! Not modelled: convergence, set-up, preconditioners beyond the diagonal; the rest stands where it belongs.

mod adapter;
mod job;
mod matrix;
mod offload;
mod options;
mod report;
mod run;
mod share;
mod solver;

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_catalog::{Interface, Mpi};
use fabriscope_collectives::{Algorithm, Call, Kind};
use fabriscope_mpi::{Packing, World};
use fabriscope_node::{Main, Record, Ties};
use fabriscope_platform::{Layout, Processor, Target, path_mtu};
use fabriscope_tool::Operation::Iteration;
use fabriscope_tool::{Data, PerNode, Placing, Prepared, Ranks, Rows, SizeOption, Suite, Traits, UsageError, algorithm, mpi_for};
use fabriscope_units::Bytes;

pub use matrix::{Matrix, MatrixError, Part, Stencil};
pub use offload::{Costs, Offload, balanced};
pub use options::OPTIONS;
pub use solver::{Operation, Preconditioner, Solver};

use adapter::Board;
use job::{Helper, Job};
use options::Settings;

/// The program's name.
pub const NAME: &str = "krylov";
/// One line for a list of tools.
pub const ABOUT: &str = "iterations of a Krylov solver (PETSc, HYPRE): sparse product, dot products, multiply-adds, halo";

/// What the program is.
#[must_use]
pub const fn traits() -> Traits {
    Traits { ranks: Ranks::Job(PerNode::One), sizes: SizeOption::Fixed, ..Traits::new(Suite::Single, Iteration) }
}

/// Reads the command line and makes the programs.
///
/// # Errors
/// A wrong command line; a matrix that does not go onto the ranks; a cluster without MPI or of whose memory nothing is known.
pub fn prepare(args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let cores = target.processor.as_ref().map_or(u32::MAX, Processor::all_cores);
    let settings = options::read(NAME, ABOUT, args, target, cores)?;
    let processor = target.processor.as_ref().ok_or_else(|| {
        let what = "nothing is known of the memory of the processors here, and it decides how long vectors take".to_owned();
        options::conflict(what, "give the processor's part [memory] with copy_rate and caches")
    })?;
    let mpi = mpi_for(NAME, target)?;
    let (ranks, per_node) = (target.layout.ranks(), target.layout.per_node);
    let mut reductions = BTreeMap::new();
    for number in 0..settings.iterations {
        for operation in settings.solver.iteration(settings.preconditioner, number) {
            if let Operation::Dot { sums, .. } = operation
                && !reductions.contains_key(&sums)
            {
                let bytes = sums * solver::ELEMENT as u32;
                reductions.insert(sums, all_reduce(bytes, settings.algorithm.as_deref(), mpi, target)?);
            }
        }
    }
    let parts: Vec<Part> = (0..ranks).map(|rank| settings.matrix.part(rank, ranks)).collect();
    if let Some((_, elements)) = parts.iter().flat_map(|part| &part.neighbours).find(|(_, elements)| elements * solver::ELEMENT > LARGEST) {
        let what = format!("a neighbour needs {elements} elements of 8 bytes in one message");
        return Err(options::conflict(what, "use a smaller grid or halo: a message has less than 2 GiB"));
    }
    let pace = |part: &Part| {
        let footprint = settings.solver.footprint(settings.preconditioner, part.rows, part.nonzeros);
        processor.pace(per_node, settings.threads, footprint)
    };
    let paces = parts.iter().map(pace).collect();
    let (world, packing) = (World::of_hosts(mpi, target, ranks), Packing::from(mpi));
    let helpers = if settings.offload == Offload::None { Vec::new() } else { helpers(&settings, &parts, target)? };
    let bridge = (path_mtu(target.mtu), target.max_inline);
    let job = Arc::new(Job { settings, layout: target.layout, parts, paces, reductions, world, packing, helpers, bridge });
    let results = Record::new(Vec::new());
    let main = |_| -> Main {
        let (job, results) = (job.clone(), results.clone());
        Box::new(move |process| Box::pin(run::run(process, job, results)))
    };
    let mains = (0..ranks).map(main).collect();
    // Helpers sit on the cores of adapters.
    let ties = if job.helpers.is_empty() { job.world.ties() } else { Ties::Any };
    let cores = target.cores.clone();
    let finish = move || {
        // Means are taken in the order of ranks, whichever ended first.
        let mut outcomes: Vec<(u32, job::Outcome)> = results.take();
        outcomes.sort_unstable_by_key(|(rank, _)| *rank);
        let outcomes: Vec<job::Outcome> = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
        report::report(&job, &outcomes, cores.as_ref())
    };
    Ok(Prepared { placing: Placing::Blocks { per_node }, mains, ties, finish: Box::new(finish), rows: Rows::default() })
}

/// A helper for each rank on the cores of its adapter.
fn helpers(settings: &Settings, parts: &[Part], target: &Target) -> Result<Vec<Helper>, UsageError> {
    let (mode, per_node) = (settings.offload, target.layout.per_node);
    let cores = target.cores.as_ref().ok_or_else(|| {
        let what = format!("--offload {mode} needs cores on the adapters, and those here have none");
        options::conflict(what, "leave it out, or use a cluster with DPUs, for example lab-bluefield-3-broadwell")
    })?;
    if target.interface != Interface::Verbs {
        let what = format!("--offload {mode} needs verbs between a host and its adapter's cores, not {}", target.interface);
        return Err(options::conflict(what, "use a cluster with DPUs, for example lab-bluefield-3-broadwell"));
    }
    let threads = cores.processor.all_cores() / per_node.max(1);
    if threads == 0 {
        let what = format!("{per_node} ranks on a node, and its adapter has {} cores", cores.processor.all_cores());
        return Err(options::conflict(what, &format!("use --ppn of at most {}", cores.processor.all_cores())));
    }
    let helper = |part: &Part| {
        let footprint = settings.solver.footprint(settings.preconditioner, part.rows, part.nonzeros);
        let own = u128::from(cores.memory.0 / u64::from(per_node.max(1)));
        let room = (own * u128::from(part.rows) / u128::from(footprint.0.max(1))).min(u128::from(part.rows)) as u64;
        if mode == Offload::Naive && room < part.rows {
            let what = format!("{footprint} of each rank do not go into the {} of the adapter's cores", cores.memory);
            return Err(options::conflict(what, "use a smaller matrix, or --offload hybrid"));
        }
        let pace = cores.processor.pace(per_node, threads, footprint);
        Ok(Helper { board: Board::default(), mode, division: Record::default(), pace, room, asked: settings.share })
    };
    parts.iter().map(helper).collect()
}

/// Bytes of a message, at most. Basis: standard (an int counts the elements of a message of MPI, and InfiniBand ends there).
const LARGEST: u64 = (1 << 31) - 1;

/// How the library adds up `bytes` of doubles among all ranks: by the algorithm of this name, or by its own choice.
fn all_reduce(bytes: u32, name: Option<&str>, mpi: &Mpi, target: &Target) -> Result<(Call, Algorithm), UsageError> {
    let Layout { per_node, .. } = target.layout;
    let (operation, ranks, size) = (Kind::Allreduce, target.layout.ranks(), Bytes(bytes.into()));
    let call = Call { operation, ranks, per_node, root: 0, size, width: Bytes(8) };
    let algorithm = algorithm(NAME, name, &call, Data::OnHosts, mpi)?;
    if algorithm.is_in_network() {
        let what = format!("{NAME}: {algorithm} is an in-network reduction, which is not modelled here");
        return Err(UsageError::Conflict { what, remedy: "use another --algorithm, or osu_allreduce".to_owned() });
    }
    Ok((call, algorithm))
}
