//! A validation as people and programs read it.

use serde_json::{Value, json};

use super::result::{Compared, MetricResult, Report, TableResult};
use crate::grid::{Cell, Column, Grid};
use crate::outcome::{Outcome, Verdict};
use crate::tolerance::{self, Limits, Standing};

/// How much of a validation is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// A row for each metric of a table.
    Tables,
    /// Each point as well.
    Points,
}

impl Report {
    /// The outcome: the errors of each metric of each table, the reasons for skipped rows, and whether nothing got worse. Programs read the points
    /// and the reasons with each row; a TOML file gets how far tables are off.
    #[must_use]
    pub fn outcome(&self, detail: Detail) -> Outcome {
        let mut outcome = Outcome::new();
        if detail == Detail::Points {
            for table in &self.tables {
                let with = table.chosen.iter().map(|chosen| format!(" with {chosen}")).collect::<String>();
                outcome.note(format!("{}{with}", table.table)).table(table.points_grid());
                for (number, reason) in table.doubts().iter().enumerate() {
                    outcome.note(format!("[{}] {reason}", number + 1));
                }
                outcome.text("\n");
            }
        }
        let mut grid = Grid::new([
            Column::words("table", "table"),
            Column::shown("metric").left(),
            Column::number("points", "points"),
            Column::number("skipped", "skipped"),
            Column::number("median (%)", "median").unit("%"),
            Column::number("p90 (%)", "p90").unit("%"),
            Column::number("max (%)", "max").unit("%"),
            Column::number("bias (%)", "bias").unit("%"),
            Column::number("goal (%)", "goal"),
            Column::words("verdict", "verdict"),
            Column::data("metric"),
            Column::data("kind"),
            Column::data("chosen"),
            Column::data("set"),
            Column::data("known_to_be_off"),
            Column::data("compared"),
            Column::data("not_compared"),
        ]);
        for table in &self.tables {
            for metric in self.metrics(table) {
                grid.push(self.cells(table, &metric));
            }
        }
        outcome.list(grid);
        let remarks = self.remarks();
        if !remarks.is_empty() {
            outcome.text("\n");
        }
        for remark in remarks {
            outcome.note(remark);
        }
        for figure in self.figures() {
            outcome.draw(figure);
        }
        outcome.begin(self.pins());
        outcome.judge(if self.failures().next().is_none() { Verdict::Good } else { Verdict::Bad });
        outcome
    }

    /// The row of a metric of a table.
    fn cells(&self, table: &TableResult, metric: &MetricResult) -> [Cell; 17] {
        let s = metric.summary;
        let percent = |value: Option<f64>| value.map_or_else(Cell::none, |value| Cell::number(value, 1));
        let name = match &table.chosen {
            Some(_) => format!("{} (fit)", table.table),
            None => table.table.clone(),
        };
        let verdict = match (metric.standing, &table.chosen) {
            (Some(standing), _) => Cell::word(standing.word()),
            (None, Some(_)) => Cell::word("fit"),
            (None, None) => Cell::blank(),
        };
        let limits = |limits: Option<Limits>| limits.map_or_else(Cell::none, |l| Cell::word(format!("{} / {}", l.median, l.p90)));
        let or_null = |words: &Option<String>| words.clone().map_or(Value::Null, Value::String);
        let points = table.points.iter().filter(|point| point.group == metric.metric).map(data);
        let own = table.skipped.iter().filter(|skipped| skipped.metric.as_deref().unwrap_or("?") == metric.metric);
        let skipped = own.map(|s| json!({ "reason": s.reason, "rows": s.lines.len(), "lines": s.lines, "failed": s.failed }));
        let off = self.tolerances.off(&table.table, &metric.metric).filter(|_| table.chosen.is_none());
        [
            Cell::told(name, table.table.clone()),
            Cell::word(metric.metric.clone()),
            Cell::count(metric.points),
            Cell::count(metric.skipped),
            percent(s.map(|s| s.median)),
            percent(s.map(|s| s.p90)),
            percent(s.map(|s| s.max)),
            s.map_or_else(Cell::none, |s| Cell::told(format!("{:+.1}", s.bias), s.bias)),
            limits(metric.goal),
            verdict,
            Cell::data(metric.metric.clone()),
            Cell::data(metric.kind.map_or(Value::Null, |kind| kind.name().into())),
            Cell::data(or_null(&table.chosen)),
            Cell::data(or_null(&table.set)),
            Cell::data(off.map_or(Value::Null, |l| json!({ "median": l.median, "p90": l.p90 }))),
            Cell::data(points.collect::<Vec<_>>()),
            Cell::data(skipped.collect::<Vec<_>>()),
        ]
    }

    /// What has to be said of tables beside their figures.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for table in &self.tables {
            let name = &table.table;
            let known = self.tolerances.of(name);
            if let Some(chosen) = &table.chosen {
                let because = known.and_then(|known| known.chosen.as_ref()).map_or("", |chosen| chosen.because.as_str());
                remarks.push(format!("{name} (fit): {chosen}, chosen after the table had been seen: {because}"));
                continue;
            }
            if let Some(set) = &table.set {
                remarks.push(format!("{name}: set: {set}"));
            } else if let Some(said) = known.and_then(|known| known.said.as_ref()) {
                remarks.push(format!("{name}: {}, as the publication says: {}", said.set.words(), said.words));
            }
            for reason in table.doubts() {
                let rows = table.points.iter().filter(|point| point.doubt.as_deref() == Some(reason)).count();
                remarks.push(format!("{name}: {rows} of the points contradict others of the machine: {reason}"));
            }
            for phrase in table.unread() {
                remarks.push(format!("{name}: not read: `{phrase}`"));
            }
            for reason in distinct(table.skipped.iter().map(|skipped| skipped.reason.as_str())) {
                let own = || table.skipped.iter().filter(|skipped| skipped.reason == reason);
                let word = if own().any(|skipped| skipped.failed) { "failed" } else { "skipped" };
                let rows: usize = own().map(|skipped| skipped.lines.len()).sum();
                remarks.push(format!("{name}: {rows} {word}: {reason}"));
            }
            for metric in self.metrics(table) {
                let (off, standing) = (self.tolerances.off(name, &metric.metric), metric.standing);
                match (standing, off) {
                    (Some(Standing::Ok), Some(_)) => {
                        remarks.push(format!("{name}: {} is within its goal: it can leave validation/off.toml", metric.metric));
                    }
                    (Some(Standing::Worse), Some(off)) => {
                        remarks
                            .push(format!("{name}: {} is known to be off by {} / {} %, and is worse", metric.metric, off.median, off.p90));
                    }
                    _ => {}
                }
            }
        }
        remarks
    }

    /// A file of the metrics that are over their goals, and how far.
    fn pins(&self) -> String {
        let over = self.tables.iter().flat_map(|table| {
            let metrics = self.metrics(table).into_iter();
            let over = metrics.filter(|metric| matches!(metric.standing, Some(Standing::Off | Standing::Worse)));
            over.filter_map(|metric| Some((table.table.as_str(), metric.metric, metric.summary?))).collect::<Vec<_>>()
        });
        let over: Vec<_> = over.collect();
        tolerance::pins(over.iter().map(|(table, metric, summary)| (*table, metric.as_str(), *summary)))
    }
}

/// A point as programs read it.
fn data(point: &Compared) -> Value {
    json!({
        "line": point.line,
        "nodes": point.nodes,
        "bytes": point.message_bytes,
        "variant": point.variant,
        "metric": point.metric,
        "unit": point.unit,
        "published": point.point.measured,
        "predicted": point.point.predicted,
        "error": point.point.error_percent(),
        "contradicts": point.doubt,
    })
}

impl TableResult {
    /// In what rows contradict others, in the order in which they first appear.
    fn doubts(&self) -> Vec<&str> {
        distinct(self.points.iter().filter_map(|point| point.doubt.as_deref()))
    }

    /// Phrases of variants that say nothing of the run.
    fn unread(&self) -> Vec<&str> {
        distinct(self.points.iter().flat_map(|point| point.unread.iter().map(String::as_str)))
    }

    /// Each point, measured and predicted.
    fn points_grid(&self) -> Grid {
        let mut grid = Grid::new([
            Column::number("nodes", "nodes"),
            Column::number("bytes", "bytes").unit("B"),
            Column::words("metric", "metric"),
            Column::words("unit", "unit"),
            Column::number("published", "published"),
            Column::number("predicted", "predicted"),
            Column::number("error (%)", "error").unit("%"),
            Column::words("", "contradicts"),
        ]);
        let doubts = self.doubts();
        for c in &self.points {
            let error = c.point.error_percent();
            let doubt = c.doubt.as_deref().and_then(|reason| doubts.iter().position(|known| *known == reason));
            grid.push([
                c.nodes.map_or_else(Cell::blank, Cell::count),
                c.message_bytes.map_or_else(|| Cell::told("all", Value::Null), Cell::count),
                Cell::word(c.metric.clone()),
                Cell::word(c.unit.clone()),
                Cell::number(c.point.measured, 2),
                Cell::number(c.point.predicted, 2),
                Cell::told(format!("{error:+.1}"), error),
                doubt.map_or_else(Cell::blank, |number| Cell::told(format!("[{}]", number + 1), c.doubt.clone())),
            ]);
        }
        grid.named(&self.table)
    }
}

fn distinct<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for word in words {
        if !found.contains(&word) {
            found.push(word);
        }
    }
    found
}
