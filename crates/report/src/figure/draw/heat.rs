//! Values of rows over columns as colours, and the scale of colours.

use super::canvas::{Anchor, Canvas, Type};
use super::lines::{Placed, below, numbers_across};
use super::palette::{STEPS, step};
use super::{MARGIN, WIDTH, words};
use crate::figure::{Heat, Unit};

pub fn draw(canvas: &mut Canvas, heat: &Heat) {
    canvas.y += 26.0;
    canvas.words((MARGIN, canvas.y), Anchor::Start, Type::HEAD, &heat.label);
    scale(canvas, heat.unit, heat.most);
    let row = (420.0 / heat.rows.len().max(1) as f64).clamp(9.0, 22.0);
    let named = row >= 12.0;
    let widest = heat.rows.iter().map(|(name, _)| words::width(name, Type::TICK.size, false)).fold(0.0, f64::max);
    let left = (MARGIN + if named { widest.min(260.0) } else { 60.0 } + 10.0).round();
    let top = canvas.y + 14.0;
    let bottom = top + row * heat.rows.len() as f64;
    let x = Placed { axis: &heat.x, range: heat.extent, pixels: (left, WIDTH - MARGIN - 8.0) };
    numbers_across(canvas, &x, (top, bottom));
    for (number, (name, values)) in heat.rows.iter().enumerate() {
        let y = top + row * number as f64;
        if named {
            let name = words::cut(name, Type::TICK.size, 260.0);
            canvas.words((left - 8.0, y + row / 2.0 + 4.2), Anchor::End, Type::TICK, &name);
        }
        let wide = (x.pixels.1 - x.pixels.0) / values.len().max(1) as f64;
        // Neighbours of one colour are one rectangle.
        let mut begin = 0;
        while begin < values.len() {
            let colour = step(values[begin], heat.most);
            let end = (begin..values.len()).find(|at| step(values[*at], heat.most) != colour).unwrap_or(values.len());
            let place = (left + wide * begin as f64, y);
            canvas.rect(&format!("h{colour}"), place, (wide * (end - begin) as f64 + 0.2, row - 1.0), "");
            begin = end;
        }
    }
    canvas.y = bottom + 20.0;
    below(canvas, &x);
}

/// The colours with their values.
pub fn scale(canvas: &mut Canvas, unit: Unit, most: f64) {
    canvas.y += 18.0;
    let each = 26.0;
    for number in 0..STEPS {
        canvas.rect(&format!("h{number}"), (MARGIN + each * number as f64, canvas.y - 9.0), (each + 0.3, 12.0), "");
    }
    let (left, right) = (MARGIN, MARGIN + each * STEPS as f64);
    canvas.y += 18.0;
    canvas.words((left, canvas.y), Anchor::Start, Type::TICK, &unit.exact(0.0));
    canvas.words(((left + right) / 2.0, canvas.y), Anchor::Middle, Type::TICK, &unit.exact(most / 2.0));
    canvas.words((right, canvas.y), Anchor::End, Type::TICK, &unit.exact(most));
}
