//! What a command found: one object that is data, from which every format is made (`render`).
//!
//! People read the blocks in their order: notes, tables, a tool's own bytes. Programs read the entries: the settings and results
//! by name, and each table as a list of rows. A table is in both, with the same cells.

use serde_json::{Map, Value};

use crate::figure::Figure;
use crate::grid::Grid;

/// What a command found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    blocks: Vec<Block>,
    entries: Map<String, Value>,
    list: Option<Value>,
    records: Vec<Grid>,
    figures: Vec<Figure>,
    draft: Option<String>,
    verdict: Verdict,
}

/// Whether what was checked holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verdict {
    /// All is well, or nothing was checked.
    #[default]
    Good,
    /// A check failed.
    Bad,
}

/// A piece of an outcome, as people read it.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A remark of its own line: settings above, verdicts and next steps below.
    Note(String),
    /// Columns with names and units.
    Table(Grid),
    /// A table that only programs read: people see its numbers in the bytes of a tool.
    Data(Grid),
    /// Bytes that stand as they are: what a tool prints, a paragraph, an empty line.
    Text(String),
}

impl Outcome {
    /// An outcome with nothing in it.
    #[must_use]
    pub fn new() -> Outcome {
        Outcome::default()
    }

    /// Adds a remark; it is printed as a line that begins with `#`.
    pub fn note(&mut self, note: impl Into<String>) -> &mut Outcome {
        self.blocks.push(Block::Note(note.into()));
        self
    }

    /// Adds bytes that people read as they are.
    pub fn text(&mut self, text: impl Into<String>) -> &mut Outcome {
        self.blocks.push(Block::Text(text.into()));
        self
    }

    /// Adds a table that only people read.
    pub fn table(&mut self, grid: Grid) -> &mut Outcome {
        self.blocks.push(Block::Table(grid));
        self
    }

    /// Adds a table, which programs read under `key`.
    pub fn keyed_table(&mut self, key: &str, grid: Grid) -> &mut Outcome {
        self.entries.insert(key.to_owned(), grid.json());
        self.table(grid.named(key))
    }

    /// Adds a table that only programs read, under `key`.
    pub fn data_table(&mut self, key: &str, grid: Grid) -> &mut Outcome {
        self.entries.insert(key.to_owned(), grid.json());
        self.blocks.push(Block::Data(grid.named(key)));
        self
    }

    /// Adds a table that is all that programs read: a list of its rows.
    pub fn list(&mut self, grid: Grid) -> &mut Outcome {
        self.list = Some(grid.json());
        self.table(grid.named("rows"))
    }

    /// Adds a table, under its name, that only a file of its own gets: a row for each flow, or each sample.
    pub fn record(&mut self, grid: Grid) -> &mut Outcome {
        self.records.push(grid);
        self
    }

    /// The table of that name that a file of its own gets.
    #[must_use]
    pub fn recorded(&self, name: &str) -> Option<&Grid> {
        self.records.iter().find(|grid| grid.name() == name)
    }

    /// The tables that only files of their own get.
    pub fn records(&self) -> impl Iterator<Item = &Grid> {
        self.records.iter()
    }

    /// Programs read this value alone.
    pub fn whole(&mut self, value: Value) -> &mut Outcome {
        self.list = Some(value);
        self
    }

    /// Programs read `value` under `key`.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) -> &mut Outcome {
        self.entries.insert(key.to_owned(), value.into());
        self
    }

    /// Programs read each entry of `value`, which is an object.
    pub fn extend(&mut self, value: Value) -> &mut Outcome {
        if let Value::Object(entries) = value {
            self.entries.extend(entries);
        }
        self
    }

    /// Adds all of another outcome behind this one; what both have for programs is the other's.
    pub fn append(&mut self, other: Outcome) -> &mut Outcome {
        self.blocks.extend(other.blocks);
        self.entries.extend(other.entries);
        self.records.extend(other.records);
        self.figures.extend(other.figures);
        self
    }

    /// Adds a figure, if there is anything in it to see.
    pub fn draw(&mut self, figure: Figure) -> &mut Outcome {
        if !figure.is_empty() {
            self.figures.push(figure);
        }
        self
    }

    /// Adds a TOML file that a person goes on from.
    pub fn begin(&mut self, draft: impl Into<String>) -> &mut Outcome {
        self.draft = Some(draft.into());
        self
    }

    /// Says whether what was checked holds.
    pub fn judge(&mut self, verdict: Verdict) -> &mut Outcome {
        self.verdict = verdict;
        self
    }

    /// What people read, in order.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The tables, in order.
    pub fn tables(&self) -> impl Iterator<Item = &Grid> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Table(grid) | Block::Data(grid) => Some(grid),
            _ => None,
        })
    }

    /// The value under `key`, as programs read it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(key)
    }

    /// All that programs read.
    #[must_use]
    pub fn data(&self) -> Value {
        self.list.clone().unwrap_or_else(|| Value::Object(self.entries.clone()))
    }

    /// What can be drawn, in order.
    #[must_use]
    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }

    /// The TOML file to go on from, if there is one.
    #[must_use]
    pub fn draft(&self) -> Option<&str> {
        self.draft.as_deref()
    }

    /// Whether what was checked holds.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }
}
