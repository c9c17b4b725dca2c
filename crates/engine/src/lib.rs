//! What every engine takes and gives: a [`Cluster`], a [`Job`] with [`RunOptions`], and a [`Run`].
//!
//! One door: [`Engine::run`], for schedules, rounds and programs alike. [`Engine::supports`] says before a run, with the reason, what an
//! engine cannot model: an [`Unsupported`], never an approximation in silence.

pub mod agrees;
mod breakage;
mod cluster;
mod connections;
pub mod control;
pub mod counters;
mod error;
mod fault_plan;
mod job;
mod library;
mod options;
mod order;
mod run;
mod series;
mod sighting;
mod skipped;
mod stage;
mod support;
mod switching;
mod timeline;
pub mod timing;

pub use breakage::{Breakage, FaultReport, NewTables};
pub use cluster::{Cluster, Inside, NodeModel};
pub use connections::{Connections, PacketOrder, Service, Spraying};
pub use control::{Control, PortCounts};
pub use counters::{Counter, CounterPlace, Counters};
pub use error::EngineError;
pub use fault_plan::{Chance, Effect, FaultPlan, PlannedFault, Recovery};
pub use job::{Folding, Job, Placement, ProgramsWork, RankRounds, RoundsWork, Work};
pub use library::{DatagramCosts, Library, Queues, library, library_on};
pub use options::{Counting, DeadlockPolicy, FastForward, Loss, NO_JOB, Peers, RunOptions, Watch};
pub use order::Order;
pub use run::{Folded, LinkLoad, OpTimes, Run, Stats};
pub use series::{PairSent, QueueDepth, Series};
pub use sighting::{Seen, Sighting, Tap};
pub use skipped::{Skipped, Unsteady};
pub use stage::{HOST_MEMORY, MessageTrace, Stage, StageSpan};
pub use support::{Feature, Unsupported};
pub use timeline::{Followed, Moment, Recorder, Timeline};

use fabriscope_catalog::ResolvedCluster;
use fabriscope_units::Bytes;

/// A way to compute what happens.
pub trait Engine: Sync {
    /// Its name, as labs write it.
    fn name(&self) -> &'static str;

    /// Whether it models all that a job on a cluster of these parts needs.
    ///
    /// # Errors
    /// The first thing that it has no model of, and what to do instead.
    fn supports(&self, parts: &ResolvedCluster, job: &Job, options: &RunOptions) -> Result<(), Unsupported>;

    /// Everything that comes before the first event, for callers that measure the run alone.
    ///
    /// # Errors
    /// What the engine does not model, and what cannot run.
    fn prepare<'a>(&self, cluster: &'a Cluster, job: Job, options: &RunOptions, seed: u64) -> Result<Box<dyn Prepared + 'a>, EngineError>;

    /// Memory that a job takes on a cluster, estimated, beside the fabric.
    ///
    /// # Errors
    /// A job that does not fit the cluster, or that the engine does not model.
    fn memory(&self, cluster: &Cluster, demand: &Demand<'_>) -> Result<Bytes, EngineError>;

    /// Runs a job on a cluster.
    ///
    /// # Errors
    /// What the engine does not model, what cannot run, what never ends, and what a program says when it gives up.
    fn run(&self, cluster: &Cluster, job: Job, options: &RunOptions, seed: u64) -> Result<Run, EngineError> {
        self.prepare(cluster, job, options, seed)?.run()
    }
}

/// A job of which only the run is left.
pub trait Prepared {
    /// Runs it.
    ///
    /// # Errors
    /// What never ends, transfers that fail, programs that give up.
    fn run(self: Box<Self>) -> Result<Run, EngineError>;
}

/// What a job will hold in memory, as far as it is known before the job is made.
pub enum Demand<'a> {
    /// A schedule.
    Messages {
        /// Messages in all.
        messages: u64,
        /// Pairs of ranks that exchange some.
        pairs: u64,
    },
    /// Rounds, made on the way.
    Rounds {
        /// The rounds.
        work: &'a RoundsWork,
        /// Where the ranks are.
        placement: &'a Placement,
        /// How they are connected.
        connections: &'a Connections,
        /// How the run is carried out.
        options: &'a RunOptions,
    },
}
