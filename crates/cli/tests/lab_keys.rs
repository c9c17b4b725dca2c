//! No key of a lab is ignored: on either engine each changes what happens, or is refused with the key named.

use std::collections::BTreeSet;
use std::path::Path;

use assert_cmd::Command;

/// A key, what stands beside it in the file, and the line that sets it. The file without the line is what it is compared with.
struct Case {
    key: &'static str,
    beside: &'static str,
    line: &'static str,
}

const TREE: &str = "cluster.base = \"lab-16\"\ncluster.topology.leaf_spine = { leaves = 4, down = 4, spines = 4 }\n";
const PERMUTATION: &str = "[workload.permutation]\nsize = \"256 KiB\"\n";
const ETHERNET: &str = "cluster = \"lab-roce-128\"\n";
const INCAST: &str = "[workload.incast]\nsenders = 8\nsize = \"256 KiB\"\n";
const MEMBERS: &str = "partitions.a = { pkey = 3, full = \"all\" }\n";
const LOSS: &str = "[[fault]]\nat = \"0 us\"\nkind.loss = { share = 1e-2 }\n";
const DEATH: &str = "[[fault]]\nat = \"5 us\"\nkind.switch_death = { switch = \"spine 0\" }\n";

/// `beside` has the head of the file, then its tables and the workload, with a `|` between.
const CASES: [Case; 17] = [
    Case { key: "seed", beside: "TREE|[workload.uniform]\nsize = \"4 KiB\"\nmessages = 64", line: "seed = 2" },
    Case { key: "routing", beside: "TREE|PERMUTATION", line: "routing = \"ecmp\"" },
    Case { key: "congestion", beside: "ETHERNET|INCAST", line: "congestion = \"dcqcn\"" },
    Case { key: "flow_control", beside: "ETHERNET|INCAST", line: "flow_control = \"lossy\"" },
    Case {
        key: "qos",
        beside: "TREE|PERMUTATION",
        line: "qos.infiniband = { max_vls = 2, sl2vl = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] }",
    },
    Case { key: "service_level", beside: "TREE|PERMUTATION", line: "service_level = 3" },
    Case { key: "priority", beside: "ETHERNET|INCAST", line: "priority = 5" },
    Case { key: "dscp", beside: "ETHERNET|INCAST", line: "dscp = 40" },
    Case { key: "traffic_class", beside: "qos.slingshot = {}\nTREE|PERMUTATION", line: "traffic_class = \"bulk_io\"" },
    Case { key: "line", beside: "TREE|PERMUTATION", line: "line.retry = { bit_errors = 1e-6, latency = \"100 ns\" }" },
    Case { key: "rate_limit", beside: "TREE|PERMUTATION", line: "rate_limit = \"10 Gb/s\"" },
    Case { key: "partitions", beside: "TREE|PERMUTATION", line: "partitions.a = { pkey = 3, full = \"all\" }" },
    Case { key: "partition", beside: "MEMBERSTREE|PERMUTATION", line: "partition = \"a\"" },
    Case {
        key: "allow_deadlock",
        beside: "cluster = \"lab-torus-4x4x4\"\nrouting = \"min_hop\"\n|PERMUTATION",
        line: "allow_deadlock = true",
    },
    Case { key: "recovery", beside: "TREE|LOSSPERMUTATION", line: "recovery.timeout = 1" },
    Case { key: "manager", beside: "TREE|DEATHPERMUTATION", line: "manager = \"routed-ethernet\"" },
    Case { key: "fault", beside: "TREE|PERMUTATION", line: "fault = [{ at = \"0 us\", kind.loss = { share = 1e-2 } }]" },
];

/// Keys that say what the lab is, not how it runs, and one that acts only on packets that a lab cannot send: a workload across
/// partitions is refused when the file is read.
const DESCRIBE: [&str; 6] = ["title", "notes", "cluster", "engine", "workload", "partition_enforcement"];

fn written(text: &str) -> String {
    [
        ("TREE", TREE),
        ("PERMUTATION", PERMUTATION),
        ("ETHERNET", ETHERNET),
        ("INCAST", INCAST),
        ("MEMBERS", MEMBERS),
        ("LOSS", LOSS),
        ("DEATH", DEATH),
    ]
    .iter()
    .fold(text.to_owned(), |text, (name, stands_for)| text.replace(name, stands_for))
}

/// What a run leaves behind: its result as JSON and its packets where the engine has some, or the message of a refusal.
fn outcome(folder: &Path, name: &str, text: &str, capture: bool) -> Result<Vec<u8>, String> {
    let (lab, pcap) = (folder.join(format!("{name}.toml")), folder.join(format!("{name}.pcap")));
    std::fs::write(&lab, text).unwrap();
    let mut command = Command::cargo_bin("fabriscope").unwrap();
    command.arg("run").arg(&lab).arg("--json");
    if capture {
        command.arg("--pcap").arg(&pcap);
    }
    let output = command.output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8(output.stderr).unwrap());
    }
    let mut all = output.stdout;
    all.extend(std::fs::read(&pcap).unwrap_or_default());
    Ok(all)
}

#[test]
fn no_key_of_a_lab_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    for Case { key, beside, line } in &CASES {
        let (head, tables) = beside.split_once('|').unwrap();
        for engine in ["packet", "flow"] {
            let file = |line: &str| format!("engine = \"{engine}\"\n{line}\n{}{}", written(head), written(tables));
            let run = |name: &str, line: &str| outcome(folder.path(), name, &file(line), engine == "packet");
            let (without, with) = (run("without", ""), run("with", line));
            // What stands beside the key is refused only where it is itself for packets, or can deadlock.
            let plain = !["qos", "MEMBERS", "LOSS", "DEATH", "min_hop"].iter().any(|word| beside.contains(word));
            assert!(!plain || without.is_ok(), "{key}, {engine}: refused without the key:\n{}", without.unwrap_err());
            match (&without, &with) {
                (_, Err(message)) => {
                    let named = message.contains(key) || message.contains(&format!("the {engine} engine does not model"));
                    assert!(named, "{key}, {engine}: refused, but not for the key:\n{message}");
                }
                (Ok(without), Ok(with)) => assert!(without != with, "{key}, {engine}: accepted, and changes nothing"),
                (Err(_), Ok(_)) => {}
            }
        }
    }
}

#[test]
fn every_key_has_a_case() {
    let output = Command::cargo_bin("fabriscope").unwrap().args(["schema", "lab"]).output().unwrap();
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys: BTreeSet<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let tried: BTreeSet<&str> =
        CASES.iter().map(|case| case.key).chain(DESCRIBE).chain(["include"]).filter(|key| keys.contains(key)).collect();
    assert_eq!(keys, tried, "each key of a lab needs a case here");
}
