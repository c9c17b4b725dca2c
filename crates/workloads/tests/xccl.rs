//! NCCL's sends and receives on simulated nodes, against sums of the parts of their way.

mod machine;

use fabriscope_catalog::ResolvedCluster;
use fabriscope_engine::{Cluster, Engine, Job};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_machine::{Access, Machine, Purpose};
use fabriscope_units::{Bytes, Span};
use fabriscope_workloads::nccl::{Library, Protocol};
use fabriscope_workloads::{Layout, Target, Tool, ToolOutput};

fn target(cluster: &str, nodes: u32) -> (ResolvedCluster, Target) {
    let parts = machine::parts(cluster);
    let nccl = parts.nccl.as_ref().and_then(|software| Library::new(software.nccl.as_ref()?, parts.node.gpu.as_ref()?));
    let target = Target { nccl, layout: Layout { nodes, per_node: parts.node.gpus }, ..machine::target(&parts) };
    (parts, target)
}

fn run(cluster: &str, nodes: u32, line: &str) -> ToolOutput {
    let (parts, target) = target(cluster, nodes);
    let mut words = line.split_whitespace().map(str::to_owned);
    let tool = Tool::by_name(&words.next().unwrap()).unwrap();
    let prepared = tool.prepare(&words.collect::<Vec<_>>(), &target).unwrap_or_else(|error| panic!("{line}: {error}"));
    let cluster = Cluster::new(parts).unwrap();
    let nodes = (0..prepared.mains.len() as u32).map(|rank| prepared.placing.seat(rank).0).collect();
    let run = PacketEngine::default().execute(&cluster, Job { nodes, mains: prepared.mains }, 1);
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
        let (way, _) = link(&parts.node.machine().unwrap());
        // Call, kernel, block; a copy there, the way, a copy out of the slot; the host sees the end.
        let copy = library.pace(Protocol::Ll).rate.time(Bytes(64));
        let expected = library.call + library.kernel_start + library.block_start + copy + way + copy + library.synchronise;
        let measured = values(&run(cluster, 1, "osu_xccl_latency -m 64:64"))[0];
        assert!((measured - expected.as_us_f64()).abs() < 0.011, "{cluster}: {measured} us, expected {expected}");
    }
}

#[test]
fn a_long_message_gets_the_link() {
    // 1 GiB over 16 channels, which together move more than the link of 274 GB/s: what is lost is the start and the steps.
    let (parts, _) = target("azure-nda100v4", 1);
    let (_, rate) = link(&parts.node.machine().unwrap());
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
    let error = Tool::by_name("osu_xccl_bw").unwrap().prepare(&[], &target).unwrap_err().to_string();
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
