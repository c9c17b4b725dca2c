//! What the packet engine has no model of.

use fabriscope_catalog::ResolvedCluster;
use fabriscope_engine::{Feature, Job, Placement, RunOptions, Unsupported, Work};

/// A refusal of this engine.
pub(crate) fn refusal(feature: Feature, what: impl Into<String>, help: impl Into<String>) -> Unsupported {
    Unsupported { engine: "packet", feature, what: what.into(), help: help.into() }
}

pub(crate) fn supports(parts: &ResolvedCluster, job: &Job, _: &RunOptions) -> Result<(), Unsupported> {
    match (&job.work, &job.placement) {
        (Work::Schedule(_), Placement::PerAdapter(_)) | (Work::Programs(_), Placement::Nodes(_) | Placement::PerNode(_)) => Ok(()),
        (Work::Schedule(_), _) => {
            Err(refusal(Feature::Placement, "ranks of a schedule that are placed by node", "place them by adapter, or run programs"))
        }
        (Work::Programs(_), _) => Err(refusal(Feature::Placement, "programs that are placed by adapter", "place them by node")),
        (Work::Rounds(_), placement) => {
            let node = &parts.sole().node;
            if node.nics == 1 && node.gpus == 0 && matches!(placement, Placement::PerNode(1) | Placement::PerAdapter(0 | 1)) {
                return Ok(());
            }
            let help = "use the flow engine, or a benchmark that runs programs, such as osu_allreduce or all_reduce_perf";
            Err(refusal(Feature::Rounds, "rounds of more than one rank for the one adapter of each node", help))
        }
    }
}
