//! Drawings of other crates side by side, as small as they have to be, under one scale of colours.

use std::fmt::Write;

use super::canvas::{Anchor, Canvas, Type, number};
use super::heat::scale;
use super::{MARGIN, WIDTH};
use crate::figure::Sheets;

const GAP: f64 = 18.0;

pub fn draw(canvas: &mut Canvas, sheets: &Sheets) {
    canvas.y += 26.0;
    canvas.words((MARGIN, canvas.y), Anchor::Start, Type::HEAD, &sheets.label);
    if let Some(most) = sheets.most {
        scale(canvas, sheets.unit, most);
    }
    let count = sheets.sheets.len();
    let across = match count {
        0 | 1 => 1,
        2..=4 => 2,
        // Drawings that are wide and low are small enough two by two.
        _ if sheets.sheets.iter().all(|sheet| sheet.size.0 > 2.2 * sheet.size.1) => 2,
        _ => 3,
    };
    let wide = (WIDTH - 2.0 * MARGIN - GAP * (across - 1) as f64) / across as f64;
    for row in sheets.sheets.chunks(across) {
        canvas.y += 14.0;
        let named = row.iter().any(|sheet| !sheet.name.is_empty());
        let top = canvas.y + if named { 14.0 } else { 0.0 };
        let mut tallest: f64 = 0.0;
        for (column, sheet) in row.iter().enumerate() {
            let x = MARGIN + (wide + GAP) * column as f64;
            if named {
                canvas.words((x, canvas.y + 4.0), Anchor::Start, Type::LABEL, &sheet.name);
            }
            let (width, height) = (sheet.size.0.max(1.0), sheet.size.1.max(1.0));
            let factor = (wide / width).min(1.5).min(520.0 / height);
            let tall = height * factor;
            let left = x + if across == 1 { (wide - width * factor) / 2.0 } else { 0.0 };
            let _ = writeln!(canvas.text, "<g transform=\"translate({} {}) scale({:.4})\">", number(left), number(top), factor);
            canvas.text += &sheet.elements;
            canvas.text += "</g>\n";
            tallest = tallest.max(tall);
        }
        canvas.y = top + tallest;
    }
    canvas.y += 10.0;
}
