//! Studies: many points, kept as they are done.

use std::path::{Path, PathBuf};

use fabriscope_catalog::{Catalog, Stop};
use fabriscope_lab::LabError;
use fabriscope_report::Outcome;
use fabriscope_study::sweep::{self, Progress};
use fabriscope_study::{Plan, Store, Study};

use crate::ask::catalog;
use crate::error::Error;

/// All points of a study file: `sweep("study.toml")`.
#[must_use]
pub fn sweep(study: impl Into<PathBuf>) -> Sweep<'static> {
    Sweep { catalog: None, study: study.into(), folder: None, kept: None, jobs: 0, drawn: false, progress: None }
}

/// A study, to be run; made by [`sweep()`].
pub struct Sweep<'a> {
    catalog: Option<&'a Catalog>,
    study: PathBuf,
    folder: Option<PathBuf>,
    kept: Option<PathBuf>,
    jobs: usize,
    drawn: bool,
    progress: Option<Box<dyn FnMut(Progress) + 'a>>,
}

impl<'a> Sweep<'a> {
    /// The folder of the Parquet data set; that of the study with `.parquet` in the place of `.toml` by default.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Sweep<'a> {
        self.folder = Some(folder.into());
        self
    }
    /// The folder of kept results, which studies may share; inside of the data set by default.
    #[must_use]
    pub fn kept(mut self, folder: impl Into<PathBuf>) -> Sweep<'a> {
        self.kept = Some(folder.into());
        self
    }
    /// Cores to use; all by default.
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> Sweep<'a> {
        self.jobs = jobs;
        self
    }
    /// Adds the curves of its points.
    #[must_use]
    pub fn drawn(mut self) -> Sweep<'a> {
        self.drawn = true;
        self
    }
    /// Hears of every point.
    #[must_use]
    pub fn progress(mut self, progress: impl FnMut(Progress) + 'a) -> Sweep<'a> {
        self.progress = Some(Box::new(progress));
        self
    }
    /// Parts and clusters of this catalogue.
    #[must_use]
    pub fn catalog(mut self, catalog: &'a Catalog) -> Sweep<'a> {
        self.catalog = Some(catalog);
        self
    }

    /// Its points, and the store that knows which of them are done: for a caller that runs them elsewhere.
    ///
    /// # Errors
    /// A study that cannot be read, folders that cannot be made.
    pub fn open(&self) -> Result<(Plan, Store), Error> {
        let catalog = catalog(self.catalog)?;
        if catalog.has_prototypes() {
            let what = "a study with a prototype of a congestion control: results are kept by the content of what they come from";
            return Err(LabError::refused(what, "run its points one by one, or make it a file of the library (docs/research.md)").into());
        }
        let study = Study::read(&self.study)?;
        let beside = self.study.parent().unwrap_or(Path::new(""));
        let plan = Plan::new(catalog, &study, &self.study.display().to_string(), beside)?;
        let folder = self.folder.clone().unwrap_or_else(|| self.study.with_extension("parquet"));
        let kept = self.kept.clone().unwrap_or_else(|| sweep::kept_beside(&folder));
        let store = Store::open(&plan, &folder, &kept)?;
        Ok((plan, store))
    }

    /// Runs what is not done. When `stop` is set, points that run are finished and kept, and no other begins.
    ///
    /// # Errors
    /// A study that cannot be read, files that cannot be written.
    pub fn outcome(mut self, stop: &Stop) -> Result<Outcome, Error> {
        let (plan, mut store) = self.open()?;
        let mut heard = self.progress.take();
        let mut progress = |progress| {
            if let Some(heard) = &mut heard {
                heard(progress);
            }
        };
        let mut outcome = sweep::run(&plan, &mut store, self.jobs, stop, &mut progress)?;
        if self.drawn {
            for figure in crate::picture::study(&plan, &store) {
                outcome.draw(figure);
            }
        }
        Ok(outcome)
    }
}
