//! A whole step message by message, by packets and by flows, beside the time line of [`step`](fabriscope_training::step).
//!
//! Modelled: all messages between nodes of all GPUs, as `fabriscope_training_plan` makes them; groups within nodes are times that NCCL gives step
//! by step. The parts are those of the GPU that ends last.
//! Not modelled: what `fabriscope_training_plan` leaves out; adapters that share a way to their GPUs.

use std::sync::Arc;

use fabriscope_engine::{Cluster, Engine, Stats};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_engine_packet::PacketEngine;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_schedule::{Builder, Schedule};
use fabriscope_training::operations::{Task, operations};
use fabriscope_training::{Layout, Step};
use fabriscope_training_plan::{Placed, PlanError, Planner, Seats, Spent};
use fabriscope_units::{Remedy, Span, Time};

use super::beside::{firsts, played};
use super::job::{Job, of_step};
use super::shown::{ms, percent};
use super::times::ClusterTimes;
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
        let stages = operations(&job.model.transformer, layout, &job.roofline, times, &inside).map_err(of_step)?;
        let (library, seats) = (times.library.clone(), seats(job, times));
        let adapters = job.parts.sole().node.nics;
        let mut builder = Builder::new(times.cluster.parts.endpoints());
        let mut planner = Planner::new(&library, &seats, adapters).map_err(|error| planned(&error))?;
        let placed = planner.add(&mut builder, layout, &stages, times).map_err(|error| planned(&error))?;
        let schedule = builder.build().map_err(|error| planned(&error.into()))?;
        Ok(Messages { schedule: Arc::new(schedule), placed, stages })
    }

    /// What the last GPU of a stage spent its time on, when the last of all was done, and what happened.
    fn run(&self, (cluster, engine): (&Cluster, &dyn Engine), of_stage: u32) -> Result<(Spent, Span, Stats), Error> {
        let run = played(cluster, engine, &self.schedule)?;
        let first = firsts(&self.schedule);
        let (mut worst, mut end) = (Spent::default(), Span::ZERO);
        for (rank, stage, tasks) in &self.placed.gpus {
            let at = |op: fabriscope_schedule::OpId| run.ops.get(first[*rank as usize] + op.0 as usize).copied().unwrap_or_default();
            let of: Vec<(Time, Time)> = tasks.iter().map(|task| (at(task.begin).started, at(task.end).ended)).collect();
            let spent = Spent::of(&self.stages[*stage as usize], &of);
            end = end.max(spent.total());
            if *stage == of_stage && spent.total() > worst.total() {
                worst = spent;
            }
        }
        Ok((worst, end, run.stats))
    }
}

/// The cluster with the memory that messages come from right at each adapter: GPUs share no switch of the node with other adapters' traffic.
pub(super) fn at_adapters(cluster: &Cluster) -> Cluster {
    let mut cluster = cluster.clone();
    for group in &mut cluster.groups {
        (group.reach, group.inside) = (None, None);
    }
    cluster
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
    let cluster = at_adapters(&times.cluster);
    let flows = messages.run((&cluster, &FlowEngine), step.stage)?;
    let packets = if by == ByMessages::Packets { Some(messages.run((&cluster, &PacketEngine), step.stage)?) } else { None };
    let analytic = in_parts(step, layout, times);
    let (last, end, stats) = packets.unwrap_or(flows);
    let mut columns = vec![Column::words("part, by messages", "part"), Column::number("time line ms", "analytic_ms")];
    columns.push(Column::number("flows ms", "flow_ms"));
    if packets.is_some() {
        columns.push(Column::number("packets ms", "packet_ms"));
    }
    columns.push(Column::number("time line off %", "analytic_off_percent"));
    let mut grid = Grid::new(columns);
    let mut row = |name: &str, analytic: Span, of: &dyn Fn(&Spent) -> Span| {
        let mut cells = vec![Cell::word(name), Cell::number(ms(analytic), 3), Cell::number(ms(of(&flows.0)), 3)];
        cells.extend(packets.map(|(spent, ..)| Cell::number(ms(of(&spent)), 3)));
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
    if end > last.total() {
        outcome.note(format!("a GPU of another stage is done after {:.3} ms", ms(end)));
    }
    outcome.note("`time line` is the step above, whose groups are fluids that do not meet each other");
    outcome.set("step_by_messages_s", end.as_s_f64());
    outcome.set("flow_step_s", flows.1.as_s_f64());
    Ok(())
}

/// The time line in the same parts.
fn in_parts(step: &Step, layout: &Layout, times: &ClusterTimes<'_>) -> Spent {
    let parts = &step.parts;
    let mut spent = Spent {
        computing: parts.matrix + parts.attention + parts.memory + parts.host + parts.slowed,
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

pub(super) fn planned(error: &PlanError) -> Error {
    Error::Training {
        message: format!("the step as messages: {error}"),
        help: error.remedy().unwrap_or_else(|| "ask without --engine".to_owned()),
    }
}

/// Parts of the fabric that run beside each other, where packets leave that to it.
pub(super) const THREADS: usize = 2;
