//! The legend: above the plot, so that it hides nothing; in as many rows as it needs.

use super::canvas::{Anchor, Canvas, Type};
use super::marker::{dashes, marker};
use super::palette::COLOURS;
use super::{MARGIN, WIDTH, words};
use crate::figure::{Lines, Look};

/// A name and how it looks.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    name: String,
    sign: Sign,
}

/// How something of the legend looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    Series { look: Look, place: usize },
    Band,
    Reference(usize),
}

/// The places of series among colours and markers, in their order.
pub fn places(lines: &Lines) -> Vec<usize> {
    let mut next = 0;
    let place = |series: &crate::figure::Series| match (series.look, series.colour) {
        (Look::Bound, _) => 0,
        (_, Some(colour)) => colour,
        (_, None) => {
            next += 1;
            next - 1
        }
    };
    lines.series.iter().map(place).collect()
}

/// What the legend of curves has.
pub fn of(lines: &Lines) -> Vec<Entry> {
    let with_points = |(series, _): &(&crate::figure::Series, usize)| !series.points.is_empty();
    let series = lines.series.iter().zip(places(lines)).filter(with_points);
    let series = series.map(|(series, place)| Entry { name: series.name.clone(), sign: Sign::Series { look: series.look, place } });
    let bands = lines.bands.iter().map(|band| Entry { name: band.name.clone(), sign: Sign::Band });
    let references =
        lines.references.iter().enumerate().map(|(number, line)| Entry { name: line.name.clone(), sign: Sign::Reference(number) });
    let all: Vec<Entry> = series.chain(bands).chain(references).collect();
    let mut once: Vec<Entry> = Vec::new();
    for entry in all {
        if !entry.name.is_empty() && !once.contains(&entry) {
            once.push(entry);
        }
    }
    once
}

/// Dashes of straight lines.
pub fn reference_dashes(number: usize) -> &'static str {
    [" stroke-dasharray=\"2 3\"", " stroke-dasharray=\"12 4\"", " stroke-dasharray=\"6 3 2 3 2 3\""][number % 3]
}

/// Draws it from here down.
pub fn draw(canvas: &mut Canvas, entries: &[Entry]) {
    if entries.is_empty() {
        return;
    }
    canvas.y += 20.0;
    let mut x = MARGIN;
    for entry in entries {
        let name = words::cut(&entry.name, Type::LABEL.size, WIDTH - 2.0 * MARGIN - SWATCH - 8.0);
        let wide = SWATCH + 8.0 + words::width(&name, Type::LABEL.size, false);
        if x > MARGIN && x + wide > WIDTH - MARGIN {
            x = MARGIN;
            canvas.y += 20.0;
        }
        let (from, to) = ((x, canvas.y - 4.3), (x + SWATCH, canvas.y - 4.3));
        match entry.sign {
            Sign::Series { look: Look::Points, place } => marker(canvas, (x + SWATCH / 2.0, from.1), place, Look::Points),
            Sign::Series { look: Look::Bound, .. } => {
                canvas.line("bound", from, to, &format!(" stroke-width=\"1.6\"{}", dashes(Look::Bound, 0)));
            }
            Sign::Series { look, place } => {
                canvas.line(&format!("s{}", place % COLOURS), from, to, &format!(" stroke-width=\"2\"{}", dashes(look, place)));
                if look != Look::Steps {
                    marker(canvas, (x + SWATCH / 2.0, from.1), place, look);
                }
            }
            Sign::Band => canvas.rect("calm", (x, canvas.y - 10.0), (SWATCH, 11.0), " fill-opacity=\"0.18\""),
            Sign::Reference(number) => {
                canvas.line("bound", from, to, &format!(" stroke-width=\"1.6\"{}", reference_dashes(number)));
            }
        }
        let at = (x + SWATCH + 8.0, canvas.y);
        canvas.words(at, Anchor::Start, Type::LABEL, &name);
        x += wide + 22.0;
    }
    canvas.y += 6.0;
}

/// Width of what stands before a name.
const SWATCH: f64 = 30.0;
