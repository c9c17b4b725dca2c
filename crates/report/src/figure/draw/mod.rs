//! Figures as SVG: from top to bottom, each with its title, its panels and a description for those who do not see it.
//!
//! Source: W3C, "Scalable Vector Graphics (SVG) 1.1 (Second Edition)", 2011; W3C, "SVG Accessibility API Mappings".
//! Modelled: colours by classes, which follow what the reader's screen prefers; the same figures give the same bytes.
//! Not modelled: animation, scripts, fonts within the file.

mod bars;
mod canvas;
mod heat;
mod legend;
mod lines;
mod marker;
mod palette;
mod sheets;
mod waterfall;
mod words;

use std::fmt::Write;

use self::canvas::{Anchor, Canvas, Type, number};
use super::{Figure, Panel};

pub use canvas::escaped;
pub use palette::{Ground, STEPS, step, style};
pub use words::width;

/// Width of a figure in pixels. Basis: assumed; it fits half a slide and a page of A4.
pub const WIDTH: f64 = 860.0;
/// From the edge of the sheet to words.
const MARGIN: f64 = 24.0;

/// The figures as one SVG file.
#[must_use]
pub fn svg(figures: &[Figure]) -> String {
    file(figures, Ground::AsPreferred)
}

/// The same on a ground.
#[must_use]
pub fn file(figures: &[Figure], ground: Ground) -> String {
    let mut canvas = Canvas::default();
    for figure in figures.iter().filter(|figure| !figure.is_empty()) {
        draw(&mut canvas, figure, true);
    }
    let title = figures.iter().map(|figure| figure.title.as_str()).collect::<Vec<_>>().join("; ");
    let words: Vec<String> = figures.iter().map(told).collect();
    // A picture has the rules of what is in it.
    let used =
        |class: &str| class == "bg" || [format!("fs-{class}\""), format!("fs-{class} ")].iter().any(|word| canvas.text.contains(word));
    let style = format!("<style>{}</style>\n", palette::style_of(ground, &used));
    wrapped(&canvas, &Named { id: "figure", title: &title, words: &words.join(" "), style: &style })
}

/// One figure as an element of a page that has the style; `id` is the only one of its kind there. Its title stands in the page.
#[must_use]
pub fn element(figure: &Figure, id: &str) -> String {
    let mut canvas = Canvas::default();
    draw(&mut canvas, figure, false);
    wrapped(&canvas, &Named { id, title: &figure.title, words: &told(figure), style: "" })
}

/// What a figure shows, in words.
#[must_use]
pub fn told(figure: &Figure) -> String {
    let panels = figure.panels.iter().filter(|panel| !panel.is_empty()).map(Panel::words);
    figure.caption.iter().map(|line| format!("{}.", line.trim_end_matches('.'))).chain(panels).collect::<Vec<_>>().join(" ")
}

struct Named<'a> {
    id: &'a str,
    title: &'a str,
    words: &'a str,
    style: &'a str,
}

fn wrapped(canvas: &Canvas, named: &Named<'_>) -> String {
    let Named { id, title, words, style } = named;
    let (width, height) = (number(WIDTH), number(canvas.y + 12.0));
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-labelledby=\"{id}-title {id}-desc\" font-family=\"{FONTS}\">\n"
    );
    let _ = writeln!(text, "<title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-desc\">{}</desc>", escaped(title), escaped(words));
    text += style;
    let _ = writeln!(text, "<rect class=\"fs-bg\" width=\"{width}\" height=\"{height}\"/>");
    text + &canvas.text + "</svg>\n"
}

fn draw(canvas: &mut Canvas, figure: &Figure, titled: bool) {
    if titled {
        canvas.y += 14.0;
        for line in words::lines(&figure.title, Type::TITLE.size * 1.06, WIDTH - 2.0 * MARGIN) {
            canvas.y += 24.0;
            let at = (MARGIN, canvas.y);
            canvas.words(at, Anchor::Start, Type::TITLE, &line);
        }
    }
    for line in figure.caption.iter().flat_map(|line| words::lines(line, Type::CAPTION.size, WIDTH - 2.0 * MARGIN)) {
        canvas.y += 19.0;
        let at = (MARGIN, canvas.y);
        canvas.words(at, Anchor::Start, Type::CAPTION, &line);
    }
    canvas.y += 8.0;
    let panels: Vec<&Panel> = figure.panels.iter().filter(|panel| !panel.is_empty()).collect();
    // One legend is enough for panels whose curves have the same names.
    let mut shown = None;
    for panel in &panels {
        match panel {
            Panel::Lines(lines) => {
                let legend = legend::of(lines);
                let again = shown.as_ref() == Some(&legend);
                lines::draw(canvas, lines, if again { &[] } else { &legend }, panels.len());
                shown = Some(legend);
            }
            Panel::Waterfall(waterfall) => waterfall::draw(canvas, waterfall),
            Panel::Bars(bars) => bars::draw(canvas, bars),
            Panel::Heat(heat) => heat::draw(canvas, heat),
            Panel::Sheets(sheets) => sheets::draw(canvas, sheets),
        }
    }
    canvas.y += 6.0;
}

/// Fonts with the widths that pictures are laid out with.
const FONTS: &str = "Arimo, Helvetica, Arial, Liberation Sans, sans-serif";
