//! Is a measured table normal, and if not, what is most probably wrong; what changed between two tables.

use std::path::{Path, PathBuf};

use fabriscope_catalog::Catalog;
use fabriscope_diagnose::{Case, compare, diagnose as diagnosed, normal::known_errors, show};
use fabriscope_report::{JobShape, Outcome, Terms, Tolerances};

use crate::ask::catalog;
use crate::error::Error;
use crate::validate::{read, settings, shaped};

/// Whether the measurements of this file are normal for the cluster, and what is wrong if they are not.
#[must_use]
pub fn diagnose(file: impl Into<PathBuf>) -> Diagnose<'static> {
    Diagnose { file: file.into(), before: None, settings: None, on: None, catalog: None, seed: None, progress: None }
}

/// A diagnosis, to be made; made by [`diagnose()`].
pub struct Diagnose<'a> {
    file: PathBuf,
    before: Option<PathBuf>,
    settings: Option<PathBuf>,
    on: Option<String>,
    catalog: Option<&'a Catalog>,
    seed: Option<u64>,
    progress: Option<Box<dyn Fn(usize, usize) + Sync + 'a>>,
}

impl<'a> Diagnose<'a> {
    /// The cluster as it should be; each row's own where nothing is said.
    #[must_use]
    pub fn on(mut self, cluster: &str) -> Diagnose<'a> {
        self.on = Some(cluster.to_owned());
        self
    }
    /// Asks what changed since the measurements of this file, which are of the same run.
    #[must_use]
    pub fn after(mut self, before: impl Into<PathBuf>) -> Diagnose<'a> {
        self.before = Some(before.into());
        self
    }
    /// Takes what rows leave open from this TOML file, as [`crate::validate()`] does.
    #[must_use]
    pub fn settings(mut self, file: impl Into<PathBuf>) -> Diagnose<'a> {
        self.settings = Some(file.into());
        self
    }
    /// Seed of everything random; 1 by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Diagnose<'a> {
        self.seed = Some(seed);
        self
    }
    /// Hears how many hypotheses of all are simulated.
    #[must_use]
    pub fn progress(mut self, progress: impl Fn(usize, usize) + Sync + 'a) -> Diagnose<'a> {
        self.progress = Some(Box::new(progress));
        self
    }
    /// Parts and clusters of this catalogue.
    #[must_use]
    pub fn catalog(mut self, catalog: &'a Catalog) -> Diagnose<'a> {
        self.catalog = Some(catalog);
        self
    }

    /// Makes it.
    ///
    /// # Errors
    /// A file that cannot be read, no such cluster, no row that can be run.
    pub fn outcome(self) -> Result<Outcome, Error> {
        let catalog = catalog(self.catalog)?;
        let table = read(&self.file)?;
        let before = self.before.as_deref().map(read).transpose()?;
        let settings = self.settings.as_deref().map(settings).transpose()?.unwrap_or_default();
        let terms = Terms { tolerances: Tolerances::default(), settings, job: shaped(JobShape::default(), self.on.as_deref()) };
        let on = self.on.as_deref().map(|text| catalog.target_alike(text)).transpose()?;
        let errors = known_errors();
        let heard = |done: usize, all: usize| {
            if let Some(progress) = &self.progress {
                progress(done, all);
            }
        };
        let seed = self.seed.unwrap_or(1);
        let case = Case { catalog, on, terms: &terms, errors: &errors, seed, progress: &heard };
        let name = |path: &Path| path.display().to_string();
        match before {
            None => Ok(show::diagnosis(&diagnosed(&case, &table)?, &name(&self.file), catalog)),
            Some(before) => {
                let found = compare(&case, &before, &table)?;
                Ok(show::compared(&found, before.name(), table.name(), catalog))
            }
        }
    }
}
