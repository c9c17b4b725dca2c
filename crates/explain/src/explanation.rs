//! By whom something is explained: applications, messages, copies on GPUs, whole operations of MPI and on sockets, and collective operations of NCCL have
//! modules of their own.

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_lab::LabError;
use fabriscope_lab::bench::BenchEngine;
use fabriscope_report::Outcome;
use fabriscope_tools::Tool;
use fabriscope_units::Remedy;

use crate::request::ExplainRequest;
use crate::{application, collective, gpu_copies, message, operation};

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
    let tool = Tool::by_name(&request.tool).map_err(|e| LabError::refused(e.in_full(), "`fabriscope bench` lists the tools"))?;
    if parts.uniform().is_none() {
        let message = format!("`{}` has groups of unlike nodes, and one kind of node is explained", parts.name);
        return Err(LabError::refused(message, "name one of its groups behind a colon, as lumi:lumi-g"));
    }
    if !matches!(tool, Tool::App(_)) && (request.against.is_some() || request.engine != BenchEngine::Auto) {
        let what = format!("--against and --engine are for applications, not for {}", tool.name());
        return Err(LabError::refused(what, "leave them out"));
    }
    match tool {
        Tool::App(_) => application::explain_application(tool, request, catalog, parts, progress),
        Tool::Gpu(gpu) => gpu_copies::explain_copies(gpu, request, parts),
        Tool::NcclTests(_) => collective::explain_collective(tool, request, parts, progress),
        Tool::Collective(_) | Tool::Sockets(_) | Tool::Krylov => operation::explain_operation(tool, request, parts, progress),
        Tool::Shmem(benchmark) if benchmark.is_collective() => operation::explain_operation(tool, request, parts, progress),
        _ => message::explain_message(tool, request, catalog, parts, progress),
    }
}
