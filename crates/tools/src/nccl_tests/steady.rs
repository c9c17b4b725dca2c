//! Long operations of large jobs: some loops and iterations are simulated, the others go on as these did.
//!
//! | kernels of K, 2 K and 3 K loops | an operation of N loops |
//! |---|---|
//! | t(K), t(2 K), t(3 K) | t(3 K) + (N − 3 K) · (t(3 K) − t(K)) / 2 K |
//!
//! Source: NCCL's kernels go through equal loops over their chunks (`fabriscope_nccl::Plan`), so that a long message is a pipeline in
//! steady state, with the same begin and the same end whatever its length.
//! Modelled: the plan of the whole message with fewer whole loops; K is doubled until t(2 K) − t(K) and t(3 K) − t(2 K) agree; where
//! the last of these has as many loops as the operation, all of its loops are simulated.
//! Messages that differ in the number of loops alone, and the two places of the buffers, are measured once; what a loop adds is measured
//! once for all messages with the same chunks, on whole loops, whatever is left over behind them. An operation behind another takes as
//! long as from the start of its kernel to the end.
//! Not modelled: how the first operations after a barrier differ from those behind them.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_nccl::Plan;
use fabriscope_nccl_runtime::{Communicator, World};
use fabriscope_node::ProgramError;
use fabriscope_units::{Span, Time};

use super::{Job, MOST_STEPS, enqueue_plan, most_steps};

/// What a rank measured of a kernel.
#[derive(Debug, Clone, Copy, Default)]
struct Kernel {
    /// From the first call until the host has seen the end of the first.
    first: Span,
    /// From the end of one to the end of the next; of a single one from the time it was in the stream until it ended.
    alone: Span,
}

/// What has been measured, by what decides how long it takes.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Kernels, of each rank.
    kernels: BTreeMap<String, Arc<Vec<Kernel>>>,
    /// What loops add, whatever is left over behind them.
    slopes: BTreeMap<String, Slope>,
}

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
    nodes > 1 && (weight(world.plan(), plan) > HEAVY || most_steps(world, plan) > MANY)
}

/// Steps of all ranks, as far as they would be simulated otherwise.
pub(super) fn weight(communicator: &fabriscope_nccl::Communicator, plan: &Plan) -> u64 {
    let lanes = plan.parts.iter().flat_map(|part| plan.lanes(communicator, 0, part));
    u64::from(communicator.ranks()) * lanes.map(|lane| lane.steps().min(MOST_STEPS)).sum::<u64>()
}

/// How many kernels one behind the other are simulated where no loop is left out: fewer of those that have more steps.
pub(super) fn count(communicator: &fabriscope_nccl::Communicator, plan: &Plan, enough: &[(u64, u32)]) -> u32 {
    let weight = weight(communicator, plan);
    enough.iter().find(|(most, _)| weight <= *most).map_or(1, |(_, count)| *count)
}

/// What a loop more adds to an operation of K, 2 K or more loops, on each rank.
#[derive(Debug, Clone)]
pub(super) struct Slope {
    /// K.
    pub begin: u64,
    each: Arc<[Span]>,
    growth: f64,
}

impl Slope {
    /// Measures it, where an operation has enough loops, on whole loops alone: messages that differ in their number, and in what is left
    /// over, share it. Every program of the job comes here with the same plan, those that are not of the communicator as well. The first K
    /// has at least `first` steps; none if the operation has fewer than `least` times K loops.
    pub async fn of(c: &Communicator, job: &Job, plan: &Plan, (first, least): (u64, u64)) -> Result<Option<Slope>, ProgramError> {
        let loops = plan.loops(c.plan());
        let lanes = plan.parts.iter().flat_map(|part| plan.lanes(c.plan(), 0, part));
        let shortest = lanes.map(|lane| lane.course().steps_of_loop()).min().unwrap_or(1);
        let mut begin = first.div_ceil(shortest.max(1));
        let chunks: Vec<(u32, u64)> = plan.parts.iter().map(|part| (part.channel, part.chunk.0)).collect();
        let shape = format!("{} {:?} {} {chunks:?}", c.ranks(), plan.choice.work(), plan.root);
        // All have come here before the first has anything to say.
        c.barrier().await?;
        let known = job.known.lock().slopes.get(&shape).cloned();
        if let Some(slope) = known {
            return Ok((least * slope.begin <= loops).then_some(slope));
        }
        while least * begin <= loops {
            let of_loops = |loops| plan.of_whole_loops(c.plan(), loops);
            let short = kernels(c, job, of_loops(begin), 1).await?;
            let middle = kernels(c, job, of_loops(2 * begin), 1).await?;
            let long = kernels(c, job, of_loops(3 * begin), 1).await?;
            let [one, two, three] = [&short, &middle, &long].map(|kernels| together(kernels));
            let growth = if two > one { (three - two) / (two - one) - 1.0 } else { f64::INFINITY };
            if growth.abs() <= AGREEMENT {
                let more = |(short, long): (&Kernel, &Kernel)| long.alone.saturating_sub(short.alone) / (2 * begin);
                let slope = Slope { begin, each: short.iter().zip(long.iter()).map(more).collect(), growth };
                job.known.lock().slopes.insert(shape, slope.clone());
                return Ok(Some(slope));
            }
            begin *= 2;
        }
        Ok(None)
    }

    /// The mean over all ranks, in µs.
    pub fn mean(&self) -> f64 {
        self.each.iter().map(|span| span.as_us_f64()).sum::<f64>() / self.each.len().max(1) as f64
    }

    /// What is left out of an operation of so many loops if 3 K of them were simulated.
    pub fn skipped(&self, loops: u64) -> Skipped {
        Skipped { loops: (loops, 3 * self.begin), growth: self.growth }
    }
}

/// The mean time of an operation on each rank, and what was left out of it. Every program of the job comes here with the same plan.
pub(super) async fn measure(c: &Communicator, job: &Job, plan: &Plan) -> Result<(Vec<Span>, Skipped), ProgramError> {
    let loops = plan.loops(c.plan());
    let Some(slope) = Slope::of(c, job, plan, (FIRST, 3)).await? else {
        let count = count(c.plan(), plan, &[(4 * HEAVY, 3)]);
        return Ok((whole(c, job, plan, (loops, count)).await?, Skipped { loops: (loops, loops), growth: 0.0 }));
    };
    let long = kernels(c, job, plan.with_loops(c.plan(), 3 * slope.begin), 1).await?;
    let all = long.iter().zip(slope.each.iter()).map(|(long, each)| {
        let more = *each * (loops - 3 * slope.begin);
        mean(job, long.first + more, long.alone + more)
    });
    Ok((all.collect(), slope.skipped(loops)))
}

/// The mean time of an operation of so many loops on each rank, `count` of which are simulated one behind the other.
pub(super) async fn whole(c: &Communicator, job: &Job, plan: &Plan, (loops, count): (u64, u32)) -> Result<Vec<Span>, ProgramError> {
    Ok(kernels(c, job, plan.with_loops(c.plan(), loops), count).await?.iter().map(|kernel| mean(job, kernel.first, kernel.alone)).collect())
}

/// The mean over the iterations of the command line, of the first operation and those behind it.
fn mean(job: &Job, first: Span, alone: Span) -> Span {
    let iterations = u64::from(job.settings.iterations);
    (first + alone * (iterations - 1)) / iterations
}

/// How long all ranks together took for the last kernel, in µs.
fn together(kernels: &[Kernel]) -> f64 {
    kernels.iter().map(|kernel| kernel.alone.as_us_f64()).sum()
}

/// So many kernels one behind the other, on each rank. Those that take as long are run once.
async fn kernels(c: &Communicator, job: &Job, plan: Plan, count: u32) -> Result<Arc<Vec<Kernel>>, ProgramError> {
    let plan = Arc::new(plan);
    // Neither offsets nor the place of the result are among it.
    let parts: Vec<(u32, u64, u64)> = plan.parts.iter().map(|part| (part.channel, part.bytes.0, part.chunk.0)).collect();
    let shape = format!("{} {:?} {} {count} {parts:?}", c.ranks(), plan.choice.work(), plan.root);
    c.barrier().await?;
    let found = job.known.lock().kernels.get(&shape).cloned();
    if let Some(found) = found {
        return Ok(found);
    }
    // All have looked before the first has anything to say.
    c.barrier().await?;
    if c.is_member() {
        let begun = c.now();
        let mut turns = Vec::new();
        for _ in 0..count {
            let turn = enqueue_plan(c, job, &plan)?;
            turns.push((turn, c.now() + c.library().kernel_start));
        }
        let mut mine = Kernel::default();
        let mut ends: Vec<Time> = Vec::new();
        for (turn, launched) in turns {
            ends.push(c.synchronise(turn).await?);
            if let [end] = ends[..] {
                (mine.first, mine.alone) = (c.now().since(begun), end.since(launched));
            }
        }
        if let [first, .., last] = ends[..] {
            mine.alone = last.since(first) / u64::from(count - 1);
        }
        let mut known = job.known.lock();
        let all = known.kernels.entry(shape.clone()).or_insert_with(|| Arc::new(vec![Kernel::default(); c.ranks() as usize]));
        Arc::make_mut(all)[c.rank() as usize] = mine;
    }
    // Nobody asks before all have said what they measured.
    c.barrier().await?;
    let all = job.known.lock().kernels.get(&shape).cloned();
    Ok(all.unwrap_or_default())
}

/// Steps of all ranks from which on loops and iterations are left out. Basis: assumed; some seconds of one core.
pub(super) const HEAVY: u64 = 1 << 20;
/// Steps of a rank between nodes from which on they are left out in any case. Basis: assumed.
const MANY: u64 = MOST_STEPS / 4;
/// Steps of the first K. Basis: assumed; as many as a connection has slots, and the check doubles K where that is not enough.
pub(super) const FIRST: u64 = 8;
/// By how much of itself the last third may take longer or shorter. Basis: assumed; iterations differ by as much among themselves.
const AGREEMENT: f64 = 0.02;
