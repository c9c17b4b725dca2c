//! An incast beside victims that only share the network with it, under several ways to control congestion.

use crate::{Interference as Workload, ResolvedLab, Scheme};
use fabriscope_catalog::Catalog;
use fabriscope_engine::{Cluster, Connections, EngineError, Job, RunOptions, Stats, Watch};
use fabriscope_fabric::EndpointId;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_schedule::{Builder, Schedule};
use fabriscope_units::{Remedy, Span};

use super::head;
use super::schemes::{keep_up, names, takes_any_order};
use crate::error::LabError;
use crate::lab::with_scheme;
use crate::traffic;

/// What one scheme did.
#[derive(Clone)]
struct Sample {
    /// Times of the messages of the incast, sorted.
    incast: Vec<Span>,
    /// Times of the victims beside it and alone, sorted.
    beside: Vec<Span>,
    alone: Vec<Span>,
    stats: Stats,
}

/// Runs all schemes.
pub fn run(catalog: &Catalog, lab: &ResolvedLab, jobs: &Workload, seed: u64) -> Result<Outcome, LabError> {
    keep_up(lab, &jobs.schemes)?;
    let samples = super::samples(&jobs.schemes, |scheme| sample(catalog, lab, jobs, scheme, seed))?;
    Ok(outcome(lab, jobs, &samples, seed))
}

/// A message that the transport gave up is a result, not a failure of the run.
fn sample(catalog: &Catalog, lab: &ResolvedLab, jobs: &Workload, scheme: &Scheme, seed: u64) -> Result<Result<Sample, String>, String> {
    let parts = with_scheme(catalog, &lab.cluster, scheme).map_err(|problem| problem.message)?;
    let cluster = Cluster::new(parts).map_err(|error| error.in_full())?;
    let any_order = takes_any_order(lab, scheme);
    let (order, spraying) = (traffic::order(any_order), traffic::spraying(any_order));
    let connections = Connections { order, spraying, ..traffic::settings(lab, scheme.transport) };
    let options = RunOptions { op_times: Watch::On, ..traffic::options(lab) };
    let engine = crate::engines::engine(lab.lab.engine);
    let run = |schedule| engine.run(&cluster, Job::schedule(schedule, connections.clone()), &options, seed);
    let both = schedule(&cluster, jobs, true).map_err(|error| error.in_full())?;
    let victims = schedule(&cluster, jobs, false).map_err(|error| error.in_full())?;
    let together = match run(both) {
        Ok(run) => run,
        Err(error @ EngineError::Transfer { .. }) => return Ok(Err(error.in_full())),
        Err(error) => return Err(error.in_full()),
    };
    let alone = run(victims).map_err(|error| error.in_full())?;
    let sorted = |mut times: Vec<Span>| {
        times.sort_unstable();
        times
    };
    let span = |op: &fabriscope_engine::OpTimes| op.ended - op.started;
    // Ranks stand in order: the senders of the incast first, the victims last.
    let senders = jobs.senders as usize;
    Ok(Ok(Sample {
        incast: sorted(together.ops[..senders].iter().map(span).collect()),
        beside: sorted(together.ops[senders..].iter().map(span).collect()),
        alone: sorted(alone.ops.iter().map(span).collect()),
        stats: together.stats,
    }))
}

/// Hosts 1 to `senders` send to host 0; the last hosts send to the last hosts at the switch of host 0.
fn schedule(cluster: &Cluster, jobs: &Workload, incast: bool) -> Result<Schedule, fabriscope_schedule::ScheduleError> {
    let hosts = cluster.ranks();
    let graph = &cluster.fabric.graph;
    let switch = |host: u32| graph.link(graph.uplink(EndpointId(host))).to;
    let neighbours: Vec<u32> = (1..hosts).filter(|&host| switch(host) == switch(0)).collect();
    let mut builder = Builder::new(hosts);
    if incast {
        for from in 1..=jobs.senders {
            let _ = builder.put(from, 0, jobs.size);
        }
    }
    for victim in 0..jobs.victims {
        let from = hosts - jobs.victims + victim;
        // Each to a host of its own while there are enough, from the last on.
        let to = neighbours.iter().rev().cycle().nth(victim as usize).copied().filter(|&to| to != from).unwrap_or(from - 1);
        let _ = builder.put(from, to, jobs.victim_size);
    }
    builder.build()
}

/// How much later the last victim ends beside the incast.
fn slowdown(sample: &Sample) -> f64 {
    let last = |times: &[Span]| times.last().map_or(0.0, |time| time.as_us_f64());
    last(&sample.beside) / last(&sample.alone).max(f64::MIN_POSITIVE)
}

fn outcome(lab: &ResolvedLab, jobs: &Workload, samples: &[Result<Sample, String>], seed: u64) -> Outcome {
    let (senders, size, victims, victim_size) = (jobs.senders, jobs.size, jobs.victims, jobs.victim_size);
    let mut outcome = head(lab, &format!("incast of {senders} × {size}, {victims} victims of {victim_size}, seed {seed}"));
    let mut schemes = Grid::new(columns());
    let mut ends = Vec::new();
    for (scheme, sample) in jobs.schemes.iter().zip(samples) {
        let [congestion, transport, flow, routing] = names(scheme, lab);
        let names = [&congestion, &transport, &flow, &routing].map(|name| Cell::word(name.as_str()));
        match sample {
            Ok(sample) => schemes.push(names.into_iter().chain(cells(sample))),
            Err(error) => {
                ends.push(format!("{congestion}, {flow}, {routing}: {error}"));
                let mut row = names.to_vec();
                row.push(Cell::told("gave up", serde_json::Value::Null));
                row.resize(COLUMNS - 1, Cell::blank());
                row.push(Cell::data(error.as_str()));
                schemes.push(row);
            }
        }
    }
    outcome.set("seed", seed).keyed_table("schemes", schemes);
    for end in ends {
        outcome.note(end);
    }
    outcome
}

/// Columns of the table, those for programs included.
const COLUMNS: usize = 18;

fn columns() -> [Column; COLUMNS] {
    [
        Column::words("congestion", "congestion"),
        Column::number("transport", "transport"),
        Column::number("flow control", "flow_control"),
        Column::number("routing", "routing"),
        Column::number("median (us)", "median_ps").unit("ps"),
        Column::number("last (us)", "last_ps").unit("ps"),
        Column::number("victims (us)", "last_victim_ps").unit("ps"),
        Column::number("slowdown", "slowdown"),
        Column::number("deepest queue (kB)", "deepest_queue_bytes").unit("B"),
        Column::number("pauses", "pauses"),
        Column::number("marks", "marks"),
        Column::number("drops", "drops"),
        Column::number("trims", "trims"),
        Column::data("incast_ps").unit("ps"),
        Column::data("victims_ps").unit("ps"),
        Column::data("victims_alone_ps").unit("ps"),
        Column::data("counts"),
        Column::data("error"),
    ]
}

/// What one scheme did, behind its names.
fn cells(sample: &Sample) -> Vec<Cell> {
    let stats = &sample.stats;
    let ps = |times: &[Span]| Cell::data(times.iter().map(|time| time.as_ps()).collect::<Vec<_>>());
    vec![
        Cell::us(sample.incast[sample.incast.len() / 2]),
        Cell::us(sample.incast.last().copied().unwrap_or_default()),
        Cell::us(sample.beside.last().copied().unwrap_or_default()),
        Cell::number(slowdown(sample), 2),
        Cell::told(format!("{:.0}", stats.deepest_queue as f64 / 1000.0), stats.deepest_queue),
        Cell::count(stats.pauses),
        Cell::count(stats.ecn_marks),
        Cell::count(stats.drops),
        Cell::count(stats.trims),
        ps(&sample.incast),
        ps(&sample.beside),
        ps(&sample.alone),
        Cell::data(serde_json::to_value(stats).unwrap_or_default()),
    ]
}
