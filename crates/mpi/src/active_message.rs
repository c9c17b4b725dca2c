//! Active messages of one-sided operations: what an origin asks of a target.

use std::collections::BTreeMap;

use super::atomic_op::{AtomicOp, Width};
use super::element::{Datatype, Reduction};

/// What an origin wants of a target.
#[derive(Debug, Clone)]
pub(crate) struct TargetRequest {
    pub what: What,
    /// Where in the target's window.
    pub offset: u64,
    /// Bytes of the target's memory that are changed.
    pub size: u32,
    /// The operand, where contents are kept.
    pub operand: Vec<u8>,
    /// Where in the origin's memory the old contents go, and how many.
    pub fetch: (u64, u32),
}

/// The operation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    /// An accumulate of these elements.
    Reduce(Datatype, Reduction),
    /// An operation on one element.
    Atomic(AtomicOp, Width),
    /// A lock is taken or given back.
    Lock,
}

/// What an origin has asked of a target.
#[derive(Debug, Default)]
pub(crate) struct Services {
    /// The next number.
    pub next: u64,
    /// What is not answered yet.
    pub under_way: BTreeMap<u64, TargetRequest>,
}
