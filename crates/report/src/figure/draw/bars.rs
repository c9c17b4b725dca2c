//! Horizontal bars with their names and values, marks of a second value and limits.

use super::canvas::{Anchor, Canvas, Type};
use super::lines::{Placed, numbers_across, range};
use super::{MARGIN, WIDTH, words};
use crate::figure::{Axis, Bars};

const ROW: f64 = 22.0;

pub fn draw(canvas: &mut Canvas, bars: &Bars) {
    canvas.y += 26.0;
    canvas.words((MARGIN, canvas.y), Anchor::Start, Type::HEAD, &bars.label);
    signs(canvas, bars);
    let widest = bars.rows.iter().map(|bar| words::width(&bar.name, Type::LABEL.size, false)).fold(0.0, f64::max);
    let left = (MARGIN + widest.min(360.0) + 12.0).round();
    let axis = Axis::linear(bars.label.clone(), bars.unit);
    let values = bars.rows.iter().flat_map(|bar| [Some(bar.value), bar.mark, bar.limit]).flatten();
    let x = Placed { axis: &axis, range: range(&axis, values), pixels: (left, WIDTH - MARGIN - 66.0) };
    let top = canvas.y + 14.0;
    let bottom = top + ROW * bars.rows.len() as f64 + 4.0;
    numbers_across(canvas, &x, (top, bottom));
    let zero = x.at(0.0);
    canvas.line("axis", (zero, top), (zero, bottom), "");
    for (number, bar) in bars.rows.iter().enumerate() {
        let y = top + ROW * number as f64;
        let name = words::cut(&bar.name, Type::LABEL.size, 360.0);
        canvas.words((left - 10.0, y + 15.5), Anchor::End, Type::LABEL, &name);
        let end = x.at(bar.value);
        let (class, edge) = if bar.loud { ("loud fs-edge", " stroke-width=\"1\"") } else { ("calm", "") };
        canvas.rect(class, (zero.min(end), y + 4.0), ((end - zero).abs().max(1.0), ROW - 7.0), edge);
        let mut right = zero.max(end);
        if let Some(limit) = bar.limit {
            let at = x.at(limit);
            canvas.line("bound", (at, y + 1.0), (at, y + ROW - 1.0), " stroke-width=\"2\"");
            right = right.max(at);
        }
        if let Some(mark) = bar.mark {
            let at = x.at(mark);
            canvas.line("edge", (at, y + ROW / 2.0 - 4.0), (at, y + ROW / 2.0 + 5.0), " stroke-width=\"3\"");
            canvas.line("edge", (end, y + ROW / 2.0 + 0.5), (at, y + ROW / 2.0 + 0.5), " stroke-width=\"1\"");
            right = right.max(at);
        }
        let told = bars.unit.exact(bar.value);
        canvas.words((right + 6.0, y + 15.5), Anchor::Start, Type::TICK, &told);
    }
    canvas.y = bottom + 26.0;
}

/// What bars, marks and limits are, where there is more than one of them.
fn signs(canvas: &mut Canvas, bars: &Bars) {
    if bars.mark.is_none() && bars.limit.is_none() {
        return;
    }
    canvas.y += 22.0;
    let mut x = MARGIN;
    let mut next = |canvas: &mut Canvas, name: &str, draw: &dyn Fn(&mut Canvas, f64, f64)| {
        let y = canvas.y;
        draw(canvas, x, y - 4.5);
        canvas.words((x + 30.0, y), Anchor::Start, Type::LABEL, name);
        x += 30.0 + words::width(name, Type::LABEL.size, false) + 24.0;
    };
    let own = bars.label.split(',').next().unwrap_or_default();
    next(canvas, own, &|canvas, x, y| canvas.rect("calm", (x, y - 5.0), (22.0, 11.0), ""));
    if let Some(mark) = &bars.mark {
        next(canvas, mark, &|canvas, x, y| {
            canvas.line("edge", (x, y + 0.5), (x + 20.0, y + 0.5), " stroke-width=\"1\"");
            canvas.line("edge", (x + 20.0, y - 4.0), (x + 20.0, y + 5.0), " stroke-width=\"3\"");
        });
    }
    if let Some(limit) = &bars.limit {
        next(canvas, limit, &|canvas, x, y| canvas.line("bound", (x + 11.0, y - 7.0), (x + 11.0, y + 7.0), " stroke-width=\"2\""));
    }
    canvas.y += 2.0;
}
