//! Flows at random times: slowdowns that follow from idle and from loaded links, distributions by name and by file, refusals.

use crate::labs::catalog;

use fabriscope_engine::Watch;
use fabriscope_lab::run::{LabRun, RunSettings, run};
use fabriscope_lab::{load, parse};
use fabriscope_report::Outcome;
use fabriscope_units::Span;
use serde_json::Value;

fn swept(text: &str, settings: &RunSettings) -> Outcome {
    let lab = parse(catalog(), "lab.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    match run(catalog(), &lab, settings).unwrap_or_else(|error| panic!("{error}\n{text}")) {
        LabRun::One(_) => panic!("flows are a sweep"),
        LabRun::Sweep(outcome) => outcome,
    }
}

fn lab(workload: &str) -> String {
    let cluster = "base = \"lab-roce-128\"\nname = \"sixteen\"\nnodes = 16\ntopology.leaf_spine = { leaves = 2, down = 8, spines = 4 }";
    format!("[cluster]\n{cluster}\n[workload.flows]\n{workload}\n")
}

fn rows(outcome: &Outcome, table: &str) -> Vec<Value> {
    outcome.get(table).and_then(Value::as_array).unwrap_or_else(|| panic!("no {table} in {}", outcome.data())).clone()
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("no {key} in {row}"))
}

#[test]
fn on_an_idle_network_nothing_is_slowed() {
    // At such a load 40 flows arrive over some 150 ms, and the largest takes 0.2 ms: none meets another.
    let outcome = swept(&lab("sizes = \"hadoop\"\nloads = [0.00001]\nflows = 40"), &RunSettings::default());
    let runs = rows(&outcome, "runs");
    assert_eq!((runs.len(), number(&runs[0], "flows")), (1, 40.0));
    assert!((number(&runs[0], "mean_slowdown") - 1.0).abs() < 1e-3, "{}", runs[0]);
    // Every flow stands in one bin, and in the row of all.
    let bins = rows(&outcome, "bins");
    let (all, parts): (Vec<&Value>, Vec<&Value>) = bins.iter().partition(|row| row["largest_bytes"] == "all");
    assert_eq!(parts.iter().map(|row| number(row, "flows")).sum::<f64>(), number(all[0], "flows"));
    // No flow is faster than its bytes: 400 Gb/s are 20 ps a byte.
    let flows = outcome.recorded("flows").expect("there are flows");
    assert_eq!(flows.rows().len(), 40);
    let keys: Vec<&str> = flows.keys().collect();
    let place = |key: &str| keys.iter().position(|known| *known == key).expect("the column is there");
    for row in flows.rows() {
        let values: Vec<&Value> = flows.values(row).collect();
        let (bytes, took) = (values[place("bytes")].as_u64().unwrap(), values[place("fct_ps")].as_u64().unwrap());
        assert!(took > 20 * bytes, "{bytes} bytes in {took} ps");
    }
}

#[test]
fn load_slows_flows_down() {
    let outcome = swept(&lab("sizes = \"alistorage\"\nloads = [0.1, 0.8]\nflows = 2000"), &RunSettings::default());
    let runs = rows(&outcome, "runs");
    let (low, high) = (number(&runs[0], "mean_slowdown"), number(&runs[1], "mean_slowdown"));
    assert!(low >= 0.999 && low < high, "{low} at a tenth, {high} at eight tenths");
    assert!(number(&runs[0], "window_ps") > 7.9 * number(&runs[1], "window_ps"), "the same flows in an eighth of the time");
    for row in rows(&outcome, "bins") {
        let [p50, p95, p99] = ["p50_slowdown", "p95_slowdown", "p99_slowdown"].map(|key| number(&row, key));
        assert!(p50 <= p95 && p95 <= p99, "{row}");
    }
}

#[test]
fn schemes_and_routings_are_rows_in_their_order() {
    let text = "sizes = \"alistorage\"\nloads = [0.2]\nduration = \"50 us\"\nroutings = [\"ecmp\", \"spray\"]\nschemes = [{ congestion = \"dctcp\", flow_control = \"lossy\" }, { congestion = \"nscc\", flow_control = \"lossy\", transport = \"uet\" }]\nincast = { senders = 4, size = \"20 kB\", load = 0.05 }";
    let outcome = swept(&lab(text), &RunSettings { series: Some(Span::from_us(5)), ..RunSettings::default() });
    let named = |row: &Value| format!("{} {}", row["congestion"].as_str().unwrap(), row["routing"].as_str().unwrap());
    assert_eq!(rows(&outcome, "runs").iter().map(named).collect::<Vec<_>>(), ["dctcp ecmp", "dctcp spray", "nscc ecmp", "nscc spray"]);
    assert!(rows(&outcome, "bins").iter().any(|row| row["largest_bytes"] == "incast"));
    // What hosts sent in all steps is what the flows hold, where nothing is sent again.
    let series = outcome.recorded("series").expect("a series was asked for");
    let keys: Vec<&str> = series.keys().collect();
    let place = |key: &str| keys.iter().position(|known| *known == key).expect("the column is there");
    let of = |wanted: &str| -> Vec<Vec<Value>> {
        let rows = series.rows().iter().map(|row| series.values(row).cloned().collect::<Vec<Value>>());
        rows.filter(|row| row[place("quantity")] == wanted && row[place("congestion")] == "dctcp" && row[place("routing")] == "ecmp")
            .collect()
    };
    let sent: u64 = of("sent").iter().map(|row| row[place("bytes")].as_u64().unwrap()).sum();
    let flows = outcome.recorded("flows").expect("there are flows");
    let keys: Vec<&str> = flows.keys().collect();
    let at = |key: &str| keys.iter().position(|known| *known == key).expect("the column is there");
    let held: u64 = flows
        .rows()
        .iter()
        .map(|row| flows.values(row).cloned().collect::<Vec<Value>>())
        .filter(|row| row[at("congestion")] == "dctcp" && row[at("routing")] == "ecmp")
        .map(|row| row[at("bytes")].as_u64().unwrap())
        .sum();
    assert_eq!(sent, held);
    assert!(!of("queue").is_empty(), "some queue was not empty at some step");
    // Looking changes nothing.
    let blind = swept(&lab(text), &RunSettings::default());
    assert_eq!(blind.data().to_string(), outcome.data().to_string());
}

#[test]
fn sizes_come_from_a_file_beside_the_lab() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("two.cdf"), "1000 50\n2000 50\n2000 100\n").unwrap();
    let path = folder.path().join("lab.toml");
    std::fs::write(&path, lab("sizes = \"two.cdf\"\nloads = [0.01]\nflows = 50\nbins = [\"1 kB\"]")).unwrap();
    let lab = load(catalog(), &path).unwrap();
    let LabRun::Sweep(outcome) = run(catalog(), &lab, &RunSettings::default()).unwrap() else { panic!("flows are a sweep") };
    // Half of the flows have 1000 bytes, the others 2000: 25 ± 5 standard deviations of 3.5.
    let small = number(&rows(&outcome, "bins")[0], "flows");
    assert!((8.0..42.0).contains(&small), "{small}");
    // A file that is none is refused with its line.
    std::fs::write(folder.path().join("two.cdf"), "1000 50\n2000 40\n").unwrap();
    let error = format!("{:?}", miette::Report::new(load(catalog(), &path).unwrap_err()));
    assert!(error.contains("line 2") && error.contains("have to grow"), "{error}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |workload: &str| {
        let error = parse(catalog(), "lab.toml", &lab(workload)).expect_err(workload);
        format!("{:?}", miette::Report::new(error))
    };
    let flows = "sizes = \"websearch\"\nloads = [0.5]\nflows = 10";
    for (workload, told) in [
        ("sizes = \"websurch\"\nloads = [0.5]\nflows = 10".to_owned(), "websearch"),
        ("sizes = \"websearch\"\nloads = [1.5]\nflows = 10".to_owned(), "a load of 1.5"),
        ("sizes = \"websearch\"\nloads = []\nflows = 10".to_owned(), "0 loads"),
        ("sizes = \"websearch\"\nloads = [0.5]".to_owned(), "no number of flows"),
        (format!("{flows}\nduration = \"1 ms\""), "both"),
        (format!("{flows}\nincast = {{ senders = 16, size = \"1 kB\", load = 0.1 }}"), "do not fit into 16 hosts"),
        (format!("{flows}\ntransport = \"ud\""), "does not write memory"),
        (format!("{flows}\nbins = [\"2 kB\", \"1 kB\"]"), "do not grow"),
        (format!("{flows}\nschemes = [{{ congestion = \"rccc\" }}]"), "credit"),
    ] {
        assert!(refused(&workload).contains(told), "{workload}: {}", refused(&workload));
    }
}

/// Messages of a pattern. A permutation without contention takes as long as each of its messages alone; of an incast of eight, the link
/// that all share carries eight times as much as alone, beside latencies that do not grow: slowdowns between 7 and 8.
#[test]
fn slowdowns_of_patterns() {
    for (name, least, most) in [("permutation-16", 1.0, 1.000_001), ("incast-8", 7.0, 8.0)] {
        let path = format!("{}/../../labs/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let lab = load(catalog(), path.as_ref()).unwrap();
        let settings = RunSettings { flows: Watch::On, ..RunSettings::default() };
        let LabRun::One(single) = run(catalog(), &lab, &settings).unwrap() else { panic!("{name}") };
        let outcome = single.outcome(&lab);
        let flows = outcome.recorded("flows").unwrap().json();
        let of = |key: &str| flows.as_array().unwrap().iter().map(|row| row[key].as_f64().unwrap()).collect::<Vec<f64>>();
        let (slow, took, alone) = (of("slowdown"), of("fct_ps"), of("alone_ps"));
        assert!(!slow.is_empty() && slow.iter().all(|slow| (least..=most).contains(slow)), "{name}: {slow:?}");
        assert!(slow.iter().zip(took.iter().zip(&alone)).all(|(slow, (took, alone))| (slow - took / alone).abs() < 1e-9));
        let cdf = outcome.data()["cdf"].as_array().unwrap().clone();
        let shares: Vec<(f64, f64)> = cdf.iter().map(|row| (row["share"].as_f64().unwrap(), row["slowdown"].as_f64().unwrap())).collect();
        assert!(shares.is_sorted() && shares.is_sorted_by_key(|(_, slow)| *slow), "{shares:?}");
        assert_eq!(shares.last().unwrap(), &(1.0, slow.iter().copied().fold(0.0, f64::max)));
    }
}
