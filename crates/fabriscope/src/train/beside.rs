//! Several jobs on one fabric: equal jobs of training, each on nodes of its own, and nodes that write to others; what each takes alone and beside
//! the rest.
//!
//! Modelled: all messages of all jobs, begun at once; nodes dealt to jobs side by side, in turn, or as a lottery has it; storage as writes of
//! every adapter of the jobs to nodes behind theirs, one piece after the other.
//! Not modelled: jobs that begin at other times, what they compute when they wait, reads of storage, the disks.

use std::sync::Arc;

use fabriscope_engine::{Cluster, Connections, Engine, Job as Work, Run, RunOptions, Watch};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_engine_packet::PacketEngine;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_schedule::{After, Builder, OpId, OpKind, Schedule};
use fabriscope_streams::Streams;
use fabriscope_training::Layout;
use fabriscope_training::operations::{Task, operations};
use fabriscope_training_plan::{Placed, Planner, Seats};
use fabriscope_units::{Bytes, Remedy, Span, Time};

use super::shown::{laid, ms};
use super::times::ClusterTimes;
use super::whole::{ByMessages, THREADS, at_adapters, planned};
use super::{Job, stepped};
use crate::error::Error;

/// Which nodes jobs get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// Each job's are side by side.
    #[default]
    Packed,
    /// The first of each job, then the second of each, and so on.
    Interleaved,
    /// Any, by the seed.
    Random,
}

/// What runs beside a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beside {
    /// Equal jobs in all.
    pub jobs: u32,
    /// Their nodes.
    pub placement: Placement,
    /// What each of their adapters writes to the nodes behind them meanwhile.
    pub storage: Option<Bytes>,
    /// Seed of the lottery.
    pub seed: u64,
}

/// Bytes of a write. Basis: assumed, what parallel file systems send at once.
const PIECE: Bytes = Bytes::from_mib(16);

/// Everything that shares the fabric.
struct All<'a> {
    layout: &'a Layout,
    stages: Vec<Vec<Task>>,
    seats: Vec<Seats>,
    /// From which adapter to which.
    writes: Vec<(u32, u32)>,
    storage: Bytes,
    nics: u32,
    cluster: Cluster,
}

/// What takes part in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Job(usize),
    Storage,
}

/// Runs the jobs each alone and all together.
pub(super) fn outcome(
    job: &Job,
    layout: &Layout,
    times: &mut ClusterTimes<'_>,
    (beside, by): (Beside, ByMessages),
) -> Result<Outcome, Error> {
    let per_node = times.adapters.len() as u32;
    let (gpus, nodes) = (layout.gpus() as u32, job.parts.nodes());
    let each = gpus.div_ceil(per_node.max(1));
    let taken = each.saturating_mul(beside.jobs);
    let room = nodes.saturating_sub(u32::from(beside.storage.is_some()));
    if beside.jobs == 0 || taken > room {
        return Err(Error::Training {
            message: format!(
                "{} jobs of {each} nodes{}, and `{}` has {nodes}",
                beside.jobs,
                if beside.storage.is_some() { " and a node that is written to" } else { "" },
                job.parts.name
            ),
            help: "take more nodes, CLUSTER:NODES, or fewer jobs".to_owned(),
        });
    }
    let ways = times.groups_within();
    let stages = operations(&job.model.transformer, layout, &job.roofline, times, &|group| ways.within(group)).map_err(stepped)?;
    let nics = job.parts.sole().node.nics;
    let mut order: Vec<u32> = (0..taken).collect();
    match beside.placement {
        Placement::Packed => {}
        Placement::Interleaved => order = (0..taken).map(|place| place % each * beside.jobs + place / each).collect(),
        Placement::Random => Streams::new(beside.seed).stream("nodes of jobs", 0).shuffle(&mut order),
    }
    let seats = order.chunks(each as usize).map(|nodes| Seats::new(nodes.to_vec(), nics, times.adapters.clone())).collect();
    let targets = (nodes - taken).max(1) * nics;
    let writes = (0..taken * nics).map(|adapter| (adapter, taken * nics + adapter % targets)).collect();
    let all =
        All { layout, stages, seats, writes, storage: beside.storage.unwrap_or(Bytes::ZERO), nics, cluster: at_adapters(&times.cluster) };
    let engine: &dyn Engine = if by == ByMessages::Packets { &PacketEngine } else { &FlowEngine };
    let mut parts: Vec<Part> = (0..beside.jobs as usize).map(Part::Job).collect();
    parts.extend(beside.storage.map(|_| Part::Storage));
    let together = all.run(times, engine, &parts)?;
    let mut grid = Grid::new([
        Column::words("what", "what"),
        Column::number("nodes", "nodes"),
        Column::number("alone ms", "alone_ms"),
        Column::number("together ms", "together_ms"),
        Column::number("slower %", "slower_percent"),
    ]);
    let mut slowest = 0.0_f64;
    for (part, beside) in parts.iter().zip(together) {
        let alone = all.run(times, engine, &[*part])?.first().copied().unwrap_or_default();
        let slower = 100.0 * (beside.as_s_f64() / alone.as_s_f64().max(f64::MIN_POSITIVE) - 1.0);
        let (name, count) = match part {
            Part::Job(number) => (format!("job {}", number + 1), each),
            Part::Storage => ("storage".to_owned(), nodes - taken),
        };
        slowest = slowest.max(slower);
        grid.push([Cell::word(name), Cell::count(count), Cell::number(ms(alone), 3), Cell::number(ms(beside), 3), Cell::number(slower, 2)]);
    }
    let mut outcome = Outcome::new();
    outcome.note(format!("{} jobs of {} on {}: {}", beside.jobs, job.model.title, job.parts.name, laid(layout)));
    outcome.keyed_table("jobs", grid);
    outcome.note(format!(
        "all begin at once, by {}s; {}",
        engine.name(),
        match beside.placement {
            Placement::Packed => "nodes of a job are side by side".to_owned(),
            Placement::Interleaved => "jobs take nodes in turn".to_owned(),
            Placement::Random => format!("nodes by lottery, seed {}", beside.seed),
        }
    ));
    outcome.set("slowest_percent", slowest);
    Ok(outcome)
}

impl All<'_> {
    /// When each of these is done if they run together.
    fn run(&self, times: &mut ClusterTimes<'_>, engine: &dyn Engine, parts: &[Part]) -> Result<Vec<Span>, Error> {
        let library = times.library.clone();
        let mut builder = Builder::new(times.cluster.parts.endpoints());
        let mut ends: Vec<Vec<(u32, OpId)>> = Vec::new();
        for part in parts {
            ends.push(match part {
                Part::Job(number) => {
                    let mut planner = Planner::new(&library, &self.seats[*number], self.nics).map_err(|error| planned(&error))?;
                    let placed = planner.add(&mut builder, self.layout, &self.stages, times).map_err(|error| planned(&error))?;
                    last(&placed)
                }
                Part::Storage => self.store(&mut builder),
            });
        }
        let schedule = Arc::new(builder.build().map_err(|error| planned(&error.into()))?);
        let run = played(&self.cluster, engine, &schedule)?;
        let first = firsts(&schedule);
        let at = |(rank, op): &(u32, OpId)| run.ops.get(first[*rank as usize] + op.0 as usize).map_or(Time::ZERO, |times| times.ended);
        Ok(ends.iter().map(|ops| ops.iter().map(at).max().unwrap_or_default().since(Time::ZERO)).collect())
    }

    fn store(&self, builder: &mut Builder) -> Vec<(u32, OpId)> {
        let mut ends = Vec::new();
        for (from, to) in &self.writes {
            let (mut left, mut before) = (self.storage, None);
            while left > Bytes::ZERO {
                let bytes = left.min(PIECE);
                let after: Vec<After> = before.map(After::End).into_iter().collect();
                before = Some(builder.op_after(*from, OpKind::Put { to: *to, bytes }, &after));
                left = Bytes(left.0 - bytes.0);
            }
            ends.extend(before.map(|op| (*from, op)));
        }
        ends
    }
}

fn last(placed: &Placed) -> Vec<(u32, OpId)> {
    placed.gpus.iter().flat_map(|(rank, _, tasks)| tasks.iter().map(|task| (*rank, task.end))).collect()
}

/// The first operation of each rank among all.
pub(super) fn firsts(schedule: &Schedule) -> Vec<usize> {
    let mut first = vec![0_usize];
    for rank in 0..schedule.ranks() {
        first.push(first[rank as usize] + schedule.kinds(rank).len());
    }
    first
}

/// Runs a schedule, with the times of its operations.
pub(super) fn played(cluster: &Cluster, engine: &dyn Engine, schedule: &Arc<Schedule>) -> Result<Run, Error> {
    let work = Work::schedule(Arc::clone(schedule), Connections::default());
    let options = RunOptions { op_times: Watch::On, threads: THREADS, ..RunOptions::default() };
    engine.run(cluster, work, &options, 1).map_err(|error| Error::Training {
        message: format!("the step by messages: {error}"),
        help: error.remedy().unwrap_or_else(|| "ask without --engine".to_owned()),
    })
}
