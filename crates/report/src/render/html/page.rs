//! A page of HTML as data: heads, paragraphs, lists, tables, figures; and its text.
//!
//! Source: WHATWG, "HTML Living Standard"; W3C, "Web Content Accessibility Guidelines 2.2".
//! Modelled: landmarks, heads in order, tables with captions and heads of columns and rows, pictures with titles and descriptions, regions
//! that scroll and take the keyboard; no script, nothing from a network, which a policy in the page forbids.
//! Not modelled: other languages than English.

use std::fmt;

use super::style::STYLE;
use crate::figure::Figure;
use crate::figure::draw::{self, escaped};
use crate::grid::Grid;

/// A page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    title: String,
    lead: Vec<String>,
    parts: Vec<Part>,
    contents: bool,
}

/// A piece of a page.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// A head of level 2 or 3.
    Head(u8, String),
    /// A paragraph.
    Words(String),
    /// A list of remarks.
    List(Vec<String>),
    /// Names and what they are.
    Facts(Vec<(String, String)>),
    /// A table under its caption.
    Table {
        /// What it shows.
        caption: String,
        /// Its cells.
        grid: Grid,
    },
    /// A picture with its title.
    Figure(Figure),
    /// Lines that stay as they are.
    Verbatim(String),
    /// Pieces that stand side by side where there is room, each under its head of level 3.
    Beside(Vec<(String, Vec<Part>)>),
}

impl Page {
    /// An empty page.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Page {
        Page { title: title.into(), ..Page::default() }
    }
    /// The same with a list of its heads of level 2.
    #[must_use]
    pub fn with_contents(mut self) -> Page {
        self.contents = true;
        self
    }
    /// Adds a line below the title.
    pub fn lead(&mut self, line: impl Into<String>) -> &mut Page {
        self.lead.push(line.into());
        self
    }
    /// Adds a piece.
    pub fn push(&mut self, part: Part) -> &mut Page {
        self.parts.push(part);
        self
    }
    /// Adds a head.
    pub fn head(&mut self, level: u8, words: impl Into<String>) -> &mut Page {
        self.push(Part::Head(level, words.into()))
    }
    /// Adds a paragraph.
    pub fn words(&mut self, words: impl Into<String>) -> &mut Page {
        self.push(Part::Words(words.into()))
    }
    /// Adds pictures.
    pub fn figures(&mut self, figures: &[Figure]) -> &mut Page {
        self.parts.extend(figures.iter().cloned().map(Part::Figure));
        self
    }
    /// Adds remarks, if there are any.
    pub fn notes(&mut self, notes: Vec<String>) -> &mut Page {
        if notes.is_empty() { self } else { self.push(Part::List(notes)) }
    }
    /// Its pieces.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn heads(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| if let Part::Head(2, words) = part { Some(words.as_str()) } else { None })
    }
}

impl fmt::Display for Page {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = escaped(&self.title);
        writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
        writeln!(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
        writeln!(out, "<meta name=\"generator\" content=\"Fabriscope {}\">", env!("CARGO_PKG_VERSION"))?;
        writeln!(
            out,
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        )?;
        writeln!(out, "<title>{title}</title>\n<style>\n{}\n</style>\n</head>\n<body>", style())?;
        writeln!(out, "<a class=\"skip\" href=\"#main\">Skip to content</a>\n<header>\n<h1>{title}</h1>")?;
        for line in &self.lead {
            writeln!(out, "<p>{}</p>", escaped(line))?;
        }
        writeln!(out, "</header>")?;
        if self.contents {
            writeln!(out, "<nav aria-label=\"Contents\">\n<ul>")?;
            for (number, head) in self.heads().enumerate() {
                writeln!(out, "<li><a href=\"#part-{}\">{}</a></li>", number + 1, escaped(head))?;
            }
            writeln!(out, "</ul>\n</nav>")?;
        }
        writeln!(out, "<main id=\"main\">")?;
        let mut numbers = Numbers::named("");
        let mut open = false;
        for part in &self.parts {
            if let Part::Head(2, words) = part {
                numbers.parts += 1;
                let close = if open { "</section>\n" } else { "" };
                let number = numbers.parts;
                writeln!(out, "{close}<section aria-labelledby=\"part-{number}\">\n<h2 id=\"part-{number}\">{}</h2>", escaped(words))?;
                open = true;
            } else {
                write(out, part, &mut numbers)?;
            }
        }
        if open {
            writeln!(out, "</section>")?;
        }
        writeln!(
            out,
            "</main>\n<footer>\n<p>Made by Fabriscope {}. Simulated figures unless a line says otherwise.</p>",
            env!("CARGO_PKG_VERSION")
        )?;
        writeln!(out, "</footer>\n</body>\n</html>")
    }
}

/// Pieces as elements for a page of another maker, which has the rules of [`style`]; `name` begins their ids, so that no two pieces of that page
/// have one. Heads of level 2 stand without sections.
#[must_use]
pub fn fragment(parts: &[Part], name: &str) -> String {
    Fragment { parts, name }.to_string()
}

/// The rules of pages and of the pictures in them.
#[must_use]
pub fn style() -> String {
    format!("{STYLE}{}", draw::style(draw::Ground::AsPreferred))
}

struct Fragment<'a> {
    parts: &'a [Part],
    name: &'a str,
}

impl fmt::Display for Fragment<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = Numbers::named(self.name);
        self.parts.iter().try_for_each(|part| write(out, part, &mut numbers))
    }
}

/// How many of each kind there were, and what their ids and names begin with.
struct Numbers<'a> {
    name: &'a str,
    parts: usize,
    figures: usize,
    regions: usize,
}

impl Numbers<'_> {
    fn named(name: &str) -> Numbers<'_> {
        Numbers { name, parts: 0, figures: 0, regions: 0 }
    }
    fn id(&self, kind: &str, number: usize) -> String {
        if self.name.is_empty() { format!("{kind}-{number}") } else { format!("{}-{kind}-{number}", self.name) }
    }
}

fn write(out: &mut fmt::Formatter<'_>, part: &Part, numbers: &mut Numbers<'_>) -> fmt::Result {
    match part {
        Part::Head(level, words) => writeln!(out, "<h{level}>{}</h{level}>", escaped(words)),
        Part::Words(words) => writeln!(out, "<p>{}</p>", escaped(words)),
        Part::List(lines) => {
            writeln!(out, "<ul>")?;
            for line in lines {
                writeln!(out, "<li>{}</li>", escaped(line))?;
            }
            writeln!(out, "</ul>")
        }
        Part::Facts(facts) => {
            writeln!(out, "<dl>")?;
            for (name, what) in facts {
                writeln!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(what))?;
            }
            writeln!(out, "</dl>")
        }
        Part::Table { caption, grid } => table(out, caption, grid, numbers),
        Part::Figure(figure) => {
            numbers.figures += 1;
            let id = numbers.id("figure", numbers.figures);
            write!(out, "<figure>\n<figcaption>{}</figcaption>\n{}</figure>\n", escaped(&figure.title), draw::element(figure, &id))
        }
        Part::Verbatim(text) => {
            numbers.regions += 1;
            // What scrolls can be reached by the keyboard.
            let of = if numbers.name.is_empty() { String::new() } else { format!(" of {}", numbers.name) };
            let label = format!("Output {}{of}", numbers.regions);
            writeln!(out, "<pre tabindex=\"0\" role=\"region\" aria-label=\"{label}\">{}</pre>", lines(text))
        }
        Part::Beside(pieces) => {
            writeln!(out, "<div class=\"beside\">")?;
            for (head, parts) in pieces {
                writeln!(out, "<div>\n<h3>{}</h3>", escaped(head))?;
                for part in parts {
                    write(out, part, numbers)?;
                }
                writeln!(out, "</div>")?;
            }
            writeln!(out, "</div>")
        }
    }
}

/// Text with its line ends.
fn lines(text: &str) -> String {
    text.lines().map(escaped).collect::<Vec<_>>().join("\n")
}

fn table(out: &mut fmt::Formatter<'_>, caption: &str, grid: &Grid, numbers: &mut Numbers<'_>) -> fmt::Result {
    numbers.regions += 1;
    let id = numbers.id("table", numbers.regions);
    writeln!(out, "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-labelledby=\"{id}\">\n<table>")?;
    writeln!(out, "<caption id=\"{id}\">{}</caption>\n<thead>\n<tr>", escaped(caption))?;
    let columns: Vec<(&str, bool)> = grid.heads().collect();
    let class = |number: bool| if number { " class=\"number\"" } else { "" };
    for (head, number) in &columns {
        // A head without words is none.
        if head.trim().is_empty() {
            writeln!(out, "<td></td>")?;
        } else {
            writeln!(out, "<th scope=\"col\"{}>{}</th>", class(*number), escaped(head))?;
        }
    }
    writeln!(out, "</tr>\n</thead>\n<tbody>")?;
    for row in grid.rows() {
        cells(out, &columns, grid.texts(row))?;
    }
    writeln!(out, "</tbody>")?;
    if let Some(row) = grid.footer() {
        writeln!(out, "<tfoot>")?;
        cells(out, &columns, grid.texts(row))?;
        writeln!(out, "</tfoot>")?;
    }
    writeln!(out, "</table>\n</div>")
}

fn cells<'a>(out: &mut fmt::Formatter<'_>, columns: &[(&str, bool)], texts: impl Iterator<Item = &'a str>) -> fmt::Result {
    write!(out, "<tr>")?;
    for (place, (text, (_, number))) in texts.zip(columns).enumerate() {
        let class = if *number { " class=\"number\"" } else { "" };
        match place {
            0 if !text.trim().is_empty() => write!(out, "<th scope=\"row\"{class}>{}</th>", escaped(text))?,
            _ => write!(out, "<td{class}>{}</td>", escaped(text))?,
        }
    }
    writeln!(out, "</tr>")
}
