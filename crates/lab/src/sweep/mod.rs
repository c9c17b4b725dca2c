//! Loops: one run for each load, window or number of receivers, side by side on all cores; throughput and latency as one outcome.

pub mod alltoallv;
pub mod closed;
pub mod compare;
pub mod flows;
pub mod interference;
pub mod jobs;
pub mod multicast;
pub mod open;
mod schemes;

use std::sync::Arc;

use crate::unlike::groups;
use crate::{OpenPattern, ResolvedLab};
use fabriscope_catalog::ResolvedCluster;
use fabriscope_engine::{Cluster, Connections, Engine, Job, Run, RunOptions, Watch};
use fabriscope_report::Outcome;
use fabriscope_report::figure::{Along, Axis, Figure, Lines, Look, Panel, Reference, Series, Unit};
use fabriscope_schedule::Schedule;
use fabriscope_units::{Bytes, Remedy, Span};
use rayon::prelude::*;

use crate::error::LabError;
use crate::traffic;

/// Runs of schedules that differ in nothing but the schedule.
pub(crate) struct Runs<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) engine: &'static dyn Engine,
    connections: Connections,
    options: RunOptions,
}

impl<'a> Runs<'a> {
    /// Runs of `lab` with these connections; that its engine models them was asked when the lab was read.
    pub(crate) fn of(lab: &ResolvedLab, cluster: &'a Cluster, connections: Connections) -> Runs<'a> {
        let (engine, options) = (crate::engines::engine(lab.lab.engine), RunOptions { op_times: Watch::On, ..traffic::options(lab) });
        Runs { cluster, engine, connections, options }
    }
    pub(crate) fn run(&self, schedule: impl Into<Arc<Schedule>>, seed: u64) -> Result<Run, String> {
        let job = Job::schedule(schedule, self.connections.clone());
        self.engine.run(self.cluster, job, &self.options, seed).map_err(|error| error.in_full())
    }
}

/// One sample for each setting, in their order, whichever core is done first.
fn samples<S: Sync, T: Send>(settings: &[S], sample: impl Fn(&S) -> Result<T, String> + Sync) -> Result<Vec<T>, LabError> {
    let told = |message: String| LabError::refused(message, "see the workload and the cluster of the lab");
    let found: Vec<Result<T, String>> = settings.par_iter().map(&sample).collect();
    found.into_iter().map(|sample| sample.map_err(told)).collect()
}

/// What a message of `size` takes on the link of a host, headers included.
fn slot(parts: &ResolvedCluster, size: Bytes) -> Span {
    let layer = parts.link_layer.wire();
    let opcode = fabriscope_wire::Opcode::RC_SEND_ONLY;
    let (full, rest) = (size.as_u64() / parts.mtu.0, size.as_u64() % parts.mtu.0);
    let wire = full * u64::from(layer.wire_bytes(opcode, parts.mtu.0 as u32))
        + if rest > 0 { u64::from(layer.wire_bytes(opcode, rest as u32)) } else { 0 };
    parts.sole().link.data_rate().time(Bytes(wire))
}

/// An outcome that begins with the lab, the cluster, and `what` happens there.
pub(crate) fn head(lab: &ResolvedLab, what: &str) -> Outcome {
    let parts = &lab.cluster;
    let links = parts.uniform().map(|group| format!("{} links, ", group.link.data_rate())).unwrap_or_default();
    let mut outcome = Outcome::new();
    outcome.set("title", lab.lab.title.clone()).set("cluster", parts.name.clone()).note(lab.name()).note(format!(
        "cluster {}: {} nodes, {links}MTU {}, routing {}",
        parts.name,
        parts.nodes(),
        parts.mtu,
        parts.routing
    ));
    for line in groups(parts) {
        outcome.note(line);
    }
    outcome.note(what).text("\n");
    outcome
}

/// The line above a picture.
fn title(lab: &ResolvedLab, pattern: OpenPattern) -> String {
    format!("{}, {}, {}", lab.cluster.name, lab.cluster.routing, pattern_name(pattern))
}

/// Throughput and latency of a loop: load, throughput as a share of the link rate, mean, median and 99th percentile of the latency.
fn curves(title: String, across: Axis, points: Vec<(f64, f64, [Span; 3])>) -> Figure {
    let mut throughput = Lines::over(across.clone(), Axis::linear("throughput, as a share of the link rate", Unit::Share));
    throughput.series.push(Series::new("throughput", Look::Predicted, points.iter().map(|point| (point.0, point.1))));
    throughput.references.push(Reference { name: "link rate".to_owned(), along: Along::Across(1.0) });
    let mut latency = Lines::over(across, Axis::log10("latency of a message", Unit::Seconds));
    for (place, name) in ["mean", "median", "99 % of messages"].into_iter().enumerate() {
        let seconds = |span: Span| span.as_us_f64() * 1e-6;
        let points = points.iter().map(|(at, _, times)| (*at, seconds(times[place])));
        latency.series.push(Series::new(name, Look::Predicted, points).coloured(place + 1));
    }
    Figure::new(title, [Panel::Lines(throughput), Panel::Lines(latency)])
}

fn pattern_name(pattern: OpenPattern) -> String {
    serde_json::to_value(pattern).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}
