//! A class of low latency beside saturating bulk I/O, on each kind of fabric; and the table of it in the documents.

use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn run(lab: &str) -> serde_json::Value {
    let lab = root().join("labs").join(lab);
    let output = Command::new(env!("CARGO_BIN_EXE_fabriscope")).arg("run").arg(&lab).arg("--json").output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

/// The issue asks for 10 % beside saturating bulk I/O, which must keep its rate; without classes it must be bad, or nothing is shown.
#[test]
fn a_class_of_low_latency_keeps_it() {
    let labs = [
        ("qos-infiniband.toml", "InfiniBand, high priority"),
        ("qos-ethernet.toml", "Ethernet, strict priority"),
        ("qos-slingshot.toml", "Slingshot, `low_latency`"),
    ];
    let documented = std::fs::read_to_string(root().join("docs/models/qos.md")).expect("the page is there");
    for (lab, name) in labs {
        let value = run(lab);
        let of = |job: usize, run: &str, what: &str| value["jobs"][job][run][what].as_u64().expect("a whole number") as f64;
        let us = |run: &str, what: &str| of(0, run, what) / 1e6;
        for what in ["median_ps", "p99_ps", "last_ps"] {
            assert!(
                us("own_class", what) <= 1.10 * us("alone", what),
                "{lab}: {what} {} alone, {}",
                us("alone", what),
                us("own_class", what)
            );
            assert!(us("own_class", what) > us("alone", what), "{lab}: bulk I/O must be felt, by one packet");
        }
        assert!(us("one_class", "median_ps") > 3.0 * us("alone", "median_ps"), "{lab}: without classes it must suffer");
        assert!(of(1, "own_class", "bits_per_s") > 0.99 * of(1, "alone", "bits_per_s"), "{lab}: bulk I/O keeps its rate");
        assert!(of(1, "own_class", "bits_per_s") > 380e9, "{lab}: bulk I/O saturates the cable between the leaves");
        for run in ["one_class", "own_classes"] {
            assert_eq!(value["counts"][run]["drops"].as_u64(), Some(0), "{lab}");
        }
        let row = format!(
            "| {name} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} |",
            us("alone", "median_ps"),
            us("one_class", "median_ps"),
            us("own_class", "median_ps"),
            us("own_class", "last_ps"),
            us("own_class", "median_ps") / us("alone", "median_ps"),
        );
        assert!(documented.contains(&row), "docs/models/qos.md should have\n{row}");
    }
}
