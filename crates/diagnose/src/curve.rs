//! The points of a measured table with what a run predicts for them, as it should be or with something changed.

use std::collections::{BTreeMap, BTreeSet};

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_lab::prediction::{Change, Predictor};
use fabriscope_report::measured::Row;
use fabriscope_report::question::Kind;
use fabriscope_report::{Measured, Terms};
use fabriscope_tools::{Suite, Tool};

/// One size of a table: what was measured, the geometric mean where it was several times, and what is expected.
#[derive(Debug, Clone, PartialEq)]
pub struct TablePoint {
    /// Its lines in the file, from 1.
    pub lines: Vec<usize>,
    /// The kind of benchmark.
    pub kind: Kind,
    /// The metric by its usual name.
    pub metric: String,
    /// The variant of its rows.
    pub variant: String,
    /// Nodes of the job, where the rows name them.
    pub nodes: Option<u32>,
    /// Which curve of the table it is on.
    pub series: usize,
    /// Size of one message in bytes, where it is of one.
    pub bytes: Option<u64>,
    /// The unit of both values.
    pub unit: String,
    /// What was measured.
    pub measured: f64,
    /// What a machine gives that is as its description says.
    pub expected: f64,
}

/// Rows that are not weighed, and why.
pub(crate) type Left = Vec<(usize, String)>;

/// Where runs are made.
pub(crate) struct Bench<'a> {
    pub catalog: &'a Catalog,
    pub on: Option<ResolvedCluster>,
    pub terms: &'a Terms,
    pub seed: u64,
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
}

impl Bench<'_> {
    /// What answers questions, without any change.
    pub(crate) fn predictor(&self, table: &Measured) -> Predictor<'_> {
        let rows = table.rows();
        // A peak is the best of the whole sweep.
        let largest = rows.iter().map(|row| row.message_bytes).collect::<Option<Vec<u64>>>().and_then(|sizes| sizes.into_iter().max());
        Predictor::new(self.catalog, self.on.clone(), self.seed, false, |_, _| {}).up_to(largest.map(|size| size.max(1)))
    }

    /// The points of a table as the machine should give them, and the rows that cannot be weighed.
    pub(crate) fn expected(&self, table: &Measured) -> (Vec<TablePoint>, Left) {
        let report = fabriscope_report::validate::validate(std::slice::from_ref(table), &[], self.terms, &self.predictor(table));
        let (mut points, mut left): (Vec<TablePoint>, Left) = Default::default();
        let mut curves: Vec<(String, String, String, Option<u32>)> = Vec::new();
        let mut places: BTreeMap<(usize, Option<u64>), (usize, u32)> = BTreeMap::new();
        for result in report.plain() {
            left.extend(result.skipped.iter().flat_map(|skipped| skipped.lines.iter().map(|line| (*line, skipped.reason.clone()))));
            for point in &result.points {
                let (measured, expected) = (point.point.measured, point.point.predicted);
                if point.kind == Kind::Claims || !(measured > 0.0 && expected > 0.0 && measured.is_finite() && expected.is_finite()) {
                    left.push((point.line, "a comparison of two runs is no curve".to_owned()));
                    continue;
                }
                // A rate of messages and a bandwidth of one run are one measurement.
                let group = if point.group == "message rate" { "bandwidth" } else { point.group.as_str() };
                let curve = (result.table.clone(), point.variant.clone(), group.to_owned(), point.nodes);
                let series = curves.iter().position(|known| *known == curve).unwrap_or_else(|| {
                    curves.push(curve);
                    curves.len() - 1
                });
                let place = places.entry((series, point.message_bytes)).or_insert((points.len(), 0));
                place.1 += 1;
                match points.get_mut(place.0) {
                    Some(known) if known.metric == point.group => {
                        // The geometric mean of all so far.
                        let share = 1.0 / f64::from(place.1);
                        known.measured = libm::exp(libm::log(known.measured) * (1.0 - share) + libm::log(measured) * share);
                        known.lines.push(point.line);
                    }
                    Some(_) => place.1 -= 1,
                    None => points.push(TablePoint {
                        lines: vec![point.line],
                        kind: point.kind,
                        metric: point.group.clone(),
                        variant: point.variant.clone(),
                        nodes: point.nodes,
                        series,
                        bytes: point.message_bytes,
                        unit: point.unit.clone(),
                        measured,
                        expected,
                    }),
                }
            }
        }
        (points, left)
    }

    /// The same points with a change: `None` where it reaches no run of the table. What it does not reach, or cannot be made to, stays.
    pub(crate) fn changed(&self, table: &Measured, points: &[TablePoint], change: &Change<'_>) -> Option<Vec<f64>> {
        let predictor = self.predictor(table).changed(change);
        let report = fabriscope_report::validate::validate(std::slice::from_ref(table), &[], self.terms, &predictor);
        let found: BTreeMap<(usize, &str), f64> = report
            .plain()
            .flat_map(|result| result.points.iter().map(|point| ((point.line, point.group.as_str()), point.point.predicted)))
            .filter(|(_, value)| *value > 0.0 && value.is_finite())
            .collect();
        let of = |point: &TablePoint| found.get(&(point.lines[0], point.metric.as_str())).copied();
        if points.iter().all(|point| of(point).is_none()) {
            return None;
        }
        Some(points.iter().map(|point| of(point).unwrap_or(point.expected)).collect())
    }
}

/// Sizes of a curve that are run where each is a run of its own. Basis: assumed; protocols change about every three octaves.
const RUNS: usize = 8;

/// The longest message between two ranks: longer ones take the same rate. Basis: assumed.
const LONGEST: u64 = 1 << 20;

/// A table with no more sizes of each curve than are run, spread evenly, and how many rows that leaves out.
pub(crate) fn fewer(table: &Measured) -> (Measured, usize) {
    let is_costly = |benchmark: &str| {
        let traits = Tool::by_name(benchmark).map(Tool::traits);
        // Names that are none of a tool's are of other collectives, or of IMB.
        traits.map_or(!benchmark.contains("PingPong"), |traits| traits.is_collective() || traits.suite == Suite::NcclTests)
    };
    type Curve<'a> = (&'a str, &'a str, &'a str, Option<u32>, Option<u32>);
    fn curve(row: &Row) -> Curve<'_> {
        (&row.table, &row.benchmark, &row.variant, row.nodes, row.ranks)
    }
    let mut sizes: BTreeMap<Curve<'_>, BTreeSet<Option<u64>>> = BTreeMap::new();
    for row in table.rows().iter().filter(|row| is_costly(&row.benchmark)) {
        sizes.entry(curve(row)).or_default().insert(row.message_bytes);
    }
    for sizes in sizes.values_mut().filter(|sizes| sizes.len() > RUNS) {
        let last = sizes.len() - 1;
        // Both ends, and evenly between them.
        let kept: BTreeSet<usize> = (0..RUNS).map(|place| (place * last + (RUNS - 1) / 2) / (RUNS - 1)).collect();
        *sizes = sizes.iter().enumerate().filter(|(place, _)| kept.contains(place)).map(|(_, size)| *size).collect();
    }
    let of_sweep = |row: &Row| is_costly(&row.benchmark) || row.message_bytes.is_none_or(|size| size <= LONGEST);
    // A table of long messages alone keeps them.
    let all_long = !table.rows().iter().any(of_sweep);
    let keep = |row: &Row| sizes.get(&curve(row)).is_none_or(|sizes| sizes.contains(&row.message_bytes)) && (all_long || of_sweep(row));
    let kept = table.keeping(keep);
    let left = table.rows().len() - kept.rows().len();
    (kept, left)
}

/// How far two curves lie apart, in standard deviations of measurements with usual noise: the root of the sum of squares.
pub(crate) fn distance(one: &[f64], other: &[f64]) -> f64 {
    let squares = one.iter().zip(other).map(|(a, b)| {
        let log = libm::log(a / b) / crate::covariance::NOISE;
        log * log
    });
    libm::sqrt(squares.sum())
}
