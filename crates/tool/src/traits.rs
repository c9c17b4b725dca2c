//! What a program is and does, for those who run it, follow its messages or compare it with published tables.

use fabriscope_collectives::Kind;

/// The collection that a program comes from; its programs have the same options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// perftest.
    Perftest,
    /// The OSU Micro-Benchmarks over MPI.
    Omb,
    /// The same over OpenSHMEM.
    OmbShmem,
    /// The same over NCCL and RCCL.
    OmbXccl,
    /// The Intel MPI Benchmarks.
    Imb,
    /// nccl-tests.
    NcclTests,
    /// Programs on sockets of the kernel.
    Sockets,
    /// Programs on the GPUs of a node.
    Gpu,
    /// Exchanges of tokens among experts.
    Experts,
    /// Programs of HCL.
    Hccl,
    /// Operations on a wafer.
    Wafer,
    /// Loads and stores of cores.
    Memory,
    /// Programs on engines of DPUs.
    Dpu,
    /// A program that stands alone.
    Single,
}

/// What an iteration of the program carries out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A send and its receive.
    Message,
    /// An RDMA write.
    Write,
    /// An RDMA read.
    Read,
    /// An atomic operation on an element.
    Atomic,
    /// A put of a library.
    Put,
    /// A get of a library.
    Get,
    /// `MPI_Accumulate`.
    Accumulate,
    /// `MPI_Get_accumulate`.
    GetAccumulate,
    /// `MPI_Fetch_and_op` and `MPI_Compare_and_swap`: an update of one element.
    SingleUpdate,
    /// A collective operation.
    Collective(Kind),
    /// One of several collective operations, which the command line names.
    AnyCollective,
    /// Groups of sends and receives among all ranks.
    Exchange,
    /// Bytes of a TCP connection.
    Stream,
    /// A copy between memories of a node.
    Copy,
    /// An iteration of a solver.
    Iteration,
    /// Compression of what lies in memory, and the way back.
    Compression,
}

/// What the program prints of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measures {
    /// Its time.
    Latency,
    /// Bytes a second.
    Bandwidth,
    /// Messages or operations a second.
    Rate,
    /// How much of it computation hides.
    Overlap,
}

/// Which messages lie between the begin and the end of a measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// One there and an equal one back; the time is half of both.
    PingPong,
    /// A request and its answer.
    RoundTrip,
    /// Others: a window of messages, or single ones whose acknowledgement ends them.
    Other,
}

/// Where the data go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From some ranks to others.
    OneWay,
    /// In both directions; bandwidths count both.
    Bidirectional,
}

/// Which ranks take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranks {
    /// Two, on two nodes or on one.
    Two,
    /// Two on the GPUs of one node.
    TwoOnOneNode,
    /// Pairs, whose number is an option; the halves face each other.
    Pairs,
    /// All of a job; so many on each node unless the command line says otherwise.
    Job(PerNode),
    /// One program on one node.
    One,
}

/// Ranks of a job on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerNode {
    /// One on each core.
    Cores,
    /// One for each GPU.
    Gpus,
    /// One, whose threads have all cores.
    One,
}

/// How the command line names the sizes of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeOption {
    /// `-s SIZE`.
    One,
    /// `-m MIN:MAX`.
    Range,
    /// `-msglog MIN:MAX`, powers of two.
    Powers,
    /// `-b MIN -e MAX`.
    BeginEnd,
    /// It does not: operations are of an element, or have no data.
    Fixed,
}

/// Where the data are unless the command line says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// In the memory of hosts.
    OnHosts,
    /// On GPUs.
    OnGpus,
}

/// What a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// Where it comes from.
    pub suite: Suite,
    /// What it carries out.
    pub operation: Operation,
    /// What it prints.
    pub measures: Measures,
    /// What lies between the ends of a measured time.
    pub exchange: Exchange,
    /// Where the data go.
    pub direction: Direction,
    /// Who takes part.
    pub ranks: Ranks,
    /// How sizes are named.
    pub sizes: SizeOption,
    /// Where data are.
    pub data: Data,
}

impl Traits {
    /// A program of `suite` that measures the time of `operation` between two ranks.
    #[must_use]
    pub const fn new(suite: Suite, operation: Operation) -> Traits {
        Traits {
            suite,
            operation,
            measures: Measures::Latency,
            exchange: Exchange::Other,
            direction: Direction::OneWay,
            ranks: Ranks::Two,
            sizes: SizeOption::Range,
            data: Data::OnHosts,
        }
    }

    /// Whether a measured time is that of messages between two ranks, which can be followed from its begin to its end.
    #[must_use]
    pub const fn is_exchange(&self) -> bool {
        !matches!(self.exchange, Exchange::Other)
    }
    /// Whether the origin alone acts: the target's program takes no part.
    #[must_use]
    pub const fn is_one_sided(&self) -> bool {
        use Operation::{Accumulate, Atomic, Get, GetAccumulate, Put, Read, SingleUpdate, Write};
        matches!(self.operation, Write | Read | Atomic | Put | Get | Accumulate | GetAccumulate | SingleUpdate)
    }
    /// Whether all ranks of a job carry out one operation together.
    #[must_use]
    pub const fn is_collective(&self) -> bool {
        matches!(self.operation, Operation::Collective(_) | Operation::AnyCollective)
    }
}
