//! `krylov`: the iteration of a Krylov solver, on vectors and a sparse matrix that are spread over the ranks of a job.
//!
//! Source: PETSc's KSP and HYPRE's solvers for what an iteration is made of ([`solver`]); their ways of keeping a matrix ([`matrix`]).
//! Modelled: products with the matrix, whose elements of neighbours are MPI messages beside the rows that need none; dot products with
//! MPI_Allreduce by the library's algorithm; multiply-adds; memory bandwidth of the cores that take part ([`pace`]).
//! Not modelled: convergence, set-up, preconditioners beyond the diagonal; the rest stands where it belongs.

mod matrix;
mod options;
mod pace;
mod report;
mod run;
mod solver;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use fabriscope_node::Main;

pub use matrix::{Matrix, MatrixError, Part, Stencil};
pub use pace::{Bound, Pace, Processor};
pub use solver::{Operation, Preconditioner, Solver};

use crate::collective;
use crate::error::UsageError;
use crate::mpi::{Packing, World};
use crate::target::Target;
use crate::tool::{Placing, Prepared};
use run::Job;

/// The program's name.
pub const NAME: &str = "krylov";
/// One line for a list of tools.
pub const ABOUT: &str = "iterations of a Krylov solver (PETSc, HYPRE): sparse product, dot products, multiply-adds, halo";

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
    let mpi = target.mpi_for(NAME)?;
    let (ranks, per_node) = (target.layout.ranks(), target.layout.per_node);
    let mut reductions = BTreeMap::new();
    for number in 0..settings.iterations {
        for operation in settings.solver.iteration(settings.preconditioner, number) {
            if let Operation::Dot { sums, .. } = operation
                && !reductions.contains_key(&sums)
            {
                let bytes = sums * solver::ELEMENT as u32;
                reductions.insert(sums, collective::all_reduce(NAME, bytes, settings.algorithm.as_deref(), mpi, target)?);
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
    let (world, packing) = (World::new(mpi, target, ranks), Packing::from(mpi));
    let job = Rc::new(Job { settings, layout: target.layout, parts, paces, reductions, world, packing });
    let results = Rc::new(RefCell::new(Vec::new()));
    let main = |_| -> Main {
        let (job, results) = (job.clone(), results.clone());
        Box::new(move |process| Box::pin(run::run(process, job, results)))
    };
    let mains = (0..ranks).map(main).collect();
    let finish = move || report::report(&job, &results.borrow());
    Ok(Prepared { placing: Placing::Blocks { per_node }, mains, finish: Box::new(finish) })
}

/// Bytes of a message, at most. Basis: standard (an int counts the elements of a message of MPI, and InfiniBand ends there).
const LARGEST: u64 = (1 << 31) - 1;
