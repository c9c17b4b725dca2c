//! Measured tables: a tolerant reader for published results in CSV, or for what the tools themselves printed (`raw`).
//!
//! Columns by name, in any order: `table`, `cluster`, `benchmark`, `message_bytes`, `metric`, `unit`, `value`
//! must be there; `variant`, `nodes`, `ranks`, `source`, `notes` may be; others are ignored.
//! Blank lines and lines that start with `#` are skipped; fields may be quoted as in RFC 4180. Semicolons and tabs may stand for commas, and with
//! them a comma for the decimal point, as spreadsheets of many languages write it.
//!
//! Whether the model can give a row is not decided here, see [`crate::question`].

use std::sync::Arc;

use miette::{NamedSource, SourceSpan};

use crate::raw;

/// The rows of one file, with their places in it.
#[derive(Debug, Clone)]
pub struct Measured {
    name: String,
    text: Arc<String>,
    columns: Columns,
    rows: Vec<Row>,
    faults: Vec<BadRow>,
}

/// A row that could not be read, among others that could.
#[derive(Debug, Clone)]
pub struct BadRow {
    /// The table that it belongs to, where that could be read.
    pub table: Option<String>,
    /// Its line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub error: MeasuredError,
}

/// One measured value.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The table that the value belongs to.
    pub table: String,
    /// The cluster that it was measured on.
    pub cluster: String,
    /// The program that measured it.
    pub benchmark: String,
    /// Options, library or placement, in words.
    pub variant: String,
    /// Nodes of the job, where stated.
    pub nodes: Option<u32>,
    /// Ranks of the job, where stated.
    pub ranks: Option<u32>,
    /// Size of one message in bytes, where the value belongs to one.
    pub message_bytes: Option<u64>,
    /// What was measured.
    pub metric: String,
    /// The unit of `value`.
    pub unit: String,
    /// The measured value in `unit`.
    pub value: f64,
    /// Where the value was published.
    pub source: String,
    /// Remarks of whoever copied it.
    pub notes: String,
    pub(crate) offset: usize,
    pub(crate) line: usize,
}

/// A column whose fields are located in error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the names of the columns")]
pub enum Column {
    Table,
    Cluster,
    Benchmark,
    Variant,
    Nodes,
    Ranks,
    MessageBytes,
    Metric,
    Unit,
    Value,
    Source,
    Notes,
}

/// Why a file of measurements was refused.
#[derive(Debug, Clone, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum MeasuredError {
    /// Nothing but blank lines.
    #[error("{file}:1:1: the file is empty")]
    #[diagnostic(code(measured::empty), help("the first line names the columns: {REQUIRED}"))]
    Empty {
        /// The file.
        file: String,
    },
    /// Columns are named, and nothing follows.
    #[error("{file}:1:1: the file has a head and no rows")]
    #[diagnostic(code(measured::no_rows), help("add one line for each measured value below the head"))]
    NoRows {
        /// The file.
        file: String,
    },
    /// The bytes are not text.
    #[error("{file}:{line}:{column}: the file is not UTF-8 text")]
    #[diagnostic(code(measured::not_text), help("convert it, for example: iconv -f LATIN1 -t UTF-8 {file} > converted.csv"))]
    NotText {
        /// The file.
        file: String,
        /// Line of the first wrong byte, from 1.
        line: usize,
        /// Column of the first wrong byte, from 1.
        column: usize,
    },
    /// A line cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Place(#[from] Box<Position>),
}

/// A problem at one place of a file.
#[derive(Debug, Clone, thiserror::Error, miette::Diagnostic)]
#[error("{file}:{line}:{column}: {problem}")]
#[diagnostic(code(measured::row))]
pub struct Position {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1.
    pub column: usize,
    /// What is wrong, with the values.
    pub problem: String,
    /// What to do.
    #[help]
    pub remedy: String,
    #[source_code]
    text: NamedSource<Arc<String>>,
    #[label("here")]
    span: SourceSpan,
}

impl MeasuredError {
    /// What is wrong and what to do, in one line.
    #[must_use]
    pub fn in_full(&self) -> String {
        match self {
            MeasuredError::Place(position) => format!("{position}; {}", position.remedy),
            other => other.to_string(),
        }
    }
}

impl Measured {
    /// The name of the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The rows in the order of the file.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }
    /// The rows that could not be read, in the order of the file; none of a file that was read by [`read`].
    #[must_use]
    pub fn faults(&self) -> &[BadRow] {
        &self.faults
    }
    /// The same with some of its rows.
    #[must_use]
    pub fn keeping(&self, keep: impl Fn(&Row) -> bool) -> Measured {
        let rows = self.rows.iter().filter(|row| keep(row)).cloned().collect();
        Measured { rows, ..self.clone() }
    }
    /// The line of `row`, from 1.
    #[must_use]
    pub fn line(&self, row: &Row) -> usize {
        row.line
    }
    /// An error that points at the field of `row` in `column`.
    #[must_use]
    pub fn problem(&self, row: &Row, column: Column, problem: String, remedy: String) -> MeasuredError {
        let span = match self.columns.place(column) {
            Some(index) => field_span(&self.text, row.offset, index, self.columns.separator),
            None => (row.offset, 0),
        };
        located(&self.name, &self.text, row.line, span, problem, remedy)
    }
    /// The tables without a cluster: outputs of tools do not say where they ran.
    pub fn without_cluster(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().filter(|row| row.cluster.is_empty()).map(|row| row.table.as_str())
    }
}

/// Reads a file's bytes; `name` is the name that messages give it.
///
/// # Errors
/// No text, no rows, a missing column, a field that is no number: each with line, column and remedy.
pub fn read(name: &str, bytes: &[u8]) -> Result<Measured, MeasuredError> {
    let measured = read_all(name, bytes)?;
    match measured.faults.first() {
        Some(bad) => Err(bad.error.clone()),
        None => Ok(measured),
    }
}

/// Reads a file's bytes as [`read`] does, but goes on behind a row that cannot be read: [`Measured::faults`] has those.
///
/// # Errors
/// No text, neither CSV nor the output of a tool, no rows at all, a missing column.
pub fn read_all(name: &str, bytes: &[u8]) -> Result<Measured, MeasuredError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let (line, column) = line_and_column(&before, before.len());
        MeasuredError::NotText { file: name.to_owned(), line, column }
    })?;
    let text = Arc::new(text.to_owned());
    let separator = separator(&text);
    if !is_table(&text, separator)
        && let Some((rows, faults)) = raw::read(name, &text)
    {
        return Ok(Measured { name: name.to_owned(), text, columns: Columns::none(), rows, faults });
    }
    read_csv(name, text, separator)
}

fn read_csv(name: &str, text: Arc<String>, separator: u8) -> Result<Measured, MeasuredError> {
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).comment(Some(b'#')).delimiter(separator).from_reader(text.as_bytes());
    let mut record = csv::StringRecord::new();
    let mut columns: Option<Columns> = None;
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    let (mut line, mut counted) = (1, 0);
    loop {
        let more = reader.read_record(&mut record).map_err(|error| {
            let at = error.position().map_or(0, |p| usize::try_from(p.byte()).unwrap_or(0)).min(text.len());
            place(
                name,
                &text,
                (at, 0),
                format!("this is not CSV: {error}"),
                "separate the fields with commas and quote those that hold one".to_owned(),
            )
        })?;
        if !more {
            break;
        }
        if record.iter().all(|field| field.trim().is_empty()) {
            continue;
        }
        let offset = skip_to_record(&text, record.position().map_or(0, |p| usize::try_from(p.byte()).unwrap_or(0)));
        match &columns {
            None => columns = Some(Columns::of(name, &text, (offset, separator), &record)?),
            Some(columns) => {
                line += text.as_bytes()[counted..offset].iter().filter(|byte| **byte == b'\n').count();
                counted = offset;
                let reader = RowReader { name, text: &text, columns, record: &record, offset, line };
                match reader.row() {
                    Ok(row) => rows.push(row),
                    Err(error) => {
                        let table = Some(reader.field(Column::Table).to_owned()).filter(|table| !table.is_empty());
                        faults.push(BadRow { table, line, error });
                    }
                }
            }
        }
    }
    let columns = columns.ok_or_else(|| MeasuredError::Empty { file: name.to_owned() })?;
    if rows.is_empty() && faults.is_empty() {
        return Err(MeasuredError::NoRows { file: name.to_owned() });
    }
    drop(reader);
    Ok(Measured { name: name.to_owned(), text, columns, rows, faults })
}

/// The line that names the columns of CSV: the first that is neither blank nor a remark.
fn head(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or_default()
}

/// What separates the fields of a head: a comma, unless it has more semicolons or tabs.
fn separator(text: &str) -> u8 {
    let count = |separator: u8| head(text).bytes().filter(|byte| *byte == separator).count();
    // Of equals the last wins.
    [b'\t', b';', b','].into_iter().max_by_key(|separator| count(*separator)).unwrap_or(b',')
}

/// Whether the head is one of tables of measurements, as far as one may forget a column.
fn is_table(text: &str, separator: u8) -> bool {
    let fields = head(text).split(char::from(separator)).map(|field| field.trim().trim_matches('"'));
    let known = fields.filter(|field| NAMES.iter().any(|(_, name)| name.eq_ignore_ascii_case(field)));
    known.count() > 2
}

/// Where each known column stands.
#[derive(Debug, Clone)]
struct Columns {
    places: [Option<usize>; NAMES.len()],
    count: usize,
    separator: u8,
}

impl Columns {
    /// Those of a file without columns of this kind.
    fn none() -> Columns {
        Columns { places: [None; NAMES.len()], count: 0, separator: b',' }
    }

    fn of(name: &str, text: &Arc<String>, (offset, separator): (usize, u8), record: &csv::StringRecord) -> Result<Columns, MeasuredError> {
        let mut places = [None; NAMES.len()];
        for (index, head) in record.iter().enumerate() {
            let Some(known) = NAMES.iter().position(|(_, n)| n.eq_ignore_ascii_case(head.trim())) else { continue };
            if places[known].is_some() {
                let problem = format!("the column `{}` is named twice", head.trim());
                return Err(place(
                    name,
                    text,
                    field_span(text, offset, index, separator),
                    problem,
                    "rename or remove one of them".to_owned(),
                ));
            }
            places[known] = Some(index);
        }
        for (index, (column, head)) in NAMES.iter().enumerate() {
            if places[index].is_none() && !OPTIONAL.contains(column) {
                let found = record.iter().map(|h| format!("`{}`", h.trim())).collect::<Vec<_>>().join(", ");
                let line = text[offset..].find('\n').unwrap_or(text.len() - offset);
                let problem = format!("the column `{head}` is missing");
                let remedy =
                    format!("found {found}; the first line names {REQUIRED}; or give the output of {}, as it was printed", raw::TOOLS);
                return Err(place(name, text, (offset, line), problem, remedy));
            }
        }
        Ok(Columns { places, count: record.len(), separator })
    }

    fn place(&self, column: Column) -> Option<usize> {
        self.places[column as usize]
    }
}

/// One record on its way to a row.
struct RowReader<'a> {
    name: &'a str,
    text: &'a Arc<String>,
    columns: &'a Columns,
    record: &'a csv::StringRecord,
    offset: usize,
    line: usize,
}

impl RowReader<'_> {
    fn row(&self) -> Result<Row, MeasuredError> {
        if self.record.len() != self.columns.count {
            let problem = format!("this line has {} fields, the head has {}", self.record.len(), self.columns.count);
            let length = self.text[self.offset..].find('\n').unwrap_or(self.text.len() - self.offset);
            let remedy = "add what is missing, or quote a field that holds a comma".to_owned();
            return Err(located(self.name, self.text, self.line, (self.offset, length), problem, remedy));
        }
        Ok(Row {
            table: self.named(Column::Table)?,
            cluster: self.field(Column::Cluster).to_owned(),
            benchmark: self.named(Column::Benchmark)?,
            variant: self.field(Column::Variant).to_owned(),
            nodes: self.count(Column::Nodes)?,
            ranks: self.count(Column::Ranks)?,
            message_bytes: self.bytes()?,
            metric: self.field(Column::Metric).to_owned(),
            unit: self.field(Column::Unit).to_owned(),
            value: self.value()?,
            source: self.field(Column::Source).to_owned(),
            notes: self.field(Column::Notes).to_owned(),
            offset: self.offset,
            line: self.line,
        })
    }

    fn field(&self, column: Column) -> &str {
        self.columns.place(column).and_then(|index| self.record.get(index)).unwrap_or("").trim()
    }

    fn named(&self, column: Column) -> Result<String, MeasuredError> {
        let field = self.field(column);
        if field.is_empty() {
            let (_, head) = NAMES[column as usize];
            return Err(self.wrong(column, format!("`{head}` is empty"), format!("give the row its {head}")));
        }
        Ok(field.to_owned())
    }

    fn count(&self, column: Column) -> Result<Option<u32>, MeasuredError> {
        let field = self.field(column);
        if field.is_empty() {
            return Ok(None);
        }
        let (_, head) = NAMES[column as usize];
        match field.parse::<u32>() {
            Ok(count) if count > 0 => Ok(Some(count)),
            _ => Err(self.wrong(
                column,
                format!("`{field}` is not a number of {head}"),
                "write a whole number from 1, or leave it empty".to_owned(),
            )),
        }
    }

    fn bytes(&self) -> Result<Option<u64>, MeasuredError> {
        let field = self.field(Column::MessageBytes);
        if field.is_empty() {
            return Ok(None);
        }
        let remedy = || "write whole bytes without a unit, for example 4096".to_owned();
        field.parse::<u64>().map(Some).map_err(|_| self.wrong(Column::MessageBytes, format!("`{field}` is not a size in bytes"), remedy()))
    }

    fn value(&self) -> Result<f64, MeasuredError> {
        let field = self.field(Column::Value);
        let decimal = if self.columns.separator == b',' { None } else { raw::number(field) };
        match decimal.map_or_else(|| field.parse::<f64>().ok(), Some) {
            Some(value) if value.is_finite() => Ok(value),
            _ => {
                let remedy = "write it like 1234.56: a point for decimals, nothing between thousands, no unit".to_owned();
                Err(self.wrong(Column::Value, format!("`{field}` is not a number"), remedy))
            }
        }
    }

    fn wrong(&self, column: Column, problem: String, remedy: String) -> MeasuredError {
        let index = self.columns.place(column).unwrap_or(0);
        let span = field_span(self.text, self.offset, index, self.columns.separator);
        // A quoted field in front of it may hold a line feed.
        let fields = &self.text.as_bytes()[self.offset..span.0];
        let line = self.line + fields.iter().filter(|byte| **byte == b'\n').count();
        located(self.name, self.text, line, span, problem, remedy)
    }
}

fn place(file: &str, text: &Arc<String>, span: (usize, usize), problem: String, remedy: String) -> MeasuredError {
    let (line, _) = line_and_column(text, span.0);
    located(file, text, line, span, problem, remedy)
}

/// A problem at a place whose line is known: to count lines for each of a million rows would take hours.
pub(crate) fn located(
    file: &str,
    text: &Arc<String>,
    line: usize,
    (at, length): (usize, usize),
    problem: String,
    remedy: String,
) -> MeasuredError {
    let column = text.as_bytes()[..at.min(text.len())].iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    let text = NamedSource::new(file, Arc::clone(text));
    MeasuredError::Place(Box::new(Position { file: file.to_owned(), line, column, problem, remedy, text, span: (at, length).into() }))
}

fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line = before.iter().filter(|b| **b == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
    (line, column)
}

/// The reader's position of a record lies before the blank and comment lines that it skipped.
fn skip_to_record(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = from.min(bytes.len());
    while at < bytes.len() {
        match bytes[at] {
            b'\r' | b'\n' => at += 1,
            b'#' => at = bytes[at..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |n| at + n),
            _ => break,
        }
    }
    at
}

/// Start and length of the `index`-th field of the record at `offset`.
fn field_span(text: &str, offset: usize, index: usize, separator: u8) -> (usize, usize) {
    let bytes = text.as_bytes();
    let (mut start, mut at, mut field, mut quoted) = (offset, offset, 0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => quoted = !quoted,
            byte if byte == separator && !quoted => {
                if field == index {
                    break;
                }
                field += 1;
                start = at + 1;
            }
            b'\r' | b'\n' if !quoted => break,
            _ => {}
        }
        at += 1;
    }
    (start, at - start)
}

const NAMES: [(Column, &str); 12] = [
    (Column::Table, "table"),
    (Column::Cluster, "cluster"),
    (Column::Benchmark, "benchmark"),
    (Column::Variant, "variant"),
    (Column::Nodes, "nodes"),
    (Column::Ranks, "ranks"),
    (Column::MessageBytes, "message_bytes"),
    (Column::Metric, "metric"),
    (Column::Unit, "unit"),
    (Column::Value, "value"),
    (Column::Source, "source"),
    (Column::Notes, "notes"),
];
const OPTIONAL: [Column; 5] = [Column::Variant, Column::Nodes, Column::Ranks, Column::Source, Column::Notes];
const REQUIRED: &str = "table, cluster, benchmark, message_bytes, metric, unit, value";

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "table,cluster,benchmark,variant,nodes,ranks,message_bytes,metric,unit,value,source,notes\n";

    fn error(text: &str) -> String {
        read("x.csv", text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_quoted_field_keeps_its_comma() {
        let text = format!("{HEAD}t,c,osu_bw,\"HPC-X 2.7, host\",2,2,8,bandwidth,MB/s,52.27,\"a \"\"b\"\"\",\n");
        let rows = read("x.csv", text.as_bytes()).unwrap().rows;
        assert_eq!(rows[0].variant, "HPC-X 2.7, host");
        assert_eq!(rows[0].source, "a \"b\"");
        assert_eq!((rows[0].message_bytes, rows[0].nodes), (Some(8), Some(2)));
    }

    #[test]
    fn empty_files_are_refused() {
        assert!(error("").contains("x.csv:1:1: the file is empty"));
        assert!(error("\n\n# only a remark\n").contains("empty"));
        assert!(error(HEAD).contains("no rows"));
    }

    #[test]
    fn a_missing_column_is_named() {
        let message = error("table,cluster,benchmark,message_bytes,metric,unit\nt,c,b,1,m,u\n");
        assert!(message.contains("x.csv:1:1: the column `value` is missing"), "{message}");
    }

    #[test]
    fn a_wrong_number_is_located() {
        // Line 3; the value stands in column 34: t,c,osu_bw,v,2,2,4096,bandwidth, is 33 bytes with the comma after MB/s.
        let text = format!("{HEAD}# remark\nt,c,osu_bw,v,2,2,4096,bw,MB/s,\"1,5\",,\n");
        let message = error(&text);
        assert!(message.contains("x.csv:3:31: `1,5` is not a number"), "{message}");
        assert!(error(&format!("{HEAD}t,c,b,v,2,2,4 KiB,bw,MB/s,1,,\n")).contains("x.csv:2:13: `4 KiB` is not a size in bytes"));
        assert!(error(&format!("{HEAD}t,c,b,v,0,2,4,bw,MB/s,1,,\n")).contains("`0` is not a number of nodes"));
        assert!(error(&format!("{HEAD}t,c,b,v,2,2,4,bw,MB/s,NaN,,\n")).contains("`NaN` is not a number"));
        assert!(error(&format!("{HEAD}t,c,b\n")).contains("3 fields, the head has 12"));
    }

    #[test]
    fn a_bad_row_does_not_end_the_file() {
        let text = format!(
            "{HEAD}t,c,b,v,2,2,8,m,u,1,,\nt,c,b,v,2,2,8,m,u,one,,\n,c,b,v,2,2,8,m,u,1,,\nt,c,b\n# remark\nt,c,b,v,2,2,16,m,u,2,,\n"
        );
        assert!(error(&text).contains("x.csv:3:19: `one` is not a number"), "{}", error(&text));
        let all = read_all("x.csv", text.as_bytes()).unwrap();
        assert_eq!(all.rows().iter().map(|row| (all.line(row), row.value)).collect::<Vec<_>>(), [(2, 1.0), (7, 2.0)]);
        let faults: Vec<(Option<&str>, usize)> = all.faults().iter().map(|bad| (bad.table.as_deref(), bad.line)).collect();
        assert_eq!(faults, [(Some("t"), 3), (None, 4), (Some("t"), 5)]);
        assert!(all.faults()[0].error.in_full().contains("a point for decimals"));
    }

    #[test]
    fn bytes_that_are_no_text_are_located() {
        let message = read("x.csv", b"table\nab\xff").unwrap_err().to_string();
        assert!(message.contains("x.csv:2:3: the file is not UTF-8"), "{message}");
    }

    #[test]
    fn a_byte_order_mark_and_dos_line_ends_are_accepted() {
        let text = format!("\u{feff}{}t,c,b,v,2,2,,m,u,1,,\r\n", HEAD.replace('\n', "\r\n"));
        let measured = read("x.csv", text.as_bytes()).unwrap();
        assert_eq!(measured.rows[0].message_bytes, None);
        assert_eq!(measured.line(&measured.rows[0]), 2);
    }
}
