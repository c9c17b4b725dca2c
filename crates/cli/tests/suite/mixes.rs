//! Unequal jobs on one fabric (`[workload.mix]`): each alone as the links say, all together, by placement, on both engines; what is refused.

use assert_cmd::Command;
use serde_json::Value;

/// Runs a mix of these jobs: its rows, or what a refusal says on one line.
fn run(cluster: &str, engine: &str, jobs: &str) -> Result<Vec<Value>, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lab.toml");
    let text = format!(
        "engine = \"{engine}\"\n{cluster}\n[workload.mix]\nplacements = [\"packed\", \"interleaved\", \"random\"]\njobs = [{jobs}]\n"
    );
    std::fs::write(&file, text).unwrap();
    let output = Command::cargo_bin("fabriscope").unwrap().arg("run").arg(&file).arg("--json").output().unwrap();
    if output.status.success() {
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        return Ok(found["jobs"].as_array().unwrap().clone());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(text.split_whitespace().filter(|word| !["│", "|"].contains(word)).collect::<Vec<_>>().join(" "))
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"))
}

/// Those of one placement.
fn of<'r>(rows: &'r [Value], placement: &str) -> Vec<&'r Value> {
    rows.iter().filter(|row| row["placement"] == placement).collect()
}

const FLAT: &str = "cluster = \"azure-ndh100v5:8\"";
/// Two leaves of two nodes each, and a cable up for each eight adapters.
const THIN: &str =
    "cluster.base = \"azure-ndh100v5\"\ncluster.nodes = 4\ncluster.topology.leaf_spine = { leaves = 2, down = 16, spines = 2 }";
const STEP: &str = "{ name = \"step\", kind.training = { model = \"mpt-125m\", dp = 16, global_batch = 16 } }";
const SUMS: &str = "{ name = \"sums\", kind.collective = { nodes = 2, operation = \"all_reduce\", size = \"64 MiB\" } }";

/// 64 MiB from each adapter of two nodes into the adapters of one, two to each: twice 64 MiB over 400 Gb/s, 2.68 ms, and headers. Reads go the
/// other way and take as long.
#[test]
fn storage_takes_what_the_links_take() {
    let ideal = 2.0 * 67_108_864.0 * 8.0 / 400e9 * 1e3;
    for read in ["false", "true"] {
        let store = format!("{{ name = \"store\", kind.storage = {{ nodes = 1, bytes = \"64 MiB\", read = {read} }} }}");
        let rows = run(FLAT, "flow", &format!("{SUMS}, {store}")).unwrap();
        let alone = number(of(&rows, "packed")[1], "alone_ms");
        assert!((1.0..1.06).contains(&(alone / ideal)), "{alone} for {ideal}");
    }
}

/// Side by side a pair of nodes stays below its leaf; in turn both jobs cross the thin cables up.
#[test]
fn placement_decides_where_cables_are_few() {
    let other = SUMS.replace("sums", "others");
    let rows = run(THIN, "flow", &format!("{SUMS}, {other}")).unwrap();
    let slower = |placement: &str| of(&rows, placement).iter().map(|row| number(row, "slower_percent")).fold(0.0, f64::max);
    assert!(slower("packed").abs() < 0.5 && slower("interleaved") > 20.0, "{} {}", slower("packed"), slower("interleaved"));
    let alone = |placement: &str| number(of(&rows, placement)[0], "alone_ms");
    assert!(alone("interleaved") > 1.5 * alone("packed"), "{} {}", alone("interleaved"), alone("packed"));
}

/// All kinds on both engines: times of the same jobs alone lie near each other, and the same seed gives the same.
#[test]
fn engines_agree_on_each_kind() {
    let kinds = [
        STEP,
        SUMS,
        "{ name = \"store\", kind.storage = { nodes = 1, bytes = \"16 MiB\" } }",
        "{ name = \"served\", kind.inference = { model = \"llama3-8b\", tp = 8, reading = 1, generating = 1, requests = 4, rate = 100.0, input = 512 } }",
        "{ name = \"experts\", kind.experts = { model = \"mixtral-8x7b\", nodes = 2, tokens = 16, context = 512, fp8 = true } }",
    ];
    let cluster = FLAT.replace(":8", ":9");
    let [flow, packet] = ["flow", "packet"].map(|engine| run(&cluster, engine, &kinds.join(", ")).unwrap());
    assert_eq!(flow, run(&cluster, "flow", &kinds.join(", ")).unwrap());
    for (flow, packet) in of(&flow, "packed").into_iter().zip(of(&packet, "packed")) {
        let off = number(flow, "alone_ms") / number(packet, "alone_ms") - 1.0;
        assert!(off.abs() < 0.15, "{off}: {flow} {packet}");
        assert!(number(flow, "slower_percent") > -1.0, "{flow}");
    }
    assert_eq!(of(&flow, "packed").len(), 5);
}

/// A step alone in a mix is the step of `train --engine`.
#[test]
fn a_step_alone_is_the_step() {
    let rows = run(FLAT, "flow", &format!("{STEP}, {SUMS}")).unwrap();
    let words = "train --model mpt-125m --on azure-ndh100v5:8 --dp 16 --global-batch 16 --engine flow --json";
    let output = Command::cargo_bin("fabriscope").unwrap().args(words.split(' ')).output().unwrap();
    let step: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (alone, expected) = (number(of(&rows, "packed")[0], "alone_ms"), 1e3 * number(&step, "step_by_messages_s"));
    assert!((alone / expected - 1.0).abs() < 1e-6, "{alone} {expected}");
}

#[test]
fn what_cannot_be_is_told() {
    for (jobs, expected) in [
        (format!("{STEP}, {STEP}"), "there are two jobs `step`"),
        (STEP.replace("dp = 16", "dp = 128"), "nodes for the jobs"),
        (STEP.replace("mpt-125m", "llama3-405b"), "on the fullest GPU"),
        (STEP.replace("mpt-125m", "resnet-50"), "it has a time line alone"),
        ("{ name = \"a\", kind.storage = { nodes = 1, bytes = \"1 MiB\" } }".to_owned(), "nobody writes to `a`"),
        (format!("{STEP}, {{ name = \"a\", kind.storage = {{ nodes = 1, bytes = \"1 MiB\", clients = [\"b\"] }} }}"), "no such job"),
        (SUMS.replace("nodes = 2", "nodes = 1"), "between 1 nodes"),
        ("{ name = \"a\", kind.experts = { model = \"llama3-8b\", nodes = 2, tokens = 4, context = 8 } }".to_owned(), "has no experts"),
    ] {
        let message = run(FLAT, "flow", &jobs).unwrap_err();
        assert!(message.contains(expected), "{jobs}\n{message}");
    }
    assert!(run("cluster = \"ri2:8\"", "flow", SUMS).unwrap_err().contains("have no GPUs"));
    assert!(run(FLAT, "time_line", SUMS).unwrap_err().contains("time_line engine does not model"));
}
