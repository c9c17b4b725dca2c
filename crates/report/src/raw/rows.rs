//! What is read, collected: rows under the table of their run, and what could not be read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::launch::Launch;
use super::line::Line;
use crate::measured::{BadRow, Row, located};

/// Rows and faults of a file.
pub(super) struct Rows<'a> {
    file: &'a str,
    text: &'a Arc<String>,
    rows: Vec<Row>,
    faults: Vec<BadRow>,
    /// How many tables have a name so far.
    tables: BTreeMap<String, u32>,
    /// Whether an output was recognised, even if it has no row.
    seen: bool,
    /// The last command that started a benchmark, until its output takes it.
    pub launch: Option<Launch>,
    /// Whether the list of devices of a run of nccl-tests is still to come.
    pub expects_devices: bool,
    /// Whether the last lines are of the box that ucx_perftest draws.
    pub in_box: bool,
    /// The GPU that a program picked, until its output takes it.
    pub device: Option<u32>,
}

/// What all rows of a run have in common.
#[derive(Debug, Clone, Default)]
pub(super) struct Sheet {
    /// The tool.
    pub benchmark: String,
    /// Phrases of the variant.
    pub said: Vec<String>,
    /// Nodes, where the output or its command say them.
    pub nodes: Option<u32>,
    /// Ranks, likewise.
    pub ranks: Option<u32>,
    /// The release, as the output says it.
    pub release: String,
    /// What else the output says of itself.
    pub notes: String,
    pub(super) table: Option<String>,
    /// Most digits behind the point so far, by metric.
    pub(super) digits: BTreeMap<String, usize>,
}

/// Where something stands in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub line: usize,
    pub offset: usize,
    pub ended: bool,
}

/// A value of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'t> {
    pub bytes: Option<u64>,
    pub metric: &'t str,
    pub unit: &'t str,
    pub text: &'t str,
}

impl From<&Line<'_>> for Position {
    fn from(line: &Line<'_>) -> Position {
        Position { line: line.number, offset: line.offset, ended: line.ended }
    }
}

impl Sheet {
    pub fn of(benchmark: impl Into<String>) -> Sheet {
        Sheet { benchmark: benchmark.into(), ..Sheet::default() }
    }
    /// Whether a row or a fault of it was told.
    pub fn is_begun(&self) -> bool {
        self.table.is_some()
    }
}

impl<'a> Rows<'a> {
    pub fn new(file: &'a str, text: &'a Arc<String>) -> Rows<'a> {
        Rows {
            file,
            text,
            rows: Vec::new(),
            faults: Vec::new(),
            tables: BTreeMap::new(),
            seen: false,
            launch: None,
            expects_devices: false,
            in_box: false,
            device: None,
        }
    }

    /// The name of the file without its extension.
    pub fn stem(&self) -> &str {
        let name = Path::new(self.file).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if name.is_empty() { "log" } else { name }
    }

    /// The command of this benchmark, where it stands in front of the output.
    pub fn launched(&mut self, is: impl Fn(&str) -> bool) -> Option<Launch> {
        self.launch.take_if(|launch| is(&launch.tool))
    }

    /// Adds a value; one that is no number becomes a fault.
    pub fn push(&mut self, sheet: &mut Sheet, at: Position, value: Value<'_>) {
        self.push_as(sheet, at, value, &[]);
    }

    /// Adds a value of which more is said than of the others of its run.
    pub fn push_as(&mut self, sheet: &mut Sheet, at: Position, value: Value<'_>, said: &[&str]) {
        let Value { bytes, metric, unit, text } = value;
        let number = number(text).filter(|number| number.is_finite());
        let Some(number) = number else {
            let problem = format!("`{text}` is not a number, where the {metric} stands");
            return self.fault(sheet, at, problem, "run the benchmark again, or remove the line".to_owned());
        };
        let digits = text.rsplit_once(['.', ',']).map_or(0, |(_, digits)| digits.len());
        let most = sheet.digits.get_mut(metric);
        if !at.ended && most.as_ref().is_some_and(|most| digits < **most) {
            let problem = format!("the file ends in the middle of this row: `{text}` has fewer digits than the {metric} of the rows above");
            return self.fault(sheet, at, problem, "copy the whole output".to_owned());
        }
        match most {
            Some(most) => *most = digits.max(*most),
            None => drop(sheet.digits.insert(metric.to_owned(), digits)),
        }
        let table = self.table(sheet);
        let mut variant = sheet.said.join(", ");
        for phrase in said {
            if !variant.is_empty() {
                variant += ", ";
            }
            variant += phrase;
        }
        self.rows.push(Row {
            table,
            cluster: String::new(),
            benchmark: sheet.benchmark.clone(),
            variant,
            nodes: sheet.nodes,
            ranks: sheet.ranks,
            message_bytes: bytes,
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            value: number,
            source: sheet.release.clone(),
            notes: sheet.notes.clone(),
            offset: at.offset,
            line: at.line,
        });
    }

    /// Tells what cannot be read.
    pub fn fault(&mut self, sheet: &mut Sheet, at: Position, problem: String, remedy: String) {
        let table = Some(self.table(sheet));
        let length = self.text[at.offset..].find('\n').unwrap_or(self.text.len() - at.offset);
        let error = located(self.file, self.text, at.line, (at.offset, length), problem, remedy);
        self.faults.push(BadRow { table, line: at.line, error });
    }

    /// An output without a row is told as well.
    pub fn none_of(&mut self, sheet: &mut Sheet, at: Position) {
        if !sheet.is_begun() {
            let problem = format!("the output of {} ends before its first row", sheet.benchmark);
            self.fault(sheet, at, problem, "copy the whole output".to_owned());
        }
    }

    /// The name of the run's table: that of the file and of the benchmark, counted where there are several.
    fn table(&mut self, sheet: &mut Sheet) -> String {
        if let Some(table) = &sheet.table {
            return table.clone();
        }
        let stem = self.stem();
        let name = if stem.contains(&sheet.benchmark) { stem.to_owned() } else { format!("{stem}-{}", sheet.benchmark.replace(' ', "-")) };
        let count = self.tables.entry(name.clone()).or_default();
        *count += 1;
        let name = if *count > 1 { format!("{name}-{count}") } else { name };
        self.seen = true;
        sheet.table = Some(name.clone());
        name
    }

    /// All of it, in the order of the file; nothing where no output was recognised.
    pub fn done(mut self) -> Option<(Vec<Row>, Vec<BadRow>)> {
        // Outputs of several ranks end in the order of the ranks.
        self.faults.sort_by_key(|fault| fault.line);
        self.seen.then_some((self.rows, self.faults))
    }
}

/// A number as tools write it; a comma stands for the point where nothing else does.
pub(crate) fn number(text: &str) -> Option<f64> {
    text.parse().ok().or_else(|| {
        let (whole, digits) = text.split_once(',')?;
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !whole.contains('.');
        plain.then(|| format!("{whole}.{digits}").parse().ok()).flatten()
    })
}
