//! Benchmarks on the GPUs of the catalogue's nodes.

use assert_cmd::Command;

/// The value in the second column of the row of `size`.
fn row(line: &str, size: &str) -> f64 {
    let output = Command::cargo_bin("fabriscope").unwrap().args(line.split(' ')).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let found = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|words| words.first() == Some(&size));
    found.unwrap_or_else(|| panic!("{text}"))[1].parse().unwrap()
}

/// A GPU of Ibex has one PCI Express 4.0 x16 link, 27 GB/s, and its node two adapters of 25 GB/s. What lies in the memory of the GPU goes
/// through the one that is near; what lies in host memory goes through both, and they share the memory of its NUMA domain, 33 GB/s.
#[test]
fn two_adapters_do_not_carry_more_than_the_link_of_the_gpu() {
    let host = row("bench osu_bw --on ibex-a100 -m 1048576:1048576 H H", "1048576");
    let device = row("bench osu_bw --on ibex-a100 -m 1048576:1048576 D D", "1048576");
    assert!((30_000.0..32_750.0).contains(&host) && (20_000.0..27_200.0).contains(&device), "{host} {device}");
}

/// Two A100 have 300 GB/s each way between them; kernels that read each other lose what requests and headers take.
#[test]
fn gpus_that_read_each_other_share_the_links_with_requests() {
    let line = "bench nvbandwidth --on azure-nda100v4 -t device_to_device_memcpy_read_sm";
    // The first row of the matrix: nothing to itself, then its peers.
    let output = Command::cargo_bin("fabriscope").unwrap().args(line.split(' ')).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = text.lines().find(|line| line.starts_with(" 0 ")).unwrap().split_whitespace().collect();
    assert_eq!((words.len(), words[1]), (9, "N/A"));
    let alone: f64 = words[2].parse().unwrap();
    assert!((260.0..285.0).contains(&alone), "{text}");
}

/// Nodes without GPUs say so.
#[test]
fn nodes_without_gpus_are_refused() {
    for line in ["bench nvbandwidth --on ri2", "bench osu_latency --on ri2 D D", "bench ib_write_bw --on ri2 --use_cuda=0"] {
        let output = Command::cargo_bin("fabriscope").unwrap().args(line.split(' ')).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains("GPU") && message.contains("help"), "{line}: {message}");
    }
}

/// UCX spreads a long message over two adapters, though the nodes of Ibex with V100 have four of 100 Gb/s.
#[test]
fn ucx_takes_two_adapters_of_four() {
    let host = row("bench osu_bw --on ibex-v100 -m 1048576:1048576 H H", "1048576");
    assert!((22_000.0..25_000.0).contains(&host), "{host}");
}
