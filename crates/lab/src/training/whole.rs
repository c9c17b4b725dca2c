//! A whole step message by message, by packets and by flows, beside the time line of [`step`](mod@fabriscope_training::step).
//!
//! Modelled: all messages between nodes of all GPUs, as `fabriscope_training_plan` makes them; groups within nodes are times that NCCL gives step
//! by step. The parts are those of the GPU that ends last.
//! Not modelled: what `fabriscope_training_plan` leaves out; adapters that share a way to their GPUs.

use std::sync::Arc;

use fabriscope_engine::{Cluster, Engine, OpTimes, Stats};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_engine_packet::PacketEngine;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_schedule::{Builder, Schedule};
use fabriscope_training::operations::Task;
use fabriscope_training::{Layout, Step};
use fabriscope_training_plan::{Placed, PlanError, Planner, Seats, Spent};
use fabriscope_units::{Remedy, Span, Time};

use super::beside::played;
use super::job::{Job, stages};
use super::shown::{ms, percent};
use super::tenant::firsts;
use super::times::ClusterTimes;
use crate::error::LabError;

/// Which engine runs the step message by message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByMessages {
    /// Packets, and flows beside them.
    Packets,
    /// Flows.
    Flows,
}

/// A step as messages.
pub struct Messages {
    /// What adapters send.
    pub schedule: Arc<Schedule>,
    /// Where the operations of GPUs are in it.
    pub placed: Placed,
    /// The operations of each stage.
    pub stages: Vec<Vec<Task>>,
}

impl Messages {
    /// Of a job on the first nodes of the cluster.
    ///
    /// # Errors
    /// Adapters that act as one, groups of which the library has no plan.
    pub fn of(job: &Job, layout: &Layout, times: &mut ClusterTimes<'_>) -> Result<Messages, LabError> {
        Messages::on((0..job.parts.nodes()).collect(), job, layout, times)
    }

    /// The same on these nodes, in the order of its GPUs.
    ///
    /// # Errors
    /// As [`Messages::of`].
    pub fn on(nodes: Vec<u32>, job: &Job, layout: &Layout, times: &mut ClusterTimes<'_>) -> Result<Messages, LabError> {
        let stages = stages(job, layout, times)?;
        let adapters = job.parts.sole().node.nics;
        let (library, seats) = (times.library.clone(), Seats::new(nodes, adapters, times.adapters.clone()));
        let mut builder = Builder::new(times.cluster.parts.endpoints());
        let mut planner = Planner::new(&library, &seats, adapters).map_err(|error| planned(&error))?;
        let placed = planner.add(&mut builder, layout, &stages, times).map_err(|error| planned(&error))?;
        let schedule = builder.build().map_err(|error| planned(&error.into()))?;
        Ok(Messages { schedule: Arc::new(schedule), placed, stages })
    }

    /// What the last GPU of a stage spent its time on, and when the last of all was done, if a run had these times of operations.
    #[must_use]
    pub fn spent(&self, ops: &[OpTimes], of_stage: u32) -> (Spent, Span) {
        let first = firsts(&self.schedule);
        let (mut worst, mut end) = (Spent::default(), Span::ZERO);
        for (rank, stage, tasks) in &self.placed.gpus {
            let at = |op: fabriscope_schedule::OpId| ops.get(first[*rank as usize] + op.0 as usize).copied().unwrap_or_default();
            let of: Vec<(Time, Time)> = tasks.iter().map(|task| (at(task.begin).started, at(task.end).ended)).collect();
            let spent = Spent::of(&self.stages[*stage as usize], &of);
            end = end.max(spent.total());
            if *stage == of_stage && spent.total() > worst.total() {
                worst = spent;
            }
        }
        (worst, end)
    }

    /// The same by an engine of its own, and what happened.
    fn run(&self, (cluster, engine): (&Cluster, &dyn Engine), of_stage: u32) -> Result<(Spent, Span, Stats), LabError> {
        let run = played(cluster, engine, &self.schedule)?;
        let (spent, end) = self.spent(&run.ops, of_stage);
        Ok((spent, end, run.stats))
    }

    /// What there is of them, in words.
    #[must_use]
    pub fn counted(&self) -> String {
        let counts = self.schedule.stats();
        format!(
            "{} messages of {} in {} collectives and the pipeline, {} operations",
            counts.messages, counts.bytes, self.placed.collectives, counts.ops
        )
    }
}

/// The cluster with the memory that messages come from right at each adapter: GPUs share no switch of the node with other adapters' traffic.
#[must_use]
pub fn at_adapters(cluster: &Cluster) -> Cluster {
    let mut cluster = cluster.clone();
    for group in &mut cluster.groups {
        (group.reach, group.inside) = (None, None);
    }
    cluster
}

/// Runs the step, and adds what came out.
///
/// # Errors
/// Adapters that act as one, groups of which the library has no plan, what an engine refuses.
pub fn add(
    outcome: &mut Outcome,
    job: &Job,
    layout: &Layout,
    (step, by): (&Step, ByMessages),
    times: &mut ClusterTimes<'_>,
) -> Result<(), LabError> {
    let messages = Messages::of(job, layout, times)?;
    let cluster = at_adapters(&times.cluster);
    let flows = messages.run((&cluster, &FlowEngine), step.stage)?;
    let packets = if by == ByMessages::Packets { Some(messages.run((&cluster, &PacketEngine), step.stage)?) } else { None };
    let (last, end, stats) = packets.unwrap_or(flows);
    let mut ran = vec![("flow", flows.0)];
    ran.extend(packets.map(|(spent, ..)| ("packet", spent)));
    outcome.text("\n");
    in_columns(outcome, in_parts(step, layout, times), &ran);
    outcome.note(format!(
        "{}; {}{}",
        messages.counted(),
        if packets.is_some() { format!("{} packets, {} hops, ", stats.packets, stats.packet_hops) } else { String::new() },
        format_args!("{} events", stats.events),
    ));
    other_stage(outcome, end, last);
    outcome.note("`time line` is the step above, whose groups are fluids that do not meet each other");
    outcome.set("step_by_messages_s", end.as_s_f64());
    outcome.set("flow_step_s", flows.1.as_s_f64());
    Ok(())
}

/// The parts of a step by the time line and by engines, whose names these are; the last is what the time line is compared with.
pub(super) fn in_columns(outcome: &mut Outcome, analytic: Spent, ran: &[(&str, Spent)]) {
    let mut columns = vec![Column::words("part, by messages", "part"), Column::number("time line ms", "analytic_ms")];
    columns.extend(ran.iter().map(|(name, _)| Column::number(&format!("{name}s ms"), &format!("{name}_ms"))));
    columns.push(Column::number("time line off %", "analytic_off_percent"));
    let mut grid = Grid::new(columns);
    let last = ran.last().map_or(Spent::default(), |(_, spent)| *spent);
    let mut row = |name: &str, analytic: Span, of: &dyn Fn(&Spent) -> Span| {
        let mut cells = vec![Cell::word(name), Cell::number(ms(analytic), 3)];
        cells.extend(ran.iter().map(|(_, spent)| Cell::number(ms(of(spent)), 3)));
        let off = of(&last);
        cells.push(if off > Span::ZERO { Cell::number(percent(analytic, off) - 100.0, 2) } else { Cell::none() });
        grid.push(cells);
    };
    for (number, (name, span)) in analytic.parts().into_iter().enumerate() {
        row(name, span, &|spent| spent.parts()[number].1);
    }
    row("step", analytic.total(), &Spent::total);
    outcome.keyed_table("by_messages", grid);
}

/// Says where another stage ends later.
pub(super) fn other_stage(outcome: &mut Outcome, end: Span, last: Spent) {
    if end > last.total() {
        outcome.note(format!("a GPU of another stage is done after {:.3} ms", ms(end)));
    }
}

/// The time line in the same parts.
pub(super) fn in_parts(step: &Step, layout: &Layout, times: &ClusterTimes<'_>) -> Spent {
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

pub(crate) fn planned(error: &PlanError) -> LabError {
    LabError::Training {
        message: format!("the step as messages: {error}"),
        help: error.remedy().unwrap_or_else(|| "ask without --engine".to_owned()),
    }
}

/// Parts of the fabric that run beside each other, where packets leave that to it.
pub(super) const THREADS: usize = 2;
