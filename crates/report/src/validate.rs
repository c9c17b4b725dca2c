//! Predictions beside measurements: one result per table.
//!
//! Runs are independent of each other, so they go to as many threads as the machine has; the results are put
//! together in the order of the rows and do not depend on the number of threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fabriscope_tools::{Suite, Tool};

use crate::grid::{Cell, Column, Grid};
use crate::measured::{Measured, MeasuredError};
use crate::outcome::{Outcome, Verdict};
use crate::question::{Placement, Quantity, Question, Requested, ask};
use crate::statistics::{Point, Summary};
use crate::tolerance::{Tolerance, Tolerances};

/// What one run gave; a tool fills in what it prints.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Answer {
    /// Time of one message, in microseconds.
    pub latency_us: Option<f64>,
    /// Data a second, in bytes.
    pub bytes_per_s: Option<f64>,
    /// Messages a second.
    pub messages_per_s: Option<f64>,
    /// A share, in percent.
    pub percent: Option<f64>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The model cannot give it: the row is skipped and this is the reason.
    Skip(String),
    /// The run went wrong: the validation ends with this.
    Fail(String),
}

/// Something that answers questions, as a rule by running a simulation.
pub trait Predict: Sync {
    /// Runs what `question` asks for.
    ///
    /// # Errors
    /// The reason why the model cannot give it, or why the run failed.
    fn predict(&self, question: &Question) -> Result<Answer, Refusal>;
    /// Called after each run with the number of finished runs and of all.
    fn progress(&self, _done: usize, _all: usize) {}
}

impl<F: Fn(&Question) -> Result<Answer, Refusal> + Sync> Predict for F {
    fn predict(&self, question: &Question) -> Result<Answer, Refusal> {
        self(question)
    }
}

/// The results of all tables, in the order in which they first appear.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// One result per table.
    pub tables: Vec<TableResult>,
}

/// The result of one table.
#[derive(Debug, Clone)]
pub struct TableResult {
    /// The table's name.
    pub table: String,
    /// The rows that were compared.
    pub points: Vec<Compared>,
    /// The number of rows that were not, by reason.
    pub skipped: BTreeMap<String, usize>,
    /// The table's limits, where it has any.
    pub tolerance: Option<Tolerance>,
}

/// A row with its prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Nodes of the job, where the row names them.
    pub nodes: Option<u32>,
    /// Size of one message in bytes; `None` for a peak over all sizes.
    pub message_bytes: Option<u64>,
    /// The metric of the row.
    pub metric: String,
    /// The unit of both values.
    pub unit: String,
    /// The two values.
    pub point: Point,
}

/// A validation that could not be finished.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum ValidateError {
    /// A row that no run can answer.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Measured(#[from] MeasuredError),
    /// A run failed.
    #[error("{file}:{line}: table {table}: {reason}")]
    #[diagnostic(code(validate::run), help("`fabriscope bench {tool} --on {cluster}` runs it alone"))]
    Run {
        /// The file of measurements.
        file: String,
        /// The row's line.
        line: usize,
        /// The row's table.
        table: String,
        /// The tool that failed.
        tool: &'static str,
        /// On which cluster.
        cluster: String,
        /// Why.
        reason: String,
    },
}

/// Compares every row of `files` whose table is in `only` (all, where that is empty).
///
/// # Errors
/// A row with an impossible size or value, or a run that failed.
pub fn validate(files: &[Measured], only: &[String], tolerances: &Tolerances, predict: &dyn Predict) -> Result<Report, ValidateError> {
    let mut asked = Vec::new();
    for file in files {
        for row in file.rows().iter().filter(|row| only.is_empty() || only.contains(&row.table)) {
            let mut what = ask(file, row)?;
            let tolerance = tolerances.of(&row.table);
            if let Some(except) = tolerance.and_then(|limits| limits.except.as_ref()).filter(|except| row.variant.contains(&except.variant))
            {
                what = Requested::Skip(except.because.clone());
            }
            if let (Requested::Run(question, _), Some(tolerance)) = (&mut what, tolerance) {
                question.gpus = tolerance.gpus;
                if let Some(algorithm) = tolerance.nccl_algo.filter(|_| is_of_nccl_tests(question.tool)) {
                    question.options.extend(["--env".to_owned(), algorithm.variable().to_owned()]);
                }
                if question.placement == Placement::First {
                    question.placement = tolerance.nodes;
                }
            }
            asked.push((file, row, what));
        }
    }
    let questions: BTreeSet<&Question> =
        asked.iter().filter_map(|(_, _, a)| if let Requested::Run(q, _) = a { Some(q) } else { None }).collect();
    let answers = answer_all(&questions.into_iter().collect::<Vec<_>>(), predict);
    let mut report = Report::default();
    for (file, row, asked) in &asked {
        let result = report.table(&row.table, tolerances);
        let outcome = match asked {
            Requested::Skip(reason) => Err(reason.clone()),
            Requested::Run(question, quantity) => match &answers[question] {
                Ok(answer) => quantity.of(answer).ok_or_else(|| format!("{} does not print the metric `{}`", question.tool, row.metric)),
                Err(Refusal::Skip(reason)) => Err(reason.clone()),
                Err(Refusal::Fail(reason)) => {
                    let (table, tool, cluster) = (row.table.clone(), question.tool, question.cluster.clone());
                    let (file, line, reason) = (file.name().to_owned(), file.line(row), reason.clone());
                    return Err(ValidateError::Run { file, line, table, tool, cluster, reason });
                }
            },
        };
        match outcome {
            Ok(predicted) => result.points.push(Compared {
                nodes: row.nodes,
                message_bytes: row.message_bytes,
                metric: row.metric.clone(),
                unit: row.unit.clone(),
                point: Point { measured: row.value, predicted },
            }),
            Err(reason) => *result.skipped.entry(reason).or_default() += 1,
        }
    }
    Ok(report)
}

type Answers<'a> = BTreeMap<&'a Question, Result<Answer, Refusal>>;

fn answer_all<'a>(questions: &[&'a Question], predict: &dyn Predict) -> Answers<'a> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(questions.len().max(1));
    let (next, done, answers) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Answers::new()));
    // The large messages run longest: start with them, so that no thread is left alone with one at the end.
    let mut order: Vec<&Question> = questions.to_vec();
    order.sort_by_key(|q| std::cmp::Reverse(q.message_bytes.unwrap_or(u64::MAX)));
    let work = || {
        while let Some(question) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let answer = predict.predict(question);
            answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(*question, answer);
            predict.progress(done.fetch_add(1, Ordering::Relaxed) + 1, order.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    answers.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Quantity {
    /// The answer's value of this quantity in the row's unit.
    fn of(&self, answer: &Answer) -> Option<f64> {
        match *self {
            Quantity::Latency { us } => answer.latency_us.map(|value| value / us),
            Quantity::Bandwidth { bytes_per_s } => answer.bytes_per_s.map(|value| value / bytes_per_s),
            Quantity::MessageRate { per_s } => answer.messages_per_s.map(|value| value / per_s),
            Quantity::Share { percent } => answer.percent.map(|value| value / percent),
        }
    }
}

impl Report {
    fn table(&mut self, name: &str, tolerances: &Tolerances) -> &mut TableResult {
        let index = self.tables.iter().position(|t| t.table == name).unwrap_or_else(|| {
            let tolerance = tolerances.of(name).cloned();
            self.tables.push(TableResult { table: name.to_owned(), points: Vec::new(), skipped: BTreeMap::new(), tolerance });
            self.tables.len() - 1
        });
        &mut self.tables[index]
    }

    /// The tables that are over their limits, or have limits and not one point.
    pub fn failures(&self) -> impl Iterator<Item = &TableResult> {
        self.tables.iter().filter(|t| !t.holds())
    }

    /// The outcome: the errors of each table, the reasons for skipped rows, and whether all keep within their limits.
    #[must_use]
    pub fn outcome(&self, detail: Detail) -> Outcome {
        let mut outcome = Outcome::new();
        if detail == Detail::Points {
            for table in &self.tables {
                outcome.note(&table.table).table(table.points_grid()).text("\n");
            }
        }
        let mut grid = Grid::new([
            Column::words("table", "table"),
            Column::number("points", "points"),
            Column::number("skipped", "skipped"),
            Column::number("median (%)", "median").unit("%"),
            Column::number("p90 (%)", "p90").unit("%"),
            Column::number("max (%)", "max").unit("%"),
            Column::number("bias (%)", "bias").unit("%"),
            Column::number("limits (%)", "limits"),
            Column::words("verdict", "verdict"),
        ]);
        for table in &self.tables {
            grid.push(table.cells());
        }
        outcome.list(grid);
        let of = |t: &TableResult| -> Vec<String> {
            t.skipped.iter().map(|(reason, count)| format!("{}: {count} skipped: {reason}", t.table)).collect()
        };
        let skips: Vec<String> = self.tables.iter().flat_map(of).collect();
        if !skips.is_empty() {
            outcome.text("\n");
        }
        for skip in skips {
            outcome.note(skip);
        }
        outcome.judge(if self.failures().next().is_none() { Verdict::Good } else { Verdict::Bad });
        outcome
    }
}

/// How much of a validation is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// A row for each table.
    Tables,
    /// Each point as well.
    Points,
}

impl TableResult {
    /// Its row among the tables.
    fn cells(&self) -> [Cell; 9] {
        let s = self.summary();
        let limits = self.tolerance.as_ref().map_or_else(Cell::none, |l| {
            Cell::word(match l.p90_percent {
                Some(p90) => format!("{} / {p90}", l.median_percent),
                None => l.median_percent.to_string(),
            })
        });
        let verdict = match &self.tolerance {
            None => Cell::blank(),
            Some(_) => Cell::word(if self.holds() { "ok" } else { "OVER" }),
        };
        let percent = |value: Option<f64>| value.map_or_else(Cell::none, |value| Cell::number(value, 1));
        [
            Cell::word(self.table.clone()),
            Cell::count(self.points.len()),
            Cell::count(self.skipped.values().sum::<usize>()),
            percent(s.map(|s| s.median)),
            percent(s.map(|s| s.p90)),
            percent(s.map(|s| s.max)),
            s.map_or_else(Cell::none, |s| Cell::told(format!("{:+.1}", s.bias), s.bias)),
            limits,
            verdict,
        ]
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
        ]);
        for c in &self.points {
            let error = c.point.error_percent();
            grid.push([
                c.nodes.map_or_else(Cell::blank, Cell::count),
                c.message_bytes.map_or_else(|| Cell::told("all", serde_json::Value::Null), Cell::count),
                Cell::word(c.metric.clone()),
                Cell::word(c.unit.clone()),
                Cell::number(c.point.measured, 2),
                Cell::number(c.point.predicted, 2),
                Cell::told(format!("{error:+.1}"), error),
            ]);
        }
        grid.named(&self.table)
    }

    /// The errors of the table's points; `None` where all were skipped.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(&self.points.iter().map(|c| c.point).collect::<Vec<_>>())
    }
    /// Whether the table keeps within its limits; a table without limits does.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.tolerance.as_ref().is_none_or(|limits| self.summary().is_some_and(|s| limits.holds(&s)))
    }
}

/// Whether NCCL's variables mean something to the tool.
fn is_of_nccl_tests(tool: &str) -> bool {
    Tool::all().any(|known| known.name() == tool && known.traits().suite == Suite::NcclTests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured;

    fn shown(report: &Report) -> String {
        use crate::render::{Renderer, Text};
        Text.render(&report.outcome(Detail::Tables)).unwrap()
    }

    const ROWS: &str = "table,cluster,benchmark,variant,nodes,ranks,message_bytes,metric,unit,value\n\
        a,ri2,osu_bw,x,2,2,1000,bandwidth,MB/s,100\n\
        a,ri2,osu_bw,x,2,2,2000,bandwidth,MB/s,200\n\
        a,ri2,osu_multi_lat,x,2,2,2000,latency,us,200\n\
        b,ri2,osu_latency,Intel MPI 2019,2,2,8,latency,us,2\n\
        b,ri2,ib_write_bw,-a,2,2,8,bandwidth,MiB/s,1\n";

    fn stand_in(question: &Question) -> Result<Answer, Refusal> {
        if question.software.as_deref() == Some("Intel MPI 2019") {
            return Err(Refusal::Skip("no software part `Intel MPI 2019`".to_owned()));
        }
        let size = question.message_bytes.unwrap() as f64;
        // 110 MB/s at 1000 B (+10 %), 190 MB/s at 2000 B (−5 %), 1 MiB/s otherwise.
        let bytes_per_s = if size == 1000.0 {
            110e6
        } else if size == 2000.0 {
            190e6
        } else {
            1_048_576.0
        };
        Ok(Answer { bytes_per_s: Some(bytes_per_s), ..Answer::default() })
    }

    fn report(tolerances: &str) -> Report {
        let measured = measured::read("x.csv", ROWS.as_bytes()).unwrap();
        validate(&[measured], &[], &Tolerances::parse("t", tolerances).unwrap(), &stand_in).unwrap()
    }

    #[test]
    fn errors_units_and_skips_are_counted() {
        let json = report("").outcome(Detail::Tables).data();
        let a = &json[0];
        assert_eq!((a["table"].as_str(), a["points"].as_u64(), a["skipped"].as_u64()), (Some("a"), Some(2), Some(1)));
        assert!((a["median"].as_f64().unwrap() - 7.5).abs() < 1e-9 && (a["bias"].as_f64().unwrap() - 2.5).abs() < 1e-9);
        let b = &json[1];
        assert_eq!((b["points"].as_u64(), b["skipped"].as_u64(), b["max"].as_f64()), (Some(1), Some(1), Some(0.0)));
    }

    #[test]
    fn limits_decide_the_verdict() {
        assert_eq!(report("[a]\nmedian_percent = 8").failures().count(), 0);
        assert_eq!(report("[a]\nmedian_percent = 7").failures().count(), 1);
        let text = shown(&report("[a]\nmedian_percent = 7"));
        assert!(text.contains("OVER") && text.contains("# b: 1 skipped: no software part `Intel MPI 2019`"), "{text}");
    }

    #[test]
    fn rows_that_contradict_others_are_left_out_with_the_reason() {
        let text = shown(&report("[b]\nmedian_percent = 1\nexcept = { variant = \"-a\", because = \"two clocks\" }"));
        assert!(text.contains("# b: 1 skipped: two clocks"), "{text}");
    }

    #[test]
    fn a_table_may_say_where_its_nodes_stood() {
        let seen = Mutex::new(Vec::new());
        let look = |question: &Question| {
            seen.lock().unwrap().push((question.tool, question.placement, question.gpus));
            Err(Refusal::Skip(String::new()))
        };
        let measured = measured::read("x.csv", ROWS.as_bytes()).unwrap();
        let tolerances = Tolerances::parse("t", "[b]\nmedian_percent = 1\nnodes = \"farthest\"\ngpus = [0, 6]").unwrap();
        validate(&[measured], &[], &tolerances, &look).unwrap();
        let seen = seen.into_inner().unwrap();
        assert!(seen.contains(&("osu_latency", Placement::Farthest, Some([0, 6]))), "{seen:?}");
        assert!(seen.contains(&("osu_bw", Placement::First, None)), "{seen:?}");
    }

    #[test]
    fn a_failed_run_names_the_row() {
        let measured = measured::read("x.csv", ROWS.as_bytes()).unwrap();
        let broken = |_: &Question| Err(Refusal::Fail("the engine stopped".to_owned()));
        let message = validate(&[measured], &[], &Tolerances::default(), &broken).unwrap_err().to_string();
        assert!(message.contains("x.csv:2: table a: the engine stopped"), "{message}");
    }

    #[test]
    fn only_the_named_tables_are_run() {
        let measured = measured::read("x.csv", ROWS.as_bytes()).unwrap();
        let report = validate(&[measured], &["b".to_owned()], &Tolerances::default(), &stand_in).unwrap();
        assert_eq!(report.tables.len(), 1);
    }
}
