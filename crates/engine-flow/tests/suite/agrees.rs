//! The flow engine says what the packet engine says, where both apply.

use std::fmt::Write;

use fabriscope_catalog::{Catalog, Stop};
use fabriscope_collectives::{Algorithm, Call, Kind};
use fabriscope_engine::agrees::{Agreement, cases, compare};
use fabriscope_engine::{Cluster, Connections, Engine, EngineError, Feature, Folding, Job, PacketOrder, RunOptions};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_engine_packet::PacketEngine;
use fabriscope_fabric::Routing;
use fabriscope_schedule::Builder;
use fabriscope_units::Bytes;

pub fn cluster(target: &str, routing: Routing) -> Cluster {
    let mut parts = Catalog::embedded().unwrap().target(target).unwrap();
    parts.routing = routing;
    Cluster::new(parts).unwrap()
}

const CLUSTERS: [(&str, Routing); 6] = [
    ("lab-16", Routing::DModK),
    ("lab-1024:64", Routing::DModK),
    ("lab-mixed-speeds", Routing::DModK),
    ("lab-rails", Routing::DModK),
    ("lab-dragonfly-72", Routing::Minimal),
    ("ri2:8", Routing::DModK),
];

/// Every case on every cluster within its tolerance; the table of docs/models/flow-engine.md is what was found.
#[test]
fn with_the_packet_engine() {
    let connections = Connections { order: PacketOrder::Any, ..Connections::default() };
    let clusters: Vec<Cluster> = CLUSTERS.iter().map(|(target, routing)| cluster(target, *routing)).collect();
    let mut table = String::new();
    for case in cases() {
        let _ = write!(table, "| {} | {:.0} % |", case.name, 100.0 * case.tolerance);
        for (cluster, (target, _)) in clusters.iter().zip(CLUSTERS) {
            let agreement = compare(cluster, &connections, (&FlowEngine, &PacketEngine), &case).unwrap();
            let Agreement { one, other, difference } = agreement;
            assert!(difference <= case.tolerance, "{target}, {}: flow {one}, packet {other}, {difference:.3}", case.name);
            let _ = write!(table, " {:+.1} % |", 100.0 * (one.as_ps() as f64 / other.as_ps() as f64 - 1.0));
        }
        table.push('\n');
    }
    let page = include_str!("../../../../docs/models/flow-engine.md");
    assert!(page.contains(&table), "the table of docs/models/flow-engine.md is now\n{table}");
}

/// Collective operations: rounds made on the way against packets of the same rounds.
#[test]
fn collectives_with_the_packet_engine() {
    let connections = Connections { order: PacketOrder::Any, ..Connections::default() };
    // A link for everybody; links that several share; a slot hardly faster than the wire.
    let clusters = [
        ("lab-16", Routing::DModK, 1.0),
        ("lab-1024:64", Routing::DModK, 1.0),
        ("lab-dragonfly-72", Routing::Minimal, 12.0),
        ("ri2:8", Routing::DModK, 8.0),
    ]
    .map(|(target, routing, tolerance)| (cluster(target, routing), tolerance));
    let cases = [
        (Kind::Barrier, "dissemination", 0),
        (Kind::Bcast, "binomial", 1 << 16),
        (Kind::Allreduce, "recursive_doubling", 1 << 16),
        (Kind::Allreduce, "ring", 1 << 20),
        (Kind::Allreduce, "rabenseifner", 1 << 20),
        (Kind::Alltoall, "pairwise", 1 << 16),
        (Kind::Alltoall, "posted", 1 << 14),
        (Kind::Alltoall, "bruck", 1 << 10),
    ];
    let mut table = String::new();
    for (operation, name, size) in cases {
        let _ = write!(table, "| {operation}, {name}, {} |", Bytes(size));
        for (cluster, tolerance) in &clusters {
            let ranks = cluster.ranks();
            let algorithm = Algorithm::named(operation, name).unwrap();
            let call = Call { operation, ranks, per_node: 1, root: 0, size: Bytes(size), width: Bytes(4) };
            let job = || Job { connections: connections.clone(), ..Job::rounds((call, algorithm.clone()), 1, Folding::Auto) };
            let run = |engine: &dyn Engine| engine.run(cluster, job(), &RunOptions::default(), 1).unwrap().end;
            let (flow, packet) = (run(&FlowEngine), run(&PacketEngine));
            let difference = 100.0 * (flow.as_ps() as f64 / packet.as_ps() as f64 - 1.0);
            assert!(difference.abs() <= *tolerance, "{}, {operation}, {name}: flow {flow}, packet {packet}", cluster.parts.name);
            let _ = write!(table, " {difference:+.1} % |");
        }
        table.push('\n');
    }
    let page = include_str!("../../../../docs/models/flow-engine.md");
    assert!(page.contains(&table), "the table of docs/models/flow-engine.md is now\n{table}");
}

#[test]
fn what_it_cannot_do_is_said() {
    let adaptive = cluster("lab-dragonfly-72", Routing::Adaptive);
    let mut builder = Builder::new(2);
    let _ = builder.put(0, 1, Bytes(1000));
    let job = Job::schedule(builder.build().unwrap(), Connections::default());
    let refused = FlowEngine.run(&adaptive, job, &RunOptions::default(), 1).unwrap_err();
    assert!(matches!(&refused, EngineError::Unsupported(refused) if refused.feature == Feature::Routing), "{refused}");
}

/// A run that nobody waits for ends with an error: of a schedule and of rounds.
#[test]
fn a_run_can_be_stopped() {
    let mut cluster = cluster("lab-16", Routing::DModK);
    cluster.parts.stop = Stop::new();
    let mut builder = Builder::new(2);
    let _ = builder.send(0, 1, Bytes(1 << 20), 0);
    let _ = builder.recv(1, 0, Bytes(1 << 20), 0);
    let schedule = builder.build().unwrap();
    let run =
        |cluster: &Cluster| FlowEngine.run(cluster, Job::schedule(schedule.clone(), Connections::default()), &RunOptions::default(), 1);
    assert!(run(&cluster).is_ok());
    cluster.parts.stop.set();
    assert!(matches!(run(&cluster), Err(EngineError::Stopped { .. })));
}
