//! Timelines from the command line: exact stages, results that do not depend on them, files that other tools read.

use std::collections::BTreeMap;
use std::path::Path;

use assert_cmd::Command;
use fabriscope_timeline::proto::Trace;
use prost::Message;
use serde_json::Value;

fn run(args: &[&str], good: bool) -> (String, String) {
    let output = Command::cargo_bin("fabriscope").unwrap().args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, error) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.success(), good, "{args:?}: {error}");
    (out, error)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A slice that has begun: its annotations, and when.
type Open = (BTreeMap<String, u64>, u64);

/// Messages with their latency and the sum of their stages, and the flows that began and ended.
fn messages(path: &Path) -> (Vec<(u64, u64)>, [Vec<u64>; 2]) {
    let trace = Trace::decode(std::fs::read(path).unwrap().as_slice()).unwrap();
    let mut strings = BTreeMap::new();
    let (mut found, mut flows) = (Vec::new(), [Vec::new(), Vec::new()]);
    // By track: the slices that are open, each with its values and the sum of those within.
    let mut open: BTreeMap<u64, Vec<Open>> = BTreeMap::new();
    for packet in trace.packet {
        for name in packet.interned_data.iter().flat_map(|data| &data.debug_annotation_names) {
            strings.insert(name.iid(), name.name().to_owned());
        }
        let Some(event) = packet.track_event else { continue };
        let slices = open.entry(event.track_uuid()).or_default();
        match event.r#type() {
            1 => {
                let numbers = event.debug_annotations.iter().filter(|value| value.uint_value.is_some());
                slices.push((numbers.map(|value| (strings[&value.name_iid()].clone(), value.uint_value())).collect(), 0));
                flows[0].extend(event.flow_ids);
                flows[1].extend(event.terminating_flow_ids);
            }
            2 => {
                let (values, within) = slices.pop().unwrap();
                if let (Some(ps), Some((_, sum))) = (values.get("ps"), slices.last_mut()) {
                    *sum += ps;
                }
                found.extend(values.get("latency_ps").map(|latency| (*latency, within)));
            }
            _ => {}
        }
    }
    assert!(open.values().all(Vec::is_empty));
    flows.iter_mut().for_each(|flows| flows.sort_unstable());
    (found, flows)
}

/// An all-reduce of 64 ranks by recursive doubling: the operation and the barrier behind it have log2(64) rounds, in each of which every
/// rank sends once. The stages of each message add up to its latency, to the picosecond, and the tool prints what it prints without.
#[test]
fn stages_of_an_all_reduce_of_64_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pftrace");
    let bench = ["bench", "osu_allreduce", "--on", "betzy-hdr", "--nodes", "64", "--ppn", "1", "-m", "8:8", "-i", "2", "-x", "0"];
    let (traced, _) = run(&[&bench[..], &["--trace", text(&path)]].concat(), true);
    assert_eq!(traced, run(&bench, true).0);
    let (messages, flows) = messages(&path);
    assert_eq!(messages.len(), 64 * (2 + 2) * 6);
    assert!(messages.iter().all(|(latency, stages)| latency == stages && *latency > 500_000));
    assert_eq!((flows[0].len(), &flows[0]), (messages.len(), &flows[1]));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no file under a temporary name is left");
}

/// A pattern of a lab, with losses: repeated packets lengthen a stage, and nothing is missing.
#[test]
fn stages_of_messages_that_lost_packets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pftrace");
    let lab = format!("{}/../../labs/lossy-links.toml", env!("CARGO_MANIFEST_DIR"));
    let (traced, _) = run(&["run", &lab, "--trace", text(&path)], true);
    assert_eq!(traced, run(&["run", &lab], true).0);
    let (messages, _) = messages(&path);
    assert_eq!(messages.len(), 16);
    assert!(messages.iter().all(|(latency, stages)| latency == stages), "{messages:?}");
}

/// Pictures of links over time take a second run, of which the timeline hears nothing.
#[test]
fn a_picture_beside_it_leaves_a_timeline_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let lab = format!("{}/../../labs/incast-8.toml", env!("CARGO_MANIFEST_DIR"));
    let _ = run(&["run", &lab, "--trace", text(&at("alone.pftrace"))], true);
    let _ = run(&["run", &lab, "--trace", text(&at("beside.pftrace")), "-o", text(&at("links.svg"))], true);
    assert!(std::fs::read(at("alone.pftrace")).unwrap() == std::fs::read(at("beside.pftrace")).unwrap());
}

/// Kernels of two nodes: Kineto's events and the records of NCCL Inspector tell of the same kernels.
#[test]
fn kernels_of_an_nccl_program() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let bench = ["bench", "all_reduce_perf", "--on", "azure-ndh100v5", "--nodes", "2", "-b", "64K", "-e", "64K", "-n", "2", "-w", "1"];
    let files = ["--trace", text(&at("rank-{rank}.json")), "--inspector", text(&at("ops.jsonl"))].map(str::to_owned);
    let args: Vec<&str> = bench.into_iter().chain(files.iter().map(String::as_str)).collect();
    let _ = run(&args, true);
    let trace: Value = serde_json::from_slice(&std::fs::read(at("rank-3.json")).unwrap()).unwrap();
    let kernels: Vec<&Value> = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["cat"] == "kernel").collect();
    let text = std::fs::read_to_string(at("ops.jsonl")).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_rank: Vec<&Value> = records.iter().filter(|record| record["header"]["rank"] == 3).collect();
    // One to warm up and two that are measured, out of place and in place.
    assert_eq!((kernels.len(), of_rank.len(), records.len()), (6, 6, 16 * 6));
    for (kernel, record) in kernels.iter().zip(&of_rank) {
        let (args, perf) = (&kernel["args"], &record["coll_perf"]);
        assert_eq!(
            (&args["Collective name"], args["In msg nelems"].as_u64(), &args["dtype"]),
            (&"allreduce".into(), Some(16_384), &"Float".into())
        );
        assert_eq!((args["Group size"].as_u64(), record["header"]["nnodes"].as_u64()), (Some(16), Some(2)));
        assert_eq!(kernel["dur"].as_f64().unwrap().round() as u64, perf["coll_exec_time_us"].as_u64().unwrap());
        assert_eq!((perf["coll"].as_str(), perf["coll_msg_size_bytes"].as_u64()), (Some("AllReduce"), Some(65_536)));
    }
}

#[test]
fn what_has_no_timeline_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let lab = |name: &str| format!("{}/../../labs/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let bench = ["bench", "osu_latency", "--on", "ri2", "-m", "8:8"];
    let told = |args: &[&str], words: &str| {
        let (_, error) = run(args, false);
        assert!(error.contains(words), "{args:?}: {error}");
    };
    told(&[&bench[..], &["--trace", &at("a.txt")]].concat(), "name the file FILE.pftrace");
    told(&[&bench[..], &["--trace", &at("a.json")]].concat(), "osu_latency runs none");
    told(&[&bench[..], &["--inspector", &at("a.csv")]].concat(), "name the file FILE.jsonl");
    told(&[&bench[..], &["--trace", &at("none/a.pftrace")]].concat(), "cannot be written");
    told(&[&bench[..], &["--trace", &at("a.pftrace"), "--trace-step", "0us"]].concat(), "no interval");
    told(&["run", &lab("compare"), "--trace", &at("a.pftrace")], "a timeline is that of one");
    told(&["run", &lab("ring-all-reduce-flow"), "--trace", &at("a.pftrace")], "the flow engine does not model");
    told(&["run", &lab("incast-8"), "--trace", &at("a.json")], "runs none");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing half-written is left");
}
