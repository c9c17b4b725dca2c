//! iperf3, as text and as JSON (`-J`).
//!
//! Source: iperf 3.17 (docs/formats.md). What arrived counts; of several streams their sum.
//! Not read: the intervals, and what UDP lost.

use serde_json::Value as Json;

use super::document::{Cursor, Document};
use super::line::Line;
use super::rows::{Position, Rows, Sheet, Value};
use super::{Format, Run};

/// The program.
pub(super) struct Iperf3;

impl Format for Iperf3 {
    fn begins(&self, line: &Line<'_>, rows: &mut Rows<'_>) -> Option<Box<dyn Run>> {
        let text = line.text.trim();
        if !(text.starts_with("Connecting to host ") && text.contains(", port ")) {
            return None;
        }
        let launch = rows.launched(|tool| tool == "iperf3").unwrap_or_default();
        let mut sheet = Sheet { release: "iperf3".to_owned(), ..Sheet::of("iperf3") };
        let mut output = Output { begin: Position::from(line), streams: 0, last: None, sheet: Sheet::default() };
        for (long, short) in [("--length", "-l"), ("--window", "-w"), ("--set-mss", "-M"), ("--congestion", "-C")] {
            sheet.said.extend(launch.value(&[long, short]).map(|value| format!("{short} {value}")));
        }
        if launch.options.iter().any(|option| matches!(option.as_str(), "-u" | "--udp")) {
            sheet.said.push("-u".to_owned());
        }
        output.sheet = sheet;
        Some(Box::new(output))
    }

    fn document(&self, document: &Document<'_>, rows: &mut Rows<'_>) -> bool {
        let value = &document.value;
        let Some(start) = value.get("start").filter(|start| start.is_object()) else { return false };
        if value.get("end").is_none() && value.get("error").is_none() && value.get("intervals").is_none() {
            return false;
        }
        let mut sheet = Sheet::of("iperf3");
        sheet.release = start.get("version").and_then(Json::as_str).unwrap_or("iperf3").to_owned();
        let test = start.get("test_start").cloned().unwrap_or_default();
        let count = |key: &str| test.get(key).and_then(Json::as_u64).filter(|count| *count > 0);
        if test.get("protocol").and_then(Json::as_str) == Some("UDP") {
            sheet.said.push("-u".to_owned());
        }
        sheet.said.extend(count("num_streams").filter(|streams| *streams > 1).map(|streams| format!("-P {streams}")));
        sheet.said.extend(count("blksize").filter(|bytes| *bytes != DEFAULT_LENGTH).map(|bytes| format!("-l {bytes}")));
        sheet.said.extend(count("reverse").map(|_| "-R".to_owned()));
        if let Some(error) = value.get("error").and_then(Json::as_str) {
            let at = document.place(&mut Cursor::default(), "error");
            rows.fault(&mut sheet, at, format!("iperf3 failed: {error}"), "run it again".to_owned());
            return true;
        }
        let end = value.get("end").cloned().unwrap_or_default();
        for (key, metric) in [
            ("sum_received", "bandwidth"),
            ("sum_sent", "bandwidth sent"),
            ("sum", "bandwidth"),
            ("sum_received_bidir_reverse", "bandwidth back"),
        ] {
            let Some(rate) = end.get(key).and_then(|sum| sum.get("bits_per_second")) else { continue };
            // TCP has one sum for each end; that of UDP alone counts what was sent.
            if key == "sum" && end.get("sum_received").is_some() {
                continue;
            }
            let at = document.place(&mut Cursor::default(), key);
            rows.push(&mut sheet, at, Value { bytes: None, metric, unit: "bit/s", text: &rate.to_string() });
        }
        if !sheet.is_begun() {
            let problem = "iperf3 did not come to its end: there is no sum".to_owned();
            rows.fault(&mut sheet, document.begin(), problem, "copy the whole file, or run it again".to_owned());
        }
        true
    }
}

struct Output {
    sheet: Sheet,
    begin: Position,
    streams: u32,
    /// The last row of what arrived, before it is known whether there is a sum.
    last: Option<(Position, String, String)>,
}

impl Run for Output {
    fn line(&mut self, line: &Line<'_>, rows: &mut Rows<'_>) {
        let text = line.text.trim();
        if text.starts_with("Reverse mode") {
            self.sheet.said.push("-R".to_owned());
        }
        if text.starts_with('[') && text.contains("] local ") {
            self.streams += 1;
        }
        if let Some(problem) = text.strip_prefix("iperf3: ") {
            rows.fault(&mut self.sheet, line.into(), format!("iperf3 failed: {problem}"), "run it again".to_owned());
        }
        if text.ends_with("receiver") && text.starts_with('[') {
            let sum = text.starts_with("[SUM]");
            let fields: Vec<&str> = text.split(']').nth(1).unwrap_or_default().split_whitespace().collect();
            // Interval, its unit, bytes, their unit, rate, its unit.
            if let Some(at) = fields.iter().position(|field| field.ends_with("bits/sec")).filter(|at| *at > 0)
                && (sum || self.streams < 2)
            {
                self.last = Some((line.into(), fields[at - 1].to_owned(), fields[at].to_owned()));
            }
        }
    }

    fn end(&mut self, rows: &mut Rows<'_>) {
        if self.streams > 1 {
            self.sheet.said.push(format!("-P {}", self.streams));
        }
        match self.last.take() {
            Some((at, rate, unit)) => {
                let unit = match unit.as_str() {
                    "Kbits/sec" => "kbit/s",
                    "Mbits/sec" => "Mbit/s",
                    "Gbits/sec" => "Gbit/s",
                    "Tbits/sec" => "Tbit/s",
                    _ => "bit/s",
                };
                rows.push(&mut self.sheet, at, Value { bytes: None, metric: "bandwidth", unit, text: &rate });
            }
            None => rows.none_of(&mut self.sheet, self.begin),
        }
    }
}

/// Bytes of a write of TCP, where nothing is said. Basis: the tool.
const DEFAULT_LENGTH: u64 = 128 << 10;
