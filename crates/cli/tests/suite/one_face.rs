//! Every command that has a result gives it in the same formats by the same options: `--json`, `--csv`, `-o FILE`.

use std::collections::BTreeSet;
use std::path::Path;

use assert_cmd::Command;

/// Commands without a result, and why.
const WITHOUT: &[(&str, &str)] = &[
    ("schema", "prints a JSON schema, which is JSON whatever is asked for"),
    ("completions", "prints a script for a shell"),
    ("man", "prints pages for man"),
    ("exec", "prints what the programs print that it runs"),
    ("serve", "goes on until it is ended"),
    ("report", "writes a page for people, of what the other commands give"),
    ("help", "prints what clap knows"),
];

/// How each command is called so that it has a result soon.
const CALLS: &[(&str, &[&str])] = &[
    ("demo", &["ri2-ib_write_lat"]),
    ("bench", &["ib_write_lat", "--on", "ri2", "-s", "64", "-n", "20"]),
    ("explain", &["ib_write_lat", "--on", "ri2", "-s", "64", "--no-changes"]),
    ("validate", &["ri2-ib_read_lat"]),
    ("run", &["lab.toml"]),
    ("monitor", &["labs/incast-8.toml"]),
    ("diagnose", &["validation/ri2-ib_read_lat.csv"]),
    ("sweep", &["study.toml"]),
    ("import", &["fabrics/dgx-ndr.ibnetdiscover"]),
    ("trace", &["crates/traces/tests/files/sstsimulator__sst-dumpi/tests_traces_testtrace.meta"]),
    ("export", &["lab-16"]),
    ("route", &["lab-16"]),
    ("power", &["--on", "ri2"]),
    ("subnet", &["--on", "ri2"]),
    ("topo", &["lab-16"]),
    ("train", &["--model", "llama3-8b", "--on", "azure-ndh100v5:1", "--tp", "8", "--sequence-parallel"]),
    ("infer", &["--model", "llama3-8b", "--on", "azure-ndh100v5:1", "--requests", "20"]),
    ("transports", &[]),
    ("clusters", &[]),
    ("machines", &["el-dorado"]),
    ("parts", &[]),
    ("show", &["connectx-5"]),
    ("calibrate", &["tests/calibrate/ri2.csv", "--on", "ri2", "--most", "2"]),
    ("expect", &["ri2", "--tool", "ib_write_lat"]),
    ("sensitivity", &["oci-optimized3-across", "--basis", "fitted", "--top", "3"]),
];

/// More calls of commands with several kinds of results.
const OTHERS: &[(&str, &[&str])] = &[
    ("show", &["dgx-a100"]),
    ("show", &["ri2"]),
    ("show", &["lab-16:4"]),
    ("show", &["dgx-a100", "--path", "gpu0-memory", "nic3"]),
    ("export", &["hgx-h100", "--nvidia-smi", "-"]),
    ("parts", &["connectx-5"]),
    ("parts", &["--from-tables"]),
    ("validate", &["ri2-ib_read_lat", "--summary"]),
    ("validate", &["--leave-out", "gdrcopy-v100"]),
    ("parts", &["--check"]),
    ("train", &["--model", "llama3-8b", "--on", "azure-ndh100v5:1", "--global-batch", "2", "--search"]),
    ("explain", &["train", "--model", "llama3-8b", "--on", "azure-ndh100v5:1", "--tp", "8", "--no-changes"]),
    ("train", &["--model", "alexnet", "--on", "ri2-gpu:2", "--dp", "2", "--global-batch", "32", "--exchange", "broadcast"]),
    ("train", &["--model", "llama3-8b", "--on", "azure-ndh100v5:2", "--tp", "8", "--dp", "2", "--engine", "flow"]),
    ("train", &["--model", "llama3-8b", "--on", "azure-ndh100v5:4", "--tp", "8", "--dp", "2", "--jobs", "2"]),
    ("trace", &["examples/traces/ping-pong.goal", "--loggp", "2.5us,1.5us,1us,0.04ns"]),
    ("import", &["fabrics/nodes/dgx-a100.topo"]),
    // The list of all topologies takes as long as all others together; its formats are those of any list.
];

const LAB: &str =
    "cluster = \"lab-16\"\n[workload.closed_loop]\npattern = \"permutation\"\noutstanding = [1]\nmessages = 20\nsize = \"4 KiB\"\n";

const STUDY: &str = "[[bench]]\ntools = [\"ib_write_lat\"]\nclusters = [\"ri2\"]\nsizes = [\"8 B\"]\n";

fn printed(words: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::cargo_bin("fabriscope").unwrap().args(words).current_dir(root).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that the program lists.
fn commands() -> BTreeSet<String> {
    let help = printed(&["--help"]);
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    // A name stands two blanks from the left; lines of a long description stand further in.
    let names = listed.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

/// Tables as they are written: an empty line between two, a name above each; all rows of a table are as long as its head.
fn parse_csv(text: &str, what: &[&str]) {
    assert!(!text.trim().is_empty(), "{what:?}");
    let mut head = 0;
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut is_head = true;
    let mut line = 0;
    for record in reader.records() {
        let record = record.unwrap_or_else(|error| panic!("{what:?}: {error}"));
        let at = record.position().unwrap().line();
        if record.get(0).is_some_and(|first| first.starts_with("# ")) && record.len() == 1 {
            is_head = true;
        } else if is_head {
            (head, is_head) = (record.len(), false);
            assert!(record.iter().all(|key| !key.is_empty()), "{what:?}: {record:?}");
        } else {
            assert_eq!(record.len(), head, "{what:?}, line {at}: {record:?}");
        }
        line += 1;
    }
    assert!(line > 1, "{what:?}: no rows");
}

#[test]
fn every_command_is_in_the_table_or_has_no_result() {
    let known: BTreeSet<String> =
        CALLS.iter().map(|(name, _)| *name).chain(WITHOUT.iter().map(|(name, _)| *name)).map(str::to_owned).collect();
    assert_eq!(commands(), known);
    assert!(OTHERS.iter().all(|(name, _)| known.contains(*name)));
}

#[test]
fn every_result_has_the_same_options() {
    for (command, _) in CALLS {
        let help = printed(&[command, "--help"]);
        for option in ["--json", "--csv", "-o, --output <FILE>"] {
            assert!(help.contains(option), "{command} has no {option}");
        }
    }
}

#[test]
fn every_result_is_json_and_csv_and_goes_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let lab = folder.path().join("lab.toml");
    std::fs::write(&lab, LAB).unwrap();
    let study = folder.path().join("study.toml");
    std::fs::write(&study, STUDY).unwrap();
    for (number, (command, words)) in CALLS.iter().chain(OTHERS).enumerate() {
        let words = words.iter().map(|word| match *word {
            "lab.toml" => lab.to_str().unwrap(),
            "study.toml" => study.to_str().unwrap(),
            word => word,
        });
        let call: Vec<&str> = std::iter::once(*command).chain(words).collect();
        let with = |more: &[&'static str]| -> String { printed(&[&call, more].concat()) };
        let json = with(&["--json"]);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{call:?}: {error}"));
        assert!(value.is_object() || value.is_array(), "{call:?}");
        parse_csv(&with(&["--csv"]), &call);
        // What is written does not depend on the words: one call of a command is enough.
        if number >= CALLS.len() || call.contains(&"-") {
            continue;
        }
        let file = folder.path().join(format!("{command}.json"));
        // Before the words, as those behind the name of a benchmark are its own.
        let to_file = [&call[..1], &["-o", file.to_str().unwrap()], &call[1..]].concat();
        assert_eq!(printed(&to_file), "", "{call:?}");
        let written = std::fs::read_to_string(&file).unwrap();
        if serde_json::from_str::<serde_json::Value>(&written).unwrap().get("wall_s").is_none() && !matches!(*command, "run" | "sweep") {
            assert_eq!(written, json, "{call:?}");
        }
    }
}
