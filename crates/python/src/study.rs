//! Studies: on the cores of this process, or point by point for an executor of the caller.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fabriscope_study::{Plan, Store};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::cluster::Catalog;
use crate::errors::raised;
use crate::outcome::Outcome;
use crate::waiting::{Ending, answer};

/// Where a study is, and where its data go, as keyword arguments.
#[derive(FromPyObject)]
pub struct Places {
    #[pyo3(item)]
    study: PathBuf,
    #[pyo3(item)]
    folder: Option<PathBuf>,
    #[pyo3(item)]
    cache: Option<PathBuf>,
}

impl Places {
    fn question(self) -> fabriscope::Sweep<'static> {
        let mut question = fabriscope::sweep(self.study);
        question = self.folder.into_iter().fold(question, fabriscope::Sweep::folder);
        self.cache.into_iter().fold(question, fabriscope::Sweep::kept)
    }
}

/// Runs a study on the cores of this machine; an interrupt finishes the points that run.
#[pyfunction]
#[pyo3(signature = (places, jobs, catalog = None, progress = None))]
pub fn sweep(
    py: Python<'_>,
    places: Places,
    jobs: usize,
    catalog: Option<&Bound<'_, Catalog>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Outcome> {
    let (catalog, trouble) = crate::cluster::catalog(py, catalog)?;
    let ending = Ending::new(&trouble);
    let stop = ending.stop.clone();
    let done = answer(py, progress, ending, move |heard| {
        places.question().jobs(jobs).progress(move |at| heard(at.done, at.all)).catalog(&catalog).outcome(&stop)
    })?;
    done.map(Outcome).map_err(|error| raised(py, &error))
}

/// A study whose points the caller runs.
#[pyclass(frozen, module = "fabriscope")]
pub struct Study {
    plan: Plan,
    store: Mutex<Store>,
    before: usize,
}

#[pymethods]
impl Study {
    #[new]
    #[pyo3(signature = (places, catalog = None))]
    fn new(py: Python<'_>, places: Places, catalog: Option<&Bound<'_, Catalog>>) -> PyResult<Study> {
        let (catalog, _) = crate::cluster::catalog(py, catalog)?;
        let (plan, mut store) = py.detach(|| places.question().catalog(&catalog).open()).map_err(|error| raised(py, &error))?;
        store.finish(&plan).map_err(|error| raised(py, &error.into()))?;
        let before = store.count();
        Ok(Study { plan, store: Mutex::new(store), before })
    }
    fn __len__(&self) -> usize {
        self.plan.len()
    }
    /// The points that are not known yet, in order.
    fn missing(&self) -> Vec<usize> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).missing(&self.plan)
    }
    /// What people call a point.
    fn describe(&self, point: usize) -> String {
        self.plan.describe(point)
    }
    /// Takes the result that `work` made of a point.
    fn take(&self, py: Python<'_>, point: usize, text: &str) -> PyResult<()> {
        if point >= self.plan.len() {
            return Err(PyIndexError::new_err(format!("there is no point {point} among {}", self.plan.len())));
        }
        let taken = py.detach(|| self.store.lock().unwrap_or_else(PoisonError::into_inner).take(&self.plan, point, text));
        taken.map_err(|error| raised(py, &error.into()))
    }
    /// How many points are known.
    fn known(&self) -> usize {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).count()
    }
    /// What the study came to.
    fn outcome(&self) -> Outcome {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        Outcome(fabriscope_study::sweep::outcome(&self.plan, &store, self.before))
    }
}

/// The plan that this process ran points of last: an executor gives it many of one study.
static LAST: Mutex<Option<(String, Arc<Plan>)>> = Mutex::new(None);

/// Runs a point of a study, in whatever process; gives the text that [`Study::take`] takes.
#[pyfunction]
#[pyo3(signature = (study, folder, point))]
pub fn work(py: Python<'_>, study: PathBuf, folder: Option<PathBuf>, point: usize) -> PyResult<String> {
    py.detach(|| {
        let plan = plan_of(&study, folder.as_deref())?;
        let key = plan.key(point).map_err(fabriscope::Error::from)?;
        Ok(plan.run(point).to_text(&key))
    })
    .map_err(|error: fabriscope::Error| raised(py, &error))
}

fn plan_of(study: &Path, folder: Option<&Path>) -> Result<Arc<Plan>, fabriscope::Error> {
    let text = std::fs::read_to_string(study).unwrap_or_default();
    let name = format!("{}\n{folder:?}\n{text}", study.display());
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, plan)) = last.as_ref().filter(|(known, _)| *known == name) {
        return Ok(Arc::clone(plan));
    }
    let catalog = match folder {
        Some(folder) => Arc::new(fabriscope_catalog::Catalog::load(folder)?),
        None => Arc::clone(fabriscope::embedded()?),
    };
    let read = fabriscope_study::Study::read(study).map_err(fabriscope::Error::from)?;
    let beside = study.parent().unwrap_or(Path::new(""));
    let plan = Plan::bare(&catalog, &read, &study.display().to_string(), beside).map_err(fabriscope::Error::from)?;
    let plan = Arc::new(plan);
    *last = Some((name, Arc::clone(&plan)));
    Ok(plan)
}
