//! Markers and dashes: what tells series apart without colour.

use super::canvas::{Canvas, number};
use super::palette::COLOURS;
use crate::figure::Look;

/// Dashes of the series of one look; a second round of colours has other dashes.
pub fn dashes(look: Look, place: usize) -> &'static str {
    match (look, place / COLOURS) {
        (Look::Bound, _) => " stroke-dasharray=\"9 3 2 3\"",
        (Look::Published, _) => " stroke-dasharray=\"5 4\"",
        (Look::Steps, _) => ["", " stroke-dasharray=\"8 3\"", " stroke-dasharray=\"2 3\"", " stroke-dasharray=\"8 3 2 3\""][place % 4],
        (_, 0) => "",
        (_, _) => " stroke-dasharray=\"10 3\"",
    }
}

/// Draws the marker of a series at a place: a full one, or a hollow one.
pub fn marker(canvas: &mut Canvas, (x, y): (f64, f64), place: usize, look: Look) {
    let colour = place % COLOURS;
    let (class, more) = match look {
        Look::Published => (format!("hollow fs-s{colour}"), " stroke-width=\"1.6\""),
        _ => (format!("f{colour}"), ""),
    };
    let radius = if look == Look::Points { 3.0 } else { 3.8 };
    // Markers go round in another number than colours, so that pairs repeat late.
    let path = match place % 5 {
        0 => return circle(canvas, &class, (x, y), radius, more),
        1 => polygon(&[(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)], (x, y), radius * 0.9),
        2 => polygon(&[(0.0, -1.3), (1.15, 0.75), (-1.15, 0.75)], (x, y), radius),
        3 => polygon(&[(0.0, -1.35), (1.35, 0.0), (0.0, 1.35), (-1.35, 0.0)], (x, y), radius),
        _ => polygon(&[(0.0, 1.3), (1.15, -0.75), (-1.15, -0.75)], (x, y), radius),
    };
    canvas.path(&class, &path, more);
}

fn circle(canvas: &mut Canvas, class: &str, (x, y): (f64, f64), radius: f64, more: &str) {
    let radius = number(radius);
    canvas.text += &format!("<circle class=\"fs-{class}\" cx=\"{}\" cy=\"{}\" r=\"{radius}\"{more}/>\n", number(x), number(y));
}

fn polygon(corners: &[(f64, f64)], (x, y): (f64, f64), radius: f64) -> String {
    let corner = |(dx, dy): &(f64, f64)| format!("{} {}", number(x + dx * radius), number(y + dy * radius));
    format!("M{}Z", corners.iter().map(corner).collect::<Vec<_>>().join("L"))
}
