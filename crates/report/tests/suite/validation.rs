//! Predictions beside measurements: units by their definitions, every row counted once, equal questions asked once, limits as they are written.

use std::collections::BTreeMap;
use std::sync::Mutex;

use fabriscope_report::compare::{Beside, beside};
use fabriscope_report::measured::read;
use fabriscope_report::validate::{Detail, validate};
use fabriscope_report::{Answer, Kind, Measured, Point, Predict, Question, Refusal, Summary, Terms, Tolerances};
use proptest::prelude::*;

const HEAD: &str = "table,cluster,benchmark,variant,nodes,ranks,message_bytes,metric,unit,value\n";

fn file(rows: &str) -> Measured {
    read("t.csv", format!("{HEAD}{rows}").as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// What a run of everything gives: 10 us, 1 GB/s, a million messages a second.
fn all(_: &Question) -> Result<Answer, Refusal> {
    Ok(Answer { latency_us: Some(10.0), bytes_per_s: Some(1e9), messages_per_s: Some(1e6), percent: Some(20.0), ..Answer::default() })
}

#[test]
fn a_prediction_is_in_the_unit_of_its_row() {
    // SI prefixes are powers of ten, those of IEC 80000-13 of two; a byte has eight bits.
    let rows = [
        ("osu_latency", "latency", "us", 10.0),
        ("osu_latency", "latency", "ns", 10_000.0),
        ("osu_latency", "Latency", "ms", 0.01),
        ("ib_send_lat", "t_avg[usec]", "usec", 10.0),
        ("IMB PingPong", "t[usec]", "s", 1e-5),
        ("osu_bw", "bandwidth", "B/s", 1e9),
        ("osu_bw", "bandwidth", "MB/s", 1000.0),
        ("osu_bw", "bandwidth", "GB/s", 1.0),
        ("osu_bw", "bandwidth", "MiB/s", 953.674),
        ("osu_bw", "bandwidth", "GiB/s", 0.931_323),
        ("ib_write_bw", "bw average", "Gb/sec", 8.0),
        ("ib_write_bw", "bandwidth", "Mbit/s", 8000.0),
        ("osu_mbw_mr", "message rate", "msg/s", 1e6),
        ("ib_write_bw", "msgrate", "Mpps", 1.0),
    ];
    for (tool, metric, unit, expected) in rows {
        let table = file(&format!("t,ri2,{tool},,2,2,8,{metric},{unit},1\n"));
        let report = validate(&[table], &[], &Terms::default(), &all);
        let point = report.tables[0].points.first().unwrap_or_else(|| panic!("{tool}: {:?}", report.tables[0].skipped));
        assert!((point.point.predicted / expected - 1.0).abs() < 1e-6, "{tool}, {unit}: {} not {expected}", point.point.predicted);
        assert_eq!((point.metric.as_str(), point.unit.as_str(), point.nodes, point.message_bytes), (metric, unit, Some(2), Some(8)));
    }
}

#[test]
fn what_a_tool_does_not_print_is_skipped() {
    let table = file("t,ri2,osu_bw,,2,2,8,bandwidth,MB/s,1\nt,ri2,osu_mbw_mr,,2,2,8,message rate,msg/s,1\n");
    let bandwidth = |_: &Question| Ok(Answer { bytes_per_s: Some(1e6), ..Answer::default() });
    let report = validate(&[table], &[], &Terms::default(), &bandwidth);
    let skipped: Vec<_> = report.tables[0].skipped.iter().map(|skipped| (skipped.reason.as_str(), skipped.lines.as_slice())).collect();
    assert_eq!((report.tables[0].points.len(), skipped), (1, vec![("osu_mbw_mr does not print the metric `message rate`", &[3][..])]));
}

/// Counts how often each question was asked and how progress was told.
#[derive(Default)]
struct Counting {
    asked: Mutex<BTreeMap<Question, u32>>,
    told: Mutex<Vec<(usize, usize)>>,
}

impl Predict for Counting {
    fn predict(&self, question: &Question) -> Result<Answer, Refusal> {
        *self.asked.lock().unwrap().entry(question.clone()).or_default() += 1;
        let us = question.message_bytes.unwrap_or(0) as f64 + 1.0;
        if question.message_bytes == Some(3) {
            Err(Refusal::Skip("three".to_owned()))
        } else {
            Ok(Answer { latency_us: Some(us), ..Answer::default() })
        }
    }
    fn progress(&self, done: usize, all: usize) {
        self.told.lock().unwrap().push((done, all));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every row is a point or a skipped row of its table; tables and points are in the order of the file, each with its own prediction; and each
    /// question is asked once however often it stands there, and however many threads ask.
    #[test]
    fn every_row_counts_once(rows in prop::collection::vec((0usize..3, 0u64..8, 1u32..50), 1..40)) {
        let line = |(table, bytes, value): &(usize, u64, u32)| format!("{},ri2,osu_latency,,2,2,{bytes},latency,us,{value}\n", ["a", "b", "c"][*table]);
        let text: String = rows.iter().map(line).collect();
        let counting = Counting::default();
        let report = validate(&[file(&text)], &[], &Terms::default(), &counting);
        let asked = counting.asked.into_inner().unwrap();
        prop_assert!(asked.values().all(|times| *times == 1), "{:?}", asked);
        let sizes: std::collections::BTreeSet<u64> = rows.iter().map(|(_, bytes, _)| *bytes).collect();
        prop_assert_eq!(asked.len(), sizes.len());
        let mut told = counting.told.into_inner().unwrap();
        told.sort_unstable();
        prop_assert_eq!(told, (1..=sizes.len()).map(|done| (done, sizes.len())).collect::<Vec<_>>());

        let mut order: Vec<usize> = rows.iter().map(|(table, ..)| *table).collect();
        let mut seen = Vec::new();
        order.retain(|table| !seen.contains(table) && { seen.push(*table); true });
        prop_assert_eq!(report.tables.iter().map(|table| table.table.as_str()).collect::<Vec<_>>(), order.iter().map(|table| ["a", "b", "c"][*table]).collect::<Vec<_>>());
        for (result, number) in report.tables.iter().zip(order) {
            let own = || rows.iter().filter(|(table, ..)| *table == number);
            let expected: Vec<Point> = own().filter(|(_, bytes, _)| *bytes != 3)
                .map(|(_, bytes, value)| Point { measured: f64::from(*value), predicted: *bytes as f64 + 1.0 }).collect();
            prop_assert_eq!(result.points.iter().map(|point| point.point).collect::<Vec<_>>(), expected);
            prop_assert_eq!(result.skipped_rows() + result.points.len(), own().count());
        }
    }

    /// A model that is right has no errors and no bias; one that is wrong by a factor has that error everywhere.
    #[test]
    fn errors_are_those_of_the_model(values in prop::collection::vec(1.0f64..1e6, 1..20), factor in 0.5f64..2.0) {
        let text: String = values.iter().enumerate().map(|(bytes, value)| format!("t,ri2,osu_latency,,2,2,{bytes},latency,us,{value}\n")).collect();
        for factor in [1.0, factor] {
            let wrong = |question: &Question| {
                let us = values[question.message_bytes.unwrap() as usize] * factor;
                Ok(Answer { latency_us: Some(us), ..Answer::default() })
            };
            let summary = validate(&[file(&text)], &[], &Terms::default(), &wrong).tables[0].summary().unwrap();
            let error = 100.0 * (factor - 1.0);
            for found in [summary.median, summary.p90, summary.max] {
                prop_assert!((found - error.abs()).abs() < 1e-6, "{} and {}", found, error);
            }
            prop_assert!((summary.bias - error).abs() < 1e-6);
        }
    }

    /// Limits hold at their value and above, and at no other.
    #[test]
    fn limits_are_those_of_the_file(median in 0u32..40, p90 in 0u32..40, at in 1u32..30, most in 1u32..30) {
        let tolerances = Tolerances::parse("t.toml", &format!("[goals]\nperftest = {{ median = {median}, p90 = {p90} }}\n")).unwrap();
        let summary = Summary { median: f64::from(at), p90: f64::from(at + most), max: 99.0, bias: 0.0 };
        let goal = tolerances.goal(Kind::Perftest).unwrap();
        prop_assert_eq!(goal.hold(&summary), at <= median && at + most <= p90);
        let holds = tolerances.standing("t", "latency", Kind::Perftest, Some(&summary)).unwrap().holds();
        prop_assert_eq!(holds, goal.hold(&summary));
    }

    /// Beside a tool's output: its lines stand as they were, in order; each published size has its value and its error behind a bar in one column.
    #[test]
    fn the_tool_s_own_lines_stay(rows in prop::collection::vec((1u64..1 << 20, 1u32..100_000, 50u32..200), 1..12), published in any::<u16>()) {
        let mut sizes: Vec<(u64, f64, f64)> = rows.iter().map(|(size, value, percent)| (*size, f64::from(*value), f64::from(*percent))).collect();
        sizes.sort_by_key(|(size, ..)| *size);
        sizes.dedup_by_key(|(size, ..)| *size);
        let line = |(size, value, percent): &(u64, f64, f64)| format!("{size:<10}{:>20.2}\n", value * percent / 100.0);
        let text = format!("# A test v1\n# Size\tLatency (us)\n{}", sizes.iter().map(line).collect::<String>());
        let known: Vec<Beside> = sizes.iter().enumerate().filter(|(at, _)| published >> at & 1 == 1)
            .map(|(_, (size, value, percent))| Beside { message_bytes: *size, point: Point { measured: *value, predicted: value * percent / 100.0 } }).collect();
        let shown = beside(&text, "us", &known);
        let before: Vec<String> = text.lines().map(|line| line.replace('\t', "  ")).collect();
        let after: Vec<&str> = shown.lines().collect();
        prop_assert_eq!(after.len(), before.len() + usize::from(!known.is_empty()));
        let mut bars = Vec::new();
        for (before, after) in before.iter().zip(&after) {
            prop_assert!(after.starts_with(before.trim_end()), "{:?} and {:?}", before, after);
            if let Some((left, right)) = after.split_once('|') {
                bars.push(left.chars().count());
                let numbers: Vec<f64> = right.split_whitespace().filter_map(|word| word.parse().ok()).collect();
                let size: Option<u64> = left.split_whitespace().next().and_then(|word| word.parse().ok());
                if let (Some(size), [measured, error]) = (size, &numbers[..]) {
                    let point = known.iter().find(|row| row.message_bytes == size).unwrap().point;
                    prop_assert!((point.measured - measured).abs() < 0.006 && (point.error_percent() - error).abs() < 0.06);
                }
            }
        }
        // A head and a row for each that is published.
        prop_assert_eq!(bars.len(), known.len() + 1);
        prop_assert!(bars.windows(2).all(|pair| pair[0] == pair[1]), "{}", shown);
    }
}

#[test]
fn a_table_with_a_goal_and_no_points_fails() {
    // Nothing was compared: that is no proof. What is not a benchmark at all counts among the claims.
    let table = || file("t,ri2,osu_unknown,,2,2,8,latency,us,1\n");
    let tolerances = Tolerances::parse("t.toml", "[goals]\nclaims = { median = 50, p90 = 50 }\n").unwrap();
    let report = validate(&[table()], &[], &Terms { tolerances, ..Terms::default() }, &all);
    assert_eq!(report.failures().count(), 1);
    assert_eq!(validate(&[table()], &[], &Terms::default(), &all).failures().count(), 0);
}

#[test]
fn points_are_shown_when_they_are_asked_for() {
    let table = || file("t,ri2,osu_latency,,2,2,8,latency,us,8\nt,ri2,osu_bw,peak,2,2,,peak bandwidth,MB/s,1250\n");
    let report = validate(&[table()], &[], &Terms::default(), &all);
    let grids = |detail| report.outcome(detail).tables().map(|grid| grid.text()).collect::<Vec<_>>();
    assert_eq!((grids(Detail::Tables).len(), grids(Detail::Points).len()), (1, 2));
    // 10 us of 8 are 25 % more, 1000 MB/s of 1250 are 20 % less.
    let words: Vec<Vec<String>> =
        grids(Detail::Points)[0].lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
    assert_eq!(words[1].last().unwrap(), "+25.0");
    assert_eq!((words[2][1].as_str(), words[2].last().unwrap().as_str()), ("all", "-20.0"));
}
