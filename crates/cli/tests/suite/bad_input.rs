//! Wrong input: the message says what, where and what to do; exit status 2; nothing half-written.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;

/// A folder with one file in it, and the file's path.
fn file(name: &str, text: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn fabriscope(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("fabriscope").unwrap();
    command.args(args);
    command
}

/// Runs, expects status 2 and nothing on standard output, and gives the message.
fn refused(args: &[&str]) -> String {
    let output = fabriscope(args).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(output.stdout.is_empty(), "{args:?} printed {}", String::from_utf8_lossy(&output.stdout));
    assert!(!message.contains("panicked"), "{message}");
    message
}

fn says(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.contains(word), "`{word}` is missing in:\n{message}");
    }
}

const CLUSTER: &str = r#"name = "mine"
title = "A test"
nodes = 2
link = "edr"
link_layer = "infiniband"
mtu = "4096 B"
topology.single_switch = {}
switch = "sb7790"
software = "mvapich2-2.3.7"

[node]
cpu = "xeon-e5-2680v4"
sockets = 2
nic = "connectx-5"

[cable]
part = "copper"
host_length = { value = "2 m", basis = "assumed", note = "a rack" }
trunk_length = { value = "2 m", basis = "assumed", note = "a rack" }
"#;

fn cluster_refused(wrong: &str, right: &str) -> String {
    let text = CLUSTER.replace(right, wrong);
    assert_ne!(text, CLUSTER, "`{right}` is not in the example");
    let (_folder, path) = file("mine.toml", text.as_bytes());
    refused(&["bench", "ib_write_lat", "--on", path.to_str().unwrap()])
}

#[test]
fn the_example_itself_is_right() {
    let (_folder, path) = file("mine.toml", CLUSTER.as_bytes());
    fabriscope(&["bench", "ib_write_lat", "--on", path.to_str().unwrap(), "-n", "10"]).assert().success();
}

#[test]
fn unknown_key() {
    says(&cluster_refused("nodees = 2", "nodes = 2"), &["mine.toml:3:1", "nodees", "nodes"]);
}

#[test]
fn wrong_unit() {
    says(&cluster_refused("mtu = \"4 KB\"", "mtu = \"4096 B\""), &["mine.toml:6:", "KiB"]);
    says(&cluster_refused("mtu = \"4096 ns\"", "mtu = \"4096 B\""), &["mine.toml:6:", "ns"]);
    says(&cluster_refused("mtu = 4096", "mtu = \"4096 B\""), &["mine.toml:6:"]);
}

#[test]
fn missing_part() {
    says(&cluster_refused("nic = \"connectx-55\"", "nic = \"connectx-5\""), &["mine.toml:14:", "connectx-55", "connectx-5"]);
    says(&refused(&["bench", "osu_bw", "--on", "ri3"]), &["ri3", "ri2"]);
    says(&refused(&["show", "conectx-5"]), &["conectx-5", "connectx-5"]);
}

#[test]
fn impossible_cluster() {
    says(&cluster_refused("nodes = 1000", "nodes = 2"), &["mine.toml:", "36"]);
    says(&refused(&["bench", "osu_bw", "--on", "ri2:1000"]), &["1000", "36"]);
    says(&cluster_refused("mtu = \"5000 B\"", "mtu = \"4096 B\""), &["mine.toml:6:", "5000 B"]);
    says(&refused(&["bench", "osu_bw", "--on", "ri2:1"]), &["two"]);
    says(&refused(&["bench", "osu_bw", "--on", "ri2:0"]), &["ri2:0"]);
}

#[test]
fn cyclic_include() {
    let (folder, path) = file("a.toml", b"include = [\"b.toml\"]\ntitle = \"a\"\n");
    std::fs::write(folder.path().join("b.toml"), "include = [\"a.toml\"]\n").unwrap();
    says(&refused(&["run", path.to_str().unwrap()]), &["a.toml", "b.toml", "includes itself"]);
}

#[test]
fn broken_lab() {
    let lab = "cluster = \"ri2\"\n[workload.permutatoin]\nsize = \"1 MiB\"\n";
    let (_folder, path) = file("lab.toml", lab.as_bytes());
    says(&refused(&["run", path.to_str().unwrap()]), &["lab.toml:2:", "permutation"]);
    let (_folder, path) = file("lab.toml", lab.replace("permutatoin", "permutation").replace("1 MiB", "0 B").as_bytes());
    says(&refused(&["run", path.to_str().unwrap()]), &["lab.toml:3:", "0 B"]);
    let (_folder, path) = file("lab.toml", lab.replace("permutatoin", "permutation").replace("1 MiB", "1 TiB").as_bytes());
    says(&refused(&["run", path.to_str().unwrap()]), &["lab.toml:3:", "1 TiB"]);
}

#[test]
fn empty_csv() {
    let (_folder, path) = file("empty.csv", b"");
    says(&refused(&["validate", "--measured", path.to_str().unwrap()]), &["empty.csv:1:1", "empty", "message_bytes"]);
}

#[test]
fn wrong_csv() {
    let head = "table,cluster,benchmark,variant,nodes,ranks,message_bytes,metric,unit,value\n";
    let row = |bytes: &str, value: &str| format!("{head}t,ri2,osu_bw,,2,2,{bytes},bandwidth,MB/s,{value}\n");
    let refused = |text: &str| {
        let (_folder, path) = file("x.csv", text.as_bytes());
        refused(&["validate", "--measured", path.to_str().unwrap()])
    };
    // A row that can be read and not be run is told, and ends nothing.
    let told = |text: &str| {
        let (_folder, path) = file("x.csv", text.as_bytes());
        let output = fabriscope(&["validate", "--measured", path.to_str().unwrap()]).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    says(&told(&row("0", "5")), &["x.csv:2:19", "0 bytes", "2147483648"]);
    says(&told(&row("1099511627776", "5")), &["x.csv:2:19", "1099511627776"]);
    says(
        &told(&format!("{}t,ri2,osu_bw,,2,2,8,bandwidth,MB/s,many\n", row("0", "5"))),
        &["1 skipped: ", "x.csv:3:", "`many` is not a number"],
    );
    says(&refused(&row("8", "many")), &["x.csv:2:", "`many` is not a number"]);
    says(&refused("table,cluster\nt,ri2\n"), &["x.csv:1:1", "`benchmark` is missing"]);
    let (_folder, path) = file("x.csv", b"table\n\xff\xfe");
    says(&self::refused(&["validate", "--measured", path.to_str().unwrap()]), &["x.csv:2:1", "UTF-8"]);
}

#[test]
fn sizes_that_no_message_has() {
    for size in ["0", "1099511627776", "-1", "many"] {
        says(&refused(&["bench", "ib_write_bw", "--on", "ri2", "-s", size]), &["-s", size]);
        says(&refused(&["explain", "ib_write_bw", "--on", "ri2", &format!("--size={size}")]), &[size]);
    }
    says(&refused(&["bench", "osu_bw", "--on", "ri2", "-m", "0:0"]), &["-m"]);
    says(&refused(&["bench", "osu_bw", "--on", "ri2", "-m", "1:1099511627776"]), &["1099511627776"]);
}

#[test]
fn unreadable_file() {
    for args in [
        ["run", "nowhere/lab.toml"].as_slice(),
        &["bench", "osu_bw", "--on", "nowhere/lab.toml"],
        &["validate", "--measured", "nowhere/lab.toml"],
        &["clusters", "--catalog", "nowhere/lab.toml"],
    ] {
        says(&refused(args), &["nowhere/lab.toml"]);
    }
    let folder = tempfile::tempdir().unwrap();
    refused(&["run", folder.path().to_str().unwrap()]);
    refused(&["validate", "--measured", folder.path().to_str().unwrap()]);
}

#[test]
fn unknown_words() {
    says(&refused(&["bench", "ib_write_latency", "--on", "ri2"]), &["ib_write_lat"]);
    says(&refused(&["bench", "ib_write_lat"]), &["--on ri2"]);
    says(&refused(&["bench", "ib_write_lat", "--on", "ri2", "--no_such_option"]), &["--no_such_option"]);
    says(&refused(&["validate", "no-such-table"]), &["no-such-table", "ri2-osu_bw"]);
    says(&refused(&["parts", "--basis", "guessed"]), &["guessed", "datasheet"]);
    says(&refused(&["no-such-command"]), &["no-such-command"]);
}

#[test]
fn nothing_is_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("result.json");
    let missing = folder.path().join("nowhere").join("result.json");
    let (_labs, lab) = file("lab.toml", b"cluster = \"ri2\"\n[workload.shift]\nby = 1\nsize = \"1 MB\"\nextra = 1\n");
    refused(&["run", lab.to_str().unwrap(), "-o", target.to_str().unwrap()]);
    refused(&["validate", "ri2-ib_read_lat", "-o", missing.to_str().unwrap()]);
    assert_eq!(names(folder.path()), Vec::<String>::new());
    std::fs::write(&target, "old").unwrap();
    refused(&["run", lab.to_str().unwrap(), "-o", target.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "old");
}

fn names(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_reader_that_leaves_is_told() {
    use std::process::{Command, Stdio};
    // Closed before the first byte is written.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = Command::new(assert_cmd::cargo::cargo_bin("fabriscope"))
        .args(["show", "connectx-5", "--json"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("closed before all of it was written") && told.contains("help"), "{told}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn captures_that_are_none() {
    let good = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/roce-replay.pcap")).unwrap();
    let mut foreign_link = good.clone();
    foreign_link[20] = 113;
    let mut damaged = good.clone();
    damaged[24 + 8..24 + 12].fill(0xFF);
    let mut version = good.clone();
    version[24 + 16 + 14 + 20 + 8 + 1] = 0x0F;
    let cases: [(&[u8], &[&str]); 7] = [
        (b"", &["offset 0", "the file is empty", "tcpdump -w"]),
        (b"not a capture", &["offset 0", "6e 6f 74 20"]),
        (&good[..40 + 50], &["offset 40", "needs 96 bytes and 50 are left", "copy it again"]),
        (&good[..24], &["0 packets", "udp port 4791"]),
        (&foreign_link, &["offset 40", "Linux cooked", "RoCE version 2"]),
        (&damaged, &["offset 32", "4294967295 bytes", "damaged"]),
        (&version, &["offset 40", "BTH has version 15"]),
    ];
    for (bytes, words) in cases {
        let (folder, _) = file("x.pcap", bytes);
        let lab = folder.path().join("lab.toml");
        std::fs::write(&lab, "cluster = \"alaska-roce25:12\"\n[workload.capture]\nfile = \"x.pcap\"\n").unwrap();
        let message = refused(&["run", lab.to_str().unwrap()]);
        says(&message, words);
        says(&message, &["x.pcap"]);
    }
    let (folder, lab) = file("lab.toml", b"cluster = \"alaska-roce25:12\"\n[workload.capture]\nfile = \"y.pcap\"\n");
    says(&refused(&["run", lab.to_str().unwrap()]), &["y.pcap", "lab.toml:3", "as seen from the file"]);
    std::fs::write(folder.path().join("y.pcap"), &good).unwrap();
    for (line, words) in [
        ("hosts = [\"10.0.0.1\", \"10.0.0.1\"]", &["10.0.0.1 is a duplicate entry", "lab.toml:4"][..]),
        ("hosts = [\"10.0.0.1\"]", &["does not name it", "leave `hosts` out"]),
        ("hosts = [\"here\"]", &["lab.toml:4"]),
    ] {
        std::fs::write(&lab, format!("cluster = \"alaska-roce25:12\"\n[workload.capture]\nfile = \"y.pcap\"\n{line}\n")).unwrap();
        says(&refused(&["run", lab.to_str().unwrap()]), words);
    }
}

#[test]
fn places_that_cannot_be_tapped() {
    let lab = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/incast-8.toml");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pcap");
    let pcap = path.to_str().unwrap();
    for (place, words) in [
        ("node 99", &["nodes 0 to 15"][..]),
        ("node 1:7", &["1 adapters"]),
        ("switch 4:1", &["no `switch 4`"]),
        ("switch 0", &["which port"]),
        ("switch 0:x", &["no port number"]),
        ("switch 0:999", &["nothing is plugged into port 999"]),
        ("somewhere", &["no `somewhere`", "`all`"]),
    ] {
        says(&refused(&["run", lab, "--pcap", pcap, "--tap", place]), words);
    }
    let flows = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/ring-all-reduce-flow.toml");
    says(&refused(&["run", flows, "--pcap", pcap]), &["flow engine", "engine = \"packet\""]);
    assert!(!path.exists());
}

#[test]
fn fabrics_that_are_none() {
    let import = |name: &str, text: &[u8]| {
        let (_folder, path) = file(name, text);
        refused(&["import", path.to_str().unwrap()])
    };
    says(&import("empty.topo", b""), &["empty.topo", "none of the formats", "ibnetdiscover"]);
    says(&import("noise.topo", b"Lorem ipsum dolor sit amet, consectetur\n"), &["noise.topo", "none of the formats"]);
    says(&import("binary.topo", b"Switch\t4 \0\x01\x02"), &["binary.topo", "not text", "byte 9"]);
    says(&import("broken.topo.gz", &[0x1f, 0x8b, 8, 0, 1, 2, 3]), &["broken.topo.gz", "damaged", "copy it again"]);
    let pair =
        "Switch 4 \"S-1\" # \"a\"\n[1] \"S-2\"[1] # \"b\" lid 1 4xEDR\n\nSwitch 4 \"S-2\" # \"b\"\n[1] \"S-1\"[1] # \"a\" lid 1 4xEDR\n";
    says(&import("cut.topo", &pair.as_bytes()[..50]), &["cut.topo", "line 2", "S-2", "cut off"]);
    says(&import("twice.topo", pair.replace("S-2\" #", "S-1\" #").as_bytes()), &["line 4", "`S-1` was described before, in line 1"]);
    says(
        &import("port.topo", format!("{pair}[1] \"S-1\"[2] # \"a\" 4xEDR\n").as_bytes()),
        &["line 6", "port 1", "has a cable already, in line 5"],
    );
    says(&import("radix.topo", pair.replace("[1] \"S-2\"[1]", "[7] \"S-2\"[1]").as_bytes()), &["line 2", "4 ports", "no port 7"]);
    let conf = "SwitchName=top Switches=leaf[1-2]\nSwitchName=leaf1 Nodes=n[1-4]\n";
    says(&import("topology.conf", conf.as_bytes()), &["topology.conf", "line 1", "`leaf2` is below `top`", "add a line for `leaf2`"]);
    let yaml = "- topology: t\n  tree:\n    switches:\n      - switch: a\n        node: n1\n";
    says(&import("topology.yaml", yaml.as_bytes()), &["topology.yaml", "line 5", "`node`", "children or nodes"]);
    says(&import("plan.dot", b"graph g {\n a:p1 -- b:p1\n"), &["plan.dot", "line 3", "end of the file", "complete the graph"]);
    says(&import("block.conf", b"BlockName=b1 Nodes=n[1-4]\n"), &["block.conf", "line 1", "topology/block", "topology/tree"]);
    says(&refused(&["import", "no-such-file"]), &["no-such-file", "name a file"]);
    says(&refused(&["export", "lab-16"]), &["format is not known", ".graphml"]);
    says(&refused(&["export", "lab-16", "-o", "x.docx"]), &["format is not known"]);
    says(&refused(&["export", "no-such-cluster", "--format", "dot"]), &["no-such-cluster"]);
}

#[test]
fn tables_of_another_fabric() {
    let small = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fabrics/small.ibnetdiscover");
    let with = |text: &str| {
        let (_folder, path) = file("lfts.dump", text.as_bytes());
        refused(&["import", small, "--tables", path.to_str().unwrap()])
    };
    says(
        &with("Unicast lids [0-3] of switch Lid 1 guid 0x000000000000abcd ('x'):\n"),
        &["lfts.dump", "line 1", "0x000000000000abcd", "another fabric"],
    );
    let head = "Unicast lids [0-13] of switch Lid 13 guid 0xb8599f0300fc6de4 ('r-ufm-sw95'):\n";
    says(&with(&format!("{head}0x0009 077\n")), &["line 2", "no port 77"]);
    says(&with(&format!("{head}0xzz 1\n")), &["line 2", "no entry"]);
    says(&with(&format!("{head}0x7000 001\n")), &["none of the 1 entries"]);
    says(&with("hello\n"), &["no forwarding table"]);
}

/// Counters in a format, at intervals or of a run that cannot be.
#[test]
fn wrong_counters() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let lab = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/incast-8.toml");
    for (words, says_so) in [
        (vec!["--counters", &path("x.xlsx")], vec!["x.xlsx", "FILE.parquet"]),
        (vec!["--counters", &path("x")], vec!["FILE.om"]),
        (vec!["--counters", &path("x.om"), "--every", "0us"], vec!["no interval", "10us"]),
        (vec!["--counters", &path("x.om"), "--every", "10"], vec!["10", "unit"]),
        (vec!["--counters", "--every", "10us"], vec!["--counters FILE.om"]),
        (vec!["--counters", &path("x.txt"), "--every", "10us"], vec!["a table has the sums"]),
        (vec!["--every", "10us"], vec!["--counters"]),
        (vec!["--counters", &path("x.csv"), "--every", "1ps"], vec!["50000000", "longer --every"]),
    ] {
        let args = [vec!["run", lab], words].concat();
        says(&refused(&args), &says_so);
    }
    // Options of the tool do not swallow ours, nor ours the lab.
    says(&refused(&["run", "--counters", lab]), &["LAB.toml"]);
    let bench = ["bench", "ib_write_bw", "--on", "ri2"];
    says(&refused(&[&bench[..], &["--every", "5us"]].concat()), &["--counters"]);
    says(&refused(&[&bench[..], &["-n", "5", "--every", "5us"]].concat()), &["not provided", "--counters"]);
    says(&refused(&[&bench[..], &["-n", "5", "--counters", &path("x.om"), "--every", "5"]].concat()), &["'5'", "--every", "10us"]);
    says(&refused(&[&bench[..], &["--counters", &path("x.doc"), "-n", "5"]].concat()), &["x.doc", "FILE.txt"]);
    let flows = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/ring-all-reduce-flow.toml");
    says(&refused(&["run", flows, "--counters"]), &["flow engine", "engine = \"packet\""]);
    let sweep = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/dragonfly-closed.toml");
    says(&refused(&["run", sweep, "--counters"]), &["several runs"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn multicast_where_there_is_none() {
    let text = "cluster = \"aws-c5n-efa\"\n[workload.multicast]\nreceivers = [1]\nsize = \"1 KiB\"\nmessages = 1\n";
    let (_folder, path) = file("lab.toml", text.as_bytes());
    let message = refused(&["run", path.to_str().unwrap()]);
    says(&message, &["lab.toml:1", "efa", "has no multicast", "driven through verbs"]);
    let text = "cluster = \"lab-16\"\n[workload.multicast]\nreceivers = [1]\nsize = \"8 KiB\"\nmessages = 1\n";
    let (_folder, path) = file("lab.toml", text.as_bytes());
    let message = refused(&["run", path.to_str().unwrap()]);
    says(&message, &["lab.toml:4", "does not fit into a datagram of 4 KiB", "segment = true"]);
}

#[test]
fn faults_on_links_that_are_not_there() {
    let text = "cluster = \"lab-16\"\n\n[[fault]]\nat = \"1 us\"\nkind.link_down = { link = \"swich:3\" }\n\n[workload.shift]\nby = 1\nsize = \"1 B\"\n";
    let (_folder, path) = file("lab.toml", text.as_bytes());
    let message = refused(&["run", &path.display().to_string()]);
    says(&message, &["lab.toml:5:27", "the fabric has no `swich`", "did you mean `switch`?"]);
}

#[test]
fn paths_that_reorder_need_receivers_that_do_not_mind() {
    let lab =
        |cluster: &str, workload: &str| format!("title = \"A test\"\ncluster = \"{cluster}\"\n[workload.{workload}]\nsize = \"4 KiB\"\n");
    for workload in ["permutation", "interference"] {
        let rest = if workload == "interference" { "senders = 2\nvictim_size = \"4 KiB\"\nschemes = [{}]\n" } else { "" };
        let (_folder, path) = file("lab.toml", (lab("lab-dragonfly-72", workload) + rest).as_bytes());
        let message = refused(&["run", path.to_str().unwrap()]);
        says(&message, &["A test", "the routing `adaptive`", "in order", "add any_order = true"]);
    }
    // Adapters of Slingshot do not mind.
    let (_folder, path) = file("lab.toml", (lab("lumi-c", "incast") + "senders = 2\n").as_bytes());
    fabriscope(&["run", path.to_str().unwrap()]).assert().success();
}

const COLLECTIVE: &str = r#"cluster = "lab-1024:64"
routing = "d_mod_k"
engine = "flow"

[workload.collective]
operation = "alltoall"
algorithm = "pairwise"
size = "4 KiB"
"#;

#[test]
fn what_does_not_fit_into_memory_is_refused_before_it_runs() {
    for engine in ["flow", "packet"] {
        let (_folder, path) = file("lab.toml", COLLECTIVE.replace("\"flow\"", &format!("\"{engine}\"")).as_bytes());
        let path = path.to_str().unwrap();
        let message = refused(&["run", path, "--memory", "10KiB"]);
        says(&message, &["this run needs about", "--memory allows 10 KiB", "fewer ranks"]);
        let output = fabriscope(&["run", path, "--memory", "1GiB"]).output().unwrap();
        assert!(output.status.success(), "{engine}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let (_folder, path) = file("lab.toml", COLLECTIVE.as_bytes());
    says(&refused(&["run", path.to_str().unwrap(), "--memory", "10"]), &["--memory", "unit"]);
    // n² messages of a pattern that needs a list of them: refused before the list is made.
    let text = "cluster = \"lab-65536\"\nrouting = \"d_mod_k\"\n[workload.all_to_all]\nsize = \"8 B\"\n";
    let (_folder, path) = file("lab.toml", text.as_bytes());
    says(&refused(&["run", path.to_str().unwrap(), "--memory", "64GiB"]), &["this run needs about 9.4 TiB", "--memory allows 64 GiB"]);
}

#[test]
fn nccl_tests_refuse_what_cannot_be() {
    let on = |more: &[&str]| refused(&[&["bench", "all_reduce_perf", "--on", "azure-nda100v4", "-b", "1K", "-e", "1K"], more].concat());
    says(&on(&["-d", "fp8_e4m3"]), &["-d takes one of", "f8e4m3"]);
    says(&on(&["-d", "f8e4m3"]), &["compute capability 9.0", "another type"]);
    says(&on(&["-o", "xor"]), &["-o takes one of sum, prod"]);
    says(&on(&["--ppn", "9"]), &["9 ranks on nodes with 8 GPUs", "--ppn 8"]);
    says(&on(&["--nodes", "40"]), &["the job takes 40 nodes", "--nodes 16"]);
    says(&on(&["-g", "16"]), &["-g", "8"]);
    says(&on(&["--env", "NCCL_ALGO=Rings"]), &["NCCL_ALGO", "Ring"]);
    let hopper = |more: &[&str]| refused(&[&["bench", "reduce_perf", "--on", "azure-ndh100v5", "-b", "1K", "-e", "1K"], more].concat());
    says(&hopper(&["-d", "f8e5m2", "-o", "prod"]), &["products of FP8", "-o sum"]);
    says(&hopper(&["-r", "8"]), &["-r 8: there are 8 ranks", "give 0 to 7"]);
    says(&refused(&["bench", "all_reduce_perf", "--on", "ri2"]), &["needs GPUs"]);
    says(&refused(&["explain", "all_reduce_perf", "--on", "azure-nda100v4", "--", "-b", "8"]), &["-b behind the two dashes", "-s"]);
}
