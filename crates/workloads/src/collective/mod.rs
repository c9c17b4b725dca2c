//! Benchmarks of collective operations: `osu_allreduce`, `osu_iallreduce`, … and `IMB-MPI1`, over [`crate::mpi`].
//!
//! Source: OMB 7.4 (FORMATS.md §10) and Intel MPI Benchmarks 2019: loops, options and output.
//! Modelled: all ranks of the job, filling its nodes one after the other; the algorithm that the library takes or that is asked
//! for; OSU's barrier after every iteration, IMB's iterations back to back; computation beside non-blocking operations.
//! Not modelled: smaller groups than all ranks (`-npmin` below their number), buffers that are never cached, persistent operations.

mod imb;
mod measure;
mod osu;
mod plan;

use fabriscope_collectives::Kind;

use crate::error::UsageError;
use crate::target::Target;
use crate::tool::Prepared;

/// One benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Benchmark {
    /// `osu_` and the operation.
    Osu(Kind),
    /// `osu_i` and the operation: non-blocking.
    OsuNonBlocking(Kind),
    /// `IMB-MPI1`, which takes the operation as an operand.
    Imb,
}

/// Every benchmark.
pub const BENCHMARKS: [Benchmark; 5] = [
    Benchmark::Osu(Kind::Alltoall),
    Benchmark::Osu(Kind::Alltoallv),
    Benchmark::OsuNonBlocking(Kind::Alltoall),
    Benchmark::OsuNonBlocking(Kind::Alltoallv),
    Benchmark::Imb,
];

impl Benchmark {
    /// The program's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::Osu(kind) => osu::names(kind).0,
            Benchmark::OsuNonBlocking(kind) => osu::names(kind).1,
            Benchmark::Imb => "IMB-MPI1",
        }
    }
    /// One line for a list of tools.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Benchmark::Osu(kind) => osu::about(kind),
            Benchmark::OsuNonBlocking(_) => "the same, non-blocking: how much of it computation hides (OSU Micro-Benchmarks)",
            Benchmark::Imb => "PingPong, Allreduce, Alltoall, Bcast … among the ranks of several nodes (Intel MPI Benchmarks)",
        }
    }
}

/// Reads the command line of `benchmark` and makes its programs.
///
/// # Errors
/// A wrong command line; software without MPI or without rules for the operation; too few ranks.
pub fn prepare(benchmark: Benchmark, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    match benchmark {
        Benchmark::Osu(kind) => osu::prepare(benchmark, kind, false, args, target),
        Benchmark::OsuNonBlocking(kind) => osu::prepare(benchmark, kind, true, args, target),
        Benchmark::Imb => imb::prepare(args, target),
    }
}
