//! The same algorithm as messages alone and under an MPI library: what the library and the cores add has a sign and a size.

use crate::labs::catalog;

use fabriscope_lab::parse;
use fabriscope_lab::run::{LabRun, RunSettings, run};
use fabriscope_report::Outcome;
use serde_json::Value;

fn one(text: &str) -> Outcome {
    let lab = parse(catalog(), "lab.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    match run(catalog(), &lab, &RunSettings::default()).unwrap_or_else(|error| panic!("{error}\n{text}")) {
        LabRun::One(single) => single.outcome(&lab),
        LabRun::Sweep(_) => panic!("one run"),
    }
}

/// Microseconds of an all-reduce of 64 KiB over 16 nodes: as messages alone, and as the benchmark prints it.
fn both(algorithm: &str) -> (f64, f64) {
    let messages = one(&format!(
        "cluster = \"alaska-roce25\"\n[workload.collective]\noperation = \"allreduce\"\nalgorithm = \"{algorithm}\"\nsize = \"64 KiB\"\nper_node = 1\n"
    ));
    let notes = messages.get("notes").expect("there are notes").to_string();
    assert!(notes.contains("left out: what an MPI library"), "{notes}");
    let last = messages.get("end_ps").and_then(Value::as_u64).expect("it ended") as f64 / 1e6;
    let bench = one(&format!(
        "cluster = \"alaska-roce25\"\n[workload.bench]\ntool = \"osu_allreduce\"\nnodes = 16\nper_node = 1\nargs = [\"-m\", \"65536:65536\", \"--algorithm\", \"{algorithm}\"]\n"
    ));
    let points = bench.get("points").and_then(Value::as_array).expect("there are points");
    (last, points[0]["value"].as_f64().expect("a latency"))
}

#[test]
fn a_library_adds_to_large_messages_what_its_handshakes_take() {
    // Recursive doubling: log2 16 = 4 messages of 64 KiB one after the other, each with a rendezvous, a copy or a reduction of 64 KiB
    // that the messages alone do not have. At 25 Gb/s a message takes 21 us; the library adds between a quarter of that and as much.
    let (alone, library) = both("recursive_doubling");
    assert!(alone > 4.0 * 21.0, "{alone}");
    assert!((4.0 * 5.0..4.0 * 21.0).contains(&(library - alone)), "{alone} us alone, {library} us under the library");
}

#[test]
fn a_library_hardly_changes_a_ring_of_small_blocks() {
    // Ring: 30 steps of 4 KiB. The benchmark's average over ranks that begin as they left the iteration before hides the skew of the
    // first ring, so that it may even lie below, by a third where a send is copied and its rank goes on at once; what the library adds to a step is of the order of
    // a microsecond.
    let (alone, library) = both("ring");
    assert!((library / alone - 1.0).abs() < 0.4, "{alone} us alone, {library} us under the library");
}
