//! `explain` on nodes with GPUs: the ways inside, what binds, stages with copies, changes.

use assert_cmd::Command;
use serde_json::Value;

fn told(words: &str) -> Value {
    let mut args: Vec<&str> = words.split_whitespace().collect();
    let place = args.iter().position(|word| *word == "--").unwrap_or(args.len());
    args.insert(place, "--json");
    let output = Command::cargo_bin("fabriscope").unwrap().arg("explain").args(&args).output().unwrap();
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn stages(value: &Value) -> Vec<(&str, u64)> {
    let rows = value["stages"].as_array().unwrap().iter();
    rows.map(|row| (row["stage"].as_str().unwrap(), row["ps"].as_u64().unwrap())).collect()
}

/// The stages make up the whole; the time of the one that is called `name` in all.
fn of_stage(value: &Value, name: &str) -> u64 {
    let rows = stages(value);
    assert_eq!(Some(rows.iter().map(|(_, ps)| ps).sum()), value["total_ps"].as_u64(), "{value}");
    rows.iter().filter(|(stage, _)| *stage == name).map(|(_, ps)| ps).sum()
}

fn change(value: &Value, what: &str) -> u64 {
    let changes = value["changes"].as_array().unwrap();
    let found = changes.iter().find(|change| change["change"].as_str().unwrap().contains(what));
    found.unwrap_or_else(|| panic!("no change `{what}` in {changes:?}"))["ps"].as_u64().unwrap()
}

#[test]
fn short_messages_are_loaded_and_stored_by_cores() {
    let value = told("osu_latency --on opa100-a40 -s 8 -- D D");
    let sender = &value["inside"][0];
    assert!(sender["how"].as_str().unwrap().starts_with("GDRCopy: a core loads"), "{sender}");
    let way = &sender["ways"][0];
    assert_eq!(way["class"], "PHB");
    assert_eq!(way["vertices"], serde_json::json!(["gpu0-memory", "gpu0", "bridge0", "numa0", "numa0-memory"]));
    let latency: u64 = way["links"].as_array().unwrap().iter().map(|link| link["latency_ps"].as_u64().unwrap()).sum();
    assert_eq!(way["latency_ps"].as_u64(), Some(latency));
    assert!(of_stage(&value, "loads of a core from the GPU (GDRCopy)") > of_stage(&value, "stores of a core into the GPU (GDRCopy)"));
    let total = value["total_ps"].as_u64().unwrap();
    assert!(change(&value, "host memory") < total && change(&value, "GPUDirect and GDRCopy off") > 4 * total);
    assert!(change(&value, "not GPU-aware") > 4 * total);
}

#[test]
fn a_staged_message_has_its_copies_as_stages() {
    let value = told("osu_latency --on ibex-a100 -s 1048576 --gpudirect off -- D D");
    for end in [0, 1] {
        let how = value["inside"][end]["how"].as_str().unwrap();
        assert!(how.starts_with("staging") && how.contains("GPUDirect RDMA is off"), "{how}");
        assert_eq!(value["inside"][end]["ways"].as_array().unwrap().len(), 2);
    }
    // Two chunks leave one after the other, and one of them comes when the other has: bytes over the rate of the way, and more.
    let rate = value["inside"][0]["ways"][0]["bound_bps"].as_f64().unwrap();
    let out = of_stage(&value, "copy, gpu0 to host memory of numa3") as f64;
    assert!(out > 524_288.0 * 8e12 / rate && out < 1_048_576.0 * 8e12 / rate, "{out}");
    assert!(of_stage(&value, "copy, host memory of numa3 to gpu0") > 0);
    assert!(change(&value, "GPUDirect and GDRCopy on") < value["total_ps"].as_u64().unwrap());
}

#[test]
fn within_a_node_the_links_of_gpus_bind() {
    let value = told("osu_latency --on azure-ndh100v5 --nodes 1 -s 1048576 -- D D");
    let way = &value["inside"][0]["ways"][0];
    assert_eq!(way["class"], "NVL");
    assert!(way["bound"].as_str().unwrap().contains("NVLink 4"), "{way}");
    let copy = of_stage(&value, "copy, gpu0 to gpu1");
    let least = 1_048_576.0 * 8e12 / way["bound_bps"].as_f64().unwrap();
    assert!((copy as f64 - least - way["latency_ps"].as_f64().unwrap()).abs() < 0.001 * least, "{copy} {least}");
    assert!(value["changes"].as_array().unwrap().iter().all(|change| !change["change"].as_str().unwrap().contains("MTU")));
}

#[test]
fn perftest_names_nearer_and_farther_adapters() {
    let value = told("ib_write_bw --on azure-nda100v4 -s 1048576 -- --use_cuda=0");
    assert_eq!(value["inside"][0]["ways"][0]["class"], "PIX");
    assert!(of_stage(&value, "payload fetch, gpu0 through sw0 (GPUDirect)") > 0);
    let interval = value["interval_ps"].as_u64().unwrap();
    // The limit of reads between sockets, or of the way there, is lower.
    assert!(change(&value, "SYS of the GPU") > interval * 5 / 4 && change(&value, "SYS of the adapter") > interval * 5 / 4);
    assert!(change(&value, "buffers in host memory") <= interval);
}

#[test]
fn between_sockets_of_a_node_their_link_binds() {
    let explain = |words: &str| told(&format!("osu_latency --on alaska-roce25 --nodes 1 -s 1048576 {words}"));
    let (near, across) = (explain("--bind core"), explain("--bind socket"));
    assert!(near["inside"][1]["ways"].as_array().unwrap().is_empty());
    let way = &across["inside"][1]["ways"][0];
    assert!(way["bound"].as_str().unwrap().contains("QPI"), "{way}");
    let copy = "one copy, out of the sender's memory";
    assert!(of_stage(&across, copy) > of_stage(&near, copy));
    let (total, other) = (near["total_ps"].as_u64(), across["total_ps"].as_u64());
    assert_eq!((Some(change(&near, "two sockets")), Some(change(&across, "one socket"))), (other, total));
    assert!(Some(change(&near, "FIFO")) != total && change(&near, "KNEM") > 0);
}

#[test]
fn different_ends_are_followed_there_and_back() {
    let value = told("osu_latency --on gpu-aware-node -s 8 -- H D");
    assert!(of_stage(&value, "loads of a core from the GPU (GDRCopy)") > 0);
    let mut command = Command::cargo_bin("fabriscope").unwrap();
    let text = command.args(["explain", "osu_latency", "--on", "gpu-aware-node", "-s", "8", "--no-changes", "--", "H", "D"]).output();
    let text = String::from_utf8(text.unwrap().stdout).unwrap();
    assert!(text.contains("# there and back") && text.contains("receiver: GPUDirect RDMA: the adapter writes"), "{text}");
}

#[test]
fn copies_of_tools_take_what_their_ways_allow() {
    let value = told("nvbandwidth --on azure-nda100v4 -s 67108864");
    for copy in value["copies"].as_array().unwrap().iter().filter(|copy| copy["copy"] != "device_local_copy") {
        let way = &copy["way"];
        let least = 67_108_864.0 * 8e12 / way["bound_bps"].as_f64().unwrap() + way["latency_ps"].as_f64().unwrap();
        let total = copy["total_ps"].as_f64().unwrap();
        assert!((total / least - 1.0).abs() < 1e-4, "{copy}");
    }
    assert!(change(&value, "the host memory of numa3") > value["copies"][0]["total_ps"].as_u64().unwrap());
    let value = told("gdrcopy_copylat --on gdrcopy-v100 -s 4096");
    assert!(change(&value, "cuMemcpy") > 10 * value["copies"][0]["total_ps"].as_u64().unwrap());
    let value = told("babelstream --on azure-nda100v4 -s 67108864");
    assert_eq!(value["copies"][0]["way"]["class"], "LOC");
}

#[test]
fn nodes_without_gpus_have_nothing_to_tell() {
    assert!(told("osu_latency --on ri2 -s 8 --no-changes").get("inside").is_none());
    for (words, what) in [
        (&["explain", "nvbandwidth", "--on", "ri2"][..], "nvbandwidth needs GPUs"),
        (&["explain", "ib_write_lat", "--on", "ri2", "--nodes", "1"], "--nodes is for the OSU benchmarks"),
        (&["explain", "osu_latency", "--on", "ri2", "--bind", "99"], "--bind 99 is no list of cores"),
    ] {
        let output = Command::cargo_bin("fabriscope").unwrap().args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(what), "{words:?}");
    }
}
