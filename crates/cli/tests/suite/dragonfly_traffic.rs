//! The known results on dragonflies: order and approximate thresholds of the papers (docs/models/dragonfly-traffic.md).

use assert_cmd::Command;

/// The most that arrives, and the mean latencies in microseconds, of an open loop.
fn sweep(cluster: &str, pattern: &str, routing: &str, loads: &str) -> (f64, Vec<f64>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab.toml");
    let text = format!(
        "cluster = \"{cluster}\"\nrouting = \"{routing}\"\n[workload.open_loop]\npattern = \"{pattern}\"\nloads = [{loads}]\n\
         size = \"16 KiB\"\nwarm_up = \"10 us\"\nwindow = \"25 us\"\nany_order = true\n"
    );
    std::fs::write(&path, text).unwrap();
    let output = Command::cargo_bin("fabriscope").unwrap().args(["run", path.to_str().unwrap(), "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let latencies = value["points"].as_array().unwrap().iter().map(|p| p["mean_ps"].as_f64().unwrap() / 1e6).collect();
    (value["most_accepted"].as_f64().unwrap(), latencies)
}

/// Thresholds for a dragonfly whose groups have `endpoints` endpoints, one global link to each other group.
fn thresholds(cluster: &str, endpoints: f64) {
    let most = |pattern, routing| sweep(cluster, pattern, routing, "0.45, 0.6, 1.0").0;
    let (minimal, valiant) = (most("uniform", "minimal"), most("uniform", "valiant"));
    assert!(minimal > 0.8, "uniform, minimal: {minimal}");
    assert!((0.42..0.58).contains(&valiant), "uniform, Valiant: {valiant}");
    for routing in ["ugal_l", "ugal_g", "adaptive"] {
        let uniform = most("uniform", routing);
        assert!(uniform > 0.75 && uniform > 1.4 * valiant, "uniform, {routing}: {uniform}");
    }
    let (minimal, valiant) = (most("adversarial", "minimal"), most("adversarial", "valiant"));
    assert!((0.8..1.2).contains(&(minimal * endpoints)), "worst, minimal: {minimal}, expected 1/{endpoints}");
    assert!((0.35..0.55).contains(&valiant), "worst, Valiant: {valiant}");
    for routing in ["ugal_l", "ugal_g", "adaptive"] {
        let worst = most("adversarial", routing);
        assert!((0.33..0.58).contains(&worst) && worst > 2.5 * minimal, "worst, {routing}: {worst}");
    }
}

#[test]
fn thresholds_of_72_endpoints() {
    thresholds("lab-dragonfly-72", 8.0);
}

#[test]
#[ignore = "minutes: make test-long"]
fn thresholds_of_1056_endpoints() {
    thresholds("lab-dragonfly-1056", 32.0);
}

/// Below saturation UGAL-L pays for noticing late what UGAL-G sees.
#[test]
fn local_knowledge_costs_latency() {
    let at = |routing| sweep("lab-dragonfly-72", "adversarial", routing, "0.3").1[0];
    let (local, global) = (at("ugal_l"), at("ugal_g"));
    assert!(local > 1.5 * global, "{local} us against {global} us");
}
