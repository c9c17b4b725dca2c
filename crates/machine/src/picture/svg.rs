//! A scene as the text of an SVG file.
//!
//! Source: W3C, "Scalable Vector Graphics (SVG) 1.1 (Second Edition)", 2011.

use std::fmt::Write;

use super::Picture;
use super::layout::{LINE, PAD};
use super::scene::{Anchor, Look, Plate, Scene, Wire, WirePath};
use crate::graph::Machine;
use crate::leg::kind_name;
use crate::link::LinkId;
use crate::vertex::VertexId;

/// The text of the file.
pub(super) fn text(scene: &Scene, machine: &Machine, picture: &Picture<'_>) -> String {
    let head = 44 + 18 * picture.caption.len() as i32 + 14;
    // Heads are some 11 and 7 pixels a letter.
    let letters = |text: &str, each: i32| each * text.chars().count() as i32;
    let lines = picture.caption.iter().map(|line| letters(line, 7)).max().unwrap_or(0);
    let wide = scene.width.max(letters(picture.title, 11)).max(lines);
    let (width, height) = (wide + 2 * MARGIN, head + scene.height + MARGIN);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-labelledby=\"title desc\" font-family=\"Helvetica Neue, Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif\">"
    );
    let _ = writeln!(text, "<title id=\"title\">{}</title>", escaped(picture.title));
    let _ = writeln!(text, "<desc id=\"desc\">{}</desc>", escaped(&picture.caption.join(". ")));
    let _ = writeln!(text, "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>");
    let title = escaped(picture.title);
    let _ = writeln!(text, "<text x=\"{MARGIN}\" y=\"36\" font-size=\"20\" font-weight=\"600\" fill=\"{INK}\">{title}</text>");
    for (index, line) in picture.caption.iter().enumerate() {
        let y = 58 + 18 * index as i32;
        let _ = writeln!(text, "<text x=\"{MARGIN}\" y=\"{y}\" font-size=\"13\" fill=\"{SOFT}\">{}</text>", escaped(line));
    }
    let _ = writeln!(text, "<g transform=\"translate({MARGIN} {head})\">");
    let on_path = picture.path.map(|path| path.vertices(machine)).unwrap_or_default();
    let links: Vec<LinkId> = picture.path.iter().flat_map(|path| &path.steps).map(|step| step.link).collect();
    // Frames, then wires, then what wires lead to.
    let (frames, boxes): (Vec<&Plate>, Vec<&Plate>) = scene.plates.iter().partition(|plate| plate.vertex.is_none());
    frames.into_iter().for_each(|plate| rectangle(&mut text, plate, &[]));
    let (chosen, plain): (Vec<&Wire>, Vec<&Wire>) = scene.wires.iter().partition(|wire| links.contains(&wire.link));
    plain.into_iter().for_each(|wire| line(&mut text, wire, machine, false));
    chosen.into_iter().for_each(|wire| line(&mut text, wire, machine, true));
    boxes.into_iter().for_each(|plate| rectangle(&mut text, plate, &on_path));
    words_at_wires(&mut text, scene);
    text + "</g>\n</svg>\n"
}

fn rectangle(text: &mut String, plate: &Plate, on_path: &[VertexId]) {
    let (fill, stroke) = colours(plate.look);
    let chosen = plate.vertex.is_some_and(|vertex| on_path.contains(&vertex));
    let (stroke, width) = if chosen { (CHOSEN, 3) } else { (stroke, 1) };
    let rect = plate.rect;
    let _ = write!(
        text,
        "<g><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" fill=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"{width}\"/>",
        rect.x, rect.y, rect.width, rect.height
    );
    if !plate.hint.is_empty() {
        let _ = write!(text, "<title>{}</title>", escaped(&plate.hint));
    }
    if plate.look == Look::Middle {
        // Along the bar.
        let (x, y) = (rect.x + rect.width / 2 + 4, rect.middle());
        for word in &plate.words {
            let word = escaped(word);
            let _ = write!(
                text,
                "<text x=\"{x}\" y=\"{y}\" font-size=\"12\" text-anchor=\"middle\" fill=\"{INK}\" transform=\"rotate(-90 {x} {y})\">{word}</text>"
            );
        }
    } else {
        for (index, word) in plate.words.iter().enumerate() {
            let y = rect.y + LINE * (index as i32 + 1);
            let (size, weight) = if index == 0 { (12, "600") } else { (11, "400") };
            let x = rect.x + PAD;
            let word = escaped(word);
            let _ = write!(text, "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" font-weight=\"{weight}\" fill=\"{INK}\">{word}</text>");
        }
    }
    text.push_str("</g>\n");
}

fn line(text: &mut String, wire: &Wire, machine: &Machine, chosen: bool) {
    let link = machine.link(wire.link);
    let own = link.kind.is_scale_up();
    let (colour, width) = match (chosen, own) {
        (true, _) => (CHOSEN, "4"),
        (false, true) => ("#4d8a3c", "2"),
        (false, false) => ("#6b7280", "1.4"),
    };
    let path = match &wire.way {
        WirePath::Corners(points) => {
            let all: Vec<String> = points.iter().map(|(x, y)| format!("{x} {y}")).collect();
            format!("M{}", all.join("L"))
        }
        WirePath::Curve([a, b, c, d]) => format!("M{} {}C{} {} {} {} {} {}", a.0, a.1, b.0, b.1, c.0, c.1, d.0, d.1),
    };
    let names = [link.a, link.b].map(|end| machine.vertex(end).name.as_str());
    let title = if link.title.is_empty() { kind_name(link.kind) } else { &link.title };
    let rate = link.rate[0].as_bytes_per_s_f64() / 1e9;
    let hint = escaped(&format!("{} to {}: {title}, {rate:.1} GB/s, {} ns", names[0], names[1], link.latency.as_ps() / 1000));
    let _ = writeln!(text, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"><title>{hint}</title></path>");
}

fn words_at_wires(text: &mut String, scene: &Scene) {
    // A white edge keeps words legible on lines.
    let _ = writeln!(
        text,
        "<g font-size=\"9\" fill=\"{SOFT}\" paint-order=\"stroke\" stroke=\"#ffffff\" stroke-width=\"2\" stroke-linejoin=\"round\">"
    );
    for wire in &scene.wires {
        let anchor = match wire.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        for (label, y) in wire.labels.iter().zip([wire.at.1 - 3, wire.at.1 + 10]).filter(|(label, _)| !label.is_empty()) {
            let _ = writeln!(text, "<text x=\"{}\" y=\"{y}\" text-anchor=\"{anchor}\">{}</text>", wire.at.0, escaped(label));
        }
    }
    text.push_str("</g>\n");
}

/// Fill and edge.
const fn colours(look: Look) -> (&'static str, &'static str) {
    match look {
        Look::Package => ("#f6f6f3", "#8b8f98"),
        Look::Domain => ("#ffffff", "#b7bcc6"),
        Look::Cores => ("#e3e6ec", "#8b8f98"),
        Look::Memory => ("#f3dfde", "#a9787a"),
        Look::Bridge => ("#ffffff", "#4a5361"),
        Look::Gpu => ("#ddf0d3", "#4d8a3c"),
        Look::Nic => ("#d5e8f7", "#39729f"),
        Look::Device => ("#f7eed3", "#a48a3a"),
        Look::Middle => ("#c9e4bb", "#4d8a3c"),
    }
}

fn escaped(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// From the edge of the sheet, in pixels.
const MARGIN: i32 = 28;
/// Colours of words, and of the path of a transfer.
const INK: &str = "#1d2430";
const SOFT: &str = "#4a5361";
const CHOSEN: &str = "#d9480f";
