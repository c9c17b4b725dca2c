//! Jobs of many nodes: an operation is measured on some of the nodes, and what more of them add gives the rest.
//!
//! | algorithm | an operation on n nodes takes | so that it is measured on |
//! |---|---|---|
//! | trees | a + b · edges from root to leaf | 4, 8, 16 nodes: one level more each |
//! | ring | a + b · n | 4, 8, 16 nodes, each of whose ranks has as long a share of the message; 2, 4, 8 of those with many steps |
//!
//! Source: the steps of NCCL's algorithms (`fabriscope_nccl::Plan`): nodes do the same as others of their level, or of the ring, so that
//! time grows by the same from level to level and from node to node.
//! Modelled: the first nodes of the job with the choice, the channels, chunks and loops of the whole; where the level before the last would
//! lead elsewhere, 32 nodes as well; loops in steady state on eight of them alone. What is measured is what is printed: rank 0, the mean, the
//! least or the most.
//! Not modelled: what the whole job does to links between switches that some of its nodes do not; levels of the fabric above those.

use std::sync::OnceLock;

use fabriscope_nccl::{self as nccl, Algorithm, NcclError, Plan};
use fabriscope_nccl_runtime::{self as runtime, Communicator, World};
use fabriscope_node::{Process, ProgramError};
use fabriscope_units::Span;

use super::{Case, Job, Results, Row, Wires, report, steady};

/// Some nodes of a job, in steps.
pub(super) struct Fewer {
    steps: Vec<(World, OnceLock<Wires>)>,
}

impl Fewer {
    /// Whether a job has so many nodes, all alike, that some of them can stand for it.
    pub fn suits(whole: &World) -> bool {
        whole.plan().nodes() > COUNTS[FIRST + ENOUGH - 1] && whole.plan().kinds().len() == 1
    }

    /// The first nodes of `whole`, if all operations of `rows` go on regularly with more of them.
    pub fn of(whole: &World, rows: &[Row]) -> Result<Option<Fewer>, NcclError> {
        let plan = whole.plan();
        let regular = |case: &Case| {
            let algorithm = case.plan.as_ref().map(|plan| plan.choice.algorithm);
            matches!(algorithm, Some(Algorithm::Ring | Algorithm::Tree | Algorithm::NvlsTree))
        };
        if !rows.iter().flat_map(|row| row.cases.iter().flatten()).all(regular) {
            return Ok(None);
        }
        let counts = COUNTS.into_iter().filter(|nodes| *nodes < plan.nodes());
        let worlds = counts.map(|nodes| whole.on_first(nodes)).collect::<Result<Vec<_>, _>>()?;
        let channels = |plan: &nccl::Communicator| (plan.channels(), plan.nvls_channels(), plan.nvls_heads());
        let alike = worlds.iter().all(|world| channels(world.plan()) == channels(plan));
        Ok(alike.then(|| Fewer { steps: worlds.into_iter().map(|world| (world, OnceLock::new())).collect() }))
    }

    /// Nodes on which something runs.
    pub fn nodes(&self) -> u32 {
        self.steps.last().map_or(0, |(world, _)| world.plan().nodes())
    }
}

/// The communicators of one program, made when they are needed: all programs come there at the same time.
pub(super) struct Groups<'a> {
    process: Process,
    job: &'a Job,
    fewer: &'a Fewer,
    communicators: Vec<Communicator>,
}

impl<'a> Groups<'a> {
    pub fn new(process: Process, job: &'a Job, fewer: &'a Fewer) -> Groups<'a> {
        Groups { process, job, fewer, communicators: Vec::new() }
    }

    /// Measures a row at one place of its buffers.
    pub async fn measure(&mut self, at: usize, place: usize, results: &Results) -> Result<(), ProgramError> {
        let (job, row) = (self.job, &self.job.rows[at]);
        let [Case { plan: Some(plan), .. }] = &row.cases[place][..] else { return Ok(()) };
        let whole = job.world.plan();
        let (mut measured, mut nodes) = (Vec::new(), Vec::new());
        let mut continued = Continued::default();
        // How many operations one behind the other, and what a loop more adds, are the same for all: they differ by the nodes alone.
        let most = self.fewer.steps[FIRST + ENOUGH - 1].0.plan();
        let loops = plan.loops(whole);
        let c = self.communicator(STEADY).await?;
        let slope = steady::Slope::of(c, job, &plan.on_fewer(whole, c.plan()), (steady::FIRST / 2, 2)).await?;
        let begin = slope.as_ref().map_or(loops, |slope| slope.begin);
        let short = plan.on_fewer(whole, most).with_loops(most, begin);
        let long_ring = plan.choice.algorithm == Algorithm::Ring && steady::weight(most, &short) > LONG_RING;
        let count = if long_ring { 1 } else { steady::count(most, &short, &SIMULATED) };
        let more = slope.as_ref().map_or(0.0, |slope| slope.mean() * (loops - begin) as f64);
        for number in if long_ring { 0 } else { FIRST }..self.fewer.steps.len() {
            let c = self.communicator(number).await?;
            let before = c.wrong();
            let spans = steady::whole(c, job, &plan.on_fewer(whole, c.plan()), (begin, count)).await?;
            if c.is_first() {
                results.lock().wrong[at][place] += (c.wrong() - before).0.div_ceil(job.settings.element);
            }
            measured.push((place_of(plan, c.plan()), report::over_ranks(job.settings.average, &spans) + more));
            nodes.push(c.plan().nodes().to_string());
            continued = Continued::to(place_of(plan, whole), &measured);
            if measured.len() >= ENOUGH && continued.differs.abs() <= AGREEMENT {
                break;
            }
        }
        if self.process.rank() == 0 {
            let mut results = results.lock();
            results.times[at][place][0].push(Span::from_ps((continued.time * 1e6).round().max(0.0) as u64));
            let unit = if plan.choice.algorithm == Algorithm::Ring { "a node" } else { "a level of the trees" };
            let own = format!(
                "{} bytes: {} nodes as {} of them take, {:+.3} us {unit}, {:+.2} % by what the step before would give; --exact simulates all",
                row.bytes,
                whole.nodes(),
                nodes.join(", "),
                continued.slope,
                continued.differs * 100.0
            );
            let skipped = slope.and_then(|slope| slope.skipped(loops).remark(row.bytes));
            results.remarks[at] = std::iter::once(own).chain(skipped).collect();
        }
        Ok(())
    }

    async fn communicator(&mut self, number: usize) -> Result<&Communicator, ProgramError> {
        while self.communicators.len() <= number {
            let (world, wires) = &self.fewer.steps[self.communicators.len()];
            let wires = wires.get_or_init(|| wires_of(self.job, world));
            self.communicators.push(Communicator::init(self.process.clone(), world.clone(), wires).await?);
        }
        Ok(&self.communicators[number])
    }
}

/// The connections of all operations of the job on some of its nodes.
fn wires_of(job: &Job, world: &World) -> Wires {
    let plans = job.rows.iter().flat_map(|row| row.cases.iter().flatten()).filter_map(|case| case.plan.as_ref());
    let fewer = plans.map(|plan| plan.on_fewer(job.world.plan(), world.plan()));
    runtime::connections(world, fewer)
}

/// Where a communicator is on the way to more nodes.
fn place_of(plan: &Plan, communicator: &nccl::Communicator) -> f64 {
    f64::from(if plan.choice.algorithm == Algorithm::Ring { communicator.nodes() } else { communicator.levels() })
}

/// A straight line through the last two of what was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Continued {
    /// µs at its end.
    time: f64,
    /// µs for one more.
    slope: f64,
    /// By how much of `time` the line through the two before leads elsewhere.
    differs: f64,
}

impl Continued {
    /// To a place, through µs at others.
    fn to(place: f64, measured: &[(f64, f64)]) -> Continued {
        let slope = |(x, t): (f64, f64), (further, longer): (f64, f64)| (longer - t) / (further - x);
        let [.., before, last] = measured[..] else { return Continued::default() };
        let along = slope(before, last);
        let time = last.1 + (place - last.0) * along;
        let earlier = measured.iter().rev().nth(2).map_or(along, |first| slope(*first, before));
        Continued { time, slope: along, differs: (earlier - along) * (place - last.0) / time.max(f64::MIN_POSITIVE) }
    }
}

/// Nodes that are taken, which of these numbers is the first, and how many at least. Basis: assumed; leaves of trees, nodes with one child
/// and with two are among four nodes, and those that wait for both trees among eight.
const COUNTS: [u32; 5] = [2, 4, 8, 16, 32];
const FIRST: usize = 1;
const ENOUGH: usize = 3;
/// Steps of all ranks of 16 nodes from which on fewer nodes stand for a ring, by one operation each. Basis: assumed; bytes bind such a ring,
/// and its steps are all alike.
const LONG_RING: u64 = steady::HEAVY / 8;
/// Operations one behind the other by the steps of all ranks. Basis: assumed; the first of an idle job is not like those behind it.
const SIMULATED: [(u64, u32); 3] = [(steady::HEAVY / 128, 7), (steady::HEAVY / 16, 3), (2 * steady::HEAVY, 2)];
/// Which of them says what a loop more adds. Basis: assumed; of eight nodes some pass on to one and some to two others.
const STEADY: usize = 2;
/// By how much of itself the time may differ where the step before gives the slope. Basis: assumed; slopes come closer to each other, so
/// that the last leads much nearer than the difference to the one before (docs/models/nccl-runtime.md has a table).
const AGREEMENT: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 + 3 x at 2, 3, 4 is 37 at 9; one more at the last is a slope of 4, by which the step before differs by 5 of 43.
    #[test]
    fn lines_go_on() {
        let straight = Continued::to(9.0, &[(2.0, 16.0), (3.0, 19.0), (4.0, 22.0)]);
        assert_eq!(straight, Continued { time: 37.0, slope: 3.0, differs: 0.0 });
        let bent = Continued::to(9.0, &[(2.0, 16.0), (3.0, 19.0), (4.0, 23.0)]);
        assert_eq!(bent, Continued { time: 43.0, slope: 4.0, differs: -5.0 / 43.0 });
    }
}
