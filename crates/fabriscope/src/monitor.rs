//! A lab watched while it runs, as operators watch a machine.

use std::path::PathBuf;

use fabriscope_catalog::Catalog;
use fabriscope_lab::LabError;
use fabriscope_lab::monitor::MonitorSettings;
use fabriscope_report::Outcome;
use fabriscope_report::monitor::{self, Monitor};
use fabriscope_units::{Remedy, Span};

use crate::ask::catalog;
use crate::error::Error;

/// Watches a lab of one run, or the jobs of `[workload.jobs]` together: links, jobs, waiting, retries over time.
#[must_use]
pub fn monitor(lab: impl Into<PathBuf>) -> Watching<'static> {
    Watching { catalog: None, lab: lab.into(), settings: MonitorSettings::default(), top: 10, drawn: false }
}

/// A lab to be watched; made by [`monitor()`].
#[derive(Debug, Clone)]
pub struct Watching<'a> {
    catalog: Option<&'a Catalog>,
    lab: PathBuf,
    settings: MonitorSettings,
    top: usize,
    drawn: bool,
}

impl<'a> Watching<'a> {
    /// Seed of everything random; the lab's by default.
    #[must_use]
    pub fn seed(mut self, seed: Option<u64>) -> Watching<'a> {
        self.settings.seed = seed;
        self
    }
    /// Cores for the run; the result does not depend on it.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Watching<'a> {
        self.settings.threads = threads.max(1);
        self
    }
    /// The length of the first intervals, such as `10us`; 1 us by default.
    ///
    /// # Errors
    /// No time, or none at all.
    pub fn every(mut self, every: &str) -> Result<Watching<'a>, Error> {
        let told = |help: String| LabError::refused(format!("intervals of `{every}`"), help);
        let span = Span::parse(every).map_err(|error| told(error.in_full()))?;
        if span == Span::ZERO {
            return Err(told("write a time such as 10us".to_owned()).into());
        }
        self.settings.every = span;
        Ok(self)
    }
    /// At most so many intervals, at least 2; 512 by default. They double in length when there would be more.
    #[must_use]
    pub fn samples(mut self, most: u32) -> Watching<'a> {
        self.settings.most = most.max(2);
        self
    }
    /// So many links in each view; 10 by default.
    #[must_use]
    pub fn top(mut self, top: usize) -> Watching<'a> {
        self.top = top;
        self
    }
    /// Adds pictures of links and jobs over time.
    #[must_use]
    pub fn drawn(mut self) -> Watching<'a> {
        self.drawn = true;
        self
    }
    /// Parts and clusters of this catalogue.
    #[must_use]
    pub fn catalog<'b>(self, catalog: &'b Catalog) -> Watching<'b>
    where
        'a: 'b,
    {
        Watching { catalog: Some(catalog), ..self }
    }

    /// Runs it: what was counted, for the forms and files of `fabriscope_report::monitor`.
    ///
    /// # Errors
    /// A fault in the file, a lab with several runs, or what the engine does not do.
    pub fn watch(&self) -> Result<Monitor, Error> {
        let catalog = catalog(self.catalog)?;
        let lab = fabriscope_lab::load(catalog, &self.lab)?;
        Ok(fabriscope_lab::monitor::monitor(catalog, &lab, &self.settings)?)
    }

    /// Runs it: the views.
    ///
    /// # Errors
    /// As [`Watching::watch`].
    pub fn outcome(&self) -> Result<Outcome, Error> {
        Ok(self.shown(&self.watch()?))
    }

    /// The views of what was watched.
    #[must_use]
    pub fn shown(&self, watched: &Monitor) -> Outcome {
        let mut outcome = monitor::outcome(watched, self.top);
        if self.drawn {
            for figure in monitor::figures(watched, self.top) {
                outcome.draw(figure);
            }
        }
        outcome
    }
}
