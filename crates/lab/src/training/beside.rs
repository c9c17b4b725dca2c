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
use fabriscope_training::Layout;
use fabriscope_training_plan::Seats;
use fabriscope_units::{Bytes, Remedy};

use super::job::{Job, stages};
use super::shown::{laid, ms};
use super::tenant::{Planned, Shared, Tenant, Writes, nodes_of_jobs, shared, slowest};
use super::times::ClusterTimes;
use super::whole::{ByMessages, THREADS, at_adapters};
use crate::error::LabError;
pub use crate::workload::mix::Placement;

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
    let stages = Rc::new(stages(job, layout, &mut times)?);
    let (nics, adapters) = (job.parts.sole().node.nics, times.adapters.clone());
    let cluster = at_adapters(&times.cluster);
    let ranks = cluster.parts.endpoints();
    let times = &RefCell::new(times);
    let mut tenants: Vec<(String, u32, Box<dyn Tenant + '_>)> = Vec::new();
    let dealt = nodes_of_jobs(&vec![each; beside.jobs as usize], beside.placement, taken, beside.seed);
    for (number, nodes) in (1..).zip(dealt) {
        let seats = Seats::new(nodes, nics, adapters.clone());
        let planned = Planned { layout: layout.clone(), stages: Rc::clone(&stages), seats, nics, times };
        tenants.push((format!("job {number}"), each, Box::new(planned)));
    }
    if let Some(bytes) = beside.storage {
        let targets = (nodes - taken).max(1) * nics;
        let pairs = (0..taken * nics).map(|adapter| (adapter, taken * nics + adapter % targets)).collect();
        tenants.push(("storage".to_owned(), nodes - taken, Box::new(Writes { pairs, bytes })));
    }
    let engine: &dyn Engine = if by == ByMessages::Packets { &PacketEngine } else { &FlowEngine };
    let all: Vec<&dyn Tenant> = tenants.iter().map(|(.., tenant)| tenant.as_ref()).collect();
    let found = shared(ranks, &all, |schedule| played(&cluster, engine, schedule))?;
    let mut grid = Grid::new([
        Column::words("what", "what"),
        Column::number("nodes", "nodes"),
        Column::number("alone ms", "alone_ms"),
        Column::number("together ms", "together_ms"),
        Column::number("slower %", "slower_percent"),
    ]);
    for ((name, count, _), Shared { alone, together, slower }) in tenants.iter().zip(&found) {
        let times = [Cell::number(ms(alone.mean), 3), Cell::number(ms(together.mean), 3), Cell::number(*slower, 2)];
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
    outcome.set("slowest_percent", slowest(&found));
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
