//! `fabriscope infer`: what adds up, pools and rails, traces, what is refused.

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

fn asked(words: &[&str]) -> Value {
    let output = Command::cargo_bin("fabriscope").unwrap().arg("infer").args(words).arg("--json").output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a refusal says, on one line.
fn told(words: &[&str]) -> String {
    let output = Command::cargo_bin("fabriscope").unwrap().arg("infer").args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
}

fn file(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../inference/tests/files").join(name).display().to_string()
}

/// The figure of a measure.
fn measure(outcome: &Value, name: &str, key: &str) -> f64 {
    let rows = outcome["measures"].as_array().unwrap();
    rows.iter().find(|row| row["measure"].as_str().unwrap().contains(name)).unwrap()[key].as_f64().unwrap()
}

const NODE: [&str; 8] = ["--model", "llama3-8b", "--on", "azure-ndh100v5:1", "--tp", "2", "--requests", "60"];

/// The parts of iterations are what they are the parts of, and the rows of loads are in order: more load, longer waits, more tokens.
#[test]
fn parts_and_loads() {
    let outcome = asked(&[&NODE[..], &["--rate", "1,20,inf"]].concat());
    let parts = outcome["iterations"].as_array().unwrap();
    let (last, others) = parts.split_last().unwrap();
    for key in ["prompt_ms", "generating_ms", "all_s"] {
        let sum: f64 = others.iter().map(|row| row[key].as_f64().unwrap()).sum();
        assert!((sum / last[key].as_f64().unwrap() - 1.0).abs() < 1e-9, "{key}: {sum}");
    }
    let loads = outcome["loads"].as_array().unwrap();
    for key in ["ttft_ms", "tpot_ms", "output_tokens_per_s", "batch"] {
        let row: Vec<f64> = loads.iter().map(|row| row[key].as_f64().unwrap()).collect();
        assert!(row.windows(2).all(|pair| pair[0] < pair[1]), "{key}: {row:?}");
    }
    // Nothing goes between nodes.
    assert_eq!(outcome["no_network_ttft_percent"].as_f64(), Some(0.0));
    assert_eq!(outcome["cache_bytes_of_token"], 131_072);
}

/// Pools send keys and values: on crossed rails of a cluster whose rails are apart they take longer, without a network no time. What is sent
/// layer by layer is there sooner than what is sent at the end.
#[test]
fn pools_and_rails() {
    let words =
        ["--model", "llama3-8b", "--on", "dgx-h100-ndr:2", "--tp", "8", "--requests", "30", "--rate", "3", "--input-tokens", "4000"];
    let pools = ["--prefill-nodes", "1", "--decode-nodes", "1"];
    let first = |more: &[&str]| measure(&asked(&[&words[..], &pools, more].concat()), "TTFT", "p50_ms");
    let (layers, end) = (first(&[]), first(&["--transfer", "end"]));
    assert!(layers < end, "{layers} ms, {end} ms");
    let outcome = asked(&[&words[..], &pools].concat());
    assert!(outcome["no_network_ttft_percent"].as_f64().unwrap() < 0.0);
    // 4,000 tokens of 128 KiB over eight adapters of 400 Gb/s: 1.3 ms where nobody else sends.
    let alone = 4000.0 * 131_072.0 / 8.0 / 50e9 * 1e3;
    let found = outcome["transfer_ms"].as_f64().unwrap();
    assert!((1.0..1.3).contains(&(found / alone)), "{found} ms for {alone} ms");
}

/// Traces of all formats are read; requests without an answer are left out.
#[test]
fn traces() {
    for (name, requests) in [("azure.csv", 60), ("mooncake.jsonl", 12), ("burstgpt.csv", 11)] {
        let outcome = asked(&["--model", "llama3-8b", "--on", "azure-ndh100v5:1", "--trace", &file(name)]);
        let rate = outcome["loads"][0]["requests_per_s"].as_f64().unwrap();
        assert!((0.5..4.0).contains(&rate), "{name}: {rate}");
        assert_eq!(outcome["requests"], requests, "{name}");
    }
    let faster = asked(&["--model", "llama3-8b", "--on", "azure-ndh100v5:1", "--trace", &file("azure.csv"), "--speed", "1,10"]);
    assert!(faster["loads"][1]["batch"].as_f64() > faster["loads"][0]["batch"].as_f64());
}

#[test]
fn what_cannot_be_is_refused() {
    let words = ["--model", "llama3-70b", "--on", "azure-ndh100v5:1"];
    let more = |more: &[&str]| told(&[&words[..], more].concat());
    let text = more(&[]);
    assert!(text.contains("141") && text.contains("--fp8"), "{text}");
    let text = more(&["--tp", "3"]);
    assert!(text.contains("3 tensor-parallel GPUs do not divide 64 heads") && text.contains("1, 2, 4, 8"), "{text}");
    let text = more(&["--tp", "8", "--dp", "2"]);
    assert!(text.contains("16 GPUs for the server, and `azure-ndh100v5` has 8") && text.contains("CLUSTER:NODES"), "{text}");
    let text = more(&["--tp", "8", "--ep", "8"]);
    assert!(text.contains("the model has none") && text.contains("mixtral-8x7b"), "{text}");
    let text = more(&["--tp", "8", "--input-tokens", "90000000"]);
    assert!(text.contains("request 1 of 90000000 tokens"), "{text}");
    let text = told(&["--model", "llama3-8b", "--on", "ri2"]);
    assert!(text.contains("no GPUs"), "{text}");
    let text = more(&["--tp", "8", "--trace", "Cargo.toml"]);
    assert!(text.contains("begins no trace of requests") && text.contains("ContextTokens"), "{text}");
}
