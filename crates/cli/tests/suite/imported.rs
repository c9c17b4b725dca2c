//! Clusters on fabrics that another tool described: what runs, and what is said where a file is wrong.

use std::path::{Path, PathBuf};

use assert_cmd::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(arguments: &[&str], folder: &Path) -> (Option<i32>, String) {
    let output = Command::cargo_bin("fabriscope").unwrap().current_dir(folder).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

/// The value in the second column of a table.
fn number(text: &str, row: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(row)).unwrap_or_else(|| panic!("no `{row}` in:\n{text}"));
    line.split_whitespace().last().unwrap().parse().unwrap()
}

/// Ten adapters at one switch, two at the other, one FDR cable between: 10 · 2 messages of 256 KiB cross it each way,
/// 20 · 262,144 B · 8 b/B / 54.56 Gb/s = 768.7 µs, and headers on top.
#[test]
fn a_real_dump_with_the_tables_of_opensm() {
    let (status, text) = run(&["run", "labs/opensm-tables.toml"], &repository());
    assert_eq!(status, Some(0), "{text}");
    let last = number(&text, "last rank done");
    assert!((768.7..768.7 * 1.05).contains(&last), "{text}");
    // Paths are as seen from the file that names them, not from where the program is started.
    let elsewhere = tempfile::tempdir().unwrap();
    let lab = std::fs::canonicalize(repository().join("labs/opensm-tables.toml")).unwrap();
    let (status, again) = run(&["run", lab.to_str().unwrap()], elsewhere.path());
    assert_eq!((status, number(&again, "last rank done")), (Some(0), last));
}

/// Shortest paths give the same on two switches with one cable between.
#[test]
fn routings_of_the_graph() {
    for routing in ["min_hop", "up_down", "ecmp", "spray", "adaptive"] {
        let routing_line = format!("routing = \"{routing}\"");
        let lab = lab(&[("routing = \"table\"", &routing_line), ("tables = \"small.lfts\"\n", ""), ("[workload.all_to_all]", ANY_ORDER)]);
        let (status, text) = lab.run();
        assert_eq!(status, Some(0), "{routing}: {text}");
        assert!((768.7..768.7 * 1.1).contains(&number(&text, "last rank done")), "{routing}: {text}");
    }
}

const ANY_ORDER: &str = "[workload.all_to_all]\nany_order = true";

/// A folder with the lab and its files.
struct Folder(tempfile::TempDir);

impl Folder {
    fn put(self, name: &str, text: &str) -> Folder {
        std::fs::write(self.0.path().join(name), text).unwrap();
        self
    }
    fn run(&self) -> (Option<i32>, String) {
        run(&["run", "lab.toml"], self.0.path())
    }
    fn says(&self, words: &[&str]) {
        let (status, text) = self.run();
        // Long lines are broken between words.
        let plain = text.replace('\n', " ").split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
        assert_eq!(status, Some(2), "{text}");
        for word in words {
            assert!(plain.contains(word), "`{word}` is missing in:\n{text}");
        }
    }
}

fn lab(changes: &[(&str, &str)]) -> Folder {
    let read = |name: &str| std::fs::read_to_string(repository().join(name)).unwrap();
    let mut text = read("labs/opensm-tables.toml").replace("../fabrics/", "");
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    Folder(tempfile::tempdir().unwrap())
        .put("lab.toml", &text)
        .put("small.ibnetdiscover", &read("fabrics/small.ibnetdiscover"))
        .put("small.lfts", &read("fabrics/small.lfts"))
}

const FABRIC: &str = "small.ibnetdiscover";

#[test]
fn what_is_wrong_with_a_file_is_told_where_it_is_named() {
    let read = |name: &str| std::fs::read_to_string(repository().join(name)).unwrap();
    let (fabric, tables) = (read("fabrics/small.ibnetdiscover"), read("fabrics/small.lfts"));
    lab(&[("small.ibnetdiscover", "none.ibnetdiscover")]).says(&[
        "lab.toml:18:8",
        "none.ibnetdiscover: No such file",
        "as seen from the file",
    ]);
    lab(&[("small.ibnetdiscover", ".")]).says(&["lab.toml:18:8", "is a folder"]);
    lab(&[("small.lfts", "none.lfts")]).says(&["lab.toml:19:10", "none.lfts: No such file"]);
    lab(&[]).put("small.lfts", "hello\n").says(&["lab.toml:19:10", "small.lfts", "no forwarding table"]);
    lab(&[]).put("small.lfts", &tables.replace("0xb8599f0300fc6de4", "0xb8599f0300000000")).says(&[
        "lab.toml:19:10",
        "line 18",
        "no switch with GUID 0xb8599f0300000000",
        "tables of another fabric",
    ]);
    lab(&[]).put("small.lfts", &tables.replace("0x0009 023", "0x0009 077")).says(&["line 24", "r-ufm-sw95 has no port 77"]);
    // Tables that end too early lead nowhere; those of a loop lead around a cycle.
    let half: String = tables.lines().take(17).map(|line| format!("{line}\n")).collect();
    lab(&[]).put("small.lfts", &half).says(&["lab.toml:14:11", "its tables do not lead from", "choose min_hop or up_down"]);
    lab(&[]).put("small.lfts", &tables.replace("0x0009 023", "0x0009 003")).says(&["its tables do not lead from", "r-dcs96 HCA-1"]);
    lab(&[("tables = \"small.lfts\"\n", "")]).says(&["no tables came with it", "with its tables"]);
    lab(&[("routing = \"table\"", "routing = \"d_mod_k\"")]).says(&["lab.toml:14:11", "`d_mod_k` does not know", "up_down"]);

    // Duplicate GUIDs, a port used twice, a cut file, no text, disconnected.
    let twice = fabric.replace("\"S-0002c903007b78b0\"", "\"S-b8599f0300fc6de4\"");
    lab(&[]).put(FABRIC, &twice).says(&["lab.toml:18:8", "was described before, in line"]);
    let first_port = fabric.lines().find(|line| line.starts_with('[')).unwrap();
    let port_twice = fabric.replacen(first_port, &format!("{first_port}\n{first_port}"), 1);
    lab(&[]).put(FABRIC, &port_twice).says(&["lab.toml:18:8", "has a cable already, in line"]);
    lab(&[]).put(FABRIC, "\0\0").says(&["lab.toml:18:8", "not text"]);
    lab(&[]).put(FABRIC, &tables).says(&["lab.toml:18:8", "forwarding tables, not a fabric"]);
    let apart = "a leaf1\nb leaf1\nc leaf2\nd leaf2\n";
    lab(&[("nodes = 12", "nodes = 4"), ("tables = \"small.lfts\"\n", ""), ("\"table\"", "\"min_hop\"")])
        .put(FABRIC, apart)
        .says(&["the fabric falls apart: c and 2 more cannot be reached from a", "add the missing cables"]);
    // More than the cluster's switch has, more nodes than adapters, nodes of two hosts.
    let star: String = (0..45).map(|host| format!("host{host} leaf\n")).collect();
    lab(&[("tables = \"small.lfts\"\n", ""), ("\"table\"", "\"min_hop\"")])
        .put(FABRIC, &star)
        .says(&["leaf has a cable in port 45, but the switch of the cluster has 40 ports", "choose a larger switch"]);
    lab(&[("nodes = 12", "nodes = 13")]).says(&["13 nodes do not fit: the topology holds 12 endpoints"]);
    lab(&[("nodes = 12", "nodes = 2"), ("sockets = 1", "sockets = 1\nnics = 6")]).says(&[
        "lab.toml:",
        "no host of the fabric has 6 adapters: it has ",
        "with 2 adapters",
        "nics = 1",
    ]);
    lab(&[("file = ", "uplinks = 2\nfile = ")]).says(&["`uplinks` has no effect: the file says which cables there are"]);
}

/// Tables need not lead to adapters beyond the cluster's nodes: those of the first two hosts are enough for eight nodes
/// on them, and not for nine.
#[test]
fn tables_for_the_nodes_in_use() {
    let tables = std::fs::read_to_string(repository().join("fabrics/small.lfts")).unwrap();
    let known = ["r-dcs96", "r-dmz-ufm128", "r-dmz-ufm131", "Unicast"];
    let few: String = tables.lines().filter(|line| known.iter().any(|name| line.contains(name))).map(|line| format!("{line}\n")).collect();
    let (status, text) = lab(&[("nodes = 12", "nodes = 8")]).put("small.lfts", &few).run();
    assert_eq!(status, Some(0), "{text}");
    lab(&[("nodes = 12", "nodes = 9")]).put("small.lfts", &few).says(&["do not lead from", "to r-dmz-ufm134 HCA-1"]);
}

/// Slurm's format does not say how many cables there are: `uplinks` does. Two leaves with four hosts each, one below
/// another switch: 4 · 4 messages of 256 KiB cross from leaf to leaf, over 1 or 4 cables of 200 Gb/s.
#[test]
fn uplinks_of_slurm() {
    let conf = "SwitchName=top Switches=l[1-2]\nSwitchName=l1 Nodes=a[1-4]\nSwitchName=l2 Nodes=b[1-4]\n";
    let time = |uplinks: &str| {
        let changes = [
            ("nodes = 12", "nodes = 8"),
            ("tables = \"small.lfts\"\n", uplinks),
            ("\"table\"", "\"spray\""),
            (FABRIC, "topology.conf"),
            ("[workload.all_to_all]", ANY_ORDER),
        ];
        let (status, text) = lab(&changes).put("topology.conf", conf).run();
        assert_eq!(status, Some(0), "{text}");
        number(&text, "last rank done")
    };
    let (one, four) = (time(""), time("uplinks = 4\n"));
    // 16 · 262,144 B · 8 b/B / 196.97 Gb/s = 170 µs over one; four are no bottleneck: 7 messages into each host, 75 µs.
    assert!((168.0..185.0).contains(&one) && (73.0..95.0).contains(&four), "{one} {four}");
}

#[test]
fn the_other_commands_see_the_fabric_as_it_was_imported() {
    let cluster = format!(
        "nodes = 12\nlink = \"hdr\"\nlink_layer = \"infiniband\"\nmtu = \"4096 B\"\nswitch = \"qm8700\"\nrouting = \"table\"\nsoftware = \"openmpi-ucx\"\n{}",
        std::fs::read_to_string(repository().join("labs/opensm-tables.toml")).unwrap().split_once("[cluster.topology").map_or(
            String::new(),
            |(_, rest)| {
                let rest = rest.split("[workload").next().unwrap_or("");
                format!("[topology{rest}").replace("[cluster.", "[").replace("../fabrics/", "")
            }
        )
    );
    let folder = lab(&[]).put("mine.toml", &cluster);
    let (status, text) = run(&["export", "mine.toml", "--format", "ibnetdiscover"], folder.0.path());
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("S-b8599f0300fc6de4") && text.contains("r-dmz-ufm137 HCA-2"), "{text}");
    let (status, text) = run(&["route", "mine.toml", "--engine", "minhop", "--against", "small.lfts"], folder.0.path());
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("entries alike: 24 of 24"), "{text}");
}
