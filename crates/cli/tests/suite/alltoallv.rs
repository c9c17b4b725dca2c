//! Many processes at one adapter: connections against datagrams, closed forms, labs over datagrams, wrong input.

use assert_cmd::Command;
use serde_json::Value;

fn run(text: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab.toml");
    std::fs::write(&path, text).unwrap();
    let mut args = vec!["run", path.to_str().unwrap()];
    args.extend(more);
    let output = Command::cargo_bin("fabriscope").unwrap().args(args).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn json(text: &str) -> Value {
    let (status, printed, told) = run(text, &["--json"]);
    assert_eq!(status, Some(0), "{told}");
    serde_json::from_str(&printed).unwrap()
}

fn lab(workload: &str) -> String {
    format!("[cluster]\nbase = \"ri2\"\nname = \"ri2-8\"\nnodes = 8\n{workload}\n")
}

fn refused(text: &str, words: &[&str]) {
    let (status, printed, told) = run(text, &[]);
    assert_eq!((status, printed.as_str()), (Some(2), ""), "{told}");
    for word in words {
        assert!(told.contains(word), "`{word}` is missing in:\n{told}");
    }
}

/// Connections are ahead while their contexts fit into the adapter, datagrams when they do not; and the engine has made as many
/// queue pairs as the closed forms say.
#[test]
fn connections_for_small_jobs_and_datagrams_for_large_ones() {
    let value = json(&lab("[workload.alltoallv]\nprocesses_per_node = 28\nprocesses = [112, 224]\nsizes = [\"4 B\"]"));
    let points = value["points"].as_array().unwrap();
    let point = |processes: u64, transport: &str| {
        points
            .iter()
            .find(|p| p["processes"] == processes && p["transport"] == transport)
            .unwrap_or_else(|| panic!("{processes} {transport}"))
    };
    let mean = |processes, transport| point(processes, transport)["mean_ps"].as_f64().unwrap();
    assert!(mean(112, "rc") < mean(112, "ud"), "{} and {} ps", mean(112, "rc"), mean(112, "ud"));
    assert!(mean(224, "rc") > 2.0 * mean(224, "ud"), "{} and {} ps", mean(224, "rc"), mean(224, "ud"));
    let misses = |processes, transport| point(processes, transport)["counts"]["context_misses"].as_u64().unwrap();
    assert_eq!((misses(112, "rc"), misses(112, "ud"), misses(224, "ud")), (0, 0, 0));
    assert!(misses(224, "rc") > 224 * 223);
    for (job, nodes) in value["memory"].as_array().unwrap().iter().zip([4, 8]) {
        let processes = job["processes"].as_u64().unwrap();
        let contexts = |name: &str| {
            let all = job["transports"].as_array().unwrap();
            all.iter().find(|t| t["transport"] == name).unwrap()["contexts_per_adapter"].as_u64().unwrap()
        };
        assert_eq!((contexts("RC"), contexts("UD")), (28 * 28 * (nodes - 1), 28));
        for (name, transport) in [("RC", "rc"), ("UD", "ud")] {
            assert_eq!(point(processes, transport)["counts"]["queue_pairs"], contexts(name));
        }
    }
}

#[test]
fn a_vector_of_lengths_and_tables_that_repeat() {
    let text =
        lab("[workload.alltoallv]\nprocesses_per_node = 4\nprocesses = [7, 32]\nvector = [\"4 B\", \"4 KiB\", \"0 B\"]\niterations = 2");
    let (status, printed, told) = run(&text, &[]);
    assert_eq!(status, Some(0), "{told}");
    assert_eq!(printed, run(&text, &["--threads", "2"]).1);
    for words in ["M² (N − 1)", "vector", "RC", "UD", "misses/message", "# connectx-5 holds 2500 contexts", "is ahead"] {
        assert!(printed.contains(words), "`{words}` is missing in:\n{printed}");
    }
}

/// Patterns over datagrams: the library cuts, and all bytes arrive.
#[test]
fn labs_run_over_datagrams() {
    for workload in ["permutation", "all_to_all", "ring", "recursive_doubling"] {
        let of = |transport: &str| json(&lab(&format!("[workload.{workload}]\nsize = \"100 KiB\"\ntransport = \"{transport}\"")));
        let (connected, datagrams) = (of("rc"), of("ud"));
        let packets = |value: &Value| value["counts"]["packets"].as_u64().unwrap();
        assert!(packets(&datagrams) > 50, "{workload}: {} packets", packets(&datagrams));
        assert!(datagrams["end_ps"].as_u64() > connected["end_ps"].as_u64(), "{workload}: software takes time");
        assert_eq!(datagrams["counts"]["drops"], 0);
    }
}

#[test]
fn what_cannot_be_exchanged() {
    let exchange = |keys: &str| lab(&format!("[workload.alltoallv]\n{keys}"));
    let of = |keys: &str| exchange(&format!("processes_per_node = 4\n{keys}"));
    refused(&of("processes = [64]\nsizes = [\"4 B\"]"), &["64 processes", "2 to 32"]);
    refused(&of("processes = [8]\nsizes = [\"64 KiB\"]"), &["64 KiB", "sends at once", "shorter"]);
    refused(&of("processes = [8]"), &["no size"]);
    refused(&of("processes = [8]\nsizes = [\"4 B\"]\ntransports = [\"uc\"]"), &["cannot be compared"]);
    refused(&of("processes = [8]\nsizes = [\"4 B\"]\niterations = 0"), &["0 iterations"]);
    refused(&exchange("processes_per_node = 0\nprocesses = [8]\nsizes = [\"4 B\"]"), &["0 processes on a node"]);
    let other = "[workload.alltoallv]\nprocesses_per_node = 4\nprocesses = [8]\nsizes = [\"4 B\"]";
    refused(&format!("cluster = \"csd3-opa:2\"\n{other}"), &["openmpi-psm2", "mvapich2-2.3.7"]);
    let rc = other.replace("sizes", "transports = [\"rc\"]\nsizes");
    refused(&format!("cluster = \"csd3-opa:2\"\n{rc}"), &["openmpi-psm2", "what connections take"]);
    refused("cluster = \"csd3-opa:2\"\n[workload.ring]\nsize = \"4 B\"\ntransport = \"ud\"", &["no messages over datagrams"]);
    refused(&format!("engine = \"flow\"\ncluster = \"ri2\"\n{other}"), &["flow engine", "packet"]);
    refused(
        "engine = \"flow\"\ncluster = \"ri2\"\n[workload.ring]\nsize = \"4 B\"\ntransport = \"ud\"",
        &["flow engine does not model the transport service"],
    );
}
