//! Steps of training as labs: the same as `fabriscope train` says, every option a key, recipes beside what was published, what is refused.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn asked(words: &[&str]) -> Value {
    let output = Command::cargo_bin("fabriscope").unwrap().current_dir(root()).args(words).arg("--json").output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A lab of these lines.
fn lab(cluster: &str, engine: &str, keys: &str) -> String {
    format!("cluster = \"{cluster}\"\nengine = \"{engine}\"\n[workload.training]\n{keys}\n")
}

/// Runs the text of a lab: what came out, or what a refusal says on one line.
fn run(text: &str) -> Result<Value, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lab.toml");
    std::fs::write(&file, text).unwrap();
    let output = Command::cargo_bin("fabriscope").unwrap().arg("run").arg(&file).arg("--json").output().unwrap();
    if output.status.success() {
        return Ok(serde_json::from_slice(&output.stdout).unwrap());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(text.split_whitespace().filter(|word| !["│", "|"].contains(word)).collect::<Vec<_>>().join(" "))
}

fn number(found: &Value, key: &str) -> f64 {
    found[key].as_f64().unwrap_or_else(|| panic!("{key}: {found}"))
}

/// A lab and the options of the same step.
#[test]
fn a_lab_says_what_train_says() {
    for (cluster, keys, words) in [
        (
            "azure-ndh100v5:4",
            "model = \"llama3-8b\"\ntp = 4\npp = 2\ndp = 4\nsequence_parallel = true\nsharding = \"optimizer\"\nrecompute = \"full\"\n\
             global_batch = 16\noverlap = [\"gradients\", \"pipeline\"]\nfp8 = true",
            "--model llama3-8b --tp 4 --pp 2 --dp 4 --sequence-parallel --sharding optimizer --recompute full --global-batch 16 --overlap \
             gradients,pipeline --fp8",
        ),
        (
            "azure-nda100v4:2",
            "model = \"mpt-1b\"\ndp = 16\nsharding = \"parameters\"\nshard = 8",
            "--model mpt-1b --dp 16 --sharding parameters --shard 8",
        ),
        (
            "azure-nda100v4:2",
            "model = \"resnet-50\"\ndp = 16\nglobal_batch = 1024\nmixed = true",
            "--model resnet-50 --dp 16 --global-batch 1024 --mixed",
        ),
        ("gaudi2-1024:8", "model = \"llama2-70b\"\ntp = 8\npp = 8", "--model llama2-70b --tp 8 --pp 8"),
        ("cs-2-16", "model = \"gpt3-xl\"\nstrategy = \"weight_streaming\"", "--model gpt3-xl --strategy weight-streaming"),
    ] {
        let of_lab = run(&lab(cluster, "time_line", keys)).unwrap();
        let words: Vec<&str> = ["train", "--on", cluster].into_iter().chain(words.split(' ')).collect();
        let of_train = asked(&words);
        assert_eq!(number(&of_lab, "step_s"), number(&of_train, "step_s"), "{keys}");
        assert_eq!(of_lab["parts"], of_train["parts"], "{keys}");
    }
}

/// Message by message: the usual results, and the step in the parts that `train --engine` has.
#[test]
fn a_lab_runs_the_step_message_by_message() {
    let keys = "model = \"mpt-1b\"\ntp = 8\ndp = 2\nglobal_batch = 4";
    let flow = run(&lab("azure-ndh100v5:2", "flow", keys)).unwrap();
    let words = "train --model mpt-1b --on azure-ndh100v5:2 --tp 8 --dp 2 --global-batch 4 --engine flow";
    let same = asked(&words.split(' ').collect::<Vec<_>>());
    assert_eq!(number(&flow, "step_by_messages_s"), number(&same, "step_by_messages_s"));
    assert_eq!(flow["by_messages"], same["by_messages"]);
    let packet = run(&lab("azure-ndh100v5:2", "packet", keys)).unwrap();
    let off = number(&packet, "step_by_messages_s") / number(&flow, "step_by_messages_s") - 1.0;
    assert!(off.abs() < 0.04 && packet["counts"]["packets"].as_u64().unwrap() > 100_000, "{off}");
    // What breaks makes the step longer.
    let broken = format!("fault = [{{ at = \"0 us\", kind.loss = {{ share = 1e-4 }} }}]\n{}", lab("azure-ndh100v5:2", "packet", keys));
    assert!(number(&run(&broken).unwrap(), "step_by_messages_s") > number(&packet, "step_by_messages_s"));
}

/// Options of `train` that are no keys of a lab: what is asked besides the step, and the key of the lab that says it.
const OTHERS: [&str; 26] = [
    "catalog",
    "checkpoint-every",
    "color",
    "csv",
    "engine",
    "estimates",
    "format",
    "help",
    "jitter",
    "jobs",
    "json",
    "node-rate",
    "on",
    "output",
    "placement",
    "quiet",
    "search",
    "seed",
    "steps",
    "storage",
    "storage-rate",
    "straggler",
    "trace",
    "tuner",
    "version",
    "write-trace",
];

#[test]
fn every_option_of_a_job_is_a_key() {
    let help = Command::cargo_bin("fabriscope").unwrap().args(["train", "--help"]).output().unwrap();
    let text = String::from_utf8(help.stdout).unwrap();
    let listed = text
        .lines()
        .filter_map(|line| line.split_whitespace().find_map(|word| word.strip_prefix("--")).filter(|_| line.trim_start().starts_with('-')));
    let options: BTreeSet<String> =
        listed.map(|word| word.trim_end_matches(',').to_owned()).filter(|word| !OTHERS.contains(&word.as_str())).collect();
    let schema = Command::cargo_bin("fabriscope").unwrap().args(["schema", "lab"]).output().unwrap();
    let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
    let keys: BTreeSet<String> = schema["$defs"]["Training"]["properties"].as_object().unwrap().keys().cloned().collect();
    let missing: Vec<&String> = options.iter().filter(|option| !keys.contains(&option.replace('-', "_"))).collect();
    assert!(missing.is_empty() && options.len() > 25, "{missing:?} of {options:?}");
}

/// Recipes with what they give and what was published; nothing published has no row. Long ones are in the long test.
const RECIPES: [(&str, &str, f64, f64); 12] = [
    ("megatron-selene", "tflops_per_gpu", 137.0, 0.01),
    ("gpt3-175b-512", "tflops_per_gpu", 432.8, 0.10),
    ("gpt3-175b-1024", "tflops_per_gpu", 432.8, 0.20),
    ("llama3-405b", "tokens_per_s", 326.0 * 1024.0, 0.10),
    ("mpt-7b-fsdp", "tokens_per_s", 463_749.0, 0.15),
    ("gaudi2-llama2-70b-256", "tokens_per_s", 122_054.0, 0.01),
    ("gaudi2-llama2-70b-512", "tokens_per_s", 2.0 * 122_054.0, 0.01),
    ("gaudi2-llama2-70b-1024", "tokens_per_s", 4.0 * 122_054.0, 0.01),
    ("cs-2-gpt3-xl", "speed_up", 16.0, 0.01),
    ("ca-cntk-alexnet-all-reduce", "images_per_s", 1570.0, 0.01),
    ("ca-cntk-vgg-16-all-reduce", "images_per_s", 481.0, 0.01),
    ("ca-cntk-resnet-50-all-reduce", "images_per_s", 769.0, 0.01),
];

/// Those that take longer: broadcasts packet by packet, and 4,032 fluids of each of 64 groups.
const LONG: [(&str, &str, f64, f64); 4] = [
    ("ca-cntk-alexnet", "images_per_s", 2329.0, 0.01),
    ("ca-cntk-vgg-16", "images_per_s", 415.0, 0.01),
    ("ca-cntk-resnet-50", "images_per_s", 682.0, 0.01),
    ("deepseek-v3-ep64", "tokens_per_s", 4912.0 * 256.0, 0.15),
];

fn recipes(rows: &[(&str, &str, f64, f64)]) {
    for (name, key, expected, within) in rows {
        let found = number(&asked(&["run", &format!("labs/training/{name}.toml")]), key);
        assert!((found / expected - 1.0).abs() <= *within, "{name}: {key} {found:.1}, for {expected}");
    }
}

#[test]
fn recipes_run() {
    recipes(&RECIPES);
}

#[test]
#[ignore = "long: broadcasts packet by packet"]
fn long_recipes_run() {
    recipes(&LONG);
}

/// A sweep over recipes: so many points, none refused.
fn sweep(study: &str, points: u64) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data.parquet");
    let found = asked(&["sweep", &format!("labs/studies/{study}.toml"), "--data", data.to_str().unwrap()]);
    assert!(found["done"] == points && found["refused"] == 0, "{found}");
}

#[test]
fn wafers_are_swept() {
    sweep("cs-2", 5);
}

#[test]
#[ignore = "long: ten jobs of up to 3,072 GPUs"]
fn selene_is_swept() {
    sweep("megatron-selene", 10);
}

#[test]
fn every_recipe_is_listed_and_tried() {
    let files = std::fs::read_dir(root().join("labs/training")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<String> = files.filter_map(|file| file.strip_suffix(".toml").map(str::to_owned)).collect();
    let tried: BTreeSet<String> = RECIPES.iter().chain(&LONG).map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(names, tried);
    let list = std::fs::read_to_string(root().join("labs/README.md")).unwrap();
    let missing: Vec<&String> = names.iter().filter(|name| !list.contains(&format!("[{name}](training/{name}.toml)"))).collect();
    assert!(missing.is_empty(), "labs/README.md does not list {missing:?}");
}

/// Members of a partition of their own beside a default one whose members may not talk to each other.
#[test]
fn a_step_runs_in_a_partition() {
    let keys = "model = \"mpt-125m\"\npp = 2\nglobal_batch = 1";
    let plain = run(&lab("ri2-gpu:2", "packet", keys)).unwrap();
    let partitioned = "partition = \"a\"\npartitions.default = { limited = \"all\" }\npartitions.a = { pkey = 3, full = \"all\" }";
    let found = run(&format!("{partitioned}\n{}", lab("ri2-gpu:2", "packet", keys))).unwrap();
    let ratio = number(&found, "step_by_messages_s") / number(&plain, "step_by_messages_s");
    assert!((ratio - 1.0).abs() < 1e-6, "{ratio}");
}

#[test]
fn what_cannot_be_is_told_with_the_key() {
    let gpus = "azure-ndh100v5:2";
    for (text, expected) in [
        (lab("ri2-gpu:2", "packet", "model = \"alexnet\"\ndp = 2\nglobal_batch = 32"), ["has a time line alone", "engine = \"time_line\""]),
        (
            lab(gpus, "flow", "model = \"mpt-1b\"\ndp = 16\nsharding = \"parameters\"\nshard = 8"),
            ["shares of some ranks only", "time_line"],
        ),
        (lab(gpus, "time_line", "model = \"mpt-1b\"\nfp9 = true"), ["fp9", "fp8"]),
        (lab(gpus, "flow", "model = \"llama3-8b\"\ntp = 3"), ["3 tensor-parallel GPUs do not divide", "1, 2, 4"]),
        (lab(gpus, "flow", "model = \"llama3-70b\"\ntp = 8"), ["on the fullest GPU", "oversize"]),
        (lab(gpus, "flow", "model = \"llama3-8b\"\ntp = 8\ndp = 4"), ["32 GPUs for the job", "CLUSTER:NODES"]),
        (lab(gpus, "flow", "model = \"lama3-8b\""), ["lama3-8b", "llama3-8b"]),
        (
            format!("rate_limit = \"10 Gb/s\"\n{}", lab(gpus, "time_line", "model = \"mpt-1b\"")),
            ["`rate_limit` of a time line", "the packet or the flow engine"],
        ),
        (
            lab(gpus, "time_line", "model = \"mpt-1b\"").replace("training]\nmodel = \"mpt-1b\"", "shift]\nby = 1\nsize = \"1 MiB\""),
            ["time_line engine does not model", "[workload.training]"],
        ),
    ] {
        let message = run(&text).unwrap_err();
        assert!(expected.iter().all(|part| message.contains(part)), "{text}\n{message}");
    }
}
