//! The four questions, as a program asks them.

use fabriscope::render::{Csv, Renderer, Text};
use fabriscope::{Error, Verdict, bench, explain, run, validate};

#[path = "../../examples/osu_latency.rs"]
#[allow(dead_code, clippy::print_stdout)]
mod example;

#[test]
fn the_example_prints_every_number_with_its_unit_and_the_settings() {
    let json: serde_json::Value = serde_json::from_str(&example::osu_latency().unwrap()).unwrap();
    assert_eq!((&json["tool"], &json["cluster"], &json["mtu_bytes"]), (&"osu_latency".into(), &"ri2".into(), &4096.into()));
    let points = json["points"].as_array().unwrap();
    // 1, 2, 4 … 1024 B: eleven sizes, one number each.
    assert_eq!(points.len(), 11);
    assert!(points.iter().all(|point| point["unit"] == "us" && point["metric"] == "latency"));
    // A larger message takes longer, and none less than the two switch ports and the adapters.
    let value = |at: usize| points[at]["value"].as_f64().unwrap();
    assert!(value(0) > 0.5 && value(10) > value(0), "{points:?}");
}

#[test]
fn the_same_question_has_the_same_answer_in_every_format() {
    let ask = || bench("ib_write_bw", "ri2").args(["-s", "4096", "-n", "20"]).outcome().unwrap();
    assert_eq!(ask(), ask());
    let text = Text.render(&ask()).unwrap();
    assert!(text.contains("BW average[MiB/sec]"), "{text}");
    let csv = Csv.render(&ask()).unwrap();
    assert!(csv.starts_with("bytes,metric,unit,value\n4096,bandwidth,MiB/s,"), "{csv}");
}

#[test]
fn a_tool_or_cluster_that_does_not_exist_is_an_error_with_a_remedy() {
    use miette::Diagnostic;
    let error = bench("osu_latencies", "ri2").outcome().unwrap_err();
    assert!(error.to_string().contains("osu_latency") && error.help().is_some(), "{error}");
    let error = bench("osu_latency", "ri3").outcome().unwrap_err();
    assert!(matches!(error, Error::Catalog(_)), "{error}");
    let error = validate(["no-such-table"]).outcome().unwrap_err();
    assert!(matches!(error, Error::UnknownTable { .. }), "{error}");
}

#[test]
fn stages_add_up_to_what_the_message_took() {
    let outcome = explain("ib_write_lat", "ri2").size(64).without_changes().outcome().unwrap();
    let sum: u64 = outcome.get("stages").unwrap().as_array().unwrap().iter().filter_map(|stage| stage["ps"].as_u64()).sum();
    assert_eq!(Some(sum), outcome.get("total_ps").and_then(serde_json::Value::as_u64));
}

#[test]
fn a_lab_runs_and_a_table_keeps_within_its_limits() {
    let lab = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/permutation-16.toml");
    let outcome = run(lab).seed(7).outcome().unwrap();
    assert_eq!((outcome.get("workload").unwrap(), outcome.get("seed").unwrap()), (&"permutation".into(), &7.into()));
    assert_eq!(validate(["ri2-ib_write_lat"]).outcome().unwrap().verdict(), Verdict::Good);
}
