//! Flows at random times: one run for each scheme and load; completion times and slowdowns by size.
//!
//! Source: the slowdown of B. Montazeri et al., "Homa", SIGCOMM 2018, §5.2, and Y. Li et al., "HPCC", SIGCOMM 2019, §5.1: the time
//! of a flow over its time alone.
//! Modelled: the completion time is from the arrival of the flow at its sender to the completion of its write there; the ideal time
//! is that of the same flow between the same hosts in a run in which no two flows overlap, over the same transport and routing
//! without congestion control.

use fabriscope_catalog::{Catalog, FlowControl};
use fabriscope_engine::{Cluster, OpTimes, RunOptions, Series, Stats, Watch};
use fabriscope_fabric::Routing;
use fabriscope_report::figure::{self, Axis, Figure, Lines, Panel, Unit};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_schedule::Schedule;
use fabriscope_traffic::flows::{Extent, Flow, FlowOp, FlowTraffic, Incasts, Offered, at_their_times, one_by_one};
use fabriscope_units::{Bytes, Remedy, Span};
use fabriscope_wire::Service;

use super::schemes::{self, Ran, keep_up, names, takes_any_order};
use super::{head, pattern_name};
use crate::error::LabError;
use crate::quantiles::{Completion, Sorted, cdf_columns, cdf_rows, completion_cells, completion_columns};
use crate::traffic::{open_pattern, options};
use crate::workload::flows::Flows as Workload;
use crate::{EngineChoice, ResolvedLab, Scheme};

/// A flow and how long it took.
#[derive(Clone, Copy)]
struct Done {
    flow: Flow,
    took: Span,
    alone: Span,
}

impl Completion for Done {
    fn took(&self) -> Span {
        self.took
    }
    fn alone(&self) -> Span {
        self.alone
    }
}

/// The flows of a run, and queues and rates where asked for.
type Sample = (Vec<Done>, Option<Series>);

/// The time of each flow of a run, and queues and rates where asked for.
type Timed = (Vec<Span>, Option<Series>);

/// What decides how long a flow takes alone.
#[derive(Clone, PartialEq)]
struct Path {
    transport: Service,
    any_order: bool,
    flow_control: FlowControl,
    routing: Routing,
}

impl Path {
    fn of(lab: &ResolvedLab, scheme: &Scheme) -> Path {
        Path {
            transport: scheme.transport,
            any_order: takes_any_order(lab, scheme),
            flow_control: scheme.flow_control.unwrap_or(lab.cluster.flow_control),
            routing: scheme.routing.unwrap_or(lab.cluster.routing),
        }
    }
    fn scheme(&self) -> Scheme {
        Scheme {
            congestion: None,
            flow_control: Some(self.flow_control),
            routing: Some(self.routing),
            any_order: self.any_order,
            transport: self.transport,
        }
    }
}

/// Times alone of the flows of the distribution, and of those of incasts.
struct Alone {
    background: Vec<Span>,
    incasts: Vec<Span>,
}

/// Between two flows of the run in which each is alone, beside their own time. Basis: assumed; some twenty round trips.
const REST: Span = Span::from_us(100);

/// Runs all schemes at all loads.
pub fn run(catalog: &Catalog, lab: &ResolvedLab, work: &Workload, seed: u64, step: Option<Span>) -> Result<Outcome, LabError> {
    if lab.lab.engine != EngineChoice::Packet {
        return Err(LabError::refused(
            "flows at random times meet in queues, which the flow engine does not have",
            "write engine = \"packet\"",
        ));
    }
    let compared = work.compared(&lab.cluster);
    keep_up(lab, &compared)?;
    let offered = offered(lab, work, seed)?;
    let mut paths: Vec<Path> = Vec::new();
    for scheme in &compared {
        let path = Path::of(lab, scheme);
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let alone = super::samples(&paths, |path| alone(catalog, lab, path, &offered, seed))?;
    let settings: Vec<(&Scheme, usize)> =
        compared.iter().flat_map(|scheme| (0..work.loads.len()).map(move |load| (scheme, load))).collect();
    let samples = super::samples(&settings, |&(scheme, load)| {
        let path = Path::of(lab, scheme);
        let alone = paths.iter().position(|known| *known == path).and_then(|place| alone.get(place));
        let alone = alone.ok_or("no times of flows alone")?;
        sample(catalog, lab, scheme, (&offered[load], alone), seed, step)
    })?;
    Ok(outcome(lab, work, &offered, &settings, &samples, seed))
}

/// The flows of each load.
fn offered(lab: &ResolvedLab, work: &Workload, seed: u64) -> Result<Vec<Offered>, LabError> {
    let refused = |message: String| LabError::refused(message, "correct the workload of the lab");
    let cluster = Cluster::new(lab.cluster.clone()).map_err(|error| refused(error.in_full()))?;
    let sizes = work.distribution().map_err(|problem| LabError::refused(problem.message, problem.help))?;
    let extent = match (work.flows, work.duration) {
        (None, Some(window)) => Extent::Window(window),
        (flows, _) => Extent::Flows(flows.unwrap_or(1)),
    };
    let incasts = work.incast.as_ref().map(|mix| Incasts { senders: mix.senders, bytes: mix.size, load: mix.load });
    let rate = lab.cluster.sole().link.data_rate();
    let traffic = FlowTraffic { pattern: open_pattern(work.pattern, &cluster), sizes, rate, extent, incasts };
    let of = |load: &f64| traffic.offered(cluster.ranks(), *load, seed).map_err(|error| refused(error.in_full()));
    work.loads.iter().map(of).collect()
}

/// How long each flow takes alone. Flow number k is the same at every load: those of the load with the most are enough.
fn alone(catalog: &Catalog, lab: &ResolvedLab, path: &Path, offered: &[Offered], seed: u64) -> Result<std::sync::Arc<Alone>, String> {
    let longest = |of: fn(&Offered) -> &[Flow]| offered.iter().map(of).max_by_key(|flows| flows.len()).unwrap_or_default();
    let background = longest(|offered| &offered.flows[..offered.background]);
    let incasts = longest(|offered| &offered.flows[offered.background..]);
    let all: Vec<Flow> = background.iter().chain(incasts).copied().collect();
    let rate = lab.cluster.sole().link.data_rate();
    let ((spans, _), _) = timed(catalog, lab, &path.scheme(), seed, None, |ranks| one_by_one(ranks, &all, rate, REST))??;
    let (first, rest) = spans.split_at(background.len());
    Ok(std::sync::Arc::new(Alone { background: first.to_vec(), incasts: rest.to_vec() }))
}

fn sample(
    catalog: &Catalog,
    lab: &ResolvedLab,
    scheme: &Scheme,
    (offered, alone): (&Offered, &Alone),
    seed: u64,
    step: Option<Span>,
) -> Result<Ran<Sample>, String> {
    let ran = timed(catalog, lab, scheme, seed, step, |ranks| at_their_times(ranks, &offered.flows))?;
    Ok(ran.map(|((spans, series), stats)| {
        let ideal = alone.background.iter().take(offered.background).chain(&alone.incasts);
        let done = |((&flow, took), &alone): ((&Flow, Span), &Span)| Done { flow, took, alone };
        ((offered.flows.iter().zip(spans).zip(ideal).map(done).collect(), series), stats)
    }))
}

/// Runs a schedule of flows; the time of each.
fn timed(
    catalog: &Catalog,
    lab: &ResolvedLab,
    scheme: &Scheme,
    seed: u64,
    series: Option<Span>,
    flows: impl FnOnce(u32) -> Result<(Schedule, Vec<FlowOp>), fabriscope_traffic::PatternError>,
) -> Result<Ran<Timed>, String> {
    let options = RunOptions { op_times: Watch::On, series, ..options(lab) };
    let mut places: Vec<FlowOp> = Vec::new();
    let mut first = vec![0usize];
    let ran = schemes::run(catalog, lab, scheme, seed, options, |cluster| {
        let (schedule, ops) = flows(cluster.ranks()).map_err(|error| error.in_full())?;
        for rank in 0..cluster.ranks() {
            first.push(first[rank as usize] + schedule.kinds(rank).len());
        }
        places = ops;
        Ok(schedule)
    })?;
    Ok(ran.map(|run| {
        let span = |&(rank, op): &FlowOp| {
            let OpTimes { started, ended } = run.ops[first[rank as usize] + op as usize];
            ended - started
        };
        ((places.iter().map(span).collect(), run.series), run.stats)
    }))
}

fn outcome(
    lab: &ResolvedLab,
    work: &Workload,
    offered: &[Offered],
    settings: &[(&Scheme, usize)],
    samples: &[Ran<Sample>],
    seed: u64,
) -> Outcome {
    let name = std::path::Path::new(&work.sizes).file_name().map_or_else(|| work.sizes.clone(), |name| name.to_string_lossy().into_owned());
    let mut outcome = head(lab, &format!("flows of sizes {name}, pattern {}, seed {seed}", pattern_name(work.pattern)));
    let (mut runs, mut bins, mut records) = (Grid::new(run_columns()), Grid::new(bin_columns()), Grid::new(flow_columns()));
    let mut cdf = Grid::new(cdf_columns(&key_columns()));
    let mut samples_over_time = Grid::new(crate::series::columns(&key_columns()));
    let cluster = Cluster::new(lab.cluster.clone()).ok();
    let mut ends = Vec::new();
    for (&(scheme, load), sample) in settings.iter().zip(samples) {
        let (offered, load) = (&offered[load], work.loads[load]);
        let named = names(scheme, lab);
        let mut key: Vec<Cell> = named.iter().map(|name| Cell::word(name.as_str())).collect();
        key.push(Cell::number(load, 3));
        let mut row = key.clone();
        match sample {
            Ok(((done, series), stats)) => {
                if let (Some(series), Some(cluster)) = (series, &cluster) {
                    crate::series::rows(cluster, series, &key, &mut samples_over_time);
                }
                row.extend(run_cells(offered, done, stats));
                size_rows(work, &key, done, &mut bins);
                cdf_rows(done, &key, &mut cdf);
                for (number, done) in done.iter().enumerate() {
                    records.push(key.iter().cloned().chain(flow_cells(number, done)));
                }
            }
            Err(error) => {
                ends.push(format!("{}, load {load}: {error}", named.join(", ")));
                row.push(Cell::told("gave up", serde_json::Value::Null));
                row.resize(RUN_COLUMNS - 1, Cell::blank());
                row.push(Cell::data(error.as_str()));
            }
        }
        runs.push(row);
    }
    outcome.set("sizes", name).set("pattern", pattern_name(work.pattern)).set("seed", seed);
    outcome.keyed_table("runs", runs).text("\n").keyed_table("bins", bins);
    outcome.set("cdf", cdf.json()).record(cdf.named("cdf"));
    outcome.note("FCT: from the arrival of a flow to the completion of its write at the sender; slowdown: FCT over that of the flow alone");
    for end in ends {
        outcome.note(end);
    }
    outcome.draw(distributions(lab, settings, work, samples));
    outcome.record(records.named("flows")).record(samples_over_time.named("series"));
    outcome
}

/// The distributions of completion times and slowdowns, a curve for each run.
fn distributions(lab: &ResolvedLab, settings: &[(&Scheme, usize)], work: &Workload, samples: &[Ran<Sample>]) -> Figure {
    let panel = |across: Axis| Lines::over(across, Axis::linear("share of flows", Unit::Share));
    let mut times = panel(Axis::log10("flow completion time", Unit::Seconds));
    let mut slow = panel(Axis::log10("slowdown, over the time of the flow alone", Unit::Times));
    // What all runs have in common is no part of a name.
    let named: Vec<Vec<String>> = settings.iter().map(|(scheme, _)| names(scheme, lab).to_vec()).collect();
    let differs = |place: usize| named.iter().any(|names| names.get(place) != named[0].get(place));
    for ((own, (_, load)), sample) in named.iter().zip(settings).zip(samples) {
        let Ok(((done, _), _)) = sample else { continue };
        let mut words: Vec<String> = own.iter().enumerate().filter(|(place, _)| differs(*place)).map(|(_, name)| name.clone()).collect();
        if work.loads.len() > 1 || words.is_empty() {
            words.push(format!("load {}", work.loads[*load]));
        }
        let name = words.join(", ");
        times.series.push(figure::Series::distribution(name.as_str(), done.iter().map(|done| done.took.as_us_f64() * 1e-6)));
        slow.series.push(figure::Series::distribution(name, done.iter().map(Done::slowdown)));
    }
    Figure::new(format!("Flows on {}", lab.cluster.name), [Panel::Lines(times), Panel::Lines(slow)])
}

/// Columns that name a run.
fn key_columns() -> [Column; 5] {
    [
        Column::words("congestion", "congestion"),
        Column::number("transport", "transport"),
        Column::number("flow control", "flow_control"),
        Column::number("routing", "routing"),
        Column::number("load", "load"),
    ]
}

const RUN_COLUMNS: usize = 16;

fn run_columns() -> Vec<Column> {
    let mut columns = key_columns().to_vec();
    columns.extend([
        Column::number("flows", "flows"),
        Column::number("window (us)", "window_ps").unit("ps"),
        Column::number("last done (us)", "last_ps").unit("ps"),
        Column::number("slowdown", "mean_slowdown"),
        Column::number("99 %", "p99_slowdown"),
        Column::number("deepest queue (kB)", "deepest_queue_bytes").unit("B"),
        Column::number("pauses", "pauses"),
        Column::number("marks", "marks"),
        Column::number("drops", "drops"),
        Column::number("trims", "trims"),
        Column::data("error"),
    ]);
    columns
}

fn run_cells(offered: &Offered, done: &[Done], stats: &Stats) -> Vec<Cell> {
    let last = done.iter().map(|done| done.flow.at + done.took).max().unwrap_or_default();
    let slow = Sorted::of(done.iter().map(Completion::slowdown));
    let mut cells = vec![Cell::count(done.len() as u64), Cell::us(offered.window), Cell::us(last)];
    cells.extend([Cell::number(slow.mean(), 2), Cell::number(slow.at(99), 2)]);
    cells.extend(schemes::counts(stats));
    cells
}

fn bin_columns() -> Vec<Column> {
    let mut columns = key_columns().to_vec();
    columns.extend([
        Column::number("size", "largest_bytes").unit("B"),
        Column::number("flows", "flows"),
        Column::number("FCT mean (us)", "mean_ps").unit("ps"),
        Column::number("50 % (us)", "p50_ps").unit("ps"),
        Column::number("95 % (us)", "p95_ps").unit("ps"),
        Column::number("99 % (us)", "p99_ps").unit("ps"),
        Column::number("slowdown mean", "mean_slowdown"),
        Column::number("50 %", "p50_slowdown"),
        Column::number("95 %", "p95_slowdown"),
        Column::number("99 %", "p99_slowdown"),
    ]);
    columns
}

/// A row for each range of sizes that has flows, one for those of incasts, and one for all.
fn size_rows(work: &Workload, key: &[Cell], done: &[Done], bins: &mut Grid) {
    let mut row = |name: Cell, which: &dyn Fn(&Flow) -> bool| {
        let some: Vec<&Done> = done.iter().filter(|done| which(&done.flow)).collect();
        if some.is_empty() {
            return;
        }
        let times = Sorted::of(some.iter().map(|done| done.took.as_ps() as f64));
        let slow = Sorted::of(some.iter().map(|done| done.slowdown()));
        let us = |ps: f64| Cell::us(Span::from_ps(ps as u64));
        let mut cells = key.to_vec();
        cells.extend([name, Cell::count(some.len() as u64), us(times.mean())]);
        cells.extend([50, 95, 99].map(|share| us(times.at(share))));
        cells.push(Cell::number(slow.mean(), 2));
        cells.extend([50, 95, 99].map(|share| Cell::number(slow.at(share), 2)));
        bins.push(cells);
    };
    let mut above = Bytes::ZERO;
    for &bound in &work.bins {
        row(Cell::told(format!("≤ {}", decimal(bound)), bound.as_u64()), &|flow| {
            !flow.incast && flow.bytes > above && flow.bytes <= bound
        });
        above = bound;
    }
    let rest = if work.bins.is_empty() { "any".to_owned() } else { format!("> {}", decimal(above)) };
    row(Cell::told(rest, serde_json::Value::Null), &|flow| !flow.incast && flow.bytes > above);
    if work.incast.is_some() {
        row(Cell::told("incast", "incast"), &|flow| flow.incast);
    }
    row(Cell::told("all", "all"), &|_| true);
}

/// A size as files of distributions have it: 30 kB.
fn decimal(size: Bytes) -> String {
    match size.as_u64() {
        bytes if bytes >= 1_000_000 && bytes % 1_000_000 == 0 => format!("{} MB", bytes / 1_000_000),
        bytes if bytes >= 1_000 && bytes % 1_000 == 0 => format!("{} kB", bytes / 1_000),
        _ => size.to_string(),
    }
}

fn flow_columns() -> Vec<Column> {
    let mut columns = key_columns().to_vec();
    columns.extend([
        Column::number("flow", "flow"),
        Column::number("from", "from"),
        Column::number("to", "to"),
        Column::number("bytes", "bytes").unit("B"),
        Column::number("incast", "incast"),
    ]);
    columns.extend(completion_columns());
    columns
}

fn flow_cells(number: usize, done: &Done) -> impl Iterator<Item = Cell> {
    let Flow { from, to, bytes, at, incast } = done.flow;
    let head = [Cell::count(number as u64), Cell::count(from), Cell::count(to), Cell::bytes(bytes), Cell::count(u32::from(incast))];
    head.into_iter().chain(completion_cells(at, done))
}
