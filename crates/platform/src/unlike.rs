//! Why a program does not run between some nodes.

/// Nodes between which a program cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Unlike {
    /// What keeps them apart.
    pub what: String,
}
