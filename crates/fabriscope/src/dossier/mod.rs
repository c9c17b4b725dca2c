//! A report of a cluster, of several side by side, of an experiment, or of a study: one page to hand on.
//!
//! Modelled: what the cluster is, what the standard tools would print, collective operations at scale, what binds, what failures leave, how
//! near the nearest published tables are, how to do it again. Each number comes from the same questions that the other
//! commands ask. Sizes of jobs are bounded, so that a report of a small cluster takes about a minute.
//! Not modelled: costs that the reader does not give, power that neither the catalogue nor the reader has.

mod bill;
mod compare;
mod design;
mod failures;
mod overview;
mod repaired;
mod scale;
mod tools;
mod trust;
mod work;

use std::path::{Path, PathBuf};

use fabriscope_catalog::{Catalog, Stop};
use fabriscope_lab::ResolvedLab;
use fabriscope_lab::monitor::{MonitorSettings, monitor};
use fabriscope_lab::run::RunSettings;
use fabriscope_report::render::html::{self, Page, Part};
use fabriscope_report::{Cell, Column, Grid, Outcome};

use crate::ask::catalog;
use crate::error::Error;
use bill::Prices;
use design::Design;
use work::Work;

/// A page about a cluster, an experiment or a study: `report(["ri2"])`; about several clusters, side by side: `report(["ri2", "alaska-roce25"])`.
#[must_use]
pub fn report<S: Into<String>>(of: impl IntoIterator<Item = S>) -> Report<'static> {
    Report { catalog: None, of: of.into_iter().map(Into::into).collect(), prices: None, seed: None, progress: None }
}

/// A report, to be made; made by [`report`].
pub struct Report<'a> {
    catalog: Option<&'a Catalog>,
    of: Vec<String>,
    prices: Option<PathBuf>,
    seed: Option<u64>,
    progress: Option<Box<dyn Fn(usize, usize) + 'a>>,
}

impl<'a> Report<'a> {
    /// Takes prices, and power, of parts from this CSV file: columns `part`, `price` and, where known, `power_w`.
    #[must_use]
    pub fn prices(mut self, file: impl Into<PathBuf>) -> Report<'a> {
        self.prices = Some(file.into());
        self
    }
    /// Seed of everything random; 1 by default, of an experiment that of its file.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Report<'a> {
        self.seed = Some(seed);
        self
    }
    /// Hears how many steps of all are done.
    #[must_use]
    pub fn progress(mut self, progress: impl Fn(usize, usize) + 'a) -> Report<'a> {
        self.progress = Some(Box::new(progress));
        self
    }
    /// Parts and clusters of this catalogue.
    #[must_use]
    pub fn catalog(mut self, catalog: &'a Catalog) -> Report<'a> {
        self.catalog = Some(catalog);
        self
    }

    /// Makes the page.
    ///
    /// # Errors
    /// No such cluster or file, a price list that cannot be read.
    pub fn page(self) -> Result<Page, Error> {
        let catalog = catalog(self.catalog)?;
        let prices = self.prices.as_deref().map(Prices::read).transpose()?;
        let heard = |done: usize, all: usize| {
            if let Some(progress) = &self.progress {
                progress(done, all);
            }
        };
        let work = Work { catalog, seed: self.seed.unwrap_or(1), given: self.seed, prices: prices.as_ref(), progress: &heard };
        match self.of.as_slice() {
            [] => Err(fabriscope_lab::LabError::refused("no cluster is named", "name a cluster, several to compare, or a lab file").into()),
            [one] => match subject(one)? {
                Subject::Cluster => work.cluster(one),
                Subject::Lab => work.lab(one),
                Subject::Study => work.study(one),
            },
            several => work.several(several),
        }
    }
}

/// What a word stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Cluster,
    Lab,
    Study,
}

/// An experiment has a workload, a study has blocks of benchmarks or of experiments.
fn subject(word: &str) -> Result<Subject, Error> {
    let path = Path::new(word);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Ok(Subject::Cluster);
    }
    let refused = |cause: std::io::Error| {
        let what = format!("{}: cannot be read: {cause}", path.display());
        fabriscope_lab::LabError::refused(what, "check that the file exists and that you may read it")
    };
    let text = std::fs::read_to_string(path).map_err(refused)?;
    let begins = |heads: &[&str]| text.lines().any(|line| heads.iter().any(|head| line.trim_start().starts_with(head)));
    Ok(match () {
        () if begins(&["[workload", "[[workload", "workload"]) => Subject::Lab,
        () if begins(&["[[bench]]", "[[lab]]"]) => Subject::Study,
        () => Subject::Cluster,
    })
}

/// Links in each view of an experiment that is watched.
const LINKS_WATCHED: usize = 8;
/// Steps of a report of one cluster.
const STEPS: usize = 6;

impl Work<'_> {
    fn cluster(&self, name: &str) -> Result<Page, Error> {
        let design = Design::of(self.catalog, name)?;
        let mut page = Page::new(format!("{name}: what its network does")).with_contents();
        page.lead(design.parts.title.clone());
        page.lead("Predicted by simulation of programs, adapters, switches and links. Predictions beside published measurements stand under How far to trust it.");
        overview::section(self, &design, &mut page);
        (self.progress)(1, STEPS);
        tools::section(self, &design, &mut page);
        (self.progress)(2, STEPS);
        scale::section(self, &design, &mut page);
        (self.progress)(3, STEPS);
        tools::what_binds(self, &design, &mut page);
        (self.progress)(4, STEPS);
        failures::section(self, &design, &mut page);
        (self.progress)(5, STEPS);
        trust::section(self, &design, &mut page)?;
        (self.progress)(6, STEPS);
        again(&mut page, self.seed, &[format!("fabriscope report {name} -o report.html")], &tools::commands(&design));
        Ok(page)
    }

    fn several(&self, names: &[String]) -> Result<Page, Error> {
        let designs: Vec<Design> = names.iter().map(|name| Design::of(self.catalog, name)).collect::<Result<_, _>>()?;
        let mut page = Page::new(format!("{} side by side", names.join(", "))).with_contents();
        page.lead("The same questions to each design; predicted by simulation.");
        compare::sections(self, &designs, &mut page);
        let commands: Vec<String> = designs.iter().flat_map(tools::commands).collect();
        again(&mut page, self.seed, &[format!("fabriscope report {} -o report.html", names.join(" "))], &commands);
        Ok(page)
    }

    fn lab(&self, file: &str) -> Result<Page, Error> {
        let lab = fabriscope_lab::load(self.catalog, Path::new(file))?;
        let mut page = Page::new(lab.name().to_owned()).with_contents();
        let design = Design::resolved(lab.cluster.clone())?;
        page.lead(format!("An experiment on {}", design.parts.title));
        overview::section(self, &design, &mut page);
        (self.progress)(1, 3);
        page.head(2, "What happens in the experiment");
        let settings = RunSettings { drawn: true, seed: self.given, ..RunSettings::default() };
        let outcome = fabriscope_lab::run::run(self.catalog, &lab, &settings)?.outcome(&lab);
        page.figures(outcome.figures());
        html::body(&mut page, outcome.blocks());
        if lab.faults.is_some() {
            self.without_faults(&lab, &outcome, &mut page)?;
        }
        self.watched(&lab, &mut page);
        (self.progress)(2, 3);
        trust::section(self, &design, &mut page)?;
        (self.progress)(3, 3);
        again(&mut page, self.seed, &[format!("fabriscope report {file} -o report.html")], &[format!("fabriscope run {file}")]);
        Ok(page)
    }
}

impl Work<'_> {
    /// What operators would see of an experiment while it runs; or why nothing was watched.
    fn watched(&self, lab: &ResolvedLab, page: &mut Page) {
        page.head(2, "What operators would see");
        let settings = MonitorSettings { seed: self.given, ..MonitorSettings::default() };
        match monitor(self.catalog, lab, &settings) {
            Ok(watched) => {
                page.figures(&fabriscope_report::monitor::figures(&watched, LINKS_WATCHED));
                html::body(page, fabriscope_report::monitor::outcome(&watched, LINKS_WATCHED).blocks());
            }
            Err(refused) => {
                page.words(format!("Not watched: {refused}."));
            }
        }
    }

    /// The results of an experiment beside those of the same where nothing breaks.
    fn without_faults(&self, lab: &ResolvedLab, broken: &Outcome, page: &mut Page) -> Result<(), Error> {
        page.head(2, "What the faults cost");
        let sound = ResolvedLab { faults: None, ..lab.clone() };
        let settings = RunSettings { seed: self.given, ..RunSettings::default() };
        let sound = fabriscope_lab::run::run(self.catalog, &sound, &settings)?.outcome(&sound);
        let rows = |outcome: &Outcome| -> Vec<(String, f64)> {
            let grid = outcome.tables().find(|grid| grid.name() == "results");
            let row = |row: &Vec<Cell>| match row.as_slice() {
                [name, value, ..] => Some((name.value().as_str()?.to_owned(), value.value().as_f64()?)),
                _ => None,
            };
            grid.into_iter().flat_map(Grid::rows).filter_map(row).collect()
        };
        let (broken, sound) = (rows(broken), rows(&sound));
        if broken.is_empty() {
            page.words("An experiment with several runs: run it without its faults to compare them.");
            return Ok(());
        }
        page.words("The same experiment with the same seed, run again without its faults.");
        let heads = [("with the faults", "with"), ("without", "without"), ("with, of without (%)", "share_percent")];
        let numbers = heads.map(|(head, key)| Column::number(head, key));
        let mut grid = Grid::new(std::iter::once(Column::words("result", "result")).chain(numbers));
        for (name, with) in broken {
            let without = sound.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
            let share = without.filter(|without| *without > 0.0).map(|without| 100.0 * with / without);
            let cell = |value: Option<f64>, digits: usize| value.map_or_else(Cell::none, |value| Cell::number(value, digits));
            let digits = |value: f64| if value.fract() == 0.0 { 0 } else { 3 };
            grid.push([
                Cell::word(name.as_str()),
                cell(Some(with), digits(with)),
                cell(without, without.map_or(0, digits)),
                cell(share, 1),
            ]);
        }
        page.push(Part::Table { caption: "With and without the faults".to_owned(), grid });
        Ok(())
    }

    fn study(&self, file: &str) -> Result<Page, Error> {
        let question = crate::sweep(file).catalog(self.catalog).drawn().progress(|at| (self.progress)(at.done, at.all));
        // Nobody ends it half way; a report that is ended goes on from what is kept.
        let outcome = question.outcome(&Stop::default())?;
        let name = Path::new(file).file_stem().map_or_else(|| file.to_owned(), |name| name.to_string_lossy().into_owned());
        let mut page = Page::new(format!("{name}: a study"));
        page.lead("Every value of each list with every value of the others; predicted by simulation.");
        page.head(2, "What it gives");
        if outcome.figures().is_empty() {
            page.words("Nothing varies by number: there are no curves to draw.");
        }
        page.figures(outcome.figures());
        page.head(2, "What was run");
        html::body(&mut page, outcome.blocks());
        page.head(2, "The study");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        page.push(Part::Verbatim(text.trim_end().to_owned()));
        again(&mut page, self.seed, &[format!("fabriscope report {file} -o report.html")], &[format!("fabriscope sweep {file}")]);
        Ok(page)
    }
}

/// How to do it again.
fn again(page: &mut Page, seed: u64, report: &[String], commands: &[String]) {
    page.head(2, "How to do it again");
    page.words(format!(
        "Fabriscope {}, seed {seed}. The same version, seed and input give the same bytes. This page:",
        env!("CARGO_PKG_VERSION")
    ));
    page.push(Part::Verbatim(report.join("\n")));
    page.words("The commands behind its sections, each with more options:");
    page.push(Part::Verbatim(commands.join("\n")));
}
