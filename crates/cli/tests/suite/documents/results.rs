//! Tables of results are those of the goldens.

use std::collections::BTreeMap;
use std::fs;

use super::outputs::goldens;
use super::page::regions;

/// One published table: the words of its row, and the absolute errors of its points in percent.
struct Table {
    row: String,
    errors: Vec<f64>,
}

/// What `fabriscope validate --points TABLE` prints of every published table, as tests/golden pins it.
fn results() -> BTreeMap<String, Table> {
    let mut found = BTreeMap::new();
    for (command, file) in goldens() {
        let Some(table) = command.strip_prefix("validate --points ").filter(|table| !table.starts_with('@')) else { continue };
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let (points, rest) = text.split_once("\ntable ").unwrap();
        let row = rest.lines().nth(1).unwrap().to_owned();
        let errors = points.lines().skip(2).filter_map(|line| line.split_whitespace().last()?.parse::<f64>().ok()).map(f64::abs).collect();
        found.insert(table.to_owned(), Table { row, errors });
    }
    found
}

const FAMILIES: [&str; 5] = ["perftest", "MPI between two nodes", "MPI collectives", "NCCL all-reduce", "inside GPU nodes, and others"];

fn family(table: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| table.contains(word));
    match () {
        () if has(&["-ib_"]) => FAMILIES[0],
        () if has(&["all_reduce_perf"]) => FAMILIES[3],
        () if has(&["alltoall", "allreduce"]) => FAMILIES[2],
        () if has(&["gpu-aware", "gdrcopy", "nvbandwidth", "babelstream", "opa100", "mcast", "krylov", "efa-generations"]) => FAMILIES[4],
        () => FAMILIES[1],
    }
}

/// How far points lie from their measurements, family by family: the part of validation/results.md that the README has, too.
fn hit_rates() -> String {
    let results = results();
    let mut text = "| | tables | points | median (%) | within 10 % | within 25 % |\n|---|---:|---:|---:|---:|---:|\n".to_owned();
    let all = |_: &str| true;
    let mut line = |name: &str, wanted: &dyn Fn(&str) -> bool| {
        let tables: Vec<&Table> =
            results.iter().filter(|(table, result)| wanted(table) && !result.errors.is_empty()).map(|(_, result)| result).collect();
        let mut errors: Vec<f64> = tables.iter().flat_map(|result| result.errors.iter().copied()).collect();
        errors.sort_by(f64::total_cmp);
        let median = (errors[(errors.len() - 1) / 2] + errors[errors.len() / 2]) / 2.0;
        let share = |limit: f64| 100 * errors.iter().filter(|error| **error <= limit).count() / errors.len();
        let row = format!("| {name} | {} | {} | {median:.1} | {} % | {} % |\n", tables.len(), errors.len(), share(10.0), share(25.0));
        text += &row;
    };
    for name in FAMILIES {
        line(name, &|table| family(table) == name);
    }
    line("all", &all);
    text
}

#[test]
fn the_results_are_those_of_the_goldens() {
    let rows = |_: &str| {
        let mut text = "```text\n".to_owned();
        let mut table = vec![
            "table points skipped median(%) p90(%) max(%) bias(%) limits(%) verdict".split(' ').map(str::to_owned).collect::<Vec<_>>(),
        ];
        for result in results().values() {
            // A limit of two numbers is `10 / 20`.
            table.push(result.row.replace(" / ", "/").split_whitespace().map(str::to_owned).collect());
        }
        let width =
            |column: usize| table.iter().filter_map(|row| row.get(column)).map(|word| word.chars().count()).max().unwrap_or_default();
        for row in &table {
            let mut line = format!("{:1$}", row[0], width(0));
            for (column, word) in row.iter().enumerate().skip(1) {
                let width = width(column);
                line += &if column == 8 { format!("  {word}") } else { format!("  {word:>width$}") };
            }
            text += &format!("{line}\n");
        }
        text + "```\n"
    };
    assert_eq!(regions("validation/results.md", "results", rows), 1);
    assert_eq!(regions("validation/results.md", "hit rates", |_| hit_rates()), 1);
    assert_eq!(regions("README.md", "hit rates", |_| hit_rates()), 1);
}
