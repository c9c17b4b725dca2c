//! The curves of a study: what each tool or lab gives over what varies.
//!
//! Modelled: for each tool, its first quantity over the size of messages, and over nodes, ranks or a number of an axis where that varies
//! (scaling curves); for each lab, when it ends over its first axis of numbers. What varies besides makes the curves of a panel.
//! Not modelled: more curves than can be told apart: the data set has them all.

use std::collections::{BTreeMap, BTreeSet};

use fabriscope_report::figure::{Axis, Figure, Lines, Look, Panel, Series, Unit};
use fabriscope_study::{Plan, Store};
use fabriscope_units::{Bytes, Rate, Span};

use super::quantity;

/// A number that a point gave.
struct Value {
    /// What was asked, by column, but for the tool or the lab.
    asked: Vec<(String, String)>,
    bytes: Option<u64>,
    value: f64,
}

/// What a figure is of: the tool or the lab, with its quantity and unit.
type Of = (String, String, String);

/// The figures of a study, as far as its points are known.
#[must_use]
pub fn study(plan: &Plan, store: &Store) -> Vec<Figure> {
    let mut all: Vec<(Of, Vec<Value>)> = Vec::new();
    for point in 0..plan.len() {
        let Some(result) = store.get(plan, point) else { continue };
        let mut asked = plan.asked(point);
        let Some(place) = asked.iter().position(|(column, _)| column == "tool" || column == "lab") else { continue };
        let (kind, of) = asked.remove(place);
        let main = |metric: &str| if kind == "lab" { metric == END } else { !metric.contains('.') };
        let Some(first) = result.samples.iter().find(|sample| main(&sample.metric)) else { continue };
        let (metric, unit) = (first.metric.clone(), first.unit.clone().unwrap_or_default());
        let key = (of, metric.clone(), unit);
        let values = match all.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values,
            None => {
                all.push((key, Vec::new()));
                let last = all.len() - 1;
                &mut all[last].1
            }
        };
        let own = result.samples.iter().filter(|sample| sample.metric == metric);
        values.extend(own.map(|sample| Value { asked: asked.clone(), bytes: sample.bytes, value: sample.value }));
    }
    all.iter().filter_map(|(of, values)| figure(of, values)).collect()
}

fn figure((of, metric, unit): &Of, values: &[Value]) -> Option<Figure> {
    let (unit, factor) = if metric == END { (Unit::Seconds, 1e-12) } else { quantity(unit) };
    let y = || Axis::log10(if metric == END { "end".to_owned() } else { metric.replace('_', " ") }, unit);
    let sizes: BTreeSet<u64> = values.iter().filter_map(|value| value.bytes).filter(|bytes| *bytes > 0).collect();
    let mut columns: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (column, value) in values.iter().flat_map(|value| &value.asked) {
        columns.entry(column).or_default().insert(value);
    }
    // A size that is asked for is the size of the messages.
    let varies: Vec<&str> = columns.iter().filter(|(name, found)| found.len() > 1 && **name != "size").map(|(name, _)| *name).collect();
    let mut panels = Vec::new();
    let mut left = 0;
    if sizes.len() > 1 {
        let lines = Lines::over(Axis::log2("message size", Unit::Bytes), y());
        let place = |value: &Value| value.bytes.filter(|bytes| *bytes > 0).map(|bytes| bytes as f64);
        panels.push(panel(lines, values, factor, &place, &|value| name(value, &varies, None), &mut left));
    }
    for column in varies.iter().copied() {
        let numbers: Option<Vec<(f64, Unit)>> = columns[column].iter().map(|text| number(text)).collect();
        let Some(numbers) = numbers.filter(|numbers| numbers.len() > 1 && column != "seed") else { continue };
        let unit = if numbers.iter().all(|(_, unit)| *unit == numbers[0].1) { numbers[0].1 } else { Unit::Other("") };
        let scale = column == "nodes" || column == "ranks_per_node";
        let label = column.replace('_', " ");
        let x = match unit {
            _ if scale => Axis::log2(label, Unit::Count),
            Unit::Bytes => Axis::log2(label, Unit::Bytes),
            unit => Axis::linear(label, unit),
        };
        let others: Vec<&str> = varies.iter().copied().filter(|other| *other != column).collect();
        // The ends of the sizes tell overheads from rates.
        let ends: Vec<Option<u64>> = if sizes.is_empty() { vec![None] } else { vec![sizes.first().copied(), sizes.last().copied()] };
        let place = |value: &Value| {
            let of_end = ends.contains(&value.bytes);
            value.asked.iter().find(|(name, _)| name == column).filter(|_| of_end).and_then(|(_, text)| Some(number(text)?.0))
        };
        let size = |value: &Value| value.bytes.filter(|_| sizes.len() > 1);
        panels.push(panel(Lines::over(x, y()), values, factor, &place, &|value| name(value, &others, size(value)), &mut left));
    }
    let panels: Vec<Lines> = panels.into_iter().filter(|lines| lines.series.iter().any(|series| series.points.len() > 1)).collect();
    if panels.is_empty() {
        return None;
    }
    let mut figure = Figure::new(of.clone(), panels.into_iter().map(Panel::Lines));
    if left > 0 {
        figure.caption.push(format!("{left} curves more are in the data set"));
    }
    Some(figure)
}

/// Fills a panel: a curve for each name, in the order of the points; how many more there are is added to `left`.
fn panel(
    mut lines: Lines,
    values: &[Value],
    factor: f64,
    place: &dyn Fn(&Value) -> Option<f64>,
    name: &dyn Fn(&Value) -> String,
    left: &mut usize,
) -> Lines {
    let mut curves: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for value in values {
        let Some(x) = place(value) else { continue };
        let (name, y) = (name(value), value.value * factor);
        match curves.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push((x, y)),
            None => curves.push((name, vec![(x, y)])),
        }
    }
    *left += curves.len().saturating_sub(MOST);
    for (number, (name, mut points)) in curves.into_iter().take(MOST).enumerate() {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let name = if name.is_empty() { "predicted".to_owned() } else { name };
        lines.series.push(Series::new(name, Look::Predicted, points).coloured(number));
    }
    lines
}

/// What tells a curve from the others.
fn name(value: &Value, varies: &[&str], bytes: Option<u64>) -> String {
    let of = |(column, text): &(String, String)| match column.as_str() {
        // These say themselves what they are.
        "cluster" | "options" | "placement" | "transport" | "engine" => text.clone(),
        _ => format!("{} {text}", column.replace('_', " ")),
    };
    let words = value.asked.iter().filter(|(column, _)| varies.contains(&column.as_str())).map(of);
    words.chain(bytes.map(|bytes| Unit::Bytes.exact(bytes as f64))).collect::<Vec<_>>().join(", ")
}

/// A number, with or without its unit, in the base of that.
fn number(text: &str) -> Option<(f64, Unit)> {
    let bare = text.parse().ok().map(|number| (number, Unit::Other("")));
    let bytes = || Bytes::parse(text).ok().map(|bytes| (bytes.0 as f64, Unit::Bytes));
    let span = || Span::parse(text).ok().map(|span| (span.as_ps() as f64 * 1e-12, Unit::Seconds));
    let rate = || Rate::parse(text).ok().map(|rate| (rate.as_bps() as f64, Unit::BitsPerSecond));
    bare.or_else(bytes).or_else(span).or_else(rate)
}

/// When the last message of a lab is there.
const END: &str = "end_ps";
/// Curves that can be told apart.
const MOST: usize = 8;
