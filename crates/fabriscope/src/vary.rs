//! Which numbers of the catalogue matter: each a little smaller and a little larger, and what that moves.

use fabriscope_catalog::{Basis, Catalog};
use fabriscope_lab::sensitivity::{Sensitivity as Found, Variation, vary};
use fabriscope_report::{Cell, Column, Grid, Outcome};

use crate::ask::catalog;
use crate::error::Error;

/// How far predictions on these clusters move when numbers that nobody measured are others; on some usual clusters if none is named.
#[must_use]
pub fn sensitivity<S: Into<String>>(clusters: impl IntoIterator<Item = S>) -> Sensitivity<'static> {
    let clusters: Vec<String> = clusters.into_iter().map(Into::into).collect();
    let clusters = if clusters.is_empty() { USUAL.map(str::to_owned).into() } else { clusters };
    let variation = Variation { clusters, bases: vec![Basis::Assumed], percent: 25, seed: 1 };
    Sensitivity { catalog: None, variation, top: usize::MAX, progress: None }
}

/// Clusters of each interface and each vendor of GPUs. Basis: assumed; those with published tables.
const USUAL: [&str; 6] = ["ri2", "alaska-roce25", "csd3-opa", "aws-c5n-efa", "olivia-gh200-ss11", "azure-nda100v4"];

/// Numbers to be varied; made by [`sensitivity`].
pub struct Sensitivity<'a> {
    catalog: Option<&'a Catalog>,
    variation: Variation,
    top: usize,
    progress: Option<Box<dyn Fn(usize, usize) + Sync + 'a>>,
}

impl<'a> Sensitivity<'a> {
    /// Varies the numbers of these bases; those that are assumed, where nothing is said.
    #[must_use]
    pub fn bases(mut self, bases: impl IntoIterator<Item = Basis>) -> Sensitivity<'a> {
        self.variation.bases = bases.into_iter().collect();
        self
    }
    /// By so many percent; 25 by default.
    #[must_use]
    pub fn by(mut self, percent: u32) -> Sensitivity<'a> {
        self.variation.percent = percent;
        self
    }
    /// Shows so many of them, those that move most.
    #[must_use]
    pub fn top(mut self, top: usize) -> Sensitivity<'a> {
        self.top = top;
        self
    }
    /// Seed of everything random; 1 by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Sensitivity<'a> {
        self.variation.seed = seed;
        self
    }
    /// Hears how many numbers of all are done.
    #[must_use]
    pub fn progress(mut self, progress: impl Fn(usize, usize) + Sync + 'a) -> Sensitivity<'a> {
        self.progress = Some(Box::new(progress));
        self
    }
    /// Parts and clusters of this catalogue.
    #[must_use]
    pub fn catalog(mut self, catalog: &'a Catalog) -> Sensitivity<'a> {
        self.catalog = Some(catalog);
        self
    }

    /// Varies them.
    ///
    /// # Errors
    /// No such cluster, or one of unlike nodes.
    pub fn outcome(self) -> Result<Outcome, Error> {
        let catalog = catalog(self.catalog)?;
        let heard = |done: usize, all: usize| {
            if let Some(progress) = &self.progress {
                progress(done, all);
            }
        };
        let found = vary(catalog, &self.variation, &heard)?;
        Ok(shown(&found, &self.variation, self.top))
    }
}

fn shown(found: &Found, variation: &Variation, top: usize) -> Outcome {
    let mut grid = Grid::new([
        Column::words("part", "part"),
        Column::words("number", "field"),
        Column::number("value", "value"),
        Column::words("basis", "basis"),
        Column::number("moves (%)", "moves").unit("%"),
        Column::number("at", "at"),
        Column::words("on", "cluster"),
        Column::words("run", "run"),
    ]);
    for moved in found.moved.iter().take(top) {
        let Some(most) = &moved.most else { continue };
        grid.push([
            Cell::word(moved.number.part.clone()),
            Cell::word(moved.number.field.clone()),
            Cell::word(moved.number.value.clone()),
            Cell::word(moved.number.basis.name()),
            Cell::told(format!("{:+.1}", most.percent), most.percent),
            Cell::word(most.value.clone()),
            Cell::word(most.cluster.clone()),
            Cell::word(most.run.clone()),
        ]);
    }
    let over = |limit: f64| found.moved.iter().filter(|moved| moved.most.as_ref().is_some_and(|most| most.percent.abs() >= limit)).count();
    let still = found.moved.iter().filter(|moved| moved.most.is_none()).count();
    let runs: Vec<String> = found.runs.iter().map(|(cluster, runs)| format!("{cluster} {runs}")).collect();
    let mut outcome = Outcome::new();
    outcome.note(format!("each number {} % smaller and larger; the farthest move of any run", variation.percent));
    outcome.note(format!("runs: {}", runs.join(", ")));
    outcome.keyed_table("numbers", grid).text("\n");
    let told = format!(
        "{} numbers reach a cluster: {} move a run by 10 % or more, {} by 5 %, {} by 1 %, {still} move none; {} reach none, {} cannot be varied",
        found.moved.len(),
        over(10.0),
        over(5.0),
        over(1.0),
        found.unreached,
        found.fixed
    );
    outcome.note(told);
    outcome.set("reach", found.moved.len()).set("move_none", still).set("unreached", found.unreached).set("fixed", found.fixed);
    outcome
}
