//! A whole step message by message, by packets and by flows, beside the time line of [`step`](fabriscope_training::step).
//!
//! Modelled: all messages between nodes of all GPUs, as `fabriscope_training_plan` makes them; groups within nodes are times that NCCL gives step
//! by step. The parts are those of the GPU that ends last.
//! Not modelled: what `fabriscope_training_plan` leaves out.

use std::sync::Arc;

use fabriscope_engine::{Connections, Engine, Job as Work, RunOptions, Stats, Watch};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_engine_packet::PacketEngine;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_schedule::{Builder, Schedule};
use fabriscope_training::operations::{Task, operations};
use fabriscope_training::{Layout, Step};
use fabriscope_training_plan::{Placed, PlanError, Planner, Seats, Spent};
use fabriscope_units::{Remedy, Span, Time};

use super::shown::{ms, percent};
use super::times::ClusterTimes;
use super::{Job, stepped};
use crate::error::Error;

/// Which engine runs the step message by message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByMessages {
    /// Packets, and flows beside them.
    Packets,
    /// Flows.
    Flows,
}

/// A step as messages.
pub(super) struct Messages {
    pub schedule: Arc<Schedule>,
    pub placed: Placed,
    pub stages: Vec<Vec<Task>>,
}

impl Messages {
    /// Of a job on the first nodes of the cluster.
    pub fn of(job: &Job, layout: &Layout, times: &mut ClusterTimes<'_>) -> Result<Messages, Error> {
        let ways = times.groups_within();
        let inside = |group| ways.within(group);
        let stages = operations(&job.model.transformer, layout, &job.roofline, times, &inside).map_err(stepped)?;
        let (library, seats) = (times.library.clone(), seats(job, times));
        let adapters = job.parts.sole().node.nics;
        let mut builder = Builder::new(times.cluster.parts.endpoints());
        let mut planner = Planner::new(&library, &seats, adapters).map_err(|error| planned(&error))?;
        let placed = planner.add(&mut builder, layout, &stages, times).map_err(|error| planned(&error))?;
        let schedule = builder.build().map_err(|error| planned(&error.into()))?;
        Ok(Messages { schedule: Arc::new(schedule), placed, stages })
    }

    fn run(&self, times: &ClusterTimes<'_>, engine: &dyn Engine) -> Result<(Spent, Stats), Error> {
        let work = Work::schedule(Arc::clone(&self.schedule), Connections::default());
        let options = RunOptions { op_times: Watch::On, threads: THREADS, ..RunOptions::default() };
        let run = engine.run(&times.cluster, work, &options, 1).map_err(|error| Error::Training {
            message: format!("the step by messages: {error}"),
            help: error.remedy().unwrap_or_else(|| "ask without --engine".to_owned()),
        })?;
        let mut first = vec![0_usize];
        for rank in 0..self.schedule.ranks() {
            first.push(first[rank as usize] + self.schedule.kinds(rank).len());
        }
        let mut worst = Spent::default();
        for (rank, stage, tasks) in &self.placed.gpus {
            let at = |op: fabriscope_schedule::OpId| run.ops.get(first[*rank as usize] + op.0 as usize).copied().unwrap_or_default();
            let of: Vec<(Time, Time)> = tasks.iter().map(|task| (at(task.begin).started, at(task.end).ended)).collect();
            let spent = Spent::of(&self.stages[*stage as usize], &of);
            if spent.total() > worst.total() {
                worst = spent;
            }
        }
        Ok((worst, run.stats))
    }
}

fn seats(job: &Job, times: &ClusterTimes<'_>) -> Seats {
    Seats::new((0..job.parts.nodes()).collect(), job.parts.sole().node.nics, times.adapters.clone())
}

/// Runs the step, and adds what came out.
pub(super) fn add(
    outcome: &mut Outcome,
    job: &Job,
    layout: &Layout,
    (step, by): (&Step, ByMessages),
    times: &mut ClusterTimes<'_>,
) -> Result<(), Error> {
    let messages = Messages::of(job, layout, times)?;
    let counts = messages.schedule.stats();
    let flows = messages.run(times, &FlowEngine)?;
    let packets = if by == ByMessages::Packets { Some(messages.run(times, &PacketEngine)?) } else { None };
    let analytic = in_parts(step, layout, times);
    let (last, stats) = packets.unwrap_or(flows);
    let mut columns = vec![Column::words("part, by messages", "part"), Column::number("time line ms", "analytic_ms")];
    columns.push(Column::number("flows ms", "flow_ms"));
    if packets.is_some() {
        columns.push(Column::number("packets ms", "packet_ms"));
    }
    columns.push(Column::number("time line off %", "analytic_off_percent"));
    let mut grid = Grid::new(columns);
    let mut row = |name: &str, analytic: Span, of: &dyn Fn(&Spent) -> Span| {
        let mut cells = vec![Cell::word(name), Cell::number(ms(analytic), 3), Cell::number(ms(of(&flows.0)), 3)];
        cells.extend(packets.map(|(spent, _)| Cell::number(ms(of(&spent)), 3)));
        let off = of(&last);
        cells.push(if off > Span::ZERO { Cell::number(percent(analytic, off) - 100.0, 2) } else { Cell::none() });
        grid.push(cells);
    };
    for (number, (name, span)) in analytic.parts().into_iter().enumerate() {
        row(name, span, &|spent| spent.parts()[number].1);
    }
    row("step", analytic.total(), &Spent::total);
    outcome.text("\n").keyed_table("by_messages", grid);
    outcome.note(format!(
        "{} messages of {} in {} collectives and the pipeline, {} operations; {}{}",
        counts.messages,
        counts.bytes,
        messages.placed.collectives,
        counts.ops,
        if packets.is_some() { format!("{} packets, {} hops, ", stats.packets, stats.packet_hops) } else { String::new() },
        format_args!("{} events", stats.events),
    ));
    outcome.note("`time line` is the step above, whose groups are fluids that do not meet each other");
    outcome.set("step_by_messages_s", last.total().as_s_f64());
    outcome.set("flow_step_s", flows.0.total().as_s_f64());
    Ok(())
}

/// The time line in the same parts.
fn in_parts(step: &Step, layout: &Layout, times: &ClusterTimes<'_>) -> Spent {
    let parts = &step.parts;
    let mut spent = Spent {
        computing: parts.matrix + parts.attention + parts.memory + parts.slowed,
        groups: Span::ZERO,
        pipeline: parts.messages + parts.bubble,
        data: parts.data,
        optimizer: parts.optimizer,
    };
    let groups = [(parts.tensor, layout.tensor_group()), (parts.context, layout.context_group()), (parts.expert, layout.expert_group())];
    for (span, group) in groups {
        *(if times.within(group) { &mut spent.computing } else { &mut spent.groups }) += span;
    }
    spent
}

fn planned(error: &PlanError) -> Error {
    Error::Training {
        message: format!("the step as messages: {error}"),
        help: error.remedy().unwrap_or_else(|| "ask without --engine".to_owned()),
    }
}

/// Parts of the fabric that run beside each other, where packets leave that to it.
const THREADS: usize = 2;
