//! `fabriscope route` on real fabrics and on clusters: what it says, and that its dump is what it says.

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
fn a_cycle_is_spelled_out() {
    let output = route(&["lab-dragonfly-72", "--engine", "minhop"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("can deadlock: packets wait for each other around") && text.contains(" on lane 0 (port "), "{text}");
    assert_eq!(route(&["lab-dragonfly-72", "--engine", "minimal"]).status.code(), Some(0));
}

/// Leaves a and b under a root each, x under both: nothing leads from a to b up and then down.
#[test]
fn roots_that_leave_pairs_without_a_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let edges = "h0 swa\nh1 swa\nh2 swb\nh3 swb\nh4 swx\nswa swr0\nswb swr1\nswx swr0\nswx swr1\n";
    std::fs::write(path("v.edges"), edges).unwrap();
    let exported = Command::cargo_bin("fabriscope").unwrap().args(["export", &path("v.edges"), "-o", &path("v.topo")]).output().unwrap();
    assert!(exported.status.success(), "{}", text(&exported));
    let fabric = std::fs::read_to_string(path("v.topo")).unwrap();
    let root = |line: &str| line.contains("\"swr").then(|| format!("0x{}\n", &line.split("\"S-").nth(1).unwrap()[..16]));
    let roots: String = fabric.lines().filter(|line| line.starts_with("Switch")).filter_map(root).collect();
    std::fs::write(path("roots"), roots).unwrap();
    let output = route(&[&path("v.topo"), "--engine", "updn", "--roots", &path("roots"), "--dump", &path("v.lfts")]);
    let told = text(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    for line in [
        "pairs without a path                           8",
        "no path from swb to h0",
        "free of deadlock",
        "OpenSM leaves these entries out",
    ] {
        assert!(told.contains(line), "`{line}` is missing in:\n{told}");
    }
    // The tables with their gaps are a dump like any other.
    let again = route(&[&path("v.topo"), "--engine", "table", "--tables", &path("v.lfts"), "--against", &path("v.lfts")]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again).contains("entries alike: 17 of 17; 0 switches differ"), "{}", text(&again));
    let minhop = text(&route(&[&path("v.topo"), "--engine", "minhop", "--against", &path("v.lfts")]));
    assert!(minhop.contains("entries that only ours have: 8; only theirs: 0"), "{minhop}");
}

/// Shortest paths on a torus of 64 switches wait for each other on one lane; service levels divide them.
#[test]
fn service_levels_and_lanes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("levels");
    let file = file.to_str().unwrap();
    assert_eq!(route(&["lab-torus-4x4x4", "--engine", "sssp"]).status.code(), Some(1));
    for engine in ["dfsssp", "lash"] {
        let output = route(&["lab-torus-4x4x4", "--engine", engine, "--levels", file, "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let levels = json["service_levels"].as_array().unwrap();
        assert!(levels.len() > 1 && json["lanes"] == levels.len() && json["deadlock"]["free"] == true, "{json}");
        let written = std::fs::read_to_string(file).unwrap();
        for (level, paths) in levels.iter().enumerate() {
            let field = format!(" {level:03} #");
            assert_eq!(written.lines().filter(|line| line.contains(&field)).count() as u64, paths.as_u64().unwrap(), "{engine} {level}");
        }
    }
    let json: serde_json::Value = serde_json::from_slice(&route(&["lab-torus-4x4x4", "--engine", "nue:2", "--json"]).stdout).unwrap();
    assert_eq!(json["lanes"], 2);
    assert_eq!(json["deadlock"]["free"], true);
    let torus = text(&route(&["lab-torus-4x4x4", "--engine", "torus-2QoS"]));
    assert!(torus.contains("lanes: 2") && torus.contains("free of deadlock"), "{torus}");
}

/// Two leaves below two spines; roots say which switches are on top. A leaf as the only root is no tree: its hosts are above the others.
#[test]
fn roots_of_a_tree() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("t.edges"), "h0 swa\nh1 swa\nh2 swb\nh3 swb\nswa swr0\nswa swr1\nswb swr0\nswb swr1\n").unwrap();
    let exported = Command::cargo_bin("fabriscope").unwrap().args(["export", &path("t.edges"), "-o", &path("t.topo")]).output().unwrap();
    assert!(exported.status.success(), "{}", text(&exported));
    let fabric = std::fs::read_to_string(path("t.topo")).unwrap();
    let guid = |name: &str| {
        let line = fabric.lines().find(|line| line.starts_with("Switch") && line.contains(&format!("\"{name}\""))).unwrap();
        format!("0x{}\n", &line.split("\"S-").nth(1).unwrap()[..16])
    };
    let with = |roots: String| {
        std::fs::write(path("roots"), roots).unwrap();
        route(&[&path("t.topo"), "--engine", "ftree", "--roots", &path("roots")])
    };
    let both = with(guid("swr0") + &guid("swr1"));
    assert_eq!(both.status.code(), Some(0), "{}", text(&both));
    let leaf = with(guid("swa"));
    assert_eq!(leaf.status.code(), Some(2), "{}", text(&leaf));
    assert!(text(&leaf).contains("swa has endpoints and is 0 steps from a root"), "{}", text(&leaf));
}

#[test]
fn when_opensm_would_use_minhop() {
    let folder = tempfile::tempdir().unwrap();
    let note = |edges: &str| {
        let path = folder.path().join("t.edges");
        std::fs::write(&path, edges).unwrap();
        text(&route(&[path.to_str().unwrap(), "--engine", "ftree"]))
    };
    let even = "h0 leaf0\nh1 leaf1\nleaf0 spine0\nleaf0 spine1\nleaf1 spine0\nleaf1 spine1\n";
    assert!(!note(even).contains("OpenSM"), "{}", note(even));
    let missing = format!("{even}h2 leaf2\nleaf2 spine0\n");
    assert!(note(&missing).contains("OpenSM would silently use minhop: leaf0 and leaf2 of one level"), "{}", note(&missing));
    assert!(note("h0 leaf0\nh1 leaf0\n").contains("one switch only"));
    let none = note("h0 leaf0\nh1 leaf1\nleaf0 leaf1\n");
    assert!(none.contains("it is no fat tree") && none.contains("OpenSM would silently use minhop"), "{none}");
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
        (vec![DGX, "--engine", "minhop", "--roots", DGX], "--roots says nothing to `minhop`"),
        (vec![DGX, "--engine", "minhop", "--tables", DGX], "--tables says nothing to `minhop`"),
        (vec![DGX, "--engine", "nue:0"], "0 lanes were asked for"),
        (vec![DGX, "--engine", "nue:many"], "`many` is no number of lanes"),
        (vec![DGX, "--engine", "torus-2QoS"], "does not know how to route this topology"),
        (vec![DGX, "--engine", "minhop", "--levels", "x"], "`minhop` gives no service levels"),
        (vec![DGX, "--engine", "table"], "there are no tables to follow"),
        (vec![DGX, "--engine", "table", "--tables", "fabrics/small.lfts"], "the fabric has no switch with GUID"),
    ] {
        let output = route(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output).contains(words), "{args:?}: {}", text(&output));
    }
}
