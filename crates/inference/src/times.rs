//! What serving asks of a cluster besides operations of groups: tokens to experts and back, keys and values between pools.

use fabriscope_training::{CommunicationTimes, Group};
use fabriscope_units::Rate;
use fabriscope_units::Span;

/// Which half of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Tokens to their experts.
    Dispatch,
    /// Results back, summed.
    Combine,
}

/// How tokens reach their experts (DeepEP's two kinds of kernels).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Once to each node, and on to its experts within it: the fewest bytes, for prompts.
    Throughput,
    /// Straight to each expert: the fewest steps, for tokens that are generated.
    Latency,
}

/// Tokens that go to experts, or come back from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exchange {
    /// There or back.
    pub phase: Phase,
    /// By which way.
    pub mode: Mode,
    /// Tokens of a GPU.
    pub tokens: u64,
    /// Dimensions of a token.
    pub hidden: u64,
    /// Experts that a token takes.
    pub per_token: u64,
    /// Nodes that a token goes to at most, where routing is limited so.
    pub nodes: Option<u32>,
    /// Bytes of an element.
    pub width: u64,
    /// Who exchanges.
    pub group: Group,
}

/// Whoever knows how long messages of serving take.
pub trait ServingTimes: CommunicationTimes {
    /// Tokens to their experts, or back, while all groups of the kind do the same.
    ///
    /// # Errors
    /// What the cluster cannot do.
    fn exchange(&mut self, exchange: &Exchange) -> Result<Span, Self::Error>;

    /// What transfers of keys and values move while exactly these go on: from which copy of the first pool to which of the second.
    ///
    /// # Errors
    /// What the cluster cannot do.
    fn transfers(&mut self, active: &[(u32, u32)]) -> Result<Vec<Rate>, Self::Error>;
}
