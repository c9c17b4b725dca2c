//! fi_pingpong of libfabric.
//!
//! Source: libfabric 1.6 to 1.22, `util/pingpong.c`. Sizes are `64`, `1k`, `1m` in powers of 1024, a time per transfer is half a round trip.
//! The output names neither provider nor endpoint; the command does (`-e rdm`).

use super::line::Line;
use super::rows::{Position, Rows, Sheet, Value};
use super::{Format, Run};

/// The program.
pub(super) struct FiPingpong;

impl Format for FiPingpong {
    fn begins(&self, line: &Line<'_>, rows: &mut Rows<'_>) -> Option<Box<dyn Run>> {
        let names: Vec<String> = line.text.split_whitespace().map(str::to_owned).collect();
        if !(names.iter().any(|name| name == "bytes") && names.iter().any(|name| name == "usec/xfer")) {
            return None;
        }
        // Both ends print the same table.
        let launch = rows.launch.as_ref().filter(|launch| launch.tool == "fi_pingpong").cloned().unwrap_or_default();
        let mut sheet = Sheet { release: "libfabric".to_owned(), ..Sheet::of("fi_pingpong") };
        sheet.said.extend(launch.value(&["-p"]).map(|provider| format!("provider {provider}")));
        sheet.said.extend(launch.value(&["-e"]).map(|endpoint| format!("endpoint {endpoint}")));
        Some(Box::new(Output { sheet, begin: Position::from(line), names }))
    }
}

struct Output {
    sheet: Sheet,
    begin: Position,
    names: Vec<String>,
}

impl Run for Output {
    fn line(&mut self, line: &Line<'_>, rows: &mut Rows<'_>) {
        let fields: Vec<&str> = line.text.split_whitespace().collect();
        let column = |name: &str| self.names.iter().position(|own| own == name);
        let Some(bytes) = column("bytes").and_then(|at| size_of(fields.get(at)?)) else { return };
        if fields.len() != self.names.len() {
            if fields.len() > 2 && fields[1].parse::<u64>().is_ok() {
                let problem = format!("this row has {} fields, the head has {}", fields.len(), self.names.len());
                rows.fault(&mut self.sheet, line.into(), problem, "copy the whole line".to_owned());
            }
            return;
        }
        let bytes = Some(bytes);
        for (name, metric, unit) in [("usec/xfer", "latency", "us"), ("MB/sec", "throughput", "MB/s")] {
            if let Some(at) = column(name) {
                rows.push(&mut self.sheet, line.into(), Value { bytes, metric, unit, text: fields[at] });
            }
        }
    }

    fn end(&mut self, rows: &mut Rows<'_>) {
        rows.none_of(&mut self.sheet, self.begin);
    }
}

/// `64`, `1.5k`, `64k`, `1m`, `2g`.
fn size_of(text: &str) -> Option<u64> {
    let (number, unit) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, 1u64),
    };
    match number.split_once('.') {
        None => number.parse::<u64>().ok()?.checked_mul(unit),
        Some((whole, tenth)) if tenth.len() == 1 => {
            Some(whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(tenth.parse::<u64>().ok()? * unit / 10)?)
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        let read = ["64", "1k", "1.5k", "1m", "2g", "-1", "1.25k", "k", "99999999999999999999g"].map(size_of);
        assert_eq!(read, [Some(64), Some(1024), Some(1536), Some(1 << 20), Some(2 << 30), None, None, None, None]);
    }
}
