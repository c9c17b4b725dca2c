//! What every engine takes and gives: a [`Cluster`], a schedule or a [`Job`], and a [`Run`].
//!
//! One door: [`Engine::run`] for schedules, [`Engine::execute`] for programs that post to the verbs NIC as they
//! go. What an engine cannot model is [`EngineError::Unsupported`], never an approximation in silence.

pub mod agrees;
mod breakage;
mod cluster;
pub mod counters;
mod error;
mod fault_plan;
mod job;
mod library;
mod order;
mod run;
mod sighting;
mod stage;
pub mod timing;

pub use breakage::{Breakage, FaultReport, NewTables};
pub use cluster::{Cluster, Inside};
pub use counters::{Counter, Counters, Place};
pub use error::EngineError;
pub use fault_plan::{Chance, Effect, FaultPlan, PlannedFault, Recovery};
pub use job::Job;
pub use library::{DatagramCosts, Library, Queues, library};
pub use order::Order;
pub use run::{LinkLoad, OpTimes, Run, Stats};
pub use sighting::{Seen, Sighting, Tap};
pub use stage::{HOST_MEMORY, MessageTrace, Stage, StageSpan};

use fabriscope_schedule::Schedule;

/// A way to compute what happens.
pub trait Engine {
    /// Runs a schedule on a cluster.
    ///
    /// # Errors
    /// What the engine does not model, what cannot run, what never ends.
    fn run(&self, cluster: &Cluster, schedule: &Schedule, seed: u64) -> Result<Run, EngineError>;

    /// Runs programs on a cluster.
    ///
    /// # Errors
    /// As [`Engine::run`], and what a program says when it gives up.
    fn execute(&self, cluster: &Cluster, job: Job, seed: u64) -> Result<Run, EngineError>;
}
