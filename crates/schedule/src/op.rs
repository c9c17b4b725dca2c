//! Operations: what a rank does, and what it waits for before.

use std::fmt;

use fabriscope_units::{Bytes, Span};
use serde::{Deserialize, Serialize};

/// An operation of a rank: its place in the order in which they were added to that rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpId(pub u32);

/// One operation of the whole schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// The rank.
    pub rank: u32,
    /// The operation of that rank.
    pub op: OpId,
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OpKind {
    /// Two-sided message to a rank that receives it.
    Send {
        /// The receiving rank.
        to: u32,
        /// Length of the message.
        bytes: Bytes,
        /// Which receive it is meant for.
        tag: u32,
    },
    /// The other side of a send.
    Recv {
        /// The sending rank.
        from: u32,
        /// Length of the message.
        bytes: Bytes,
        /// Which send it is meant for.
        tag: u32,
    },
    /// One-sided write into another rank's memory.
    Put {
        /// The rank written to.
        to: u32,
        /// How much is written.
        bytes: Bytes,
    },
    /// One-sided read from another rank's memory.
    Get {
        /// The rank read from.
        from: u32,
        /// How much is read.
        bytes: Bytes,
    },
    /// Work without communication.
    Compute {
        /// How long it takes.
        span: Span,
    },
}

/// Another operation of the same rank that has to be outstanding or over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum After {
    /// It has ended (`requires`).
    End(OpId),
    /// It has started (`irequires`).
    Start(OpId),
}

/// An operation as the schedule holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op<'a> {
    /// Which one of its rank.
    pub id: OpId,
    /// What it does.
    pub kind: OpKind,
    /// What it waits for; without entries it starts at once.
    pub after: &'a [After],
}

impl OpKind {
    /// The other rank that takes part.
    #[must_use]
    pub fn peer(self) -> Option<u32> {
        match self {
            OpKind::Send { to, .. } | OpKind::Put { to, .. } => Some(to),
            OpKind::Recv { from, .. } | OpKind::Get { from, .. } => Some(from),
            OpKind::Compute { .. } => None,
        }
    }
    /// The length of its message; zero where it computes.
    #[must_use]
    pub fn bytes(self) -> Bytes {
        match self {
            OpKind::Send { bytes, .. } | OpKind::Recv { bytes, .. } | OpKind::Put { bytes, .. } | OpKind::Get { bytes, .. } => bytes,
            OpKind::Compute { .. } => Bytes::ZERO,
        }
    }
}

impl After {
    /// The operation waited for.
    #[must_use]
    pub fn op(self) -> OpId {
        match self {
            After::End(op) | After::Start(op) => op,
        }
    }
}

impl fmt::Display for OpId {
    /// The label in the text form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "o{}", self.0)
    }
}
impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} operation {}", self.rank, self.op)
    }
}
impl fmt::Display for OpKind {
    /// The statement of the text form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpKind::Send { to, bytes, tag } => write!(f, "send {bytes} to {to} tag {tag}"),
            OpKind::Recv { from, bytes, tag } => write!(f, "recv {bytes} from {from} tag {tag}"),
            OpKind::Put { to, bytes } => write!(f, "put {bytes} to {to}"),
            OpKind::Get { from, bytes } => write!(f, "get {bytes} from {from}"),
            OpKind::Compute { span } => write!(f, "compute {span}"),
        }
    }
}
