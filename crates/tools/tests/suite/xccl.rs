//! NCCL's sends and receives on simulated nodes, against sums of the parts of their way.

use crate::machine;
use fabriscope_catalog::ResolvedCluster;
use fabriscope_engine::{Cluster, Engine, Job, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_machine::{Access, Machine, Purpose};
use fabriscope_nccl::Protocol;
use fabriscope_platform::nccl::Library;
use fabriscope_platform::{Layout, Target};
use fabriscope_tools::{Tool, ToolOutput};
use fabriscope_units::Remedy;
use fabriscope_units::{Bytes, Span};

fn target(cluster: &str, nodes: u32) -> (ResolvedCluster, Target) {
    let parts = machine::parts(cluster);
    let nccl = Library::of(&parts);
    let target = Target { nccl, layout: Layout { nodes, per_node: parts.sole().node.gpus }, ..machine::target(&parts) };
    (parts, target)
}

fn run(cluster: &str, nodes: u32, line: &str) -> ToolOutput {
    let (parts, target) = target(cluster, nodes);
    let mut words = line.split_whitespace().map(str::to_owned);
    let tool = Tool::by_name(&words.next().unwrap()).unwrap();
    let prepared = tool.prepare(&words.collect::<Vec<_>>(), &target).unwrap_or_else(|error| panic!("{line}: {error}"));
    let cluster = Cluster::new(parts).unwrap();
    let nodes = (0..prepared.mains.len() as u32).map(|rank| prepared.placing.seat(rank).0).collect();
    let run = PacketEngine.run(&cluster, Job::programs(nodes, prepared.mains), &RunOptions::default(), 1);
    drop(run.unwrap_or_else(|error| panic!("{line}: {error}")));
    (prepared.finish)()
}

fn values(output: &ToolOutput) -> Vec<f64> {
    output.points.iter().map(|point| point.value).collect()
}

/// Latency and rate of a way from GPU 0 to GPU 1.
fn link(machine: &Machine) -> (Span, f64) {
    let memory = |index: usize| machine.memory_of(machine.gpus()[index]).unwrap();
    let path = machine.path(memory(0), memory(1), Purpose::Copy).unwrap();
    (path.latency(machine), path.rate(machine, Access::Write).as_bps() as f64 / 8e9)
}

#[test]
fn a_ping_is_the_sum_of_its_parts() {
    for cluster in ["azure-nda100v4", "azure-ndh100v5", "olivia-gh200-ss11"] {
        let (parts, target) = target(cluster, 1);
        let library = target.nccl.unwrap();
        let (way, _) = link(&parts.sole().node.machine().unwrap());
        // Call, kernel, block; a copy there, the way, a copy out of the slot; the host sees the end.
        let copy = library.pace(Protocol::Ll).rate.time(Bytes(64));
        let start = library.kernel_start + library.pace(Protocol::Ll).step.start;
        let expected = library.call + start + copy + way + copy + library.synchronise;
        let measured = values(&run(cluster, 1, "osu_xccl_latency -m 64:64"))[0];
        assert!((measured - expected.as_us_f64()).abs() < 0.011, "{cluster}: {measured} us, expected {expected}");
    }
}

#[test]
fn a_long_message_gets_the_link() {
    // 1 GiB over 16 channels, which together move more than the link of 274 GB/s: what is lost is the start and the steps.
    let (parts, _) = target("azure-nda100v4", 1);
    let (_, rate) = link(&parts.sole().node.machine().unwrap());
    let measured = values(&run("azure-nda100v4", 1, "osu_xccl_bw -m 1073741824:1073741824 -W 2 -i 1 -x 0"))[0] / 1e3;
    assert!(measured > 0.95 * rate && measured < rate, "{measured} of {rate} GB/s");
}

#[test]
fn between_nodes_two_proxies_and_the_wire_come_in_between() {
    for cluster in ["azure-nda100v4", "aws-p4de-nccl", "lumi-g", "olivia-gh200-ss11"] {
        let within = values(&run(cluster, 1, "osu_xccl_latency -m 8:8"))[0];
        let across = values(&run(cluster, 2, "osu_xccl_latency -m 8:8"))[0];
        assert!(across > within + 1.5, "{cluster}: {within} us within a node, {across} us across");
        let bandwidth = values(&run(cluster, 2, "osu_xccl_bw -m 4194304:4194304 -W 8"))[0];
        assert!(bandwidth > 5000.0, "{cluster}: {bandwidth} MB/s");
    }
}

#[test]
fn adapters_that_only_read_take_a_trip_more() {
    // EFA of the second generation against the third, which writes: the message is announced, fetched, and its end is told.
    let reads = values(&run("aws-p4de-nccl", 2, "osu_xccl_latency -m 8:8"))[0];
    let one_way = values(&run("aws-p4de-nccl", 2, "osu_xccl_latency -m 65536:65536"))[0];
    assert!(reads > 30.0 && one_way > reads, "{reads} us, 64 KiB in {one_way} us");
}

#[test]
fn both_ways_at_once_nothing_blocks() {
    for nodes in [1, 2] {
        let both = values(&run("azure-nda100v4", nodes, "osu_xccl_bibw -m 67108864:67108864 -W 2 -i 1 -x 0"))[0];
        let one = values(&run("azure-nda100v4", nodes, "osu_xccl_bw -m 67108864:67108864 -W 2 -i 1 -x 0"))[0];
        assert!(both > 1.5 * one, "{nodes} nodes: {both} MB/s both ways, {one} MB/s one way");
    }
}

#[test]
fn a_cluster_without_gpus_is_refused() {
    let (_, target) = target("ri2", 2);
    let error = Tool::by_name("osu_xccl_bw").unwrap().prepare(&[], &target).unwrap_err().in_full();
    assert!(error.contains("needs GPUs with NCCL or RCCL") && error.contains("choose a cluster"), "{error}");
}

#[test]
fn the_output_is_the_tools() {
    let output = run("azure-nda100v4", 1, "osu_xccl_latency -m 8:16");
    let lines: Vec<&str> = output.text.lines().collect();
    assert_eq!(lines[..3], ["", "# OSU NCCL-CUDA Latency Test v7.4", "# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)"]);
    assert_eq!(lines[3], "# Size            Latency (us)");
    assert!(lines[4].starts_with("8  ") && lines[4].len() == 30 && lines.len() == 6);
    assert!(run("lumi-g", 1, "osu_xccl_bibw -m 8:8").text.contains("# OSU RCCL-ROCM Bi-Directional Bandwidth Test v7.4"));
}

/// Bus bandwidths in place by size, in GB/s.
fn busbw(cluster: &str, nodes: u32, line: &str) -> Vec<f64> {
    let output = run(cluster, nodes, line);
    output.points.iter().filter(|point| point.metric == "busbw_in_place").map(|point| point.value).collect()
}

#[test]
fn rings_reach_the_link_and_the_switch_more() {
    let a100 = busbw("azure-nda100v4", 1, "all_reduce_perf -b 1G -e 1G -g 8");
    let (parts, _) = target("azure-nda100v4", 1);
    let (_, rate) = link(&parts.sole().node.machine().unwrap());
    assert!(a100[0] > 0.85 * rate && a100[0] < rate, "{a100:?} of {rate}");
    // Rings are bound by the links; NVLS sends (n + 1) / n of the message over each instead of 2 (n - 1) / n.
    let ring = busbw("azure-ndh100v5", 1, "all_reduce_perf -b 1G -e 1G -g 8 --env NCCL_ALGO=Ring");
    let switch = busbw("azure-ndh100v5", 1, "all_reduce_perf -b 1G -e 1G -g 8 --env NCCL_ALGO=NVLS");
    assert!(switch[0] > 1.2 * ring[0], "{ring:?} {switch:?}");
}

#[test]
fn all_operations_end_on_one_node_and_on_two() {
    for (cluster, nodes) in [("azure-nda100v4", 1), ("azure-nda100v4", 2), ("aws-p4de-nccl", 2), ("lumi-g", 2), ("olivia-gh200-ss11", 2)] {
        for operation in fabriscope_tools::nccl_tests::TOOLS {
            let tool = operation.tool();
            let values = busbw(cluster, nodes, &format!("{tool} -b 64K -e 4M -f 64 -n 3"));
            assert!(values.len() == 2 && values[0] > 0.0 && values[1] > values[0], "{cluster} {nodes} {tool}: {values:?}");
        }
    }
}

#[test]
fn long_messages_continue_as_they_grew() {
    // 512 MiB are run at two shorter lengths, or, in channels that have fewer steps, as they are: NVLS against its own slope.
    let line = |size: &str| format!("all_reduce_perf -b {size} -e {size} -g 8 -n 2 --env NCCL_ALGO=NVLS");
    let time = |size: &str| run("azure-ndh100v5", 1, &line(size)).points[0].value;
    let (whole, folded) = (time("64M"), time("512M"));
    let slope = (folded - whole) / (448.0 * 1024.0 * 1024.0);
    let rate = 1.0 / slope / 1e3;
    assert!(rate > 250.0 && rate < 320.0, "{rate} GB/s");
}

#[test]
fn tables_are_those_of_the_tool() {
    let output = run("azure-nda100v4", 1, "broadcast_perf -b 1M -e 4M -f 2 -g 8 -c 0 -n 1");
    let lines: Vec<&str> = output.text.lines().collect();
    assert_eq!(lines[0], "# nccl-tests version 2.19.6 nccl-headers=22203 nccl-library=22203");
    assert_eq!(lines[1], "# Collective test starting: broadcast_perf");
    assert!(lines[2].starts_with("# nThread 1 nGpus 8 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 1 iters: 1"));
    let rows: Vec<&&str> = lines.iter().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(rows.len(), 3);
    assert!(rows[0].starts_with("     1048576        262144     float    none       0  ") && rows[0].ends_with("    N/A"), "{}", rows[0]);
    assert!(output.remarks[0].starts_with("1048576 bytes: Ring "), "{:?}", output.remarks);
}

#[test]
fn bad_options_are_told() {
    let (_, target) = target("azure-nda100v4", 1);
    let refused = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let tool = Tool::by_name(&words.next().unwrap()).unwrap();
        tool.prepare(&words.collect::<Vec<_>>(), &target).unwrap_err().in_full()
    };
    assert!(refused("reduce_perf -r 8").contains("give 0 to 7"));
    assert!(refused("all_reduce_perf -g 3").contains("divides the GPUs"));
    assert!(refused("all_reduce_perf -b 2M -e 1M").contains("-b 1048576 -e 2097152"));
    assert!(refused("all_reduce_perf -d quad").contains("bfloat16"));
    assert!(refused("all_reduce_perf --env NCCL_ALGO=Star").contains("Ring"));
    assert!(refused("all_reduce_perf --env NCCL_STAR=1").contains("no such variable"));
}
