//! netperf: streams and requests over TCP.
//!
//! Source: netperf 2.7, the classic output (docs/formats.md). The line that begins with `MIGRATED` or the bare name of the test names it.
//! Not read: output selected with `-o`, `-O` and `-k`; UDP, whose rows have other columns.

use super::line::Line;
use super::rows::{Position, Rows, Sheet, Value, number};
use super::{Format, Run};

/// The program.
pub(super) struct Netperf;

impl Format for Netperf {
    fn begins(&self, line: &Line<'_>, _: &mut Rows<'_>) -> Option<Box<dyn Run>> {
        let text = line.text.trim().trim_start_matches("MIGRATED ");
        let test = if text.starts_with("TCP STREAM TEST") {
            Test::Stream
        } else if text.starts_with("TCP REQUEST/RESPONSE TEST") {
            Test::Requests
        } else {
            return None;
        };
        let mut sheet = Sheet { release: "netperf".to_owned(), ..Sheet::of("netperf") };
        sheet.said.push(if test == Test::Stream { "-t TCP_STREAM" } else { "-t TCP_RR" }.to_owned());
        Some(Box::new(Output { sheet, test, begin: Position::from(line), read: false }))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    Stream,
    Requests,
}

struct Output {
    sheet: Sheet,
    test: Test,
    begin: Position,
    /// Whether the row was read; a second one has the buffers of the other end.
    read: bool,
}

impl Run for Output {
    fn line(&mut self, line: &Line<'_>, rows: &mut Rows<'_>) {
        let fields: Vec<&str> = line.text.split_whitespace().collect();
        if self.read || fields.len() < 4 || !fields.iter().all(|field| number(field).is_some()) {
            return;
        }
        self.read = true;
        let value = match (self.test, fields.len()) {
            (Test::Stream, 5) => Value { bytes: None, metric: "bandwidth", unit: "Mbit/s", text: fields[4] },
            (Test::Requests, 6) => {
                if fields[2] != "1" || fields[3] != "1" {
                    self.sheet.said.push(format!("-r {},{}", fields[2], fields[3]));
                }
                Value { bytes: fields[2].parse().ok(), metric: "transaction rate", unit: "1/s", text: fields[5] }
            }
            _ => {
                let problem = format!("this row has {} numbers, which no table of this test has", fields.len());
                return rows.fault(&mut self.sheet, line.into(), problem, "copy the whole output".to_owned());
            }
        };
        rows.push(&mut self.sheet, line.into(), value);
    }

    fn end(&mut self, rows: &mut Rows<'_>) {
        rows.none_of(&mut self.sheet, self.begin);
    }
}
