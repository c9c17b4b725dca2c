//! `fabriscope trace --on`: traces of real programs run on a cluster, in both engines.

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

fn run(words: &[&str]) -> (Option<i32>, String, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::cargo_bin("fabriscope").unwrap().current_dir(folder).arg("trace").args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Time by packets and by flows, us.
fn replayed(words: &[&str]) -> (f64, f64) {
    let (status, text, message) = run(&[words, &["--json"]].concat());
    assert_eq!(status, Some(0), "{message}");
    let found: Value = serde_json::from_str(&text).unwrap();
    let row = &found["replayed"][0];
    (row["packet_us"].as_f64().unwrap(), row["flow_us"].as_f64().unwrap())
}

/// A GOAL file, a trace of MPI with its collectives and a workload of one rank for eight: both engines agree.
#[test]
fn both_engines_run_traces() {
    let dumpi = "crates/traces/tests/files/sstsimulator__sst-dumpi/tests_traces_testtrace.meta";
    let chakra = "crates/traces/tests/files/astra-sim__astra-sim/examples_workload_microbenchmarks_all_reduce_16npus_1MB_all_reduce.0.et";
    let cases: [&[&str]; 4] = [
        &["examples/traces/ping-pong.goal"],
        &[dumpi],
        &[chakra, "--ranks", "16"],
        &["examples/traces/tensor-parallel.txt", "--ranks", "8"],
    ];
    for case in cases {
        let (packets, flows) = replayed(&[case, &["--on", "lab-16"]].concat());
        assert!(packets > 1.0 && (flows / packets - 1.0).abs() < 0.01, "{case:?}: {packets} {flows}");
    }
}

/// A ring of 16 sends 30 pieces of 64 KiB, each rank the next one when it has the one before: 30 times what a message of 64 KiB takes from
/// memory to memory, which is what perftest prints; a round waits for the acknowledgement of its own send, too.
#[test]
fn an_all_reduce_takes_the_rounds_of_its_ring() {
    let file = "crates/traces/tests/files/astra-sim__astra-sim/examples_workload_microbenchmarks_all_reduce_16npus_1MB_all_reduce.0.et";
    let (packets, _) = replayed(&[file, "--ranks", "16", "--on", "lab-16"]);
    let words = ["bench", "ib_send_lat", "--on", "lab-16", "-s", "65536", "-n", "20", "--json"];
    let output = Command::cargo_bin("fabriscope").unwrap().args(words).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let points = found["points"].as_array().unwrap();
    let latency = points.iter().find(|point| point["metric"] == "latency").unwrap()["value"].as_f64().unwrap();
    let rounds = packets / latency;
    assert!((30.0..36.0).contains(&rounds), "{rounds} of {latency} us");
}

/// Without its computation a workload takes less, with three halves of it more.
#[test]
fn computation_is_scaled() {
    let of = |factor: &str| replayed(&["examples/traces/tensor-parallel.txt", "--ranks", "8", "--on", "lab-16", "--compute", factor]).0;
    let (none, kept, more) = (of("0"), of("1"), of("3/2"));
    assert!(none < kept && kept < more, "{none} {kept} {more}");
    assert!(((more - none) / (kept - none) - 1.5).abs() < 0.01, "{none} {kept} {more}");
}

#[test]
fn what_cannot_be_run_is_told() {
    let goal = "examples/traces/ping-pong.goal";
    for (words, expected) in [
        (vec![goal, "--on", "nowhere"], "nowhere"),
        (vec![goal, "--on", "lab-16", "--compute", "twice"], "write a number or a fraction"),
        (vec!["examples/traces/tensor-parallel.txt", "--on", "lab-16"], "--ranks"),
    ] {
        let (status, text, message) = run(&words);
        assert_eq!(status, Some(2), "{words:?}: {text}");
        assert!(message.contains(expected), "{words:?}: {message}");
    }
}

/// Starts that traces tell: who waits for whom, and ranks that begin apart.
#[test]
fn ranks_are_compared_by_their_clocks() {
    let dumpi = "crates/traces/tests/files/sstsimulator__sst-dumpi/tests_traces_testtrace.meta";
    let (status, text, message) = run(&[dumpi, "--waits", "--json"]);
    assert_eq!(status, Some(0), "{message}");
    let found: Value = serde_json::from_str(&text).unwrap();
    let waits = found["waits"].as_array().unwrap();
    assert!(!waits.is_empty() && waits.iter().all(|of| of["waited_us"].as_f64().unwrap() >= 0.0), "{text}");
    let together = replayed(&[dumpi, "--on", "lab-16"]).0;
    let apart = replayed(&[dumpi, "--on", "lab-16", "--skew"]).0;
    assert!(apart >= together, "{apart} {together}");
}
