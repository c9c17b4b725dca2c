//! Predictions beside measurements: one result per table, one verdict per metric of it.
//!
//! Every row counts. Rows that contradict others are marked and stay in the figures; what was chosen after a table had been seen is a fit,
//! and the table is run without it first. A row that cannot be read or run is told with its line and its reason, and the others go on.
//!
//! Runs are independent of each other, so they go to as many threads as the machine has; the results are put
//! together in the order of the rows and do not depend on the number of threads.

mod picture;
mod result;
mod show;
mod summary;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::measured::{Measured, Row};
use crate::question::{Comparison, Kind, Quantity, Question, Requested, ask, has_job, metric_of, unread};
use crate::settings::{AllSettings, Settings};
use crate::statistics::Point;
use crate::tolerance::Tolerances;

pub use result::{Compared, MetricResult, Report, Skipped, TableResult};
pub use show::Detail;
pub use summary::{Hits, hits};

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
    /// What the link of the adapter carries, in bytes a second.
    pub line_bytes_per_s: Option<f64>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The model cannot give it: the row is skipped and this is the reason.
    Skip(String),
    /// The run went wrong: the row is told as failed, and the verdict is bad.
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

/// What is said beside the rows.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// What is promised, and what is known of tables.
    pub tolerances: Tolerances,
    /// What a user says of tables.
    pub settings: AllSettings,
    /// The shape of jobs of many ranks of which neither a row nor the settings say it.
    pub job: JobShape,
}

/// How many nodes a job has, and ranks on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobShape {
    /// Nodes.
    pub nodes: Option<u32>,
    /// Ranks on each.
    pub ranks_per_node: Option<u32>,
}

/// A row and what becomes of it.
struct RowRequest<'m> {
    file: &'m Measured,
    row: &'m Row,
    what: Requested,
    /// The place of its table among the results.
    table: usize,
}

/// Compares every row of `files` whose table is in `only` (all, where that is empty).
pub fn validate(files: &[Measured], only: &[String], terms: &Terms, predict: &dyn Predict) -> Report {
    let mut report = Report { tolerances: terms.tolerances.clone(), tables: Vec::new() };
    let mut asked: Vec<RowRequest<'_>> = Vec::new();
    let wanted = |row: &&Row| only.is_empty() || only.contains(&row.table);
    for file in files {
        for row in file.rows().iter().filter(wanted) {
            let known = terms.tolerances.of(&row.table);
            let own = terms.settings.of(&row.table);
            let said = own.or(known.and_then(|known| known.said.as_ref()).map(|said| &said.set));
            let table = report.table(&row.table, None);
            if let Some(own) = own {
                report.tables[table].set = Some(own.words());
            }
            asked.push(RowRequest { file, row, what: request(file, row, &[said], terms.job), table });
            // What was chosen after the fact stands beside the figures without it; a user's own word stands for both.
            if let (Some(chosen), None) = (known.and_then(|known| known.chosen.as_ref()), own) {
                let table = report.table(&row.table, Some(&chosen.set.words()));
                asked.push(RowRequest { file, row, what: request(file, row, &[said, Some(&chosen.set)], terms.job), table });
            }
        }
    }
    let questions: BTreeSet<&Question> = asked.iter().flat_map(|asked| asked.what.questions()).collect();
    let answers = answer_all(&questions.into_iter().collect::<Vec<_>>(), predict);
    for asked in &asked {
        settle(&mut report.tables[asked.table], asked, &answers, &terms.tolerances);
    }
    let of_wanted = |table: &Option<String>| only.is_empty() || table.as_ref().is_some_and(|table| only.contains(table));
    for bad in files.iter().flat_map(Measured::faults).filter(|bad| of_wanted(&bad.table)) {
        let table = report.table(bad.table.as_deref().unwrap_or("?"), None);
        report.tables[table].skip(Skipped::unreadable(&bad.error.in_full(), bad.line));
    }
    report
}

/// What each row of `file` asks for, with what is said beside it.
pub fn asked<'m>(file: &'m Measured, terms: &'m Terms) -> impl Iterator<Item = Requested> + 'm {
    file.rows().iter().map(|row| {
        let known = terms.tolerances.of(&row.table).and_then(|known| known.said.as_ref());
        request(file, row, &[terms.settings.of(&row.table).or(known.map(|said| &said.set))], terms.job)
    })
}

/// What answers a row, with the settings that stand beside it.
fn request(file: &Measured, row: &Row, settings: &[Option<&Settings>], job: JobShape) -> Requested {
    let mut completed = row.clone();
    for settings in settings.iter().flatten() {
        completed = settings.completed(&completed);
    }
    if has_job(&completed) {
        let shape = Settings { nodes: job.nodes, ranks_per_node: job.ranks_per_node, ..Settings::default() };
        completed = shape.completed(&completed);
    }
    let mut what = ask(file, &completed).unwrap_or_else(|fault| Requested::Skip(fault.in_full()));
    for settings in settings.iter().flatten() {
        let refused = what.questions_mut().find_map(|question| settings.apply(question).err());
        if let Some(reason) = refused {
            return Requested::Skip(reason);
        }
    }
    what
}

/// Answers by their questions.
pub type Answers<'a> = BTreeMap<&'a Question, Result<Answer, Refusal>>;

/// Adds a row to the result of its table: as a point, or as one that is not compared.
fn settle(result: &mut TableResult, asked: &RowRequest<'_>, answers: &Answers<'_>, tolerances: &Tolerances) {
    let (row, metric, line) = (asked.row, metric_of(asked.row), asked.file.line(asked.row));
    let kind = Kind::of(&asked.what, &row.benchmark);
    let unread = unread(row);
    let mut skip = |reason: String, failed: bool| {
        result.skip(Skipped { reason, metric: Some(metric.clone()), kind: Some(kind), lines: vec![line], failed })
    };
    let value = |question: &Question, quantity: &Quantity| match &answers[question] {
        Ok(answer) => {
            quantity.value_of(answer).ok_or_else(|| Refusal::Skip(format!("{} does not print the metric `{}`", question.tool, row.metric)))
        }
        Err(refusal) => Err(refusal.clone()),
    };
    let outcome = match &asked.what {
        Requested::Skip(reason) => Err(Refusal::Skip(reason.clone())),
        Requested::Run(question, quantity) => value(question, quantity),
        Requested::Compare(Comparison { of, against, quantity, relation }) => {
            value(of, quantity).and_then(|of| Ok(relation.of(of, value(against, quantity)?)))
        }
    };
    match outcome {
        Ok(predicted) => {
            let doubts = tolerances.of(&row.table).map(|known| known.doubts.as_slice()).unwrap_or_default();
            let doubt = doubts.iter().find(|doubt| row.variant.contains(&doubt.variant)).map(|doubt| doubt.because.clone());
            result.points.push(Compared {
                nodes: row.nodes,
                message_bytes: row.message_bytes,
                variant: row.variant.clone(),
                metric: row.metric.clone(),
                group: metric,
                kind,
                unit: row.unit.clone(),
                point: Point { measured: row.value, predicted },
                doubt,
                unread,
                line,
            });
        }
        Err(Refusal::Skip(reason)) => skip(reason, false),
        Err(Refusal::Fail(reason)) => {
            let tool = asked.what.questions().next().map_or("TOOL", |question| question.tool);
            skip(format!("the run failed: {reason} (`fabriscope bench {tool} --on {}` runs it alone)", row.cluster), true);
        }
    }
}

/// The answers to different questions, on all cores; whichever core is done first, they are the same.
pub fn answer_all<'a>(questions: &[&'a Question], predict: &dyn Predict) -> Answers<'a> {
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
    #[must_use]
    pub fn value_of(&self, answer: &Answer) -> Option<f64> {
        match *self {
            Quantity::Latency { us } => answer.latency_us.map(|value| value / us),
            Quantity::Bandwidth { bytes_per_s } => answer.bytes_per_s.map(|value| value / bytes_per_s),
            Quantity::MessageRate { per_s } => answer.messages_per_s.map(|value| value / per_s),
            Quantity::Share { percent } => answer.percent.map(|value| value / percent),
            Quantity::OfLine { percent } => Some(100.0 * answer.bytes_per_s? / answer.line_bytes_per_s? / percent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured;
    use crate::tolerance::Standing;

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
        // 110 MB/s at 1000 B (+10 %), 190 MB/s at 2000 B (−5 %), 1 MiB/s otherwise; farther nodes take half.
        let bytes_per_s = if size == 1000.0 {
            110e6
        } else if size == 2000.0 {
            190e6
        } else {
            1_048_576.0
        };
        let far = if question.placement == crate::question::Placement::Farthest { 0.5 } else { 1.0 };
        Ok(Answer { bytes_per_s: Some(bytes_per_s * far), ..Answer::default() })
    }

    fn terms(tolerances: &str, off: &str) -> Terms {
        let tolerances = Tolerances::parse("t", tolerances).unwrap().with_off("o", off).unwrap();
        Terms { tolerances, ..Terms::default() }
    }

    fn report(tolerances: &str, off: &str) -> Report {
        let measured = measured::read("x.csv", ROWS.as_bytes()).unwrap();
        validate(&[measured], &[], &terms(tolerances, off), &stand_in)
    }

    const GOAL: &str = "[goals]\npoint_to_point = { median = 8, p90 = 20 }\n";

    #[test]
    fn errors_units_and_skips_are_counted_by_metric() {
        let json = report("", "").outcome(Detail::Tables).data();
        let a = &json[0];
        assert_eq!((a["table"].as_str(), a["metric"].as_str(), a["points"].as_u64()), (Some("a"), Some("bandwidth"), Some(2)));
        assert!((a["median"].as_f64().unwrap() - 7.5).abs() < 1e-9 && (a["bias"].as_f64().unwrap() - 2.5).abs() < 1e-9);
        // The latency of the same table hides behind no bandwidth.
        let latency = &json[1];
        assert_eq!((latency["table"].as_str(), latency["metric"].as_str()), (Some("a"), Some("latency")));
        assert_eq!((latency["points"].as_u64(), latency["skipped"].as_u64()), (Some(0), Some(1)));
        let b = &json[2];
        assert_eq!((b["metric"].as_str(), b["points"].as_u64(), b["max"].as_f64()), (Some("bandwidth"), Some(1), Some(0.0)));
    }

    #[test]
    fn programs_read_points_and_reasons() {
        let json = report("", "").outcome(Detail::Tables).data();
        let point = &json[0]["compared"][1];
        assert_eq!((point["line"].as_u64(), point["bytes"].as_u64(), point["published"].as_f64()), (Some(3), Some(2000), Some(200.0)));
        assert!((point["error"].as_f64().unwrap() + 5.0).abs() < 1e-9);
        let skipped = &json[3]["not_compared"][0];
        assert_eq!((skipped["reason"].as_str(), skipped["lines"][0].as_u64()), (Some("no software part `Intel MPI 2019`"), Some(5)));
    }

    #[test]
    fn goals_decide_the_verdict() {
        // The median is 7.5 %, the 90th percentile 9.5 %.
        assert_eq!(report(GOAL, "").failures().count(), 0);
        let tight = GOAL.replace("median = 8", "median = 7");
        let worse = report(&tight, "");
        assert_eq!(worse.failures().map(|table| table.table.as_str()).collect::<Vec<_>>(), ["a"]);
        assert!(shown(&worse).contains("WORSE"), "{}", shown(&worse));
        // What is known to be off is shown as that, and breaks nothing until it gets worse.
        let off = report(&tight, "[a]\nbandwidth = { median = 7.5, p90 = 10 }\n");
        assert_eq!(off.failures().count(), 0);
        assert!(shown(&off).contains(" off\n") && !shown(&off).contains("WORSE"), "{}", shown(&off));
        let worse = report(&tight, "[a]\nbandwidth = { median = 7.4, p90 = 10 }\n");
        assert!(shown(&worse).contains("is known to be off by 7.4 / 10 %, and is worse"), "{}", shown(&worse));
        // What came within its goal is told.
        assert!(shown(&report(GOAL, "[a]\nbandwidth = { median = 9, p90 = 10 }\n")).contains("it can leave validation/off.toml"));
    }

    #[test]
    fn a_file_of_what_is_off_is_written() {
        let tight = GOAL.replace("median = 8", "median = 7");
        let outcome = report(&tight, "").outcome(Detail::Tables);
        let pins = outcome.draft().unwrap();
        assert!(pins.contains("[a]\n\"bandwidth\" = { median = 8, p90 = 10 }\n"), "{pins}");
        assert_eq!(report(&tight, pins).failures().count(), 0);
        assert_eq!(report(GOAL, "").outcome(Detail::Tables).draft().unwrap().matches('[').count(), 0);
    }

    #[test]
    fn rows_that_contradict_others_count_and_are_marked() {
        let doubts = "[[table.b.doubts]]\nvariant = \"-a\"\nbecause = \"two clocks\"\n";
        let report = report(doubts, "");
        assert_eq!(report.tables[1].points.len(), 1);
        let text = crate::render::Renderer::render(&crate::render::Text, &report.outcome(Detail::Points)).unwrap();
        assert!(text.contains("+0.0  [1]\n# [1] two clocks\n"), "{text}");
        assert!(text.contains("# b: 1 of the points contradict others of the machine: two clocks"), "{text}");
    }

    #[test]
    fn what_was_chosen_after_the_fact_stands_beside_the_figures_without_it() {
        let chosen = "[table.a.chosen]\nset = { placement = \"farthest\" }\nbecause = \"it fits\"\n";
        let report = report(&format!("{GOAL}{chosen}"), "");
        let names: Vec<_> = report.tables.iter().map(|table| (table.table.as_str(), table.chosen.as_deref())).collect();
        assert_eq!(names, [("a", None), ("a", Some("placement = farthest")), ("b", None)]);
        // Without: 7.5 %. With: half of 110 and of 190, 45 % and 52.5 %; a fit has no verdict.
        let median = |at: usize| report.tables[at].summary().unwrap().median;
        assert!((median(0) - 7.5).abs() < 1e-9 && (median(1) - 48.75).abs() < 1e-9);
        assert_eq!(report.metrics(&report.tables[0])[0].standing, Some(Standing::Ok));
        assert_eq!(report.metrics(&report.tables[1])[0].standing, None);
        let text = shown(&report);
        assert!(text.contains("a (fit)") && text.contains("chosen after the table had been seen: it fits"), "{text}");
    }

    #[test]
    fn what_a_publication_or_a_user_says_is_part_of_the_run() {
        let seen = |terms: &Terms| {
            let seen = Mutex::new(Vec::new());
            let look = |question: &Question| {
                seen.lock().unwrap().push((question.tool, question.placement, question.gpus));
                Err(Refusal::Skip(String::new()))
            };
            let report = validate(&[measured::read("x.csv", ROWS.as_bytes()).unwrap()], &["b".to_owned()], terms, &look);
            (seen.into_inner().unwrap(), shown(&report))
        };
        use crate::question::Placement::{Farthest, SameSwitch};
        let said = "[table.b.said]\nset = { placement = \"farthest\", gpus = [0, 6] }\nwords = \"at both ends of the hall\"\n";
        let (asked, text) = seen(&terms(said, ""));
        assert!(asked.contains(&("osu_latency", Farthest, Some([0, 6]))), "{asked:?}");
        assert!(text.contains("as the publication says: at both ends of the hall"), "{text}");
        // A user's own word wins.
        let settings = AllSettings::parse("s", "[b]\nplacement = \"same_switch\"\n").unwrap();
        let (asked, text) = seen(&Terms { settings, ..terms(said, "") });
        assert!(
            asked.contains(&("osu_latency", SameSwitch, None)) && text.contains("# b: set: placement = same_switch"),
            "{asked:?} {text}"
        );
    }

    #[test]
    fn a_failed_run_is_told_with_its_row_and_the_others_go_on() {
        let measured = || measured::read("x.csv", ROWS.as_bytes()).unwrap();
        let broken = |question: &Question| match question.tool {
            "ib_write_bw" => Err(Refusal::Fail("the engine stopped".to_owned())),
            _ => stand_in(question),
        };
        let report = validate(&[measured()], &[], &Terms::default(), &broken);
        assert_eq!((report.tables[0].points.len(), report.failures().count()), (2, 1));
        assert!(shown(&report).contains("# b: 1 failed: the run failed: the engine stopped (`fabriscope bench ib_write_bw --on ri2`"));
    }

    #[test]
    fn a_row_that_cannot_be_read_or_run_is_told_and_the_others_go_on() {
        let text = format!("{ROWS}b,ri2,osu_bw,x,2,2,0,bandwidth,MB/s,1\nb,ri2,osu_bw,x,2,2,8,bandwidth,MB/s,one\n");
        let measured = measured::read_all("x.csv", text.as_bytes()).unwrap();
        let report = validate(&[measured], &[], &Terms::default(), &stand_in);
        let shown = shown(&report);
        assert!(shown.contains("# b: 1 skipped: x.csv:7:20: osu_bw has no message of 0 bytes; give a size"), "{shown}");
        assert!(shown.contains("# b: 1 skipped: x.csv:8:37: `one` is not a number; write it like"), "{shown}");
        assert_eq!(report.tables[1].points.len(), 1);
    }

    #[test]
    fn hits_are_counted_by_kind_with_and_without_fits() {
        let report = report("", "");
        // Errors of 10 % and 5 % in a, none in b.
        let all = hits(report.plain(), None);
        assert_eq!((all.tables, all.points), (2, 3));
        assert_eq!(all.within, [100.0, 100.0, 100.0]);
        assert_eq!(hits(report.plain(), Some(Kind::PointToPoint)).points, 2);
        assert_eq!(hits(report.plain(), Some(Kind::Nccl)).points, 0);
        let rows = report.hit_rates(&|table| table == "a").json();
        let of = |kind: &str| {
            rows.as_array().unwrap().iter().filter(|row| row["kind"] == kind).map(|row| row["of"].as_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(
            (of("perftest"), of("MPI point to point"), of("all")),
            (vec!["all", "not fitted to"], vec!["all"], vec!["all", "not fitted to"])
        );
    }

    #[test]
    fn only_the_named_tables_are_run() {
        let measured = measured::read("x.csv", ROWS.as_bytes()).unwrap();
        let report = validate(&[measured], &["b".to_owned()], &Terms::default(), &stand_in);
        assert_eq!(report.tables.len(), 1);
    }
}
