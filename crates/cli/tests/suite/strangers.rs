//! Tables of people who never read the documents: names as they write them, bad rows among good ones, settings beside the rows.

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

const HEAD: &str = "table,cluster,benchmark,variant,nodes,ranks,message_bytes,metric,unit,value\n";

fn folder(rows: &str, settings: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ours.csv"), format!("{HEAD}{rows}")).unwrap();
    std::fs::write(folder.path().join("settings.toml"), settings).unwrap();
    folder
}

fn validate(folder: &TempDir, options: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::cargo_bin("fabriscope").unwrap();
    let output = command.current_dir(folder.path()).args(["validate", "--measured", "ours.csv"]).args(options).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn json(folder: &TempDir, options: &[&str]) -> Vec<Value> {
    let (status, text, message) = validate(folder, &[options, &["--json"]].concat());
    assert_eq!(status, Some(0), "{message}");
    serde_json::from_str::<Vec<Value>>(&text).unwrap()
}

#[test]
fn one_bad_row_does_not_end_a_table() {
    let rows = "ours,ri2,OSU MPI Latency Test,,2,2,8,latency median,usec,1.3\n\
        ours,ri2,osu_latency,,2,2,eight,latency,us,1.3\n\
        ours,ri2,osu_latency,\"MVAPICH2 2.3.7, UCX_TLS=rc\",2,2,8,latency,us,1.3\n\
        ours,ri2,osu_latncy,,2,2,8,latency,us,1.3\n\
        ours,ri3,osu_latency,,2,2,8,latency,us,1.3\n\
        ours,ri2,write_lat,,2,2,8,latency,us,1.0\n";
    let found = json(&folder(rows, ""), &[]);
    let points: Vec<u64> =
        found.iter().flat_map(|row| row["compared"].as_array().unwrap()).map(|point| point["line"].as_u64().unwrap()).collect();
    assert_eq!(points, [2, 7]);
    let reasons: Vec<&Value> = found.iter().flat_map(|row| row["not_compared"].as_array().unwrap()).collect();
    let reason = |line: u64| {
        let found = reasons.iter().find(|reason| reason["lines"].as_array().unwrap().contains(&line.into()));
        found.unwrap_or_else(|| panic!("line {line}: {reasons:?}"))["reason"].as_str().unwrap()
    };
    assert!(reason(3).contains("`eight` is not a size in bytes"), "{}", reason(3));
    assert!(reason(4).contains("UCX_TLS=rc"), "{}", reason(4));
    assert!(reason(5).contains("the nearest is `osu_latency`"), "{}", reason(5));
    assert!(reason(6).contains("`ri2`"), "{}", reason(6));
}

#[test]
fn settings_say_what_rows_leave_open() {
    let rows = "far,oci-optimized3,osu_latency,,2,2,8,latency,us,3\nnear,oci-optimized3,osu_latency,,2,2,8,latency,us,3\n\
        coll,ri2,osu_allreduce,,,,8,latency,us,3\n";
    let settings = "[\"*\"]\nplacement = \"same_switch\"\n[far]\nplacement = \"farthest\"\n[coll]\nnodes = 2\nranks_per_node = 1\n\
        algorithm = \"ring\"\n";
    let folder = folder(rows, settings);
    let found = json(&folder, &["--settings", "settings.toml"]);
    let of = |table: &str| found.iter().find(|row| row["table"] == table).unwrap();
    let predicted = |table: &str| of(table)["compared"][0]["predicted"].as_f64().unwrap();
    // Two more switches and the cables between them: more than a microsecond.
    assert!(predicted("far") > predicted("near") + 1.0, "{} and {}", predicted("far"), predicted("near"));
    assert!(predicted("coll") > 0.0 && of("coll")["set"].as_str().unwrap().contains("algorithm = ring"));
    // Without them the shape of the collective job is missing.
    let without = json(&folder, &[]);
    let coll = without.iter().find(|row| row["table"] == "coll").unwrap();
    assert!(coll["not_compared"][0]["reason"].as_str().unwrap().contains("needs the nodes and the ranks"), "{coll}");
}

#[test]
fn wrong_settings_are_refused_with_their_line() {
    let rows = "ours,ri2,osu_latency,,2,2,8,latency,us,1.3\n";
    let told = |settings: &str| {
        let (status, _, message) = validate(&folder(rows, settings), &["--settings", "settings.toml"]);
        assert_eq!(status, Some(2), "{message}");
        message
    };
    let message = told("[ours]\nplacment = \"farthest\"\n");
    assert!(message.contains("settings.toml") && message.contains("line 2") && message.contains("placement"), "{message}");
    assert!(told("[theirs]\nplacement = \"farthest\"\n").contains("theirs"));
    // A setting that a benchmark has no use for refuses its rows and nothing else.
    let folder = folder(rows, "[ours]\nalgorithm = \"ring\"\n");
    let (status, text, _) = validate(&folder, &["--settings", "settings.toml"]);
    assert!(status == Some(0) && text.contains("osu_latency has no choice of algorithms"), "{text}");
}

#[test]
fn a_machine_may_be_left_out() {
    let mut command = Command::cargo_bin("fabriscope").unwrap();
    let output = command.args(["validate", "--leave-out", "betzy-hdr", "--json"]).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let machine = &found["machines"][0];
    assert_eq!((machine["machine"].as_str(), machine["replaced"].as_u64()), (Some("betzy-hdr"), Some(2)));
    let number = &found["numbers"][0];
    assert_eq!(
        (number["part"].as_str(), number["field"].as_str(), number["from"].as_str()),
        (Some("epyc-7742"), Some("dma_touch"), Some("as xeon-e5-2680v4"))
    );
    // A latency that another processor has instead moves the latencies.
    assert_ne!(machine["median"], machine["median_without"]);
    let output = Command::cargo_bin("fabriscope").unwrap().args(["validate", "--leave-out", "nowhere"]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && message.contains("alaska-roce25") && message.contains("each"), "{message}");
}

#[test]
fn numbers_that_came_from_tables_are_listed_and_counted() {
    let printed = |args: &[&str]| String::from_utf8(Command::cargo_bin("fabriscope").unwrap().args(args).output().unwrap().stdout).unwrap();
    let listed = printed(&["parts", "--from-tables", "--json"]);
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let summary: Value = serde_json::from_str(&printed(&["validate", "ri2-ib_write_lat", "--summary", "--json"])).unwrap();
    let counted: u64 = summary["numbers"].as_array().unwrap().iter().map(|row| row["numbers"].as_u64().unwrap()).sum();
    assert_eq!(listed.len() as u64, counted);
    // Not only those that are called fitted, and each once though other parts take it over.
    assert!(listed.iter().any(|row| row["basis"] == "estimated") && listed.iter().any(|row| row["basis"] == "measured"));
    assert_eq!(listed.iter().filter(|row| row["field"] == "wqe_interval").count(), 1);
    // A table to which numbers were fitted is not among those that predict.
    let kinds: Vec<&str> = summary["hits"].as_array().unwrap().iter().map(|row| row["of"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["all", "all"]);
}
