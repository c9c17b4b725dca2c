//! Published rows of the same run: cluster, program, options, nodes, ranks, library.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use fabriscope_catalog::Catalog;
use fabriscope_lab::bench::{BenchRun, Stack};
use fabriscope_lab::{prediction, published};
use fabriscope_report::figure::Unit;
use fabriscope_report::question::{Quantity, Question, Requested, ask};
use fabriscope_tools::{PerNode, Ranks, Suite};

use crate::error::Error;

/// A curve of a published table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    /// The words of the legend.
    pub name: String,
    /// The name of the quantity as the program prints it.
    pub metric: String,
    /// The unit of the values.
    pub unit: Unit,
    /// Size and value.
    pub points: Vec<(f64, f64)>,
}

/// A published value of a run.
#[derive(Debug)]
struct Value {
    question: Question,
    table: String,
    variant: String,
    metric: &'static str,
    unit: Unit,
    size: f64,
    value: f64,
}

/// Published values by cluster, read once: each run of a cluster looks at them, and reading takes longer than many runs.
static READ: Mutex<BTreeMap<String, Arc<[Value]>>> = Mutex::new(BTreeMap::new());

/// The values that were published of a cluster.
fn values(cluster: &str) -> Result<Arc<[Value]>, Error> {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(values) = read.get(cluster) {
        return Ok(Arc::clone(values));
    }
    let mut values = Vec::new();
    for measured in published::tables_with(cluster)? {
        for row in measured.rows().iter().filter(|row| row.cluster == cluster) {
            let Ok(Requested::Run(question, quantity)) = ask(&measured, row) else { continue };
            let Some(size) = row.message_bytes.filter(|size| *size > 0) else { continue };
            let (metric, unit, value) = match quantity {
                Quantity::Latency { us } => ("latency", Unit::Seconds, row.value * us * 1e-6),
                Quantity::Bandwidth { bytes_per_s } => ("bandwidth", Unit::BytesPerSecond, row.value * bytes_per_s),
                Quantity::MessageRate { per_s } => ("message_rate", Unit::PerSecond, row.value * per_s),
                Quantity::Share { .. } | Quantity::OfLine { .. } => continue,
            };
            let metric = question.column.unwrap_or(metric);
            let (table, variant) = (row.table.clone(), row.variant.clone());
            values.push(Value { question, table, variant, metric, unit, size: size as f64, value });
        }
    }
    let values: Arc<[Value]> = values.into();
    // The catalogue's clusters have tables; names of others are without end.
    if !values.is_empty() {
        read.insert(cluster.to_owned(), Arc::clone(&values));
    }
    Ok(values)
}

/// The curves that were published of this run.
pub(super) fn of(catalog: &Catalog, done: &BenchRun) -> Result<Vec<Table>, Error> {
    let mut found: BTreeMap<(&str, &str, &str), Table> = BTreeMap::new();
    let values = values(&done.setup.parts().name)?;
    for value in values.iter().filter(|value| is_the_same(catalog, done, &value.question)) {
        let words = if value.variant.is_empty() { value.table.clone() } else { format!("{}: {}", value.table, value.variant) };
        let name = format!("published, {words}");
        let table = Table { name, metric: value.metric.to_owned(), unit: value.unit, points: Vec::new() };
        found.entry((&value.table, &value.variant, value.metric)).or_insert(table).points.push((value.size, value.value));
    }
    let mut tables: Vec<Table> = found.into_values().collect();
    tables.iter_mut().for_each(|table| table.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    // Gb/s of a program that prints them.
    let bits = done.printed.points.iter().any(|point| point.unit == "Gb/s");
    for table in tables.iter_mut().filter(|table| bits && table.unit == Unit::BytesPerSecond) {
        table.unit = Unit::BitsPerSecond;
        table.points.iter_mut().for_each(|point| point.1 *= 8.0);
    }
    Ok(tables)
}

/// Whether a row's run is this one, but for its size.
fn is_the_same(catalog: &Catalog, done: &BenchRun, question: &Question) -> bool {
    let request = done.setup.request();
    if question.tool != request.tool.name() || request.stack != Stack::Library {
        return false;
    }
    let parts = done.setup.parts();
    let traits = request.tool.traits();
    let (nodes, ranks) = match (done.layout(), traits.ranks) {
        (Some(layout), Ranks::Two | Ranks::TwoOnOneNode) => (layout.nodes, 2),
        (Some(layout), _) => (layout.nodes, layout.nodes * layout.per_node),
        (None, Ranks::Pairs) => (2, 2 * pairs(&request.options)),
        (None, _) => (question.nodes.min(2), 2),
    };
    if question.nodes != nodes || (question.ranks != ranks && !matches!(traits.ranks, Ranks::Job(PerNode::One))) {
        return false;
    }
    let own = parts.uniform().map(|group| group.software.name.as_str());
    let library = question.software.as_deref().map(|name| prediction::library(catalog, parts, name).map(|part| part.name.as_str()));
    let same_library = library.is_none_or(|library| library == own);
    same_library && run_options(traits.suite, &question.options) == run_options(traits.suite, &request.options)
}

/// The number of pairs that the options ask for.
fn pairs(options: &[String]) -> u32 {
    let given = options.iter().position(|option| option == "--pairs").and_then(|at| options.get(at + 1));
    given.and_then(|pairs| pairs.parse().ok()).unwrap_or(1)
}

/// Options in order, without those that say sizes and how often.
fn run_options(suite: Suite, options: &[String]) -> Vec<&str> {
    let ignored: &[&str] = match suite {
        Suite::Perftest => &["-s", "-n", "--size", "--iters"],
        Suite::NcclTests => &["-b", "-e", "-f", "-i", "-n", "-w", "-c", "-g", "-t"],
        _ => &["-m", "-i", "-x", "-msglog", "-iter", "--pairs"],
    };
    let mut kept = Vec::new();
    let mut rest = options.iter().map(String::as_str);
    while let Some(option) = rest.next() {
        if ignored.contains(&option) {
            rest.next();
        } else if !(suite == Suite::Perftest && (option == "-a" || option == "-F")) {
            kept.push(option);
        }
    }
    kept.sort_unstable();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_iterations_are_no_part_of_what_runs() {
        let options = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(run_options(Suite::Perftest, &options("-a -F -q 4 -n 100")), ["-q", "4"]);
        assert_eq!(run_options(Suite::Omb, &options("-m 8:64 D D")), ["D", "D"]);
        assert_eq!(pairs(&options("--pairs 8 -m 8:8")), 8);
    }
}
