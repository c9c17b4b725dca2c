//! perftest: `ib_write_bw` and its family, as text and as JSON.
//!
//! Source: perftest 6.29 and the forms of older releases (docs/formats.md). The title names the test, the lines below it its options, which become
//! those of the variant. Old releases write `MB/sec` for 2²⁰ bytes a second.
//! Not read: `raw_ethernet_*`, histograms (`-H`) and lists (`-U`), two ports (`-O`).

use serde_json::Value as Json;

use super::columns::Column;
use super::document::Document;
use super::launch::Launch;
use super::line::Line;
use super::rows::{Position, Rows, Sheet, Value, number};
use super::{Format, Run};

/// The suite.
pub(super) struct Perftest;

impl Format for Perftest {
    fn begins(&self, line: &Line<'_>, rows: &mut Rows<'_>) -> Option<Box<dyn Run>> {
        if let Some(device) = line.text.trim().strip_prefix("Picking device No. ") {
            rows.device = device.parse().ok();
            return None;
        }
        let title = line.text.trim().strip_suffix(" Test")?;
        let (name, both) = test_of(title)?;
        let launch = rows.launched(|tool| tool == name).unwrap_or_default();
        let mut output = Output::new(name, Position::from(line), title, both);
        output.device(rows.device.take(), &launch);
        Some(Box::new(output))
    }

    fn document(&self, document: &Document<'_>, rows: &mut Rows<'_>) -> bool {
        let (Some(info), Some(results)) = (document.value.get("test_info"), document.value.get("results")) else { return false };
        let title = info
            .get("test")
            .and_then(Json::as_str)
            .unwrap_or_default()
            .replace("RDMA_", "RDMA-")
            .replace('_', " ")
            .replace("RDMA-", "RDMA_");
        let title = title.strip_suffix(" Test").unwrap_or(&title);
        let title = title.replace("FETCH AND ADD", "FETCH_AND_ADD").replace("CMP AND SWAP", "CMP_AND_SWAP");
        let Some((name, both)) = test_of(&title) else { return false };
        let mut output = Output::new(name, document.begin(), &title, both);
        if let Some(fields) = info.as_object() {
            for (key, value) in fields {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                output.setting(&key.replace('_', " "), &value);
            }
        }
        output.json(document, results, rows);
        true
    }
}

struct Output {
    sheet: Sheet,
    begin: Position,
    columns: Option<Vec<Column>>,
}

impl Run for Output {
    fn line(&mut self, line: &Line<'_>, rows: &mut Rows<'_>) {
        let text = line.text.trim_start();
        if text.starts_with("#bytes") {
            self.columns = Some(columns(text));
            return;
        }
        let Some(columns) = &self.columns else {
            // Two settings stand on a line, apart by tabs; what counts is in the first where blanks took their place.
            for (name, value) in line.text.split('\t').filter_map(|half| half.split_once(':')) {
                self.setting(name.trim(), value.trim());
            }
            return;
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let Some(Ok(bytes)) = fields.first().map(|first| first.parse::<u64>()) else { return };
        if fields.len() != columns.len() {
            if fields.iter().all(|field| number(field).is_some()) {
                let problem = format!("this row has {} fields, the head has {}", fields.len(), columns.len());
                rows.fault(&mut self.sheet, line.into(), problem, "copy the whole line".to_owned());
            }
            return;
        }
        for (column, text) in columns.iter().zip(&fields) {
            match column {
                // What a run of a given time does not measure is printed as zero.
                Column::Value { metric, .. } if metric == "bw peak" && number(text) == Some(0.0) => {}
                Column::Value { metric, unit } => rows.push(&mut self.sheet, line.into(), Value { bytes: Some(bytes), metric, unit, text }),
                _ => {}
            }
        }
    }

    fn end(&mut self, rows: &mut Rows<'_>) {
        rows.none_of(&mut self.sheet, self.begin);
    }
}

impl Output {
    /// An output, with the options that its title tells. A variant of options begins with one.
    fn new(name: String, begin: Position, title: &str, both: bool) -> Output {
        let mut options = "-F".to_owned();
        if both {
            options += " -b";
        }
        if title.contains("CMP_AND_SWAP") {
            options += " -A CMP_AND_SWAP";
        }
        let sheet = Sheet { release: "perftest".to_owned(), said: vec![options], ..Sheet::of(name) };
        Output { sheet, begin, columns: None }
    }

    fn option(&mut self, option: &str) {
        self.sheet.said.iter_mut().for_each(|said| *said = format!("{said} {option}"));
    }

    /// A line of the head.
    fn setting(&mut self, name: &str, value: &str) {
        let word = value.split(['[', ' ']).next().unwrap_or_default().trim_end_matches('B');
        let latency = self.sheet.benchmark.ends_with("_lat");
        let option = match name {
            "Number of qps" if word != "1" => format!("-q {word}"),
            "Connection type" if word != "RC" => format!("-c {word}"),
            "TX depth" if !latency && word != "128" => format!("-t {word}"),
            "CQ Moderation" if !latency && !matches!(word, "1" | "100") => format!("-Q {word}"),
            "Post List" if word != "1" => format!("-l {word}"),
            "Mtu" => format!("-m {word}"),
            "Max inline data" if latency && word == "0" => "-I 0".to_owned(),
            "Max inline data" if !latency && word != "0" => format!("-I {word}"),
            _ => return,
        };
        self.option(&option);
    }

    /// Where buffers are, as what is printed above the title says, or the command; and that it ran on events, which only that says.
    fn device(&mut self, picked: Option<u32>, launch: &Launch) {
        let of_command = ["--use_cuda", "--use_rocm"].into_iter().find_map(|name| Some((name, launch.value(&[name])?)));
        match (of_command, picked) {
            (Some((name, device)), _) => self.option(&format!("{name}={device}")),
            (None, Some(device)) => self.option(&format!("--use_cuda={device}")),
            (None, None) => {}
        }
        if launch.options.iter().any(|option| matches!(option.as_str(), "-e" | "--events")) {
            self.option("-e");
        }
    }

    /// The numbers of a document. It does not name the unit of bandwidths, which the message rate tells.
    fn json(&mut self, document: &Document<'_>, results: &Json, rows: &mut Rows<'_>) {
        let at = document.place(&mut super::document::Cursor::default(), "results");
        let of = |key: &str| results.get(key).and_then(Json::as_f64);
        let bytes = results.get("MsgSize").and_then(Json::as_u64);
        let per_s = of("MsgRate").zip(bytes).map(|(rate, bytes)| rate * 1e6 * bytes as f64);
        let gigabits = per_s.zip(of("BW_average")).is_some_and(|(per_s, average)| (per_s / (average * 125e6) - 1.0).abs() < 0.02);
        let unit = if gigabits { "Gb/s" } else { "MiB/s" };
        let known = [
            ("BW_peak", "bw peak", unit),
            ("BW_average", "bw average", unit),
            ("MsgRate", "msgrate", "Mpps"),
            ("t_min", "t_min", "us"),
            ("t_max", "t_max", "us"),
            ("t_typical", "t_typical", "us"),
            ("t_avg", "t_avg", "us"),
            ("t_stdev", "t_stdev", "us"),
            ("percentile_99", "99% percentile", "us"),
            ("percentile_99.9", "99.9% percentile", "us"),
            ("tps_average", "exchange rate", "1/s"),
        ];
        for (key, metric, unit) in known {
            let Some(value) = results.get(key) else { continue };
            if key == "BW_peak" && value.as_f64() == Some(0.0) {
                continue;
            }
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            rows.push(&mut self.sheet, at, Value { bytes, metric, unit, text: &text });
        }
        rows.none_of(&mut self.sheet, at);
    }
}

/// The columns of a head, some of whose names are of two words.
fn columns(head: &str) -> Vec<Column> {
    let mut names: Vec<String> = Vec::new();
    for word in head.split_whitespace() {
        match names.last_mut() {
            Some(last) if matches!(last.as_str(), "BW" | "99%" | "99.9%" | "tps") => {
                last.push(' ');
                last.push_str(word);
            }
            _ => names.push(word.to_owned()),
        }
    }
    let column = |name: &String| match Column::of(name.trim_start_matches('#')) {
        Column::Value { metric, unit } if unit == "MB/s" => Column::Value { metric, unit: "MiB/s".to_owned() },
        column => column,
    };
    names.iter().map(column).collect()
}

/// The program of a title, and whether both ends send.
fn test_of(title: &str) -> Option<(String, bool)> {
    let (words, latency) = match (title.strip_suffix("BW"), title.strip_suffix("Latency")) {
        (Some(words), _) => (words, false),
        (_, Some(words)) => (words, true),
        _ => return None,
    };
    let both = words.contains("Bidirectional");
    let words = words.replace("Bidirectional", "").replace("Post List", "").replace("FETCH_AND_ADD", "").replace("CMP_AND_SWAP", "");
    let verb = match words.trim() {
        "RDMA_Write" => "write",
        "RDMA_Read" => "read",
        "Send" => "send",
        "Atomic" => "atomic",
        _ => return None,
    };
    Some((format!("ib_{verb}_{}", if latency { "lat" } else { "bw" }), both))
}
