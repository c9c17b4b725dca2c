//! Algorithms of all operations by name, and a call of one as a program makes it.

use std::fmt;

use fabriscope_units::Bytes;

use crate::blocks::{Blocks, Vector};
use crate::group::Nodes;
use crate::kind::Kind;
use crate::operation::Operation;
use crate::proof::{Flaw, Proof, prove};
use crate::round::{Outline, Outlines, Rounds};
use crate::{allgather, allreduce, alltoall, barrier, bcast, gather, reduce, reduce_scatter, scan, scatter, two_level};

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
    /// `MPI_Allgather` and `MPI_Allgatherv`.
    Allgather(allgather::Algorithm),
    /// `MPI_Allreduce`.
    Allreduce(allreduce::Algorithm),
    /// `MPI_Alltoall` and `MPI_Alltoallv`.
    Alltoall(alltoall::Algorithm),
    /// `MPI_Barrier`.
    Barrier(barrier::Algorithm),
    /// `MPI_Bcast`.
    Bcast(bcast::Algorithm),
    /// `MPI_Gather` and `MPI_Gatherv`.
    Gather(gather::Algorithm),
    /// `MPI_Reduce`.
    Reduce(reduce::Algorithm),
    /// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`.
    ReduceScatter(reduce_scatter::Algorithm),
    /// `MPI_Scan` and `MPI_Exscan`.
    Scan(scan::Algorithm),
    /// `MPI_Scatter` and `MPI_Scatterv`.
    Scatter(scatter::Algorithm),
    /// Within the nodes and among their leaders.
    TwoLevel(TwoLevel),
}

/// An algorithm of ranks that know who shares their node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TwoLevel {
    /// `MPI_Allgather` and `MPI_Allgatherv`.
    Allgather(two_level::Allgather),
    /// `MPI_Allreduce`.
    Allreduce(two_level::Allreduce),
    /// `MPI_Alltoall` and `MPI_Alltoallv`.
    Alltoall(two_level::Alltoall),
    /// `MPI_Barrier`.
    Barrier(two_level::Barrier),
    /// `MPI_Bcast`.
    Bcast(two_level::Bcast),
    /// `MPI_Gather` and `MPI_Gatherv`.
    Gather(two_level::Gather),
    /// What the switches do.
    InNetwork(two_level::InNetwork),
    /// `MPI_Allreduce` with several leaders a node.
    MultiLeader(two_level::MultiLeader),
    /// `MPI_Reduce`.
    Reduce(two_level::Reduce),
    /// `MPI_Scatter` and `MPI_Scatterv`.
    Scatter(two_level::Scatter),
}

/// A name that no algorithm of the operation has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[error("there is no algorithm `{name}` for {operation}")]
#[diagnostic(help("use one of {}", Algorithm::known(*operation)))]
pub struct UnknownAlgorithm {
    /// The name.
    pub name: String,
    /// For what.
    pub operation: Kind,
}

impl Call {
    /// Whether there is something to do although nobody has data.
    #[must_use]
    pub fn works_on_nothing(&self) -> bool {
        self.operation == Kind::Barrier
    }
    /// What has to be where when it is over.
    #[must_use]
    pub fn goal(&self) -> Operation {
        let Call { operation, ranks, root, size, width, .. } = *self;
        let vector = Vector { count: size.0 / width.0.max(1), width };
        let (whole, evenly) = (vector.blocks(ranks), Blocks::Even { ranks, block: size });
        match operation {
            Kind::Barrier => Operation::Barrier,
            Kind::Bcast => Operation::Bcast { root, blocks: whole },
            Kind::Reduce => Operation::Reduce { root, blocks: whole },
            Kind::Allreduce => Operation::Allreduce { blocks: whole },
            Kind::ReduceScatter => Operation::ReduceScatter { blocks: whole },
            Kind::ReduceScatterBlock => Operation::ReduceScatter { blocks: evenly },
            Kind::Allgather | Kind::Allgatherv => Operation::Allgather { blocks: evenly },
            Kind::Gather | Kind::Gatherv => Operation::Gather { root, blocks: evenly },
            Kind::Scatter | Kind::Scatterv => Operation::Scatter { root, blocks: evenly },
            Kind::Alltoall | Kind::Alltoallv => Operation::Alltoall { sends: vec![evenly; ranks as usize] },
            Kind::Scan | Kind::Exscan => Operation::Scan { blocks: whole, exclusive: operation == Kind::Exscan },
        }
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
            Kind::Allgather => allgather::Algorithm::named(name).map(Algorithm::Allgather),
            Kind::Allreduce => allreduce::Algorithm::named(name).map(Algorithm::Allreduce),
            Kind::Alltoall => alltoall::Algorithm::named(name).map(Algorithm::Alltoall),
            Kind::Barrier => barrier::Algorithm::named(name).map(Algorithm::Barrier),
            Kind::Bcast => bcast::Algorithm::named(name).map(Algorithm::Bcast),
            Kind::Gather => gather::Algorithm::named(name).map(Algorithm::Gather),
            Kind::Reduce => reduce::Algorithm::named(name).map(Algorithm::Reduce),
            Kind::ReduceScatter => reduce_scatter::Algorithm::named(name).map(Algorithm::ReduceScatter),
            Kind::Scan => scan::Algorithm::named(name).map(Algorithm::Scan),
            Kind::Scatter => scatter::Algorithm::named(name).map(Algorithm::Scatter),
            _ => None,
        };
        let two_level = || match operation.family() {
            Kind::Allgather => two_level::Allgather::named(name).map(TwoLevel::Allgather),
            Kind::Allreduce => {
                let one = || two_level::Allreduce::named(name).map(TwoLevel::Allreduce);
                two_level::MultiLeader::named(name).map(TwoLevel::MultiLeader).or_else(one)
            }
            Kind::Alltoall => two_level::Alltoall::named(name).map(TwoLevel::Alltoall),
            Kind::Reduce => two_level::Reduce::named(name).map(TwoLevel::Reduce),
            Kind::Barrier => two_level::Barrier::named(name).map(TwoLevel::Barrier),
            Kind::Bcast => two_level::Bcast::named(name).map(TwoLevel::Bcast),
            Kind::Gather => two_level::Gather::named(name).map(TwoLevel::Gather),
            Kind::Scatter => two_level::Scatter::named(name).map(TwoLevel::Scatter),
            _ => None,
        };
        let in_network = || two_level::InNetwork::named(name).filter(|_| two_level::InNetwork::does(operation)).map(TwoLevel::InNetwork);
        let found = found.or_else(|| two_level().or_else(in_network).map(Algorithm::TwoLevel));
        found.ok_or_else(|| UnknownAlgorithm { name: name.to_owned(), operation })
    }
    /// The names for an operation, for help.
    #[must_use]
    pub fn known(operation: Kind) -> String {
        let flat = match operation.family() {
            Kind::Allgather => allgather::Algorithm::names(),
            Kind::Allreduce => allreduce::Algorithm::names(),
            Kind::Alltoall => alltoall::Algorithm::names(),
            Kind::Barrier => barrier::Algorithm::names(),
            Kind::Bcast => bcast::Algorithm::names(),
            Kind::Gather => gather::Algorithm::names(),
            Kind::Reduce => reduce::Algorithm::names(),
            Kind::ReduceScatter => reduce_scatter::Algorithm::names(),
            Kind::Scan => scan::Algorithm::names(),
            Kind::Scatter => scatter::Algorithm::names(),
            _ => String::new(),
        };
        match operation.family() {
            Kind::Allreduce => {
                format!("{flat}, two_level(reduce, outer, bcast), multi_leader(leaders, outer), {}", two_level::InNetwork::NAMES)
            }
            Kind::Barrier | Kind::Bcast | Kind::Reduce => format!("{flat}, two_level(inner, outer), {}", two_level::InNetwork::NAMES),
            Kind::Alltoall => format!("{flat}, two_level(gather, outer, scatter), partners"),
            Kind::ReduceScatter | Kind::Scan => flat,
            _ => format!("{flat}, two_level(inner, outer)"),
        }
    }
    /// The algorithms of an operation with their usual parameters, but those of two levels and in the network, which have none.
    #[must_use]
    pub fn usual(operation: Kind) -> Vec<Algorithm> {
        fn each<A: Copy>(all: &[A], of: fn(A) -> Algorithm) -> Vec<Algorithm> {
            all.iter().copied().map(of).collect()
        }
        match operation.family() {
            Kind::Allgather => each(allgather::Algorithm::ALL, Algorithm::Allgather),
            Kind::Allreduce => each(allreduce::Algorithm::ALL, Algorithm::Allreduce),
            Kind::Alltoall => each(alltoall::Algorithm::ALL, Algorithm::Alltoall),
            Kind::Barrier => each(barrier::Algorithm::ALL, Algorithm::Barrier),
            Kind::Bcast => each(bcast::Algorithm::ALL, Algorithm::Bcast),
            Kind::Gather => each(gather::Algorithm::ALL, Algorithm::Gather),
            Kind::Reduce => each(reduce::Algorithm::ALL, Algorithm::Reduce),
            Kind::ReduceScatter => each(reduce_scatter::Algorithm::ALL, Algorithm::ReduceScatter),
            Kind::Scan => each(scan::Algorithm::ALL, Algorithm::Scan),
            Kind::Scatter => each(scatter::Algorithm::ALL, Algorithm::Scatter),
            _ => Vec::new(),
        }
    }
    /// Carries the call out on symbols: every byte that should be there is there.
    ///
    /// # Errors
    /// As [`prove`]; more ranks than it can follow.
    pub fn proof(&self, call: &Call) -> Result<Proof, Flaw> {
        prove(&call.goal(), call.ranks, |rank| self.rounds(call, rank))
    }
    /// What `rank` does.
    #[must_use]
    pub fn rounds(&self, call: &Call, rank: u32) -> Rounds {
        let Call { operation, ranks, root, size, width, .. } = *call;
        let vector = Vector { count: size.0 / width.0.max(1), width };
        let evenly = Blocks::Even { ranks, block: size };
        match *self {
            Algorithm::Allgather(algorithm) => algorithm.rounds(rank, ranks, evenly),
            Algorithm::Allreduce(algorithm) => algorithm.rounds(rank, ranks, vector),
            Algorithm::Alltoall(algorithm) if operation == Kind::Alltoallv => algorithm.rounds_of(rank, evenly.clone(), evenly),
            Algorithm::Alltoall(algorithm) => algorithm.rounds(rank, ranks, size),
            Algorithm::Barrier(algorithm) => algorithm.rounds(rank, ranks),
            Algorithm::Bcast(algorithm) => algorithm.rounds(rank, ranks, root, vector),
            Algorithm::Gather(algorithm) => algorithm.rounds(rank, ranks, root, evenly),
            Algorithm::Reduce(algorithm) => algorithm.rounds(rank, ranks, root, vector),
            Algorithm::ReduceScatter(algorithm) if operation == Kind::ReduceScatterBlock => algorithm.rounds(rank, ranks, evenly),
            Algorithm::ReduceScatter(algorithm) => algorithm.rounds(rank, ranks, vector.blocks(ranks)),
            Algorithm::Scan(algorithm) => algorithm.rounds(rank, ranks, vector, operation == Kind::Exscan),
            Algorithm::Scatter(algorithm) => algorithm.rounds(rank, ranks, root, evenly),
            Algorithm::TwoLevel(algorithm) => {
                let nodes = Nodes::filled(ranks, call.per_node);
                match algorithm {
                    TwoLevel::Allgather(algorithm) => algorithm.rounds(rank, &nodes, evenly),
                    TwoLevel::Allreduce(algorithm) => algorithm.rounds(rank, &nodes, vector),
                    TwoLevel::Alltoall(algorithm) => algorithm.rounds(rank, &nodes, size),
                    TwoLevel::Barrier(algorithm) => algorithm.rounds(rank, &nodes),
                    TwoLevel::Bcast(algorithm) => algorithm.rounds(rank, &nodes, root, vector),
                    TwoLevel::Gather(algorithm) => algorithm.rounds(rank, &nodes, root, evenly),
                    TwoLevel::InNetwork(algorithm) => algorithm.rounds(operation, rank, &nodes, root, vector),
                    TwoLevel::MultiLeader(algorithm) => algorithm.rounds(rank, &nodes, vector),
                    TwoLevel::Reduce(algorithm) => algorithm.rounds(rank, &nodes, root, vector),
                    TwoLevel::Scatter(algorithm) => algorithm.rounds(rank, &nodes, root, evenly),
                }
            }
        }
    }
    /// The same with the sums of moves, without making the moves where there are many.
    #[must_use]
    pub fn outlines(&self, call: &Call, rank: u32) -> Outlines {
        let known = match *self {
            Algorithm::Alltoall(algorithm) if call.operation == Kind::Alltoall => algorithm.outlines(rank, call.ranks, call.size),
            _ => None,
        };
        known.unwrap_or_else(|| Box::new(self.rounds(call, rank).map(Outline::from)))
    }
    /// Whether switches carry it out.
    #[must_use]
    pub fn is_in_network(&self) -> bool {
        matches!(self, Algorithm::TwoLevel(TwoLevel::InNetwork(_)))
    }
    /// The ranks that `rank` talks to, in order.
    #[must_use]
    pub fn peers(&self, call: &Call, rank: u32) -> Vec<u32> {
        let mut peers: Vec<u32> = self.outlines(call, rank).flat_map(|Outline { round, .. }| round.peers().collect::<Vec<_>>()).collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Algorithm::Allgather(algorithm) => algorithm.fmt(f),
            Algorithm::Allreduce(algorithm) => algorithm.fmt(f),
            Algorithm::Alltoall(algorithm) => algorithm.fmt(f),
            Algorithm::Barrier(algorithm) => algorithm.fmt(f),
            Algorithm::Bcast(algorithm) => algorithm.fmt(f),
            Algorithm::Gather(algorithm) => algorithm.fmt(f),
            Algorithm::Reduce(algorithm) => algorithm.fmt(f),
            Algorithm::ReduceScatter(algorithm) => algorithm.fmt(f),
            Algorithm::Scan(algorithm) => algorithm.fmt(f),
            Algorithm::Scatter(algorithm) => algorithm.fmt(f),
            Algorithm::TwoLevel(algorithm) => algorithm.fmt(f),
        }
    }
}

impl fmt::Display for TwoLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TwoLevel::Allgather(algorithm) => algorithm.fmt(f),
            TwoLevel::Allreduce(algorithm) => algorithm.fmt(f),
            TwoLevel::Alltoall(algorithm) => algorithm.fmt(f),
            TwoLevel::Barrier(algorithm) => algorithm.fmt(f),
            TwoLevel::Bcast(algorithm) => algorithm.fmt(f),
            TwoLevel::Gather(algorithm) => algorithm.fmt(f),
            TwoLevel::InNetwork(algorithm) => algorithm.fmt(f),
            TwoLevel::MultiLeader(algorithm) => algorithm.fmt(f),
            TwoLevel::Reduce(algorithm) => algorithm.fmt(f),
            TwoLevel::Scatter(algorithm) => algorithm.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;
    use crate::Operation;
    use crate::proof::prove;

    fn operation(call: &Call) -> Operation {
        let Call { ranks, root, size, width, .. } = *call;
        let vector = Vector { count: size.0 / width.0, width }.blocks(ranks);
        let evenly = Blocks::Even { ranks, block: size };
        match call.operation {
            Kind::Barrier => Operation::Barrier,
            Kind::Bcast => Operation::Bcast { root, blocks: vector },
            Kind::Reduce => Operation::Reduce { root, blocks: vector },
            Kind::Allreduce => Operation::Allreduce { blocks: vector },
            Kind::ReduceScatter => Operation::ReduceScatter { blocks: vector },
            Kind::ReduceScatterBlock => Operation::ReduceScatter { blocks: evenly },
            Kind::Allgather | Kind::Allgatherv => Operation::Allgather { blocks: evenly },
            Kind::Gather | Kind::Gatherv => Operation::Gather { root, blocks: evenly },
            Kind::Scatter | Kind::Scatterv => Operation::Scatter { root, blocks: evenly },
            Kind::Alltoall | Kind::Alltoallv => Operation::Alltoall { sends: vec![evenly; ranks as usize] },
            Kind::Scan | Kind::Exscan => Operation::Scan { blocks: vector, exclusive: call.operation == Kind::Exscan },
        }
    }

    #[test]
    fn outlines_are_sums_of_rounds() {
        for (ranks, size) in [(1, 3), (2, 8), (6, 8), (8, 1), (13, 5), (32, 2)] {
            let call = Call { operation: Kind::Alltoall, ranks, per_node: 2, root: 0, size: Bytes(size), width: Bytes(1) };
            for name in ["bruck", "pairwise", "posted"] {
                let algorithm = Algorithm::named(Kind::Alltoall, name).unwrap();
                for rank in 0..ranks {
                    let sums: Vec<Outline> = algorithm.rounds(&call, rank).map(Outline::from).collect();
                    assert_eq!(algorithm.outlines(&call, rank).collect::<Vec<_>>(), sums, "{name} of {ranks} ranks");
                }
            }
        }
    }

    /// Every name that help shows, with its own parameters, for every operation: it does what the operation says, and is written as it is read.
    #[test]
    fn names_are_read_written_and_carried_out() {
        for kind in Kind::ALL {
            let known = Algorithm::known(kind);
            let names = crate::names::split(&known).unwrap_or_default();
            let words: Vec<&str> = names.into_iter().map(|name| name.split('(').next().unwrap_or(name)).collect();
            assert!(!words.is_empty(), "{kind}");
            for word in words {
                let Ok(algorithm) = Algorithm::named(kind, word) else { panic!("{kind}: {word}") };
                assert_eq!(Algorithm::named(kind, &algorithm.to_string()), Ok(algorithm.clone()), "{kind}: {word}");
                let width = Bytes(if kind == Kind::ReduceScatterBlock { 3 } else { 1 });
                let call =
                    Call { operation: kind, ranks: 6, per_node: 2, root: if kind.has_root() { 4 } else { 0 }, size: Bytes(9), width };
                let proof = prove(&operation(&call), 6, |rank| algorithm.rounds(&call, rank));
                assert!(proof.is_ok(), "{kind}: {algorithm}: {proof:?}");
            }
        }
        let unknown = Algorithm::named(Kind::Bcast, "carrier_pigeon").unwrap_err();
        assert!(unknown.in_full().contains("; use one of ") && unknown.in_full().contains("binomial"), "{}", unknown.in_full());
    }
}
