//! Long operations of large jobs: some loops and iterations are simulated, the others go on as these did.
//!
//! | kernels of K, 2 K and 3 K loops | an operation of N loops |
//! |---|---|
//! | t(K), t(2 K), t(3 K) | t(3 K) + (N − 3 K) · (t(3 K) − t(K)) / 2 K |
//!
//! Source: NCCL's kernels go through equal loops over their chunks (`fabriscope_nccl::Plan`), so that a long message is a pipeline in
//! steady state, with the same begin and the same end whatever its length.
//! Modelled: the plan of the whole message with fewer whole loops; K is doubled until t(2 K) − t(K) and t(3 K) − t(2 K) agree.
//! Messages that differ in the number of loops alone, and the two places of the buffers, are measured once. An operation behind another
//! takes as long as from the start of its kernel to the end.
//! Not modelled: how the first operations after a barrier differ from those behind them.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_nccl::Plan;
use fabriscope_nccl_runtime::{Communicator, World};
use fabriscope_node::ProgramError;
use fabriscope_units::{Span, Time};

use super::{Case, Job, MOST_STEPS, enqueue, most_steps};

/// What a rank measured of a kernel.
#[derive(Debug, Clone, Copy, Default)]
struct Kernel {
    /// From the first call until the host has seen the end of the first.
    first: Span,
    /// From the time the last was in the stream, or from the end of the one before, until it ended.
    alone: Span,
}

/// What has been measured, by what decides how long kernels take; of each rank.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<String, Vec<Kernel>>);

/// What was simulated of an operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Skipped {
    /// Whole loops that there are, and the most that a kernel had.
    loops: (u64, u64),
    /// By how much more the last third of those took than the third before.
    growth: f64,
}

impl Skipped {
    /// What a reader should know.
    pub fn remark(&self, bytes: u64) -> Option<String> {
        let (all, most) = self.loops;
        let growth = format!("{:+.2} %", self.growth * 100.0);
        (most < all).then(|| {
            let third = most / 3;
            format!(
                "{bytes} bytes: {all} loops as {third}, {} and {most} take, the last {third} {growth}; --exact simulates all",
                2 * third
            )
        })
    }
}

/// Whether so much happens in an operation that loops and iterations are left out.
pub(super) fn is_heavy(world: &World, plan: &Plan) -> bool {
    let nodes = world.plan().nodes();
    nodes > 1 && (weight(world, plan) > HEAVY || most_steps(world, plan) > MANY)
}

/// Steps of all ranks, as far as they would be simulated otherwise.
fn weight(world: &World, plan: &Plan) -> u64 {
    let lanes = plan.parts.iter().flat_map(|part| plan.lanes(world.plan(), 0, part));
    u64::from(world.plan().ranks()) * lanes.map(|lane| lane.steps().min(MOST_STEPS)).sum::<u64>()
}

/// The mean time of an operation on this rank, and what was left out of it.
pub(super) async fn measure(c: &Communicator, job: &Job, case: &Case) -> Result<(Span, Skipped), ProgramError> {
    let Some(plan) = &case.plan else { return Ok((Span::ZERO, Skipped { loops: (0, 0), growth: 0.0 })) };
    let (communicator, iterations) = (job.world.plan(), u64::from(job.settings.iterations));
    let mean = |first: Span, alone: Span| (first + alone * (iterations - 1)) / iterations;
    let loops = plan.loops(communicator);
    let lanes = plan.parts.iter().flat_map(|part| plan.lanes(communicator, 0, part));
    let shortest = lanes.map(|lane| lane.course().steps_of_loop()).min().unwrap_or(1);
    let mut each = FIRST.div_ceil(shortest.max(1));
    while 3 * each < loops {
        let mut measured = [(Kernel::default(), 0.0); 3];
        for (length, measured) in (1..).zip(&mut measured) {
            *measured = kernels(c, job, plan, (length * each, 1)).await?;
        }
        let [(short, begin), (_, middle), (long, end)] = measured;
        let growth = if middle > begin { (end - middle) / (middle - begin) - 1.0 } else { f64::INFINITY };
        if growth.abs() <= AGREEMENT {
            let more = long.alone.saturating_sub(short.alone) * (loops - 3 * each) / (2 * each);
            return Ok((mean(long.first + more, long.alone + more), Skipped { loops: (loops, 3 * each), growth }));
        }
        each *= 2;
    }
    let count = if weight(&job.world, plan) > 4 * HEAVY { 1 } else { 3 };
    let (mine, _) = kernels(c, job, plan, (loops, count)).await?;
    Ok((mean(mine.first, mine.alone), Skipped { loops: (loops, loops), growth: 0.0 }))
}

/// Kernels of so many loops one behind the other, on this rank; and how long all ranks together took for the last. Those that take as long
/// are run once.
async fn kernels(c: &Communicator, job: &Job, plan: &Plan, (loops, count): (u64, u32)) -> Result<(Kernel, f64), ProgramError> {
    let plan = Arc::new(plan.with_loops(job.world.plan(), loops));
    // Neither offsets nor the place of the result are among it.
    let parts: Vec<(u32, u64, u64)> = plan.parts.iter().map(|part| (part.channel, part.bytes.0, part.chunk.0)).collect();
    let (shape, rank) = (format!("{:?} {} {count} {parts:?}", plan.choice, plan.root), c.rank() as usize);
    let found = || {
        let known = job.known.lock();
        let all = known.0.get(&shape)?;
        Some((all[rank], all.iter().map(|kernel| kernel.alone.as_us_f64()).sum()))
    };
    c.barrier().await?;
    if let Some(found) = found() {
        return Ok(found);
    }
    // All have looked before the first has anything to say.
    c.barrier().await?;
    let begun = c.now();
    let case = Case { count: 0, in_place: plan.in_place, plan: Some(plan) };
    let mut turns = Vec::new();
    for _ in 0..count {
        let turn = enqueue(c, job, &case)?;
        turns.push((turn, c.now() + c.library().kernel_start));
    }
    let (mut mine, mut before) = (Kernel::default(), Time::ZERO);
    for (number, (turn, launched)) in turns.into_iter().enumerate() {
        let end = c.synchronise(turn).await?;
        if number == 0 {
            mine.first = c.now().since(begun);
        }
        mine.alone = end.since(before.max(launched));
        before = end;
    }
    job.known.lock().0.entry(shape.clone()).or_insert_with(|| vec![Kernel::default(); c.ranks() as usize])[rank] = mine;
    // Nobody asks before all have said what they measured.
    c.barrier().await?;
    Ok(found().unwrap_or((mine, 0.0)))
}

/// Steps of all ranks from which on loops and iterations are left out. Basis: assumed; some seconds of one core.
const HEAVY: u64 = 1 << 20;
/// Steps of a rank between nodes from which on they are left out in any case. Basis: assumed.
const MANY: u64 = 2048;
/// Steps of the first K. Basis: assumed; as many as a connection has slots, and the check doubles K where that is not enough.
const FIRST: u64 = 8;
/// By how much of itself the last third may take longer or shorter. Basis: assumed; iterations differ by as much among themselves.
const AGREEMENT: f64 = 0.02;
