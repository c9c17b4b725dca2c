//! What a rank of an application does in an iteration, as data: computation, messages to neighbours, collective operations, one-sided ones.
//!
//! Modelled: steps one after the other; messages that computation hides as far as the library moves them meanwhile; operations that begin
//! and are waited for later, by the library or by workers on a DPU; communicators that are parts of the job; how much passes through other
//! data before the same data are touched again.
//! Not modelled: threads of a rank that communicate, steps that depend on data.

use fabriscope_collectives::{Group, Kind};
use fabriscope_units::Bytes;

/// The steps of a rank, made one at a time.
pub type Steps = Box<dyn Iterator<Item = Step> + Send>;

/// An application on so many ranks.
pub trait Program: Send + Sync {
    /// What is solved, in one line.
    fn title(&self) -> String;
    /// What `rank` does in an iteration.
    fn steps(&self, rank: u32) -> Steps;
    /// What iterations add up to.
    fn whole(&self) -> Whole;
    /// What the program prints of its speed, in its own form; nothing where it prints none.
    fn log(&self, _ran: &Ran) -> String {
        String::new()
    }
    /// How much more its ranks compute than the problem has, where they do not divide it.
    fn filled_up(&self) -> f64 {
        1.0
    }
    /// What of it workers on a DPU can carry out.
    fn hands_over(&self) -> Handed {
        Handed::Nothing
    }
    /// Ranks of a communicator of which each talks to all others outside of iterations; that takes time where connections are made then.
    fn meets(&self) -> u32 {
        1
    }
}

/// What of a program goes on beside its computation, so that workers on a DPU can carry it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handed {
    /// Nothing.
    Nothing,
    /// Collective operations that begin and are waited for later.
    Collectives,
    /// Reads and writes of windows, with all other messages.
    OneSided,
}

/// A run, as the program that is modelled would tell it at its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// Ranks, and threads of each.
    pub ranks: u32,
    /// Threads of each rank.
    pub threads: u32,
    /// The whole run, without connections (s).
    pub seconds: f64,
    /// Iterations of it.
    pub iterations: u64,
    /// Computation and calls: name, how often in the run, and for how long (s), means over ranks.
    pub calls: Vec<(&'static str, f64, f64)>,
}

/// What iterations add up to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Whole {
    /// Iterations of the run that people time.
    pub iterations: u64,
    /// What the program prints as its own measure of speed, where it does.
    pub merit: Option<Merit>,
}

/// A speed: work of an iteration over its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Merit {
    /// What the program calls it.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What an iteration does, in that unit times seconds.
    pub work: f64,
}

/// What is called, and what a profile of MPI would show the time under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Between the calls.
    Compute,
    /// `MPI_Isend`, `MPI_Irecv` and `MPI_Waitall`, or `MPI_Sendrecv`.
    Waitall,
    /// `MPI_Alltoallv` of unequal blocks.
    Alltoallv,
    /// `MPI_Get` and its flush.
    Get,
    /// `MPI_Put` and its flush.
    Put,
    /// `MPI_Wait` for what workers on a DPU compute.
    Wait,
    /// A collective operation.
    Collective(Kind),
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Computation.
    Work(Work),
    /// Messages to some ranks and from some.
    Exchange(Exchange),
    /// An operation of a communicator.
    Collective(Collective),
    /// Reads and writes of other ranks' windows.
    OneSided(OneSided),
    /// Something begins that goes on beside what follows.
    Begin(Begun),
    /// The first that began, and has not been waited for, is waited for.
    Finish,
    /// What workers on a DPU compute, handed over at once and then waited for.
    Products(Vec<Product>),
}

/// What begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// A non-blocking collective operation.
    Collective(Collective),
    /// Reads or writes of windows.
    OneSided(OneSided),
}

/// What a worker on a DPU computes by itself: it reads others' windows, computes, and writes the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Product {
    /// Whose windows, and how much.
    pub gets: Vec<(u32, Bytes)>,
    /// On the worker's core.
    pub work: Work,
    /// Whose window, and how much.
    pub put: (u32, Bytes),
}

/// Computation by all threads of a rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Operations on floating-point numbers.
    pub flops: u64,
    /// Between memory and cores, or caches and cores where `footprint` lies in them.
    pub bytes: Bytes,
    /// What it goes through before it comes back to the same data.
    pub footprint: Bytes,
}

/// Messages that are posted together and waited for together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exchange {
    /// From whom, and how much; of one rank in the order of its sends.
    pub receives: Vec<(u32, Bytes)>,
    /// To whom, and how much.
    pub sends: Vec<(u32, Bytes)>,
    /// Copied into messages before they go, and out of them afterwards: each way.
    pub packed: Bytes,
    /// Computed between post and wait.
    pub meanwhile: Option<Work>,
    /// Whether it is an `MPI_Alltoallv` of unequal blocks.
    pub is_alltoallv: bool,
}

/// An operation of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collective {
    /// Which one.
    pub operation: Kind,
    /// The ranks of the communicator in order.
    pub group: Group,
    /// Which of them calls.
    pub index: u32,
    /// Which of them is the root, where there is one.
    pub root: u32,
    /// The buffer; of operations on blocks, the block of a rank.
    pub size: Bytes,
    /// Length of an element.
    pub width: Bytes,
}

/// Reads and writes of windows, each flushed when all are posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneSided {
    /// Whether data come here, or go there.
    pub is_get: bool,
    /// Whose window, and how much.
    pub parts: Vec<(u32, Bytes)>,
}

impl Collective {
    /// `MPI_Allreduce` of so many doubles among all ranks.
    #[must_use]
    pub fn all_reduce(rank: u32, ranks: u32, doubles: u32) -> Collective {
        let size = Bytes(DOUBLE * u64::from(doubles));
        let group = Group::regular(0, 1, ranks);
        Collective { operation: Kind::Allreduce, group, index: rank, root: 0, size, width: Bytes(DOUBLE) }
    }
    /// `MPI_Barrier` of all ranks.
    #[must_use]
    pub fn barrier(rank: u32, ranks: u32) -> Collective {
        let group = Group::regular(0, 1, ranks);
        Collective { operation: Kind::Barrier, group, index: rank, root: 0, size: Bytes::ZERO, width: Bytes(1) }
    }
}

impl Exchange {
    /// Messages of equal length both ways with each of these ranks, copied out of an array and into it.
    #[must_use]
    pub fn with(neighbours: Vec<(u32, Bytes)>) -> Exchange {
        let packed = Bytes(neighbours.iter().map(|(_, bytes)| bytes.0).sum());
        Exchange { receives: neighbours.clone(), sends: neighbours, packed, ..Exchange::default() }
    }
    /// The same while `work` is done.
    #[must_use]
    pub fn beside(self, work: Work) -> Exchange {
        Exchange { meanwhile: Some(work), ..self }
    }
}

impl Phase {
    /// Every one.
    pub fn all() -> impl Iterator<Item = Phase> {
        let own = [Phase::Compute, Phase::Waitall, Phase::Alltoallv, Phase::Get, Phase::Put, Phase::Wait];
        own.into_iter().chain(Kind::ALL.into_iter().map(Phase::Collective))
    }
    /// Its place among [`Phase::all`].
    #[must_use]
    pub fn index(self) -> usize {
        Phase::all().position(|phase| phase == self).expect("all of them are listed")
    }
    /// What a profile calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Compute => "compute",
            Phase::Waitall => "MPI_Waitall",
            Phase::Alltoallv | Phase::Collective(Kind::Alltoallv) => "MPI_Alltoallv",
            Phase::Get => "MPI_Get",
            Phase::Put => "MPI_Put",
            Phase::Wait => "MPI_Wait",
            Phase::Collective(kind) => match kind {
                Kind::Barrier => "MPI_Barrier",
                Kind::Bcast => "MPI_Bcast",
                Kind::Reduce => "MPI_Reduce",
                Kind::Allreduce => "MPI_Allreduce",
                Kind::ReduceScatter => "MPI_Reduce_scatter",
                Kind::ReduceScatterBlock => "MPI_Reduce_scatter_block",
                Kind::Allgather => "MPI_Allgather",
                Kind::Allgatherv => "MPI_Allgatherv",
                Kind::Gather => "MPI_Gather",
                Kind::Gatherv => "MPI_Gatherv",
                Kind::Scatter => "MPI_Scatter",
                Kind::Scatterv => "MPI_Scatterv",
                Kind::Alltoall => "MPI_Alltoall",
                Kind::Alltoallv => "MPI_Alltoallv",
                Kind::Scan => "MPI_Scan",
                Kind::Exscan => "MPI_Exscan",
            },
        }
    }
}

/// An IEEE double. Basis: standard.
pub const DOUBLE: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_know_their_places() {
        for (index, phase) in Phase::all().enumerate() {
            assert_eq!(phase.index(), index);
        }
        assert_eq!(Phase::Collective(Kind::Allreduce).name(), "MPI_Allreduce");
    }
}
