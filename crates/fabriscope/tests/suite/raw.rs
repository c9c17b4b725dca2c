//! What `bench` prints of every tool is read back: each number of the text is one of its data, and compared on the same cluster nothing is off.

use fabriscope::{Catalog, Outcome, bench, calibrate, expect, render, validate};
use fabriscope_report::measured::read_all;
use serde_json::Value;

/// Tool and cluster, nodes and ranks of a node, options.
const RUNS: [(&str, &str, u32, u32, &str); 34] = [
    ("ib_send_lat", "ri2", 2, 1, "-a -n 10"),
    ("ib_send_lat", "ri2", 2, 1, "-s 64 -D 1 -f 0 -c UD"),
    ("ib_write_lat", "ri2", 2, 1, "-s 64 -n 10"),
    ("ib_read_lat", "ri2", 2, 1, "-s 64 -n 10"),
    ("ib_atomic_lat", "ri2", 2, 1, "-n 10"),
    ("ib_send_bw", "ri2", 2, 1, "-s 4096 --report_gbits"),
    ("ib_write_bw", "ri2", 2, 1, "-s 4096 -b -q 2"),
    ("ib_read_bw", "ri2", 2, 1, "-s 4096 -n 200 -m 2048"),
    ("ib_atomic_bw", "ri2", 2, 1, "-n 200"),
    ("osu_latency", "ri2", 2, 1, "-m 1:8 -f"),
    ("osu_bw", "ri2", 2, 1, "-m 1024:2048"),
    ("osu_bibw", "ri2", 2, 1, "-m 1024:2048"),
    ("osu_mbw_mr", "alaska-roce25", 2, 1, "-m 8:16"),
    ("osu_multi_lat", "ri2", 2, 1, "-p 2 -m 8:8"),
    ("osu_latency", "olivia-gh200-ss11", 2, 1, "-m 8:16 D D"),
    ("osu_put_latency", "ri2", 2, 1, "-m 1:8"),
    ("osu_get_bw", "ri2", 2, 1, "-m 1024:1024 -s fence"),
    ("osu_fop_latency", "ri2", 2, 1, ""),
    ("osu_oshm_put", "ri2", 2, 1, "heap -m 1:8"),
    ("osu_oshm_atomics", "ri2", 2, 1, "heap"),
    ("osu_oshm_barrier", "ri2", 2, 2, ""),
    ("osu_allreduce", "ri2", 2, 2, "-m 4:16 -f"),
    ("osu_ialltoall", "ri2", 2, 2, "-m 4:8"),
    ("osu_barrier", "ri2", 2, 2, ""),
    ("IMB-MPI1", "ri2", 2, 2, "-msglog 3:4 Allreduce"),
    ("IMB-MPI1", "ri2", 2, 1, "-msglog 3:4 PingPong"),
    ("IMB-MPI1", "ri2", 2, 1, "-msglog 3:4 Exchange"),
    ("IMB-MPI1", "ri2", 2, 2, "-msglog 3:4 Uniband"),
    ("all_reduce_perf", "azure-nda100v4", 1, 0, "-b 1K -e 1M -f 32 -g 8"),
    ("alltoall_perf", "azure-nda100v4", 2, 8, "-b 1M -e 1M"),
    ("osu_xccl_latency", "azure-ndh100v5", 2, 1, "-m 8:16"),
    ("osu_xccl_bw", "azure-ndh100v5", 2, 1, "-m 65536:65536"),
    ("iperf3", "alaska-roce25", 2, 1, "-t 0.02"),
    ("netperf", "alaska-roce25", 2, 1, "-l 0.01"),
];

fn catalog() -> Catalog {
    Catalog::embedded().unwrap()
}

fn ask(catalog: &Catalog, (tool, cluster, nodes, ranks, args): (&str, &str, u32, u32, &str)) -> Outcome {
    let mut question = bench(tool, cluster).catalog(catalog).args(args.split_whitespace());
    if nodes != 2 {
        question = question.nodes(nodes);
    }
    if ranks > 1 {
        question = question.ranks_per_node(ranks);
    }
    question.outcome().unwrap_or_else(|error| panic!("{tool} {args}: {error}"))
}

fn text(outcome: &Outcome) -> String {
    render::Renderer::render(&render::Text, outcome).unwrap()
}

/// How far a printed number may be from what it was: half of its last digit.
fn rounding(printed: &str) -> f64 {
    let digits = printed.rsplit_once('.').map_or(0, |(_, digits)| digits.len());
    0.500_001 * 0.1f64.powi(i32::try_from(digits).unwrap())
}

/// Metrics of the text that are no data of the tool: what it prints for people, or of what it computes another.
const OTHER: [&str; 6] = ["compute", "pure comm.", "overlap", "min latency", "max latency", "exchange rate"];

#[test]
fn what_bench_prints_is_read_back() {
    let catalog = catalog();
    for run in RUNS {
        let outcome = ask(&catalog, run);
        let text = text(&outcome);
        let measured = read_all("run.log", text.as_bytes()).unwrap_or_else(|error| panic!("{run:?}: {error}\n{text}"));
        assert!(measured.faults().is_empty(), "{run:?}: {}\n{text}", measured.faults()[0].error);
        let points = outcome.get("points").and_then(Value::as_array).unwrap();
        let mut found = 0;
        for row in measured.rows() {
            let line = text.lines().nth(measured.line(row) - 1).unwrap();
            let printed = line.split_whitespace().find(|word| word.parse() == Ok(row.value)).unwrap_or("0");
            // Units that differ in name or by a power of ten are told by the metric; iperf3 rounds to three digits.
            let near = |value: f64| (value - row.value).abs() <= rounding(printed);
            let of_size = |point: &&Value| row.message_bytes.is_none_or(|bytes| point["bytes"] == bytes);
            let same = points.iter().filter(of_size).any(|point| near(point["value"].as_f64().unwrap()));
            let known =
                OTHER.contains(&row.metric.as_str()) || row.metric.starts_with("t_") && run.4.contains("All") || run.4.contains("Exchange");
            assert!(same || known, "{run:?}: {} {} {} of {line}", row.metric, row.value, row.unit);
            found += usize::from(same);
        }
        let sizes: std::collections::BTreeSet<u64> = points.iter().filter_map(|point| point["bytes"].as_u64()).collect();
        assert!(found >= sizes.len(), "{run:?}: {found} numbers of {} sizes\n{text}", sizes.len());
    }
}

/// The same runs as measurements of the cluster: what can be predicted comes out within the digits that are printed.
#[test]
fn what_bench_prints_is_what_validate_predicts() {
    let catalog = catalog();
    let folder = std::env::temp_dir().join(format!("fabriscope-raw-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let compared = [5, 6, 9, 10, 14, 15, 16, 17, 21, 23, 24, 28, 29, 30, 33];
    for run in compared.map(|at| RUNS[at]) {
        let (tool, cluster, nodes, ranks, _) = run;
        let file = folder.join(format!("{tool}.log"));
        std::fs::write(&file, text(&ask(&catalog, run))).unwrap();
        let none: [&str; 0] = [];
        let question = || validate(none).catalog(&catalog).measured(&file);
        assert!(question().outcome().unwrap_err().to_string().contains("do not say on which cluster"), "{run:?}");
        let outcome = question().on(cluster).nodes(nodes).ranks_per_node(ranks).outcome().unwrap();
        let tables = outcome.data();
        let tables = tables.as_array().unwrap();
        let mut points = 0;
        for point in tables.iter().flat_map(|table| table["compared"].as_array().unwrap()) {
            let (published, error) = (point["published"].as_f64().unwrap(), point["error"].as_f64().unwrap());
            let digit = if published > 1000.0 { 0.6 } else { 0.006 } / published * 100.0;
            assert!(error.abs() <= 2.5 + digit, "{run:?}: {point}");
            points += 1;
        }
        assert!(points > 0, "{run:?}: nothing was compared: {tables:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A machine whose adapter takes longer than the catalogue says is measured: calibration finds the time again, and the file it writes gives what was
/// measured.
#[test]
fn calibration_finds_what_is_different() {
    let catalog = catalog();
    let folder = std::env::temp_dir().join(format!("fabriscope-calibrate-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let at = |name: &str| folder.join(name).display().to_string();
    let change = "[[change]]\nkind = \"nics\"\npart = \"connectx-5\"\nfield = \"rx_latency\"\nvalue = \"300 ns\"\nbasis = \"measured\"\nsource = \"x\"\n";
    std::fs::write(at("other.toml"), format!("name = \"other\"\nbase = \"ri2\"\n{change}")).unwrap();
    let measure = |on: &str| text(&bench("ib_send_lat", on).catalog(&catalog).args(["-s", "64", "-n", "50"]).outcome().unwrap());
    let measured = measure(&at("other.toml"));
    assert_ne!(measured, measure("ri2"));
    std::fs::write(at("run.log"), &measured).unwrap();
    let outcome = calibrate([at("run.log")], "ri2").catalog(&catalog).most(1).outcome().unwrap();
    std::fs::write(at("mine.toml"), outcome.draft().unwrap()).unwrap();
    let time = |text: &str| -> f64 { text.lines().rev().find_map(|line| line.split_whitespace().nth(4)?.parse().ok()).unwrap() };
    let (before, wanted, now) = (time(&measure("ri2")), time(&measured), time(&measure(&at("mine.toml"))));
    // 90 ns of some 900: one number, which cannot be told from others by one size, takes most of it.
    assert!(
        (wanted - before) > 0.08 && (now - wanted).abs() < 0.25 * (wanted - before),
        "{before} before, {wanted} measured, {now} fitted"
    );
    let tables = outcome.get("tables").and_then(Value::as_array).unwrap();
    assert!(tables[0]["after"].as_f64() < tables[0]["before"].as_f64());
    assert!(!outcome.get("alike").and_then(Value::as_array).unwrap().is_empty());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_expected_lies_within_its_interval_and_below_its_bound() {
    let catalog = catalog();
    let outcome = expect("ri2").catalog(&catalog).tools(["ib_write_lat", "ib_write_bw"]).outcome().unwrap();
    let rows = outcome.get("expected").and_then(Value::as_array).unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        let of = |key: &str| row[key].as_f64();
        let (low, value, high) = (of("low").unwrap(), of("expected").unwrap(), of("high").unwrap());
        assert!(low <= value && value <= high && row["points"].as_u64() > Some(0), "{row}");
        assert!(of("bound").is_none_or(|bound| high <= bound), "{row}");
        assert_eq!(of("limit"), Some(if row["metric"] == "latency" { high } else { low }), "{row}");
        assert!(row["tables"][0].as_str().unwrap().starts_with("ri2-"), "{row}");
    }
    assert!(expect("ri2").catalog(&catalog).tools(["nettest"]).outcome().unwrap_err().to_string().contains("`nettest`"));
}
