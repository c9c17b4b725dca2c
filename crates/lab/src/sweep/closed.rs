//! Closed loops: one run for each number of messages that a host keeps in flight.

use crate::{ClosedLoop as Workload, ResolvedLab};
use fabriscope_engine::Cluster;
use fabriscope_report::figure::{Axis, Unit};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_traffic::{Config, schedule};
use fabriscope_units::{Remedy, Span, Time};

use super::{Runs, head, pattern_name, slot, title};
use crate::error::LabError;
use crate::traffic::{connections, open_pattern, sides};

/// What a closed loop measured.
#[derive(Clone, Copy)]
struct Sample {
    /// Messages of all hosts, in slots of all hosts until the last host is done [0..1].
    throughput: f64,
    mean: Span,
    median: Span,
    p99: Span,
}

/// Runs all numbers of a closed loop.
pub fn run(lab: &ResolvedLab, closed: &Workload, seed: u64) -> Result<Outcome, LabError> {
    let cluster = Cluster::new(lab.cluster.clone()).map_err(|e| LabError::refused(e.in_full(), "correct the topology of the cluster"))?;
    let runs = Runs::of(lab, &cluster, connections(lab, closed.transport, closed.any_order)?);
    let samples = super::samples(&closed.outstanding, |&outstanding| sample(&runs, closed, outstanding, seed))?;
    Ok(outcome(lab, closed, &samples, seed))
}

fn sample(runs: &Runs<'_>, closed: &Workload, outstanding: u32, seed: u64) -> Result<Sample, String> {
    let cluster = runs.cluster;
    let pattern = open_pattern(closed.pattern, cluster);
    let config = Config::new(pattern, closed.size);
    let config = Config { messages: closed.messages, outstanding, sides: sides(closed.transport, config.sides), ..config };
    let schedule = schedule(cluster.ranks(), &config, seed).map_err(|error| error.in_full())?;
    let run = runs.run(schedule, seed)?;
    let mut times: Vec<Span> = run.ops.iter().map(|op| op.ended - op.started).collect();
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    let sum: u128 = times.iter().map(|time| u128::from(time.as_ps())).sum();
    let slots = (run.end - Time::ZERO).as_ps().max(1) as f64 / slot(&cluster.parts, closed.size).as_ps().max(1) as f64;
    Ok(Sample {
        throughput: times.len() as f64 / (slots * f64::from(cluster.ranks())),
        mean: Span::from_ps((sum / times.len().max(1) as u128) as u64),
        median: at(50),
        p99: at(99),
    })
}

fn outcome(lab: &ResolvedLab, closed: &Workload, samples: &[Sample], seed: u64) -> Outcome {
    let (pattern, messages, size) = (pattern_name(closed.pattern), closed.messages, closed.size);
    let mut outcome = head(lab, &format!("closed loop, pattern {pattern}, {messages} messages of {size} from each host, seed {seed}"));
    let mut points = Grid::new([
        Column::number("in flight", "outstanding"),
        Column::number("throughput", "throughput"),
        Column::number("mean (us)", "mean_ps").unit("ps"),
        Column::number("median (us)", "median_ps").unit("ps"),
        Column::number("99 % (us)", "p99_ps").unit("ps"),
    ]);
    for (outstanding, sample) in closed.outstanding.iter().zip(samples) {
        let times = [sample.mean, sample.median, sample.p99].map(Cell::us);
        points.push([Cell::count(*outstanding), Cell::number(sample.throughput, 3)].into_iter().chain(times));
    }
    outcome.set("routing", lab.cluster.routing.name()).set("pattern", pattern).set("messages", messages).set("seed", seed);
    outcome.keyed_table("points", points);
    let point = |(&outstanding, s): (&u32, &Sample)| (f64::from(outstanding), s.throughput, [s.mean, s.median, s.p99]);
    let points = closed.outstanding.iter().zip(samples).map(point).collect();
    outcome.draw(super::curves(title(lab, closed.pattern), Axis::linear("messages in flight per host", Unit::Count), points));
    outcome
}
