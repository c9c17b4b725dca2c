//! The curves of a study ([`study()`]), and those of a benchmark: what the program would print, what was published of the same run, what binds it, the rate of the line.
//!
//! Modelled: a panel for each of its main quantities over the size of messages. The bound is that of one message after the other on
//! the link and on PCI Express with their headers; of a latency, what the link alone takes. The line rate is that of the adapters that a pair,
//! or a node of a job on GPUs, uses. Published rows are shown where the program, its options, nodes, ranks and library are those of the run.
//! Not modelled: bounds within a node, of buffers on GPUs and of collective operations of MPI.

mod published;
mod study;

use fabriscope_catalog::{Catalog, NodeGroup, RailPolicy, ResolvedCluster};
use fabriscope_explain::occupancy;
use fabriscope_lab::bench::{BenchRun, Stack};
use fabriscope_report::Outcome;
use fabriscope_report::figure::{Along, Axis, Figure, Lines, Look, Panel, Reference, Series, Unit};
use fabriscope_tools::{Data, Direction, Operation, Point, Ranks, Suite, Tool};

use crate::error::Error;

pub use study::study;

/// The outcome of a benchmark with its figure.
///
/// # Errors
/// A published table that cannot be read; tests of the library rule that out.
pub fn drawn(catalog: &Catalog, done: &BenchRun) -> Result<Outcome, Error> {
    let mut outcome = done.outcome();
    outcome.draw(bench(catalog, done)?);
    Ok(outcome)
}

/// The curves of a benchmark.
///
/// # Errors
/// A published table that cannot be read; tests of the library rule that out.
pub fn bench(catalog: &Catalog, done: &BenchRun) -> Result<Figure, Error> {
    let run = Shape::of(done);
    let points = &done.printed.points;
    let tables = published::of(catalog, done)?;
    let metrics: Vec<&str> = MAIN.into_iter().filter(|metric| points.iter().any(|point| point.metric == *metric)).take(PANELS).collect();
    let panels = metrics.into_iter().filter_map(|metric| run.panel(points, metric, &tables));
    let parts = done.setup.parts();
    let mut figure = Figure::new(format!("{} on {}", run.tool.name(), parts.name), panels.map(Panel::Lines));
    figure.caption.push(run.words());
    Ok(figure)
}

/// What programs are run for, the first that one prints.
const MAIN: [&str; 9] = ["busbw", "bandwidth", "latency", "time", "message_rate", "overall", "round_trip", "iteration", "atomic_rate"];
/// Panels of a figure.
const PANELS: usize = 2;

/// What a value is, and the factor to the unit of its axis.
pub(crate) fn quantity(unit: &str) -> (Unit, f64) {
    match unit {
        "us" => (Unit::Seconds, 1e-6),
        "ms" => (Unit::Seconds, 1e-3),
        "MB/s" => (Unit::BytesPerSecond, 1e6),
        "GB/s" => (Unit::BytesPerSecond, 1e9),
        "MiB/s" => (Unit::BytesPerSecond, 1_048_576.0),
        "Gb/s" => (Unit::BitsPerSecond, 1e9),
        "Mb/s" => (Unit::BitsPerSecond, 1e6),
        "Mpps" => (Unit::PerSecond, 1e6),
        "messages/s" | "msg/s" => (Unit::PerSecond, 1.0),
        "%" => (Unit::Percent, 1.0),
        _ => (Unit::Other(""), 1.0),
    }
}

/// What a run is.
struct Shape<'a> {
    tool: Tool,
    parts: &'a ResolvedCluster,
    nodes: u32,
    per_node: u32,
    /// Between hosts over the adapters' own interface, where bounds are known.
    plain: bool,
    directions: f64,
}

impl<'a> Shape<'a> {
    fn of(done: &'a BenchRun) -> Shape<'a> {
        let request = done.setup.request();
        let traits = request.tool.traits();
        let (nodes, per_node) = done.layout().map_or((2, 1), |layout| (layout.nodes, layout.per_node));
        let on_gpus = traits.data == Data::OnGpus || request.options.iter().any(|option| option == "D" || option.starts_with("--use_cuda"));
        let message =
            matches!(traits.operation, Operation::Message | Operation::Write) && matches!(traits.ranks, Ranks::Two | Ranks::Pairs);
        let suite = matches!(traits.suite, Suite::Perftest | Suite::Omb);
        let both = traits.direction == Direction::Bidirectional
            || request.options.iter().any(|option| option == "-b" && traits.suite == Suite::Perftest);
        let parts = done.setup.parts();
        let plain = message && suite && nodes > 1 && !on_gpus && request.stack == Stack::Library && parts.uniform().is_some();
        Shape { tool: request.tool, parts, nodes, per_node, plain, directions: if both { 2.0 } else { 1.0 } }
    }

    /// The cluster and the job, in one line.
    fn words(&self) -> String {
        let of = |group: &NodeGroup| {
            let nics = if group.node.nics > 1 { format!("{} × ", group.node.nics) } else { String::new() };
            let nccl = group.nccl.as_ref().filter(|_| self.tool.traits().data == Data::OnGpus && self.tool.traits().is_collective());
            let library = nccl.unwrap_or(&group.software);
            // perftest has no library above verbs.
            let library = if self.tool.traits().suite == Suite::Perftest { String::new() } else { format!(", {}", library.title) };
            format!("{nics}{}, {} links{library}", group.node.nic.title, group.link.data_rate())
        };
        let ranks = if self.per_node > 1 { format!(" with {} ranks each", self.per_node) } else { String::new() };
        let nodes = if self.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", self.nodes) };
        let parts = self.parts.uniform().map_or_else(|| self.parts.title.clone(), of);
        format!("{nodes}{ranks}; {parts}; MTU {}", self.parts.mtu)
    }

    fn panel(&self, points: &[Point], metric: &str, tables: &[published::Table]) -> Option<Lines> {
        let unit = points.iter().find(|point| point.metric == metric)?.unit;
        let (unit, factor) = quantity(unit);
        let of = |metric: &str| -> Vec<(f64, f64)> {
            let own = points.iter().filter(|point| point.metric == metric && point.size.as_u64() > 0);
            own.map(|point| (point.size.as_u64() as f64, point.value * factor)).collect()
        };
        let label = match metric {
            "busbw" => "bus bandwidth".to_owned(),
            other => other.replace('_', " "),
        };
        let mut lines = Lines::over(Axis::log2("message size", Unit::Bytes), Axis::log10(label, unit));
        let predicted = of(metric);
        if predicted.is_empty() {
            return None;
        }
        let sizes: Vec<f64> = predicted.iter().map(|point| point.0).collect();
        let in_place = of(&format!("{metric}_in_place"));
        // The same curve twice would hide one of them.
        let near = |(one, other): (&(f64, f64), &(f64, f64))| (one.1 / other.1 - 1.0).abs() < 0.02;
        let alike = in_place.len() == predicted.len() && predicted.iter().zip(&in_place).all(near);
        let name = match (in_place.is_empty(), alike) {
            (true, _) => "predicted",
            (false, true) => "predicted, out of place and in place",
            (false, false) => "predicted, out of place",
        };
        lines.series.push(Series::new(name, Look::Predicted, predicted).coloured(0));
        if !in_place.is_empty() && !alike {
            lines.series.push(Series::new("predicted, in place", Look::Predicted, in_place).coloured(2));
        }
        let own = tables.iter().filter(|table| table.metric == metric && table.unit == unit);
        for (number, table) in own.enumerate() {
            // The colours of predictions are left out.
            let colour = [1, 3, 4, 5, 6, 8, 9][number % 7];
            lines.series.push(Series::new(table.name.as_str(), Look::Published, table.points.iter().copied()).coloured(colour));
        }
        self.bounds(&mut lines, &sizes);
        Some(lines)
    }

    /// What cannot be passed, and the rate of the line.
    fn bounds(&self, lines: &mut Lines, sizes: &[f64]) {
        let Some(group) = self.parts.uniform() else { return };
        let rate = group.link.data_rate();
        let bits = rate.as_bps() as f64;
        let in_unit = |bits: f64| if lines.y.unit == Unit::BitsPerSecond { bits } else { bits / 8.0 };
        let is_rate = matches!(lines.y.unit, Unit::BitsPerSecond | Unit::BytesPerSecond);
        if self.plain {
            let perftest = self.tool.traits().suite == Suite::Perftest;
            let busy = |size: f64, link_alone: bool| {
                let resources = occupancy::resources(self.parts, size as u64, perftest, None);
                let wires = resources.iter().filter(|busy| busy.what == "link" || (!link_alone && busy.what.starts_with("PCIe")));
                wires.map(|busy| busy.span.as_ps() as f64 * 1e-12).fold(0.0, f64::max)
            };
            let rails = group.software.mpi.as_ref().filter(|mpi| !perftest && mpi.rails == RailPolicy::Stripe);
            let rails = rails.map_or(1, |mpi| mpi.rails_of(group.node.nics).max(1));
            // What several pairs share of several adapters is not known here.
            let known = self.tool.traits().ranks == Ranks::Two || group.node.nics == 1;
            if is_rate && known {
                let points =
                    sizes.iter().map(|size| (*size, in_unit(8.0 * size * self.directions / busy(*size, false).max(f64::MIN_POSITIVE))));
                lines.series.push(Series::new("bound: link and PCI Express with their headers", Look::Bound, points));
                let both = if self.directions > 1.0 { ", both directions" } else { "" };
                let name = if rails > 1 { format!("line rate, {rails} × {rate}{both}") } else { format!("line rate, {rate}{both}") };
                let line = in_unit(bits * f64::from(rails) * self.directions);
                lines.references.push(Reference { name, along: Along::Across(line) });
            } else if lines.y.unit == Unit::Seconds {
                let points = sizes.iter().map(|size| (*size, busy(*size, true)));
                lines.series.push(Series::new("bound: the link alone", Look::Bound, points));
            }
        } else if is_rate && self.nodes > 1 && self.tool.traits().data == Data::OnGpus && self.tool.traits().is_collective() {
            let nics = group.node.nics;
            let name = format!("line rate of a node, {nics} × {rate}");
            lines.references.push(Reference { name, along: Along::Across(in_unit(bits * f64::from(nics))) });
        }
    }
}
