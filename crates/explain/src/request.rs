//! What is to be explained.

use fabriscope_lab::bench::BenchEngine;
use fabriscope_lab::devices::DeviceOptions;

/// Whether single changes are tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Changes {
    /// Each is a run of its own, with everything else as it was.
    #[default]
    Tried,
    /// Only the message itself is explained.
    Left,
}

/// What is to be explained.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExplainRequest {
    /// Name of the tool.
    pub tool: String,
    /// The tool's own options.
    pub options: Vec<String>,
    /// Message size in bytes; 8 if `None`, of collective operations of MPI some from 8 B to 64 KiB, and of nccl-tests some from 1 KiB to
    /// 256 MiB.
    pub size: Option<u64>,
    /// Nodes of the job; those of an OSU benchmark between two ranks are 1 or 2.
    pub nodes: Option<u32>,
    /// Ranks on each node, of collective operations of MPI.
    pub per_node: Option<u32>,
    /// Where ranks are within a node, and how the library moves bytes there.
    pub devices: DeviceOptions,
    /// Whether single changes are tried.
    pub changes: Changes,
    /// The library beside which an application is set: `cray-mpich-ucx` or `library=cray-mpich-ucx`.
    pub against: Option<String>,
    /// Which engine runs an application.
    pub engine: BenchEngine,
    /// Seed of everything random.
    pub seed: u64,
}

impl ExplainRequest {
    /// The size of a message in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.size.unwrap_or(8)
    }
}
