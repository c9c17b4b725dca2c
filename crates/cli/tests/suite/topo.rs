//! `fabriscope topo`: what it says of regular and real fabrics, what it draws, and what it refuses.
#![expect(clippy::disallowed_methods, reason = "UPDATE_GOLDEN writes the pinned file anew")]

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn topo(args: &[&str]) -> Output {
    Command::cargo_bin("fabriscope").unwrap().current_dir(root()).arg("topo").args(args).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap() + &String::from_utf8_lossy(&output.stderr)
}

const DGX: &str = "fabrics/dgx-ndr.ibnetdiscover";

/// 9 groups of 4: 36 global and 9 · 6 local cables. Adversarial traffic: 8 endpoints share one link.
#[test]
fn a_dragonfly_and_its_worst_case() {
    let output = topo(&["lab-dragonfly-72", "--pattern", "adversarial", "--routing", "minimal"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for line in [
        "switch    lab-400g-16     36    576            72          180   324",
        "global       36  400 Gb/s              720",
        "diameter        4 switches, 3.319 in the mean",
        "bisection       at most 20 cables, 8 Tb/s: 0.556",
        "disjoint paths  5 (256 drawn pairs of switches)",
        "load 8.000",
        "worst load      8.00 times the ideal: no routing loads its busiest link below 1.000",
        "deadlock        free of deadlock",
    ] {
        assert!(text.contains(line), "`{line}` is missing in:\n{text}");
    }
}

#[test]
fn json_has_the_same_numbers() {
    let json: serde_json::Value = serde_json::from_slice(&topo(&["lab-torus-4x4x4", "--pattern", "tornado", "--json"]).stdout).unwrap();
    // 2 · 4² cables; (4 / 2) · 3 + 1 switches; 4 places round a ring, 1 place further: each link once.
    assert_eq!((&json["bisection"]["cables"], &json["distances"]["diameter_switches"]), (&32.into(), &7.into()));
    assert_eq!((&json["load"]["worst"], &json["load"]["mean"]), (&1.0.into(), &0.5.into()));
    assert_eq!(json["deadlock"]["free"], true);
}

#[test]
fn a_real_fabric() {
    let output = topo(&[DGX, "--routing", "updn"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for line in ["irregular: 542 endpoints, 40 switches, 1074 cables", "level 2   -          9", "routing         up_down; 1 lane"] {
        assert!(text.contains(line), "`{line}` is missing in:\n{text}");
    }
}

#[test]
fn every_pattern_has_a_load() {
    for pattern in ["uniform", "permutation", "shift:5", "ring", "tornado", "transpose", "bit_complement", "adversarial"] {
        let output = topo(&["lab-hyperx-4x4", "--pattern", pattern, "--json"]);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let (worst, ideal) = (json["load"]["worst"].as_f64().unwrap(), json["load"]["ideal"].as_f64().unwrap());
        assert!(worst > ideal - 1e-9 && ideal > 0.0 && worst < 20.0, "{pattern}: {worst} {ideal}");
        assert_eq!(json["load"]["lost"], 0, "{pattern}");
    }
}

#[test]
fn pictures_are_the_same_twice_and_carry_the_load() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (fabric, name, words) in [
        (
            "lab-dragonfly-72",
            "a.svg",
            vec!["<title id=\"title\">lab-dragonfly-72</title>", "<title>group 8 switch 3</title>", "load of a link"],
        ),
        ("lab-torus-4x4x4", "b.svg", vec!["<title>switch (3,3,3)</title>"]),
        ("lab-1024:64", "c.svg", vec!["endpoints", "spine"]),
        ("ri2", "d.svg", vec!["one switch"]),
        (DGX, "e.svg", vec!["dgx-ndr.ibnetdiscover", "level 2"]),
        (DGX, "f.dot", vec!["speed=\"4xNDR\" load=\""]),
        ("lab-16", "g.graphml", vec!["attr.name=\"load\"", "<data key=\"load\">1.0000</data>"]),
    ] {
        let drawn = || {
            assert_eq!(topo(&[fabric, "-o", &path(name)]).status.code(), Some(0), "{fabric}");
            std::fs::read_to_string(path(name)).unwrap()
        };
        let first = drawn();
        assert_eq!(first, drawn());
        words.iter().for_each(|words| assert!(first.contains(words), "`{words}` is missing in {name}"));
        assert!(!name.ends_with("svg") || well_formed(&first), "{name}");
    }
}

/// The commands of docs/topologies.md print what it shows and draw the pictures beside it. With UPDATE_GOLDEN=1 they are
/// written anew.
#[test]
#[ignore = "half a minute: the list of all topologies, which make test-long looks at"]
fn the_document_holds() {
    let path = root().join("docs/topologies.md");
    let mut document = std::fs::read_to_string(&path).unwrap();
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let blocks: Vec<String> =
        document.split("```console\n$ fabriscope topo").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        let (args, shown) = block.split_once('\n').unwrap();
        let printed = text(&topo(&args.split_whitespace().collect::<Vec<_>>()));
        if update {
            document = document.replace(&block, &format!("{args}\n{printed}"));
        } else {
            assert!(printed == shown, "UPDATE_GOLDEN=1 writes docs/topologies.md anew; `fabriscope topo{args}` prints\n{printed}");
        }
    }
    if update {
        std::fs::write(&path, &document).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let drawings: Vec<&str> = document.lines().filter(|line| line.starts_with("fabriscope topo") && line.contains(" -o ")).collect();
    assert_eq!(drawings.len(), 4);
    for drawing in drawings {
        let (args, picture) = drawing.strip_prefix("fabriscope topo ").unwrap().split_once(" -o ").unwrap();
        let drawn = if update { root().join(picture) } else { folder.path().join("drawn.svg") };
        let mut args: Vec<&str> = args.split_whitespace().collect();
        args.extend(["-o", drawn.to_str().unwrap()]);
        assert_eq!(topo(&args).status.code(), Some(0), "{drawing}");
        let drawn = std::fs::read_to_string(&drawn).unwrap();
        assert!(drawn == std::fs::read_to_string(root().join(picture)).unwrap(), "{picture} is drawn otherwise now");
        assert!(drawn.len() < 60_000, "{picture} has {} bytes", drawn.len());
    }
}

/// Every element is closed, in order.
fn well_formed(text: &str) -> bool {
    let mut open = Vec::new();
    for tag in text.split('<').skip(1) {
        let Some((tag, _)) = tag.split_once('>') else { return false };
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return false;
            }
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap_or_default());
        }
    }
    open.is_empty() && !text.contains("NaN") && !text.contains("inf")
}

/// The same options as other commands; a picture is drawn where the file is one.
#[test]
fn every_format_is_written() {
    let csv = text(&topo(&["lab-dragonfly-72", "--csv"]));
    assert!(csv.contains("# cable_classes\nkind,cables,rate_bps,length_m\nendpoint,72,400000000000,360.0\n"), "{csv}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("found.json");
    assert_eq!(topo(&["lab-16", "-o", file.to_str().unwrap()]).status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text(&topo(&["lab-16", "--json"])));
}

#[test]
fn bad_input_is_told() {
    for (args, words) in [
        (vec!["lab-17"], vec!["lab-17"]),
        (vec!["lab-16", "--pattern", "tornaod"], vec!["there is no pattern `tornaod`", "tornado", "shift:N"]),
        (vec!["lab-16", "--pattern", "shift"], vec!["a shift needs a distance", "shift:1"]),
        (vec!["lab-16", "--pattern", "shift:x"], vec!["`x` is no distance"]),
        (vec!["lab-16", "--pattern", "shift:32"], vec!["send to itself", "at most 15"]),
        (vec!["ri2", "--pattern", "transpose"], vec!["a square of at least 4 ranks"]),
        (vec!["lab-16", "--routing", "updown"], vec!["there is no routing `updown`", "up_down"]),
        (vec!["lab-16", "--routing", "lmc:x"], vec!["no number of bits"]),
        (vec!["lab-16", "--routing", "valiant"], vec!["does not know how to route this topology", "d_mod_k"]),
        (vec!["lab-dragonfly-72", "--routing", "ftree"], vec!["does not know how to route this topology", "up_down"]),
        (vec!["lab-16", "-o", "x.png"], vec!["x.png", ".svg, .dot or .graphml"]),
        (vec!["lab-16", "-o", "nowhere/x.svg"], vec!["cannot be written", "a folder that exists"]),
        (vec!["README.md"], vec!["README.md"]),
        (vec!["fabrics/none.ibnetdiscover"], vec!["none.ibnetdiscover"]),
    ] {
        let output = topo(&args);
        let text = text(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(output.stdout.is_empty() && !text.contains("panicked"), "{args:?}: {text}");
        words.iter().for_each(|words| assert!(text.contains(words), "{args:?}: `{words}` is missing in {text}"));
    }
    assert_eq!(topo(&["--pattern", "ring"]).status.code(), Some(2));
}
