//! Those that share a fabric, as operations of one schedule, and how long what they wait for takes.
//!
//! Modelled: all begin at once; each has nodes of its own, but for writes to and from storage, which come from the nodes of others.
//! Not modelled: jobs that begin at other times; disks.

use std::cell::RefCell;
use std::rc::Rc;

use fabriscope_engine::{OpTimes, Run};
use fabriscope_schedule::{After, Builder, OpId, OpKind, Schedule};
use fabriscope_training::Layout;
use fabriscope_training::operations::Task;
use fabriscope_training_plan::{Placed, Planner, Seats};
use fabriscope_units::{Bytes, Span, Time};

use super::times::ClusterTimes;
use super::whole::planned;
use crate::error::LabError;

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
///
/// # Errors
/// What a tenant cannot do, more operations than can be numbered.
pub fn schedule(ranks: u32, tenants: &[&dyn Tenant]) -> Result<(Schedule, Vec<Vec<Timed>>), LabError> {
    let mut builder = Builder::new(ranks);
    let timed = tenants.iter().map(|tenant| tenant.add(&mut builder)).collect::<Result<_, _>>()?;
    let schedule = builder.build().map_err(|error| planned(&error.into()))?;
    Ok((schedule, timed))
}

/// What a run made of them.
#[must_use]
pub fn measured(schedule: &Schedule, run: &Run, timed: &[Vec<Timed>]) -> Vec<Measured> {
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
