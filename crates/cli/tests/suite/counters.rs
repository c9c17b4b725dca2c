//! Counters from the command line: sums that agree with the run and with each other, whatever the form.

use std::collections::BTreeMap;
use std::path::Path;

use assert_cmd::Command;

fn run(args: &[&str]) -> String {
    let output = Command::cargo_bin("fabriscope").unwrap().args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn lab(name: &str) -> String {
    format!("{}/../../labs/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// (place, counter) to value at the last time of a CSV file; values never fall.
fn last(csv: &Path) -> BTreeMap<(String, String), u64> {
    let mut values = BTreeMap::new();
    for row in csv::Reader::from_path(csv).unwrap().records() {
        let row = row.unwrap();
        let value: u64 = row[6].parse().unwrap();
        let before = values.insert((format!("{} {}:{}", &row[1], &row[2], &row[3]), row[4].to_owned()), value);
        assert!(before.is_none_or(|before| before <= value), "{row:?}");
    }
    values
}

fn sum(values: &BTreeMap<(String, String), u64>, counter: &str) -> u64 {
    values.iter().filter(|((_, name), _)| name == counter).map(|(_, value)| value).sum()
}

/// An incast on InfiniBand: what is sent is received, the sums are those of the run, the senders wait.
#[test]
fn an_incast_on_infiniband() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let lab = lab("incast-8");
    let json = run(&["run", &lab, "--json", "--stats", "--counters", text(&at("sums.csv"))]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let sums = last(&at("sums.csv"));
    for counter in ["packets", "data"] {
        assert_eq!(sum(&sums, &format!("port_xmit_{counter}")), sum(&sums, &format!("port_rcv_{counter}")));
    }
    assert_eq!(Some(sum(&sums, "port_xmit_packets")), json["packet_hops"].as_u64());
    assert_eq!(sum(&sums, "rx_write_requests"), 8);
    for node in 1..=8 {
        let wait = sums[&(format!("node {node} mlx5_0:1"), "port_xmit_wait".to_owned())];
        // Eight share the last link: seven eighths of the time, less what the switch holds (docs/counters.md).
        assert!((120_000..130_000).contains(&wait), "node {node} waited {wait} ns");
    }
    assert_eq!(sums[&("node 0 mlx5_0:1".to_owned(), "port_xmit_wait".to_owned())], 0);
    let listed = json["counters"].as_array().unwrap();
    assert_eq!(listed.len(), sums.len());
    // The table has the same numbers, on standard output and in a file.
    let table = run(&["run", &lab, "--counters"]);
    run(&["run", &lab, "--counters", text(&at("sums.txt"))]);
    let written = std::fs::read_to_string(at("sums.txt")).unwrap();
    assert!(table.ends_with(&written), "{table}\n{written}");
    let row = written.lines().find(|line| line.starts_with("node 0 mlx5_0:1")).unwrap();
    let words = sums[&("node 0 mlx5_0:1".to_owned(), "port_rcv_data".to_owned())];
    assert_eq!(row.split_whitespace().nth(4), Some(words.to_string().as_str()));
    // Intervals end at the sums.
    run(&["run", &lab, "--counters", text(&at("every.csv")), "--every", "10us"]);
    assert_eq!(last(&at("every.csv")), sums);
    let parquet = run(&["run", &lab, "--counters", text(&at("every.parquet")), "--every", "10us"]);
    assert!(parquet.contains("pandas.read_parquet"));
    assert!(std::fs::read(at("every.parquet")).unwrap().starts_with(b"PAR1"));
    run(&["run", &lab, "--counters", text(&at("every.om")), "--every", "10us"]);
    assert!(std::fs::read_to_string(at("every.om")).unwrap().ends_with("\n# EOF\n"));
}

/// RoCE has pauses: as many frames received as sent, and switches go by other names.
#[test]
fn an_incast_on_ethernet() {
    let folder = tempfile::tempdir().unwrap();
    let (path, csv) = (folder.path().join("lab.toml"), folder.path().join("x.csv"));
    std::fs::write(&path, "cluster = \"alaska-roce25:12\"\n[workload.incast]\nsenders = 6\nsize = \"1 MiB\"\n").unwrap();
    run(&["run", text(&path), "--counters", text(&csv)]);
    let values = last(&csv);
    let (sent, received) = (sum(&values, "SAI_PORT_STAT_PFC_0_TX_PKTS"), sum(&values, "rx_prio0_pause"));
    assert!(sent > 0 && sent == received, "{sent} {received}");
    let (out, arrived) = (sum(&values, "tx_bytes_phy"), sum(&values, "SAI_PORT_STAT_IF_IN_OCTETS"));
    assert_eq!(out, arrived);
    assert_eq!(sum(&values, "port_xmit_packets"), sum(&values, "tx_packets_phy"));
    assert_eq!(sum(&values, "tx_prio0_bytes"), out);
    assert!(sum(&values, "rx_prio0_pause_duration") > 0);
}

/// Other machines have other names.
#[test]
fn names_follow_the_machine() {
    for (cluster, names) in [
        ("csd3-opa", ["hfi1_0", "PortXmitData (8 B)"]),
        ("aws-c5n-efa", ["efa_0", "tx_pkts"]),
        ("olivia-turin", ["cxi0", "hni_pkts_sent_by_tc_0"]),
        ("ri2", ["mlx5_0", "port_xmit_data (4 B)"]),
    ] {
        let tool = if cluster == "ri2" { "ib_write_bw" } else { "osu_latency" };
        let few = if cluster == "ri2" { ["-n", "20"] } else { ["-m", "1:64"] };
        // An option of the tool is no file.
        for counters_first in [false, true] {
            let tail = if counters_first { ["--counters", few[0], few[1]] } else { [few[0], few[1], "--counters"] };
            let printed = run(&[&["bench", tool, "--on", cluster], &tail[..]].concat());
            assert!(names.iter().all(|name| printed.contains(name)), "{cluster}: {printed}");
        }
    }
}

/// The same bytes on however many cores.
#[test]
fn the_number_of_cores_does_not_show() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["1", "2"].map(|threads| {
        let path = folder.path().join(format!("{threads}.om"));
        run(&["run", &lab("permutation-1024"), "--threads", threads, "--counters", text(&path), "--every", "50us"]);
        std::fs::read(path).unwrap()
    });
    assert!(files[0] == files[1] && files[0].len() > 100_000);
}
