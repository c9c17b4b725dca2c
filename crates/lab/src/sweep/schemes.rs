//! One run under one scheme of congestion control and routing, and how the scheme is called.

use fabriscope_catalog::Catalog;
use fabriscope_engine::{Cluster, Connections, EngineError, Job, Run, RunOptions, Stats};
use fabriscope_report::Cell;
use fabriscope_schedule::Schedule;
use fabriscope_units::{Remedy, Span};

use crate::error::LabError;
use crate::lab::with_scheme;
use crate::{ResolvedLab, Scheme, traffic};

/// What a run gave with what it counted, or why the transport gave up.
pub type Ran<T> = Result<(T, Stats), String>;

/// Whether receivers take packets as they come, which they do where senders spray them.
pub fn takes_any_order(lab: &ResolvedLab, scheme: &Scheme) -> bool {
    scheme.any_order || lab.cluster.takes_any_order()
}

/// Whether the receivers of each scheme keep up with its routing.
pub fn keep_up(lab: &ResolvedLab, schemes: &[Scheme]) -> Result<(), LabError> {
    for scheme in schemes {
        let routing = scheme.routing.unwrap_or(lab.cluster.routing);
        traffic::keeps_up(lab, routing, scheme.transport, takes_any_order(lab, scheme))
            .map_err(|message| LabError::refused(message, "add any_order = true to the schemes, or choose another routing"))?;
    }
    Ok(())
}

/// Runs what `work` gives on the cluster of a scheme. A message that the transport gave up is a result, not a failure of the run.
pub fn run(
    catalog: &Catalog,
    lab: &ResolvedLab,
    scheme: &Scheme,
    seed: u64,
    options: RunOptions,
    work: impl FnOnce(&Cluster) -> Result<Schedule, String>,
) -> Result<Result<Run, String>, String> {
    let parts = with_scheme(catalog, &lab.cluster, scheme).map_err(|problem| problem.message)?;
    let cluster = Cluster::new(parts).map_err(|error| error.in_full())?;
    let any_order = takes_any_order(lab, scheme);
    let (order, spraying) = (traffic::order(any_order), traffic::spraying(any_order));
    let connections = Connections { order, spraying, ..traffic::settings(lab, scheme.transport) };
    let engine = crate::engines::engine(lab.lab.engine);
    match engine.run(&cluster, Job::schedule(work(&cluster)?, connections), &options, seed) {
        Ok(run) => Ok(Ok(run)),
        Err(error @ EngineError::Transfer { .. }) => Ok(Err(error.in_full())),
        Err(error) => Err(error.in_full()),
    }
}

/// What a scheme is called: congestion control, transport, flow control, routing.
pub fn names(scheme: &Scheme, lab: &ResolvedLab) -> [String; 4] {
    let flow = scheme.flow_control.unwrap_or(lab.cluster.flow_control);
    let flow = serde_json::to_value(flow).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
    let routing = scheme.routing.unwrap_or(lab.cluster.routing).to_string();
    let transport = serde_json::to_value(scheme.transport).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
    [scheme.congestion.clone().unwrap_or_else(|| "none".to_owned()), transport, flow, routing]
}

/// The time that `share` percent of `times`, which are sorted, do not exceed.
pub fn at(times: &[Span], share: usize) -> Span {
    times.get(times.len() * share / 100).or(times.last()).copied().unwrap_or_default()
}

/// Deepest queue, pauses, marks, drops, trims.
pub fn counts(stats: &Stats) -> [Cell; 5] {
    [
        Cell::told(format!("{:.0}", stats.deepest_queue as f64 / 1000.0), stats.deepest_queue),
        Cell::count(stats.pauses),
        Cell::count(stats.ecn_marks),
        Cell::count(stats.drops),
        Cell::count(stats.trims),
    ]
}
