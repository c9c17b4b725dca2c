//! The same command gives the same bytes, whatever else the machine does.

use assert_cmd::Command;

fn printed(args: &[&str]) -> Vec<u8> {
    let output = Command::cargo_bin("fabriscope").unwrap().args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(!output.stdout.is_empty(), "{args:?} printed nothing");
    output.stdout
}

fn lab(name: &str) -> String {
    format!("{}/../../labs/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn two_runs_of_a_command() {
    for args in [
        ["bench", "ib_write_bw", "--on", "ri2", "-s", "4096", "-n", "500"].as_slice(),
        &["bench", "osu_bibw", "--on", "betzy-hdr", "-m", "1:8192", "-i", "5"],
        &["explain", "osu_latency", "--on", "ri2", "-s", "65536"],
        &["validate", "oci-optimized3-osu_latency", "ri2-ib_read_lat", "--json"],
        &["run", &lab("permutation-16"), "--json"],
        &["run", &lab("incast-8")],
        &["run", &lab("uniform-16"), "--json"],
        &["run", &lab("path-migration"), "--json"],
    ] {
        assert_eq!(printed(args), printed(args), "{args:?}");
    }
}

/// Small labs here; `tests/threads.sh` asks all of them.
#[test]
fn no_lab_depends_on_threads() {
    for name in ["lossy-links", "switch-death", "permutation-16", "slow-receiver", "qos-ethernet", "shift-rails", "ring-all-reduce-128"] {
        let one = printed(&["run", &lab(name), "--json"]);
        for threads in ["2", "4"] {
            assert_eq!(one, printed(&["run", &lab(name), "--json", "--threads", threads]), "{name}, {threads} threads");
        }
    }
}

/// Jobs of enough ranks to run in parts: below several leaves and below one, over credits, SRD, PSM2, sockets and NCCL's rails.
#[test]
fn no_program_depends_on_cores() {
    for command in [
        "osu_allreduce --on lab-1024 --nodes 32 --ppn 8 -m 8:64 -i 3 -x 1 --engine packet --counters",
        "osu_alltoall --on csd3-opa --nodes 16 --ppn 16 -m 8:8 --engine packet",
        "osu_alltoall --on aws-c5n-efa --nodes 16 --ppn 16 -m 8:8 --engine packet",
        "osu_allreduce --on ibex-cpu --transport tcp --nodes 16 --ppn 16 -m 8:8 -i 3 -x 1 --engine packet",
        "all_reduce_perf --on azure-ndh100v5:8 --nodes 8 -b 256K -e 256K",
        "krylov --on alaska-roce25 --nodes 16 --ppn 16 -n 256 -i 2",
    ] {
        let run = |cores: &str| printed(&["bench"].into_iter().chain(command.split(' ')).chain(["--cores", cores]).collect::<Vec<_>>());
        assert_eq!(run("1"), run("4"), "{command}");
    }
}

#[test]
fn the_seed_is_heard() {
    let lab = lab("permutation-16");
    assert_ne!(printed(&["run", &lab, "--json", "--seed", "1"]), printed(&["run", &lab, "--json", "--seed", "2"]));
}

#[test]
fn the_stages_of_a_message_add_up_exactly() {
    for (tool, size) in
        [("ib_write_lat", "2"), ("ib_read_lat", "4096"), ("osu_latency", "1024"), ("osu_latency", "65536"), ("ib_send_bw", "4096")]
    {
        let text = printed(&["explain", tool, "--on", "ri2", "-s", size, "--no-changes", "--json"]);
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let sum: u64 = value["stages"].as_array().unwrap().iter().map(|s| s["ps"].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), value["total_ps"].as_u64(), "{tool} {size}");
        assert!(sum > 0, "{tool} {size}");
    }
}

#[test]
fn every_command_has_examples() {
    for command in ["demo", "explain", "validate", "run", "clusters", "parts", "show", "schema", "completions", "man", "serve", "bench"] {
        let help = String::from_utf8(printed(&[command, "--help"])).unwrap();
        assert!(help.contains("Examples:") && help.contains(&format!("fabriscope {command}")), "{command}: {help}");
    }
}

#[test]
fn schemas_and_completions_are_printed() {
    for kind in ["lab", "cluster", "nic", "switch", "cable", "link", "cpu", "pcie", "software"] {
        let schema: serde_json::Value = serde_json::from_slice(&printed(&["schema", kind])).unwrap();
        assert!(schema["properties"].is_object(), "{kind}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(String::from_utf8(printed(&["completions", shell])).unwrap().contains("validate"), "{shell}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    printed(&["man", "-o", folder.path().to_str().unwrap()]);
    let pages: Vec<String> = std::fs::read_dir(&folder).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    for page in ["fabriscope.1", "fabriscope-bench.1", "fabriscope-serve.1"] {
        assert!(pages.iter().any(|name| name == page), "{page}: {pages:?}");
    }
    let page = std::fs::read_to_string(folder.path().join("fabriscope-topo.1")).unwrap();
    assert!(page.contains(".TH fabriscope-topo 1") && page.contains("Examples:"), "{page}");
    assert_eq!(page.into_bytes(), printed(&["man", "topo"]));
}

#[test]
fn json_of_a_validation_has_the_agreed_keys() {
    let value: serde_json::Value = serde_json::from_slice(&printed(&["validate", "oci-optimized3-osu_latency", "--json"])).unwrap();
    let keys: Vec<&str> = value[0].as_object().unwrap().keys().map(String::as_str).collect();
    let agreed = ["table", "points", "skipped", "median", "p90", "max", "bias"];
    // What was agreed stays in front; more may follow.
    assert_eq!(keys[..agreed.len()], agreed);
}
