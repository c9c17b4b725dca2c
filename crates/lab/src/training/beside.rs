//! Several jobs on one fabric: equal jobs of training, each on nodes of its own, and nodes that write to others; what each takes alone and beside
//! the rest.
//!
//! Modelled: all messages of all jobs, begun at once; nodes dealt to jobs side by side, in turn, or as a lottery has it; storage as writes of
//! every adapter of the jobs to nodes behind theirs, one piece after the other.
//! Not modelled: jobs that begin at other times, what they compute when they wait, reads of storage, the disks.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use fabriscope_engine::{Cluster, Connections, Engine, Job as Work, Run, RunOptions, Watch};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_engine_packet::PacketEngine;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_schedule::Schedule;
use fabriscope_streams::Streams;
use fabriscope_training::Layout;
use fabriscope_training::operations::operations;
use fabriscope_training_plan::Seats;
use fabriscope_units::{Bytes, Remedy, Span};

use super::job::{Job, of_step};
use super::shown::{laid, ms};
use super::tenant::{Planned, Tenant, Writes, measured, schedule};
use super::times::ClusterTimes;
use super::whole::{ByMessages, THREADS, at_adapters};
use crate::error::LabError;

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

/// Runs the jobs each alone and all together.
pub fn outcome(job: &Job, layout: &Layout, mut times: ClusterTimes<'_>, (beside, by): (Beside, ByMessages)) -> Result<Outcome, LabError> {
    let per_node = times.adapters.len() as u32;
    let (gpus, nodes) = (layout.gpus() as u32, job.parts.nodes());
    let each = gpus.div_ceil(per_node.max(1));
    let taken = each.saturating_mul(beside.jobs);
    let room = nodes.saturating_sub(u32::from(beside.storage.is_some()));
    if beside.jobs == 0 || taken > room {
        return Err(LabError::Training {
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
    let stages = operations(&job.model.transformer, layout, &job.roofline, &mut times, &|group| ways.within(group)).map_err(of_step)?;
    let (stages, nics, adapters) = (Rc::new(stages), job.parts.sole().node.nics, times.adapters.clone());
    let mut order: Vec<u32> = (0..taken).collect();
    match beside.placement {
        Placement::Packed => {}
        Placement::Interleaved => order = (0..taken).map(|place| place % each * beside.jobs + place / each).collect(),
        Placement::Random => Streams::new(beside.seed).stream("nodes of jobs", 0).shuffle(&mut order),
    }
    let cluster = at_adapters(&times.cluster);
    let ranks = cluster.parts.endpoints();
    let times = &RefCell::new(times);
    let mut tenants: Vec<(String, u32, Box<dyn Tenant + '_>)> = Vec::new();
    for (number, nodes) in (1..).zip(order.chunks(each as usize)) {
        let seats = Seats::new(nodes.to_vec(), nics, adapters.clone());
        let planned = Planned { layout: layout.clone(), stages: Rc::clone(&stages), seats, nics, times };
        tenants.push((format!("job {number}"), each, Box::new(planned)));
    }
    if let Some(bytes) = beside.storage {
        let targets = (nodes - taken).max(1) * nics;
        let pairs = (0..taken * nics).map(|adapter| (adapter, taken * nics + adapter % targets)).collect();
        tenants.push(("storage".to_owned(), nodes - taken, Box::new(Writes { pairs, bytes })));
    }
    let engine: &dyn Engine = if by == ByMessages::Packets { &PacketEngine } else { &FlowEngine };
    let run = |of: &[&dyn Tenant]| -> Result<Vec<Span>, LabError> {
        let (schedule, timed) = schedule(ranks, of)?;
        let schedule = Arc::new(schedule);
        let run = played(&cluster, engine, &schedule)?;
        Ok(measured(&schedule, &run, &timed).into_iter().map(|measured| measured.mean).collect())
    };
    let all: Vec<&dyn Tenant> = tenants.iter().map(|(.., tenant)| tenant.as_ref()).collect();
    let together = run(&all)?;
    let mut grid = Grid::new([
        Column::words("what", "what"),
        Column::number("nodes", "nodes"),
        Column::number("alone ms", "alone_ms"),
        Column::number("together ms", "together_ms"),
        Column::number("slower %", "slower_percent"),
    ]);
    let mut slowest = 0.0_f64;
    for (tenant, ((name, count, _), beside)) in all.iter().zip(tenants.iter().zip(together)) {
        let alone = run(&[*tenant])?.first().copied().unwrap_or_default();
        let slower = 100.0 * (beside.as_s_f64() / alone.as_s_f64().max(f64::MIN_POSITIVE) - 1.0);
        slowest = slowest.max(slower);
        let times = [Cell::number(ms(alone), 3), Cell::number(ms(beside), 3), Cell::number(slower, 2)];
        grid.push([Cell::word(name.clone()), Cell::count(*count)].into_iter().chain(times));
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

/// Runs a schedule, with the times of its operations.
pub fn played(cluster: &Cluster, engine: &dyn Engine, schedule: &Arc<Schedule>) -> Result<Run, LabError> {
    let work = Work::schedule(Arc::clone(schedule), Connections::default());
    let options = RunOptions { op_times: Watch::On, threads: THREADS, ..RunOptions::default() };
    engine.run(cluster, work, &options, 1).map_err(|error| LabError::Training {
        message: format!("the step by messages: {error}"),
        help: error.remedy().unwrap_or_else(|| "ask without --engine".to_owned()),
    })
}
