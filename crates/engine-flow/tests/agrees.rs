//! The flow engine says what the packet engine says, where both apply.
#![allow(missing_docs)]

use fabriscope_catalog::Catalog;
use fabriscope_engine::agrees::{cases, compare};
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

#[test]
fn with_the_packet_engine() {
    let mut wrong = Vec::new();
    for (target, routing) in
        [("lab-16", Routing::DModK), ("lab-1024:64", Routing::DModK), ("lab-dragonfly-72", Routing::Minimal), ("ri2:8", Routing::DModK)]
    {
        let cluster = cluster(target, routing);
        let packets = PacketEngine { transfers: Transfers { any_order: true, ..Transfers::default() }, ..PacketEngine::default() };
        for case in cases() {
            let agreement = compare(&cluster, &FlowEngine::default(), &packets, &case).unwrap();
            let line = format!(
                "{target}, {}: flow {}, packet {}, {:.1} %",
                case.name,
                agreement.one,
                agreement.other,
                100.0 * agreement.difference
            );
            if agreement.difference > case.tolerance {
                wrong.push(line);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_it_cannot_do_is_said() {
    let adaptive = cluster("lab-dragonfly-72", Routing::Adaptive);
    let mut builder = Builder::new(2);
    let _ = builder.put(0, 1, Bytes(1000));
    let refused = FlowEngine::default().run(&adaptive, &builder.build().unwrap(), 1).unwrap_err();
    assert!(matches!(refused, EngineError::Unsupported { .. }), "{refused}");
}
