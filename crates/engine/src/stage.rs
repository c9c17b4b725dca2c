//! Where the time of a message goes: the stages, and the trace of one message.

use std::fmt;

use fabriscope_units::{Span, Time};

/// A part of a message's way from the program that posts it to the program that sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The core builds the work request.
    Post,
    /// The doorbell or BlueFlame write travels to the NIC.
    Doorbell,
    /// The NIC fetches the work request over PCIe.
    WqeFetch,
    /// The NIC waits for its send engine or its transmit buffer.
    NicQueue,
    /// The NIC fetches the payload over PCIe.
    PayloadFetch,
    /// The NIC's transmit pipeline.
    NicTx,
    /// Waiting for the wire, for credits or for the end of a pause.
    Queueing,
    /// The packet is put on the wire.
    Serialisation,
    /// Signal in the cable.
    Propagation,
    /// Port to port inside a switch.
    Switch,
    /// The NIC's receive pipeline.
    NicRx,
    /// The responder executes an atomic operation.
    Atomic,
    /// The payload is written to memory over PCIe.
    PayloadWrite,
    /// The completion entry is written to memory.
    Completion,
    /// A spinning core sees it.
    Poll,
}

impl Stage {
    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stage::Post => "post",
            Stage::Doorbell => "doorbell",
            Stage::WqeFetch => "wqe fetch",
            Stage::NicQueue => "nic queue",
            Stage::PayloadFetch => "payload fetch",
            Stage::NicTx => "nic tx",
            Stage::Queueing => "queueing",
            Stage::Serialisation => "serialisation",
            Stage::Propagation => "propagation",
            Stage::Switch => "switch",
            Stage::NicRx => "nic rx",
            Stage::Atomic => "atomic",
            Stage::PayloadWrite => "payload write",
            Stage::Completion => "completion",
            Stage::Poll => "poll",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One interval of a traced message.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct StageSpan {
    /// What happened.
    pub stage: Stage,
    /// How long it took.
    pub span: Span,
    /// Where: a NIC, a link or a switch.
    pub place: String,
}

impl StageSpan {
    /// What it is called in tables: the stage, and the memory where that is not the host memory beside the NIC.
    #[must_use]
    pub fn label(&self) -> String {
        let moves = matches!(self.stage, Stage::PayloadFetch | Stage::PayloadWrite | Stage::Atomic);
        if moves && self.place != HOST_MEMORY { format!("{}, {}", self.stage, self.place) } else { self.stage.name().to_owned() }
    }
}

/// The place of payload that crosses the NIC's own link alone.
pub const HOST_MEMORY: &str = "pcie";

/// The way of one message: contiguous intervals on the path of its last packet, which add up exactly.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct MessageTrace {
    /// The node that posted it.
    pub node: u32,
    /// Payload bytes.
    pub bytes: u64,
    /// When the program began to post, in picoseconds.
    pub posted_ps: u64,
    /// When the waiting program had seen it, in picoseconds.
    pub done_ps: u64,
    /// The intervals in order.
    pub stages: Vec<StageSpan>,
}

impl MessageTrace {
    /// From post to poll.
    #[must_use]
    pub fn latency(&self) -> Span {
        Time::from_ps(self.done_ps) - Time::from_ps(self.posted_ps)
    }
    /// The sum of the stages: equal to [`MessageTrace::latency`].
    #[must_use]
    pub fn total(&self) -> Span {
        self.stages.iter().map(|s| s.span).sum()
    }
}
