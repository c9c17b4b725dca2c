//! Curves over two axes: grid and numbers, bands, straight lines, then the curves.

use std::fmt::Write;

use super::canvas::{Anchor, Canvas, Type, number};
use super::legend::{Entry, places, reference_dashes};
use super::marker::{dashes, marker};
use super::palette::COLOURS;
use super::{MARGIN, WIDTH, legend, words};
use crate::figure::{Along, Axis, Lines, Look, Scale, Series};

/// An axis with its two ends, in pixels as well.
pub struct Placed<'a> {
    pub axis: &'a Axis,
    pub range: (f64, f64),
    pub pixels: (f64, f64),
}

impl Placed<'_> {
    /// Where a value stands.
    pub fn at(&self, value: f64) -> f64 {
        let share = |value: f64, (from, to): (f64, f64)| (value - from) / (to - from);
        let (from, to) = self.range;
        let share = match self.axis.scale {
            Scale::Linear => share(value, self.range),
            Scale::Log2 | Scale::Log10 => share(value.log2(), (from.log2(), to.log2())),
        };
        self.pixels.0 + share.clamp(-0.02, 1.02) * (self.pixels.1 - self.pixels.0)
    }
}

/// The ends of an axis that shows all these values.
pub fn range(axis: &Axis, values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) =
        values.filter(|value| axis.takes(*value)).fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)));
    if least > most {
        return if axis.scale == Scale::Linear { (0.0, 1.0) } else { (1.0, 10.0) };
    }
    match axis.scale {
        Scale::Linear => {
            let (least, most) = (least.min(0.0), most.max(0.0));
            let room = (most - least).max(f64::MIN_POSITIVE) * 0.05;
            let (low, high) = (if least < 0.0 { least - room } else { 0.0 }, if most > 0.0 { most + room } else { 0.0 });
            if high > low { (low, high) } else { (0.0, 1.0) }
        }
        Scale::Log2 if least == most => (least / 2.0, most * 2.0),
        Scale::Log2 => (least / 1.15, most * 1.15),
        Scale::Log10 if most / least < 1.2 => (least / 2.0, most * 2.0),
        Scale::Log10 => (least / 1.25, most * 1.25),
    }
}

/// Draws a panel from here down, under this legend.
pub fn draw(canvas: &mut Canvas, lines: &Lines, entries: &[Entry], panels: usize) {
    legend::draw(canvas, entries);
    canvas.y += 26.0;
    let head = (MARGIN, canvas.y);
    canvas.words(head, Anchor::Start, Type::HEAD, &lines.y.label);
    let height = if panels > 1 { 210.0 } else { 330.0 };
    let (top, bottom) = (canvas.y + 14.0, canvas.y + 14.0 + height);
    let straight = |up: bool| {
        lines.references.iter().filter_map(move |line| match line.along {
            Along::Across(value) if !up => Some(value),
            Along::Up(value) if up => Some(value),
            _ => None,
        })
    };
    let points = || lines.series.iter().flat_map(|series| visible(lines, series));
    let edges = lines.bands.iter().flat_map(|band| band.points.iter());
    let ys = points().map(|point| point.1).chain(straight(false)).chain(edges.clone().flat_map(|(_, low, high)| [*low, *high]));
    let xs = points().map(|point| point.0).chain(straight(true)).chain(edges.map(|(x, ..)| *x));
    let vertical = range(&lines.y, ys);
    let labels = lines.y.unit.ticks(lines.y.scale, vertical, if panels > 1 { 5 } else { 7 });
    let widest = labels.iter().map(|(_, word)| words::width(word, Type::TICK.size, false)).fold(0.0, f64::max);
    let left = (MARGIN + widest + 10.0).max(MARGIN + 64.0).round();
    let x = Placed { axis: &lines.x, range: range(&lines.x, xs), pixels: (left, WIDTH - MARGIN - 8.0) };
    let y = Placed { axis: &lines.y, range: vertical, pixels: (bottom, top) };
    for (value, word) in labels {
        let at = y.at(value).round();
        canvas.line("grid", (left, at), (x.pixels.1, at), "");
        canvas.words((left - 8.0, at + 4.2), Anchor::End, Type::TICK, &word);
    }
    numbers_across(canvas, &x, (top, bottom));
    bands(canvas, lines, &x, &y);
    for (number, line) in lines.references.iter().enumerate() {
        // A line without a name is another of the one before it.
        let number = if line.name.is_empty() { number.saturating_sub(1) } else { number };
        let more = format!(" stroke-width=\"1.5\"{}", reference_dashes(number));
        match line.along {
            Along::Across(value) if lines.y.takes(value) => canvas.line("bound", (left, y.at(value)), (x.pixels.1, y.at(value)), &more),
            Along::Up(value) if lines.x.takes(value) => canvas.line("bound", (x.at(value), top), (x.at(value), bottom), &more),
            _ => {}
        }
    }
    for (series, place) in lines.series.iter().zip(places(lines)) {
        let points: Vec<(f64, f64)> = visible(lines, series).map(|(a, b)| (x.at(a), y.at(b))).collect();
        curve(canvas, series.look, place, &points, bottom);
    }
    canvas.y = bottom + 20.0;
    below(canvas, &x);
}

/// The numbers of a horizontal axis, with lines up to the top.
pub fn numbers_across(canvas: &mut Canvas, x: &Placed<'_>, (top, bottom): (f64, f64)) {
    let mut most = if x.axis.scale == Scale::Linear { 8 } else { 13 };
    // Fewer where they would touch.
    let ticks = loop {
        let ticks = x.axis.unit.ticks(x.axis.scale, x.range, most);
        let half = |word: &str| words::width(word, Type::TICK.size, false) / 2.0;
        let touch = |pair: &[(f64, String)]| x.at(pair[0].0) + half(&pair[0].1) + 9.0 > x.at(pair[1].0) - half(&pair[1].1);
        if most <= 2 || !ticks.windows(2).any(touch) {
            break ticks;
        }
        most -= 1;
    };
    for (value, word) in ticks {
        let at = x.at(value).round();
        canvas.line("grid", (at, top), (at, bottom), "");
        let half = words::width(&word, Type::TICK.size, false) / 2.0;
        let place = at.min(WIDTH - 6.0 - half);
        canvas.words((place, bottom + 18.0), Anchor::Middle, Type::TICK, &word);
    }
    canvas.line("axis", (x.pixels.0, bottom), (x.pixels.1, bottom), "");
}

/// The name of a horizontal axis.
pub fn below(canvas: &mut Canvas, x: &Placed<'_>) {
    canvas.y += 18.0;
    let at = ((x.pixels.0 + x.pixels.1) / 2.0, canvas.y);
    canvas.words(at, Anchor::Middle, Type::LABEL, &x.axis.label);
    canvas.y += 8.0;
}

/// The points that have a place.
fn visible<'a>(lines: &'a Lines, series: &'a Series) -> impl Iterator<Item = (f64, f64)> + 'a {
    series.points.iter().copied().filter(|(x, y)| lines.x.takes(*x) && lines.y.takes(*y))
}

fn bands(canvas: &mut Canvas, lines: &Lines, x: &Placed<'_>, y: &Placed<'_>) {
    for band in &lines.bands {
        let there = || band.points.iter().filter(|(at, low, high)| lines.x.takes(*at) && lines.y.takes(*low) && lines.y.takes(*high));
        let lower = there().map(|(at, low, _)| (*at, *low));
        let upper = there().map(|(at, _, high)| (*at, *high));
        let corners: Vec<String> = lower.chain(upper.rev()).map(|(a, b)| format!("{} {}", number(x.at(a)), number(y.at(b)))).collect();
        if !corners.is_empty() {
            canvas.path("calm", &format!("M{}Z", corners.join("L")), " fill-opacity=\"0.18\"");
        }
    }
}

fn curve(canvas: &mut Canvas, look: Look, place: usize, points: &[(f64, f64)], bottom: f64) {
    let mut path = String::new();
    for (index, (x, y)) in points.iter().enumerate() {
        let (x, y) = (number(*x), number(*y));
        let _ = match (index, look) {
            (0, Look::Steps) => write!(path, "M{x} {}V{y}", number(bottom)),
            (0, _) => write!(path, "M{x} {y}"),
            (_, Look::Steps) => write!(path, "H{x}V{y}"),
            _ => write!(path, "L{x} {y}"),
        };
    }
    let stroke = |width: f64| format!(" fill=\"none\" stroke-width=\"{}\" stroke-linejoin=\"round\"{}", number(width), dashes(look, place));
    match look {
        Look::Points => {}
        Look::Bound => canvas.path("bound", &path, &stroke(1.5)),
        Look::Published => canvas.path(&format!("s{}", place % COLOURS), &path, &stroke(1.5)),
        Look::Predicted | Look::Steps if !path.is_empty() => canvas.path(&format!("s{}", place % COLOURS), &path, &stroke(2.2)),
        Look::Predicted | Look::Steps => {}
    }
    if matches!(look, Look::Predicted | Look::Published | Look::Points) {
        for point in points {
            marker(canvas, *point, place, look);
        }
    }
}
