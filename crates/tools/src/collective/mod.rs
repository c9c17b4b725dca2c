//! Benchmarks of collective operations: `osu_allreduce`, `osu_iallreduce`, … and `IMB-MPI1` with its transfers, over [`fabriscope_mpi`].
//!
//! Source: OMB 7.4 (format: docs/formats.md) and Intel MPI Benchmarks 2019: loops, options and output.
//! Modelled: all ranks of the job, filling its nodes one after the other; the algorithm that the library takes or that is asked
//! for; OSU's barrier after every iteration, by the library's algorithm where its part names one, IMB's iterations back to back; computation beside non-blocking operations.
//! Not modelled: smaller groups than all ranks (`-npmin` below their number), buffers that are never cached, persistent operations.

mod benchmark;
mod broadcasts;
mod contents;
mod imb;
mod imb_transfers;
mod layers;
mod measure;
mod memory;
mod osu;
mod plan;
mod stepwise;
mod stream;
mod switches;
mod training;

pub use benchmark::{Benchmark, Calling, OPERATIONS, OsuOperation};
pub(crate) use plan::Plan;
pub use stepwise::{Between, Stepwise, StepwiseRow};

use fabriscope_platform::Target;
use fabriscope_tool::{Prepared, UsageError};
use fabriscope_units::Bytes;

/// Reads the command line of `benchmark` and makes its programs.
///
/// # Errors
/// A wrong command line; software without MPI or without rules for the operation; too few ranks.
pub fn prepare(benchmark: Benchmark, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    match benchmark {
        Benchmark::Osu(operation, calling) => osu::prepare(operation, calling, args, target),
        Benchmark::Imb => imb::prepare(args, target),
        Benchmark::Stream => stream::prepare(benchmark.name(), benchmark.about(), args, target),
        Benchmark::Training => training::prepare(benchmark.name(), benchmark.about(), args, target),
    }
}

/// What the job takes of memory, about; nothing where that is little, or where the command line is wrong, which [`prepare`] tells.
pub(crate) fn memory(benchmark: Benchmark, args: &[String], target: &Target) -> Option<Bytes> {
    let plan = match benchmark {
        Benchmark::Osu(operation, calling) => osu::plan(operation, calling, args, target),
        Benchmark::Imb => imb::plan(args, target)?,
        Benchmark::Stream | Benchmark::Training => return None,
    };
    plan.and_then(|plan| plan.memory(benchmark.name(), target)).ok()
}

/// The same as data, for engines that run no programs; or what of it they cannot do.
///
/// # Errors
/// As [`prepare`].
pub fn stepwise(benchmark: Benchmark, args: &[String], target: &Target) -> Result<Result<Stepwise, String>, UsageError> {
    match benchmark {
        Benchmark::Osu(operation, calling) => osu::stepwise(operation, calling, args, target),
        Benchmark::Imb => imb::stepwise(args, target),
        Benchmark::Stream | Benchmark::Training => Ok(Err(format!("the loop of {}", benchmark.name()))),
    }
}
