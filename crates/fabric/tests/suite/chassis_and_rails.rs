//! Trees whose endpoints or switches stand otherwise: rails, and crossbars of a chassis.

use fabriscope_fabric::routing::delivers;
use fabriscope_fabric::topology::{Director, RailOptimised, conforms};
use fabriscope_fabric::{Counts, EndpointId, Fabric, LinkSpec, Links, Node, Router, Routing, SwitchId, Topology, switch_hops};
use fabriscope_units::{Rate, Span};
use proptest::prelude::*;

fn build(topology: &Topology, radix: u32) -> Fabric {
    let fabric = topology.build(&Links::uniform(LinkSpec::new(Rate::from_gbps(400), Span::from_ns(25))), radix).unwrap();
    conforms(&fabric).unwrap();
    fabric
}

#[test]
fn a_chassis_of_144_ports() {
    // 24-port crossbars: 12 line modules with 12 ports out, 6 spine modules, 2 links each: 144 cables inside.
    let fabric = build(&Topology::Director(Director::default()), 24);
    assert_eq!(fabric.counts(), Counts { endpoints: 144, switches: 18, cables: 144 + 144 });
    assert_eq!(fabric.name(Node::Switch(SwitchId(0))), "line module 1");
    assert_eq!(fabric.name(Node::Switch(SwitchId(17))), "spine module 6");
    // A crossbar is non-blocking; the chassis is for shifts: each of the 144 links up carries one of 144 flows.
    let router = Router::new(&fabric, Routing::DModK).unwrap();
    for shift in [1, 12, 13, 72, 143] {
        let mut load = vec![0; fabric.graph.link_count() as usize];
        for from in 0..144 {
            fabriscope_fabric::path(&fabric, &router, EndpointId(from), EndpointId((from + shift) % 144), 0)
                .into_iter()
                .for_each(|link| load[link.index()] += 1);
        }
        assert_eq!(load.iter().max(), Some(&1), "shift by {shift}");
    }
}

#[test]
fn a_unit_of_32_nodes_with_8_rails() {
    let fabric = build(&Topology::RailOptimised(RailOptimised { nodes: Some(32), ..RailOptimised::default() }), 64);
    // 8 leaves of 32 nodes, 32 spines with one cable to each leaf.
    assert_eq!(fabric.counts(), Counts { endpoints: 256, switches: 8 + 32, cables: 256 + 256 });
    assert_eq!(fabric.name(Node::Switch(SwitchId(3))), "leaf of rail 3 in unit 0");
    for routing in [Routing::DModK, Routing::Ecmp, Routing::Spray] {
        let router = Router::new(&fabric, routing).unwrap();
        let hops = |from: u32, to: u32| switch_hops(&fabric, &router, EndpointId(from), EndpointId(to), 0);
        // Rail 5 of node 0 to rail 5 of node 31: one switch; to rail 6 of the same node: three.
        assert_eq!((hops(5, 31 * 8 + 5), hops(5, 6), hops(5, 31 * 8 + 6)), (1, 3, 3), "{routing}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_routing_delivers(rails in 1u32..=4, nodes in 1u32..=6, units in 1u32..=3, cables in 1u32..=2, lines in 1u32..=6, spines in 1u32..=4) {
        let spread = RailOptimised { rails: Some(rails), nodes: Some(nodes), units: Some(units), spines: Some(spines), links_per_uplink: Some(cables), ..RailOptimised::default() };
        let chassis = Director { line_modules: Some(lines), spine_modules: Some(spines), ports: Some(nodes), backplane_links: Some(cables), ..Director::default() };
        for topology in [Topology::RailOptimised(spread), Topology::Director(chassis)] {
            let fabric = build(&topology, 64);
            for routing in [Routing::DModK, Routing::Ecmp, Routing::Spray, Routing::MinHop, Routing::UpDown, Routing::Adaptive] {
                let delivery = delivers(&fabric, &Router::new(&fabric, routing).unwrap());
                prop_assert!(delivery.is_ok(), "{routing} on {topology:?}: {delivery:?}");
            }
        }
    }
}
