//! Statistics, tables and formats by their definitions: percentiles against sorting, columns that stand below each other, CSV that reads
//! back, stages that add up, queue pairs by their formulas.

use fabriscope_report::explain::{Stages, nanoseconds};
use fabriscope_report::render::{Csv, Json, Renderer, Text};
use fabriscope_report::{Cell, Column, Grid, Job, Kind, Outcome, Point, Queues, Summary, Table, Tolerances};
use fabriscope_units::{Bytes, Span};
use proptest::prelude::*;

fn points() -> impl Strategy<Value = Vec<Point>> {
    prop::collection::vec((1.0f64..1e6, 0.0f64..2e6).prop_map(|(measured, predicted)| Point { measured, predicted }), 1..60)
}

proptest! {
    /// Half of the errors are at most the median, nine tenths at most the 90th percentile; the bias is no more than the mean size.
    #[test]
    fn summaries_divide_the_points(points in points()) {
        let summary = Summary::of(&points).unwrap();
        let sizes: Vec<f64> = points.iter().map(|point| point.error_percent().abs()).collect();
        let share = |limit: f64| sizes.iter().filter(|size| **size <= limit * (1.0 + 1e-12)).count() as f64 / sizes.len() as f64;
        prop_assert!(share(summary.median) >= 0.5 && share(summary.max) == 1.0);
        // Between two points the percentile lies above the lower one: at most one point less than nine tenths.
        prop_assert!(share(summary.p90) >= 0.9 - 1.0 / sizes.len() as f64);
        prop_assert!(summary.median <= summary.p90 && summary.p90 <= summary.max * (1.0 + 1e-12));
        prop_assert!(summary.bias.abs() <= sizes.iter().sum::<f64>() / sizes.len() as f64 + 1e-9);
        // The order of the points does not matter, nor does the unit.
        let mut turned = points.clone();
        turned.reverse();
        let scaled: Vec<Point> = points.iter().map(|point| Point { measured: point.measured * 8.0, predicted: point.predicted * 8.0 }).collect();
        for other in [Summary::of(&turned).unwrap(), Summary::of(&scaled).unwrap()] {
            prop_assert!((other.median - summary.median).abs() < 1e-6 * (1.0 + summary.median) && (other.p90 - summary.p90).abs() < 1e-6 * (1.0 + summary.p90));
        }
    }

    /// Cells of a column of numbers end below each other, those of words begin there; no line ends in blanks.
    #[test]
    fn columns_stand_below_each_other(rows in prop::collection::vec(("[a-z]{1,12}", 0u64..1_000_000_000, 0u64..100), 1..10)) {
        let mut table = Table::new(["name", "first (us)", "second"]);
        for (name, first, second) in &rows {
            table.push([name.clone(), first.to_string(), second.to_string()]);
        }
        let text = table.to_string();
        let ends = |line: &str, word: &str, from: usize| line[from..].find(word).map(|at| from + at + word.len());
        let lines: Vec<&str> = text.lines().collect();
        prop_assert_eq!(lines.len(), rows.len() + 1);
        let width = lines[1..].iter().zip(&rows).map(|(line, (name, first, _))| ends(line, &first.to_string(), name.len()).unwrap()).collect::<Vec<_>>();
        prop_assert!(width.windows(2).all(|pair| pair[0] == pair[1]), "{}", text);
        prop_assert!(lines.iter().all(|line| line.trim_end() == *line));
        for (line, (name, ..)) in lines[1..].iter().zip(&rows) {
            prop_assert!(line.starts_with(name.as_str()));
        }
    }

    /// What a spreadsheet reads is what was written, whatever is in a word: commas, quotes, line ends.
    #[test]
    fn csv_is_read_back(rows in prop::collection::vec(("[a-z,\" \\n]{0,12}", any::<u32>()), 1..8)) {
        let mut grid = Grid::new([Column::words("word", "word"), Column::number("number", "number")]);
        for (word, number) in &rows {
            grid.push([Cell::word(word.clone()), Cell::count(*number)]);
        }
        let mut outcome = Outcome::new();
        outcome.keyed_table("rows", grid);
        let text = Csv.render(&outcome).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let read: Vec<(String, u32)> = reader.records().map(|record| record.unwrap()).map(|record| (record[0].to_owned(), record[1].parse().unwrap())).collect();
        prop_assert_eq!(&read, &rows);
        // JSON has the same rows.
        let json: serde_json::Value = serde_json::from_str(&Json.render(&outcome).unwrap()).unwrap();
        let of_json: Vec<(String, u32)> = json["rows"].as_array().unwrap().iter().map(|row| (row["word"].as_str().unwrap().to_owned(), row["number"].as_u64().unwrap() as u32)).collect();
        prop_assert_eq!(of_json, read);
        // And people see each number.
        let people = Text.render(&outcome).unwrap();
        prop_assert!(rows.iter().all(|(_, number)| people.contains(&number.to_string())));
    }

    /// Stages that add up are taken, others refused; equal neighbours are one, and the longest is the largest sum by name.
    #[test]
    fn stages_add_up(stages in prop::collection::vec((prop::sample::select(vec!["post", "wire", "switch", "poll"]), 0u64..10_000), 1..12), off in 1u64..100) {
        let named: Vec<(String, Span)> = stages.iter().map(|(name, ps)| ((*name).to_owned(), Span::from_ps(*ps))).collect();
        let total: Span = named.iter().map(|(_, span)| *span).sum();
        prop_assert!(Stages::new(named.clone(), total + Span::from_ps(off)).is_err());
        let taken = Stages::new(named, total).unwrap();
        prop_assert_eq!(taken.rows().map(|(_, span)| span).sum::<Span>(), total);
        let rows: Vec<&str> = taken.rows().map(|(name, _)| name).collect();
        prop_assert!(rows.windows(2).all(|pair| pair[0] != pair[1]), "{:?}", rows);
        let sum = |name: &str| stages.iter().filter(|(other, _)| *other == name).map(|(_, ps)| ps).sum::<u64>();
        let (longest, span) = taken.longest().unwrap();
        prop_assert_eq!(span.as_ps(), sum(longest));
        prop_assert!(["post", "wire", "switch", "poll"].iter().all(|name| sum(name) <= span.as_ps()));
    }

    /// Nanoseconds with three decimals are picoseconds: a column adds up as printed.
    #[test]
    fn printed_times_lose_nothing(ps in 0u64..1 << 50) {
        let text = nanoseconds(Span::from_ps(ps));
        let (whole, decimals) = text.split_once('.').unwrap();
        prop_assert_eq!(decimals.len(), 3);
        prop_assert_eq!(whole.parse::<u64>().unwrap() * 1000 + decimals.parse::<u64>().unwrap(), ps);
    }

    /// Contexts by transport: M² (N − 1), 2 M (N − 1), 2 M, M; memory grows with each of its parts.
    #[test]
    fn queue_pairs_by_their_formulas(m in 1u32..300, n in 1u32..5000, context in 1u64..1000, entry in 1u64..512, send in 1u32..1024) {
        let queues = Queues { send, receives: 512, buffer: Bytes(1024) };
        let job = Job { per_node: m, nodes: n, context: Bytes(context), send_entry: Bytes(entry), connections: queues, datagrams: Some(queues) };
        let (mm, others) = (u64::from(m), u64::from(n) - 1);
        let expected = [("RC", mm * mm * others), ("XRC", 2 * mm * others), ("DC", 2 * mm), ("UD", mm), ("SRD", mm)];
        let found: Vec<(&str, u64)> = job.footprints().iter().map(|footprint| (footprint.transport, footprint.contexts_per_adapter)).collect();
        prop_assert_eq!(&found[..], &expected[..]);
        for footprint in job.footprints() {
            prop_assert_eq!(footprint.node_bytes, mm * footprint.process_bytes);
            // A receive of 1024 B with its entry of 16 B, 512 of them, whatever the transport.
            prop_assert!(footprint.process_bytes >= 512 * 1040);
        }
        let larger = Job { context: Bytes(context + 1), ..job };
        let contexts = |job: &Job| job.footprints().iter().map(|footprint| footprint.node_bytes).sum::<u64>();
        prop_assert_eq!(contexts(&larger) - contexts(&job), expected.iter().map(|(_, count)| count).sum::<u64>());
    }
}

#[test]
fn cells_for_people_and_for_programs() {
    let cells = [
        (Cell::us(Span::from_ps(1_234_567)), "1.235", serde_json::json!(1_234_567)),
        (Cell::us_or_none(None), "-", serde_json::Value::Null),
        (Cell::number(2.0 / 3.0, 2), "0.67", serde_json::json!(2.0 / 3.0)),
        (Cell::bytes(Bytes(4096)), "4096", serde_json::json!(4096)),
        (Cell::told("4 KiB", 4096), "4 KiB", serde_json::json!(4096)),
        (Cell::data("hidden"), "", serde_json::json!("hidden")),
    ];
    for (cell, text, value) in cells {
        assert_eq!(*cell.value(), value);
        let mut grid = Grid::new([Column::words("cell", "cell")]);
        grid.push([cell]);
        assert_eq!(grid.text().lines().nth(1).unwrap_or_default(), text);
        assert_eq!(grid.json(), serde_json::json!([{ "cell": value }]));
    }
}

#[test]
fn rows_have_as_many_cells_as_columns() {
    let mut grid = Grid::new([Column::words("a", "a"), Column::number("b", "b")]);
    grid.push([Cell::word("one")]);
    grid.push([Cell::word("two"), Cell::count(2), Cell::count(3)]);
    assert_eq!(grid.json(), serde_json::json!([{ "a": "one", "b": null }, { "a": "two", "b": 2 }]));
    // A last row is for people only.
    grid.foot([Cell::word("sum"), Cell::count(2)]);
    assert_eq!(grid.json().as_array().unwrap().len(), 2);
    assert!(grid.text().lines().last().unwrap().starts_with("sum"));
}

#[test]
fn limits_hold_at_their_value() {
    let tolerances = Tolerances::parse("t.toml", "[goals]\ngpus = { median = 10, p90 = 20 }\n[table.a]\n").unwrap();
    let goal = tolerances.goal(Kind::Gpus).unwrap();
    // Ten points with errors of 1 to 10 per cent: median 5.5, 90 % at rank 8.1: 9.1.
    let points: Vec<Point> = (1..=10).map(|percent| Point { measured: 100.0, predicted: 100.0 + f64::from(percent) }).collect();
    let summary = Summary::of(&points).unwrap();
    assert!((summary.median - 5.5).abs() < 1e-9 && (summary.p90 - 9.1).abs() < 1e-9 && (summary.bias - 5.5).abs() < 1e-9);
    assert!(goal.hold(&summary));
    let twice = points.iter().map(|point| Point { predicted: 100.0 + 2.2 * (point.predicted - 100.0), ..*point }).collect::<Vec<_>>();
    // Medians of 12.1 are too much.
    assert!(!goal.hold(&Summary::of(&twice).unwrap()));
    assert_eq!(tolerances.tables().collect::<Vec<_>>(), ["a"]);
}
