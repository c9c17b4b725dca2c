//! Jobs of ranks that say what they do round by round: collective operations at any scale.

use fabriscope_collectives::Rounds;
use fabriscope_engine::{Cluster, EngineError, Run};
use fabriscope_units::{Bytes, Time};

use crate::fold::{Fold, Folding};
use crate::latency::Latency;
use crate::places::Places;
use crate::rounds::{Running, footprint};

/// Ranks on the nodes of a cluster, and what each does.
pub struct RoundsJob<'a> {
    /// How many ranks.
    pub ranks: u32,
    /// Of them on each node; nodes are filled one after the other.
    pub per_node: u32,
    /// What a rank does; asked several times, each time from the beginning.
    pub rounds: &'a dyn Fn(u32) -> Rounds,
    /// Whether one rank may run for others that do the same.
    pub folding: Folding,
}

/// The result of a job, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRun {
    /// Times and counts, as for all ranks.
    pub run: Run,
    /// How many classes of ranks ran, one rank of each; nothing where all ranks ran.
    pub classes: Option<u32>,
    /// Messages that were followed.
    pub followed: u64,
}

pub(crate) fn run(cluster: &Cluster, job: &RoundsJob<'_>) -> Result<JobRun, EngineError> {
    let places = Places::new(cluster, job.ranks, job.per_node)?;
    let latency = Latency::of(cluster);
    let fold = Fold::find(&places, job.rounds, &latency, job.folding);
    let finished = Running::new(&places, job.rounds, fold.as_ref(), latency).run()?;
    let end = finished.ends.iter().copied().max().unwrap_or(Time::ZERO);
    let run = Run { end, ranks: finished.ends, stats: finished.stats, ..Run::default() };
    Ok(JobRun { run, classes: fold.map(|fold| fold.classes()), followed: finished.followed })
}

/// Memory that a job takes if every rank runs, beside the fabric.
///
/// # Errors
/// A job that does not fit the cluster.
pub(crate) fn memory(cluster: &Cluster, job: &RoundsJob<'_>) -> Result<Bytes, EngineError> {
    let places = Places::new(cluster, job.ranks, job.per_node)?;
    // The longest of the first rounds of a few ranks.
    let sample = [0, job.ranks / 2, job.ranks.saturating_sub(1)];
    let most = |rank: u32| (job.rounds)(rank).take(64).map(|round| round.sends.len() as u64).max().unwrap_or(0);
    let under_way = sample.into_iter().map(most).max().unwrap_or(0) * u64::from(job.ranks);
    Ok(footprint(u64::from(job.ranks), places.link_count(), under_way, u64::from(places.stride())))
}
