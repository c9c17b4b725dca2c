//! What a finished tool hands over: its own bytes, and the same results as data.

use fabriscope_units::Bytes;

/// One measured value: a cell of a tool's table.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Message size.
    pub size: Bytes,
    /// Name of the quantity, as used in tables of measurements: `latency`, `bandwidth`, `message_rate`, …
    pub metric: &'static str,
    /// Unit as the tool prints it: `us`, `MB/s`, `MiB/s`, `Gb/s`, `Mpps`.
    pub unit: &'static str,
    /// The value in that unit.
    pub value: f64,
}

/// A value of a table that only programs read.
#[derive(Debug, Clone, PartialEq)]
pub enum Datum {
    /// A word.
    Word(String),
    /// A whole number.
    Count(u64),
    /// Another number.
    Number(f64),
}

/// A table that only programs read, as JSON and CSV: people see its numbers in the tool's text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DataTable {
    /// Its name.
    pub name: &'static str,
    /// The keys of its columns; a key ends with the unit of its values.
    pub columns: Vec<&'static str>,
    /// Rows of as many values.
    pub rows: Vec<Vec<Datum>>,
}

/// What the time of a call passed with, as the run counted it: a mean over ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spending {
    /// The call, as a profile names it.
    pub call: &'static str,
    /// With what.
    pub cause: &'static str,
    /// Of an iteration (us).
    pub us: f64,
}

/// A file that the tool writes besides its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideFile {
    /// The name the user gave, or the tool's default.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// All that a run of a tool produced.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// What the tool prints, byte for byte.
    pub text: String,
    /// The same results as data, in the order of the table.
    pub points: Vec<Point>,
    /// Results with more than a size and a metric to a row.
    pub tables: Vec<DataTable>,
    /// What the tool itself does not say and a reader should know, a line each: which algorithm a library took.
    pub remarks: Vec<String>,
    /// Files asked for on the command line (perftest's `--out_json`).
    pub files: Vec<SideFile>,
    /// What the time of calls passed with, where the tool counts it.
    pub spending: Vec<Spending>,
}
