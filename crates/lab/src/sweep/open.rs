//! Open loops: one run for each offered load.

use crate::{EngineChoice, OpenLoop as Workload, ResolvedLab};
use fabriscope_engine::Cluster;
use fabriscope_report::figure::{Axis, Unit};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_traffic::{OpenLoop, Sample, open_loop};
use fabriscope_units::Remedy;

use super::{Runs, head, pattern_name, slot, title};
use crate::error::LabError;
use crate::traffic::{connections, open_pattern};

/// Runs all loads of an open loop.
pub fn run(lab: &ResolvedLab, open: &Workload, seed: u64) -> Result<Outcome, LabError> {
    if lab.lab.engine != EngineChoice::Packet {
        return Err(LabError::refused("an open loop measures queues, which the flow engine does not have", "write engine = \"packet\""));
    }
    let cluster = Cluster::new(lab.cluster.clone()).map_err(|e| LabError::refused(e.in_full(), "correct the topology of the cluster"))?;
    let runs = Runs::of(lab, &cluster, connections(lab, open.transport, open.any_order)?);
    let samples = super::samples(&open.loads, |&load| sample(&runs, open, load, seed))?;
    Ok(outcome(lab, open, &samples, seed))
}

fn sample(runs: &Runs<'_>, open: &Workload, load: f64, seed: u64) -> Result<Sample, String> {
    let cluster = runs.cluster;
    let parts = &cluster.parts;
    let ranks = cluster.ranks();
    let slot = slot(parts, open.size);
    let pattern = open_pattern(open.pattern, cluster);
    let config = OpenLoop { pattern, bytes: open.size, slot, load, warm_up: open.warm_up, window: open.window };
    let (schedule, arrivals) = open_loop(ranks, &config, seed).map_err(|error| error.in_full())?;
    let mut first = vec![0usize];
    for rank in 0..ranks {
        first.push(first[rank as usize] + schedule.kinds(rank).len());
    }
    let run = runs.run(schedule, seed)?;
    let at = |rank: u32, op: u32| run.ops[first[rank as usize] + op as usize];
    Ok(arrivals.sample(ranks, &config, |rank, op| at(rank, op).started, |rank, op| at(rank, op).ended))
}

/// The highest offered load of which at least 95 % arrive, and the most that arrives.
pub fn saturation(open: &Workload, samples: &[Sample]) -> (Option<f64>, f64) {
    let keeps_up = |(_, sample): &(&f64, &Sample)| sample.accepted >= 0.95 * sample.offered;
    let last = open
        .loads
        .iter()
        .zip(samples)
        .filter(keeps_up)
        .map(|(load, _)| *load)
        .fold(None, |best: Option<f64>, load| Some(best.map_or(load, |b| b.max(load))));
    (last, samples.iter().map(|sample| sample.accepted).fold(0.0, f64::max))
}

fn outcome(lab: &ResolvedLab, open: &Workload, samples: &[Sample], seed: u64) -> Outcome {
    let pattern = pattern_name(open.pattern);
    let (size, warm_up, window) = (open.size, open.warm_up, open.window);
    let mut outcome = head(lab, &format!("open loop, pattern {pattern}, {size} messages, warm-up {warm_up}, window {window}, seed {seed}"));
    let mut points = Grid::new([
        Column::number("load", "load"),
        Column::number("offered", "offered"),
        Column::number("accepted", "accepted"),
        Column::number("mean (us)", "mean_ps").unit("ps"),
        Column::number("median (us)", "median_ps").unit("ps"),
        Column::number("99 % (us)", "p99_ps").unit("ps"),
        Column::number("messages", "messages"),
    ]);
    for (load, sample) in open.loads.iter().zip(samples) {
        let shares = [*load, sample.offered, sample.accepted].map(|share| Cell::number(share, 3));
        let times = [sample.mean, sample.median, sample.p99].map(Cell::us);
        points.push(shares.into_iter().chain(times).chain([Cell::count(sample.messages)]));
    }
    let (last, most) = saturation(open, samples);
    outcome.set("routing", lab.cluster.routing.name()).set("pattern", pattern).set("seed", seed);
    outcome.set("keeps_up_to", last).set("most_accepted", most).keyed_table("points", points);
    outcome.note(match last {
        Some(load) => format!("at a load of {load:.3} the network still keeps up; at most {most:.3} of the link rate arrive"),
        None => format!("the network keeps up with none of these loads; at most {most:.3} of the link rate arrive"),
    });
    let points =
        open.loads.iter().zip(samples).map(|(&load, sample)| (load, sample.accepted, [sample.mean, sample.median, sample.p99])).collect();
    outcome.draw(super::curves(title(lab, open.pattern), Axis::linear("offered load", Unit::Share), points));
    outcome
}
