//! What a step asks of a cluster: how long a collective operation of a group takes while all groups of its kind run it.

use std::fmt;

use fabriscope_units::{Bytes, Span};

/// What ranks of a group do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Everybody has the sum.
    AllReduce,
    /// Everybody has all parts.
    AllGather,
    /// Everybody has its part of the sum.
    ReduceScatter,
    /// Everybody sends a part to everybody.
    AllToAll,
    /// A rank sends to the next one of its group.
    SendReceive,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::AllReduce => "all-reduce",
            Operation::AllGather => "all-gather",
            Operation::ReduceScatter => "reduce-scatter",
            Operation::AllToAll => "all-to-all",
            Operation::SendReceive => "send-receive",
        })
    }
}

/// A kind of groups that together hold all GPUs of the job: GPU `i · stride + offset` for `i < size`, and so on behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// Ranks of a group.
    pub size: u32,
    /// GPUs from one rank to the next.
    pub stride: u32,
}

/// Whoever knows how long messages take.
pub trait CommunicationTimes {
    /// Why it cannot say.
    type Error;

    /// The time of an operation in one of the groups, while all the others do the same. `bytes` are those of the larger buffer of a rank,
    /// and those that a rank sends in all of [`Operation::AllToAll`] and [`Operation::SendReceive`].
    ///
    /// # Errors
    /// What the cluster cannot do.
    fn time(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<Span, Self::Error>;

    /// Processors of a GPU that the operation keeps from computing while it runs.
    ///
    /// # Errors
    /// What the cluster cannot do.
    fn processors(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<u32, Self::Error>;
}
