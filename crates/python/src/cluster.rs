//! Clusters and the catalogue they are made of.

use std::path::PathBuf;
use std::sync::Arc;

use fabriscope_catalog::{Kind, ResolvedCluster};
use pyo3::prelude::*;

use crate::errors::of_catalog;

/// Parts and clusters: those of the package, with a folder over them.
#[pyclass(frozen, module = "fabriscope")]
pub struct Catalog(Arc<fabriscope_catalog::Catalog>);

/// The catalogue of the package.
fn built_in(py: Python<'_>) -> PyResult<Arc<fabriscope_catalog::Catalog>> {
    fabriscope::embedded().map(Arc::clone).map_err(|error| of_catalog(py, &error))
}

/// That of the caller, or of the package.
pub fn catalog(py: Python<'_>, given: Option<&Bound<'_, Catalog>>) -> PyResult<Arc<fabriscope_catalog::Catalog>> {
    given.map_or_else(|| built_in(py), |given| Ok(Arc::clone(&given.get().0)))
}

#[pymethods]
impl Catalog {
    #[new]
    #[pyo3(signature = (folder = None))]
    fn new(py: Python<'_>, folder: Option<PathBuf>) -> PyResult<Catalog> {
        match folder {
            None => built_in(py).map(Catalog),
            Some(folder) => {
                let read = fabriscope_catalog::Catalog::load(&folder).map_err(|error| of_catalog(py, &error))?;
                Ok(Catalog(Arc::new(read)))
            }
        }
    }

    /// The kinds of parts.
    #[staticmethod]
    fn kinds() -> Vec<&'static str> {
        Kind::ALL.into_iter().map(Kind::folder).collect()
    }

    /// The names of the parts of a kind, sorted.
    fn names(&self, kind: &str) -> PyResult<Vec<String>> {
        Ok(self.0.names(kind_of(kind)?).into_iter().map(str::to_owned).collect())
    }

    /// A part as JSON.
    fn part(&self, py: Python<'_>, kind: &str, name: &str) -> PyResult<String> {
        let part = self.0.part(kind_of(kind)?, name).map_err(|error| of_catalog(py, &error))?;
        Ok(part.to_json().to_string())
    }

    /// The TOML text that a part came from.
    fn text(&self, kind: &str, name: &str) -> PyResult<Option<String>> {
        Ok(self.0.text_of(kind_of(kind)?, name).map(str::to_owned))
    }
}

fn kind_of(word: &str) -> PyResult<Kind> {
    Kind::of_folder(word).ok_or_else(|| {
        let known: Vec<&str> = Kind::ALL.into_iter().map(Kind::folder).collect();
        pyo3::exceptions::PyValueError::new_err(format!("there is no kind of part `{word}`; use one of {}", known.join(", ")))
    })
}

/// A cluster with all its parts.
#[pyclass(frozen, module = "fabriscope")]
pub struct Cluster {
    pub parts: ResolvedCluster,
    pub catalog: Arc<fabriscope_catalog::Catalog>,
}

#[pymethods]
impl Cluster {
    /// A cluster by what stands behind `--on`, or from the text of a TOML file.
    #[new]
    #[pyo3(signature = (target, *, text = None, nodes = None, catalog = None))]
    fn new(
        py: Python<'_>,
        target: &str,
        text: Option<&str>,
        nodes: Option<u32>,
        catalog: Option<&Bound<'_, Catalog>>,
    ) -> PyResult<Cluster> {
        let catalog = crate::cluster::catalog(py, catalog)?;
        let resolved = match text {
            None => catalog.target(target),
            Some(text) => catalog.cluster_from_text(target, text, nodes),
        };
        Ok(Cluster { parts: resolved.map_err(|error| of_catalog(py, &error))?, catalog })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.parts.name
    }

    /// What it is, in a line.
    #[getter]
    fn title(&self) -> &str {
        &self.parts.title
    }

    /// How many nodes it has.
    #[getter]
    fn nodes(&self) -> u32 {
        self.parts.nodes()
    }

    /// All its parts as JSON.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string(&self.parts).map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))
    }

    fn __repr__(&self) -> String {
        format!("Cluster({:?}, nodes={})", self.parts.name, self.parts.nodes())
    }
}
