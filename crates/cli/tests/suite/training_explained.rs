//! `fabriscope explain train`, timelines of a step, uneven ranks, checkpoints, and what memory errors say.

use assert_cmd::Command;
use serde_json::Value;

fn run(words: &[&str]) -> std::process::Output {
    Command::cargo_bin("fabriscope").unwrap().args(words).output().unwrap()
}

fn answer(words: &[&str]) -> Value {
    let output = run(&[words, &["--json"]].concat());
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(words: &[&str]) -> String {
    let output = run(words);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
}

const JOB: [&str; 10] = ["--model", "llama3-8b", "--on", "azure-ndh100v5:2", "--tp", "4", "--dp", "4", "--global-batch", "16"];

fn job<'a>(command: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [command, &JOB, &["--sequence-parallel", "--sharding", "optimizer"], more].concat()
}

/// The rows of each depth add up to the step, to the picosecond; the resources do, too.
#[test]
fn the_tree_adds_up() {
    let told = answer(&job(&["explain", "train"], &["--no-changes"]));
    let rows = told["tree"].as_array().unwrap();
    let ps = |row: &Value| row["ps"].as_u64().unwrap();
    let (step, rows) = rows.split_last().unwrap();
    let at = |depth: u64| rows.iter().filter(move |row| row["depth"] == depth);
    assert_eq!(at(0).map(ps).sum::<u64>(), ps(step), "{rows:?}");
    assert_eq!(at(1).map(ps).sum::<u64>(), ps(step), "{rows:?}");
    assert!((ps(step) as f64 / 1e12 / told["step_s"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    // It is the step that `train` tells.
    let plain = answer(&job(&["train"], &[]));
    assert_eq!(plain["step_s"], told["step_s"]);
    let resources = told["resources"].as_array().unwrap();
    let sum: f64 = resources.iter().map(|row| row["ms"].as_f64().unwrap()).sum();
    assert!((sum / (ps(step) as f64 / 1e9) - 1.0).abs() < 1e-6, "{resources:?}");
}

/// What each change gives has the right sign, and none of them is worse than what cannot be: nothing between nodes.
#[test]
fn changes_are_runs_of_their_own() {
    let told = answer(&job(&["explain", "train"], &["--overlap", "none"]));
    let step = told["step_s"].as_f64().unwrap() * 1e3;
    let with = |name: &str| {
        let row = told["changes"].as_array().unwrap().iter().find(|row| row["with"] == name).unwrap();
        row["step_ms"].as_f64().unwrap_or_else(|| panic!("{row}"))
    };
    let free = with("no network between nodes");
    // Slots of the adapters carry as much as their cables: both have to be faster.
    let doubled = with("network and PCI Express twice as fast");
    assert!(free < doubled && doubled < step, "{free} {doubled} {step}");
    assert!(with("all links of the network twice as fast") <= step && with("adapters twice as fast") <= step);
    assert!(with("no latency") < step);
    assert!(with("GPUDirect RDMA off") > step, "{} {step}", with("GPUDirect RDMA off"));
    assert!(with("one adapter of each node dead") > step);
    assert!(with("cables between switches half as fast (2:1)") >= step * (1.0 - 1e-9));
    let gpus = ["GPUs multiply twice as fast", "memory of GPUs twice as fast", "GPUs twice as fast, with their memory"].map(with);
    assert!(gpus[2] < gpus[0] && gpus[2] < gpus[1] && gpus[0] < step && gpus[1] < step, "{gpus:?} {step}");
    // Twice as fast saves half of what the network takes, at the most.
    assert!((step - doubled) / (step - free) < 0.51, "{free} {doubled} {step}");
}

/// Every stage's passes and waits fill the step without a gap.
#[test]
fn a_timeline_is_as_long_as_the_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("step.json");
    let file = path.display().to_string();
    let words =
        ["train", "--model", "llama3-8b", "--on", "azure-ndh100v5:2", "--tp", "4", "--pp", "4", "--global-batch", "8", "--trace", &file];
    let told = answer(&words);
    let read: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let events = read["traceEvents"].as_array().unwrap();
    let step = (told["step_s"].as_f64().unwrap() * 1e12).round() as u64;
    for stage in 1..=4 {
        // The first track of a stage; what lies within another slice begins before its end.
        let (mut end, mut sum) = (0.0, 0);
        let slices = events.iter().filter(|event| event["ph"] == "X" && event["pid"] == stage && event["tid"] == 1);
        for slice in slices {
            let (from, span) = (slice["ts"].as_f64().unwrap(), slice["dur"].as_f64().unwrap());
            if from + 1e-6 >= end {
                assert!((from - end).abs() < 1e-3, "a gap at {from} of stage {stage}");
                end = from + span;
                sum += slice["args"]["ps"].as_u64().unwrap();
            }
        }
        assert_eq!(sum, step, "stage {stage}");
    }
    let named = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    assert_eq!(named("forward 0"), 4);
    assert!(named("all-reduce of 64 MiB") > 0 && named("waits") > 0);
    let other = folder.path().join("step.pftrace");
    let file = other.display().to_string();
    assert!(run(&[&words[..words.len() - 1], &[file.as_str()]].concat()).status.success());
    assert!(std::fs::metadata(other).unwrap().len() > 1000);
    let text = refused(&[&words[..words.len() - 1], &["step.txt"]].concat());
    assert!(text.contains(".pftrace or .json"), "{text}");
}

#[test]
fn uneven_ranks_take_longer() {
    let told = answer(&job(&["train"], &["--jitter", "0.02", "--straggler", "3:1.2", "--steps", "20"]));
    let steps = told["steps_s"].as_array().unwrap();
    let step = told["step_s"].as_f64().unwrap();
    assert!(steps.len() == 20 && steps.iter().all(|span| span.as_f64().unwrap() > step * 1.1), "{steps:?}");
    assert_eq!(told, answer(&job(&["train"], &["--jitter", "0.02", "--straggler", "3:1.2", "--steps", "20"])), "the same twice");
    for (more, expected) in [
        (["--straggler", "16:2"], "the job has ranks 0 to 15"),
        (["--straggler", "1:0.5"], "use 1 to 1000"),
        (["--jitter", "11"], "--jitter 0.02"),
        (["--straggler", "x"], "5:1.2"),
    ] {
        let text = refused(&job(&["train"], &more));
        assert!(text.contains(expected), "{more:?}: {text}");
    }
}

/// 14 bytes of 8.03 · 10⁹ parameters; two nodes share them, 5 GB/s each.
#[test]
fn checkpoints_are_written_by_the_nodes() {
    let told = answer(&job(&["train"], &["--checkpoint-every", "10", "--node-rate", "5 GB/s"]));
    let bytes = told["checkpoint_bytes"].as_f64().unwrap();
    assert!((bytes / (14.0 * 8.03e9) - 1.0).abs() < 0.001, "{bytes}");
    let seconds = told["checkpoint_s"].as_f64().unwrap();
    // The first copy's node writes the parameters as well: 2 + 6 of 14 bytes.
    assert!((seconds / (bytes * 8.0 / 14.0 / 5e9) - 1.0).abs() < 0.01, "{seconds}");
    assert!(told["checkpoint_percent"].as_f64().unwrap() > 0.0);
}

#[test]
fn memory_that_does_not_fit_is_told_with_what_would() {
    let words = ["train", "--model", "llama3-70b", "--on", "azure-ndh100v5:4", "--tp", "8", "--pp", "2", "--dp", "2"];
    let text = refused(&words);
    for part in ["too much, at stage 0 of 2, with 40 layers", "most of it is activations", "activations of 2 micro-batches"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("these have room: --sharding optimizer with --recompute full ("), "{text}");
}

/// Groups of eight share within their nodes; the others have copies, and gathering does not leave the nodes.
#[test]
fn shares_within_nodes_are_gathered_there() {
    let words =
        ["explain", "train", "--model", "llama3-8b", "--on", "azure-ndh100v5:2", "--dp", "16", "--recompute", "full", "--no-changes"];
    let told = answer(&[&words[..], &["--sharding", "parameters", "--shard", "8"]].concat());
    let rows = told["tree"].as_array().unwrap();
    let named = |name: &str| rows.iter().filter(|row| row["part"] == name).collect::<Vec<_>>();
    assert!(named("all-gather among 8").iter().all(|row| row["bound"] != "adapters"), "{rows:?}");
    assert!(!named("all-reduce among 2").is_empty(), "{rows:?}");
    let text = refused(&[&words[..], &["--shard", "8"]].concat());
    assert!(text.contains("copies share nothing"), "{text}");
}
