//! Algorithms of all operations by name, and a call of one as a program makes it.

use std::fmt;

use fabriscope_units::Bytes;

use crate::alltoall;
use crate::kind::Kind;
use crate::round::Rounds;

/// A call of an operation by all ranks of a job, with equal blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The operation.
    pub operation: Kind,
    /// Ranks of the job.
    pub ranks: u32,
    /// Of them on each node, which they fill one after the other.
    pub per_node: u32,
    /// The root, where there is one.
    pub root: u32,
    /// The buffer; of operations on blocks, the block of a rank.
    pub size: Bytes,
    /// Length of an element; a reduction does not split it.
    pub width: Bytes,
}

/// How an operation is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Algorithm {
    /// `MPI_Alltoall`.
    Alltoall(alltoall::Algorithm),
}

/// A name that no algorithm of the operation has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no algorithm `{name}` for {operation}")]
pub struct UnknownAlgorithm {
    /// The name.
    pub name: String,
    /// For what.
    pub operation: Kind,
}

impl UnknownAlgorithm {
    /// What to do.
    #[must_use]
    pub fn remedy(&self) -> String {
        format!("use one of {}", Algorithm::known(self.operation))
    }
}

impl Call {
    /// Whether there is something to do although nobody has data.
    #[must_use]
    pub fn works_on_nothing(&self) -> bool {
        self.operation == Kind::Barrier
    }
    /// What the buffers of a rank hold together.
    #[must_use]
    pub fn footprint(&self) -> Bytes {
        let all = self.size * u64::from(self.ranks);
        match self.operation.family() {
            Kind::Barrier => Bytes::ZERO,
            Kind::Bcast => self.size,
            Kind::Alltoall => all * 2,
            Kind::Allgather | Kind::Gather | Kind::Scatter => all + self.size,
            _ => self.size * 2,
        }
    }
}

impl Algorithm {
    /// The algorithm of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn named(operation: Kind, name: &str) -> Result<Algorithm, UnknownAlgorithm> {
        let found = match operation.family() {
            Kind::Alltoall => alltoall::Algorithm::named(name).map(Algorithm::Alltoall),
            _ => None,
        };
        found.ok_or_else(|| UnknownAlgorithm { name: name.to_owned(), operation })
    }
    /// The names for an operation, for help.
    #[must_use]
    pub fn known(operation: Kind) -> &'static str {
        match operation.family() {
            Kind::Alltoall => alltoall::KNOWN,
            _ => "",
        }
    }
    /// What `rank` does.
    #[must_use]
    pub fn rounds(&self, call: &Call, rank: u32) -> Rounds {
        match *self {
            Algorithm::Alltoall(algorithm) => Box::new(algorithm.rounds(rank, call.ranks, call.size)),
        }
    }
    /// The ranks that `rank` talks to, in order.
    #[must_use]
    pub fn peers(&self, call: &Call, rank: u32) -> Vec<u32> {
        let mut peers: Vec<u32> = self.rounds(call, rank).flat_map(|round| round.peers().collect::<Vec<_>>()).collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Algorithm::Alltoall(algorithm) => algorithm.fmt(f),
        }
    }
}
