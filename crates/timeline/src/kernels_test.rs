//! Kernels as Kineto and NCCL Inspector write them, checked against bandwidths worked out by hand.

use fabriscope_node::Kernel;
use fabriscope_units::{Bytes, Span, Time};
use serde_json::Value;

use crate::kernel_log::KernelRun;
use crate::places::Places;
use crate::{inspector, kineto};

fn run(rank: u32, operation: &'static str, us: u64) -> KernelRun {
    let kernel = Kernel {
        gpu: rank,
        operation,
        choice: Some(("Ring", "Simple")),
        datatype: "half",
        element: 2,
        count: 500_000,
        elements: if operation == "AllGather" { (500_000, 2_000_000) } else { (500_000, 500_000) },
        exchanges: Vec::new(),
        ranks: 4,
        nodes: 1,
        sequence: 0,
    };
    KernelRun { rank, node: 0, begun: Time::from_ps(1_500_000), done: Time::from_ps(1_500_000) + Span::from_us(us), kernel }
}

fn group(rank: u32) -> KernelRun {
    let mut run = run(rank, "SendRecv", 10);
    run.kernel.choice = None;
    run.kernel.exchanges = vec![(rank, true, Bytes(9)), (1 - rank, true, Bytes(1_000_000)), (1 - rank, false, Bytes(1_000_000))];
    run
}

fn lines(runs: &[KernelRun]) -> Vec<Value> {
    let mut text = Vec::new();
    inspector::json_lines(runs, &Places::default(), &mut text).unwrap();
    String::from_utf8(text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// 1 MB of a rank in 100 us: 10 GB/s; of an all-reduce of 4 ranks 2 · 3/4 of that on the bus; of an all-gather 4 MB move, 3/4 of them on the bus.
#[test]
fn inspector_counts_bandwidths_as_the_plugin() {
    let found = lines(&[run(0, "AllReduce", 100), run(0, "AllGather", 100)]);
    for (line, (coll, number, algorithm, bus)) in found.iter().zip([("AllReduce", 1, 10.0, 15.0), ("AllGather", 2, 40.0, 30.0)]) {
        let perf = &line["coll_perf"];
        assert_eq!(
            (perf["coll"].as_str(), perf["coll_sn"].as_u64(), perf["coll_exec_time_us"].as_u64()),
            (Some(coll), Some(number), Some(100))
        );
        assert_eq!((perf["coll_algo"].as_str(), perf["coll_proto"].as_str()), (Some("RING"), Some("SIMPLE")));
        assert_eq!(perf["coll_msg_size_bytes"].as_u64(), Some(1_000_000));
        assert!(
            (perf["coll_algobw_gbs"].as_f64().unwrap() - algorithm).abs() < 1e-9
                && (perf["coll_busbw_gbs"].as_f64().unwrap() - bus).abs() < 1e-9
        );
    }
}

/// A group of sends and receives is a record for each message to another rank: 1 MB in 10 us.
#[test]
fn inspector_has_messages_of_groups() {
    let found = lines(&[group(0)]);
    let seen: Vec<_> = found
        .iter()
        .map(|line| &line["p2p_perf"])
        .map(|p2p| (p2p["p2p"].as_str().unwrap(), p2p["p2p_peer"].as_u64(), p2p["p2p_busbw_gbs"].as_f64()))
        .collect();
    assert_eq!(seen, [("Send", Some(1), Some(100.0)), ("Recv", Some(1), Some(100.0))]);
}

/// The metrics of NVIDIA's dashboard: times have the mean of 100 and 400 us, bandwidths the geometric mean of 15 and 3.75 GB/s, 7.5.
#[test]
fn metrics_are_means_of_buckets() {
    let mut text = Vec::new();
    inspector::metrics(&[run(0, "AllReduce", 100), run(0, "AllReduce", 400), group(1)], &Places::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let values: Vec<(&str, f64)> =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| (line, line.rsplit(' ').next().unwrap().parse().unwrap())).collect();
    let of = |metric: &str| values.iter().find(|(line, _)| line.starts_with(&format!("{metric}{{"))).unwrap();
    let (line, bandwidth) = of(inspector::METRICS[0]);
    assert!((bandwidth - 7.5).abs() < 1e-9, "{bandwidth}");
    for label in [
        "collective=\"AllReduce\"",
        "message_size=\"976-977KB\"",
        "algo_proto=\"RING_SIMPLE\"",
        "n_nodes=\"1\"",
        "nranks=\"4\"",
        "slurm_job_id=",
    ] {
        assert!(line.contains(label), "{line}");
    }
    assert!((of(inspector::METRICS[1]).1 - 250.0).abs() < 1e-9);
    assert!(of(inspector::METRICS[2]).0.contains("p2p_operation=\"Recv\"") && (of(inspector::METRICS[3]).1 - 10.0).abs() < 1e-9);
}

#[test]
fn kineto_has_the_arguments_of_collectives() {
    let mut text = Vec::new();
    kineto::write(&[run(0, "AllGather", 100), run(1, "AllGather", 100)], &Places::default(), &mut text).unwrap();
    let trace: Value = serde_json::from_slice(&text).unwrap();
    let kernels: Vec<&Value> = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["cat"] == "kernel").collect();
    assert_eq!((kernels.len(), trace["distributedInfo"]["world_size"].as_u64()), (2, Some(4)));
    let (event, args) = (kernels[1], &kernels[1]["args"]);
    assert_eq!((event["ts"].as_f64(), event["dur"].as_f64(), event["pid"].as_u64()), (Some(1.5), Some(100.0), Some(1)));
    let words = ["Collective name", "dtype", "Process Group Name", "Process Group Ranks"].map(|name| args[name].as_str().unwrap());
    assert_eq!(words, ["_allgather_base", "Half", "0", "[0, 1, 2, 3]"]);
    let numbers = ["In msg nelems", "Out msg nelems", "Group size", "stream"].map(|name| args[name].as_u64().unwrap());
    assert_eq!(numbers, [500_000, 2_000_000, 4, event["tid"].as_u64().unwrap()]);
}
