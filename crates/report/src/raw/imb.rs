//! The Intel MPI Benchmarks: IMB-MPI1 and what prints tables like it, releases 3 to 2021.
//!
//! Source: IMB 2021 (docs/formats.md). A table begins with `# Benchmarking NAME`, its columns are named above the rows; each number of ranks has a
//! table of its own.
//! Not read: `-multi` (one table of several groups).

use super::columns::{self, Column};
use super::launch::Launch;
use super::line::Line;
use super::rows::{Position, Rows, Sheet, Value, number};
use super::{Format, Run};

/// The suite.
pub(super) struct Imb;

impl Format for Imb {
    fn begins(&self, line: &Line<'_>, rows: &mut Rows<'_>) -> Option<Box<dyn Run>> {
        let name = line.text.strip_prefix('#')?.trim_start().strip_prefix("Benchmarking ")?.trim();
        if name.is_empty() || name.contains(' ') {
            return None;
        }
        // One command runs many benchmarks, and many numbers of ranks.
        let launch = rows.launch.as_ref().filter(|launch| launch.tool.starts_with("IMB-")).cloned().unwrap_or_default();
        let mut sheet = Sheet { release: "IMB".to_owned(), ..Sheet::of(format!("IMB {name}")) };
        sheet.said.extend(launch.variables());
        Some(Box::new(Output { sheet, launch, begin: Position::from(line), columns: Vec::new() }))
    }
}

struct Output {
    sheet: Sheet,
    launch: Launch,
    begin: Position,
    columns: Vec<Column>,
}

impl Run for Output {
    fn line(&mut self, line: &Line<'_>, rows: &mut Rows<'_>) {
        let text = line.text.trim_start();
        if text.starts_with("#bytes") || text.starts_with("#repetitions") {
            // Names hold no blanks, and are not always two of these apart.
            self.columns = text.split_whitespace().map(Column::of).collect();
            return;
        }
        if let Some(remark) = text.strip_prefix('#') {
            return self.remark(remark.trim());
        }
        let fields = columns::fields(text, None);
        if self.columns.is_empty() || fields.first().is_none_or(|first| first.parse::<u64>().is_err()) {
            return;
        }
        if fields.len() != self.columns.len() {
            if fields.iter().all(|field| number(field).is_some()) {
                let problem = format!("this row has {} fields, the head has {}", fields.len(), self.columns.len());
                rows.fault(&mut self.sheet, line.into(), problem, "copy the whole line".to_owned());
            }
            return;
        }
        let bytes = if self.columns[0] == Column::Size { fields[0].parse::<u64>().ok() } else { None };
        for (column, text) in self.columns.iter().zip(&fields) {
            match column {
                // Nothing is carried.
                Column::Value { metric, .. } if metric == "bandwidth" && bytes == Some(0) => {}
                Column::Value { metric, unit } => rows.push(&mut self.sheet, line.into(), Value { bytes, metric, unit, text }),
                Column::Check if number(text) != Some(0.0) => {
                    let problem = format!("the benchmark found wrong data here: {text} defects");
                    rows.fault(&mut self.sheet, line.into(), problem, "find out why before the values are used".to_owned());
                }
                _ => {}
            }
        }
    }

    fn end(&mut self, rows: &mut Rows<'_>) {
        rows.none_of(&mut self.sheet, self.begin);
    }
}

impl Output {
    fn remark(&mut self, remark: &str) {
        let Some(count) = remark.strip_prefix("#processes =") else { return };
        self.sheet.ranks = count.split_whitespace().next().and_then(|count| count.parse().ok());
        let launch = &self.launch;
        // Fewer ranks than the job has fill its first nodes.
        self.sheet.nodes = match (self.sheet.ranks, launch.per_node, launch.nodes) {
            (ranks, _, nodes) if ranks == launch.ranks => nodes,
            (Some(ranks), Some(per_node), _) if per_node > 0 => Some(ranks.div_ceil(per_node)),
            _ => None,
        };
    }
}
