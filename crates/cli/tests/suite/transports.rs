//! `fabriscope transports`, and labs and perftest over every transport.
#![expect(clippy::disallowed_methods, reason = "UPDATE_GOLDEN writes the pinned file anew")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fabriscope(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fabriscope")).args(args).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/models/transports.md")
}

/// The table in docs/models/transports.md is what the command prints. With UPDATE_GOLDEN=1 it is written anew.
#[test]
fn the_document_holds() {
    let document = document();
    let before = std::fs::read_to_string(&document).unwrap();
    let (head, rest) = before.split_once("```console\n$ fabriscope transports\n").unwrap();
    let (shown, tail) = rest.split_once("```").unwrap();
    let printed = text(&fabriscope(&["transports"]));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&document, format!("{head}```console\n$ fabriscope transports\n{printed}```{tail}")).unwrap();
    } else {
        assert!(printed == shown, "UPDATE_GOLDEN=1 writes docs/models/transports.md anew; it should be\n{printed}");
    }
}

/// Queue pairs that 112 processes on 4 nodes of 28 need: 28 · 111, 28 · 4, 28.
#[test]
fn queue_pairs_are_counted() {
    let output = fabriscope(&["transports", "-m", "28", "-n", "4", "--json"]);
    let list: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let of = |name: &str| list.iter().find(|entry| entry["transport"] == name).unwrap()["queue_pairs"].as_u64().unwrap();
    assert_eq!(["RC", "XRC_SEND", "UD", "SRD", "RAW_PACKET"].map(of), [28 * 111, 28 * 4, 28, 28, 1]);
}

#[test]
fn labs_run_over_every_transport() {
    let folder = tempfile::tempdir().unwrap();
    for transport in ["rc", "xrc", "rd", "dc", "srd", "uet", "uet_rod", "uet_rudi"] {
        let lab = folder.path().join(format!("{transport}.toml"));
        let workload = format!("[workload.all_to_all]\nsize = \"16 KiB\"\ntransport = \"{transport}\"\n");
        std::fs::write(&lab, format!("title = \"t\"\ncluster = \"lab-16\"\nrouting = \"ecmp\"\n{workload}")).unwrap();
        let output = fabriscope(&["run", lab.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{transport}: {}", String::from_utf8_lossy(&output.stderr));
        let bytes = 16 * 15 * 16384;
        assert!(text(&output).lines().any(|line| line.starts_with("bytes delivered") && line.ends_with(&bytes.to_string())), "{transport}");
    }
}

/// Datagrams of Ultra Ethernet are one packet each; its idempotent mode has no messages that could happen twice.
#[test]
fn modes_of_ultra_ethernet_refuse_what_they_cannot_carry() {
    let folder = tempfile::tempdir().unwrap();
    let lab = folder.path().join("lab.toml");
    let run = |workload: &str, transport: &str| {
        std::fs::write(&lab, format!("title = \"t\"\ncluster = \"lab-16\"\n[workload.{workload}\ntransport = \"{transport}\"\n")).unwrap();
        fabriscope(&["run", lab.to_str().unwrap()])
    };
    let output = run("permutation]\nsize = \"2 KiB\"", "uet_uud");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    for (workload, transport, what) in [
        ("permutation]\nsize = \"64 KiB\"", "uet_uud", "more than one packet"),
        ("ring_all_reduce]\nsize = \"64 KiB\"", "uet_rudi", "twice"),
    ] {
        let output = run(workload, transport);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() != Some(0) && told.contains(what), "{transport}: {told}");
    }
}

#[test]
fn perftest_takes_the_connections_of_the_tool() {
    for connection in ["XRC", "DC", "SRD"] {
        let output = fabriscope(&["bench", "ib_write_bw", "-c", connection, "-s", "65536", "-n", "200", "--on", "ri2"]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let srq = if connection == "SRD" { "OFF" } else { "ON" };
        assert!(text(&output).contains(&format!("Connection type : {connection}\t\tUsing SRQ      : {srq}")));
    }
    for (args, what) in [
        (&["bench", "ib_atomic_bw", "-c", "SRD", "--on", "ri2"][..], "has no atomics"),
        (&["bench", "ib_send_bw", "-c", "SRD", "-s", "65536", "--on", "ri2"][..], "4096"),
        (&["bench", "ib_send_bw", "-c", "TCP", "--on", "ri2"][..], "RC, XRC, UC, UD, DC, SRD"),
    ] {
        let output = fabriscope(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains(what), "{args:?}: {told}");
    }
}

/// RCCL's messages over Ultra Ethernet arrive as those over verbs do; who has no queue pairs of verbs, or no such transport, is told.
#[test]
fn nccl_tests_run_over_ultra_ethernet() {
    let bench = ["bench", "all_reduce_perf", "--nodes", "2", "-b", "1M", "-e", "1M", "-n", "1", "-w", "0"];
    let over = |cluster, transport| fabriscope(&[&bench[..], &["--on", cluster, "--transport", transport]].concat());
    let (ours, verbs) = (over("mi355x-pollara", "uet"), over("mi355x-pollara", "verbs"));
    let time = |output: &Output| -> f64 {
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let row: Vec<String> =
            text(output).lines().find(|line| line.contains("float")).unwrap().split_whitespace().map(String::from).collect();
        assert_eq!(row[8], "0", "wrong elements");
        row[5].parse().unwrap()
    };
    let (ours, verbs) = (time(&ours), time(&verbs));
    assert!(ours > verbs && ours < 1.2 * verbs, "{ours} us over UET, {verbs} over RC");
    for (cluster, transport, what) in
        [("frontier", "uet", "no queue pairs of verbs"), ("mi355x-pollara", "dc", "nccl-tests --transport uet")]
    {
        let output = over(cluster, transport);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && told.contains(what), "{told}");
    }
}
