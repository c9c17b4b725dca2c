//! The flow engine: every message is a fluid that shares the links of its path fairly with all others.
//!
//! Rates are max-min fair (D. Bertsekas and R. Gallager, "Data Networks", §6.5.2): no flow can get more without taking
//! from one that has no more than it. Whenever flows come or go, only the part of the network that this touches is
//! solved again (`network.rs`). Around the fluid stand the times that a message needs however empty the network is,
//! from the catalogue's parts (`latency.rs`): posting, doorbell, fetch, the NIC's pipelines, switches, cables, memory.
//!
//! Ranks that say round by round what they do run without a schedule (`rounds.rs`), and where many of them do the same at the same time,
//! one runs for all (`fold.rs`).
//!
//! Modelled: schedules with all their dependencies, one- and two-sided messages, links of any rate, the PCIe slot,
//! message rate of the NIC, single and multiple paths. Not modelled: packets, and all that only packets know: buffers,
//! credits, pauses, losses, marks, and routing that looks at queues (the engine refuses it).

mod fluid;
mod fluids;
mod fold;
mod job;
mod latency;
pub mod library;
mod matching;
mod network;
mod paths;
mod places;
mod rounds;
mod run;
mod support;

pub use fluids::{Fluid, FluidBound, Rates, adapters_of_gpus, adapters_of_gpus_on, rates, rates_on};
pub use network::{FlowId, Network};
pub use places::Nodes;

use std::sync::Arc;

use fabriscope_catalog::ResolvedCluster;
use fabriscope_engine::{Cluster, Demand, Engine, EngineError, Job, Placement, Prepared, RoundsWork, Run, RunOptions, Unsupported, Work};
use fabriscope_schedule::Schedule;
use fabriscope_units::Bytes;

/// The flow engine.
#[derive(Debug, Clone, Copy, Default)]
pub struct FlowEngine;

/// A job that the engine supports.
enum Supported<'a> {
    Schedule { cluster: &'a Cluster, schedule: Arc<Schedule>, options: Box<RunOptions> },
    Rounds { cluster: &'a Cluster, work: RoundsWork, placement: Placement },
}

impl Prepared for Supported<'_> {
    fn run(self: Box<Self>) -> Result<Run, EngineError> {
        match *self {
            Supported::Schedule { cluster, schedule, options } => run::run(cluster, &schedule, &options),
            Supported::Rounds { cluster, work, placement } => job::run(cluster, &work, &placement),
        }
    }
}

impl Engine for FlowEngine {
    fn name(&self) -> &'static str {
        "flow"
    }

    fn supports(&self, parts: &ResolvedCluster, job: &Job, options: &RunOptions) -> Result<(), Unsupported> {
        support::supports(parts, job, options)
    }

    fn prepare<'a>(&self, cluster: &'a Cluster, job: Job, options: &RunOptions, _: u64) -> Result<Box<dyn Prepared + 'a>, EngineError> {
        self.supports(&cluster.parts, &job, options)?;
        let Job { placement, connections: _, work } = job;
        Ok(Box::new(match work {
            Work::Schedule(schedule) => Supported::Schedule { cluster, schedule, options: Box::new(options.clone()) },
            Work::Rounds(work) => Supported::Rounds { cluster, work, placement },
            Work::Programs(_) => {
                let what = "programs that post work requests as they go";
                return Err(support::refusal(fabriscope_engine::Feature::Programs, what, "use the packet engine").into());
            }
        }))
    }

    fn memory(&self, cluster: &Cluster, demand: &Demand<'_>) -> Result<Bytes, EngineError> {
        match demand {
            Demand::Messages { messages, pairs: _ } => {
                let hosts = u64::from(cluster.ranks()).saturating_mul(PER_HOST);
                Ok(Bytes(hosts.saturating_add(messages.saturating_mul(PER_MESSAGE))))
            }
            Demand::Rounds { work, placement, .. } => job::memory(cluster, work, placement),
        }
    }
}

/// Memory of a host and of a message of a schedule (B). Basis: measured, see docs/performance.md.
const PER_HOST: u64 = 1 << 10;
const PER_MESSAGE: u64 = 230;
