//! What is wrong with a request.

use crate::algorithm::{Algorithm, Operation, Protocol};

/// Why there are no channels, no choice or no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum NcclError {
    /// An unknown architecture of a GPU.
    #[error("`{0}` is no architecture of a GPU")]
    #[diagnostic(help("use one as sm_90 or gfx90a"))]
    Architecture(String),
    /// An unknown processor.
    #[error("`{0}` is no kind of processor")]
    #[diagnostic(help("use intel-broadwell, intel-skylake, amd, arm or power"))]
    Processor(String),
    /// A node without GPUs.
    #[error("a node of the communicator has no GPU")]
    #[diagnostic(help("give each at least 1"))]
    NoGpu,
    /// More GPUs in a node than the library counts.
    #[error("{gpus} GPUs in a node, and the library counts {most} at most")]
    #[diagnostic(help("use fewer"))]
    ManyGpus {
        /// How many.
        gpus: usize,
        /// How many it takes.
        most: usize,
    },
    /// Facts for another number of adapters than the machine has.
    #[error("the machine has {machine} adapters, and facts were given for {facts}")]
    #[diagnostic(help("give one for each"))]
    Adapters {
        /// Of the machine.
        machine: usize,
        /// Given.
        facts: usize,
    },
    /// No processor leads to a GPU.
    #[error("no way leads from `{0}` to a processor")]
    #[diagnostic(help("add the link that is missing"))]
    Apart(String),
    /// Several nodes, and one of them has no adapter.
    #[error("a node of the communicator has no adapter, and there are {0} nodes")]
    #[diagnostic(help("give each an adapter, or use one node"))]
    NoAdapter(usize),
    /// An empty communicator.
    #[error("a communicator without ranks")]
    #[diagnostic(help("use at least 1"))]
    Empty,
    /// A seat that does not exist, or is taken twice.
    #[error("rank {rank} is on GPU {gpu} of node {node}, which is not there or taken")]
    #[diagnostic(help("each rank needs a GPU of its own"))]
    Seat {
        /// The rank.
        rank: u32,
        /// Its node.
        node: u32,
        /// The GPU of the node.
        gpu: u32,
    },
    /// A root that is no rank.
    #[error("root {root} of {ranks} ranks")]
    #[diagnostic(help("use 0 to {last}", last = ranks - 1))]
    Root {
        /// The root.
        root: u32,
        /// How many ranks there are.
        ranks: u32,
    },
    /// A variable that cannot be read.
    #[error("{name}={value}: {what}")]
    Variable {
        /// Its name.
        name: String,
        /// What it was set to.
        value: String,
        /// What is wrong and what to write.
        what: String,
    },
    /// A line of a tuner's file that cannot be read.
    #[error("{file}:{line}: {what}")]
    TunerLine {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong and what to write.
        what: String,
    },
    /// Nothing is left to choose from.
    #[error("{operation} has no algorithm left: NCCL_ALGO and NCCL_PROTO leave none that it can use here")]
    #[diagnostic(help("leave one of them out"))]
    NoAlgorithm {
        /// What was asked for.
        operation: Operation,
    },
    /// A choice that the operation or the nodes do not have.
    #[error("{operation} by {algorithm} with {protocol} is not there in this communicator")]
    #[diagnostic(help("the printed table shows what is"))]
    NotThere {
        /// What was asked for.
        operation: Operation,
        /// By which algorithm.
        algorithm: Algorithm,
        /// With which protocol.
        protocol: Protocol,
    },
}
