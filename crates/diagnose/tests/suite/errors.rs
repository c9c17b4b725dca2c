//! `src/errors.csv` is what tests/golden pins of the published tables.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use fabriscope_diagnose::normal::ERRORS;
use fabriscope_lab::published;
use fabriscope_report::question::{Kind, ask, metric_of};
use fabriscope_report::{Measured, measured::Row};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The points of a table as `validate --points` printed them: size, metric, published, predicted.
fn pinned(table: &str) -> Vec<(Option<u64>, String, f64, f64)> {
    let text = std::fs::read_to_string(root().join(format!("tests/golden/validate/{table}.txt"))).unwrap();
    let lines =
        text.lines().skip_while(|line| !line.starts_with("nodes ")).skip(1).take_while(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let columns: Vec<&str> = line.split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
            let number = |place: usize| columns[place].parse::<f64>().unwrap();
            (columns[1].parse().ok(), columns[2].to_owned(), number(4), number(5))
        })
        .collect()
}

fn errors() -> String {
    let mut text = "table,cluster,kind,metric,series,bytes,error\n".to_owned();
    for file in published::tables().unwrap() {
        let table = file.rows()[0].table.clone();
        let mut rows = file.rows().iter();
        let mut curves: Vec<(String, String, Option<u32>)> = Vec::new();
        for (bytes, metric, published, predicted) in pinned(&table) {
            let is = |row: &&Row| row.message_bytes == bytes && row.metric == metric && (row.value - published).abs() < 0.006;
            let row = rows.find(is).unwrap_or_else(|| panic!("{table}: no row of {bytes:?} {metric} {published}"));
            if metric_of(row) != "message rate" {
                push(&mut text, &file, row, (published, predicted), &mut curves);
            }
        }
    }
    text
}

fn push(
    text: &mut String,
    file: &Measured,
    row: &Row,
    (published, predicted): (f64, f64),
    curves: &mut Vec<(String, String, Option<u32>)>,
) {
    let kind = Kind::of(&ask(file, row).unwrap(), &row.benchmark);
    // What is printed as 0.00 has lost its digits.
    if kind == Kind::Claims || published < 0.05 || predicted < 0.05 {
        return;
    }
    let curve = (row.variant.clone(), metric_of(row), row.nodes);
    let series = curves.iter().position(|known| *known == curve).unwrap_or_else(|| {
        curves.push(curve);
        curves.len() - 1
    });
    let bytes = row.message_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
    let error = libm::log(published / predicted);
    writeln!(text, "{},{},{},{},{series},{bytes},{error:.4}", row.table, row.cluster, kind.name(), metric_of(row)).unwrap();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "who writes a document anew says so by the environment")]
fn known_errors_are_those_of_the_goldens() {
    let now = errors();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(root().join("crates/diagnose/src/errors.csv"), &now).unwrap();
        return;
    }
    assert!(now == ERRORS, "write crates/diagnose/src/errors.csv anew: UPDATE_GOLDEN=1 cargo test -p fabriscope-diagnose errors::");
}
