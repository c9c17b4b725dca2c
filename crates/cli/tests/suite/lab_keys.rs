//! No key of a lab is ignored: on either engine, in any workload and over any transport service each changes what happens, or is
//! refused with the key named.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use assert_cmd::Command;
use fabriscope_catalog::Catalog;
use fabriscope_lab::run::{LabRun, RunSettings, run};
use fabriscope_lab::tap::CaptureRequest;
use fabriscope_lab::{ResolvedLab, parse};

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
const CASES: [Case; 18] = [
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
    Case { key: "fast_forward", beside: "TREE|PERMUTATION", line: "fast_forward = true" },
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

/// Every workload, small. `bench` stands for all programs, which set up their own connections.
const WORKLOADS: [(&str, &str); 28] = [
    ("permutation", "size = \"256 KiB\""),
    ("incast", "senders = 8\nsize = \"64 KiB\""),
    ("all_to_all", "size = \"16 KiB\""),
    ("shift", "by = 5\nsize = \"256 KiB\""),
    ("uniform", "size = \"64 KiB\"\nmessages = 64"),
    ("tornado", "size = \"256 KiB\""),
    ("transpose", "size = \"256 KiB\""),
    ("bit_complement", "size = \"256 KiB\""),
    ("adversarial", "size = \"256 KiB\""),
    ("ring", "size = \"256 KiB\""),
    ("hot_spot", "share = 0.3\nmessages = 4\nsize = \"64 KiB\""),
    ("halo", "grid = [4, 4]\nsize = \"64 KiB\""),
    ("ring_all_reduce", "size = \"256 KiB\""),
    ("recursive_doubling", "size = \"64 KiB\""),
    ("collective", "operation = \"allreduce\"\nalgorithm = \"ring\"\nsize = \"256 KiB\""),
    ("training", "model = \"mpt-125m\"\ndp = 2\nglobal_batch = 2"),
    (
        "mix",
        "jobs = [{ name = \"a\", kind.collective = { nodes = 2, operation = \"all_reduce\", size = \"4 MiB\" } }, \
         { name = \"b\", kind.storage = { nodes = 1, bytes = \"4 MiB\" } }]",
    ),
    ("open_loop", "pattern = \"uniform\"\nloads = [0.4]\nsize = \"16 KiB\"\nwarm_up = \"1 us\"\nwindow = \"20 us\""),
    ("closed_loop", "pattern = \"uniform\"\noutstanding = [2]\nmessages = 16\nsize = \"64 KiB\""),
    ("alltoallv", "processes_per_node = 1\nprocesses = [16]\nsizes = [\"4 KiB\"]\ntransports = [\"rc\"]"),
    ("compare", "patterns = [\"permutation\"]\nsize = \"64 KiB\"\nschemes = [{}]"),
    ("flows", "loads = [0.3]\nsizes = \"websearch\"\nflows = 40\nschemes = [{}]"),
    ("capture", "file = \"../../labs/roce-replay.pcap\""),
    ("interference", "senders = 8\nsize = \"64 KiB\"\nvictims = 2\nvictim_size = \"64 KiB\"\nschemes = [{}]"),
    (
        "jobs",
        "jobs = [{ name = \"a\", hosts = \"0-7\", pattern = \"ring\", size = \"64 KiB\", messages = 4 }, \
         { name = \"b\", hosts = \"8-15\", pattern = \"incast\", size = \"64 KiB\", messages = 4 }]",
    ),
    ("multicast", "receivers = [8]\nsize = \"4 KiB\"\nmessages = 64\nunicast = true"),
    (
        "beside_storage",
        "tool = \"osu_allreduce\"\nargs = [\"-m\", \"4096:4096\", \"-i\", \"8\", \"-x\", \"0\"]\nnodes = \"0-7\"\nper_node = 1\n\
         storage = { file_system = \"ibex-scratch\", clients = \"8-9\", servers = \"15\" }",
    ),
    ("bench", "tool = \"osu_alltoall\"\nargs = [\"-m\", \"4096:4096\", \"-i\", \"2\", \"-x\", \"0\"]\nnodes = 8\nper_node = 1"),
];

/// Keys that act where connections, programs and routes are set up, with what stands beside them: a lossy network for what repeats, a
/// class that gets a tenth of the links, a partition whose members may talk to each other as those of the default one may not.
const EVERYWHERE: [(&str, &str, &str, &str); 9] = [
    ("seed", "TREE", "LOSS", "seed = 2"),
    ("rate_limit", "TREE", "", "rate_limit = \"2 Gb/s\""),
    ("traffic_class", "CLASSESTREE", "", "traffic_class = \"slow\""),
    ("partition", "LIMITEDTREE", "", "partition = \"a\""),
    ("fast_forward", "TREE", "", "fast_forward = true"),
    ("recovery", "TREE", "HEAVY", "recovery.timeout = 4"),
    ("fault", "TREE", "", "fault = [{ at = \"0 us\", kind.loss = { share = 2e-2 } }]"),
    ("manager", "TREE", "EARLY", "manager = \"routed-ethernet\""),
    ("allow_deadlock", "cluster = \"lab-torus-4x4x4\"\nrouting = \"min_hop\"\n", "", "allow_deadlock = true"),
];

/// Keys that say what the network is or which number packets carry: what they change is the resolved lab.
const NETWORK: [(&str, &str, &str); 10] = [
    ("routing", "TREE", "routing = \"ecmp\""),
    ("congestion", "ETHERNET", "congestion = \"dcqcn\""),
    ("flow_control", "ETHERNET", "flow_control = \"lossy\""),
    ("qos", "TREE", "qos.infiniband = { max_vls = 2, sl2vl = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] }"),
    ("service_level", "TREE", "service_level = 3"),
    ("priority", "ETHERNET", "priority = 5"),
    ("dscp", "ETHERNET", "dscp = 40"),
    ("line", "TREE", "line.retry = { bit_errors = 1e-6, latency = \"100 ns\" }"),
    ("partitions", "TREE", "partitions.a = { pkey = 3, full = \"all\" }"),
    ("partition_enforcement", "TREE", "partition_enforcement = \"both\""),
];

/// What the small workloads above do not show: the messages of the capture do not pass the switch that dies; those to a group, and those of a step
/// of training, begin when the tables are written.
const UNSEEN: [(&str, &str); 4] = [("manager", "capture"), ("manager", "multicast"), ("manager", "training"), ("manager", "mix")];

const CLASSES: &str = "qos.slingshot.classes = [{ name = \"usual\" }, { name = \"slow\", maximum = 10 }]\n";
/// Loss that takes the last packet of some message, and a death whose repair messages wait for.
const HEAVY: &str = "[[fault]]\nat = \"0 us\"\nkind.loss = { share = 5e-2 }\n";
const EARLY: &str = "[recovery]\ntimeout = 11\n[[fault]]\nat = \"1 us\"\nkind.switch_death = { switch = \"spine 0\" }\n";
const LIMITED: &str = "partitions.default = { limited = \"all\" }\npartitions.a = { pkey = 3, full = \"all\" }\n";

/// A lab with what stands beside a key, spelt out.
fn spelt(engine: &str, line: &str, head: &str, tables: &str, workload: (&str, &str)) -> String {
    let head = written(&head.replace("CLASSES", CLASSES).replace("LIMITED", LIMITED));
    // Programs set up their own connections.
    let early = if matches!(workload.0, "bench" | "beside_storage" | "multicast") {
        EARLY.split_once("[[").map_or("", |(_, rest)| rest)
    } else {
        ""
    };
    let early = if early.is_empty() { EARLY.to_owned() } else { format!("[[{early}") };
    let tables = tables.replace("HEAVY", HEAVY).replace("EARLY", &early);
    // Steps of training and mixes are of GPUs.
    let head = if matches!(workload.0, "training" | "mix") { head.replace("lab-16", "ri2-gpu") } else { head };
    format!("engine = \"{engine}\"\n{line}\n{head}{}[workload.{}]\n{}\n", written(&tables), workload.0, workload.1)
}

/// What a lab is and does, but for the names of its settings: every number of its run, packets included where there is one run.
fn carried_out(catalog: &Catalog, text: &str) -> Result<(ResolvedLab, String), String> {
    let told = |error: &dyn miette::Diagnostic| format!("{error}; {}", error.help().map(|help| help.to_string()).unwrap_or_default());
    let lab = parse(catalog, "lab.toml", text).map_err(|error| told(&error))?;
    let single =
        RunSettings { capture: CaptureRequest { file: Some("lab.pcap".into()), ..CaptureRequest::default() }, ..RunSettings::default() };
    let outcome = run(catalog, &lab, &single).or_else(|_| run(catalog, &lab, &RunSettings::default())).map_err(|error| told(&error))?;
    let numbers = match outcome {
        LabRun::One(single) => format!("{:?} {:?}", single.run, single.tool.map(|tool| tool.text)),
        LabRun::Sweep(outcome) => {
            let mut data = outcome.data();
            ["seed", "routing", "title"].iter().for_each(|key| drop(data.as_object_mut().unwrap().remove(*key)));
            data.to_string()
        }
    };
    Ok((lab, numbers))
}

/// Whether a refusal is one of the key, or of an engine that has no model of it or of the workload.
fn names(message: &str, key: &str, engine: &str) -> bool {
    message.contains(key)
        || message.contains(&format!("the {engine} engine does not model"))
        || message.contains(&format!("the {engine} engine"))
}

#[test]
fn no_key_is_ignored_by_any_workload() {
    let catalog = Catalog::embedded().unwrap();
    let mut wrong = Vec::new();
    for workload in WORKLOADS {
        for engine in ["packet", "flow"] {
            // Many keys stand beside the same, which is carried out once.
            let mut without_key = BTreeMap::new();
            for (key, head, tables, line) in EVERYWHERE {
                let lab = |line: &str| carried_out(&catalog, &spelt(engine, line, head, tables, workload));
                let what = format!("{key}, {}, {engine}", workload.0);
                match (lab(line), &*without_key.entry((head, tables)).or_insert_with(|| lab(""))) {
                    (Err(message), _) if names(&message, key, engine) => {}
                    // What stands beside the key can be what is refused.
                    (Err(message), Err(same)) if message == *same => {}
                    (Err(message), _) => wrong.push(format!("{what}: refused, but not for the key: {message}")),
                    (Ok(_), Err(_)) => {}
                    (Ok(_), Ok(_)) if UNSEEN.contains(&(key, workload.0)) => {}
                    (Ok((_, with)), Ok((_, without))) if with == *without => wrong.push(format!("{what}: accepted, and changes nothing")),
                    (Ok(_), Ok(_)) => {}
                }
            }
            for (key, head, line) in NETWORK {
                let lab = |line: &str| parse(&catalog, "lab.toml", &spelt(engine, line, head, "", workload));
                let what = format!("{key}, {}, {engine}", workload.0);
                match (lab(line), lab("")) {
                    (Err(error), without) => {
                        let message = format!("{error}");
                        let same = without.is_err_and(|without| without.to_string() == message);
                        if !same && !names(&message, key, engine) {
                            wrong.push(format!("{what}: refused, but not for the key: {message}"));
                        }
                    }
                    (Ok(with), Ok(without)) => {
                        if (with.level, with.pkey, &with.cluster) == (without.level, without.pkey, &without.cluster) {
                            wrong.push(format!("{what}: accepted, and changes nothing"));
                        }
                    }
                    (Ok(_), Err(_)) => {}
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_workload_has_a_row() {
    let output = Command::cargo_bin("fabriscope").unwrap().args(["schema", "lab"]).output().unwrap();
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let forms = schema["$defs"]["Workload"]["oneOf"].as_array().unwrap();
    let known: BTreeSet<&str> = forms.iter().flat_map(|form| form["properties"].as_object().unwrap().keys()).map(String::as_str).collect();
    assert_eq!(known, WORKLOADS.iter().map(|(name, _)| *name).collect(), "each workload needs a row here");
}

#[test]
fn no_key_is_ignored_over_any_transport() {
    let catalog = Catalog::embedded().unwrap();
    let keys = [
        ("rate_limit", "TREE", "", "rate_limit = \"2 Gb/s\""),
        ("traffic_class", "CLASSESTREE", "", "traffic_class = \"slow\""),
        ("partition", "LIMITEDTREE", "", "partition = \"a\""),
        ("recovery", "TREE", "HEAVY", "recovery.timeout = 3"),
        ("recovery", "TREE", "LOSS", "recovery = { retry_cnt = 0 }"),
        ("recovery", "TREE", "LOSS", "recovery = { alternate_path = true, retry_cnt = 0 }"),
    ];
    let mut wrong = Vec::new();
    for transport in ["rc", "uc", "ud", "xrc", "rd", "dc", "srd", "uet", "uet_rod", "uet_rudi", "uet_uud"] {
        let size = if transport == "uet_uud" { "1 KiB" } else { "64 KiB" };
        let size = if transport == "ud" { "8 KiB" } else { size };
        let workload = format!("size = \"{size}\"\ntransport = \"{transport}\"");
        for (key, head, tables, line) in keys {
            let lab =
                |line: &str| carried_out(&catalog, &spelt("packet", line, head, tables, ("incast", &format!("senders = 8\n{workload}"))));
            match (lab(line), lab("")) {
                (Err(message), _) if names(&message, key, "packet") => {}
                (Err(message), Err(same)) if message == same => {}
                // With so few repetitions a transfer fails.
                (Err(message), Ok(_)) if key == "recovery" && message.contains("RETRY_EXC") => {}
                (Err(message), _) => wrong.push(format!("{line} over {transport}: refused, but not for the key: {message}")),
                (Ok((_, with)), Ok((_, without))) if with == without => wrong.push(format!("{line} over {transport}: changes nothing")),
                (Ok(_), _) => {}
            }
        }
        let order = format!("{workload}\nany_order = true");
        let taken = parse(&catalog, "lab.toml", &spelt("packet", "routing = \"spray\"", "TREE", "", ("permutation", &order)));
        let takes = ["rc", "srd", "uet", "uet_rudi", "uet_uud", "ud"].contains(&transport);
        match taken {
            Ok(_) => assert!(takes, "any_order over {transport}"),
            Err(error) => {
                assert!(!takes && error.to_string().contains("any_order") || transport == "ud", "any_order over {transport}: {error}")
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
