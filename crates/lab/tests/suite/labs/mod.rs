//! Labs as texts: read, run, and what their rows say.

use std::sync::OnceLock;

use fabriscope_catalog::{Catalog, CatalogError};
use fabriscope_engine::Run;
use fabriscope_lab::run::{LabRun, RunSettings, run};
use fabriscope_lab::{ResolvedLab, parse};
use serde_json::Value;

/// The catalogue, read once.
pub fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::embedded().unwrap())
}

pub fn read(text: &str) -> Result<ResolvedLab, CatalogError> {
    parse(catalog(), "lab.toml", text)
}

pub fn resolved(text: &str) -> ResolvedLab {
    read(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A lab of so many hosts on one switch; `keys` stand in front of its tables.
pub fn hosts(hosts: u32, keys: &str, workload: &str) -> String {
    format!("{keys}\n[cluster]\nbase = \"lab-16\"\nnodes = {hosts}\n[workload.{workload}\n")
}

/// A lab with one run.
pub fn one(text: &str) -> Run {
    match run(catalog(), &resolved(text), &RunSettings::default()).unwrap_or_else(|error| panic!("{error}\n{text}")) {
        LabRun::One(single) => single.run,
        LabRun::Sweep(_) => panic!("a sweep: {text}"),
    }
}

/// The rows of a table of a sweep.
pub fn rows(text: &str, table: &str) -> Vec<Value> {
    match run(catalog(), &resolved(text), &RunSettings::default()).unwrap_or_else(|error| panic!("{error}\n{text}")) {
        LabRun::One(_) => panic!("one run: {text}"),
        LabRun::Sweep(outcome) => outcome.get(table).and_then(Value::as_array).unwrap_or_else(|| panic!("no {table}: {text}")).clone(),
    }
}

/// A number of a row.
pub fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("no number `{key}` in {row}"))
}
