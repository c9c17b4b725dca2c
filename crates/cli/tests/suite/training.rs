//! `fabriscope train`: published tables, what adds up, what is refused.

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

fn step(words: &[&str]) -> Value {
    let output = Command::cargo_bin("fabriscope").unwrap().arg("train").args(words).arg("--json").output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a refusal says, on one line.
fn told(words: &[&str]) -> String {
    let output = Command::cargo_bin("fabriscope").unwrap().arg("train").args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
}

/// Model; tensor and pipeline parallelism and copies; sequences of a step; sequences of a micro-batch and parts of a stage; what is published.
type Row = (&'static str, [u32; 3], u32, [u32; 2], f64);

/// Achieved TFLOP/s of each GPU on Selene (Megatron-LM v2.5, README, images/cases_april2021.png; the models of Narayanan et al., SC 2021,
/// table 1), by parallelism, batch, the micro-batch and the parts of a stage that the table does not say and the model finds best. The numbers
/// of the GPU are fixed by the first row alone. Three rows here; all of them in the long tests.
const SELENE: [Row; 10] = [
    ("gpt-1.7b", [1, 1, 32], 512, [8, 1], 137.0),
    ("gpt-3.6b", [2, 1, 32], 512, [8, 1], 138.0),
    ("gpt-7.5b", [4, 1, 32], 512, [8, 1], 142.0),
    ("gpt-18b", [8, 1, 32], 1024, [8, 1], 135.0),
    ("gpt-39b", [8, 2, 32], 1536, [4, 2], 138.0),
    ("gpt-76b", [8, 4, 32], 1792, [2, 3], 140.0),
    ("gpt-145b", [8, 8, 24], 2304, [1, 2], 148.0),
    ("gpt-310b", [8, 16, 15], 2160, [1, 2], 155.0),
    ("gpt-530b", [8, 35, 9], 2520, [1, 1], 163.0),
    ("gpt-1t", [8, 64, 6], 3072, [1, 2], 163.0),
];

fn selene(rows: usize) -> Vec<f64> {
    let cluster = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fabrics/selene.toml").display().to_string();
    let row = |(model, layout, batch, parts, published): &Row| {
        let numbers = [layout[0], layout[1], layout[2], *batch, parts[0], parts[1]].map(|number| number.to_string());
        let [tp, pp, dp, batch, micro, interleave] = numbers.each_ref().map(String::as_str);
        let words = ["--model", model, "--on", &cluster, "--tp", tp, "--pp", pp, "--dp", dp, "--global-batch", batch];
        let rest = ["--micro-batch", micro, "--interleave", interleave, "--recompute", "full", "--attention", "unfused"];
        let whole: Vec<&str> = words.into_iter().chain(rest).chain(["--overlap", "none", "--narrow-gradients"]).collect();
        step(&whole)["tflops_per_gpu"].as_f64().unwrap() / published - 1.0
    };
    SELENE.iter().take(rows).map(row).collect()
}

fn median(mut errors: Vec<f64>) -> f64 {
    errors.iter_mut().for_each(|error| *error = error.abs());
    errors.sort_by(f64::total_cmp);
    errors[errors.len() / 2]
}

#[test]
fn selene_reaches_what_is_published() {
    let errors = selene(3);
    assert!(errors[0].abs() < 0.01, "the row that the numbers come from: {errors:?}");
    assert!(median(errors[1..].to_vec()) < 0.05, "{errors:?}");
}

/// Rings between nodes as fluids and packet by packet: without what their ends and chunks take.
#[test]
fn fluids_are_near_packets() {
    let found = step(&["--model", "gpt-7.5b", "--on", "azure-nda100v4:4", "--tp", "8", "--dp", "4", "--global-batch", "4"]);
    let off = found["fluids_off_percent"].as_f64().unwrap();
    assert!((-30.0..5.0).contains(&off), "{off}");
}

#[test]
#[ignore = "long: ten jobs of up to 3,072 GPUs"]
fn selene_reaches_what_is_published_up_to_a_trillion_parameters() {
    let errors = selene(SELENE.len());
    assert!(median(errors[1..].to_vec()) < 0.10, "{errors:?}");
    assert!(errors.iter().all(|error| error.abs() < 0.12), "{errors:?}");
}

#[test]
fn parts_add_up_and_two_runs_are_the_same() {
    let words = ["--model", "llama3-8b", "--on", "azure-ndh100v5:2", "--tp", "4", "--dp", "4", "--sequence-parallel"];
    let whole: Vec<&str> = words.into_iter().chain(["--sharding", "optimizer", "--global-batch", "16", "--recompute", "full"]).collect();
    let (first, second) = (step(&whole), step(&whole));
    assert_eq!(first, second);
    let parts = first["parts"].as_array().unwrap();
    let (last, others) = parts.split_last().unwrap();
    let sum: f64 = others.iter().map(|part| part["ms"].as_f64().unwrap()).sum();
    assert!((sum - last["ms"].as_f64().unwrap()).abs() < 1e-6 * sum, "{parts:?}");
    assert!(first["fluids_off_percent"].is_number(), "{first}");
}

/// What the network costs is what a faster one saves; within a node it costs nothing.
#[test]
fn a_faster_network_saves_what_is_exposed() {
    let of = |words: &[&str]| {
        let found = step(words);
        ["network_doubled_percent", "no_network_percent"].map(|key| found[key].as_f64().unwrap())
    };
    let words = ["--model", "gpt-3.6b", "--on", "azure-nda100v4:2", "--tp", "2", "--dp", "8", "--global-batch", "16", "--overlap", "none"];
    let [doubled, without] = of(&words);
    assert!(without < doubled && doubled < -0.1, "{doubled} {without}");
    let [doubled, without] = of(&["--model", "gpt-1.7b", "--on", "azure-nda100v4:1", "--dp", "8", "--global-batch", "8"]);
    assert!(doubled == 0.0 && without == 0.0, "{doubled} {without}");
}

/// Groups that do not fill nodes evenly: twelve ranks on nodes of eight, three of a tensor group on each of two.
#[test]
fn groups_across_nodes_need_not_fill_them() {
    let uneven = ["--model", "mpt-125m", "--on", "azure-nda100v4:2", "--dp", "12", "--global-batch", "12"];
    let across = ["--model", "mpt-125m", "--on", "azure-nda100v4:2", "--tp", "6", "--dp", "2", "--global-batch", "4"];
    let times = [&uneven[..], &across[..]].map(|words| step(words)["step_s"].as_f64().unwrap());
    assert!(times.iter().all(|time| *time > 0.0), "{times:?}");
}

/// The best first, none of them beyond the memory.
#[test]
fn layouts_are_ranked() {
    let found = step(&["--model", "llama3-8b", "--on", "azure-ndh100v5:2", "--global-batch", "4", "--search"]);
    let layouts = found["layouts"].as_array().unwrap();
    let times: Vec<f64> = layouts.iter().map(|row| row["step_ms"].as_f64().unwrap()).collect();
    assert!(times.len() > 4 && times.is_sorted(), "{times:?}");
    assert!(layouts.iter().all(|row| row["memory_gb"].as_f64().unwrap() <= 80.0), "{layouts:?}");
}

#[test]
fn what_cannot_be_is_told_with_a_remedy() {
    let cases: [(&[&str], [&str; 2]); 5] = [
        (&["azure-ndh100v5:2", "--tp", "8", "--dp", "4"], ["32 GPUs for the job, and `azure-ndh100v5` has 16", "CLUSTER:NODES"]),
        (&["azure-ndh100v5:2", "--tp", "3"], ["3 tensor-parallel GPUs do not divide 64 heads", "1, 2, 4, 8"]),
        (&["azure-ndh100v5:2", "--tp", "8", "--dp", "2"], ["on the fullest GPU, which has 80.0 GB: parameters", "--sharding"]),
        (&["ri2:2"], ["have no GPUs", "fabriscope clusters"]),
        (&["lumi-g:2"], ["it is not known what", "[compute]"]),
    ];
    for (more, expected) in cases {
        let text = told(&[&["--model", "llama3-70b", "--on"], more].concat());
        assert!(expected.iter().all(|part| text.contains(part)), "{more:?}: {text}");
    }
    let text = told(&["--model", "llama", "--on", "azure-ndh100v5:2"]);
    assert!(text.contains("llama"), "{text}");
}
