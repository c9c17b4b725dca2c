//! The flow engine says what the packet engine says, where both apply.
#![allow(missing_docs)]

use std::fmt::Write;

use fabriscope_catalog::Catalog;
use fabriscope_engine::agrees::{Agreement, cases, compare};
use fabriscope_engine::{Cluster, Engine, EngineError};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_engine_packet::{PacketEngine, Transfers};
use fabriscope_fabric::Routing;
use fabriscope_schedule::Builder;
use fabriscope_units::Bytes;

fn cluster(target: &str, routing: Routing) -> Cluster {
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
    let packets = PacketEngine { transfers: Transfers { any_order: true, ..Transfers::default() }, ..PacketEngine::default() };
    let clusters: Vec<Cluster> = CLUSTERS.iter().map(|(target, routing)| cluster(target, *routing)).collect();
    let mut table = String::new();
    for case in cases() {
        let _ = write!(table, "| {} | {:.0} % |", case.name, 100.0 * case.tolerance);
        for (cluster, (target, _)) in clusters.iter().zip(CLUSTERS) {
            let agreement = compare(cluster, &FlowEngine::default(), &packets, &case).unwrap();
            let Agreement { one, other, difference } = agreement;
            assert!(difference <= case.tolerance, "{target}, {}: flow {one}, packet {other}, {difference:.3}", case.name);
            let _ = write!(table, " {:+.1} % |", 100.0 * (one.as_ps() as f64 / other.as_ps() as f64 - 1.0));
        }
        table.push('\n');
    }
    let page = include_str!("../../../docs/models/flow-engine.md");
    assert!(page.contains(&table), "the table of docs/models/flow-engine.md is now\n{table}");
}

#[test]
fn what_it_cannot_do_is_said() {
    let adaptive = cluster("lab-dragonfly-72", Routing::Adaptive);
    let mut builder = Builder::new(2);
    let _ = builder.put(0, 1, Bytes(1000));
    let refused = FlowEngine::default().run(&adaptive, &builder.build().unwrap(), 1).unwrap_err();
    assert!(matches!(refused, EngineError::Unsupported { .. }), "{refused}");
}
