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
mod fold;
mod job;
mod latency;
mod matching;
mod network;
mod paths;
mod places;
mod rounds;
mod run;

pub use fold::Folding;
pub use job::{JobRun, RoundsJob};
pub use network::{FlowId, Network};

use fabriscope_engine::{Cluster, Engine, EngineError, Job, Run};
use fabriscope_schedule::Schedule;
use fabriscope_units::Bytes;

/// The flow engine and its options.
#[derive(Debug, Clone, Copy, Default)]
pub struct FlowEngine {
    /// Count messages and bytes per link (a little slower).
    pub link_loads: bool,
    /// Note when every operation starts and ends: [`Run::ops`].
    pub times: bool,
}

impl FlowEngine {
    /// Runs ranks that make their rounds as they get there: any number of messages, of which only those under way are in memory.
    ///
    /// # Errors
    /// A job that does not fit the cluster, routing that looks at queues, ranks that wait for messages that never come.
    pub fn rounds(cluster: &Cluster, job: &RoundsJob<'_>) -> Result<JobRun, EngineError> {
        job::run(cluster, job)
    }
    /// Memory that such a job takes if every rank runs, beside the fabric.
    ///
    /// # Errors
    /// A job that does not fit the cluster, routing that looks at queues.
    pub fn memory(cluster: &Cluster, job: &RoundsJob<'_>) -> Result<Bytes, EngineError> {
        job::memory(cluster, job)
    }
}

impl Engine for FlowEngine {
    fn run(&self, cluster: &Cluster, schedule: &Schedule, seed: u64) -> Result<Run, EngineError> {
        run::run(self, cluster, schedule, seed)
    }

    fn execute(&self, _: &Cluster, _: Job, _: u64) -> Result<Run, EngineError> {
        Err(EngineError::Unsupported {
            what: "programs that post to a NIC as they go".to_owned(),
            try_engine: "the packet engine".to_owned(),
        })
    }
}
