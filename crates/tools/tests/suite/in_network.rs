//! Benchmarks of operations that switches carry out: what is run, what is said, and what happens where there are no such switches.

use crate::machine;
use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_engine::{Cluster, Engine, Job, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_platform::{Layout, Target};
use fabriscope_tools::{Tool, ToolOutput, UsageError};
use fabriscope_units::Remedy;

use machine::target;

/// The NDR cluster with so many nodes and other settings.
fn ndr(nodes: u32, more: &str) -> ResolvedCluster {
    let text = format!("name = \"small\"\nbase = \"lab-ndr-1024\"\nnodes = {nodes}\n{more}\n");
    let catalog = Catalog::embedded().unwrap();
    let cluster = catalog.parse_cluster("small.toml", &text).unwrap();
    catalog.resolve(&cluster, None).unwrap()
}

fn run(parts: &ResolvedCluster, (nodes, per_node): (u32, u32), line: &str) -> Result<ToolOutput, UsageError> {
    let mut words = line.split_whitespace().map(str::to_owned);
    let tool = Tool::by_name(&words.next().unwrap())?;
    let target = Target { layout: Layout { nodes, per_node }, ..target(parts) };
    let prepared = tool.prepare(&words.collect::<Vec<_>>(), &target)?;
    let cluster = Cluster::new(parts.clone()).unwrap();
    let seats = (0..nodes * per_node).map(|rank| prepared.placing.seat(rank).0).collect();
    let run = PacketEngine.run(&cluster, Job::programs(seats, prepared.mains), &RunOptions::default(), 1);
    run.unwrap_or_else(|error| panic!("{line}: {error}"));
    Ok((prepared.finish)())
}

fn latency(output: &ToolOutput) -> Vec<f64> {
    output.points.iter().map(|point| point.value).collect()
}

/// What the tool says of its algorithm, and its latencies.
fn told(parts: &ResolvedCluster, layout: (u32, u32), line: &str) -> (String, Vec<f64>) {
    let output = run(parts, layout, line).unwrap_or_else(|error| panic!("{line}: {error}"));
    (output.remarks.join("\n"), latency(&output))
}

#[test]
fn every_operation_runs_in_the_switches() {
    let parts = ndr(64, "");
    for (tool, sizes) in
        [("osu_allreduce", "-m 8:65536"), ("osu_bcast", "-m 8:65536 --root 3"), ("osu_reduce", "-m 8:65536 --root 5"), ("osu_barrier", "")]
    {
        for layout in [(6, 1), (9, 1), (5, 4)] {
            let (remarks, values) = told(&parts, layout, &format!("{tool} {sizes} -i 10 -x 2 --algorithm sharp"));
            assert!(remarks.contains("in_network(") && !remarks.contains("the hosts do it"), "{tool} {layout:?}: {remarks}");
            assert!(values.iter().all(|value| *value > 0.5), "{tool} {layout:?}: {values:?}");
        }
    }
    let (_, blocking) = told(&parts, (4, 2), "osu_allreduce -m 64:64 -i 20 -x 2 --algorithm inc");
    let (_, overlapped) = told(&parts, (4, 2), "osu_iallreduce -m 64:64 -i 20 -x 2 --algorithm inc");
    assert!(overlapped[0] < 3.0 * blocking[0], "{overlapped:?} {blocking:?}");
}

/// Two nodes of a leaf take as long as all of them, and nodes beyond one more level, whatever their number.
#[test]
fn latency_does_not_grow_with_nodes() {
    let parts = ndr(128, "");
    let of = |nodes| told(&parts, (nodes, 1), "osu_allreduce -m 8:8 -i 20 -x 2 --algorithm sharp").1[0];
    // Powers of two: the barrier of the hosts between iterations lets all go at the same time.
    let [two, leaf, over, all] = [of(2), of(32), of(64), of(128)];
    assert!((leaf - two).abs() < 0.02 * two, "{two} {leaf}");
    assert!((all - over).abs() < 0.02 * over && over > leaf, "{leaf} {over} {all}");
    let host = told(&parts, (128, 1), "osu_allreduce -m 8:8 -i 20 -x 2 --algorithm recursive_doubling").1[0];
    assert!(host > 2.0 * all, "{host} by the hosts, {all} by the switches");
}

/// Long vectors stream: near the rate of the link, where a host's algorithm sends and takes them twice.
#[test]
fn long_vectors_stream_at_the_rate_of_the_link() {
    let parts = ndr(64, "");
    let rate = |algorithm: &str, nodes| {
        let us =
            told(&parts, (nodes, 1), &format!("osu_allreduce -m 16777216:16777216 -i 2 -x 1 -T mpi_float --algorithm {algorithm}")).1[0];
        16_777_216.0 / us / 1000.0
    };
    let [few, many, ring] = [rate("sharp", 4), rate("sharp", 40), rate("ring", 4)];
    assert!(few > 0.85 * 50.0 && many > 0.85 * 50.0, "{few} and {many} of 50 GB/s");
    assert!(few > 1.5 * ring, "{few} against {ring}");
}

#[test]
fn without_such_switches_the_hosts_do_it_and_say_so() {
    let none = ndr(64, "switch = \"lab-400g-64\"");
    let (remarks, by_hosts) = told(&none, (4, 1), "osu_allreduce -m 8:8 --algorithm sharp");
    assert!(remarks.contains("allreduce: not in the network, as the switches do not reduce; the hosts do it"), "{remarks}");
    assert_eq!(by_hosts, told(&none, (4, 1), "osu_allreduce -m 8:8").1, "as without the option");
    // Quantum has no operations on bytes.
    let hdr = ndr(64, "link = \"hdr\"\nswitch = \"qm8700\"\nnode.nic = \"connectx-6\"\nnode.pcie.generation = 4");
    let (remarks, _) = told(&hdr, (4, 1), "osu_allreduce -m 8:8 --algorithm sharp");
    assert!(remarks.contains("SHARPv2 of qm8700 has no int8 in it; another -T may do"), "{remarks}");
    let (remarks, _) = told(&hdr, (4, 1), "osu_allreduce -m 8:8 -T mpi_float --algorithm sharp");
    assert!(remarks.contains("in_network("), "{remarks}");
    let (remarks, _) = told(&hdr, (4, 1), "osu_barrier --algorithm sharp");
    assert!(remarks.contains("in_network("), "{remarks}");
    let error = run(&hdr, (4, 1), "osu_alltoall -m 8:8 --algorithm sharp").unwrap_err().in_full();
    assert!(error.contains("there is no algorithm `sharp` for alltoall"), "{error}");
}

#[test]
fn what_is_exhausted_is_said() {
    let catalog = Catalog::embedded().unwrap();
    let parts = ndr(64, "");
    let mut few = catalog
        .resolve(&catalog.parse_cluster("few.toml", "name = \"few\"\nbase = \"lab-ndr-1024\"\nnodes = 64\n").unwrap(), None)
        .unwrap();
    let part = few.switch.as_mut().and_then(|switch| switch.aggregation.as_mut()).unwrap();
    part.slots.value = 4;
    let (remarks, values) = told(&few, (4, 1), "osu_allreduce -m 8:8 --algorithm sharp");
    assert!(remarks.contains("a switch has no room for more operations; the hosts do it"), "{remarks}");
    assert_eq!(values, told(&parts, (4, 1), "osu_allreduce -m 8:8").1);
}

/// Two racks of Tomahawk Ultra: the same in Ethernet.
#[test]
fn collectives_of_tomahawk_ultra() {
    let parts =
        ndr(64, "link = \"400gbe\"\nlink_layer = \"roce_v2\"\nswitch = \"tomahawk-ultra\"\nnode.nic = \"connectx-7\"\nrouting = \"ecmp\"");
    for (tool, size) in [("osu_allreduce", "-m 8:131072"), ("osu_bcast", "-m 8:8"), ("osu_reduce", "-m 8:8"), ("osu_barrier", "")] {
        let (remarks, values) = told(&parts, (40, 1), &format!("{tool} {size} -i 10 -x 2 --algorithm inc"));
        assert!(remarks.contains("in_network(") && !remarks.contains("hosts do it"), "{remarks}");
        assert!(values[0] > 0.5 && values[0] < 5.0, "{tool}: {values:?}");
    }
}

/// Eight H100 in each of so many nodes, with NDR and Quantum-2.
fn gpus(nodes: u32, line: &str) -> ToolOutput {
    let catalog = Catalog::embedded().unwrap();
    let text = format!("name = \"h100\"\nbase = \"azure-ndh100v5\"\nnodes = {nodes}\n");
    let parts = catalog.resolve(&catalog.parse_cluster("h100.toml", &text).unwrap(), None).unwrap();
    on_gpus(&parts, nodes, line)
}

fn on_gpus(parts: &ResolvedCluster, nodes: u32, line: &str) -> ToolOutput {
    let mut words = line.split_whitespace().map(str::to_owned);
    let tool = Tool::by_name(&words.next().unwrap()).unwrap();
    let nccl = fabriscope_platform::nccl::Library::of(parts);
    let target = Target { layout: Layout { nodes, per_node: 8 }, nccl, ..target(parts) };
    let prepared = tool.prepare(&words.collect::<Vec<_>>(), &target).unwrap_or_else(|error| panic!("{line}: {error}"));
    let cluster = Cluster::new(parts.clone()).unwrap();
    let seats = (0..nodes * 8).map(|rank| prepared.placing.seat(rank).0).collect();
    let run = PacketEngine.run(&cluster, Job::programs(seats, prepared.mains), &RunOptions::default(), 1);
    run.unwrap_or_else(|error| panic!("{line}: {error}"));
    (prepared.finish)()
}

/// CollNet's algorithms and NVLS with SHARP run, at least as fast as the ring of the same nodes; the chain, whose 14 hops within the nodes
/// wait for whole chunks where lines stream around the ring, at least as fast as NCCL's tuner expects the ring to be, 133 us.
#[test]
fn nccl_reduces_in_the_switches() {
    let run = |algorithm: &str| {
        let line = format!("all_reduce_perf -b 8M -e 8M -n 2 --env NCCL_COLLNET_ENABLE=1 --env NCCL_ALGO={algorithm}");
        let output = gpus(2, &line);
        (output.remarks.join("\n"), output.points[0].value)
    };
    let ring = run("Ring").1;
    for algorithm in ["CollnetChain", "CollnetDirect", "NVLS"] {
        let (remarks, value) = run(algorithm);
        assert!(remarks.to_lowercase().contains(&algorithm.to_lowercase()), "{algorithm}: {remarks}");
        let ring = if algorithm == "CollnetChain" { 133.0 } else { ring };
        assert!(value > 0.0 && value < 1.1 * ring, "{algorithm}: {value}, ring {ring}");
    }
}

#[test]
fn nccl_says_when_switches_do_not_reduce() {
    let catalog = Catalog::embedded().unwrap();
    let mut parts = catalog.target("azure-ndh100v5").unwrap();
    if let Some(switch) = &mut parts.switch {
        switch.aggregation = None;
    }
    let output = on_gpus(&parts, 2, "all_reduce_perf -b 1M -e 1M -n 2 --env NCCL_COLLNET_ENABLE=1");
    let remarks = output.remarks.join("\n");
    assert!(remarks.contains("NCCL_COLLNET_ENABLE=1 finds no switches that reduce"), "{remarks}");
}
