//! What is normal: how far predictions lie from published tables of the same kind, and what that makes of the errors of a new one.
//!
//! `errors.csv` has the error of every point of every published table, as tests/golden pins them. From those of all machines but
//! the one in question come a scale for each kind, quantity and range of sizes (a robust standard deviation), and how often tables
//! have an offset, a slow deviation or noise of so many scales: weights of a mixture, by expectation maximisation.
//! Not modelled: that some adapters or libraries are known better than others.

use std::collections::{BTreeMap, BTreeSet};

use fabriscope_report::question::Kind;

use crate::covariance::{Factor, Level, Site, levels, log_sum};

/// The errors of all published tables.
pub const ERRORS: &str = include_str!("errors.csv");

/// The error of one point of a published table.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownError {
    /// The table.
    pub table: String,
    /// The machine that it was measured on.
    pub cluster: String,
    /// The kind of benchmark.
    pub kind: Kind,
    /// The metric by its usual name.
    pub metric: String,
    /// Which curve of the table it is on: its number, from 0.
    pub series: usize,
    /// Size of one message, where it is of one.
    pub bytes: Option<u64>,
    /// Natural logarithm of measured over predicted.
    pub error: f64,
}

/// What is known of errors, without those of some machines.
#[derive(Debug, Clone)]
pub struct Normal {
    scales: BTreeMap<(Kind, bool, usize), f64>,
    by_kind: BTreeMap<Kind, f64>,
    weights: Vec<f64>,
    levels: Vec<Level>,
    /// Median absolute errors of tables by kind, ascending.
    medians: BTreeMap<Kind, Vec<f64>>,
    /// What nine in ten points of a table stay below, by kind, ascending.
    tails: BTreeMap<Kind, Vec<f64>>,
}

/// The errors at the points of one table, ready to be weighed.
#[derive(Debug, Clone)]
pub(crate) struct Weighing {
    factors: Vec<(f64, Factor)>,
}

/// Sizes are of three ranges: overheads decide, protocols change, rates decide. Basis: assumed.
const RANGES: [u64; 2] = [4096, 262_144];
/// Least and most that stands for a scale. Basis: assumed; tables to which numbers were fitted are closer than new ones will be.
const SCALES: [f64; 2] = [0.03, 0.5];
/// Points of a range from which on it has a scale of its own. Basis: assumed.
const FEW: usize = 12;
/// A standard deviation in median absolute deviations of normal variables.
const ROBUST: f64 = 1.482_6;
/// Rounds of expectation maximisation; the weights move by less than a hundredth in the last.
const ROUNDS: usize = 12;

fn range(bytes: Option<u64>) -> usize {
    RANGES.iter().filter(|limit| bytes.is_some_and(|bytes| bytes > **limit)).count()
}

fn is_time(metric: &str) -> bool {
    metric.contains("latency") || metric.contains("time")
}

/// Where a point without a size stands: in the middle. Basis: assumed.
const MIDDLE: f64 = 12.0;

pub(crate) fn octave(bytes: Option<u64>) -> f64 {
    bytes.map_or(MIDDLE, |bytes| libm::log2(bytes.max(1) as f64))
}

/// The errors of the published tables.
///
/// # Panics
/// On a file that was not made by its test, which holds that it is.
#[must_use]
pub fn known_errors() -> Vec<KnownError> {
    let mut reader = csv::Reader::from_reader(ERRORS.as_bytes());
    let records = reader.records().filter_map(Result::ok);
    records
        .filter_map(|record| {
            let field = |place: usize| record.get(place).unwrap_or_default();
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == field(2))?;
            Some(KnownError {
                table: field(0).to_owned(),
                cluster: field(1).to_owned(),
                kind,
                metric: field(3).to_owned(),
                series: field(4).parse().ok()?,
                bytes: field(5).parse().ok(),
                error: field(6).parse().ok()?,
            })
        })
        .collect()
}

impl Normal {
    /// What the errors of all machines say but for those that `left_out` names.
    #[must_use]
    pub fn without(errors: &[KnownError], left_out: &BTreeSet<String>) -> Normal {
        let kept: Vec<&KnownError> = errors.iter().filter(|error| !left_out.contains(&error.cluster)).collect();
        let (mut sizes, mut kinds): (BTreeMap<_, Vec<f64>>, BTreeMap<Kind, Vec<f64>>) = Default::default();
        let mut tables: BTreeMap<&str, Vec<&KnownError>> = BTreeMap::new();
        for error in kept {
            sizes.entry((error.kind, is_time(&error.metric), range(error.bytes))).or_default().push(error.error.abs());
            kinds.entry(error.kind).or_default().push(error.error.abs());
            tables.entry(&error.table).or_default().push(error);
        }
        let scale = |mut values: Vec<f64>| (ROBUST * median(&mut values)).clamp(SCALES[0], SCALES[1]);
        let scales = sizes.into_iter().filter(|(_, values)| values.len() >= FEW).map(|(key, values)| (key, scale(values))).collect();
        let by_kind = kinds.into_iter().map(|(kind, values)| (kind, scale(values))).collect();
        let levels = levels();
        let (mut medians, mut tails): (BTreeMap<Kind, Vec<f64>>, BTreeMap<Kind, Vec<f64>>) = Default::default();
        for errors in tables.values() {
            let mut sizes: Vec<f64> = errors.iter().map(|error| error.error.abs()).collect();
            medians.entry(errors[0].kind).or_default().push(median(&mut sizes));
            tails.entry(errors[0].kind).or_default().push(tail(&mut sizes));
        }
        medians.values_mut().chain(tails.values_mut()).for_each(|values| values.sort_by(f64::total_cmp));
        let even = vec![1.0 / levels.len() as f64; levels.len()];
        let mut normal = Normal { scales, by_kind, weights: even, levels, medians, tails };
        normal.fit(&tables);
        normal
    }

    /// How often tables are of each level.
    fn fit(&mut self, tables: &BTreeMap<&str, Vec<&KnownError>>) {
        let densities: Vec<Vec<f64>> = tables
            .values()
            .map(|errors| {
                let sites: Vec<Site> = errors.iter().map(|e| self.site(e.kind, &e.metric, e.series, e.bytes)).collect();
                let values: Vec<f64> = errors.iter().map(|error| error.error).collect();
                self.levels.iter().map(|level| Factor::of(&sites, *level).log_density(&values)).collect()
            })
            .collect();
        for _ in 0..ROUNDS {
            // One table more, which is of all levels alike: none becomes impossible.
            let mut sums = vec![1.0 / self.levels.len() as f64; self.levels.len()];
            for table in &densities {
                let terms: Vec<f64> = table.iter().zip(&self.weights).map(|(density, weight)| density + libm::log(*weight)).collect();
                let all = log_sum(&terms);
                sums.iter_mut().zip(&terms).for_each(|(sum, term)| *sum += libm::exp(term - all));
            }
            let all: f64 = sums.iter().sum();
            self.weights = sums.into_iter().map(|sum| sum / all).collect();
        }
    }

    /// A point of that kind, where nothing of its own table is known.
    pub(crate) fn site(&self, kind: Kind, metric: &str, series: usize, bytes: Option<u64>) -> Site {
        let own = self.scales.get(&(kind, is_time(metric), range(bytes)));
        let scale = own.or_else(|| self.by_kind.get(&kind)).copied().unwrap_or(SCALES[1] / 2.0);
        Site { octave: octave(bytes), series, scale }
    }

    /// The errors at `sites`, ready to be weighed.
    pub(crate) fn weighing(&self, sites: &[Site]) -> Weighing {
        let factors = self.levels.iter().zip(&self.weights).map(|(level, weight)| (libm::log(*weight), Factor::of(sites, *level)));
        Weighing { factors: factors.collect() }
    }

    /// Tables of the kind, and the share of them whose median error is as large as `median` or larger.
    pub(crate) fn rarity(&self, kind: Kind, median: f64) -> (usize, f64) {
        let known = self.medians.get(&kind);
        (known.map_or(0, Vec::len), share_beyond(known, median))
    }

    /// The share of tables of the kind that are off by as much as these errors, in the middle and at nine in ten of their points.
    pub(crate) fn share(&self, kind: Kind, errors: &mut [f64]) -> f64 {
        share_beyond(self.medians.get(&kind), median(errors)).min(share_beyond(self.tails.get(&kind), tail(errors)))
    }

    /// The largest median error of a table of the kind.
    pub(crate) fn worst(&self, kind: Kind) -> Option<f64> {
        self.medians.get(&kind)?.last().copied()
    }
}

impl Weighing {
    /// The logarithm of the density of `errors`.
    pub(crate) fn log_density(&self, errors: &[f64]) -> f64 {
        let terms: Vec<f64> = self.factors.iter().map(|(weight, factor)| weight + factor.log_density(errors)).collect();
        log_sum(&terms)
    }
}

/// The share of known values that are as large as `value` or larger; all where nothing is known.
fn share_beyond(known: Option<&Vec<f64>>, value: f64) -> f64 {
    match known {
        Some(known) if !known.is_empty() => known.iter().filter(|known| **known >= value).count() as f64 / known.len() as f64,
        _ => 1.0,
    }
}

/// What nine in ten of `values`, which are sorted, stay at or below; zero where there are none.
fn tail(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len() * 9).div_ceil(10).saturating_sub(1)).copied().unwrap_or_default()
}

/// The middle of `values`, which are sorted; zero where there are none.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let (count, half) = (values.len(), values.len() / 2);
    match count {
        0 => 0.0,
        _ if count % 2 == 1 => values[half],
        _ => f64::midpoint(values[half - 1], values[half]),
    }
}
