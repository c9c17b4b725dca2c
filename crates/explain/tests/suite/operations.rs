//! Whole operations: every row is a run of its own with that change, and what cannot be asked is refused.

use crate::ask;
use ask::{catalog, parts, request, tell_all};
use fabriscope_catalog::ResolvedCluster;
use fabriscope_explain::{Changes, ExplainRequest, explain};
use fabriscope_lab::devices::DeviceOptions;
use fabriscope_lab::launch::{Launch, layout};
use fabriscope_tools::Tool;
use serde_json::Value;

/// The one operation that was asked for.
fn operation(cluster: &str, request: ExplainRequest) -> Value {
    tell_all(&parts(cluster), request).0.get("operations").unwrap()[0].clone()
}

/// What a tool prints first on a cluster.
fn printed(parts: &ResolvedCluster, shape: Option<(u32, u32)>, line: &str) -> f64 {
    let mut words = line.split_whitespace().map(str::to_owned);
    let (tool, options) = (Tool::by_name(&words.next().unwrap()).unwrap(), words.collect::<Vec<_>>());
    let layout = shape.map(|(nodes, ranks)| layout(parts, Some(nodes), Some(ranks)));
    let mut parts = parts.clone();
    let binding = DeviceOptions::default().apply(&mut parts, u32::MAX).unwrap();
    Launch { layout, binding, ..Launch::new(tool, &options, &parts) }.run().unwrap().0.points[0].value
}

fn value(operation: &Value, rows: &str, what: &str) -> f64 {
    let rows = operation[rows].as_array().unwrap();
    let row = rows.iter().find(|row| row["what"] == what).unwrap_or_else(|| panic!("no `{what}` among {rows:?}"));
    row["ran"]["value"].as_f64().unwrap()
}

fn job(line: &str, size: u64, nodes: u32, ranks: u32) -> ExplainRequest {
    ExplainRequest { nodes: Some(nodes), per_node: Some(ranks), ..request(line, Some(size), Changes::Tried) }
}

#[test]
fn a_row_is_what_the_whole_operation_takes_with_that_change() {
    let told = operation("betzy-hdr", job("osu_allreduce", 65_536, 4, 2));
    let line = "osu_allreduce -i 4 -x 1 -m 65536:65536";
    let ran = |parts: &ResolvedCluster, more: &str| printed(parts, Some((4, 2)), &format!("{line}{more}"));
    let as_is = parts("betzy-hdr");
    assert_eq!(told["taken"]["value"].as_f64().unwrap(), ran(&as_is, ""));
    for algorithm in ["rabenseifner", "ring"] {
        assert_eq!(value(&told, "others", algorithm), ran(&as_is, &format!(" --algorithm {algorithm}")), "{algorithm}");
    }
    let mut quicker = as_is.clone();
    let switches = quicker.switch.iter_mut().chain(quicker.switch_levels.iter_mut().flatten());
    switches.for_each(|switch| switch.latency.value = switch.latency.value / 2);
    assert_eq!(value(&told, "twice_as_fast", "latency of the switches"), ran(&quicker, ""));
}

#[test]
fn what_has_no_messages_to_follow_is_explained_as_a_whole() {
    let barrier = operation("ri2", ExplainRequest { per_node: Some(4), ..request("osu_barrier", None, Changes::Tried) });
    assert!(barrier["bound"].is_string() && barrier["others"].as_array().unwrap().len() >= 2, "{barrier}");
    // Of one flow the kernel's code takes more of the core than copies do, and the wire none (docs/models/tcp.md).
    let flow = operation("thor-roce-100g", request("iperf3 -t 0.01 -i 0", None, Changes::Tried));
    assert_eq!(flow["bound"], "code of the kernel on the cores", "{flow}");
    assert!(value(&flow, "twice_as_fast", "rate of the links") < 1.02 * flow["taken"]["value"].as_f64().unwrap(), "{flow}");
    let trip = operation("ibex-cpu", request("netperf -l -50", None, Changes::Left));
    assert!(trip["bound"].is_null() && trip["twice_as_fast"].as_array().unwrap().is_empty(), "{trip}");
}

#[test]
fn of_rows_of_several_sizes_that_of_the_asked_one_is_taken() {
    let told = operation("csd3-opa", job("IMB-MPI1 Bcast", 65_536, 4, 2));
    assert_eq!(told["bytes"], 65_536);
    assert!(told["taken"]["value"].as_f64().unwrap() > 10.0, "{told}");
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let error = |line: &str, size: Option<u64>, ranks: Option<u32>| {
        let request = ExplainRequest { per_node: ranks, ..request(line, size, Changes::Tried) };
        explain(&request, catalog(), &parts("ri2"), &|_, _| ()).unwrap_err().to_string()
    };
    assert!(error("osu_barrier", Some(8), None).contains("osu_barrier has no sizes of messages"));
    assert!(error("iperf3", None, Some(4)).contains("iperf3 is between two nodes"));
    assert!(error("IMB-MPI1 Bcast", Some(1000), None).contains("takes powers of two"));
    assert!(error("osu_latency", Some(8), Some(4)).contains("osu_latency"), "{}", error("osu_latency", Some(8), Some(4)));
    assert!(error("osu_allreduce", Some(8), Some(200)).contains("200"));
}
