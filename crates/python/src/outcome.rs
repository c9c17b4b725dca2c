//! What a question was answered with: data, tables, text.

use fabriscope_report::render::{Csv, Renderer, Svg, Text};
use fabriscope_report::{Grid, Verdict};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::exception;

/// What a command found.
#[pyclass(frozen, module = "fabriscope")]
pub struct Outcome(pub fabriscope_report::Outcome);

#[pymethods]
impl Outcome {
    /// What the program prints.
    fn text(&self, py: Python<'_>) -> PyResult<String> {
        Text.render(&self.0).map_err(|error| exception(py, "FabriscopeError", &error))
    }
    /// All that programs read, as JSON text.
    fn json(&self) -> String {
        format!("{:#}\n", self.0.data())
    }
    /// The tables as CSV.
    fn csv(&self, py: Python<'_>) -> PyResult<String> {
        Csv.render(&self.0).map_err(|error| exception(py, "FabriscopeError", &error))
    }
    /// The picture, where there is something to draw.
    fn svg(&self) -> Option<String> {
        Svg.render(&self.0).ok()
    }
    /// Whether what was checked holds.
    #[getter]
    fn good(&self) -> bool {
        self.0.verdict() == Verdict::Good
    }
    /// The TOML file to go on from, where there is one.
    #[getter]
    fn draft(&self) -> Option<&str> {
        self.0.draft()
    }
    /// The tables, in order; those of flows and of series come last.
    fn tables(&self) -> Vec<Table> {
        self.0.tables().chain(self.0.records()).filter(|grid| grid.keys().next().is_some()).map(|grid| Table(grid.clone())).collect()
    }
    /// The table of that name.
    fn table(&self, name: &str) -> PyResult<Table> {
        let tables = self.tables();
        let names: Vec<String> = tables.iter().map(|table| table.0.name().to_owned()).collect();
        let missing = || PyKeyError::new_err(format!("there is no table `{name}`; the tables are {}", names.join(", ")));
        tables.into_iter().find(|table| table.0.name() == name).ok_or_else(missing)
    }
}

/// A table: columns with names and units.
#[pyclass(frozen, module = "fabriscope")]
pub struct Table(pub Grid);

#[pymethods]
impl Table {
    /// Its name; empty where it has none.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }
    /// The names of its columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.keys().map(str::to_owned).collect()
    }
    /// The units of its columns, where the names do not say them.
    #[getter]
    fn units(&self) -> Vec<Option<&'static str>> {
        self.0.data_columns().map(fabriscope_report::Column::unit_of).collect()
    }
    /// Its rows as JSON text: a list of objects.
    fn json(&self) -> String {
        self.0.json().to_string()
    }
    /// What people read.
    fn text(&self) -> String {
        self.0.text()
    }
    fn __len__(&self) -> usize {
        self.0.rows().len()
    }
    /// The Arrow stream of its rows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(&self, py: Python<'py>, requested_schema: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyCapsule>> {
        // A reader that asks for other types converts them itself, as the protocol allows.
        let _ = requested_schema;
        crate::arrow::capsule(py, &self.0)
    }
}
