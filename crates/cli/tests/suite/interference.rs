//! `[workload.interference]`: an incast beside victims under several controls.

use std::process::Command;

const LAB: &str = r#"title = "small incast"
cluster = "lab-roce-128"

[workload.interference]
senders = 32
size = "256 kB"
victims = 4
victim_size = "2 MB"
schemes = [
    { flow_control = "lossless" },
    { congestion = "dctcp", flow_control = "lossy" },
    { congestion = "nscc", flow_control = "lossy", transport = "uet" },
    { congestion = "rccc-nscc-asked", flow_control = "lossy", transport = "uet" },
]
"#;

fn run(lab: &str) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lab.toml");
    std::fs::write(&file, lab).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fabriscope")).args(["run", "--json", file.to_str().unwrap()]).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Pauses carry the incast to the victims; sprayed packets under NSCC leave them alone. Nothing is faster than the link.
#[test]
fn sprayed_packets_spare_the_victims_that_pauses_stop() {
    let (status, printed, told) = run(LAB);
    assert_eq!(status, Some(0), "{told}");
    let (_, again, _) = run(LAB);
    assert_eq!(printed, again);
    let found: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let rows = found["schemes"].as_array().unwrap();
    let number = |row: usize, name: &str| rows[row][name].as_f64().unwrap_or_else(|| panic!("no {name} in {printed}"));
    let slowdown = [0, 1, 2].map(|row| number(row, "slowdown"));
    assert!(slowdown[0] > 1.5 && slowdown[2] < 1.3, "{slowdown:?}");
    let pauses = [0, 1, 2].map(|row| rows[row]["counts"]["pauses"].as_u64().unwrap());
    assert!(pauses[0] > 0 && pauses[1..] == [0, 0] && rows[0]["counts"]["drops"] == 0, "{pauses:?}");
    // Credit at the rate of the receiver's port: two packets of each sender are the most that meet there.
    let depth = rows[3]["counts"]["deepest_queue"].as_f64().unwrap_or_else(|| panic!("no depth in {printed}"));
    assert!(number(3, "slowdown") < 1.3 && depth < 32.0 * 2.0 * 5000.0, "{depth}");
    // 32 · 256 kB at 400 Gb/s.
    let least = 32.0 * 256e3 * 8.0 / 400e9 * 1e12;
    for row in rows {
        let times = row["incast_ps"].as_array().unwrap();
        assert!(times.len() == 32 && times[31].as_f64().unwrap() > least, "{times:?}");
    }
}

#[test]
fn credit_needs_a_transport_that_carries_it() {
    let (status, _, told) = run(&LAB.replace("flow_control = \"lossless\"", "congestion = \"rccc\""));
    assert_eq!(status, Some(2));
    assert!(told.contains("RC carries no credit") && told.contains("uet"), "{told}");
}

#[test]
fn an_unknown_control_is_named() {
    let (status, _, told) = run(&LAB.replace("dctcp", "dctpc"));
    assert_eq!(status, Some(2));
    assert!(told.contains("dctpc") && told.contains("lab.toml"), "{told}");
}
