//! A sheet that is drawn on: elements of SVG with rounded numbers, from top to bottom.
//!
//! Source: W3C, "Scalable Vector Graphics (SVG) 1.1 (Second Edition)", 2011.

use std::fmt::Write;

/// A sheet.
#[derive(Debug, Default)]
pub struct Canvas {
    pub text: String,
    /// How far down it is drawn on.
    pub y: f64,
}

/// How words stand to their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// How words look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Type {
    pub size: f64,
    pub bold: bool,
    pub class: &'static str,
}

impl Type {
    pub const TITLE: Type = Type { size: 18.0, bold: true, class: "ink" };
    pub const CAPTION: Type = Type { size: 13.0, bold: false, class: "soft" };
    pub const HEAD: Type = Type { size: 13.5, bold: true, class: "ink" };
    pub const LABEL: Type = Type { size: 12.5, bold: false, class: "ink" };
    pub const TICK: Type = Type { size: 12.0, bold: false, class: "soft" };
}

impl Canvas {
    pub fn words(&mut self, (x, y): (f64, f64), anchor: Anchor, look: Type, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = if look.bold { " font-weight=\"700\"" } else { "" };
        let (x, y, size, class) = (number(x), number(y), number(look.size), look.class);
        let _ = writeln!(
            self.text,
            "<text class=\"fs-{class}\" x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{weight}{anchor}>{}</text>",
            escaped(text)
        );
    }
    /// A straight line of a class, with more attributes.
    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64), more: &str) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(number);
        let _ = writeln!(self.text, "<line class=\"fs-{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"{more}/>");
    }
    pub fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), more: &str) {
        let [x, y, width, height] = [x, y, width, height].map(number);
        let _ = writeln!(self.text, "<rect class=\"fs-{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"{more}/>");
    }
    /// A path of a class, with more attributes.
    pub fn path(&mut self, class: &str, path: &str, more: &str) {
        let _ = writeln!(self.text, "<path class=\"fs-{class}\" d=\"{path}\"{more}/>");
    }
}

/// One decimal, none where it is zero.
pub fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Text as it stands between tags and in attributes; what XML cannot hold is left out.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars().filter(|letter| !letter.is_control() && *letter != '\u{fffe}' && *letter != '\u{ffff}') {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            letter => safe.push(letter),
        }
    }
    safe
}
