//! nccl-tests and rccl-tests, as text and as JSON (`-J`).
//!
//! Source: nccl-tests 2.19 and the forms of older releases (docs/formats.md). Columns are found by the names above the rows, ranks and nodes by
//! the list of devices. Old releases do not name the operation: the command does, or the bandwidths and the operator of a row, as far as they
//! differ between operations; at last the name of the file.
//! Not read: columns of `-I` and reports of several processes that print for themselves.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::document::{Cursor, Document};
use super::launch::Launch;
use super::line::Line;
use super::rows::{Position, Rows, Sheet, Value, number};
use super::{Format, Run};

/// The suite.
pub(super) struct NcclTests;

/// What stands before the name of the operation.
const STARTING: &str = "Collective test starting:";

impl Format for NcclTests {
    fn begins(&self, line: &Line<'_>, rows: &mut Rows<'_>) -> Option<Box<dyn Run>> {
        let remark = line.text.trim_start().strip_prefix('#')?.trim_start();
        let release = remark.strip_prefix("nccl-tests version ").or_else(|| remark.strip_prefix("rccl-tests version "));
        let release = release.map(|rest| rest.split_whitespace().next().unwrap_or_default());
        // The lines that older releases begin with, and new ones have further down.
        let named = remark.starts_with(STARTING);
        let settings = remark.starts_with("nThread ") && remark.contains("minBytes");
        if release.is_none() && !named && !settings {
            return None;
        }
        if release.is_none() && rows.expects_devices {
            rows.expects_devices = named;
            return None;
        }
        rows.expects_devices = !settings;
        let launch = rows.launched(|tool| tool.ends_with("_perf")).unwrap_or_default();
        let suite = if remark.starts_with("rccl") { "rccl-tests" } else { "nccl-tests" };
        let mut sheet = Sheet::of(launch.tool.clone());
        sheet.release = release.map_or_else(|| suite.to_owned(), |release| format!("{suite} {release}"));
        sheet.said.extend(launch.variables());
        let mut output = Output {
            sheet,
            launch,
            begin: Position::from(line),
            gpus: 1,
            hosts: BTreeSet::new(),
            ranks: 0,
            columns: Vec::new(),
            waiting: Vec::new(),
        };
        output.remark(remark);
        Some(Box::new(output))
    }

    fn document(&self, document: &Document<'_>, rows: &mut Rows<'_>) -> bool {
        let value = &document.value;
        let (Some(config), Some(results)) = (value.get("config"), value.get("results").and_then(Json::as_array)) else { return false };
        let mut sheet = Sheet { release: "nccl-tests".to_owned(), ..Sheet::of("nccl-tests") };
        if let Some(version) = value.get("version").map(|version| version.as_str().map_or_else(|| version.to_string(), str::to_owned)) {
            sheet.release = format!("nccl-tests {version}");
        }
        let command = value.get("args").map(words).unwrap_or_default();
        let program = command.iter().map(|word| word.rsplit('/').next().unwrap_or(word)).find(|word| word.ends_with("_perf"));
        if let Some(program) = program {
            sheet.benchmark = program.to_owned();
        }
        let devices = config.get("devices").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        let hosts: BTreeSet<&str> =
            devices.iter().filter_map(|device| ["host", "hostname"].iter().find_map(|key| device.get(key)?.as_str())).collect();
        sheet.ranks = u32::try_from(devices.len()).ok().filter(|ranks| *ranks > 0);
        sheet.nodes = u32::try_from(hosts.len()).ok().filter(|nodes| *nodes > 0);
        let count = |keys: [&str; 2]| keys.iter().find_map(|key| config.get(key)?.as_u64());
        let gpus = count(["nGpus", "ngpus"]).unwrap_or(1) * count(["nThreads", "nthreads"]).unwrap_or(1);
        if gpus > 1 {
            sheet.said.push(format!("-g {gpus}"));
        }
        let mut cursor = Cursor::default();
        document.place(&mut cursor, "results");
        for result in results {
            result_of(document, &mut cursor, result, &mut sheet, rows);
        }
        rows.none_of(&mut sheet, document.begin());
        true
    }
}

/// The rows of one size of a document.
fn result_of(document: &Document<'_>, cursor: &mut Cursor, result: &Json, sheet: &mut Sheet, rows: &mut Rows<'_>) {
    let at = document.place(cursor, "size");
    let bytes = result.get("size").and_then(Json::as_u64);
    let word = |key: &str| result.get(key).and_then(Json::as_str).unwrap_or_default();
    let kind = kind_of(word("type"), word("redop"));
    for (key, place) in [("out_of_place", "out-of-place"), ("in_place", "in-place")] {
        let Some(values) = result.get(key).filter(|values| values.is_object()) else { continue };
        for (key, metric, unit) in [("time", "time", "us"), ("alg_bw", "algbw", "GB/s"), ("bus_bw", "busbw", "GB/s")] {
            if let Some(value) = values.get(key) {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                rows.push_as(sheet, at, Value { bytes, metric, unit, text: &text }, &[place, &kind]);
            }
        }
        if let Some(wrong) = values.get("nwrong").and_then(Json::as_f64).filter(|wrong| *wrong != 0.0) {
            rows.fault(sheet, at, wrong_data(&wrong.to_string()), CHECK.to_owned());
        }
    }
}

fn words(value: &Json) -> Vec<String> {
    match value {
        Json::Array(words) => words.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        Json::String(line) => line.split_whitespace().map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

struct Output {
    sheet: Sheet,
    launch: Launch,
    begin: Position,
    /// GPUs of a process.
    gpus: u32,
    hosts: BTreeSet<String>,
    ranks: u32,
    columns: Vec<Column>,
    /// Rows whose operation is not known yet.
    waiting: Vec<Waiting>,
}

/// A row in its own words.
struct Waiting {
    at: Position,
    bytes: u64,
    kind: String,
    /// Position, metric, unit and text of each value.
    values: Vec<(&'static str, &'static str, &'static str, String)>,
    wrong: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Size,
    Type,
    Operator,
    Root,
    /// A value of the first or the second place.
    Value(&'static str, &'static str, &'static str),
    Wrong,
    Other,
}

impl Run for Output {
    fn line(&mut self, line: &Line<'_>, rows: &mut Rows<'_>) {
        let text = line.text.trim_start();
        if let Some(remark) = text.strip_prefix('#') {
            return self.remark(remark.trim_start());
        }
        if let Some(version) = text.strip_prefix("rccl-tests: Version ") {
            self.sheet.release = format!("rccl-tests {}", version.trim());
            return;
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let Some(Ok(bytes)) = fields.first().map(|first| first.parse::<u64>()) else { return };
        if self.columns.is_empty() {
            return;
        }
        if fields.len() != self.columns.len() {
            // A row has at least a size, a count and a type.
            if fields.len() > 3 && fields.get(1).is_some_and(|count| count.parse::<u64>().is_ok()) {
                let problem = format!("this row has {} fields, the head has {}", fields.len(), self.columns.len());
                self.name(rows);
                rows.fault(&mut self.sheet, line.into(), problem, "copy the whole line".to_owned());
            }
            return;
        }
        let word = |wanted: Column| self.columns.iter().position(|column| *column == wanted).map_or("", |at| fields[at]);
        let mut row =
            Waiting { at: line.into(), bytes, kind: kind_of(word(Column::Type), word(Column::Operator)), values: Vec::new(), wrong: None };
        for (column, text) in self.columns.iter().zip(&fields) {
            match column {
                Column::Value(place, metric, unit) => row.values.push((place, metric, unit, (*text).to_owned())),
                Column::Wrong if *text != "N/A" && number(text).is_some_and(|wrong| wrong.abs() > TOLERATED) => {
                    row.wrong = Some((*text).to_owned())
                }
                _ => {}
            }
        }
        if self.sheet.benchmark.is_empty() {
            self.guess(word(Column::Operator), word(Column::Root), &row);
        }
        self.waiting.push(row);
        if !self.sheet.benchmark.is_empty() {
            self.tell(rows);
        }
    }

    fn end(&mut self, rows: &mut Rows<'_>) {
        rows.expects_devices = false;
        self.name(rows);
        self.tell(rows);
        rows.none_of(&mut self.sheet, self.begin);
    }
}

impl Output {
    fn remark(&mut self, remark: &str) {
        if let Some(tool) = remark.strip_prefix(STARTING) {
            self.sheet.benchmark = tool.trim().to_owned();
        } else if remark.starts_with("nThread ") {
            let words: Vec<&str> = remark.split_whitespace().collect();
            let of = |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1)?.parse::<u32>().ok());
            self.gpus = of("nThread").unwrap_or(1).saturating_mul(of("nGpus").unwrap_or(1));
            if self.gpus > 1 {
                self.sheet.said.push(format!("-g {}", self.gpus));
            }
        } else if remark.starts_with("Rank ") {
            self.ranks += 1;
            let mut words = remark.split_whitespace().skip_while(|word| *word != "on");
            self.hosts.extend(words.nth(1).map(str::to_owned));
            self.sheet.ranks = Some(self.ranks);
            self.sheet.nodes = u32::try_from(self.hosts.len()).ok().filter(|nodes| *nodes > 0);
        } else if remark.starts_with("size ") {
            self.columns = columns(remark);
            if self.sheet.ranks.is_none() {
                (self.sheet.nodes, self.sheet.ranks) = (self.launch.nodes, self.launch.ranks);
            }
        }
    }

    /// Which operation it is, where bandwidths tell: each has its own relation of data moved to data held.
    fn guess(&mut self, operator: &str, root: &str, row: &Waiting) {
        let value = |name: &str| row.values.iter().find(|(_, metric, ..)| *metric == name).and_then(|(.., text)| number(text));
        let (Some(algorithm), Some(bus), Some(ranks)) = (value("algbw"), value("busbw"), self.sheet.ranks) else { return };
        if algorithm < PRECISE || ranks < 3 {
            return;
        }
        let n = f64::from(ranks);
        let is = |factor: f64| (bus / algorithm / factor - 1.0).abs() < 0.02;
        let reduces = !matches!(operator, "" | "none");
        let rooted = root.parse::<i32>().is_ok_and(|root| root >= 0);
        let tool = match (reduces, rooted) {
            (true, true) if is(1.0) => "reduce_perf",
            (true, _) if is(2.0 * (n - 1.0) / n) => "all_reduce_perf",
            (true, _) if is((n - 1.0) / n) => "reduce_scatter_perf",
            (false, true) if is(1.0) => "broadcast_perf",
            _ => return,
        };
        self.sheet.benchmark = tool.to_owned();
    }

    /// The operation by the name of the file, where nothing else says it.
    fn name(&mut self, rows: &Rows<'_>) {
        if self.sheet.benchmark.is_empty() {
            let stem = rows.stem();
            let named = NAMES.iter().filter(|name| stem.contains(**name)).max_by_key(|name| name.len());
            self.sheet.benchmark = (*named.unwrap_or(&"nccl-tests")).to_owned();
        }
    }

    fn tell(&mut self, rows: &mut Rows<'_>) {
        for row in std::mem::take(&mut self.waiting) {
            for (place, metric, unit, text) in &row.values {
                // The place that an operation has not is not measured.
                if text != "N/A" {
                    rows.push_as(&mut self.sheet, row.at, Value { bytes: Some(row.bytes), metric, unit, text }, &[place, &row.kind]);
                }
            }
            if let Some(wrong) = row.wrong {
                rows.fault(&mut self.sheet, row.at, wrong_data(&wrong), CHECK.to_owned());
            }
        }
    }
}

/// The columns of a head; those of the second place follow those of the first.
fn columns(head: &str) -> Vec<Column> {
    let mut place = "";
    let of = |name: &str| match name {
        "size" => Column::Size,
        "type" => Column::Type,
        "redop" => Column::Operator,
        "root" => Column::Root,
        "time" => {
            place = if place.is_empty() { "out-of-place" } else { "in-place" };
            Column::Value(place, "time", "us")
        }
        "algbw" => Column::Value(place, "algbw", "GB/s"),
        "busbw" => Column::Value(place, "busbw", "GB/s"),
        "#wrong" | "error" => Column::Wrong,
        _ => Column::Other,
    };
    head.split_whitespace().map(of).collect()
}

/// Type and operator as a phrase.
fn kind_of(data: &str, operator: &str) -> String {
    match operator {
        "" | "none" => data.to_owned(),
        _ => format!("{data} {operator}"),
    }
}

fn wrong_data(wrong: &str) -> String {
    format!("the benchmark found wrong data here: {wrong}")
}

const CHECK: &str = "find out why before the values are used";
/// Old releases print the largest error of rounding, which is smaller than this in the largest of them. Basis: nccl-tests of 2.12.
const TOLERATED: f64 = 0.1;
/// From here on two digits behind the point tell the operations apart, in GB/s.
const PRECISE: f64 = 2.0;
/// The programs.
const NAMES: [&str; 10] = [
    "all_reduce_perf",
    "all_gather_perf",
    "reduce_scatter_perf",
    "alltoall_perf",
    "broadcast_perf",
    "reduce_perf",
    "sendrecv_perf",
    "gather_perf",
    "scatter_perf",
    "hypercube_perf",
];
