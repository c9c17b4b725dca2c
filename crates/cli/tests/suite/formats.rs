//! One outcome, the same in every format and in every command.

use assert_cmd::Command;

fn fabriscope(args: &[&str]) -> Vec<u8> {
    let output = Command::cargo_bin("fabriscope").unwrap().args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_slice(&fabriscope(args)).unwrap()
}

#[test]
fn bench_gives_every_number_of_the_table_with_its_unit_and_the_settings() {
    let bench = json(&["bench", "ib_write_lat", "--on", "ri2", "-s", "64", "-n", "20", "--json"]);
    assert_eq!((&bench["tool"], &bench["cluster"], &bench["software"]), (&"ib_write_lat".into(), &"ri2".into(), &bench["software"]));
    let points = bench["points"].as_array().unwrap();
    // Minimum, maximum, typical, average, deviation, two percentiles, and how many iterations they are of.
    assert_eq!(points.len(), 8);
    assert!(points.iter().all(|point| point["bytes"] == 64 && point["value"].is_f64()));
    assert_eq!(points[7], serde_json::json!({ "bytes": 64, "metric": "iterations", "unit": "1", "value": 20.0 }));
    // The text is there as well, byte for byte.
    let text = fabriscope(&["bench", "ib_write_lat", "--on", "ri2", "-s", "64", "-n", "20"]);
    assert_eq!(bench["text"].as_str().unwrap().as_bytes(), text);
}

#[test]
fn options_may_stand_before_or_behind_the_tool() {
    let behind = fabriscope(&["bench", "osu_latency", "-m", "8:8", "-i", "10", "--on", "ri2", "--csv"]);
    let before = fabriscope(&["bench", "--on", "ri2", "--csv", "osu_latency", "-m", "8:8", "-i", "10"]);
    assert_eq!(behind, before);
    assert!(behind.starts_with(b"bytes,metric,unit,value\n8,latency,us,"));
}

#[test]
fn a_file_is_of_the_format_of_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for name in ["clusters.json", "clusters.csv", "clusters.txt"] {
        assert!(fabriscope(&["clusters", "-o", &path(name)]).is_empty());
    }
    let read = |name: &str| std::fs::read(path(name)).unwrap();
    assert_eq!(read("clusters.json"), fabriscope(&["clusters", "--json"]));
    assert_eq!(read("clusters.csv"), fabriscope(&["clusters", "--csv"]));
    assert_eq!(read("clusters.txt"), fabriscope(&["clusters"]));
}
