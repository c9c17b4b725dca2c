//! ucx_perftest, as text and as CSV (`-v`).
//!
//! Source: UCX 1.9 to 1.17 (docs/formats.md). A box names test, buffers and size; `Final:` begins the row that counts, the others show progress.
//! Latencies are half of a round trip, MB are 2²⁰ bytes. CSV has neither test nor size, which the command says.
//! Not read: several threads (`-T`), batch files.

use super::columns;
use super::launch::Launch;
use super::line::Line;
use super::rows::{Position, Rows, Sheet, Value, number};
use super::{Format, Run};

/// The program.
pub(super) struct UcxPerftest;

impl Format for UcxPerftest {
    fn begins(&self, line: &Line<'_>, rows: &mut Rows<'_>) -> Option<Box<dyn Run>> {
        let text = line.text.trim();
        let csv = text.contains("iterations,") && text.contains("overall_lat");
        let boxed = cell(text).is_some_and(|(name, _)| name == "API");
        // Without a box (`-f`) the line of the columns is the first; below a box it belongs to it.
        let headed = !rows.in_box && (text.contains("overhead (usec)") || text.contains("latency (usec)"));
        if !csv && !boxed && !headed {
            rows.in_box &= text.starts_with(['|', '+']);
            return None;
        }
        rows.in_box = !csv;
        let launch = rows.launched(|tool| tool == "ucx_perftest").unwrap_or_default();
        let mut output = Output {
            sheet: Sheet { release: "UCX".to_owned(), ..Sheet::of(TOOL) },
            begin: Position::from(line),
            bytes: None,
            names: Vec::new(),
        };
        output.take_from(&launch);
        if csv {
            output.names = text.split(',').map(|name| name.trim().to_owned()).collect();
        }
        Some(Box::new(output))
    }
}

struct Output {
    sheet: Sheet,
    begin: Position,
    bytes: Option<u64>,
    /// The columns of CSV.
    names: Vec<String>,
}

impl Run for Output {
    fn line(&mut self, line: &Line<'_>, rows: &mut Rows<'_>) {
        let text = line.text.trim();
        if let Some((name, value)) = cell(text) {
            return self.setting(name, value);
        }
        if !self.names.is_empty() {
            let fields = columns::fields(text, Some(','));
            if fields.len() == self.names.len() && fields.iter().filter(|field| number(field).is_some()).count() > 2 {
                for (name, text) in
                    std::mem::take(&mut self.names).iter().zip(fields).map(|(name, field)| (name.clone(), field)).collect::<Vec<_>>()
                {
                    if let Some((metric, unit)) = csv_column(&name) {
                        rows.push(&mut self.sheet, line.into(), Value { bytes: self.bytes, metric, unit, text });
                    }
                    self.names.push(name);
                }
            }
            return;
        }
        let Some(row) = text.strip_prefix("Final:") else { return };
        let fields: Vec<&str> = row.split_whitespace().collect();
        if fields.len() != COLUMNS.len() {
            let problem = format!("this row has {} numbers instead of {}", fields.len(), COLUMNS.len());
            return rows.fault(&mut self.sheet, line.into(), problem, "copy the whole line".to_owned());
        }
        let latency = self.is_latency();
        for ((metric, unit, of_latency), text) in COLUMNS.into_iter().zip(fields) {
            // Times of a bandwidth test are those of posting, bandwidths of a latency test those of a message in flight.
            if of_latency == Some(latency) {
                rows.push(&mut self.sheet, line.into(), Value { bytes: self.bytes, metric, unit, text });
            }
        }
    }

    fn end(&mut self, rows: &mut Rows<'_>) {
        rows.none_of(&mut self.sheet, self.begin);
    }
}

impl Output {
    /// A latency, as far as the test is known.
    fn is_latency(&self) -> bool {
        !self.sheet.benchmark.contains("_bw")
    }

    fn take_from(&mut self, launch: &Launch) {
        if let Some(test) = launch.value(&["-t"]) {
            self.sheet.benchmark = format!("{TOOL} {test}");
        }
        self.bytes = launch.value(&["-s"]).and_then(|size| size.parse().ok());
        self.sheet.said.extend(launch.variables());
        if let Some(memory) = launch.value(&["-m"]) {
            self.memory(memory);
        }
    }

    fn memory(&mut self, memory: &str) {
        if memory.split(',').any(|place| place.contains("cuda") || place.contains("rocm")) {
            self.sheet.said.retain(|phrase| phrase != "D D");
            self.sheet.said.push("D D".to_owned());
        }
    }

    /// A line of the box.
    fn setting(&mut self, name: &str, value: &str) {
        match name {
            "Test" => self.sheet.benchmark = format!("{TOOL} {}", test_of(value)),
            "Message size" => self.bytes = value.split_whitespace().next().and_then(|size| size.parse().ok()),
            "Send memory" | "Memory type" => self.memory(value),
            _ => {}
        }
    }
}

/// Name and value of a line of the box.
fn cell(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.strip_prefix('|')?.strip_suffix('|')?.split_once(':')?;
    Some((name.trim(), value.trim())).filter(|(name, value)| !name.contains('|') && !value.contains('|'))
}

/// The test of a description, by the name that `-t` takes.
fn test_of(description: &str) -> String {
    let lower = description.to_ascii_lowercase();
    let kind = if lower.contains("latency") { "lat" } else { "bw" };
    let known = [
        ("tag sync match", "tag_sync"),
        ("tag match", "tag"),
        ("stream", "stream"),
        ("active message", "ucp_am"),
        ("am ", "ucp_am"),
        ("put", "ucp_put"),
        ("get", "ucp_get"),
    ];
    match known.into_iter().find(|(words, _)| lower.contains(words)) {
        Some((_, "ucp_get")) if kind == "lat" => "ucp_get".to_owned(),
        Some((_, name)) => format!("{name}_{kind}"),
        None => lower,
    }
}

fn csv_column(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "avg_lat" => ("average latency", "us"),
        "overall_lat" => ("latency", "us"),
        "avg_bw" => ("average bandwidth", "MiB/s"),
        "overall_bw" => ("bandwidth", "MiB/s"),
        "overall_mr" => ("message rate", "messages/s"),
        name if name.ends_with("percentile_lat") => ("percentile latency", "us"),
        _ => return None,
    })
}

const TOOL: &str = "ucx_perftest";

/// The numbers of a row: metric, unit, and whether latency tests measure it.
const COLUMNS: [(&str, &str, Option<bool>); 8] = [
    ("iterations", "", None),
    ("percentile latency", "us", Some(true)),
    ("average latency", "us", None),
    ("latency", "us", Some(true)),
    ("average bandwidth", "MiB/s", None),
    ("bandwidth", "MiB/s", Some(false)),
    ("average message rate", "messages/s", None),
    ("message rate", "messages/s", Some(false)),
];
