//! Steps of uneven ranks, and checkpoints, as people and programs read them.

use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_training::checkpoint::{Checkpoint, written};
use fabriscope_training::stragglers::{self, Unevenness};
use fabriscope_training::{Layout, Step};
use fabriscope_units::Span;

use crate::error::Error;
use fabriscope_lab::training::job::{Job, gpus_of};
use fabriscope_lab::training::shown::{change, gb, ms};

/// Many steps, and who waits for whom.
pub(super) fn steps(step: &Step, layout: &Layout, uneven: &Unevenness, outcome: &mut Outcome) -> Result<(), Error> {
    let refused = |message: String, help: &str| Err(Error::Training { message, help: help.to_owned() });
    let gpus = layout.gpus();
    if let Some(rank) = uneven.slow.keys().find(|rank| **rank >= gpus) {
        return refused(
            format!("rank {rank} is slower, and the job has ranks 0 to {}", gpus - 1),
            "name a rank of the job: --straggler RANK:FACTOR",
        );
    }
    if !(0.0..=MOST_SHARE).contains(&uneven.share) {
        return refused(format!("passes take {} of their length longer at the mean", uneven.share), "use 0 to 10: --jitter 0.02");
    }
    if let Some((rank, factor)) = uneven.slow.iter().find(|(_, factor)| !(1.0..=MOST_FACTOR).contains(*factor)) {
        return refused(format!("rank {rank} takes {factor} times as long"), "use 1 to 1000: --straggler 5:1.2");
    }
    let found = stragglers::steps(step, layout, uneven);
    let mut grid =
        Grid::new([Column::words("steps of uneven ranks", "steps"), Column::number("ms", "ms"), Column::number("%", "change_percent")]);
    let rows = [
        ("even ranks", found.even),
        ("at the mean, if nobody waited for others", found.alone),
        ("at the mean, if copies did not wait for copies", found.in_groups),
        ("mean", found.mean()),
        ("p50", found.percentile(50)),
        ("p99", found.percentile(99)),
        ("longest", found.percentile(100)),
    ];
    for (name, span) in rows {
        grid.push([Cell::word(name), Cell::number(ms(span), 3), Cell::number(change(span, found.even), 2)]);
    }
    outcome.text("\n").keyed_table("uneven", grid);
    let often = found.last.iter().max_by_key(|(stage, count)| (**count, std::cmp::Reverse(**stage)));
    if let Some((stage, count)) = often.filter(|_| layout.pipeline > 1) {
        outcome.note(format!("stage {stage} ended last in {count} of {} steps", found.steps.len()));
    }
    let seconds = |span: Span| span.as_s_f64();
    outcome.set("mean_step_s", seconds(found.mean())).set("p99_step_s", seconds(found.percentile(99)));
    outcome.set("steps_s", found.steps.iter().map(|span| seconds(*span)).collect::<Vec<f64>>());
    Ok(())
}

/// What is taken. Basis: assumed, more than any job has.
const MOST_SHARE: f64 = 10.0;
const MOST_FACTOR: f64 = 1000.0;

/// What checkpoints write, and what of the time of the job they are.
pub(super) fn checkpoints(job: &Job, layout: &Layout, checkpoint: &Checkpoint, step: Span, outcome: &mut Outcome) {
    let per_node = gpus_of(job) / job.parts.nodes().max(1);
    let found = written(&job.model.transformer, layout, per_node);
    let (time, share) = (checkpoint.time(&found), 100.0 * checkpoint.share(&found, step));
    outcome.note(format!(
        "a checkpoint is {}, parameters {} and optimizer {}; nodes that write: {}, the one with most {}; the job waits {:.2} s after every \
         {} steps, {share:.2} % of its time",
        gb(found.total()),
        gb(found.parameters),
        gb(found.optimizer),
        found.nodes,
        gb(found.busiest),
        time.as_s_f64(),
        checkpoint.every,
    ));
    outcome.set("checkpoint_bytes", found.total().0).set("checkpoint_s", time.as_s_f64()).set("checkpoint_percent", share);
}
