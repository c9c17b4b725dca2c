//! Why a run did not happen or did not end.

use fabriscope_units::Time;

use crate::support::Unsupported;

/// A refused or failed run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum EngineError {
    /// The engine has no model of something that the job needs.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A rank sits on a node that the cluster does not have.
    #[error("rank {rank} is placed on node {node}, but the cluster has {nodes} nodes")]
    #[diagnostic(help("use fewer ranks or more nodes"))]
    NoSuchNode {
        /// The rank.
        rank: u32,
        /// Its node.
        node: u32,
        /// Nodes of the cluster.
        nodes: u32,
    },
    /// A schedule has more ranks than there is room for at the cluster's adapters.
    #[error("{ranks} ranks need a place each, but the cluster's adapters have {adapters}")]
    #[diagnostic(help("use fewer ranks or more nodes"))]
    TooManyRanks {
        /// Ranks of the schedule.
        ranks: u32,
        /// Adapters of the cluster, times the ranks that share one.
        adapters: u32,
    },
    /// The schedule is not consistent.
    #[error("the schedule cannot run: {0}")]
    Schedule(String),
    /// A program ended with an error.
    #[error("rank {rank} stopped at {at}: {message}")]
    Program {
        /// The rank.
        rank: u32,
        /// Its clock.
        at: Time,
        /// What it said.
        message: String,
    },
    /// Nothing is left to happen, but ranks are still waiting.
    #[error("nothing is left to happen at {at}, but {waiting} of {ranks} ranks still wait:\n{who}")]
    Stalled {
        /// When the last event happened.
        at: Time,
        /// Ranks that wait.
        waiting: usize,
        /// All ranks.
        ranks: usize,
        /// Who waits for what, a line each, the first twenty.
        who: String,
    },
    /// A network operation failed in a run that has no program to handle it.
    #[error("rank {rank}: a transfer ended with {status}")]
    #[diagnostic(help("{help}"))]
    Transfer {
        /// The rank that sees the error.
        rank: u32,
        /// The completion status.
        status: String,
        /// What to do.
        help: String,
    },
    /// The routing can deadlock, or nobody knows.
    #[error("the routing `{routing}` {verdict}\nchoose another routing, or allow_deadlock = true to see what happens")]
    Deadlock {
        /// The routing.
        routing: String,
        /// What the check says.
        verdict: String,
    },
    /// The program around the library ended the run.
    #[error("the run was stopped when its clock stood at {at}")]
    Stopped {
        /// How far it had come.
        at: Time,
    },
    /// More than the engine can number.
    #[error("{what}: {count} is more than the {limit} that the engine can number")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        count: u64,
        /// How many there may be.
        limit: u64,
    },
    /// The verbs layer refused a set-up call.
    #[error("setting up queue pairs failed: {0}")]
    Setup(String),
}
