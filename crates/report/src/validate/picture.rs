//! A validation as pictures: the errors of all tables, and each of a few tables with what was measured, what is predicted, and the error.

use std::collections::BTreeMap;

use super::result::{Compared, Report, TableResult};
use crate::figure::{Along, Axis, Bar, Bars, Figure, Lines, Look, Panel, Reference, Series, Unit};

impl Report {
    /// The pictures.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        let tables: Vec<&TableResult> = self.plain().collect();
        let mut figures = vec![self.errors(&tables)];
        if tables.len() <= MOST_TABLES {
            figures.extend(tables.into_iter().flat_map(|table| self.curves(table)));
        }
        figures
    }

    /// Median and 90th percentile of each metric of each table, with its goal.
    fn errors(&self, tables: &[&TableResult]) -> Figure {
        let rows = tables.iter().flat_map(|table| {
            self.metrics(table).into_iter().filter_map(|metric| {
                let summary = metric.summary?;
                let several = table.points.iter().any(|point| point.group != metric.metric);
                let name = if several { format!("{}, {}", table.table, metric.metric) } else { table.table.clone() };
                let over = metric.goal.is_some_and(|goal| summary.median > goal.median || summary.p90 > goal.p90);
                Some(Bar { name, value: summary.median, mark: Some(summary.p90), limit: metric.goal.map(|goal| goal.median), loud: over })
            })
        });
        let bars = Bars {
            label: "median error, of the absolute values".to_owned(),
            unit: Unit::Percent,
            mark: Some("90 % of points are below".to_owned()),
            limit: Some("goal of the median".to_owned()),
            rows: rows.collect(),
        };
        Figure::new("Predictions beside measurements", [Panel::Bars(bars)]).told("an orange bar with an edge is over its goal")
    }

    /// Measured and predicted values of a table, and the errors, over size or nodes; a figure for each metric.
    fn curves(&self, table: &TableResult) -> Vec<Figure> {
        let mut metrics: Vec<&str> = Vec::new();
        for point in &table.points {
            if !metrics.contains(&point.group.as_str()) {
                metrics.push(&point.group);
            }
        }
        let of = |metric: &str| {
            let points: Vec<&Compared> = table.points.iter().filter(|point| point.group == metric).collect();
            let goal = self.metrics(table).into_iter().find(|found| found.metric == metric).and_then(|found| found.goal);
            figure(&table.table, metric, &points, goal.map(|goal| goal.p90))
        };
        metrics.into_iter().filter_map(of).collect()
    }
}

/// Tables that have figures of their own.
const MOST_TABLES: usize = 8;
/// Variants of a table that are drawn.
const MOST_VARIANTS: usize = 6;

fn figure(table: &str, metric: &str, points: &[&Compared], goal: Option<f64>) -> Option<Figure> {
    let (unit, factor) = quantity(&points.first()?.unit);
    let sizes = points.iter().filter(|point| point.message_bytes.is_some_and(|size| size > 0)).count();
    let distinct =
        |of: fn(&Compared) -> Option<u64>| points.iter().filter_map(|point| of(point)).collect::<std::collections::BTreeSet<_>>().len();
    // Over the nodes, where it is they that vary.
    let by_nodes = distinct(|point| point.nodes.map(u64::from)) > distinct(|point| point.message_bytes.filter(|size| *size > 0));
    if !by_nodes && sizes == 0 {
        return None;
    }
    let place = |point: &Compared| if by_nodes { point.nodes.map(f64::from) } else { point.message_bytes.map(|size| size as f64) };
    let across = if by_nodes { Axis::log2("nodes", Unit::Count) } else { Axis::log2("message size", Unit::Bytes) };
    let mut groups: BTreeMap<String, Vec<&Compared>> = BTreeMap::new();
    for point in points.iter().filter(|point| point.unit == points[0].unit) {
        let nodes = if by_nodes { String::new() } else { point.nodes.map_or_else(String::new, |nodes| format!("{nodes} nodes")) };
        let size =
            if by_nodes { point.message_bytes.map_or_else(String::new, |size| Unit::Bytes.exact(size as f64)) } else { String::new() };
        let words = [point.variant.as_str(), &nodes, &size].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ");
        groups.entry(words).or_default().push(point);
    }
    let mut values = Lines::over(across.clone(), Axis::log10(metric, unit));
    let mut errors = Lines::over(across, Axis::linear("error of the prediction", Unit::Percent));
    let hidden = groups.len().saturating_sub(MOST_VARIANTS);
    let only = groups.len() == 1;
    for (number, (words, own)) in groups.into_iter().take(MOST_VARIANTS).enumerate() {
        let of = |value: &dyn Fn(&Compared) -> f64| -> Vec<(f64, f64)> {
            let mut points: Vec<(f64, f64)> = own.iter().filter_map(|point| Some((place(point)?, value(point)))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        };
        let name = |what: &str| if only { what.to_owned() } else { format!("{what}: {words}") };
        let colour = if only { 1 } else { number };
        values.series.push(Series::new(name("predicted"), Look::Predicted, of(&|point| point.point.predicted * factor)).coloured(number));
        values.series.push(Series::new(name("published"), Look::Published, of(&|point| point.point.measured * factor)).coloured(colour));
        let label = if only { "error" } else { words.as_str() };
        errors.series.push(Series::new(label, Look::Predicted, of(&|point| point.point.error_percent())).coloured(number));
    }
    if let Some(goal) = goal {
        errors
            .references
            .push(Reference { name: format!("goal of 90 % of points, {}", Unit::Percent.exact(goal)), along: Along::Across(goal) });
        errors.references.push(Reference { name: String::new(), along: Along::Across(-goal) });
    }
    let figure = Figure::new(format!("{table}: {metric}"), [Panel::Lines(values), Panel::Lines(errors)]);
    Some(if hidden > 0 { figure.told(format!("{hidden} more variants are in the table")) } else { figure })
}

/// What a value is, and the factor to the unit of its axis.
fn quantity(unit: &str) -> (Unit, f64) {
    match unit {
        "us" | "usec" => (Unit::Seconds, 1e-6),
        "ns" => (Unit::Seconds, 1e-9),
        "ms" => (Unit::Seconds, 1e-3),
        "s" => (Unit::Seconds, 1.0),
        "MB/s" => (Unit::BytesPerSecond, 1e6),
        "GB/s" => (Unit::BytesPerSecond, 1e9),
        "MiB/s" => (Unit::BytesPerSecond, 1_048_576.0),
        "GiB/s" => (Unit::BytesPerSecond, 1_073_741_824.0),
        "Gb/s" | "Gbps" => (Unit::BitsPerSecond, 1e9),
        "msg/s" | "messages/s" => (Unit::PerSecond, 1.0),
        "Mmsg/s" | "Mpps" => (Unit::PerSecond, 1e6),
        "%" => (Unit::Percent, 1.0),
        _ => (Unit::Other(""), 1.0),
    }
}
