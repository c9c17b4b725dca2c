//! From a real dump to a cluster that runs: `fabriscope import FILE -o mine.toml`, then benchmarks and labs on chosen hosts.

use std::path::{Path, PathBuf};

use assert_cmd::Command;

fn repository() -> PathBuf {
    std::fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// Exit status, standard output, standard error.
fn fabriscope(arguments: &[&str], folder: &Path) -> (Option<i32>, String, String) {
    let output = Command::cargo_bin("fabriscope").unwrap().current_dir(folder).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn prints(arguments: &[&str], folder: &Path) -> String {
    let (status, text, message) = fabriscope(arguments, folder);
    assert_eq!(status, Some(0), "{arguments:?}: {message}");
    text
}

fn refuses(arguments: &[&str], folder: &Path, words: &[&str]) {
    let (status, text, message) = fabriscope(arguments, folder);
    assert_eq!(status, Some(2), "{arguments:?}: {text}");
    let plain = message.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(plain.contains(word), "`{word}` is missing in:\n{message}");
    }
}

/// A folder with a dump of this repository in it.
fn folder_with(dump: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(repository().join("fabrics").join(dump), folder.path().join(dump)).unwrap();
    folder
}

const SELENE: &str = "selene-compute.ibnetdiscover.gz";
const SMALL: [&str; 6] = ["-b", "1M", "-e", "1M", "-n", "1"];

/// The bus bandwidth out of place, in GB/s: of the last row of numbers.
fn bus_bandwidth(text: &str) -> f64 {
    let row = text.lines().rfind(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())).unwrap_or_else(|| panic!("{text}"));
    row.split_whitespace().nth(7).unwrap().parse().unwrap()
}

/// Selene: 458 hosts with eight adapters among 11 service hosts with one.
#[test]
fn selene_runs_all_reduce_perf_on_chosen_hosts() {
    let folder = folder_with(SELENE);
    let here = folder.path();
    let (status, _, told) = fabriscope(&["import", SELENE, "-o", "mine.toml"], here);
    assert_eq!(status, Some(0), "{told}");
    assert!(told.contains("mine.toml: 458 nodes") && told.contains("luna-[0001-0002]"), "{told}");
    let text = std::fs::read_to_string(here.join("mine.toml")).unwrap();
    for line in ["link = \"hdr\"", "switch = \"qm8700\"", "part = \"dgx-a100\"", "nics = 8", &format!("file = \"{SELENE}\"")] {
        assert!(text.contains(line), "`{line}` is missing in:\n{text}");
    }
    let whole = repository();
    assert!(!text.contains(whole.to_str().unwrap()) && !text.contains(here.to_str().unwrap()), "{text}");

    let run = |hosts: &str| {
        let bench = ["bench", "--json", "all_reduce_perf", "--on", "mine.toml", "--hosts", hosts];
        serde_json::from_str::<serde_json::Value>(&prints(&[&bench[..], &SMALL].concat(), here)).unwrap()
    };
    // Two hosts that share their leaves, and two that do not; the order of the ranks is that of the list.
    let near = run("luna-[0001-0002]");
    let far = run("luna-0519,luna-0001");
    assert_eq!((&near["nodes"], &near["ranks_per_node"], &near["hosts"][1]), (&2.into(), &8.into(), &"luna-0002".into()));
    assert_eq!(far["hosts"], serde_json::json!(["luna-0519", "luna-0001"]));
    let times = [&near, &far].map(|outcome| bus_bandwidth(outcome["text"].as_str().unwrap()));
    assert!(times[0] >= times[1] && times[1] > 1.0, "{times:?}");

    // The same in a lab that names the cluster's file, seen from the lab.
    let args = SMALL.map(|word| format!("\"{word}\"")).join(", ");
    let lab = |hosts: &str| {
        let text = format!("cluster = \"mine.toml\"\n[workload.bench]\ntool = \"all_reduce_perf\"\nhosts = \"{hosts}\"\nargs = [{args}]\n");
        std::fs::write(here.join("lab.toml"), text).unwrap();
    };
    lab("luna-[0001-0002]");
    assert_eq!(bus_bandwidth(&prints(&["run", "lab.toml"], here)), times[0]);

    refuses(
        &["bench", "all_reduce_perf", "--on", "mine.toml", "--hosts", "luna-0001,lunna-0002"],
        here,
        &["`lunna-0002`", "did you mean `luna-"],
    );
    refuses(&["bench", "osu_latency", "--on", "mine.toml", "--hosts", "luna-[0001-0003]"], here, &["takes 2 nodes, and 3 hosts are named"]);
    refuses(&["bench", "osu_latency", "--on", "mine.toml", "--hosts", "luna-0001,luna-0001"], here, &["`luna-0001` is a duplicate entry"]);
    refuses(&["bench", "osu_latency", "--on", "ri2", "--hosts", "a,b"], here, &["the nodes of `ri2` have no names"]);
    lab("luna-9[1-2");
    refuses(&["run", "lab.toml"], here, &["lab.toml:4", "a bracket has no partner"]);
    lab("selene-cache-01");
    refuses(&["run", "lab.toml"], here, &["there is no host `selene-cache-01` among the nodes of `mine`"]);
}

/// Hosts that the cluster's file chooses are its nodes, in their order; groups take hosts with unlike numbers of adapters.
#[test]
fn a_cluster_chooses_its_hosts() {
    let folder = folder_with(SELENE);
    let here = folder.path();
    prints(&["import", SELENE, "--hosts", "luna-0519,luna-[0001-0003]", "-o", "four.toml"], here);
    let first = ["bench", "--json", "osu_latency", "--on", "four.toml", "-m", "8:8", "-i", "1", "-x", "0"];
    prints(&first, here);
    refuses(&["bench", "osu_latency", "--on", "four.toml", "--hosts", "luna-0004"], here, &["did you mean `luna-000"]);
    let text = std::fs::read_to_string(here.join("four.toml")).unwrap();
    let change = |from: &str, to: &str| {
        assert!(text.contains(from), "{from} in\n{text}");
        std::fs::write(here.join("other.toml"), text.replace(from, to)).unwrap();
    };
    change("luna-0519,", "selene-cache-01,");
    refuses(&["topo", "other.toml"], here, &["`selene-cache-01` has 1 adapters in the fabric, and the node has 8"]);
    change("luna-0519,", "lunar-0519,");
    refuses(&["topo", "other.toml"], here, &["other.toml:", "there is no host `lunar-0519`", "did you mean `luna-"]);
    change("hosts = \"luna-0519,luna-[0001-0003]\"", "nodes = 459");
    refuses(&["topo", "other.toml"], here, &["459 nodes with 8 adapters each, and the fabric has 458 such hosts", "use at most 458 nodes"]);
    change("[topology.imported]\nfile = \"selene-compute.ibnetdiscover.gz\"", "[topology.fat_tree]\nlevels = 2");
    refuses(&["topo", "other.toml"], here, &["`hosts` of a fabric that was not imported"]);

    let (head, rest) = text.split_once("[node]").unwrap();
    let (_, cable) = rest.split_once("[cable]").unwrap();
    let head = head.lines().filter(|line| !line.starts_with("hosts")).map(|line| format!("{line}\n")).collect::<String>();
    let groups = "[[group]]\nname = \"dgx\"\nnode = \"dgx-a100\"\n[[group]]\nname = \"service\"\nhosts = \"selene-cache-[01-03]\"\n\
                  node = { cpu = \"epyc-7763\", sockets = 2, nic = \"connectx-6\" }\n";
    std::fs::write(here.join("both.toml"), format!("{head}{groups}[cable]{cable}")).unwrap();
    let mixed = ["bench", "--json", "osu_latency", "--on", "both.toml", "--hosts", "luna-0001,selene-cache-02", "-m", "8:8", "-i", "1"];
    let outcome: serde_json::Value = serde_json::from_str(&prints(&mixed, here)).unwrap();
    assert_eq!(outcome["hosts"], serde_json::json!(["luna-0001", "selene-cache-02"]));
    assert_eq!(outcome["nics_per_node"], serde_json::json!([8, 1]));
}

/// A DGX fabric with four adapters of each node, and adapters that nobody told their host.
#[test]
fn a_dgx_dump_becomes_a_cluster() {
    let folder = folder_with("dgx-ndr.ibnetdiscover");
    let here = folder.path();
    std::fs::create_dir(here.join("clusters")).unwrap();
    prints(&["import", "dgx-ndr.ibnetdiscover", "-o", "clusters/dgx.toml"], here);
    let text = std::fs::read_to_string(here.join("clusters/dgx.toml")).unwrap();
    for line in ["file = \"../dgx-ndr.ibnetdiscover\"", "part = \"hgx-h100\"", "nics = 4", "the node has 8", "109 hosts with 4 adapters"] {
        assert!(text.contains(line), "`{line}` is missing in:\n{text}");
    }
    let bench = ["bench", "all_reduce_perf", "--on", "clusters/dgx.toml", "--hosts", "a06-p1-dgx-02-c[01-02]"];
    assert!(bus_bandwidth(&prints(&[&bench[..], &SMALL].concat(), here)) > 1.0);
    // A node of one's own choice.
    prints(&["import", "dgx-ndr.ibnetdiscover", "--node", "hgx-h200", "-o", "h200.toml"], here);
    assert!(std::fs::read_to_string(here.join("h200.toml")).unwrap().contains("part = \"hgx-h200\""));
    refuses(
        &["import", "dgx-ndr.ibnetdiscover", "--node", "hgx-h20", "-o", "h.toml"],
        here,
        &["no node called `hgx-h20`", "did you mean `hgx-h2"],
    );
    refuses(&["import", "dgx-ndr.ibnetdiscover", "--node", "hgx-h200"], here, &["no cluster is written", "-o mine.toml"]);
}

/// The same options as other commands.
#[test]
fn import_has_every_format() {
    let here = &repository();
    let csv = prints(&["import", "fabrics/small.ibnetdiscover", "--csv"], here);
    assert!(csv.contains("# counts\nwhat,count\nswitches,2\n") && csv.contains("# rails\n"), "{csv}");
    let csv = prints(&["import", "fabrics/nodes/hgx-h100.nccl.xml", "--csv"], here);
    assert!(csv.contains("what,count\nsockets,2\n"), "{csv}");
    let json: serde_json::Value = serde_json::from_str(&prints(&["import", "fabrics/small.ibnetdiscover", "--json"], here)).unwrap();
    assert_eq!((&json["switches"], &json["hosts_by_adapters"]["2"]), (&2.into(), &4.into()));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.json");
    prints(&["import", "fabrics/small.ibnetdiscover", "-o", file.to_str().unwrap()], here);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&std::fs::read_to_string(file).unwrap()).unwrap(), json);
}

/// Service hosts whose names come first: a cluster takes the hosts that are named like most.
#[test]
fn service_hosts_that_sort_first_are_not_the_first_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let hosts: String = (1..=6).map(|host| format!("node{host} leaf{} 400Gbps\n", host % 2)).collect();
    std::fs::write(here.join("mine.edges"), format!("admin01 leaf0 400Gbps\nbackup01 leaf1 400Gbps\n{hosts}leaf0 leaf1 400Gbps\n"))
        .unwrap();
    let (status, _, told) = fabriscope(&["import", "mine.edges", "-o", "mine.toml"], here);
    assert_eq!(status, Some(0), "{told}");
    assert!(told.contains("mine.toml: 8 nodes") && told.contains("--hosts 'node[1-2]'"), "{told}");
    let bench = ["bench", "--json", "osu_latency", "--on", "mine.toml", "--hosts", "node[1-2]", "--", "-m", "8:8", "-i", "2", "-x", "1"];
    let outcome = serde_json::from_str::<serde_json::Value>(&prints(&bench, here)).unwrap();
    assert_eq!(outcome["hosts"], serde_json::json!(["node1", "node2"]));
}
