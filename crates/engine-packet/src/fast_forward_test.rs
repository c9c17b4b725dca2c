//! Runs that leave steady states out, against the same runs packet by packet.

use fabriscope_catalog::Catalog;
use fabriscope_engine::{Cluster, FastForward, Loss, Run, Service, Skipped, Unsteady};
use fabriscope_schedule::{Builder, OpKind, Schedule};
use fabriscope_units::{Bytes, Span, Time};

use crate::tests::cluster;
use crate::{Scenario, Transfers};

const MIB: u64 = 1 << 20;

fn scenario(transfers: Transfers, fast_forward: FastForward) -> Scenario {
    Scenario { transfers, fast_forward, times: true, ..Scenario::default() }
}

/// The run packet by packet, and the run that skips.
fn both(cluster: &Cluster, schedule: &Schedule, transfers: Transfers) -> (Run, Run, Skipped) {
    let run = |fast_forward| scenario(transfers, fast_forward).run(cluster, schedule, 1).expect("it ends");
    let (exact, mut run) = (run(FastForward::Never), run(FastForward::Steady));
    assert_eq!(exact.skipped, None);
    let skipped = run.skipped.take().expect("it says what it skipped");
    (exact, run, skipped)
}

/// How far the longest operations are apart, as a share.
fn apart(exact: &Run, run: &Run) -> f64 {
    let took = |times: &fabriscope_engine::OpTimes| times.ended.since(times.started).as_ps() as f64;
    exact.ops.iter().zip(&run.ops).map(|(exact, run)| (took(exact) - took(run)).abs() / took(exact).max(1.0)).fold(0.0, f64::max)
}

/// A cluster with a line more, over base `base`.
fn on(base: &str, lines: &str) -> Cluster {
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let text = format!("name = \"mine\"\nbase = \"{base}\"\n{lines}\n");
    let parsed = catalog.parse_cluster("mine.toml", &text).expect("the cluster is sound");
    Cluster::new(catalog.resolve(&parsed, None).expect("its parts are there")).expect("it can be wired")
}

fn leaves(layer: &str, routing: &str) -> Cluster {
    cluster("topology.leaf_spine = { leaves = 4, down = 4, spines = 4 }", 16, layer, routing)
}

/// Every rank to the one four further on: all links between leaves and spines are used evenly.
fn shift(bytes: u64, kind: impl Fn(u32, Bytes) -> OpKind) -> Schedule {
    let mut builder = Builder::new(16);
    for rank in 0..16 {
        let (to, kind) = ((rank + 4) % 16, kind((rank + 4) % 16, Bytes(bytes)));
        builder.op(rank, kind);
        if let OpKind::Send { tag, .. } = kind {
            builder.recv(to, rank, Bytes(bytes), tag);
        }
    }
    builder.build().expect("sound")
}

fn send(to: u32, bytes: Bytes) -> OpKind {
    OpKind::Send { to, bytes, tag: 1 }
}
fn put(to: u32, bytes: Bytes) -> OpKind {
    OpKind::Put { to, bytes }
}

/// Each transport, in each order: a shorter message is delivered and completes at both ends, at the time of the whole one.
#[test]
fn every_transport_ends_as_packet_by_packet() {
    let rc = Transfers::default();
    let any = Transfers { any_order: true, spray: true, ..rc };
    let over = |service| Transfers { service, ..rc };
    let ethernet = |lines: &str| on("lab-roce-128", lines);
    let cases = [
        ("RC in order, InfiniBand", leaves("infiniband", "d_mod_k"), rc),
        ("RC in any order, InfiniBand", leaves("infiniband", "spray"), any),
        ("RC in order, RoCE", leaves("roce_v2", "d_mod_k"), rc),
        ("RC in any order, DCQCN", ethernet("routing = \"spray\"\ncongestion = \"dcqcn\""), any),
        ("UET", ethernet("routing = \"spray\"\nflow_control = \"lossy\"\ncongestion = \"nscc\""), over(Service::Uet)),
        ("UET in order", ethernet("routing = \"d_mod_k\""), over(Service::UetRod)),
        ("SRD", ethernet("routing = \"spray\""), over(Service::Srd)),
    ];
    for (name, cluster, transfers) in &cases {
        for kind in [send, put] {
            if transfers.service == Service::Srd && kind(0, Bytes(1)) != put(0, Bytes(1)) {
                continue; // SENDs of SRD are one packet
            }
            let schedule = shift(20 * MIB + 777, kind);
            let (exact, run, skipped) = both(cluster, &schedule, *transfers);
            let what = format!("{name}: {skipped:?}");
            assert!(skipped.jumps > 0 && skipped.packets > 0, "{what}");
            assert_eq!(run.stats.bytes_delivered, exact.stats.bytes_delivered, "{what}");
            assert_eq!((run.stats.messages, run.stats.drops), (exact.stats.messages, 0), "{what}");
            assert!(apart(&exact, &run) < 0.01, "{what}: {}", apart(&exact, &run));
            assert!(run.stats.events * 2 < exact.stats.events, "{what}: {} of {}", run.stats.events, exact.stats.events);
            let near = |a: u64, b: u64| a.abs_diff(b) * 50 < b;
            assert!(near(run.stats.packets, exact.stats.packets) && near(run.stats.packet_hops, exact.stats.packet_hops), "{what}");
        }
    }
}

/// A message alone repeats itself packet by packet: its end is that of the exact run to the time of one packet.
#[test]
fn a_periodic_run_ends_within_a_packet() {
    let cluster = leaves("infiniband", "d_mod_k");
    let mut builder = Builder::new(16);
    builder.put(0, 12, Bytes(64 * MIB + 5));
    let (exact, run, skipped) = both(&cluster, &builder.build().expect("sound"), Transfers::default());
    // 4 KiB and 30 B of headers at 400 Gb/s take less than 84 ns.
    let apart = exact.end.max(run.end).since(exact.end.min(run.end));
    assert!(apart < Span::from_ns(84), "{apart}: {skipped:?}");
    assert!(skipped.span * 10 > (exact.end - Time::ZERO) * 9, "{skipped:?}");
}

/// Computations end at their times although what is simulated before them is less.
#[test]
fn computations_end_the_skip() {
    let cluster = leaves("infiniband", "d_mod_k");
    let mut builder = Builder::new(16);
    builder.put(0, 12, Bytes(64 * MIB));
    // In the middle of the message another begins that shares its last link.
    let think = builder.compute(4, Span::from_us(700));
    let late = builder.put(4, 12, Bytes(16 * MIB));
    builder.requires(4, late, think);
    let _ = builder.compute(5, Span::from_us(5000));
    let (exact, run, skipped) = both(&cluster, &builder.build().expect("sound"), Transfers::default());
    assert!(skipped.jumps >= 2, "{skipped:?}");
    assert!(apart(&exact, &run) < 0.01, "{skipped:?}");
    assert_eq!(run.ops[1].ended, exact.ops[1].ended, "a computation takes what it takes");
    assert_eq!(run.end, exact.end, "5 ms, long after all messages");
}

/// An incast under DCQCN swings: it is recognised and nothing is skipped while it does.
#[test]
fn an_incast_that_swings_is_not_skipped() {
    let cluster = on("lab-roce-128", "congestion = \"dcqcn\"");
    let mut builder = Builder::new(128);
    for rank in 1..9 {
        builder.put(rank * 8, 0, Bytes(2 * MIB));
    }
    let (exact, run, skipped) = both(&cluster, &builder.build().expect("sound"), Transfers::default());
    assert_eq!((skipped.jumps, skipped.span), (0, Span::ZERO), "{skipped:?}");
    assert!(skipped.windows > 5 && skipped.most().is_some_and(|(reason, _)| reason == Unsteady::Control), "{skipped:?}");
    assert_eq!((exact.ops, exact.end), (run.ops, run.end), "packet by packet");
}

/// The same input skips the same.
#[test]
fn skipping_is_deterministic() {
    let cluster = leaves("infiniband", "spray");
    let transfers = Transfers { any_order: true, spray: true, ..Transfers::default() };
    let run = || scenario(transfers, FastForward::Steady).run(&cluster, &shift(16 * MIB, send), 3).expect("it ends");
    assert_eq!(run(), run());
}

/// What looks at single packets or times refuses, and says why.
#[test]
fn runs_that_cannot_skip_say_so() {
    let (cluster, schedule) = (leaves("infiniband", "d_mod_k"), shift(MIB, put));
    let steady = || scenario(Transfers::default(), FastForward::Steady);
    let over_uc = Transfers { service: Service::Uc, ..Transfers::default() };
    let cases = [
        (Scenario { loss: Loss::Random(1), ..steady() }, "faults"),
        (Scenario { link_loads: true, ..steady() }, "links"),
        (Scenario { series: Some(Span::from_us(5)), ..steady() }, "series"),
        (scenario(over_uc, FastForward::Steady), "UC"),
    ];
    for (scenario, why) in cases {
        let schedule = if why == "UC" { shift(MIB, send) } else { schedule.clone() };
        let exact = Scenario { fast_forward: FastForward::Never, ..scenario.clone() }.run(&cluster, &schedule, 1).expect("it ends");
        let run = scenario.run(&cluster, &schedule, 1).expect("it ends");
        let refused = run.skipped.as_ref().and_then(|skipped| skipped.refused.clone()).unwrap_or_default();
        assert!(refused.contains(why), "{why}: {refused}");
        assert_eq!(Run { skipped: None, ..run }, exact, "{why}");
    }
}
