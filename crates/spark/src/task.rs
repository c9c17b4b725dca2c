//! A task that has run, as Spark's event log has it.

use fabriscope_units::{Bytes, Span, Time};

/// What a task did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskRecord {
    /// 0: map, 1: reduce.
    pub stage: u32,
    /// Its number in the stage.
    pub index: u32,
    /// The node that it ran on.
    pub executor: u32,
    /// The driver's decision.
    pub launch: Time,
    /// It was over.
    pub finish: Time,
    /// It waited for blocks so long.
    pub fetch_wait: Span,
    /// Blocks of other executors.
    pub remote_blocks: u32,
    /// Blocks of its own executor.
    pub local_blocks: u32,
    /// Bytes of the former.
    pub remote_bytes: Bytes,
    /// Bytes of the latter.
    pub local_bytes: Bytes,
    /// Requests for blocks.
    pub requests: u32,
    /// Bytes of shuffle files that it wrote.
    pub shuffle_written: Bytes,
}

impl TaskRecord {
    /// From its launch until it was over.
    #[must_use]
    pub fn duration(&self) -> Span {
        self.finish.since(self.launch)
    }
}
