//! Benchmarks of collective operations: `osu_allreduce`, `osu_iallreduce`, … and `IMB-MPI1`, over [`fabriscope_mpi`].
//!
//! Source: OMB 7.4 (format: docs/formats.md) and Intel MPI Benchmarks 2019: loops, options and output.
//! Modelled: all ranks of the job, filling its nodes one after the other; the algorithm that the library takes or that is asked
//! for; OSU's barrier after every iteration, by the library's algorithm where its part names one, IMB's iterations back to back; computation beside non-blocking operations.
//! Not modelled: smaller groups than all ranks (`-npmin` below their number), buffers that are never cached, persistent operations.

mod cast;
mod contents;
mod imb;
mod layers;
mod measure;
mod osu;
mod plan;
mod stream;
mod switches;
mod training;

use fabriscope_collectives::Kind;

pub(crate) use plan::Plan;

use fabriscope_platform::Target;
use fabriscope_tool::{Prepared, UsageError};

/// One benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Benchmark {
    /// `osu_` and the operation.
    Osu(Kind),
    /// `osu_i` and the operation: non-blocking.
    OsuNonBlocking(Kind),
    /// `IMB-MPI1`, which takes the operation as an operand.
    Imb,
    /// `bcast_stream`: frames at a rate from one source.
    Stream,
    /// `bcast_training`: every rank a source in turn.
    Training,
}

/// Every benchmark.
pub const BENCHMARKS: [Benchmark; 31] = [
    Benchmark::Osu(Kind::Allgather),
    Benchmark::Osu(Kind::Allgatherv),
    Benchmark::Osu(Kind::Allreduce),
    Benchmark::Osu(Kind::Alltoall),
    Benchmark::Osu(Kind::Alltoallv),
    Benchmark::Osu(Kind::Barrier),
    Benchmark::Osu(Kind::Bcast),
    Benchmark::Osu(Kind::Gather),
    Benchmark::Osu(Kind::Gatherv),
    Benchmark::Osu(Kind::Reduce),
    Benchmark::Osu(Kind::ReduceScatter),
    Benchmark::Osu(Kind::ReduceScatterBlock),
    Benchmark::Osu(Kind::Scatter),
    Benchmark::Osu(Kind::Scatterv),
    Benchmark::OsuNonBlocking(Kind::Allgather),
    Benchmark::OsuNonBlocking(Kind::Allgatherv),
    Benchmark::OsuNonBlocking(Kind::Allreduce),
    Benchmark::OsuNonBlocking(Kind::Alltoall),
    Benchmark::OsuNonBlocking(Kind::Alltoallv),
    Benchmark::OsuNonBlocking(Kind::Barrier),
    Benchmark::OsuNonBlocking(Kind::Bcast),
    Benchmark::OsuNonBlocking(Kind::Gather),
    Benchmark::OsuNonBlocking(Kind::Gatherv),
    Benchmark::OsuNonBlocking(Kind::Reduce),
    Benchmark::OsuNonBlocking(Kind::ReduceScatter),
    Benchmark::OsuNonBlocking(Kind::ReduceScatterBlock),
    Benchmark::OsuNonBlocking(Kind::Scatter),
    Benchmark::OsuNonBlocking(Kind::Scatterv),
    Benchmark::Imb,
    Benchmark::Stream,
    Benchmark::Training,
];

impl Benchmark {
    /// The program's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::Osu(kind) => osu::names(kind).0,
            Benchmark::OsuNonBlocking(kind) => osu::names(kind).1,
            Benchmark::Imb => "IMB-MPI1",
            Benchmark::Stream => "bcast_stream",
            Benchmark::Training => "bcast_training",
        }
    }
    /// One line for a list of tools.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Benchmark::Osu(kind) => osu::about(kind),
            Benchmark::OsuNonBlocking(_) => "the same, non-blocking: how much of it computation hides (OSU Micro-Benchmarks)",
            Benchmark::Imb => "PingPong, Allreduce, Alltoall, Bcast … among the ranks of several nodes (Intel MPI Benchmarks)",
            Benchmark::Stream => "frames from one rank to all others at a rate, by several algorithms of MPI_Bcast",
            Benchmark::Training => "data-parallel training that exchanges parameters by MPI_Bcast, every rank a source in turn",
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
        Benchmark::Stream => stream::prepare(benchmark.name(), benchmark.about(), args, target),
        Benchmark::Training => training::prepare(benchmark.name(), benchmark.about(), args, target),
    }
}
