//! Barriers by triggered operations: closed forms, overlap, and what is refused.

use fabriscope_catalog::ResolvedCluster;
use fabriscope_engine::{Cluster, Engine, Job, RunOptions, timing};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_platform::{Layout, Target};
use fabriscope_tools::{Prepared, Tool, ToolOutput, UsageError};
use fabriscope_units::{Bytes, Remedy, Span};

use crate::machine::{parts, target};

fn prepared(parts: &ResolvedCluster, nodes: u32, line: &str) -> Result<Prepared, UsageError> {
    let mut words = line.split_whitespace().map(str::to_owned);
    let tool = Tool::by_name(&words.next().unwrap()).unwrap();
    let target = Target { layout: Layout { nodes, per_node: 1 }, ..target(parts) };
    tool.prepare(&words.collect::<Vec<_>>(), &target)
}

fn run(parts: &ResolvedCluster, nodes: u32, line: &str) -> ToolOutput {
    let prepared = prepared(parts, nodes, line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let seats = (0..prepared.mains.len() as u32).map(|rank| prepared.placing.seat(rank).0).collect();
    let job = Job::programs(seats, prepared.mains);
    let run = PacketEngine.run(&Cluster::new(parts.clone()).unwrap(), job, &RunOptions::default(), 1);
    run.unwrap_or_else(|error| panic!("{line}: {error}"));
    (prepared.finish)()
}

/// The numbers of the one row.
fn row(output: &ToolOutput) -> Vec<f64> {
    let line = output.text.lines().rfind(|line| !line.starts_with('#') && !line.is_empty()).unwrap();
    line.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// Twice as many ranks are one round more: trigger, send pipeline, wire and switch, receive pipeline, and the write of 8 B that has to leave
/// the adapter before it counts. The core builds two commands more, a send and a count, before the adapter has any. No core sees a message.
#[test]
fn a_round_is_the_trigger_the_adapters_and_the_wire() {
    let parts = parts("lab-bxi");
    let time = |nodes: u32| row(&run(&parts, nodes, "osu_barrier --offload triggered -i 1 -x 0"))[0];
    let costs = parts.sole().node.nic.costs();
    let adapters = costs.triggered.unwrap().latency + costs.tx_latency + costs.rx_latency + timing::port(&parts).write_time(Bytes(8));
    let cables = Span::from_ps(4 * parts.cable.propagation_per_metre.as_ps()); // two of 2 m
    let on_the_wire = cables + *parts.switch.as_ref().unwrap().latency + parts.sole().link.data_rate().time(Bytes(8 + 50));
    // 48 B of the send and 32 B of the count are built and fetched.
    let commands = timing::cpu(&parts).wqe_build * 2 + timing::port(&parts).tlp_rate.time(Bytes(48 + 32));
    let expected = (adapters + on_the_wire + commands).as_us_f64();
    for pair in [4, 8, 16].map(time).windows(2) {
        // Two decimals are printed.
        assert!((pair[1] - pair[0] - expected).abs() < 0.011, "{pair:?}, {expected}");
    }
}

#[test]
fn a_barrier_is_hidden_behind_computation() {
    let parts = parts("lab-bxi");
    let [by_adapter, by_host] = ["--offload triggered", ""].map(|how| row(&run(&parts, 8, &format!("osu_ibarrier {how} -i 5"))));
    // Overall, computed, pure, overlap.
    assert!(by_adapter[3] > 75.0 && by_host[3] < 50.0, "{by_adapter:?}, {by_host:?}");
    assert!(by_adapter[2] < by_host[2], "{by_adapter:?}, {by_host:?}");
}

#[test]
fn what_is_refused() {
    let refused = |on: &str, line: &str| {
        let parts = parts(on);
        let Err(error) = prepared(&parts, 4, line) else { panic!("{line} is taken") };
        (error.to_string(), error.remedy().unwrap_or_default().to_string())
    };
    let (what, remedy) = refused("ri2", "osu_ibarrier --offload triggered");
    assert!(what.contains("count no messages") && remedy.contains("lab-bxi"), "{what}: {remedy}");
    let (what, _) = refused("lab-bxi", "osu_ibcast --offload triggered");
    assert!(what.contains("barriers by themselves"), "{what}");
    let (what, _) = refused("lab-bxi", "osu_latency --offload triggered");
    assert!(what.contains("barriers by themselves"), "{what}");
}
