//! A run as operators watch it: what was sent is what arrived or was lost, over time and in the output of their programs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};

use assert_cmd::Command;

fn command(args: &[&str]) -> std::process::Output {
    Command::cargo_bin("fabriscope").unwrap().args(args).output().unwrap()
}

fn run(args: &[&str]) -> String {
    let output = command(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn lab(name: &str) -> String {
    root().join(format!("labs/{name}.toml")).to_str().unwrap().to_owned()
}

/// The values of a counter at a place over time, from a CSV file of counters.
fn series(csv: &Path) -> BTreeMap<(String, String), Vec<u64>> {
    let mut all: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    for row in csv::Reader::from_path(csv).unwrap().records() {
        let row = row.unwrap();
        let place = format!("{} {}:{}", &row[1], &row[2], &row[3]);
        all.entry((place, row[4].to_owned())).or_default().push(row[6].parse().unwrap());
    }
    all
}

fn of(all: &BTreeMap<(String, String), Vec<u64>>, place: &str, counter: &str) -> Vec<u64> {
    all[&(place.to_owned(), counter.to_owned())].clone()
}

/// Eight hosts send 1 MiB each through one link of 400 Gb/s: 168 us. A sender has an eighth of it; it sends alone until its share of the
/// switch is full, then waits for seven eighths of the time.
#[test]
fn the_waiting_of_an_incast_climbs() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("incast.csv");
    run(&["monitor", &lab("incast-8"), "--every", "20us", "--counters", csv.to_str().unwrap()]);
    let all = series(&csv);
    let wait = of(&all, "node 8 mlx5_0:1", "port_xmit_wait");
    let golden = "us  port_xmit_wait (us)\n20  13\n40  31\n60  49\n80  66\n100 83\n120 101\n140 119\n160 127\n180 127\n";
    let lines: String = (1..).zip(&wait).map(|(at, wait)| format!("{:<3} {}\n", at * 20, wait / 1000)).collect();
    assert_eq!(format!("us  port_xmit_wait (us)\n{lines}"), golden);
    // Seven eighths of 20 us are 17.5 us, give or take a wait of seven packets, 0.6 us.
    for pair in wait[..7].windows(2) {
        assert!((16_900..18_100).contains(&(pair[1] - pair[0])), "{pair:?}");
    }
    // What the senders sent arrived, and none of it waited at the switch.
    let sum =
        |counter: &str| -> u64 { all.iter().filter(|((_, name), _)| name == counter).map(|(_, values)| values.last().unwrap()).sum() };
    assert_eq!(sum("port_xmit_packets"), sum("port_rcv_packets"));
    assert_eq!(sum("xmit_data[incast]"), 0, "one job has no counters of its own");
}

/// A cable that is cut three times: in each cut packets are lost on it, and adapters send them again.
#[test]
fn a_cable_that_is_cut_shows_losses_and_retries() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("flap.csv");
    run(&["monitor", &lab("link-flap"), "--every", "500us", "--counters", csv.to_str().unwrap()]);
    let all = series(&csv);
    let lost = of(&all, "leaf 0 :5", "port_xmit_discards");
    let mut again = vec![0; lost.len()];
    for (_, values) in all.iter().filter(|((_, name), _)| name == "retransmitted_packets") {
        again.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
    // Down from 20 us to 2.02 ms, and from 4.02 ms to 6.02 ms: most is lost before the manager has made new tables.
    let downs = of(&all, "leaf 0 :5", "link_downed");
    assert_eq!((downs[0], downs[7], downs[8], downs.last().copied()), (1, 1, 2, Some(2)));
    assert!(lost[0] > 0 && lost[3] == lost[7] && *lost.last().unwrap() > lost[7], "{lost:?}");
    assert!(again[0] < again[3] && again[7] < *again.last().unwrap(), "{again:?}");
    // Sent here and not arrived there is what was lost.
    let last = |place: &str, counter: &str| *of(&all, place, counter).last().unwrap();
    assert_eq!(last("leaf 0 :5", "port_xmit_packets"), last("spine 1 :0", "port_rcv_packets") + last("leaf 0 :5", "port_xmit_discards"));
}

/// Two jobs of hosts of their own: what each link carries is what it carries for both, and each view says whose it is.
#[test]
fn two_jobs_are_told_apart() {
    let json: serde_json::Value = serde_json::from_str(&run(&["monitor", &lab("io-beside-all-reduce-ibex"), "--json"])).unwrap();
    let shares = json["shares"].as_array().unwrap();
    let mut of_link: BTreeMap<&str, f64> = BTreeMap::new();
    for row in shares {
        *of_link.entry(row["link"].as_str().unwrap()).or_default() += row["share"].as_f64().unwrap();
    }
    assert!(of_link.len() == 10 && of_link.values().all(|sum| (sum - 100.0).abs() < 0.15), "{of_link:?}");
    let jobs = json["jobs"].as_array().unwrap();
    let job = |name: &str| jobs.iter().find(|row| row["job"] == name).unwrap();
    let received = |name: &str| job(name)["received_bytes"].as_u64().unwrap();
    // 16 hosts get 30 messages of 64 KiB, 24 servers 4 of 4 MiB, both with 24 B of headers in 4 KiB, which are 0.586 %, RETHs and
    // acknowledgements.
    for (name, payload) in [("all-reduce", 16 * 30 * (64 << 10)), ("file system", 24 * 4 * (4 << 20))] {
        let over = received(name) as f64 / payload as f64;
        assert!((1.00586..1.008).contains(&over), "{name}: {over}");
    }
    // Intervals of each job on a link add up to those of the link.
    let mut sums: BTreeMap<(String, u64), [u64; 2]> = BTreeMap::new();
    for row in json["series"].as_array().unwrap() {
        let at = (row["link"].as_str().unwrap().to_owned(), row["time_ps"].as_u64().unwrap());
        sums.entry(at).or_default()[usize::from(row["job"] != "")] += row["sent_bytes"].as_u64().unwrap();
    }
    assert!(sums.len() > 1000 && sums.values().all(|[all, jobs]| all == jobs));
}

/// Prometheus' own parser reads what is written, and it holds every metric that the board asks for.
#[test]
fn the_board_finds_its_metrics() {
    const NAMES: &str = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
names = {(s.name, ' '.join(sorted(s.labels))) for f in parse(sys.stdin.read()) for s in f.samples if s.timestamp is not None}
print('\\n'.join(sorted(f'{n}|{l}' for n, l in names)))
";
    let folder = tempfile::tempdir().unwrap();
    let mut found = String::new();
    for name in ["io-beside-all-reduce-ibex", "link-flap"] {
        let path = folder.path().join(format!("{name}.om"));
        run(&["monitor", &lab(name), "--samples", "4", "--counters", path.to_str().unwrap()]);
        let has = |python: &&str| {
            let asked = Program::new(python).args(["-c", "import prometheus_client"]).stderr(Stdio::null()).status();
            asked.is_ok_and(|status| status.success())
        };
        let python = ["python3", "/usr/bin/python3"].into_iter().find(has).expect("Prometheus' client judges OpenMetrics");
        let mut child = Program::new(python).args(["-c", NAMES]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&std::fs::read(&path).unwrap()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        found += &String::from_utf8(output.stdout).unwrap();
    }
    let board: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(root().join("dashboards/fabriscope-jobs.json")).unwrap()).unwrap();
    let panels = board["panels"].as_array().unwrap();
    for key in ["title", "uid", "schemaVersion", "time", "templating", "panels"] {
        assert!(!board[key].is_null(), "a board has `{key}`");
    }
    let mut ids: Vec<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), panels.len());
    let expressions = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let mut metrics = 0;
    for expression in expressions.map(|target| target["expr"].as_str().unwrap()) {
        let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for metric in words.filter(|word| word.starts_with("node_") || word.starts_with("fabriscope_")) {
            metrics += 1;
            assert!(found.lines().any(|line| line.split('|').next() == Some(metric)), "{metric} of {expression} is in no file");
        }
        // Labels that expressions join and sum by are there.
        for label in ["job_name", "instance", "device"].into_iter().filter(|label| expression.contains(label)) {
            assert!(found.lines().any(|line| line.split('|').nth(1).unwrap().split(' ').any(|known| known == label)), "{label}");
        }
    }
    assert!(metrics >= 12, "{metrics}");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert!(panel["datasource"]["uid"] == "${DS_PROMETHEUS}" && panel["gridPos"]["w"].as_u64() <= Some(24), "{panel}");
    }
}

/// The rows that the real perfquery prints, and their order.
#[test]
fn perfquery_has_the_rows_of_the_real_one() {
    let text = run(&["monitor", &lab("incast-8"), "--as", "perfquery", "--of", "node 1"]);
    let names: Vec<&str> = text.lines().skip(1).map(|line| line.split(':').next().unwrap()).collect();
    let real = "PortSelect CounterSelect SymbolErrorCounter LinkErrorRecoveryCounter LinkDownedCounter PortRcvErrors \
                PortRcvRemotePhysicalErrors PortRcvSwitchRelayErrors PortXmitDiscards PortXmitConstraintErrors PortRcvConstraintErrors \
                CounterSelect2 LocalLinkIntegrityErrors ExcessiveBufferOverrunErrors QP1Dropped VL15Dropped PortXmitData PortRcvData \
                PortXmitPkts PortRcvPkts PortXmitWait";
    assert_eq!(names, real.split_whitespace().collect::<Vec<_>>());
    assert!(text.starts_with("# Port counters: Lid 2 port 1 (CapMask: 0x1200)\nPortSelect:......................1\n"), "{text}");
    // 256 packets of 4 KiB with 24 bytes of LRH, BTH and ICRC, the first of them with 16 of RETH.
    assert!(text.contains(&format!("\nPortXmitData:....................{}\n", (256 * (4096 + 24) + 16) / 4)), "{text}");
}

/// Other machines have other programs, and what is wrong says what is right.
#[test]
fn forms_follow_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let write = |cluster: &str| {
        let path = folder.path().join(format!("{}.toml", &cluster[..4]));
        std::fs::write(&path, format!("cluster = \"{cluster}\"\n[workload.incast]\nsenders = 4\nsize = \"256 KiB\"\n")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let roce = write("alaska-roce25:12");
    let ethtool = run(&["monitor", &roce, "--as", "ethtool", "--of", "node 1"]);
    assert!(ethtool.starts_with("# node 1 mlx5_0\nNIC statistics:\n     tx_bytes_phy: "), "{ethtool}");
    assert!(ethtool.contains("     rx_prio0_pause: "), "{ethtool}");
    let refused = |args: &[&str]| {
        let output = command(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["monitor", &roce, "--as", "perfquery"]).contains("shows counters of InfiniBand, and this cluster has RoCE"));
    assert!(refused(&["monitor", &roce, "--as", "ethtool", "--of", "node 99"]).contains("no node or switch is named `node 99`"));
    assert!(refused(&["monitor", &lab("incast-8"), "--as", "ibqueryerrors", "--threshold", "Errors=3"]).contains("`Errors` is no counter"));
    assert!(refused(&["monitor", &roce, "--as", "netstat"]).contains("use one of perfquery"));
    assert!(refused(&["monitor", &lab("compare")]).contains("a sweep has several runs"));
    assert!(refused(&["monitor", &lab("permutation-65536-flow")]).contains("nothing to count"));
}

/// RPCs of the first client are as many as its bytes have, and what clients sent is what targets served.
#[test]
fn lustre_counts_what_ior_does() {
    let text =
        run(&["bench", "--counters", "--on", "ibex-cpu", "--nodes", "2", "--ppn", "4", "ior", "-F", "-t", "1m", "-b", "64m", "-w", "-e"]);
    let values = |name: &str, at: usize| -> Vec<u64> {
        let rows = text.lines().filter(|line| line.starts_with(name));
        rows.map(|line| line.split_whitespace().nth(at).unwrap().parse().unwrap()).collect()
    };
    let bytes = values("write_bytes", 6);
    // The mount of the first client comes first: 4 processes with 64 calls of 1 MiB each. Targets serve 2 clients.
    assert_eq!(bytes[0], (4 * 64) << 20);
    assert_eq!(bytes[1..].iter().sum::<u64>(), (2 * 4 * 64) << 20);
    let (served, sent) = (values("write_bytes", 1)[1..].iter().sum::<u64>(), values("ost_write", 1).iter().sum::<u64>());
    assert_eq!(served, 2 * sent, "both clients do the same");
    assert!(text.contains("pages per rpc         rpcs   % cum % |       rpcs   % cum %"), "{text}");
}
