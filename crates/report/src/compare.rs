//! A tool's own output beside published figures.
//!
//! The tool's lines stay as they are; behind each row whose first word is a published size stand the published
//! value and the error, and the head says so.

use crate::statistics::{Point, Summary};

/// Published and predicted value of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beside {
    /// Size of one message in bytes.
    pub message_bytes: u64,
    /// The two values in the unit of the published one.
    pub point: Point,
}

/// Puts `rows` beside the data rows of `text`, and the errors of the table below them.
#[must_use]
pub fn beside(text: &str, unit: &str, rows: &[Beside]) -> String {
    let expanded: Vec<String> = text.lines().map(expand_tabs).collect();
    let data = |line: &str| -> Option<&Beside> {
        let size: u64 = line.split_whitespace().next()?.parse().ok()?;
        rows.iter().find(|r| r.message_bytes == size)
    };
    let width = expanded.iter().filter(|l| data(l).is_some()).map(|l| l.trim_end().chars().count()).max().unwrap_or(0);
    let numbers = |line: &str| line.split_whitespace().count() > 1 && line.split_whitespace().all(|word| word.parse::<f64>().is_ok());
    let head = expanded.iter().position(|l| numbers(l)).and_then(|first| first.checked_sub(1));
    let width = head.map_or(width, |h| width.max(expanded[h].trim_end().chars().count()));
    let mut out = String::new();
    for (index, line) in expanded.iter().enumerate() {
        let line = line.trim_end();
        if let Some(row) = data(line) {
            out += &format!("{line:<width$} |{:>20.2}{:>12}\n", row.point.measured, format!("{:+.1}", row.point.error_percent()));
        } else if Some(index) == head {
            out += &format!("{line:<width$} |{:>20}{:>12}\n", format!("published ({unit})"), "error (%)");
        } else {
            out += line;
            out.push('\n');
        }
    }
    let points: Vec<Point> = rows.iter().map(|r| r.point).collect();
    if let Some(s) = Summary::of(&points) {
        let (n, median, p90, max, bias) = (points.len(), s.median, s.p90, s.max, s.bias);
        out += &format!("# {n} points: median error {median:.1} %, 90th percentile {p90:.1} %, maximum {max:.1} %, bias {bias:+.1} %\n");
    }
    out
}

/// Tab stops at every eighth column, as a terminal has them.
fn expand_tabs(line: &str) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for c in line.chars() {
        if c == '\t' {
            let fill = 8 - column % 8;
            out.extend(std::iter::repeat_n(' ', fill));
            column += fill;
        } else {
            out.push(c);
            column += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values_stand_beside_their_rows() {
        let tool = "\n# OSU MPI Latency Test v7.4\n# Size         Avg Latency(us)\n0                         1.02\n8                         1.03\n";
        let rows = [Beside { message_bytes: 8, point: Point { measured: 1.00, predicted: 1.03 } }];
        let text = beside(tool, "us", &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[4], "8                         1.03 |                1.00        +3.0");
        assert_eq!(lines[2], "# Size         Avg Latency(us) |      published (us)   error (%)");
        assert_eq!(lines[3], "0                         1.02");
        assert!(lines[5].contains("1 points: median error 3.0 %"), "{text}");
    }

    #[test]
    fn tabs_become_blanks() {
        assert_eq!(expand_tabs("ab\tc"), "ab      c");
    }
}
