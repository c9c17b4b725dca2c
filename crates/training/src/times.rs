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
    /// Everybody sends tokens to the ranks that have their experts; a token crosses to each node once, and goes to its GPUs from there
    /// (DeepEP). The way back adds them up at the same places.
    Tokens {
        /// Experts of all ranks.
        experts: u32,
        /// Those of a token.
        per_token: u32,
    },
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
            Operation::Tokens { .. } => "tokens by node",
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

/// What decides how long an operation takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// Starts, steps and distance, whatever the links carry.
    Latency,
    /// The links between the GPUs of a node.
    ScaleUp,
    /// PCI Express, or what else leads to adapters within a node.
    PciExpress,
    /// Adapters, and their cables to the switches.
    Adapters,
    /// Cables between switches.
    Uplinks,
    /// Blocks of the library's kernels.
    Blocks,
    /// Nobody says.
    Unknown,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bound::Latency => "latency",
            Bound::ScaleUp => "links between GPUs",
            Bound::PciExpress => "PCI Express",
            Bound::Adapters => "adapters",
            Bound::Uplinks => "uplinks of switches",
            Bound::Blocks => "blocks of the kernels",
            Bound::Unknown => "",
        })
    }
}

/// An operation with what its time is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// How long it takes.
    pub span: Span,
    /// What of that does not depend on the bytes.
    pub latency: Span,
    /// What decides.
    pub bound: Bound,
    /// Whether its group lies on several nodes.
    pub leaves_node: bool,
    /// Processors of a GPU that it keeps from computing.
    pub processors: u32,
}

/// Whoever knows how long messages take.
pub trait CommunicationTimes {
    /// Why it cannot say.
    type Error;

    /// The time of an operation in one of the groups, while all the others do the same. `bytes` are those of the larger buffer of a rank,
    /// those that a rank sends in all of [`Operation::AllToAll`] and [`Operation::SendReceive`],
    /// and those of a copy for each expert of [`Operation::Tokens`].
    ///
    /// # Errors
    /// What the cluster cannot do.
    fn time(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<Span, Self::Error>;

    /// Processors of a GPU that the operation keeps from computing while it runs.
    ///
    /// # Errors
    /// What the cluster cannot do.
    fn processors(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<u32, Self::Error>;

    /// The same with what the time is made of, as far as it is known.
    ///
    /// # Errors
    /// What the cluster cannot do.
    fn cost(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<Cost, Self::Error> {
        let span = self.time(operation, bytes, group)?;
        let processors = self.processors(operation, bytes, group)?;
        Ok(Cost { span, latency: Span::ZERO, bound: Bound::Unknown, leaves_node: true, processors })
    }
}
