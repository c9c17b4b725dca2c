//! A sketch as the text of an SVG file, with title, captions and the legend of loads.
//!
//! Source: W3C, "Scalable Vector Graphics (SVG) 1.1 (Second Edition)", 2011. Lines of one colour and width are one
//! path: a picture of 16,000 links takes a third of a megabyte.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Picture;
use super::colour::{STEPS, colour, step};
use super::sketch::{Anchor, Mark, Point, Sketch, Stroke};

/// How colours are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    /// As they are, for a file of its own.
    Colours,
    /// As classes, to which a style sheet gives colours: `fs-l0` to `fs-l11` for loads, `fs-lower`, `fs-upper`, `fs-rim`, `fs-axis`, `fs-soft`
    /// and `fs-hollow` for the rest.
    Classes,
}

impl Ink {
    /// The stroke of a load, or of what has none.
    fn stroke(self, step: Option<usize>) -> String {
        match (self, step) {
            (Ink::Colours, Some(step)) => format!("stroke=\"{}\"", colour(step)),
            (Ink::Colours, None) => "stroke=\"#8a8f98\"".to_owned(),
            (Ink::Classes, Some(step)) => format!("class=\"fs-l{step}\""),
            (Ink::Classes, None) => "class=\"fs-axis\"".to_owned(),
        }
    }
}

/// The elements of a drawing, without a frame around.
pub(super) fn elements(sketch: &Sketch, ink: Ink) -> String {
    let mut text = String::new();
    strokes(&mut text, sketch, ink);
    dots(&mut text, sketch, ink);
    marks(&mut text, sketch, ink);
    words(&mut text, sketch, ink);
    text
}

/// The text of the file.
pub(super) fn text(sketch: &Sketch, picture: &Picture) -> String {
    let lines = picture.caption.len() + sketch.notes.len();
    let head = 44.0 + 18.0 * lines as f64 + 14.0;
    let foot = if sketch.most.is_some() { 64.0 } else { 16.0 };
    let (width, height) = (sketch.size.x, head + sketch.size.y + foot);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" \
         aria-labelledby=\"title desc\" font-family=\"Helvetica Neue, Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif\">",
        number(width),
        number(height)
    );
    let all: Vec<&str> = picture.caption.iter().chain(&sketch.notes).map(String::as_str).collect();
    let _ = writeln!(text, "<title id=\"title\">{}</title>\n<desc id=\"desc\">{}</desc>", escaped(picture.title), escaped(&all.join(". ")));
    let _ = writeln!(text, "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>");
    let _ = writeln!(
        text,
        "<text x=\"{MARGIN}\" y=\"36\" font-size=\"20\" font-weight=\"600\" fill=\"{INK}\">{}</text>",
        escaped(picture.title)
    );
    for (index, line) in all.iter().enumerate() {
        let y = 58.0 + 18.0 * index as f64;
        let _ = writeln!(text, "<text x=\"{MARGIN}\" y=\"{}\" font-size=\"13\" fill=\"{SOFT}\">{}</text>", number(y), escaped(line));
    }
    let _ = writeln!(text, "<g transform=\"translate(0 {})\">", number(head));
    text += &elements(sketch, Ink::Colours);
    text += "</g>\n";
    if let Some(most) = sketch.most {
        legend(&mut text, most, height - foot + 12.0);
    }
    text + "</svg>\n"
}

fn strokes(text: &mut String, sketch: &Sketch, ink: Ink) {
    // Thinner where there are many: 2 px for 40 lines, 0.75 for 2,000, 0.45 for 16,000.
    let thin = (5.0 / (sketch.strokes.len().max(1) as f64).sqrt().sqrt()).clamp(0.3, 2.4);
    let mut paths: BTreeMap<(usize, u32), String> = BTreeMap::new();
    for stroke in &sketch.strokes {
        let colour = sketch.most.map_or(0, |most| step(stroke.load, most));
        let cables = (f64::from(stroke.cables).sqrt().min(3.0) * 4.0).round() as u32;
        path(paths.entry((colour, cables)).or_default(), stroke);
    }
    text.push_str("<g fill=\"none\" stroke-linecap=\"round\">\n");
    // Light ones first: the busy ones lie on top.
    for ((step, cables), path) in paths {
        let width = number2(thin * f64::from(cables) / 4.0 * if sketch.most.is_some() && step > STEPS / 2 { 1.35 } else { 1.0 });
        let stroke = ink.stroke(sketch.most.map(|_| step));
        let _ = writeln!(text, "<path {stroke} stroke-width=\"{width}\" d=\"{path}\"/>");
    }
    text.push_str("</g>\n");
}

fn path(path: &mut String, stroke: &Stroke) {
    let _ = write!(path, "M{}", pair(stroke.from));
    let _ = match stroke.bend {
        Some(bend) => write!(path, "Q{} {}", pair(bend), pair(stroke.to)),
        None => write!(path, "L{}", pair(stroke.to)),
    };
}

fn dots(text: &mut String, sketch: &Sketch, ink: Ink) {
    let mut paths: BTreeMap<(usize, String), String> = BTreeMap::new();
    for dot in &sketch.dots {
        let step = sketch.most.map_or(STEPS, |most| step(dot.load, most));
        // A line of no length with round ends is a dot.
        let _ = write!(paths.entry((step, number2(2.0 * dot.radius))).or_default(), "M{}h0", pair(dot.at));
    }
    if paths.is_empty() {
        return;
    }
    text.push_str("<g fill=\"none\" stroke-linecap=\"round\">\n");
    for ((step, width), path) in paths {
        let stroke = ink.stroke(Some(step).filter(|step| *step < STEPS));
        let _ = writeln!(text, "<path {stroke} stroke-width=\"{width}\" d=\"{path}\"/>");
    }
    text.push_str("</g>\n");
}

fn marks(text: &mut String, sketch: &Sketch, ink: Ink) {
    let named = sketch.marks.len() <= MOST_NAMES;
    for upper in [false, true] {
        let marks: Vec<&Mark> = sketch.marks.iter().filter(|mark| mark.upper == upper).collect();
        let Some(first) = marks.first() else { continue };
        let paint = match (ink, upper) {
            (Ink::Colours, true) => format!("fill=\"{UPPER}\" stroke=\"#ffffff\""),
            (Ink::Colours, false) => format!("fill=\"{LOWER}\" stroke=\"#ffffff\""),
            (Ink::Classes, true) => "class=\"fs-upper fs-rim\"".to_owned(),
            (Ink::Classes, false) => "class=\"fs-lower fs-rim\"".to_owned(),
        };
        let edge = if first.half.x < 2.5 { 0.0 } else { 1.0 };
        let _ = writeln!(text, "<g {paint} stroke-width=\"{}\">", number(edge));
        for Mark { at, half, name, .. } in marks {
            let shape = if half.x == half.y {
                format!("circle cx=\"{}\" cy=\"{}\" r=\"{}\"", number(at.x), number(at.y), number2(half.x))
            } else {
                let (x, y) = (number(at.x - half.x), number(at.y - half.y));
                let round = number(half.x.min(half.y).min(3.0));
                format!("rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"{round}\"", number2(2.0 * half.x), number2(2.0 * half.y))
            };
            if named {
                let element = shape.split(' ').next().unwrap_or_default();
                let _ = writeln!(text, "<{shape}><title>{}</title></{element}>", escaped(name));
            } else {
                let _ = writeln!(text, "<{shape}/>");
            }
        }
        text.push_str("</g>\n");
    }
    let labels: Vec<&Mark> = sketch.marks.iter().filter(|mark| !mark.label.is_empty()).collect();
    if let Some(longest) = labels.iter().map(|mark| mark.label.chars().count()).max() {
        let narrow = labels.iter().map(|mark| mark.half.x).fold(f64::INFINITY, f64::min);
        let size = (2.0 * narrow / (0.62 * longest as f64 + 0.5)).min(11.0);
        let paint = if ink == Ink::Colours { "fill=\"#ffffff\"" } else { "class=\"fs-hollow\"" };
        let _ = writeln!(text, "<g font-size=\"{}\" {paint} text-anchor=\"middle\">", number(size));
        for mark in labels {
            let y = mark.at.y + 0.35 * size;
            let _ = writeln!(text, "<text x=\"{}\" y=\"{}\">{}</text>", number(mark.at.x), number(y), escaped(&mark.label));
        }
        text.push_str("</g>\n");
    }
}

fn words(text: &mut String, sketch: &Sketch, ink: Ink) {
    // A white edge keeps words legible on lines.
    let paint = match ink {
        Ink::Colours => format!("fill=\"{SOFT}\" paint-order=\"stroke\" stroke=\"#ffffff\""),
        Ink::Classes => "class=\"fs-soft fs-rim\" paint-order=\"stroke\"".to_owned(),
    };
    let _ = writeln!(text, "<g {paint} stroke-width=\"3\" stroke-linejoin=\"round\">");
    for words in &sketch.words {
        let anchor = match words.anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, y, size) = (number(words.at.x), number(words.at.y), number(words.size));
        let _ = writeln!(text, "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{anchor}>{}</text>", escaped(&words.text));
    }
    text.push_str("</g>\n");
}

/// The colours with their loads.
fn legend(text: &mut String, most: f64, y: f64) {
    let each = 26.0;
    let _ = writeln!(text, "<g font-size=\"12\" fill=\"{SOFT}\">");
    for step in 0..STEPS {
        let x = MARGIN + each * step as f64;
        let _ = writeln!(
            text,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"12\" fill=\"{}\"/>",
            number(x),
            number(y),
            number(each),
            colour(step)
        );
    }
    for (share, anchor) in [(0.0, "start"), (0.5, "middle"), (1.0, "end")] {
        let x = MARGIN + each * STEPS as f64 * share;
        let value = two(most * share);
        let _ = writeln!(text, "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{value}</text>", number(x), number(y + 28.0));
    }
    let x = MARGIN + each * STEPS as f64 + 18.0;
    let _ = writeln!(text, "<text x=\"{}\" y=\"{}\">load of a link, the busier direction</text>", number(x), number(y + 10.5));
    let rest = "1 = full while every endpoint sends at its rate";
    let _ = writeln!(text, "<text x=\"{}\" y=\"{}\">{rest}</text>\n</g>", number(x), number(y + 28.0));
}

fn pair(point: Point) -> String {
    let y = number(point.y);
    format!("{}{}{y}", number(point.x), if y.starts_with('-') { "" } else { " " })
}

/// One decimal, none where it is zero.
fn number(value: f64) -> String {
    let tenths = (value * 10.0).round() as i64;
    let (sign, tenths) = (if tenths < 0 { "-" } else { "" }, tenths.unsigned_abs());
    if tenths.is_multiple_of(10) { format!("{sign}{}", tenths / 10) } else { format!("{sign}{}.{}", tenths / 10, tenths % 10) }
}

/// Two decimals.
fn number2(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Two decimals for a person.
fn two(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{value:.2}") }
}

fn escaped(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// From the edge of the sheet to words, in pixels.
const MARGIN: f64 = 28.0;
/// Colours of words and switches.
const INK: &str = "#1d2430";
const SOFT: &str = "#4a5361";
const LOWER: &str = "#2f4b6e";
const UPPER: &str = "#17202e";
/// Switches that show their names when pointed at.
const MOST_NAMES: usize = 400;
