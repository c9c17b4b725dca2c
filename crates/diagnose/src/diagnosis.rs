//! Which cause explains a table, if any is needed.
//!
//! Hypotheses: nothing is wrong; or one cause, in one of its amounts. The errors of the table against the curve of each hypothesis are
//! weighed by what is normal for tables of that kind ([`Normal`]): the logarithm of their density, with what each is worth before
//! anything is measured, gives how probable it is (Bayes). Causes whose curves no measurement of this table can tell apart are one
//! group.
//! Not modelled: several causes at once.

use std::collections::BTreeSet;

use fabriscope_catalog::{Catalog, CatalogError, ResolvedCluster};
use fabriscope_lab::prediction::Setup;
use fabriscope_report::question::{self, Kind};
use fabriscope_report::{Measured, Terms};
use miette::Diagnostic;

use crate::causes::{ALL, Amount, Cause, Scene};
use crate::covariance::{Site, log_sum};
use crate::curve::{Bench, Left, TablePoint, distance};
use crate::normal::{KnownError, Normal, median};

/// What is to be diagnosed.
pub struct Case<'a> {
    /// Where parts come from.
    pub catalog: &'a Catalog,
    /// The cluster as it should be; each row's own where nothing is said.
    pub on: Option<ResolvedCluster>,
    /// What is said beside the rows.
    pub terms: &'a Terms,
    /// What is known of errors.
    pub errors: &'a [KnownError],
    /// Seed of everything random.
    pub seed: u64,
    /// Hears how many runs of all are done.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
}

/// Why there is no diagnosis.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum DiagnoseError {
    /// No row can be weighed.
    #[error("{file}: none of the {rows} rows can be run here, as line {line}: {reason}")]
    #[diagnostic(code(diagnose::nothing), help("`fabriscope validate --measured {file}` tells the reason of each row"))]
    Nothing {
        /// The file.
        file: String,
        /// Its rows.
        rows: usize,
        /// One of them.
        line: usize,
        /// Its reason.
        reason: String,
    },
    /// Two files have no run in common.
    #[error("{before} and {after} have no row of the same run and size")]
    #[diagnostic(code(diagnose::unlike), help("compare two tables of the same benchmark, options and sizes"))]
    Unlike {
        /// The first file.
        before: String,
        /// The other.
        after: String,
    },
    /// The cluster.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Catalog(#[from] CatalogError),
}

/// How a table stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Within what published tables of its kind show.
    Normal,
    /// Within that as well, but a cause would explain it better; or far off, and the best cause leaves more than is usual.
    Doubtful,
    /// A cause explains it.
    Explained,
    /// Farther off than any published table of its kind, and no cause explains it.
    Unexplained,
}

impl Standing {
    /// The verdict, in words.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Standing::Normal => "normal",
            Standing::Doubtful => "doubtful",
            Standing::Explained => "not normal",
            Standing::Unexplained => "not explained",
        }
    }
    /// Whether something is wrong.
    #[must_use]
    pub fn is_alarm(self) -> bool {
        matches!(self, Standing::Explained | Standing::Unexplained)
    }
}

/// A cause with the amount of it that fits best.
#[derive(Debug, Clone)]
pub struct Suspect {
    /// The cause's place in [`ALL`].
    pub cause: usize,
    /// The place of the amount among those that the cause has here.
    pub amount: usize,
    /// The amount, in words.
    pub what: String,
    /// How probable the cause is, in any amount \[0..1\].
    pub probability: f64,
    /// The logarithm of how much better it fits than that nothing is wrong, in any amount.
    pub gain: f64,
    /// What it predicts.
    pub curve: Vec<f64>,
}

/// Causes that this table cannot tell apart, the most probable first.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The causes.
    pub suspects: Vec<Suspect>,
    /// How probable they are together \[0..1\].
    pub probability: f64,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    /// How the table stands.
    pub standing: Standing,
    /// How probable it is that nothing is wrong \[0..1\].
    pub normal: f64,
    /// Groups of causes, the most probable first.
    pub findings: Vec<Finding>,
    /// Causes that may be there and that no run of this table can see.
    pub unseen: Vec<usize>,
    /// The points.
    pub points: Vec<TablePoint>,
    /// Rows that were not weighed.
    pub left: Left,
    /// Points that were left out because there are more than can be weighed together.
    pub thinned: usize,
    /// The median of the absolute errors, as a logarithm.
    pub median: f64,
    /// Published tables of the kind, and the share of them that are as far off or farther.
    pub rarity: (usize, f64),
    /// The kind.
    pub kind: Kind,
    /// One run of the table, as it should be.
    pub setup: Setup,
}

impl Suspect {
    /// The cause.
    #[must_use]
    pub fn cause(&self) -> &'static Cause {
        &ALL[self.cause]
    }
}

/// How probable it is that nothing is wrong, before anything is measured. Basis: assumed; people ask because they doubt.
const NOTHING_WRONG: f64 = 0.5;
/// Below this, something is wrong. Basis: chosen so that at most one in twenty published tables is called so.
const ALARM: f64 = 0.005;
/// Below this, it is more probable that something is wrong than that nothing is.
const DOUBT: f64 = 0.5;
/// The share of published tables that is at least as far off as what an explanation leaves: what leaves more explains little. Basis: assumed.
const LEFT: f64 = 0.1;
/// Tables of a kind from which on the worst of them says how far off tables can be. Basis: assumed.
const ENOUGH: usize = 8;
/// Curves nearer than this many standard deviations of measurements cannot be told apart. Basis: assumed; about one in three repeats
/// would choose the other.
const APART: f64 = 2.0;
/// How much farther off than every published table a table without a cause has to be. Basis: assumed.
const FARTHER: f64 = 1.5;
/// Points that are weighed together; a factorisation takes the third power of that.
const MOST_POINTS: usize = 160;

/// Diagnoses a table.
///
/// # Errors
/// No row of it can be run.
pub fn diagnose(case: &Case<'_>, table: &Measured) -> Result<Diagnosis, DiagnoseError> {
    let bench = Bench { catalog: case.catalog, on: case.on.clone(), terms: case.terms, seed: case.seed, progress: case.progress };
    let (table, rows_left) = crate::curve::fewer(table);
    let table = &table;
    let (all, left) = bench.expected(table);
    let setup = first_setup(&bench, table);
    let (false, Some(setup)) = (all.is_empty(), setup) else { return Err(nothing(table, &left)) };
    let machines: BTreeSet<String> = table.rows().iter().map(|row| row.cluster.clone()).collect();
    let normal = Normal::without(case.errors, &machines);
    let (points, thinned) = thin(all);
    let thinned = thinned + rows_left;
    let mut hypotheses = Hypotheses::new(&bench, table, &points, &setup);
    let sites: Vec<Site> = points.iter().map(|p| normal.site(p.kind, &p.metric, p.series, p.bytes)).collect();
    let weighing = normal.weighing(&sites);
    let errors = |curve: &[f64]| points.iter().zip(curve).map(|(point, value)| libm::log(point.measured / value)).collect::<Vec<f64>>();
    let density = |curve: &[f64]| weighing.log_density(&errors(curve));
    let expected: Vec<f64> = points.iter().map(|point| point.expected).collect();
    let nothing = density(&expected);
    let (findings, odds) = hypotheses.weigh(nothing, &density);
    let normal_probability = 1.0 / (1.0 + libm::exp(odds));
    let sizes = |curve: &[f64]| errors(curve).into_iter().map(f64::abs).collect::<Vec<f64>>();
    let (kind, median) = (points[0].kind, median(&mut sizes(&expected)));
    let rarity = normal.rarity(kind, median);
    let far = rarity.0 >= ENOUGH && normal.worst(kind).is_some_and(|worst| median > FARTHER * worst);
    let explains = findings.first().is_some_and(|best| normal.share(kind, &mut sizes(&best.suspects[0].curve)) >= LEFT);
    let standing = match () {
        () if normal_probability < ALARM && explains => Standing::Explained,
        () if far => Standing::Unexplained,
        () if normal_probability < DOUBT => Standing::Doubtful,
        () => Standing::Normal,
    };
    let unseen = hypotheses.unseen;
    Ok(Diagnosis { standing, normal: normal_probability, findings, unseen, points, left, thinned, median, rarity, kind, setup })
}

/// The first run of the table that can be made.
pub(crate) fn first_setup(bench: &Bench<'_>, table: &Measured) -> Option<Setup> {
    let predictor = bench.predictor(table);
    let asked = table.rows().iter().filter_map(|row| question::ask(table, row).ok());
    let mut asked = asked.filter_map(|asked| asked.questions().next().cloned());
    // Rows of one table are alike: some are enough to find one that can be run.
    asked.by_ref().take(64).find_map(|question| predictor.setup(&question).ok())
}

pub(crate) fn nothing(table: &Measured, left: &Left) -> DiagnoseError {
    let unread = table.faults().first().map(|bad| (bad.line, bad.error.in_full()));
    let (line, reason) = left.first().cloned().or(unread).unwrap_or((1, "nothing was measured".to_owned()));
    DiagnoseError::Nothing { file: table.name().to_owned(), rows: table.rows().len() + table.faults().len(), line, reason }
}

/// No more points than can be weighed, evenly over the table; how many were left out.
fn thin(all: Vec<TablePoint>) -> (Vec<TablePoint>, usize) {
    let count = all.len();
    if count <= MOST_POINTS {
        return (all, 0);
    }
    let kept = |place: usize| (place + 1) * MOST_POINTS / count > place * MOST_POINTS / count;
    let points: Vec<TablePoint> = all.into_iter().enumerate().filter(|(place, _)| kept(*place)).map(|(_, point)| point).collect();
    (points, count - MOST_POINTS)
}

/// An amount by its place and in words, and its curve.
type Tried = (usize, String, Vec<f64>);

/// Every cause with the curves of its amounts.
pub(crate) struct Hypotheses {
    curves: Vec<(usize, Vec<Tried>)>,
    /// Causes that may be there and that no run of the table can see.
    pub unseen: Vec<usize>,
}

impl Hypotheses {
    /// Simulates every amount of every cause.
    pub(crate) fn new(bench: &Bench<'_>, table: &Measured, points: &[TablePoint], setup: &Setup) -> Hypotheses {
        let scene = Scene { catalog: bench.catalog, setup };
        let all: Vec<(usize, Vec<Amount>)> = ALL.iter().map(|cause| (cause.amounts)(&scene)).enumerate().collect();
        let count: usize = all.iter().map(|(_, amounts)| amounts.len()).sum();
        let (mut curves, mut unseen, mut done) = (Vec::new(), Vec::new(), 0);
        for (cause, amounts) in all.into_iter().filter(|(_, amounts)| !amounts.is_empty()) {
            let mut own = Vec::new();
            for (number, amount) in amounts.into_iter().enumerate() {
                (bench.progress)(done, count);
                done += 1;
                if let Some(curve) = bench.changed(table, points, &*amount.change) {
                    own.push((number, amount.what, curve));
                }
            }
            // A curve like that of a machine without it tells nothing of it.
            let expected: Vec<f64> = points.iter().map(|point| point.expected).collect();
            own.retain(|(_, _, curve)| distance(curve, &expected) > APART);
            if own.is_empty() {
                unseen.push(cause);
            } else {
                curves.push((cause, own));
            }
        }
        Hypotheses { curves, unseen }
    }

    /// Groups of causes, the most probable first, and the logarithm of the odds that something is wrong, by those of densities.
    pub(crate) fn weigh(&mut self, nothing: f64, density: &dyn Fn(&[f64]) -> f64) -> (Vec<Finding>, f64) {
        let weights: f64 = self.curves.iter().map(|(cause, _)| ALL[*cause].weight).sum();
        let mut terms = vec![libm::log(NOTHING_WRONG) + nothing];
        let mut suspects: Vec<Suspect> = Vec::new();
        for (cause, amounts) in &self.curves {
            let densities: Vec<f64> = amounts.iter().map(|(_, _, curve)| density(curve)).collect();
            let best = (0..amounts.len()).max_by(|a, b| densities[*a].total_cmp(&densities[*b]).then(b.cmp(a))).unwrap_or(0);
            // Every amount is as likely as the others: many of them are worth no more than one.
            let any = log_sum(&densities) - libm::log(amounts.len() as f64);
            terms.push(libm::log((1.0 - NOTHING_WRONG) * ALL[*cause].weight / weights) + any);
            let (amount, what, curve) = &amounts[best];
            let (what, curve) = (what.clone(), curve.clone());
            suspects.push(Suspect { cause: *cause, amount: *amount, what, probability: 0.0, gain: any - nothing, curve });
        }
        let all = log_sum(&terms);
        for (suspect, term) in suspects.iter_mut().zip(&terms[1..]) {
            suspect.probability = libm::exp(term - all);
        }
        suspects.sort_by(|a, b| b.probability.total_cmp(&a.probability).then(b.gain.total_cmp(&a.gain)));
        let mut findings: Vec<Finding> = Vec::new();
        for suspect in suspects {
            let probability = suspect.probability;
            // Alike is what is like the first of a group.
            match findings.iter_mut().find(|finding| distance(&finding.suspects[0].curve, &suspect.curve) < APART) {
                Some(finding) => {
                    finding.suspects.push(suspect);
                    finding.probability += probability;
                }
                None => findings.push(Finding { suspects: vec![suspect], probability }),
            }
        }
        findings.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        (findings, log_sum(&terms[1..]) - terms[0])
    }
}
