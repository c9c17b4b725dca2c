//! Open loops: one run for each offered load, side by side on all cores; throughput and latency as a table or a picture.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fabriscope_catalog::{EngineChoice, OpenLoop as Workload, ResolvedLab};
use fabriscope_engine::{Cluster, Engine};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_report::Table;
use fabriscope_workloads::pattern::{OpenLoop, Sample, open_loop};

use crate::command::lab_name;
use crate::error::{Failure, Verdict};
use crate::output::Output;
use crate::traffic::{open_pattern, transfers};

/// Runs all loads of an open loop.
pub fn run(
    path: Option<&Path>,
    json: bool,
    lab: &ResolvedLab,
    open: &Workload,
    seed: u64,
    output: &mut Output,
) -> Result<Verdict, Failure> {
    if lab.lab.engine != EngineChoice::Packet {
        return Err(Failure::told("an open loop measures queues, which the flow engine does not have", "write engine = \"packet\""));
    }
    let cluster = Cluster::new(lab.cluster.clone()).map_err(|e| Failure::told(e.to_string(), "correct the topology of the cluster"))?;
    let transfers = transfers(lab, open.transport, open.any_order)?;
    let engine = PacketEngine { transfers, times: true, allow_deadlock: lab.lab.allow_deadlock, ..PacketEngine::default() };
    let samples = samples(&engine, &cluster, open, seed)?;
    if let Some(path) = path {
        output.redirect(path)?;
    }
    if json {
        output.json(&value(lab, open, &samples, seed))?;
    } else {
        output.text(&text(lab, open, &samples, seed))?;
    }
    Ok(Verdict::Good)
}

/// One sample for each load, in their order, whichever core is done first.
pub fn samples(engine: &PacketEngine, cluster: &Cluster, open: &Workload, seed: u64) -> Result<Vec<Sample>, Failure> {
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<Option<Result<Sample, String>>>> = Mutex::new(vec![None; open.loads.len()]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(open.loads.len());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&load) = open.loads.get(index) else { break };
                    let sample = sample(engine, cluster, open, load, seed);
                    if let Ok(mut found) = found.lock() {
                        found[index] = Some(sample);
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_default();
    let told = |message: String| Failure::told(message, "see the workload and the cluster of the lab");
    found.into_iter().map(|sample| sample.unwrap_or_else(|| Err("a run did not end".to_owned())).map_err(told)).collect()
}

fn sample(engine: &PacketEngine, cluster: &Cluster, open: &Workload, load: f64, seed: u64) -> Result<Sample, String> {
    let parts = &cluster.parts;
    let ranks = cluster.ranks();
    // A slot is what a message takes on the link, headers included.
    let layer = parts.link_layer.wire();
    let opcode = fabriscope_wire::Opcode::RC_SEND_ONLY;
    let (full, rest) = (open.size.as_u64() / parts.mtu.0, open.size.as_u64() % parts.mtu.0);
    let wire = full * u64::from(layer.wire_bytes(opcode, parts.mtu.0 as u32))
        + if rest > 0 { u64::from(layer.wire_bytes(opcode, rest as u32)) } else { 0 };
    let slot = parts.link.data_rate().time(fabriscope_units::Bytes(wire));
    let pattern = open_pattern(open.pattern, cluster);
    let config = OpenLoop { pattern, bytes: open.size, slot, load, warm_up: open.warm_up, window: open.window };
    let (schedule, arrivals) = open_loop(ranks, &config, seed).map_err(|error| error.to_string())?;
    let run = engine.run(cluster, &schedule, seed).map_err(|error| error.to_string())?;
    let mut first = vec![0usize];
    for rank in 0..ranks {
        first.push(first[rank as usize] + schedule.kinds(rank).len());
    }
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
    let parts = &lab.cluster;
    let mut text = format!(
        "# {}\n# cluster {}: {} nodes, {} links, MTU {}, routing {}\n# open loop, pattern {}, {} messages, warm-up {}, window {}, seed {seed}\n\n",
        lab_name(lab),
        parts.name,
        parts.nodes,
        parts.link.data_rate(),
        parts.mtu,
        parts.routing,
        pattern_name(open),
        open.size,
        open.warm_up,
        open.window
    );
    let mut table = Table::new(["load", "offered", "accepted", "mean (us)", "median (us)", "99 % (us)", "messages"]);
    for (load, sample) in open.loads.iter().zip(samples) {
        let us = |span: fabriscope_units::Span| format!("{:.3}", span.as_us_f64());
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

fn pattern_name(open: &Workload) -> String {
    serde_json::to_value(open.pattern).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
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
        "pattern": pattern_name(open),
        "seed": seed,
        "keeps_up_to": last,
        "most_accepted": most,
        "points": open.loads.iter().zip(samples).map(point).collect::<Vec<_>>(),
    })
}
