//! Broadcasts by multicast on the command line: what it takes, what it refuses, what it does where there is no multicast.

use assert_cmd::Command;

fn run(line: &str) -> (Option<i32>, String, String) {
    let output = Command::cargo_bin("fabriscope").unwrap().args(line.split(' ')).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn refused(line: &str, words: &[&str]) {
    let (status, _, message) = run(line);
    assert_eq!(status, Some(2), "{line}: {message}");
    assert!(words.iter().all(|word| message.contains(word)), "{line}: {message}");
}

#[test]
fn what_cannot_be_is_refused() {
    let on = "bench osu_bcast --on ri2-gpu --nodes 2 --ppn 1 -m 8:8 -d cuda";
    refused(&format!("{on} --root 2 --algorithm multicast_gdr"), &["root 2", "2 ranks"]);
    refused(&format!("{on} --algorithm multicast_gdr(sideways)"), &["sideways", "chain"]);
    refused(&format!("{on} --algorithm multicast_gdr(0)"), &["multicast_gdr(0)", "pipeline"]);
    refused("bench osu_bcast --on ri2-gpu --nodes 17 --ppn 1 -m 8:8", &["17"]);
    refused("bench osu_bcast --on ri2 --nodes 2 --ppn 1 -m 8:8 -d cuda", &["no GPUs"]);
    refused("bench osu_bcast --on ri2-gpu --nodes 2 --ppn 1 -m 8:8 -d managed", &["managed"]);
    refused("bench osu_ibcast --on ri2-gpu --nodes 2 --ppn 1 -m 8:8 --algorithm multicast", &["osu_bcast"]);
    refused("bench bcast_stream --on ri2-gpu --nodes 2 --ppn 1 --from gpu", &["-d cuda"]);
    refused("bench bcast_training --on ri2-gpu --nodes 2 --ppn 1 --model lenet", &["lenet", "alexnet"]);
}

/// Adapters of EFA and libraries without multicast: said, and done by the library's own algorithm.
#[test]
fn without_multicast_the_hosts_do_it() {
    for (line, why) in [
        ("bench osu_bcast --on aws-c5n-efa --nodes 2 --ppn 1 -m 8:8 --algorithm multicast", "have no multicast"),
        ("bench osu_bcast --on oci-optimized3 --nodes 2 --ppn 1 -m 8:8 --algorithm multicast_gdr", "[mpi.multicast]"),
        ("bench osu_bcast --on ri2-gpu --nodes 2 --ppn 1 --gpudirect off -m 8:8 -d cuda --algorithm multicast_gdr", "[mpi.gpu.direct]"),
    ] {
        let (status, text, message) = run(line);
        assert_eq!(status, Some(0), "{line}: {message}");
        assert!(message.contains(why) && message.contains("own choice instead") && text.contains("\n8 "), "{line}: {message}{text}");
    }
}

/// The share that multicast saves of a long broadcast to 16 GPUs.
#[test]
fn frames_arrive_sooner_by_multicast() {
    let (status, text, message) = run("bench bcast_stream --on ri2-gpu --nodes 16 --ppn 1 -d cuda -n 2 -m 1048576:1048576");
    assert_eq!(status, Some(0), "{message}");
    let saved = |name: &str| -> f64 {
        let row = text.lines().find(|line| line.starts_with("1048576") && line.contains(name)).unwrap_or_else(|| panic!("{text}"));
        row.split_whitespace().nth(4).unwrap().parse().unwrap()
    };
    assert_eq!(saved("multicast_gdr"), 0.0);
    assert!(saved("k_nomial_gdr") > 50.0 && saved("ring_gdr") > 50.0, "{text}");
}

/// The streams of docs/models/multicast-gpu.md to 88 GPUs end, with every frame in time, whatever has the frames.
#[test]
fn streams_to_all_gpus_end() {
    for from in ["", " --from host"] {
        let line = format!("bench bcast_stream --on cscs-88 --nodes 11 --ppn 8 -d cuda -m 1048576:1048576 -n 4 --interval 5000{from}");
        let (status, text, message) = run(&line);
        assert_eq!(status, Some(0), "{line}: {message}");
        for name in ["multicast_gdr", "k_nomial_gdr", "ring_gdr"] {
            let row = text.lines().find(|line| line.starts_with("1048576") && line.contains(name)).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(row.split_whitespace().nth(5), Some("0"), "late frames: {row}");
        }
    }
}
