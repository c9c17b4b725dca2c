//! Predictions beside measurements: published ones, or those of a file; hit rates; each machine without what its own tables gave.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fabriscope_catalog::{Basis, Catalog, ResolvedCluster, Row};
use fabriscope_lab::leave_out::{self, Replacement};
use fabriscope_lab::prediction::Predictor;
use fabriscope_lab::{LabError, published};
use fabriscope_report::validate::{Detail, Hits, hits};
use fabriscope_report::{AllSettings, Cell, Column, Grid, JobShape, Measured, Outcome, Report, Terms};

use crate::ask::catalog;
use crate::error::Error;
use crate::storage::{is_io500, validate_io500};

/// How far predictions are from published measurements: of these tables, or of all if none is named.
#[must_use]
pub fn validate<S: Into<String>>(tables: impl IntoIterator<Item = S>) -> Validate<'static> {
    Validate { tables: tables.into_iter().map(Into::into).collect(), ..Validate::default() }
}

/// A comparison with measurements, to be made; made by [`validate`].
#[derive(Default)]
pub struct Validate<'a> {
    catalog: Option<&'a Catalog>,
    tables: Vec<String>,
    measured: Option<PathBuf>,
    settings: Option<PathBuf>,
    on: Option<String>,
    job: JobShape,
    long: bool,
    points: bool,
    summary: bool,
    leave_out: Option<String>,
    seed: Option<u64>,
    progress: Option<Box<dyn Fn(usize, usize) + Sync + 'a>>,
}

impl<'a> Validate<'a> {
    /// Compares with the measurements of this file instead of the published ones: CSV, or the output of the tools as they printed it.
    #[must_use]
    pub fn measured(mut self, file: impl Into<PathBuf>) -> Validate<'a> {
        self.measured = Some(file.into());
        self
    }
    /// Takes what rows leave open from this TOML file: nodes, GPUs, algorithm, environment, software, table by table.
    #[must_use]
    pub fn settings(mut self, file: impl Into<PathBuf>) -> Validate<'a> {
        self.settings = Some(file.into());
        self
    }
    /// Runs every row on this cluster instead of the one it names.
    #[must_use]
    pub fn on(mut self, cluster: &str) -> Validate<'a> {
        self.on = Some(cluster.to_owned());
        self
    }
    /// How many nodes jobs of many ranks have where rows do not say it; those of [`Validate::on`] (`CLUSTER:N`) otherwise.
    #[must_use]
    pub fn nodes(mut self, nodes: u32) -> Validate<'a> {
        self.job.nodes = Some(nodes);
        self
    }
    /// How many ranks these have on each node.
    #[must_use]
    pub fn ranks_per_node(mut self, ranks: u32) -> Validate<'a> {
        self.job.ranks_per_node = Some(ranks);
        self
    }
    /// Also runs rows that take minutes.
    #[must_use]
    pub fn with_long_rows(mut self) -> Validate<'a> {
        self.long = true;
        self
    }
    /// Also shows each point.
    #[must_use]
    pub fn with_points(mut self) -> Validate<'a> {
        self.points = true;
        self
    }
    /// Gives hit rates by kind of benchmark, with and without tables to which numbers were fitted, instead of a row for each table.
    #[must_use]
    pub fn summary(mut self) -> Validate<'a> {
        self.summary = true;
        self
    }
    /// Gives hit rates of this machine, or of each, with and without what the catalogue has from its own tables.
    #[must_use]
    pub fn leave_out(mut self, machine: &str) -> Validate<'a> {
        self.leave_out = Some(machine.to_owned());
        self
    }
    /// Seed of everything random; 1 by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Validate<'a> {
        self.seed = Some(seed);
        self
    }
    /// Hears how many runs of all are done.
    #[must_use]
    pub fn progress(mut self, progress: impl Fn(usize, usize) + Sync + 'a) -> Validate<'a> {
        self.progress = Some(Box::new(progress));
        self
    }
    /// Parts and clusters of this catalogue.
    #[must_use]
    pub fn catalog(mut self, catalog: &'a Catalog) -> Validate<'a> {
        self.catalog = Some(catalog);
        self
    }

    /// Makes it.
    ///
    /// # Errors
    /// No such table, machine or cluster, a file that cannot be read.
    pub fn outcome(self) -> Result<Outcome, Error> {
        let catalog = catalog(self.catalog)?;
        let (files, tolerances) = match &self.measured {
            Some(path) => (vec![read(path)?], fabriscope_report::Tolerances::default()),
            None => (published::tables()?, published::tolerances()?),
        };
        // Systems as submitters of IO500 typed them have no cluster of the catalogue.
        if let [table] = files.as_slice()
            && is_io500(table)
        {
            return validate_io500(table, catalog, self.points);
        }
        check_names(&self.tables, &files)?;
        let settings = self.settings.as_deref().map(settings).transpose()?.unwrap_or_default();
        check_names(&settings.tables().map(str::to_owned).collect::<Vec<_>>(), &files)?;
        if self.on.is_none() {
            files.iter().try_for_each(|file| has_cluster(file, &self.tables))?;
        }
        let terms = Terms { tolerances, settings, job: shaped(self.job, self.on.as_deref()) };
        if let Some(machine) = &self.leave_out {
            return self.without(catalog, &files, &terms, machine);
        }
        let report = self.report(catalog, &files, &self.tables, &terms)?;
        if self.summary {
            return Ok(summary(&report, catalog, &files));
        }
        Ok(report.outcome(if self.points { Detail::Points } else { Detail::Tables }))
    }

    fn report(&self, catalog: &Catalog, files: &[Measured], tables: &[String], terms: &Terms) -> Result<Report, Error> {
        let on: Option<ResolvedCluster> = self.on.as_deref().map(|text| catalog.target_alike(text)).transpose()?;
        let heard = |done: usize, all: usize| {
            if let Some(progress) = &self.progress {
                progress(done, all);
            }
        };
        let predictor = Predictor::new(catalog, on, self.seed.unwrap_or(1), self.long, heard);
        Ok(fabriscope_report::validate::validate(files, tables, terms, &predictor))
    }

    /// Each of the machines with the catalogue as it is, and as it would be without the machine's tables.
    fn without(&self, catalog: &Catalog, files: &[Measured], terms: &Terms, wanted: &str) -> Result<Outcome, Error> {
        let machines = leave_out::machines(files);
        if wanted != EACH && !machines.contains_key(wanted) {
            return Err(Error::UnknownMachine { name: wanted.to_owned(), known: machines.into_keys().collect() });
        }
        let priors = published::priors()?;
        let (mut grid, mut numbers) = (hits_grid(), replaced_grid());
        let mut sums: [Vec<Report>; 2] = Default::default();
        for (machine, tables) in machines.iter().filter(|(machine, _)| wanted == EACH || *machine == wanted) {
            let names: Vec<&str> = tables.iter().map(String::as_str).collect();
            let replaced = leave_out::replacements(catalog, &priors, &names);
            let altered = leave_out::without(catalog, &replaced)?;
            let only: Vec<String> = tables.iter().cloned().collect();
            let before = self.report(catalog, files, &only, terms)?;
            let after = if replaced.is_empty() { before.clone() } else { self.report(&altered, files, &only, terms)? };
            let all = |report: &Report| hits(report.plain(), None);
            grid.push(compared(machine, Some(&replaced), &all(&before), &all(&after)));
            replaced.iter().for_each(|one| numbers.push(replaced_cells(machine, one)));
            sums[0].push(before);
            sums[1].push(after);
        }
        if wanted == EACH {
            let [before, after] = sums.map(|reports| {
                let tables: Vec<_> = reports.iter().flat_map(Report::plain).cloned().collect();
                hits(tables.iter(), None)
            });
            grid.foot(compared("all", None, &before, &after));
        }
        let mut outcome = Outcome::new();
        outcome.note("each machine as the catalogue has it, and without every number that names one of its tables");
        outcome.keyed_table("machines", grid).text("\n");
        outcome.note("the numbers, and what took their place");
        outcome.keyed_table("numbers", numbers);
        Ok(outcome)
    }
}

/// The word for every machine.
const EACH: &str = "each";

fn hits_grid() -> Grid {
    Grid::new([
        Column::words("machine", "machine"),
        Column::number("points", "points"),
        Column::number("replaced", "replaced"),
        Column::number("kept", "kept"),
        Column::number("median (%)", "median").unit("%"),
        Column::number("without", "median_without").unit("%"),
        Column::number("within 15 %", "within_15").unit("%"),
        Column::number("without", "within_15_without").unit("%"),
        Column::number("within 25 %", "within_25").unit("%"),
        Column::number("without", "within_25_without").unit("%"),
    ])
}

fn compared(machine: &str, replaced: Option<&[Replacement]>, before: &Hits, after: &Hits) -> [Cell; 10] {
    let median = |hits: &Hits| hits.errors.map_or_else(Cell::none, |errors| Cell::number(errors.median, 1));
    let share = |hits: &Hits, at: usize| if hits.points == 0 { Cell::none() } else { Cell::number(hits.within[at], 0) };
    let count = |kept: bool| {
        let of = |replaced: &[Replacement]| replaced.iter().filter(|one| one.by.is_none() == kept).count();
        replaced.map_or_else(Cell::blank, |replaced| Cell::count(of(replaced)))
    };
    [
        Cell::word(machine),
        Cell::count(before.points),
        count(false),
        count(true),
        median(before),
        median(after),
        share(before, 1),
        share(after, 1),
        share(before, 2),
        share(after, 2),
    ]
}

fn replaced_grid() -> Grid {
    Grid::new([
        Column::words("machine", "machine"),
        Column::words("part", "part"),
        Column::words("number", "field"),
        Column::number("value", "value"),
        Column::words("basis", "basis"),
        Column::number("without", "without"),
        Column::words("basis", "without_basis"),
        Column::words("from", "from"),
    ])
}

fn replaced_cells(machine: &str, one: &Replacement) -> [Cell; 8] {
    let Replacement { number, by } = one;
    let by = by.as_ref();
    [
        Cell::word(machine),
        Cell::word(number.part.clone()),
        Cell::word(number.field.clone()),
        // What is a list of rules is no number that a line could hold.
        if number.value.starts_with(['[', '{']) { Cell::told("(rules)", number.value.as_str()) } else { Cell::word(number.value.as_str()) },
        Cell::word(number.basis.name()),
        by.map_or_else(|| Cell::word("kept"), |by| Cell::word(by.value.clone())),
        by.map_or_else(Cell::blank, |by| Cell::word(by.basis.name())),
        by.map_or_else(|| Cell::word("rests on no other part, and has no prior"), |by| Cell::word(by.because.clone())),
    ]
}

/// The numbers that files of the catalogue write and that name one of the published tables, whatever their basis is called.
///
/// # Errors
/// A table of the library that cannot be read; its tests rule that out.
pub fn cited(catalog: &Catalog) -> Result<Vec<Row>, Error> {
    Ok(citing(catalog, &published::tables()?))
}

fn citing(catalog: &Catalog, files: &[Measured]) -> Vec<Row> {
    let tables = names(files);
    catalog.own_numbers().into_iter().filter(|row| !row.cites(&tables).is_empty()).collect()
}

fn names(files: &[Measured]) -> Vec<&str> {
    let names: BTreeSet<&str> = files.iter().flat_map(|file| file.rows().iter().map(|row| row.table.as_str())).collect();
    names.into_iter().collect()
}

/// Hit rates by kind, and what of the catalogue rests on the tables.
fn summary(report: &Report, catalog: &Catalog, files: &[Measured]) -> Outcome {
    let tables = names(files);
    let numbers = citing(catalog, files);
    let fitted: BTreeSet<&str> = numbers.iter().flat_map(|row| row.cites(&tables)).collect();
    let mut outcome = Outcome::new();
    outcome.keyed_table("hits", report.hit_rates(&|table| fitted.contains(table))).text("\n");
    let by_basis = |basis: Basis| numbers.iter().filter(|row| row.basis == basis).count();
    let counts: Vec<(&str, usize)> =
        Basis::ALL.into_iter().map(|basis| (basis.name(), by_basis(basis))).filter(|(_, count)| *count > 0).collect();
    let told: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let chosen = report.tables.iter().filter(|table| table.chosen.is_some()).count();
    outcome.note(format!("{} numbers of the catalogue name one of these tables: {}", numbers.len(), told.join(", ")));
    outcome.note("fabriscope parts --from-tables lists them");
    outcome.note(format!("settings were chosen for {chosen} tables after these had been seen; figures of `all` are without them"));
    let mut rests = Grid::new([Column::words("basis", "basis"), Column::number("numbers", "numbers")]);
    counts.into_iter().for_each(|(name, count)| rests.push([Cell::word(name), Cell::count(count)]));
    outcome.data_table("numbers", rests).set("chosen", chosen);
    outcome
}

pub(crate) fn settings(path: &Path) -> Result<AllSettings, Error> {
    let name = path.display().to_string();
    let text =
        String::from_utf8(bytes(path)?).map_err(|_| LabError::refused(format!("{name}: it is not UTF-8 text"), "save it as UTF-8"))?;
    let remedy = "[\"TABLE\"] or [\"*\"], and below it placement, nodes, ranks_per_node, gpus, algorithm, environment or software";
    Ok(AllSettings::parse(&name, &text).map_err(|error| LabError::refused(error.to_string(), remedy))?)
}

pub(crate) fn read(path: &Path) -> Result<Measured, Error> {
    let measured = fabriscope_report::measured::read_all(&path.display().to_string(), &bytes(path)?)?;
    match (measured.rows(), measured.faults()) {
        // Of a file without one row that can be read nothing can be told but that.
        ([], [bad, ..]) => Err(bad.error.clone().into()),
        _ => Ok(measured),
    }
}

/// The shape of jobs of which rows do not say it: `CLUSTER:N` has N nodes, where nothing else is said.
pub(crate) fn shaped(job: JobShape, on: Option<&str>) -> JobShape {
    let of_target = on.and_then(|on| on.rsplit_once(':')).and_then(|(_, nodes)| nodes.parse().ok());
    JobShape { nodes: job.nodes.or(of_target), ..job }
}

/// Whether all rows of these tables name a cluster.
fn has_cluster(file: &Measured, wanted: &[String]) -> Result<(), Error> {
    let without: BTreeSet<&str> =
        file.without_cluster().filter(|table| wanted.is_empty() || wanted.iter().any(|wanted| wanted == table)).collect();
    if without.is_empty() {
        return Ok(());
    }
    Err(Error::NoCluster { file: file.name().to_owned(), tables: without.into_iter().map(str::to_owned).collect() })
}

fn bytes(path: &Path) -> Result<Vec<u8>, LabError> {
    let name = path.display();
    let refused =
        |cause| LabError::refused(format!("{name}: cannot be read: {cause}"), "check that the file exists and that you may read it");
    std::fs::read(path).map_err(refused)
}

fn check_names(wanted: &[String], files: &[Measured]) -> Result<(), Error> {
    let mut known: Vec<&str> = files.iter().flat_map(|f| f.rows().iter().map(|row| row.table.as_str())).collect();
    known.dedup();
    match wanted.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(Error::UnknownTable { name: name.clone(), known: known.into_iter().map(str::to_owned).collect() }),
        None => Ok(()),
    }
}
