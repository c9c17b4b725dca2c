//! `fabriscope train` of convolutional nets, of models that recommend, on Gaudi2 and where weights stream: what follows from what, published
//! figures, what is refused.

use assert_cmd::Command;
use serde_json::Value;

fn step(line: &str) -> Value {
    let output = Command::cargo_bin("fabriscope").unwrap().arg("train").args(line.split(' ')).arg("--json").output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(found: &Value, key: &str) -> f64 {
    found[key].as_f64().unwrap_or_else(|| panic!("{key}: {found}"))
}

/// What a refusal says, on one line.
fn told(line: &str) -> String {
    let output = Command::cargo_bin("fabriscope").unwrap().arg("train").args(line.split(' ')).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{line}: {}", String::from_utf8_lossy(&output.stdout));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
}

/// The broadcasts of the MPI library carry the parameters: multicast saves most where little is computed for each byte.
#[test]
fn multicast_saves_most_where_there_are_many_parameters() {
    let saved = |model: &str| {
        let found = step(&format!("--model {model} --on ri2-gpu:8 --dp 8 --global-batch 256 --exchange broadcast"));
        let schemes = found["schemes"].as_array().unwrap();
        assert_eq!(schemes.len(), 3, "{found}");
        let parts = found["parts"].as_array().unwrap();
        let (last, others) = parts.split_last().unwrap();
        let sum: f64 = others.iter().map(|part| number(part, "ms")).sum();
        assert!((sum - number(last, "ms")).abs() < 1e-6 * sum, "{parts:?}");
        assert!((number(&schemes[0], "step_ms") - sum).abs() < 0.1, "{schemes:?}");
        schemes[1..].iter().map(|scheme| number(scheme, "saved_percent")).fold(f64::INFINITY, f64::min)
    };
    let (alexnet, resnet) = (saved("alexnet"), saved("resnet-50"));
    assert!(alexnet > resnet && resnet > 0.0, "{alexnet} {resnet}");
}

/// Buckets hide most of the gradients.
#[test]
fn an_all_reduce_hides_behind_the_backward_pass() {
    let line = "--model resnet-50 --on azure-nda100v4:2 --dp 16 --global-batch 1024";
    let (beside, behind) = (step(line), step(&format!("{line} --overlap none")));
    assert!(number(&beside, "exposed_percent") < number(&behind, "exposed_percent"), "{beside} {behind}");
    assert!(number(&behind, "no_network_percent") < number(&behind, "network_doubled_percent"), "{behind}");
}

/// Samples cross the network twice; within a node none do.
#[test]
fn embeddings_cross_the_network() {
    let one = step("--model dlrm-mlperf --on azure-nda100v4:1 --dp 8 --global-batch 65536 --mixed");
    let four = step("--model dlrm-mlperf --on azure-nda100v4:4 --dp 32 --global-batch 65536 --mixed");
    assert!(number(&one, "no_network_percent") == 0.0 && number(&four, "no_network_percent") < -5.0, "{one} {four}");
    assert!(number(&four, "samples_per_s") > number(&one, "samples_per_s"), "{one} {four}");
}

/// Tokens per second on 64 Gaudi2 (Intel, model performance data for Gaudi 2, software 1.18: 8 bits, batches of the table; layouts are not
/// published). The GPU's one fitted number comes from MPT-7B on eight.
#[test]
fn gaudi2_is_near_its_published_figures() {
    for (line, published) in [
        ("--model llama2-70b --on gaudi2-1024:8 --tp 8 --pp 2 --dp 4 --global-batch 1024 --fp8", 54_274.0),
        ("--model llama3-70b --on gaudi2-1024:8 --tp 8 --pp 2 --dp 4 --global-batch 128 --sequence 8192 --fp8", 43_677.0),
    ] {
        let found = step(&format!("{line} --sequence-parallel --sharding optimizer"));
        let batch = if published > 50_000.0 { 1024.0 * 4096.0 } else { 128.0 * 8192.0 };
        let rate = batch / number(&found, "step_s");
        assert!((rate / published - 1.0).abs() < 0.10, "{line}: {rate:.0} for {published}");
    }
    let mpt = step("--model mpt-7b --on gaudi2-1024:1 --dp 8 --global-batch 256 --micro-batch 4 --sharding optimizer");
    assert!((number(&mpt, "tflops_per_gpu") / 260.0 - 1.0).abs() < 0.01, "the row that was fitted: {mpt}");
}

/// Each system has the weights at the rate of its own links, so sixteen do sixteen times as much.
#[test]
fn weights_that_stream_scale_with_systems() {
    let of = |systems: u32, micro: u32| {
        let batch = 32 * systems;
        step(&format!(
            "--model gpt3-xl --on cs-2-16 --dp {systems} --global-batch {batch} --micro-batch {micro} --strategy weight-streaming"
        ))
    };
    let (one, sixteen) = (of(1, 8), of(16, 8));
    let speed_up = number(&sixteen, "tokens_per_s") / number(&one, "tokens_per_s");
    assert!((15.9..16.001).contains(&speed_up), "{speed_up}");
    assert!((number(&sixteen, "speed_up") - speed_up).abs() < 0.01);
    assert!(number(&of(16, 1), "exposed_percent") > number(&sixteen, "exposed_percent") + 1.0);
}

#[test]
fn what_cannot_be_is_told_with_a_remedy() {
    for (line, expected) in [
        ("--model resnet-50 --on ri2-gpu:2 --tp 2 --global-batch 8", ["share nothing but gradients", "--dp alone"]),
        ("--model resnet-50 --on ri2-gpu:2 --dp 2 --global-batch 33", ["33 in a step do not divide among 2", "multiple of --dp"]),
        ("--model resnet-50 --on gaudi2-1024:1 --dp 8 --global-batch 64", ["multiplies in 32 bits", "--mixed"]),
        ("--model dlrm-mlperf --on azure-nda100v4:1 --dp 1 --global-batch 64", ["of tables on the fullest GPU", "--oversize"]),
        ("--model alexnet --on ri2-gpu:2 --dp 4 --global-batch 64", ["4 GPUs for the job, and `ri2-gpu` has 2", "CLUSTER:NODES"]),
        ("--model llama3-8b --on azure-ndh100v5:1 --exchange broadcast", ["with a transformer", "alexnet"]),
        ("--model alexnet --on ri2-gpu:2 --dp 2 --strategy weight-streaming --global-batch 64", ["no transformer", "gpt3-xl"]),
        ("--model gpt3-xl --on cs-2-16 --micro-batch 16 --strategy weight-streaming", ["of activations on a system", "--micro-batch"]),
    ] {
        let text = told(line);
        assert!(expected.iter().all(|part| text.contains(part)), "{line}: {text}");
    }
}
