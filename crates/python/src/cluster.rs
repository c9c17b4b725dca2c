//! Clusters and the catalogue they are made of.

use std::path::PathBuf;
use std::sync::Arc;

use fabriscope_catalog::{Kind, ResolvedCluster};
use pyo3::prelude::*;

use crate::errors::of_catalog;
use crate::prototype::{self, Needs, Trouble};
use crate::waiting::Ending;

/// Parts and clusters: those of the package, with a folder over them.
#[pyclass(frozen, module = "fabriscope")]
pub struct Catalog {
    pub inner: Arc<fabriscope_catalog::Catalog>,
    pub trouble: Trouble,
}

/// The catalogue of the package.
fn built_in(py: Python<'_>) -> PyResult<Arc<fabriscope_catalog::Catalog>> {
    fabriscope::embedded().map(Arc::clone).map_err(|error| of_catalog(py, &error))
}

/// That of the caller, or of the package, and where its prototypes leave their exceptions.
pub fn catalog(py: Python<'_>, given: Option<&Bound<'_, Catalog>>) -> PyResult<(Arc<fabriscope_catalog::Catalog>, Trouble)> {
    match given.map(Bound::get) {
        None => Ok((built_in(py)?, Trouble::default())),
        Some(given) => Ok((Arc::clone(&given.inner), given.trouble.clone())),
    }
}

#[pymethods]
impl Catalog {
    #[new]
    #[pyo3(signature = (folder = None))]
    fn new(py: Python<'_>, folder: Option<PathBuf>) -> PyResult<Catalog> {
        let inner = match folder {
            None => built_in(py)?,
            Some(folder) => Arc::new(fabriscope_catalog::Catalog::load(&folder).map_err(|error| of_catalog(py, &error))?),
        };
        Ok(Catalog { inner, trouble: Trouble::default() })
    }

    /// The same with a congestion control of that name, whose senders are what `make` gives; switches mark as `base` says.
    fn with_congestion(&self, py: Python<'_>, name: &str, base: &str, make: Py<PyAny>, needs: Needs) -> PyResult<Catalog> {
        let prototype = prototype::congestion(make, &needs, self.trouble.clone())?;
        let inner = self.inner.with_congestion(name, base, prototype).map_err(|error| of_catalog(py, &error))?;
        Ok(Catalog { inner: Arc::new(inner), trouble: self.trouble.clone() })
    }

    /// The same with a cluster that comes before all others of its name.
    fn with_cluster(&self, cluster: &Bound<'_, Cluster>) -> Catalog {
        let cluster = cluster.get();
        Catalog { inner: Arc::new(self.inner.with_cluster(cluster.parts.clone())), trouble: self.trouble.joined(&cluster.trouble) }
    }

    /// The kinds of parts.
    #[staticmethod]
    fn kinds() -> Vec<&'static str> {
        Kind::ALL.into_iter().map(Kind::folder).collect()
    }

    /// The names of the parts of a kind, sorted.
    fn names(&self, kind: &str) -> PyResult<Vec<String>> {
        Ok(self.inner.names(kind_of(kind)?).into_iter().map(str::to_owned).collect())
    }

    /// A part as JSON.
    fn part(&self, py: Python<'_>, kind: &str, name: &str) -> PyResult<String> {
        let part = self.inner.part(kind_of(kind)?, name).map_err(|error| of_catalog(py, &error))?;
        Ok(part.to_json().to_string())
    }

    /// The TOML text that a part came from.
    fn text(&self, kind: &str, name: &str) -> PyResult<Option<String>> {
        Ok(self.inner.text_of(kind_of(kind)?, name).map(str::to_owned))
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
    pub trouble: Trouble,
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
        let (catalog, trouble) = crate::cluster::catalog(py, catalog)?;
        let resolved = match text {
            None => catalog.target(target),
            Some(text) => catalog.cluster_from_text(target, text, nodes),
        };
        Ok(Cluster { parts: resolved.map_err(|error| of_catalog(py, &error))?, catalog, trouble })
    }

    /// The same with packets that go where `choose` says, among the ways of its routing.
    fn routed(&self, choose: Py<PyAny>) -> Cluster {
        let route_prototype = Some(prototype::routing(choose, self.trouble.clone()));
        let parts = ResolvedCluster { route_prototype, ..self.parts.clone() };
        Cluster { parts, catalog: Arc::clone(&self.catalog), trouble: self.trouble.clone() }
    }

    /// The catalogue that it was made from.
    #[getter]
    fn catalog(&self) -> Catalog {
        Catalog { inner: Arc::clone(&self.catalog), trouble: self.trouble.clone() }
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

impl Cluster {
    /// Its parts for one call, and what ends it.
    pub fn ended(&self) -> (ResolvedCluster, Ending) {
        let ending = Ending::new(&self.trouble);
        (ResolvedCluster { stop: ending.stop.clone(), ..self.parts.clone() }, ending)
    }
}

/// The catalogue of the caller, or of the package, for one call, and what ends it.
///
/// # Errors
/// A fault in the catalogue of the package; its tests rule that out.
pub fn ended(py: Python<'_>, given: Option<&Bound<'_, Catalog>>) -> PyResult<(fabriscope_catalog::Catalog, Ending)> {
    let (catalog, trouble) = catalog(py, given)?;
    let ending = Ending::new(&trouble);
    Ok((catalog.stopped_by(ending.stop.clone()), ending))
}
