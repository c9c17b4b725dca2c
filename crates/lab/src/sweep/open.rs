//! Open loops: one run for each offered load.

use crate::{EngineChoice, OpenLoop as Workload, ResolvedLab};
use fabriscope_engine::Cluster;
use fabriscope_report::Table;
use fabriscope_traffic::{OpenLoop, Sample, open_loop};

use super::{Curve, Runs, Swept, head, pattern_name, slot, us};
use crate::error::LabError;
use crate::traffic::{connections, open_pattern};

/// Runs all loads of an open loop.
pub fn run(lab: &ResolvedLab, open: &Workload, seed: u64) -> Result<Swept, LabError> {
    if lab.lab.engine != EngineChoice::Packet {
        return Err(LabError::refused("an open loop measures queues, which the flow engine does not have", "write engine = \"packet\""));
    }
    let cluster = Cluster::new(lab.cluster.clone()).map_err(|e| LabError::refused(e.to_string(), "correct the topology of the cluster"))?;
    let runs = Runs::of(lab, &cluster, connections(lab, open.transport, open.any_order)?)?;
    let samples = super::samples(&open.loads, |&load| sample(&runs, open, load, seed))?;
    let curve = || Curve {
        title: super::title(lab, open.pattern),
        across: "offered load (share of the link rate)",
        points: open.loads.iter().zip(&samples).map(|(&load, sample)| (load, sample.accepted, sample.mean.as_us_f64())).collect(),
    };
    Ok(Swept { text: text(lab, open, &samples, seed), json: value(lab, open, &samples, seed), curve: Some(curve()) })
}

fn sample(runs: &Runs<'_>, open: &Workload, load: f64, seed: u64) -> Result<Sample, String> {
    let cluster = runs.cluster;
    let parts = &cluster.parts;
    let ranks = cluster.ranks();
    let slot = slot(parts, open.size);
    let pattern = open_pattern(open.pattern, cluster);
    let config = OpenLoop { pattern, bytes: open.size, slot, load, warm_up: open.warm_up, window: open.window };
    let (schedule, arrivals) = open_loop(ranks, &config, seed).map_err(|error| error.to_string())?;
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

fn text(lab: &ResolvedLab, open: &Workload, samples: &[Sample], seed: u64) -> String {
    let what = format!(
        "open loop, pattern {}, {} messages, warm-up {}, window {}, seed {seed}",
        pattern_name(open.pattern),
        open.size,
        open.warm_up,
        open.window
    );
    let mut text = head(lab, &what);
    let mut table = Table::new(["load", "offered", "accepted", "mean (us)", "median (us)", "99 % (us)", "messages"]);
    for (load, sample) in open.loads.iter().zip(samples) {
        table.push([
            format!("{load:.3}"),
            format!("{:.3}", sample.offered),
            format!("{:.3}", sample.accepted),
            us(sample.mean),
            us(sample.median),
            us(sample.p99),
            sample.messages.to_string(),
        ]);
    }
    text += &table.to_string();
    let (last, most) = saturation(open, samples);
    match last {
        Some(load) => text + &format!("# at a load of {load:.3} the network still keeps up; at most {most:.3} of the link rate arrive\n"),
        None => text + &format!("# the network keeps up with none of these loads; at most {most:.3} of the link rate arrive\n"),
    }
}

fn value(lab: &ResolvedLab, open: &Workload, samples: &[Sample], seed: u64) -> serde_json::Value {
    let point = |(load, sample): (&f64, &Sample)| {
        serde_json::json!({
            "load": load,
            "offered": sample.offered,
            "accepted": sample.accepted,
            "mean_ps": sample.mean.as_ps(),
            "median_ps": sample.median.as_ps(),
            "p99_ps": sample.p99.as_ps(),
            "messages": sample.messages,
        })
    };
    let (last, most) = saturation(open, samples);
    serde_json::json!({
        "title": lab.lab.title,
        "cluster": lab.cluster.name,
        "routing": lab.cluster.routing.name(),
        "pattern": pattern_name(open.pattern),
        "seed": seed,
        "keeps_up_to": last,
        "most_accepted": most,
        "points": open.loads.iter().zip(samples).map(point).collect::<Vec<_>>(),
    })
}
