//! `fabriscope route` on real fabrics and on clusters: what it says, and that its dump is what it says.
#![allow(missing_docs)]

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

fn route(args: &[&str]) -> Output {
    Command::cargo_bin("fabriscope")
        .unwrap()
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .arg("route")
        .args(args)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap() + &String::from_utf8_lossy(&output.stderr)
}

const DGX: &str = "fabrics/dgx-ndr.ibnetdiscover";

#[test]
fn a_real_tree() {
    let output = route(&[DGX, "--engine", "ftree"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    // 542 adapters: 542 * 541 pairs. SHARP nodes sit on all nine spines.
    for line in ["pairs without a path                             0", "free of deadlock", "ERR AB26): 9 switches"] {
        assert!(text.contains(line), "`{line}` is missing in:\n{text}");
    }
    let json: serde_json::Value = serde_json::from_slice(&route(&[DGX, "--json"]).stdout).unwrap();
    let pairs: u64 = json["paths"]["pairs_by_switches"].as_array().unwrap().iter().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(pairs, 542 * 541);
    assert_eq!(json["deadlock"]["free"], true);
}

#[test]
fn its_own_dump_is_the_same_and_another_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("tables.lfts");
    let dump = dump.to_str().unwrap();
    assert_eq!(route(&[DGX, "--engine", "minhop", "--dump", dump]).status.code(), Some(0));
    let entries = 542 * 40;
    let same = text(&route(&[DGX, "--engine", "minhop", "--against", dump]));
    assert!(same.contains(&format!("entries alike: {entries} of {entries}")), "{same}");
    let other = text(&route(&[DGX, "--engine", "dor", "--against", dump]));
    assert!(other.contains(&format!(" of {entries}")) && other.contains("their port"), "{other}");
}

#[test]
fn a_circle_is_spelled_out() {
    let output = route(&["lab-dragonfly-72", "--engine", "minhop"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("can deadlock: packets wait for each other around") && text.contains(" on lane 0 (port "), "{text}");
    assert_eq!(route(&["lab-dragonfly-72", "--engine", "minimal"]).status.code(), Some(0));
}

#[test]
fn bad_input_is_told() {
    for (args, words) in [
        (vec![DGX, "--engine", "updown"], "there is no routing `updown`"),
        (vec![DGX, "--engine", "lmc:9"], "9 bits of LMC"),
        (vec!["lab-dragonfly-72", "--engine", "ftree"], "it is no fat tree"),
        (vec!["lab-16", "--engine", "ecmp", "--dump", "x"], "has no forwarding tables"),
        (vec![DGX, "--against", DGX], "holds no forwarding table"),
        (vec![DGX, "--engine", "updn", "--roots", DGX], "is no GUID"),
    ] {
        let output = route(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output).contains(words), "{args:?}: {}", text(&output));
    }
}
