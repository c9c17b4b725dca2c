//! Patterns under several ways to control congestion and to route, one run for each.

use fabriscope_catalog::Catalog;
use fabriscope_engine::{Cluster, RunOptions, Series, Watch};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_traffic::{Config, Pattern, schedule};
use fabriscope_units::{Bytes, Rate, Remedy, Span};

use super::head;
use super::schemes::{self, Ran, keep_up, names};
use crate::error::LabError;
use crate::workload::compare::{Compare as Workload, ComparedPattern};
use crate::{ResolvedLab, Scheme, traffic};

/// What one scheme did to one pattern: times of its messages, sorted, and queues and rates where asked for.
type Sample = Ran<(Vec<Span>, Option<Series>)>;

/// Runs all patterns under all schemes.
pub fn run(catalog: &Catalog, lab: &ResolvedLab, work: &Workload, seed: u64, step: Option<Span>) -> Result<Outcome, LabError> {
    let compared = work.compared();
    keep_up(lab, &compared)?;
    let settings: Vec<(ComparedPattern, &Scheme)> =
        work.patterns.iter().flat_map(|&pattern| compared.iter().map(move |scheme| (pattern, scheme))).collect();
    let samples = super::samples(&settings, |(pattern, scheme)| sample(catalog, lab, work, (*pattern, scheme), seed, step))?;
    Ok(outcome(lab, work, &settings, &samples, seed))
}

/// The pattern among so many hosts, what a message holds, and what the busiest host receives.
fn messages(work: &Workload, pattern: ComparedPattern, cluster: &Cluster) -> (Config, Bytes) {
    let hosts = cluster.ranks();
    let size = work.size;
    match pattern {
        ComparedPattern::Permutation => (Config::new(Pattern::Permutation, size), size),
        ComparedPattern::Incast => {
            let senders = work.senders.unwrap_or(hosts - 1);
            (Config::new(Pattern::Incast { target: 0, senders }, size), size * u64::from(senders))
        }
        ComparedPattern::AllToAll => {
            let others = u64::from(hosts) - 1;
            let each = Bytes(size.as_u64().div_ceil(others));
            (Config::new(Pattern::AllToAll, each), each * others)
        }
        ComparedPattern::Tornado => (Config::new(Pattern::Tornado { dims: traffic::dims(&cluster.fabric, hosts) }, size), size),
    }
}

fn sample(
    catalog: &Catalog,
    lab: &ResolvedLab,
    work: &Workload,
    (pattern, scheme): (ComparedPattern, &Scheme),
    seed: u64,
    series: Option<Span>,
) -> Result<Sample, String> {
    let options = RunOptions { op_times: Watch::On, series, ..traffic::options(lab) };
    schemes::run(catalog, lab, scheme, seed, options, |cluster| {
        let (config, _) = messages(work, pattern, cluster);
        schedule(cluster.ranks(), &config, seed).map_err(|error| error.in_full())
    })
    .map(|ran| {
        ran.map(|run| {
            let mut times: Vec<Span> = run.ops.iter().map(|op| op.ended - op.started).collect();
            times.sort_unstable();
            ((times, run.series), run.stats)
        })
    })
}

fn outcome(lab: &ResolvedLab, work: &Workload, settings: &[(ComparedPattern, &Scheme)], samples: &[Sample], seed: u64) -> Outcome {
    let mut outcome = head(lab, &format!("patterns of {}, seed {seed}", work.size));
    let mut rows = Grid::new(key_columns().into_iter().chain([
        Column::number("median (us)", "median_ps").unit("ps"),
        Column::number("99 % (us)", "p99_ps").unit("ps"),
        Column::number("last (us)", "last_ps").unit("ps"),
        Column::number("of the bound", "share_of_bound"),
        Column::number("deepest queue (kB)", "deepest_queue_bytes").unit("B"),
        Column::number("pauses", "pauses"),
        Column::number("marks", "marks"),
        Column::number("drops", "drops"),
        Column::number("trims", "trims"),
        Column::data("error"),
    ]));
    let mut records = Grid::new(crate::series::columns(&key_columns()));
    let rate = lab.cluster.sole().link.data_rate();
    let cluster = Cluster::new(lab.cluster.clone()).ok();
    let mut ends = Vec::new();
    for ((pattern, scheme), sample) in settings.iter().zip(samples) {
        let word = serde_json::to_value(pattern).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
        let named = names(scheme, lab);
        let mut row = vec![Cell::word(word.as_str())];
        row.extend(named.iter().map(|name| Cell::word(name.as_str())));
        match sample {
            Ok(((times, series), stats)) => {
                if let (Some(series), Some(cluster)) = (series, &cluster) {
                    crate::series::rows(cluster, series, &row, &mut records);
                }
                let bound = cluster.as_ref().map(|cluster| bound(work, *pattern, cluster, rate)).unwrap_or_default();
                let last = times.last().copied().unwrap_or_default();
                row.extend([50, 99].map(|share| Cell::us(schemes::at(times, share))));
                row.push(Cell::us(last));
                row.push(Cell::number(bound.as_ps() as f64 / last.as_ps().max(1) as f64, 3));
                row.extend(schemes::counts(stats));
            }
            Err(error) => {
                ends.push(format!("{word}, {}: {error}", named.join(", ")));
                row.push(Cell::told("gave up", serde_json::Value::Null));
                row.resize(14, Cell::blank());
                row.push(Cell::data(error.as_str()));
            }
        }
        rows.push(row);
    }
    outcome.set("seed", seed).keyed_table("runs", rows);
    outcome.note("the bound: what the busiest host receives, on its link, without headers");
    for end in ends {
        outcome.note(end);
    }
    outcome.record(records.named("series"));
    outcome
}

/// Columns that name a run.
fn key_columns() -> [Column; 5] {
    [
        Column::words("pattern", "pattern"),
        Column::words("congestion", "congestion"),
        Column::number("transport", "transport"),
        Column::number("flow control", "flow_control"),
        Column::number("routing", "routing"),
    ]
}

/// What the payload for the busiest host takes on its link.
fn bound(work: &Workload, pattern: ComparedPattern, cluster: &Cluster, rate: Rate) -> Span {
    rate.time(messages(work, pattern, cluster).1)
}
