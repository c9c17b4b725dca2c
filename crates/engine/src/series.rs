//! What is measured at equal steps of time: queues, and what hosts send to each other.

use fabriscope_units::{Bytes, Span, Time};

/// Queues and rates of a run over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Series {
    /// From one step to the next.
    pub step: Span,
    /// Queues that were not empty, in the order of time and link.
    pub queues: Vec<QueueDepth>,
    /// What hosts sent, in the order of steps and hosts.
    pub sent: Vec<PairSent>,
}

/// What waited for a link, or was on its wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueDepth {
    /// When.
    pub time: Time,
    /// Number of the link in the fabric's graph.
    pub link: u32,
    /// How much.
    pub bytes: Bytes,
}

/// What a host sent to another in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PairSent {
    /// Number of the step, from 0.
    pub step: u32,
    /// The host that sent.
    pub from: u32,
    /// The host that it was for.
    pub to: u32,
    /// Payload, repeated packets included.
    pub bytes: Bytes,
}

impl Series {
    /// Adds those of another part of the run.
    pub fn absorb(&mut self, other: Series) {
        self.queues.extend(other.queues);
        self.sent.extend(other.sent);
        self.queues.sort_unstable();
        self.sent.sort_unstable();
    }
}
