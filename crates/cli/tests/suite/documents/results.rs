//! Tables of results are those of the goldens.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use fabriscope_catalog::Catalog;
use fabriscope_lab::published;
use fabriscope_report::question::{self, Kind};
use fabriscope_report::validate::{Compared, Report, TableResult};
use fabriscope_report::{Measured, Point};

use super::outputs::goldens;
use super::page::regions;

/// One published table: the cells of its rows, and the errors of its points in percent, without and with what was chosen after it had been seen.
struct Table {
    rows: Vec<Vec<String>>,
    errors: Vec<f64>,
    with_choice: Option<Vec<f64>>,
}

/// What `fabriscope validate --points TABLE` prints of every published table, as tests/golden pins it.
fn results() -> BTreeMap<String, Table> {
    let mut found = BTreeMap::new();
    for (command, file) in goldens() {
        let Some(table) = command.strip_prefix("validate --points ").filter(|table| !table.starts_with('@')) else { continue };
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        // Points stand above, behind a line with the name; `[1]` behind an error marks a row that contradicts others.
        let (points, rest) = text.split_once("\ntable ").unwrap();
        let errors = |block: &str| -> Vec<f64> {
            let lines = block.lines().filter(|line| !line.starts_with('#'));
            lines.filter_map(|line| line.split_whitespace().rfind(|word| !word.starts_with('['))?.parse::<f64>().ok()).collect()
        };
        let behind = format!("# {table} with ");
        // What was chosen stands in the rest of that line.
        let mut blocks = points.split(behind.as_str()).map(|block| errors(block.split_once('\n').map_or(block, |(_, points)| points)));
        let own = blocks.next().unwrap();
        let rows = rest.lines().skip(1).take_while(|line| !line.is_empty()).map(cells).collect();
        found.insert(table.to_owned(), Table { rows, errors: own, with_choice: blocks.next() });
    }
    found
}

/// The cells of a line: two blanks and more lie between them.
fn cells(line: &str) -> Vec<String> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
}

/// The kind of the benchmark of each table; the first of a row that can be asked decides.
fn kinds(files: &[Measured]) -> BTreeMap<String, Kind> {
    let mut kinds = BTreeMap::new();
    for file in files {
        for row in file.rows() {
            let asked = question::ask(file, row).unwrap();
            kinds.entry(row.table.clone()).or_insert_with(|| Kind::of(&asked, &row.benchmark));
        }
    }
    kinds
}

/// How far points lie from their measurements, kind by kind, as `fabriscope validate --summary` counts.
fn hit_rates() -> String {
    let files = published::tables().unwrap();
    let kinds = kinds(&files);
    let point = |table: &str, error: f64| Compared {
        nodes: None,
        message_bytes: None,
        variant: String::new(),
        metric: String::new(),
        group: String::new(),
        kind: kinds[table],
        unit: String::new(),
        point: Point { measured: 100.0, predicted: 100.0 + error },
        doubt: None,
        unread: Vec::new(),
        line: 0,
    };
    let mut report = Report::default();
    for (name, result) in results() {
        let of = |errors: &[f64], chosen: Option<String>| TableResult {
            table: name.clone(),
            chosen,
            points: errors.iter().map(|error| point(&name, *error)).collect(),
            ..TableResult::default()
        };
        report.tables.push(of(&result.errors, None));
        report.tables.extend(result.with_choice.map(|errors| of(&errors, Some("chosen".to_owned()))));
    }
    let names: BTreeSet<&str> = kinds.keys().map(String::as_str).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let numbers = fabriscope::cited(&Catalog::embedded().unwrap()).unwrap();
    let fitted: BTreeSet<&str> = numbers.iter().flat_map(|row| row.cites(&names)).collect();
    format!("```text\n{}```\n", report.hit_rates(&|table| fitted.contains(table)).text())
}

#[test]
fn the_results_are_those_of_the_goldens() {
    let rows = |_: &str| {
        let head = "table,metric,points,skipped,median(%),p90(%),max(%),bias(%),goal(%),verdict";
        let mut table = vec![head.split(',').map(str::to_owned).collect::<Vec<_>>()];
        for result in results().into_values() {
            table.extend(result.rows.into_iter().map(|row| row.into_iter().map(|cell| cell.replace(" / ", "/")).collect()));
        }
        let width =
            |column: usize| table.iter().filter_map(|row| row.get(column)).map(|word| word.chars().count()).max().unwrap_or_default();
        let mut text = "```text\n".to_owned();
        for row in &table {
            let mut line = format!("{:1$}", row[0], width(0));
            for (column, word) in row.iter().enumerate().skip(1) {
                let width = width(column);
                line += &match column {
                    9 => format!("  {word}"),
                    1 => format!("  {word:width$}"),
                    _ => format!("  {word:>width$}"),
                };
            }
            text += &format!("{}\n", line.trim_end());
        }
        text + "```\n"
    };
    assert_eq!(regions("validation/results.md", "results", rows), 1);
    assert_eq!(regions("validation/results.md", "hit rates", |_| hit_rates()), 1);
    assert_eq!(regions("README.md", "hit rates", |_| hit_rates()), 1);
}
