//! Those that share a fabric, as operations of one schedule: their nodes, and how long what they wait for takes, alone and beside each other.
//!
//! Modelled: all begin at once; nodes dealt side by side, in turn or by lottery; each has nodes of its own, but for writes to and from storage, which come from the nodes of others.
//! Not modelled: jobs that begin at other times; disks.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use fabriscope_engine::{OpTimes, Run};
use fabriscope_schedule::{After, Builder, OpId, OpKind, Schedule};
use fabriscope_streams::Streams;
use fabriscope_training::Layout;
use fabriscope_training::operations::Task;
use fabriscope_training_plan::{Placed, Planner, Seats};
use fabriscope_units::{Bytes, Span, Time};

use super::shown::change;
use super::times::ClusterTimes;
use super::whole::planned;
use crate::error::LabError;
use crate::workload::mix::Placement;

/// An operation of a rank.
pub type RankOp = (u32, OpId);

/// Something whose time counts: from the last of `from`, or the beginning, until the last of `ends`.
#[derive(Debug, Clone, Default)]
pub struct Timed {
    /// What it waits for.
    pub from: Vec<RankOp>,
    /// What it is over with.
    pub ends: Vec<RankOp>,
}

/// One of those that share a fabric.
pub trait Tenant {
    /// Adds its operations.
    ///
    /// # Errors
    /// Groups of which a library has no plan.
    fn add(&self, builder: &mut Builder) -> Result<Vec<Timed>, LabError>;
}

/// How long what a tenant waits for took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measured {
    /// At the mean.
    pub mean: Span,
    /// The longest.
    pub longest: Span,
}

/// The schedule of these tenants, and what of it counts.
fn schedule(ranks: u32, tenants: &[&dyn Tenant]) -> Result<(Schedule, Vec<Vec<Timed>>), LabError> {
    let mut builder = Builder::new(ranks);
    let timed = tenants.iter().map(|tenant| tenant.add(&mut builder)).collect::<Result<_, _>>()?;
    let schedule = builder.build().map_err(|error| planned(&error.into()))?;
    Ok((schedule, timed))
}

/// What a run made of them.
fn measured(schedule: &Schedule, run: &Run, timed: &[Vec<Timed>]) -> Vec<Measured> {
    let first = firsts(schedule);
    let ended = |(rank, op): &RankOp| run.ops.get(first[*rank as usize] + op.0 as usize).map_or(Time::ZERO, |times: &OpTimes| times.ended);
    let last = |ops: &[RankOp]| ops.iter().map(ended).max().unwrap_or(Time::ZERO);
    let of = |timed: &Vec<Timed>| {
        let spans = timed.iter().map(|timed| last(&timed.ends).since(last(&timed.from)));
        let (count, all, longest) = spans
            .fold((0, Span::ZERO, Span::ZERO), |(count, all, longest): (u64, Span, Span), span| (count + 1, all + span, longest.max(span)));
        Measured { mean: all / count.max(1), longest }
    };
    timed.iter().map(of).collect()
}

/// What a tenant takes alone, and beside all others.
#[derive(Debug, Clone, Copy)]
pub struct Shared {
    /// Without the others.
    pub alone: Measured,
    /// With them.
    pub together: Measured,
    /// What that is longer at the mean, in percent.
    pub slower: f64,
}

/// Runs all of them together and each alone, as the operations of `ranks`; `run` runs a schedule with the times of its operations.
///
/// # Errors
/// What a tenant cannot do, and as `run`.
pub fn shared(ranks: u32, tenants: &[&dyn Tenant], run: impl Fn(&Arc<Schedule>) -> Result<Run, LabError>) -> Result<Vec<Shared>, LabError> {
    let played = |tenants: &[&dyn Tenant]| -> Result<Vec<Measured>, LabError> {
        let (schedule, timed) = schedule(ranks, tenants)?;
        let schedule = Arc::new(schedule);
        Ok(measured(&schedule, &run(&schedule)?, &timed))
    };
    let together = played(tenants)?;
    let of = |(tenant, together): (&&dyn Tenant, Measured)| {
        let alone = played(&[*tenant])?.first().copied().unwrap_or_default();
        Ok(Shared { alone, together, slower: change(together.mean, alone.mean) })
    };
    tenants.iter().zip(together).map(of).collect()
}

/// The largest of what tenants take longer, in percent; none below zero.
#[must_use]
pub fn slowest(all: &[Shared]) -> f64 {
    all.iter().map(|one| one.slower).fold(0.0, f64::max)
}

/// The nodes of jobs that want so many each; a lottery is among the first `among` nodes.
#[must_use]
pub fn nodes_of_jobs(wanted: &[u32], placement: Placement, among: u32, seed: u64) -> Vec<Vec<u32>> {
    let mut jobs: Vec<Vec<u32>> = vec![Vec::new(); wanted.len()];
    let mut order: Vec<u32> = match placement {
        Placement::Random => (0..among).collect(),
        Placement::Packed | Placement::Interleaved => (0..wanted.iter().sum()).collect(),
    };
    if placement == Placement::Random {
        Streams::new(seed).stream("nodes of jobs", 0).shuffle(&mut order);
    }
    let mut order = order.into_iter();
    if placement == Placement::Interleaved {
        for turn in 0..wanted.iter().copied().max().unwrap_or(0) {
            for (job, _) in jobs.iter_mut().zip(wanted).filter(|(_, wanted)| turn < **wanted) {
                job.extend(order.next());
            }
        }
        return jobs;
    }
    for (job, wanted) in jobs.iter_mut().zip(wanted) {
        job.extend(order.by_ref().take(*wanted as usize));
    }
    jobs
}

/// The first operation of each rank among all.
#[must_use]
pub fn firsts(schedule: &Schedule) -> Vec<usize> {
    let mut first = vec![0_usize];
    for rank in 0..schedule.ranks() {
        first.push(first[rank as usize] + schedule.kinds(rank).len());
    }
    first
}

/// Operations of GPUs by a plan of NCCL: a step of training, or collectives.
pub struct Planned<'t, 'c> {
    /// How they are laid over GPUs.
    pub layout: Layout,
    /// The operations of each stage.
    pub stages: Rc<Vec<Vec<Task>>>,
    /// Where its GPUs are.
    pub seats: Seats,
    /// Adapters of a node.
    pub nics: u32,
    /// What takes place within nodes.
    pub times: &'t RefCell<ClusterTimes<'c>>,
}

impl Tenant for Planned<'_, '_> {
    fn add(&self, builder: &mut Builder) -> Result<Vec<Timed>, LabError> {
        let mut times = self.times.borrow_mut();
        let library = times.library.clone();
        let mut planner = Planner::new(&library, &self.seats, self.nics).map_err(|error| planned(&error))?;
        let placed = planner.add(builder, &self.layout, &self.stages, &mut *times).map_err(|error| planned(&error))?;
        Ok(vec![Timed { from: Vec::new(), ends: last(&placed) }])
    }
}

fn last(placed: &Placed) -> Vec<RankOp> {
    placed.gpus.iter().flat_map(|(rank, _, tasks)| tasks.iter().map(|task| (*rank, task.end))).collect()
}

/// What adapters write to others, one piece after the other.
pub struct Writes {
    /// From which adapter to which.
    pub pairs: Vec<(u32, u32)>,
    /// How much each.
    pub bytes: Bytes,
}

/// Bytes of a write. Basis: assumed, what parallel file systems send at once.
const PIECE: Bytes = Bytes::from_mib(16);

impl Tenant for Writes {
    fn add(&self, builder: &mut Builder) -> Result<Vec<Timed>, LabError> {
        let mut ends = Vec::new();
        for (from, to) in &self.pairs {
            let (mut left, mut before) = (self.bytes, None);
            while left > Bytes::ZERO {
                let bytes = left.min(PIECE);
                let after: Vec<After> = before.map(After::End).into_iter().collect();
                before = Some(builder.op_after(*from, OpKind::Put { to: *to, bytes }, &after));
                left = Bytes(left.0 - bytes.0);
            }
            ends.extend(before.map(|op| (*from, op)));
        }
        Ok(vec![Timed { from: Vec::new(), ends }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_dealt_side_by_side_and_in_turn() {
        let dealt = |placement| nodes_of_jobs(&[3, 1, 2], placement, 8, 1);
        assert_eq!(dealt(Placement::Packed), [vec![0, 1, 2], vec![3], vec![4, 5]]);
        assert_eq!(dealt(Placement::Interleaved), [vec![0, 3, 5], vec![1], vec![2, 4]]);
        let mut all = dealt(Placement::Random).concat();
        all.sort_unstable();
        all.dedup();
        assert!(all.len() == 6 && all.iter().all(|node| *node < 8), "{all:?}");
    }
}
