//! Jobs of ranks that say round by round what they do: collective operations at any scale.

use fabriscope_engine::{Cluster, EngineError, Folded, Placement, RoundsWork, Run};
use fabriscope_units::{Bytes, Time};

use crate::fold::Fold;
use crate::latency::Latency;
use crate::places::Places;
use crate::rounds::{Running, footprint};

/// Ranks on each node.
fn per_node(placement: &Placement) -> u32 {
    match placement {
        Placement::PerNode(count) => *count,
        // Other placements are refused before.
        Placement::PerAdapter(_) | Placement::Nodes(_) => 1,
    }
}

pub(crate) fn run(cluster: &Cluster, work: &RoundsWork, placement: &Placement) -> Result<Run, EngineError> {
    let program = work.program.as_ref();
    let places = Places::new(cluster, program.ranks(), per_node(placement))?;
    let latency = Latency::of(cluster);
    let fold = Fold::find(&places, program, &latency, work.folding);
    let finished = Running::new(&places, program, fold.as_ref(), latency).run()?;
    let end = finished.ends.iter().copied().max().unwrap_or(Time::ZERO);
    let folded = Some(Folded { classes: fold.map(|fold| fold.classes()), followed: finished.followed });
    Ok(Run { end, ranks: finished.ends, stats: finished.stats, folded, ..Run::default() })
}

/// Memory that a job takes if every rank runs, beside the fabric.
///
/// # Errors
/// A job that does not fit the cluster.
pub(crate) fn memory(cluster: &Cluster, work: &RoundsWork, placement: &Placement) -> Result<Bytes, EngineError> {
    let ranks = work.program.ranks();
    let places = Places::new(cluster, ranks, per_node(placement))?;
    // The longest of the first rounds of a few ranks.
    let sample = [0, ranks / 2, ranks.saturating_sub(1)];
    let most = |rank: u32| work.program.rounds(rank).take(64).map(|round| round.sends.len() as u64).max().unwrap_or(0);
    let in_flight = sample.into_iter().map(most).max().unwrap_or(0) * u64::from(ranks);
    Ok(footprint(u64::from(ranks), places.link_count(), in_flight, u64::from(places.stride())))
}
