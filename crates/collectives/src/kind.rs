//! The collective operations of MPI by name.

use std::fmt;

/// A collective operation, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast`.
    Bcast,
    /// `MPI_Reduce`.
    Reduce,
    /// `MPI_Allreduce`.
    Allreduce,
    /// `MPI_Reduce_scatter`.
    ReduceScatter,
    /// `MPI_Reduce_scatter_block`.
    ReduceScatterBlock,
    /// `MPI_Allgather`.
    Allgather,
    /// `MPI_Allgatherv`.
    Allgatherv,
    /// `MPI_Gather`.
    Gather,
    /// `MPI_Gatherv`.
    Gatherv,
    /// `MPI_Scatter`.
    Scatter,
    /// `MPI_Scatterv`.
    Scatterv,
    /// `MPI_Alltoall`.
    Alltoall,
    /// `MPI_Alltoallv`.
    Alltoallv,
    /// `MPI_Scan`.
    Scan,
    /// `MPI_Exscan`.
    Exscan,
}

impl Kind {
    /// Every one.
    pub const ALL: [Kind; 16] = [
        Kind::Barrier,
        Kind::Bcast,
        Kind::Reduce,
        Kind::Allreduce,
        Kind::ReduceScatter,
        Kind::ReduceScatterBlock,
        Kind::Allgather,
        Kind::Allgatherv,
        Kind::Gather,
        Kind::Gatherv,
        Kind::Scatter,
        Kind::Scatterv,
        Kind::Alltoall,
        Kind::Alltoallv,
        Kind::Scan,
        Kind::Exscan,
    ];

    /// The word in files and in the names of benchmarks: `allreduce`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Barrier => "barrier",
            Kind::Bcast => "bcast",
            Kind::Reduce => "reduce",
            Kind::Allreduce => "allreduce",
            Kind::ReduceScatter => "reduce_scatter",
            Kind::ReduceScatterBlock => "reduce_scatter_block",
            Kind::Allgather => "allgather",
            Kind::Allgatherv => "allgatherv",
            Kind::Gather => "gather",
            Kind::Gatherv => "gatherv",
            Kind::Scatter => "scatter",
            Kind::Scatterv => "scatterv",
            Kind::Alltoall => "alltoall",
            Kind::Alltoallv => "alltoallv",
            Kind::Scan => "scan",
            Kind::Exscan => "exscan",
        }
    }
    /// The operation of this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.word() == word)
    }
    /// The operation whose algorithms it takes: that with equal blocks.
    #[must_use]
    pub fn family(self) -> Kind {
        match self {
            Kind::ReduceScatterBlock => Kind::ReduceScatter,
            Kind::Allgatherv => Kind::Allgather,
            Kind::Gatherv => Kind::Gather,
            Kind::Scatterv => Kind::Scatter,
            Kind::Alltoallv => Kind::Alltoall,
            Kind::Exscan => Kind::Scan,
            other => other,
        }
    }
    /// Whether one rank is the root.
    #[must_use]
    pub fn has_root(self) -> bool {
        matches!(self.family(), Kind::Bcast | Kind::Reduce | Kind::Gather | Kind::Scatter)
    }
    /// Whether data is reduced.
    #[must_use]
    pub fn reduces(self) -> bool {
        matches!(self.family(), Kind::Reduce | Kind::Allreduce | Kind::ReduceScatter | Kind::Scan)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
