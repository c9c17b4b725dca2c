//! Applications explained: parts add up, in both engines; another library is set beside the same program.

use crate::ask;
use ask::{catalog, parts, request, tell_all};
use fabriscope_explain::{Changes, ExplainRequest, explain};
use fabriscope_lab::bench::BenchEngine;
use serde_json::Value;

fn asked(line: &str, engine: BenchEngine, against: Option<&str>) -> ExplainRequest {
    let against = against.map(str::to_owned);
    ExplainRequest { nodes: Some(2), per_node: Some(4), engine, against, ..request(line, None, Changes::Left) }
}

fn seconds(rows: &Value, of: impl Fn(&Value) -> bool) -> f64 {
    rows.as_array().unwrap().iter().filter(|row| of(row)).map(|row| row["seconds"].as_f64().unwrap()).sum()
}

#[test]
fn causes_add_up_to_calls_and_calls_to_the_run() {
    for engine in [BenchEngine::Packet, BenchEngine::Flow] {
        let told = tell_all(&parts("alaska-roce25"), asked("hpcg -n 16,16,16", engine, None)).0;
        let (calls, causes, run) =
            (told.get("calls").unwrap(), told.get("causes").unwrap(), told.get("seconds").unwrap().as_f64().unwrap());
        assert!((seconds(calls, |_| true) / run - 1.0).abs() < 1e-6, "{engine:?}: {calls}");
        for call in ["MPI_Waitall", "MPI_Allreduce"] {
            let (whole, within) = (seconds(calls, |row| row["call"] == call), seconds(causes, |row| row["call"] == call));
            assert!(whole > 0.0 && (within / whole - 1.0).abs() < 1e-6, "{engine:?}, {call}: {within} of {whole}");
        }
        let waits = causes.as_array().unwrap().iter().any(|row| row["cause"] == "waiting");
        assert_eq!(waits, engine == BenchEngine::Packet, "only packets cannot tell why: {causes}");
    }
}

/// Connections that are made on first use are what differs, though nothing else is told of either library.
#[test]
fn what_differs_most_between_two_libraries_is_named() {
    let line = "vasp --kpar 1 --ncore 2 --bands 8 --occupied 8 --grid 16 --applications 1";
    let told = tell_all(&parts("archer2"), asked(line, BenchEngine::Flow, Some("library=cray-mpich-ucx"))).0;
    assert_eq!(told.get("mechanism").unwrap(), "connections made on first use");
    assert_eq!(told.get("against").unwrap(), "cray-mpich-ucx");
}

#[test]
fn what_cannot_be_set_beside_is_refused() {
    let refused = |cluster: &str, line: &str, library: &str| {
        let request = asked(line, BenchEngine::Auto, Some(library));
        explain(&request, catalog(), &parts(cluster), &|_, _| {}).unwrap_err().to_string()
    };
    assert!(refused("ri2", "hpcg -n 16", "no-such").contains("no-such"));
    assert!(refused("ri2", "hpcg -n 16", "lustre-2.15").contains("lustre"));
    assert!(refused("ri2", "osu_allreduce", "openmpi-ucx").contains("applications"));
}
