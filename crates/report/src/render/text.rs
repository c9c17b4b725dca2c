//! For people: notes as `#` lines, tables with aligned columns, a tool's own bytes as they are.

use super::{RenderError, Renderer};
use crate::outcome::{Block, Outcome};

/// Text for a terminal.
#[derive(Debug, Clone, Copy)]
pub struct Text;

impl Renderer for Text {
    fn extension(&self) -> &'static str {
        "txt"
    }
    fn render(&self, outcome: &Outcome) -> Result<String, RenderError> {
        let block = |block: &Block| match block {
            Block::Note(note) => format!("# {note}\n"),
            Block::Table(grid) => grid.text(),
            Block::Data(_) => String::new(),
            Block::Text(text) => text.clone(),
        };
        Ok(outcome.blocks().iter().map(block).collect())
    }
}
