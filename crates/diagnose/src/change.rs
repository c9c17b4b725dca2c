//! What changed between two tables of the same run: ratios of what was measured beside ratios of what is predicted.
//!
//! The errors of the model are in both and cancel; what is left is noise, and little that is slow. Each cause may have come (it is
//! there in the second table) or gone.
//! Not modelled: causes of which one went while another came.

use fabriscope_lab::prediction::Setup;
use fabriscope_report::Measured;

use crate::covariance::{Site, levels, log_sum};
use crate::curve::{Bench, TablePoint};
use crate::diagnosis::{Case, DiagnoseError, Finding, Hypotheses, first_setup, nothing};
use crate::normal::octave;

/// What came of it.
#[derive(Debug, Clone)]
pub struct Compared {
    /// How probable it is that nothing changed \[0..1\].
    pub same: f64,
    /// Causes that came, the most probable first.
    pub came: Vec<Finding>,
    /// Causes that went.
    pub went: Vec<Finding>,
    /// The points, of the first table.
    pub points: Vec<TablePoint>,
    /// What was measured in the second.
    pub after: Vec<f64>,
    /// Rows of the first that the second has not.
    pub unmatched: usize,
    /// One run, as it should be.
    pub setup: Setup,
}

/// Below this, something changed. Basis: as of single tables.
pub const DOUBT: f64 = 0.02;
/// What repeats differ by slowly over all sizes. Basis: assumed.
const REPEATS: f64 = 0.02;

/// Compares two tables of one run.
///
/// # Errors
/// No row that can be run, or none that both have.
pub fn compare(case: &Case<'_>, before: &Measured, after: &Measured) -> Result<Compared, DiagnoseError> {
    let ((before, _), (after, _)) = (crate::curve::fewer(before), crate::curve::fewer(after));
    let (before, after) = (&before, &after);
    let bench = Bench { catalog: case.catalog, on: case.on.clone(), terms: case.terms, seed: case.seed, progress: case.progress };
    let (first, left) = bench.expected(before);
    let setup = first_setup(&bench, before);
    let (false, Some(setup)) = (first.is_empty(), setup) else { return Err(nothing(before, &left)) };
    let (second, _) = bench.expected(after);
    let alike = |a: &TablePoint, b: &TablePoint| {
        let expected = libm::log(a.expected / b.expected).abs() < 1e-9;
        (a.bytes, &a.metric, a.kind, a.nodes) == (b.bytes, &b.metric, b.kind, b.nodes) && expected
    };
    let pairs: Vec<(TablePoint, f64)> = first
        .iter()
        .filter_map(|point| {
            let other = second.iter().find(|other| alike(point, other))?;
            // In the unit of the first.
            let unit = point.expected / other.expected;
            Some((point.clone(), other.measured * unit))
        })
        .collect();
    if pairs.is_empty() {
        return Err(DiagnoseError::Unlike { before: before.name().to_owned(), after: after.name().to_owned() });
    }
    let unmatched = first.len() - pairs.len();
    let (points, measured): (Vec<TablePoint>, Vec<f64>) = pairs.into_iter().unzip();
    let mut hypotheses = Hypotheses::new(&bench, before, &points, &setup);
    let scale = REPEATS;
    let sites: Vec<Site> = points.iter().map(|p| Site { octave: octave(p.bytes), series: p.series, scale }).collect();
    let levels = levels();
    let factors: Vec<_> = levels.iter().map(|level| crate::covariance::Factor::of(&sites, *level)).collect();
    let even = libm::log(levels.len() as f64);
    let density = |curve: &[f64], gone: bool| {
        let ratio = |((point, later), value): ((&TablePoint, &f64), &f64)| {
            let (measured, predicted) = (libm::log(later / point.measured), libm::log(value / point.expected));
            // Two measurements have twice the variance of one.
            (measured - if gone { -predicted } else { predicted }) / std::f64::consts::SQRT_2
        };
        let errors: Vec<f64> = points.iter().zip(&measured).zip(curve).map(ratio).collect();
        log_sum(&factors.iter().map(|factor| factor.log_density(&errors)).collect::<Vec<_>>()) - even
    };
    let expected: Vec<f64> = points.iter().map(|point| point.expected).collect();
    let same = density(&expected, false);
    let (mut came, odds_came) = hypotheses.weigh(same, &|curve| density(curve, false));
    let (mut went, odds_went) = hypotheses.weigh(same, &|curve| density(curve, true));
    // Each direction has half of what is thought of changes before.
    let half = libm::log(2.0);
    let all = log_sum(&[0.0, odds_came - half, odds_went - half]);
    for (findings, odds) in [(&mut came, odds_came), (&mut went, odds_went)] {
        let share = libm::exp(log_sum(&[0.0, odds]) - half - all);
        for finding in findings {
            finding.probability *= share;
            finding.suspects.iter_mut().for_each(|suspect| suspect.probability *= share);
        }
    }
    Ok(Compared { same: libm::exp(-all), came, went, points, after: measured, unmatched, setup })
}
