//! Programs on a parallel file system and on NVMe drives: what is refused, and what to do instead. What they print is pinned in
//! `tests/golden/storage`.

use assert_cmd::Command;

/// What `bench` says of a command line that it refuses.
fn refused(line: &str) -> String {
    let output = Command::cargo_bin("fabriscope").unwrap().arg("bench").args(line.split(' ')).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{line}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_does_not_fit_is_refused_with_a_remedy() {
    for (line, told) in [
        (
            "ior --on ri2",
            "storage::impossible\n\n  x `ri2` mounts no file system of the catalogue\n  \
             help: name one: --fs lumi-f; `fabriscope parts --kind file-systems` lists them, --fs mine.toml reads yours\n",
        ),
        (
            "ior --on lumi-c --ppn 999",
            "storage::impossible\n\n  x 999 processes on a node with 128 cores\n  help: use --ppn of at most 128\n",
        ),
        (
            "ior --on lumi-c --fs lumi-p --stripe-count 40",
            "  x 40 stripes on 32 OSTs\n  help: use at least 1 and at most 32 stripes, or -1 for all OSTs\n",
        ),
        (
            "ior --on lumi-c -b 1KB",
            "  x -b takes a size, not `1KB`\n  help: write bytes as 65536, 64K (K, M, G: powers of 1024), 64KiB or 64kB\n",
        ),
    ] {
        assert_eq!(refused(line), told, "{line}");
    }
}

/// Numbers of `spdk_nvme_perf`: operations a second, microseconds, and what its remarks say of cores.
fn perf(line: &str) -> (f64, f64, Vec<f64>) {
    let words = format!("bench spdk_nvme_perf --on lab-bluefield-2 --json -- --drive nvme-gen4 {line}");
    let output = Command::cargo_bin("fabriscope").unwrap().args(words.split_whitespace()).output().unwrap();
    let found: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{line}: {}", String::from_utf8_lossy(&output.stderr)));
    let of = |metric: &str| {
        let points = found["points"].as_array().unwrap();
        points.iter().find(|point| point["metric"] == metric).and_then(|point| point["value"].as_f64()).unwrap()
    };
    let remarks = found["remarks"].as_array().unwrap().iter().filter_map(|remark| remark.as_str());
    let cores = remarks.filter_map(|remark| remark.split(" us of ").next()?.rsplit(' ').next()?.parse().ok()).collect();
    (of("operation_rate"), of("latency"), cores)
}

/// A fabric adds some microseconds to a drive; interrupts add more; an adapter that serves by itself takes no core.
#[test]
fn a_fabric_adds_microseconds_and_an_offload_frees_the_cores() {
    let (_, local, _) = perf("-q 1");
    let (_, remote, cores) = perf("-q 1 -r trtype:RDMA");
    assert!((3.0..10.0).contains(&(remote - local)), "{local} {remote}");
    assert!(cores[1] > 0.4, "{cores:?}");
    let (_, kernel, _) = perf("-q 1 -r trtype:RDMA --stack linux-nvme");
    assert!((5.0..12.0).contains(&(kernel - remote)), "{remote} {kernel}");
    let (rate, _, cores) = perf("-q 32 -c 0xf --drives 8 -r trtype:RDMA");
    let (by_itself, _, none) = perf("-q 32 -c 0xf --drives 8 -r trtype:RDMA --target offload");
    assert!((by_itself / rate - 1.0).abs() < 0.1, "{rate} {by_itself}");
    assert!(cores[1] > 0.4 && none[1] == 0.0, "{cores:?} {none:?}");
}

/// What binds: the core of a target, then the wire, whose 100 Gb/s carry no more than 12.5 GB of blocks a second.
#[test]
fn targets_end_at_their_cores_and_at_the_wire() {
    let one = "-q 64 -c 0xff --drives 32 --target-cores 1 -t 0.001 -r trtype:RDMA";
    let (spdk, _, cores) = perf(one);
    assert!((cores[1] * spdk / 1e6 - 1.0).abs() < 0.15, "one core is busy all the time: {spdk} of {cores:?}");
    let (kernel, ..) = perf(&format!("{one} --target-stack linux-nvme"));
    assert!((3.5..6.5).contains(&(spdk / kernel)), "{spdk} {kernel}");
    let (long, ..) = perf("-q 32 -o 131072 -w write --drives 16 -r trtype:RDMA");
    let rate = long * 131_072.0;
    assert!((0.9 * 12.5e9..12.5e9).contains(&rate), "{rate}");
}

#[test]
fn drives_and_servers_that_are_not_there_are_refused() {
    for (line, told) in [
        ("spdk_nvme_perf --on ri2", "the nodes of this cluster have no drives; name one with --drive: "),
        ("spdk_nvme_perf --on frontier -- -r trtype:RDMA", "the adapters here are driven through cxi; use -r trtype:PCIe"),
        ("spdk_nvme_perf --on ri2 -- --drive nvme-gen3 -r trtype:RDMA --target dpu", "have no cores; use a cluster with a DPU"),
        ("spdk_nvme_perf --on ri2 -- --drive nvme-gen3 -r trtype:RDMA --target-cores 4", "4 cores of a target for 1 connections"),
        ("spdk_nvme_perf --on ri2 -- --drive nvme-gen3 -c 0", "-c takes one of a mask of at least one core"),
    ] {
        let said = refused(line);
        assert!(said.contains(told), "{line}: {said}");
    }
}
