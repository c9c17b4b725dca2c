//! An outcome as a page of its own: pictures, tables, notes and what a tool printed. It loads nothing from anywhere.

mod page;
mod style;

use super::{RenderError, Renderer};
use crate::outcome::{Block, Outcome};

pub use page::{Page, Part, fragment, style};

/// A page that opens without a network.
#[derive(Debug, Clone, Copy)]
pub struct Html;

impl Renderer for Html {
    fn extension(&self) -> &'static str {
        "html"
    }
    fn render(&self, outcome: &Outcome) -> Result<String, RenderError> {
        Ok(page(outcome).to_string())
    }
}

/// The page of an outcome.
#[must_use]
pub fn page(outcome: &Outcome) -> Page {
    let first_note = || outcome.blocks().iter().find_map(|block| if let Block::Note(note) = block { Some(note.clone()) } else { None });
    let title = outcome.figures().first().map(|figure| figure.title.clone()).or_else(first_note);
    let mut page = Page::new(title.unwrap_or_else(|| "Fabriscope".to_owned()));
    if !outcome.figures().is_empty() {
        page.head(2, "Pictures");
        page.figures(outcome.figures());
    }
    page.head(2, "Results");
    body(&mut page, outcome.blocks());
    page
}

/// What people read of an outcome, in its order: neighbouring notes are a list, lines of a tool stay as they are.
pub fn body(page: &mut Page, blocks: &[Block]) {
    let mut notes: Vec<String> = Vec::new();
    let mut table = 0;
    for block in blocks {
        if let Block::Note(note) = block {
            notes.push(note.clone());
            continue;
        }
        page.notes(std::mem::take(&mut notes));
        match block {
            Block::Table(grid) => {
                table += 1;
                let caption = if grid.name().is_empty() { format!("Table {table}") } else { grid.name().replace(['_', '-'], " ") };
                page.push(Part::Table { caption, grid: grid.clone() });
            }
            // Blank lines part blocks for a terminal.
            Block::Text(text) if !text.trim().is_empty() => {
                page.push(Part::Verbatim(text.trim_matches('\n').to_owned()));
            }
            Block::Text(_) | Block::Data(_) | Block::Note(_) => {}
        }
    }
    page.notes(notes);
}
