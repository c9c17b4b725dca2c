//! Stages that follow each other: each a bar that begins where the one before ended, the longest marked.

use super::canvas::{Anchor, Canvas, Type};
use super::lines::{Placed, below, numbers_across, range};
use super::{MARGIN, WIDTH, words};
use crate::figure::{Axis, Waterfall};

/// Rows that are drawn; above that, the shortest neighbours become one. Basis: assumed; a page has about so many lines.
const MOST_ROWS: usize = 36;
const ROW: f64 = 22.0;

pub fn draw(canvas: &mut Canvas, waterfall: &Waterfall) {
    let stages = shortened(&waterfall.stages);
    canvas.y += 26.0;
    let head = format!("{}: {}", waterfall.label, waterfall.unit.exact(waterfall.total()));
    canvas.words((MARGIN, canvas.y), Anchor::Start, Type::HEAD, &head);
    let widest = stages.iter().map(|(name, _)| words::width(name, Type::LABEL.size, false)).fold(0.0, f64::max);
    let left = (MARGIN + widest.min(330.0) + 12.0).round();
    let axis = Axis::linear("time since the first stage began", waterfall.unit);
    let x = Placed { axis: &axis, range: (0.0, range(&axis, [waterfall.total()].into_iter()).1), pixels: (left, WIDTH - MARGIN - 74.0) };
    let top = canvas.y + 14.0;
    let bottom = top + ROW * stages.len() as f64 + 4.0;
    numbers_across(canvas, &x, (top, bottom));
    let longest = stages.iter().map(|(_, length)| *length).fold(0.0, f64::max);
    let mut begin = 0.0;
    for (number, (name, length)) in stages.iter().enumerate() {
        let y = top + ROW * number as f64;
        let name = words::cut(name, Type::LABEL.size, 330.0);
        canvas.words((left - 10.0, y + 15.5), Anchor::End, Type::LABEL, &name);
        let (from, to) = (x.at(begin), x.at(begin + length));
        // Black edges tell the longest without colour.
        let (class, edge) = if *length == longest { ("loud fs-edge", " stroke-width=\"1\"") } else { ("calm", "") };
        canvas.rect(class, (from, y + 4.0), ((to - from).max(1.0), ROW - 7.0), edge);
        if number + 1 < stages.len() {
            canvas.line("axis", (to, y + ROW - 3.0), (to, y + ROW + 4.0), "");
        }
        let share = if waterfall.total() > 0.0 { 100.0 * length / waterfall.total() } else { 0.0 };
        let share = if share > 0.0 && share < 0.5 { "< 1 %".to_owned() } else { format!("{share:.0} %") };
        let told = format!("{} · {share}", waterfall.unit.exact(*length));
        let wide = words::width(&told, Type::TICK.size, false);
        // Right of the bar, or left of it where there is no room.
        if to + 6.0 + wide < WIDTH - 4.0 {
            canvas.words((to + 6.0, y + 15.5), Anchor::Start, Type::TICK, &told);
        } else {
            canvas.words((from - 6.0, y + 15.5), Anchor::End, Type::TICK, &told);
        }
        begin += length;
    }
    canvas.y = bottom + 20.0;
    below(canvas, &x);
}

/// The stages with the shortest neighbours as one, until there are few enough.
fn shortened(stages: &[(String, f64)]) -> Vec<(String, f64)> {
    let mut rows: Vec<(usize, String, f64)> = stages.iter().map(|(name, length)| (1, name.clone(), *length)).collect();
    while rows.len() > MOST_ROWS {
        let sums = rows.windows(2).map(|pair| pair[0].2 + pair[1].2);
        let Some((place, _)) = sums.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)) else { break };
        let (count, name, length) = rows.remove(place + 1);
        let row = &mut rows[place];
        *row = (row.0 + count, if name == row.1 { name } else { String::new() }, row.2 + length);
    }
    let told = |(count, name, length): (usize, String, f64)| match (count, name.is_empty()) {
        (1, _) => (name, length),
        (count, false) => (format!("{name}, {count} times"), length),
        (count, true) => (format!("{count} short stages"), length),
    };
    rows.into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_stages_keep_their_sum_and_the_long_ones_their_names() {
        let stages: Vec<(String, f64)> =
            (0..200).map(|number| (format!("stage {number}"), if number % 50 == 0 { 1000.0 } else { 1.0 })).collect();
        let rows = shortened(&stages);
        assert_eq!(rows.len(), MOST_ROWS);
        assert_eq!(rows.iter().map(|row| row.1).sum::<f64>(), 4196.0);
        assert_eq!(rows.iter().filter(|row| row.0.starts_with("stage") && row.1 >= 1000.0).count(), 4);
    }
}
