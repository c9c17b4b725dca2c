//! For spreadsheets (RFC 4180): the tables of an outcome with the keys that programs read; where there are several, each
//! under its name.

use serde_json::Value;

use super::{RenderError, Renderer};
use crate::grid::Grid;
use crate::outcome::Outcome;

/// Comma-separated values.
#[derive(Debug, Clone, Copy)]
pub struct Csv;

impl Renderer for Csv {
    fn extension(&self) -> &'static str {
        "csv"
    }
    fn render(&self, outcome: &Outcome) -> Result<String, RenderError> {
        let tables: Vec<&Grid> = outcome.tables().filter(|grid| grid.keys().next().is_some()).collect();
        match &tables[..] {
            [] => Err(RenderError::NoTable),
            [only] => Ok(lines(only)),
            several => Ok(several.iter().map(|grid| format!("# {}\n{}", grid.name(), lines(grid))).collect::<Vec<_>>().join("\n")),
        }
    }
}

/// Columns with lists in them have no place in a spreadsheet.
pub(super) fn lines(grid: &Grid) -> String {
    let plain = |column: usize| !grid.rows().iter().any(|row| grid.values(row).nth(column).is_some_and(|v| v.is_array() || v.is_object()));
    let kept: Vec<usize> = (0..grid.keys().count()).filter(|column| plain(*column)).collect();
    let row = |cells: Vec<String>| kept.iter().map(|column| cells[*column].as_str()).collect::<Vec<_>>().join(",") + "\n";
    let rows = grid.rows().iter().map(|cells| row(grid.values(cells).map(field).collect()));
    std::iter::once(row(grid.keys().map(quoted).collect())).chain(rows).collect()
}

fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => quoted(text),
        other => quoted(&other.to_string()),
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
