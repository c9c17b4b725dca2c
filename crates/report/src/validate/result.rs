//! What came of each table: its points, the rows that are not compared, and how each metric stands to its promise.

use crate::question::Kind;
use crate::statistics::{Point, Summary};
use crate::tolerance::{Limits, Standing, Tolerances};

/// The results of all tables, in the order in which they first appear.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// One result per table, and one more for each that was also run with what was chosen after it had been seen.
    pub tables: Vec<TableResult>,
    /// What is promised.
    pub(super) tolerances: Tolerances,
}

/// The result of one table.
#[derive(Debug, Clone, Default)]
pub struct TableResult {
    /// The table's name.
    pub table: String,
    /// What was chosen because the values came out with it; these figures are a fit, and the table is there without it as well.
    pub chosen: Option<String>,
    /// What a user said of the table.
    pub set: Option<String>,
    /// The rows that were compared.
    pub points: Vec<Compared>,
    /// The rows that were not, by reason.
    pub skipped: Vec<Skipped>,
}

/// Rows that were not compared, all for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The reason.
    pub reason: String,
    /// Their metric, where they could be read.
    pub metric: Option<String>,
    /// Their kind, where they could be read.
    pub kind: Option<Kind>,
    /// Their lines in the file.
    pub lines: Vec<usize>,
    /// Whether a run went wrong, rather than being refused.
    pub failed: bool,
}

impl Skipped {
    /// A row that cannot be read.
    pub(super) fn unreadable(reason: &str, line: usize) -> Skipped {
        Skipped { reason: reason.to_owned(), metric: None, kind: None, lines: vec![line], failed: false }
    }
}

/// A row with its prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Nodes of the job, where the row names them.
    pub nodes: Option<u32>,
    /// Size of one message in bytes; `None` for a peak over all sizes.
    pub message_bytes: Option<u64>,
    /// The variant of the row.
    pub variant: String,
    /// The metric of the row.
    pub metric: String,
    /// The metric by its usual name.
    pub group: String,
    /// The kind of benchmark.
    pub kind: Kind,
    /// The unit of both values.
    pub unit: String,
    /// The two values.
    pub point: Point,
    /// In what the row contradicts others, where that is known.
    pub doubt: Option<String>,
    /// Phrases of its variant that say nothing of the run.
    pub unread: Vec<String>,
    /// Its line in the file.
    pub line: usize,
}

/// What came of one metric of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricResult {
    /// The metric.
    pub metric: String,
    /// The kind of benchmark, where one of its rows could be read.
    pub kind: Option<Kind>,
    /// Rows that were compared.
    pub points: usize,
    /// Rows that were not.
    pub skipped: usize,
    /// The errors; `None` where all were skipped.
    pub summary: Option<Summary>,
    /// What is promised, where anything is.
    pub goal: Option<Limits>,
    /// How it stands to that.
    pub standing: Option<Standing>,
}

impl Report {
    /// The place of a table's result, which is made where there is none yet.
    pub(super) fn table(&mut self, name: &str, chosen: Option<&str>) -> usize {
        let found = self.tables.iter().position(|t| t.table == name && t.chosen.as_deref() == chosen);
        found.unwrap_or_else(|| {
            self.tables.push(TableResult { table: name.to_owned(), chosen: chosen.map(str::to_owned), ..TableResult::default() });
            self.tables.len() - 1
        })
    }

    /// The tables of which a metric got worse than is promised or known, of which nothing could be compared, or of which a run failed.
    pub fn failures(&self) -> impl Iterator<Item = &TableResult> {
        self.tables.iter().filter(|table| !table.holds(&self.tolerances))
    }

    /// The tables without what was chosen after they had been seen.
    pub fn plain(&self) -> impl Iterator<Item = &TableResult> {
        self.tables.iter().filter(|table| table.chosen.is_none())
    }

    /// Each metric of a table.
    #[must_use]
    pub fn metrics(&self, table: &TableResult) -> Vec<MetricResult> {
        table.metrics(&self.tolerances)
    }
}

impl TableResult {
    /// Adds a row that is not compared.
    pub(super) fn skip(&mut self, row: Skipped) {
        let same = |known: &&mut Skipped| (&known.reason, &known.metric, known.failed) == (&row.reason, &row.metric, row.failed);
        match self.skipped.iter_mut().find(same) {
            Some(known) => known.lines.extend(row.lines),
            None => self.skipped.push(row),
        }
    }

    /// Rows that were not compared.
    #[must_use]
    pub fn skipped_rows(&self) -> usize {
        self.skipped.iter().map(|skipped| skipped.lines.len()).sum()
    }

    /// Each metric, in the order in which they first appear among the points and then among the other rows.
    pub(super) fn metrics(&self, tolerances: &Tolerances) -> Vec<MetricResult> {
        let mut names: Vec<&str> = Vec::new();
        let told = self.points.iter().map(|point| point.group.as_str());
        for name in told.chain(self.skipped.iter().map(|skipped| skipped.metric.as_deref().unwrap_or("?"))) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.into_iter().map(|name| self.metric(name, tolerances)).collect()
    }

    fn metric(&self, name: &str, tolerances: &Tolerances) -> MetricResult {
        let own: Vec<&Compared> = self.points.iter().filter(|point| point.group == name).collect();
        let others = || self.skipped.iter().filter(|skipped| skipped.metric.as_deref().unwrap_or("?") == name);
        let summary = Summary::of(&own.iter().map(|point| point.point).collect::<Vec<_>>());
        let kind = own.first().map(|point| point.kind).or_else(|| others().find_map(|skipped| skipped.kind));
        // What is a fit, or a user's own, is measured by no promise; nor is a metric of which no row can be run, where others of its table can.
        let judged = self.chosen.is_none() && self.set.is_none() && (summary.is_some() || self.points.is_empty());
        let goal = kind.filter(|_| judged).and_then(|kind| tolerances.goal(kind));
        let standing = kind.filter(|_| judged).and_then(|kind| tolerances.standing(&self.table, name, kind, summary.as_ref()));
        let skipped = others().map(|skipped| skipped.lines.len()).sum();
        MetricResult { metric: name.to_owned(), kind, points: own.len(), skipped, summary, goal, standing }
    }

    /// Whether nothing of it got worse and no run failed.
    pub(super) fn holds(&self, tolerances: &Tolerances) -> bool {
        let failed = self.skipped.iter().any(|skipped| skipped.failed);
        !failed && self.metrics(tolerances).iter().all(|metric| metric.standing.is_none_or(Standing::holds))
    }

    /// The errors of all its points; `None` where all rows were skipped.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(&self.points.iter().map(|c| c.point).collect::<Vec<_>>())
    }
}
