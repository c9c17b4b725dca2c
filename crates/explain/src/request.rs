//! What is to be explained, and by whom: messages, copies on GPUs, and collective operations of NCCL have ways of their own.

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_lab::LabError;
use fabriscope_lab::devices::DeviceOptions;
use fabriscope_report::Outcome;
use fabriscope_tools::Tool;

use crate::{collective, gpu_copies, message};

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
    /// Message size in bytes; 8 if `None`, and of nccl-tests some sizes from 1 KiB to 256 MiB.
    pub size: Option<u64>,
    /// Nodes of an OSU benchmark (1 or 2), or of nccl-tests.
    pub nodes: Option<u32>,
    /// Where ranks are within a node, and how the library moves bytes there.
    pub devices: DeviceOptions,
    /// Whether single changes are tried.
    pub changes: Changes,
    /// Seed of everything random.
    pub seed: u64,
}

impl ExplainRequest {
    /// The size of a message in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.size.unwrap_or(8)
    }
}

/// Explains what a tool does on a cluster; `progress` hears how many runs of all are done.
///
/// # Errors
/// A tool that does not exist or cannot be followed, options that do not go together, what the engine does not do.
pub fn explain(
    request: &ExplainRequest,
    catalog: &Catalog,
    parts: &ResolvedCluster,
    progress: &dyn Fn(usize, usize),
) -> Result<Outcome, LabError> {
    let tool = Tool::by_name(&request.tool).map_err(|e| LabError::refused(e.to_string(), "`fabriscope bench` lists the tools"))?;
    match tool {
        Tool::Gpu(gpu) => gpu_copies::explain_copies(gpu, request, parts),
        Tool::NcclTests(_) => collective::explain_collective(tool, request, parts, progress),
        _ => message::explain_message(tool, request, catalog, parts, progress),
    }
}
