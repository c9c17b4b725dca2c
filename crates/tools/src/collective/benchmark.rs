//! The benchmarks, one row each: an operation of MPI has one row, which is two programs.

use fabriscope_collectives::Kind;
use fabriscope_tool::arguments::Opt;
use fabriscope_tool::{Measures, Operation, PerNode, Ranks, SizeOption, Suite, Traits};

use super::{osu, stream, training};

/// A collective operation as the OSU Micro-Benchmarks have it.
#[derive(Debug, PartialEq, Eq)]
pub struct OsuOperation {
    /// Which.
    pub kind: Kind,
    /// The program that waits inside the call.
    name: &'static str,
    /// The one that computes between the call and the wait.
    non_blocking: &'static str,
    about: &'static str,
    /// What the first line of the output calls it.
    title: &'static str,
}

/// How the program calls the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calling {
    /// It waits inside the call.
    Blocking,
    /// It computes between the call and the wait.
    NonBlocking,
}

/// One benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Benchmark {
    /// One of the OSU Micro-Benchmarks.
    Osu(&'static OsuOperation, Calling),
    /// `IMB-MPI1`, which takes the operation as an operand.
    Imb,
    /// `bcast_stream`: frames at a rate from one source.
    Stream,
    /// `bcast_training`: every rank a source in turn.
    Training,
}

macro_rules! row {
    ($kind:ident, $word:literal, $call:literal, $title:literal) => {
        OsuOperation {
            kind: Kind::$kind,
            name: concat!("osu_", $word),
            non_blocking: concat!("osu_i", $word),
            about: concat!($call, " among the ranks of several nodes (OSU Micro-Benchmarks)"),
            title: $title,
        }
    };
}

/// Every operation.
pub static OPERATIONS: &[OsuOperation] = &[
    row!(Allgather, "allgather", "MPI_Allgather", "Allgather"),
    row!(Allgatherv, "allgatherv", "MPI_Allgatherv", "Allgatherv"),
    row!(Allreduce, "allreduce", "MPI_Allreduce", "Allreduce"),
    row!(Alltoall, "alltoall", "MPI_Alltoall", "All-to-All Personalized Exchange"),
    row!(Alltoallv, "alltoallv", "MPI_Alltoallv", "All-to-Allv Personalized Exchange"),
    row!(Barrier, "barrier", "MPI_Barrier", "Barrier"),
    row!(Bcast, "bcast", "MPI_Bcast", "Broadcast"),
    row!(Gather, "gather", "MPI_Gather", "Gather"),
    row!(Gatherv, "gatherv", "MPI_Gatherv", "Gatherv"),
    row!(Reduce, "reduce", "MPI_Reduce", "Reduce"),
    row!(ReduceScatter, "reduce_scatter", "MPI_Reduce_scatter", "Reduce_scatter"),
    row!(ReduceScatterBlock, "reduce_scatter_block", "MPI_Reduce_scatter_block", "Reduce_scatter_block"),
    row!(Scatter, "scatter", "MPI_Scatter", "Scatter"),
    row!(Scatterv, "scatterv", "MPI_Scatterv", "Scatterv"),
];

impl OsuOperation {
    /// The program's name.
    pub(super) fn name(&self, calling: Calling) -> &'static str {
        if calling == Calling::Blocking { self.name } else { self.non_blocking }
    }
    /// What the tool calls itself; `suffix` names the accelerator: `-CUDA`.
    pub(super) fn title(&self, calling: Calling, suffix: &str) -> String {
        let form = match (calling, self.kind) {
            (Calling::Blocking, _) => "",
            // As the tool writes it.
            (Calling::NonBlocking, Kind::Bcast) => "Non-Blocking ",
            (Calling::NonBlocking, _) => "Non-blocking ",
        };
        format!("OSU MPI{suffix} {form}{} Latency Test", self.title)
    }
}

impl Benchmark {
    /// Every benchmark, in the order of a list.
    pub fn all() -> impl Iterator<Item = Benchmark> {
        let osu = |calling| OPERATIONS.iter().map(move |operation| Benchmark::Osu(operation, calling));
        let others = [Benchmark::Imb, Benchmark::Stream, Benchmark::Training];
        osu(Calling::Blocking).chain(osu(Calling::NonBlocking)).chain(others)
    }
    /// The program's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::Osu(operation, calling) => operation.name(calling),
            Benchmark::Imb => "IMB-MPI1",
            Benchmark::Stream => "bcast_stream",
            Benchmark::Training => "bcast_training",
        }
    }
    /// One line for a list of tools.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Benchmark::Osu(operation, Calling::Blocking) => operation.about,
            Benchmark::Osu(_, Calling::NonBlocking) => "non-blocking: communication/computation overlap (OSU Micro-Benchmarks)",
            Benchmark::Imb => "PingPong, Sendrecv, Allreduce, Alltoall, Bcast … among the ranks of several nodes (Intel MPI Benchmarks)",
            Benchmark::Stream => "frames from one rank to all others at a rate, by several algorithms of MPI_Bcast",
            Benchmark::Training => "data-parallel training that exchanges parameters by MPI_Bcast, every rank a source in turn",
        }
    }
    /// Its options; those of `IMB-MPI1` are words with one dash.
    pub(crate) fn options(self) -> &'static [Opt] {
        match self {
            Benchmark::Osu(..) => osu::OPTIONS,
            Benchmark::Imb => &[],
            Benchmark::Stream => stream::OPTIONS,
            Benchmark::Training => training::OPTIONS,
        }
    }
    /// What the program is.
    #[must_use]
    pub fn traits(self) -> Traits {
        let broadcasts = Traits { sizes: SizeOption::Fixed, ..Traits::new(Suite::Single, Operation::Collective(Kind::Bcast)) };
        let traits = match self {
            Benchmark::Osu(operation, calling) => Traits {
                measures: if calling == Calling::Blocking { Measures::Latency } else { Measures::Overlap },
                sizes: if operation.kind == Kind::Barrier { SizeOption::Fixed } else { SizeOption::Range },
                ..Traits::new(Suite::Omb, Operation::Collective(operation.kind))
            },
            Benchmark::Imb => Traits { sizes: SizeOption::Powers, ..Traits::new(Suite::Imb, Operation::AnyCollective) },
            Benchmark::Stream => Traits { sizes: SizeOption::Range, measures: Measures::Rate, ..broadcasts },
            Benchmark::Training => broadcasts,
        };
        Traits { ranks: Ranks::Job(PerNode::Cores), ..traits }
    }
}
