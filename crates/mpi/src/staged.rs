//! Messages that pass through host memory chunk by chunk: how far each is.

use super::request::RequestId;

/// What a copy by a GPU is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyOf {
    /// The next chunk of a message that leaves.
    Out(RequestId),
    /// So many bytes of a message that comes.
    In(RequestId, u32),
    /// A message from another rank of the node; it is told where the sender's request is named.
    Across(RequestId, Option<RequestId>),
}

/// A message that leaves chunk by chunk. Chunks pass these counts in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StagedOut {
    pub chunks: u32,
    /// Copies are needed: otherwise the adapter reads the user's buffer.
    pub copies: bool,
    /// The receiver's request, and whether it takes the chunks on a device.
    pub receiver: Option<(RequestId, bool)>,
    pub granted: u32,
    pub asked: u32,
    pub copied: u32,
    pub posted: u32,
    pub written: u32,
}

/// A message that comes chunk by chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StagedIn {
    pub sender: RequestId,
    /// Bytes whose place is granted.
    pub granted: u32,
    /// Chunks are copied on.
    pub copies: bool,
}
