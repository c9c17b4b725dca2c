//! Incasts that end: where switches trim, transports that hear of it make progress whatever the number of senders.

use crate::labs::catalog;

use fabriscope_lab::parse;
use fabriscope_lab::run::{LabRun, RunSettings, run};
use serde_json::Value;

/// How much longer than the payload takes on the receiver's link the incast lasts, for each scheme.
fn over_the_bound(senders: u32, schemes: &str) -> Vec<f64> {
    let text = format!(
        "cluster = \"lab-roce-1024\"\nrouting = \"ecmp\"\n[workload.compare]\npatterns = [\"incast\"]\nsenders = {senders}\nsize = \"1 MB\"\nschemes = [{schemes}]\n"
    );
    let lab = parse(catalog(), "lab.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let LabRun::Sweep(outcome) = run(catalog(), &lab, &RunSettings::default()).unwrap() else { panic!("a comparison is a sweep") };
    let rows = outcome.get("runs").and_then(Value::as_array).expect("there are rows");
    rows.iter().map(|row| 1.0 / row["share_of_bound"].as_f64().unwrap_or_else(|| panic!("{senders} to one gave up: {row}"))).collect()
}

const SCHEMES: &str = "{ congestion = \"nscc\", flow_control = \"lossy\", transport = \"uet\" }, \
    { congestion = \"dcqcn\", flow_control = \"lossy\", any_order = true }, \
    { congestion = \"dcqcn\", flow_control = \"lossy\" }";

// The bound leaves out headers: 4,096 of 4,174 bytes on the wire are payload, 1.9 %. What is beyond that and a few round trips is
// what the transport wastes: retransmissions that lost their place, and rates that were cut too far.

#[test]
fn an_incast_of_64_ends_near_the_bound() {
    ends(64);
}

#[test]
fn an_incast_of_128_ends_near_the_bound() {
    ends(128);
}

#[test]
fn an_incast_of_256_ends_near_the_bound() {
    ends(256);
}

fn ends(senders: u32) {
    let over = over_the_bound(senders, SCHEMES);
    let [nscc, selective, go_back] = over[..] else { panic!("three schemes: {over:?}") };
    assert!((1.019..1.25).contains(&nscc), "{senders} to one under NSCC: {nscc} of the bound");
    assert!((1.019..2.0).contains(&selective), "{senders} to one under DCQCN, packets in any order: {selective} of the bound");
    // Go-back-N sends again what had arrived.
    assert!((1.019..4.0).contains(&go_back), "{senders} to one under DCQCN, packets in order: {go_back} of the bound");
}
