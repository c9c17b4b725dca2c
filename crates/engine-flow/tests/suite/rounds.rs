//! Ranks that make their rounds as they go: the same as a schedule of them, and the same folded as not.

use crate::agrees::cluster;
use fabriscope_collectives::{Algorithm, Call, Kind, Message, Round, Rounds, schedule};
use fabriscope_engine::{Cluster, Connections, Engine, EngineError, Folding, Job, Run, RunOptions};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_fabric::{Builder, LinkSpec, Routing, Socket};
use fabriscope_units::Remedy;
use fabriscope_units::{Bytes, Rate, Time};

/// The same with one cable, of those between switches, at a quarter of its rate.
fn slowed(mut cluster: Cluster) -> Cluster {
    let graph = &cluster.fabric.graph;
    let ports = graph.switches().map(|switch| graph.port_count(switch));
    let mut builder = Builder::new(graph.endpoint_count(), ports).unwrap();
    let trunk = graph.links().iter().step_by(2).position(|link| link.from.0.min(link.to.0) >= graph.endpoint_count()).unwrap();
    for (number, link) in graph.links().iter().step_by(2).enumerate() {
        let rate = if number == trunk { Rate::from_bps(link.rate.as_bps() / 4) } else { link.rate };
        let (from, to) =
            (Socket { node: graph.node(link.from), port: link.from_port }, Socket { node: graph.node(link.to), port: link.to_port });
        builder.cable(from, to, &LinkSpec::new(rate, link.delay)).unwrap();
    }
    cluster.fabric.graph = builder.build().unwrap();
    cluster
}

fn call(operation: Kind, ranks: u32, per_node: u32, size: u64) -> Call {
    Call { operation, ranks, per_node, root: 0, size: Bytes(size), width: Bytes(4) }
}

fn run(cluster: &Cluster, call: &Call, algorithm: &Algorithm, folding: Folding) -> Run {
    let job = Job::rounds((*call, algorithm.clone()), call.per_node, folding);
    FlowEngine.run(cluster, job, &RunOptions::default(), 1).unwrap()
}

/// Classes of ranks, where one rank ran for each.
fn classes(run: &Run) -> Option<u32> {
    run.folded.and_then(|folded| folded.classes)
}

/// By how many picoseconds the ends of ranks differ at most.
fn apart(one: &[Time], other: &[Time]) -> u64 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(one, other)| one.as_ps().abs_diff(other.as_ps())).max().unwrap_or(0)
}

const CASES: [(Kind, &str, u64); 17] = [
    (Kind::Barrier, "dissemination", 0),
    (Kind::Barrier, "tree", 0),
    (Kind::Bcast, "binomial", 100_000),
    (Kind::Bcast, "scatter_ring", 100_000),
    (Kind::Bcast, "pipeline", 100_000),
    (Kind::Allreduce, "ring", 1 << 20),
    (Kind::Allreduce, "ring", 100_004),
    (Kind::Allreduce, "recursive_doubling", 1 << 18),
    (Kind::Allreduce, "rabenseifner", 1 << 20),
    (Kind::Allreduce, "double_binary_tree", 1 << 20),
    (Kind::Allgather, "bruck", 40_000),
    (Kind::Allgather, "ring", 40_000),
    (Kind::Alltoall, "pairwise", 40_000),
    (Kind::Alltoall, "posted", 40_000),
    (Kind::Alltoall, "bruck", 4_000),
    (Kind::ReduceScatter, "recursive_halving", 1 << 20),
    (Kind::Scan, "recursive_doubling", 10_000),
];

/// One rank for each adapter: a schedule says the same.
#[test]
fn a_schedule_of_the_rounds_takes_as_long() {
    let clusters = [
        (cluster("lab-16", Routing::DModK), vec![2, 7, 16]),
        (cluster("lab-1024:64", Routing::Ecmp), vec![33]),
        (cluster("lab-dragonfly-72", Routing::Minimal), vec![36]),
        (cluster("ri2:8", Routing::DModK), vec![8]),
        (cluster("lab-torus-4x4x4", Routing::DimensionOrder), vec![64]),
    ];
    for (cluster, counts) in &clusters {
        for ranks in counts {
            for (operation, name, size) in CASES {
                let (call, algorithm) = (call(operation, *ranks, 1, size), Algorithm::named(operation, name).unwrap());
                let schedule = schedule(*ranks, |rank| algorithm.rounds(&call, rank)).unwrap();
                let known = FlowEngine.run(cluster, Job::schedule(schedule, Connections::default()), &RunOptions::default(), 1).unwrap();
                let found = run(cluster, &call, &algorithm, Folding::Never);
                let (mut one, mut other) = (known.stats, found.stats);
                (one.events, other.events) = (0, 0);
                assert_eq!(one, other, "{}, {ranks} ranks, {operation} {name}", cluster.parts.name);
                assert_eq!(known.ranks, found.ranks, "{}, {ranks} ranks, {operation} {name}", cluster.parts.name);
            }
        }
    }
}

/// Folded and not, with symmetry and without: ranks that do not divide, rails, taper, links of other speeds.
#[test]
fn folding_changes_nothing() {
    let clusters = [
        (cluster("lab-16", Routing::DModK), vec![(2, 1), (13, 1), (16, 1), (32, 2), (30, 3)]),
        (cluster("lab-1024:64", Routing::DModK), vec![(64, 1), (48, 1), (63, 1), (128, 2)]),
        (cluster("lab-1024:64", Routing::Spray), vec![(32, 1)]),
        (cluster("lab-mixed-speeds", Routing::DModK), vec![(16, 1)]),
        (slowed(cluster("lab-1024:64", Routing::DModK)), vec![(64, 1)]),
        (cluster("lab-dragonfly-72", Routing::Minimal), vec![(72, 1), (40, 1)]),
        (cluster("lab-rails", Routing::DModK), vec![(64, 8), (60, 8), (24, 2)]),
        (cluster("azure-ndh100v5", Routing::DModK), vec![(64, 8), (12, 4)]),
        (cluster("csd3-opa:8", Routing::DModK), vec![(64, 8), (40, 16)]),
        (cluster("csd3-opa:96", Routing::DModK), vec![(96, 1), (80, 1)]),
    ];
    let mut compared = 0;
    for (cluster, counts) in &clusters {
        for (ranks, per_node) in counts {
            let two_level = [
                (Kind::Allreduce, "two_level", 1 << 20),
                (Kind::Allreduce, "multi_leader(2, ring)", 1 << 20),
                (Kind::Alltoall, "two_level", 4_000),
                (Kind::Alltoall, "partners", 4_000),
            ];
            let cases = CASES.into_iter().chain(two_level.into_iter().filter(|_| *per_node > 1));
            for (operation, name, size) in cases {
                let (call, algorithm) = (call(operation, *ranks, *per_node, size), Algorithm::named(operation, name).unwrap());
                let whole = run(cluster, &call, &algorithm, Folding::Never);
                let folded = run(cluster, &call, &algorithm, Folding::Always);
                let difference = apart(&whole.ranks, &folded.ranks);
                let classes = classes(&folded).unwrap();
                let what = format!("{}, {ranks} ranks, {per_node} a node, {operation} {name}: {classes} classes", cluster.parts.name);
                assert_eq!(
                    (whole.stats.messages, whole.stats.bytes_delivered),
                    (folded.stats.messages, folded.stats.bytes_delivered),
                    "{what}"
                );
                assert_eq!(difference, 0, "{what}: ps apart");
                compared += 1;
            }
        }
    }
    let page = include_str!("../../../../docs/models/flow-engine.md");
    assert!(page.contains(&format!("{compared} cases")), "docs/models/flow-engine.md: {compared} cases");
}

/// A slow cable is felt, by those who use it and those who wait for them.
#[test]
fn a_slow_cable_is_felt() {
    let (call, algorithm) = (call(Kind::Allreduce, 64, 1, 16 << 20), Algorithm::named(Kind::Allreduce, "ring").unwrap());
    let even = run(&cluster("lab-1024:64", Routing::DModK), &call, &algorithm, Folding::Auto);
    let slow = run(&slowed(cluster("lab-1024:64", Routing::DModK)), &call, &algorithm, Folding::Auto);
    assert_eq!((classes(&even), classes(&slow)), (Some(8), None));
    // 256 KiB take 5.3 us at 400 Gb/s; a quarter of the rate adds three times that to each of the 126 steps.
    let added = (slow.end - even.end).as_us_f64() / (126.0 * 5.3 * 3.0);
    assert!((0.8..1.1).contains(&added), "{} and {}", even.end, slow.end);
}

/// Who waits for whom, where a message never comes.
#[test]
fn a_job_that_cannot_end_says_who_waits() {
    let cluster = cluster("lab-16", Routing::DModK);
    let rounds = |rank: u32| -> Rounds {
        let message = |peer| Some(Message::empty(peer));
        Box::new((0..2).map(move |number| match (rank, number) {
            (0, 1) => Round::exchange(message(1), None),
            (0, _) => Round::exchange(None, message(1)),
            (_, 0) => Round::exchange(message(0), None),
            _ => Round::default(),
        }))
    };
    let run = |ranks: u32, folding| FlowEngine.run(&cluster, Job::rounds((ranks, rounds), 1, folding), &RunOptions::default(), 1);
    for folding in [Folding::Never, Folding::Always] {
        let stalled = run(2, folding).unwrap_err().in_full();
        assert!(stalled.contains("1 of 2 ranks still wait") && stalled.contains("rank 0: round 2 of messages from 1"), "{stalled}");
    }
    assert!(matches!(run(17, Folding::Auto), Err(EngineError::TooManyRanks { ranks: 17, .. })));
}
