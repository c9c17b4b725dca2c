//! Numbers of a cluster fitted to its owner's measurements, as a file of a cluster of their own.

use std::path::PathBuf;

use fabriscope_catalog::{Catalog, Kind};
use fabriscope_lab::LabError;
use fabriscope_lab::calibrate::{self, Calibrated, Calibration, Fitted};
use fabriscope_report::{Cell, Column, Grid, JobShape, Outcome, Terms, Tolerances};

use crate::ask::catalog;
use crate::error::Error;
use crate::validate::{read, settings, shaped};

/// Fits numbers of `cluster` to the measurements of these files: CSV, or what the tools printed.
#[must_use]
pub fn calibrate<P: Into<PathBuf>>(files: impl IntoIterator<Item = P>, cluster: &str) -> Calibrate<'static> {
    Calibrate {
        catalog: None,
        files: files.into_iter().map(Into::into).collect(),
        cluster: cluster.to_owned(),
        settings: None,
        job: JobShape::default(),
        most: calibrate::MOST,
        long: false,
        seed: 1,
        progress: None,
    }
}

/// A fit to be made; made by [`calibrate()`].
pub struct Calibrate<'a> {
    catalog: Option<&'a Catalog>,
    files: Vec<PathBuf>,
    cluster: String,
    settings: Option<PathBuf>,
    job: JobShape,
    most: usize,
    long: bool,
    seed: u64,
    progress: Option<Box<dyn Fn(usize, usize) + Sync + 'a>>,
}

impl<'a> Calibrate<'a> {
    /// Takes what rows leave open from this TOML file.
    #[must_use]
    pub fn settings(mut self, file: impl Into<PathBuf>) -> Calibrate<'a> {
        self.settings = Some(file.into());
        self
    }
    /// How many nodes jobs of many ranks have where rows do not say it; those of `CLUSTER:N` otherwise.
    #[must_use]
    pub fn nodes(mut self, nodes: u32) -> Calibrate<'a> {
        self.job.nodes = Some(nodes);
        self
    }
    /// How many ranks these have on each node.
    #[must_use]
    pub fn ranks_per_node(mut self, ranks: u32) -> Calibrate<'a> {
        self.job.ranks_per_node = Some(ranks);
        self
    }
    /// Fits at most so many numbers; 14 at most, and by default.
    #[must_use]
    pub fn most(mut self, numbers: usize) -> Calibrate<'a> {
        self.most = numbers;
        self
    }
    /// Also runs rows that take minutes.
    #[must_use]
    pub fn with_long_rows(mut self) -> Calibrate<'a> {
        self.long = true;
        self
    }
    /// Seed of everything random; 1 by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Calibrate<'a> {
        self.seed = seed;
        self
    }
    /// Hears how many simulations of about how many are done.
    #[must_use]
    pub fn progress(mut self, progress: impl Fn(usize, usize) + Sync + 'a) -> Calibrate<'a> {
        self.progress = Some(Box::new(progress));
        self
    }
    /// Parts and clusters of this catalogue.
    #[must_use]
    pub fn catalog(mut self, catalog: &'a Catalog) -> Calibrate<'a> {
        self.catalog = Some(catalog);
        self
    }

    /// Fits them. The outcome's draft, which a TOML file gets, is the cluster with the fitted numbers.
    ///
    /// # Errors
    /// A file that cannot be read, no such cluster, no row that can be compared.
    pub fn outcome(self) -> Result<Outcome, Error> {
        let catalog = catalog(self.catalog)?;
        let files = self.files.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
        let settings = self.settings.as_deref().map(settings).transpose()?.unwrap_or_default();
        let job = shaped(self.job, Some(&self.cluster));
        let terms = Terms { tolerances: Tolerances::default(), settings, job };
        let text = text_of(catalog, &self.cluster)?;
        let (on, text, most, long, seed) = (self.cluster.as_str(), text, self.most, self.long, self.seed);
        let asked = Calibration { catalog, on, text: text.clone(), files: &files, terms: &terms, most, long, seed };
        let heard = |done: usize, all: usize| {
            if let Some(progress) = &self.progress {
                progress(done, all);
            }
        };
        let found = calibrate::calibrate(&asked, &heard)?;
        let mut outcome = shown(&found);
        outcome.begin(calibrate::overlay(catalog, on, &text, &found));
        Ok(outcome)
    }
}

/// The text of the file of a cluster.
fn text_of(catalog: &Catalog, target: &str) -> Result<String, Error> {
    let name = target.rsplit_once(':').map_or(target, |(name, _)| name);
    let known = [target, name].into_iter().find_map(|name| catalog.text_of(Kind::Cluster, name));
    if let Some(text) = known {
        return Ok(text.to_owned());
    }
    let read = [target, name].into_iter().find_map(|path| std::fs::read_to_string(path).ok());
    Ok(read.ok_or_else(|| {
        LabError::refused(format!("there is no cluster `{target}`"), "`fabriscope clusters` lists them; or give a TOML file")
    })?)
}

fn shown(found: &Calibrated) -> Outcome {
    let mut numbers = Grid::new([
        Column::words("part", "part"),
        Column::words("number", "field"),
        Column::number("before", "before"),
        Column::number("fitted", "fitted"),
        Column::number("95 % from", "low"),
        Column::number("to", "high"),
        Column::words("", "remark"),
    ]);
    for Fitted { change, before, interval, at_limit } in &found.fitted {
        numbers.push([
            Cell::word(change.part.clone()),
            Cell::word(change.field.clone()),
            Cell::word(before.clone()),
            Cell::word(change.value.clone()),
            Cell::word(interval.0.clone()),
            Cell::word(interval.1.clone()),
            if *at_limit { Cell::word("at its limit") } else { Cell::blank() },
        ]);
    }
    let mut alike =
        Grid::new([Column::words("not told apart", "number"), Column::words("from", "like"), Column::number("cosine", "cosine")]);
    for one in &found.alike {
        alike.push([Cell::word(one.number.clone()), Cell::word(one.like.clone()), Cell::number(one.cosine, 2)]);
    }
    let mut tables = Grid::new([
        Column::words("table", "table"),
        Column::number("points", "points"),
        Column::number("median before (%)", "before").unit("%"),
        Column::number("after (%)", "after").unit("%"),
        Column::number("left out (%)", "held_out").unit("%"),
    ]);
    for table in &found.tables {
        let cells = [
            Cell::word(table.table.clone()),
            Cell::count(table.points),
            Cell::number(table.before, 1),
            Cell::number(table.after, 1),
            Cell::number(table.held_out, 1),
        ];
        if table.table == "all" { tables.foot(cells) } else { tables.push(cells) }
    }
    let mut outcome = Outcome::new();
    outcome.keyed_table("numbers", numbers).text("\n");
    if !found.alike.is_empty() {
        outcome.keyed_table("alike", alike).text("\n");
    }
    outcome.keyed_table("tables", tables).text("\n");
    let told = format!(
        "{} of {} numbers that move a point are fitted, in {} simulations",
        found.fitted.len(),
        found.candidates,
        found.simulations
    );
    outcome.note(told);
    outcome.note("left out: each fifth of the points predicted by the other four, with the derivatives at the end");
    for (reason, rows) in &found.skipped {
        outcome.note(format!("{rows} rows are not compared: {reason}"));
    }
    outcome.note("-o FILE.toml writes the cluster with the fitted numbers");
    outcome.set("candidates", found.candidates).set("simulations", found.simulations);
    outcome
}
