//! Closed forms of sweeps on a star of hosts and on a chain of switches.

use fabriscope_fabric::graph::Builder;
use fabriscope_fabric::{EndpointId, Graph, LinkSpec, Socket};
use fabriscope_units::{Bytes, Rate, Span, Time};

use crate::{Attribute, Costs, Method, Routed, Stage, Subnet, SweepKind, SweepReport, WIRE_BYTES, sweep};

/// 290 B at 100 Gb/s take 23.2 ns.
fn spec() -> LinkSpec {
    LinkSpec::new(Rate::from_gbps(100), DELAY)
}

fn wire() -> Span {
    spec().rate.time(WIRE_BYTES)
}

const DELAY: Span = Span::from_ns(500);
const LATENCY: Span = Span::from_ns(90);

/// `hosts` hosts at one switch with as many ports.
fn star(hosts: u16) -> Graph {
    let mut builder = Builder::new(u32::from(hosts), [hosts]).unwrap();
    for host in 0..hosts {
        let _ = builder.cable(Socket::endpoint(u32::from(host)), Socket::switch(0, host), &spec()).unwrap();
    }
    builder.build().unwrap()
}

/// A host at each end of a chain of switches with two ports.
fn chain(switches: u32) -> Graph {
    let mut builder = Builder::new(2, vec![2; switches as usize]).unwrap();
    let _ = builder.cable(Socket::endpoint(0), Socket::switch(0, 0), &spec()).unwrap();
    for switch in 1..switches {
        let _ = builder.cable(Socket::switch(switch - 1, 1), Socket::switch(switch, 0), &spec()).unwrap();
    }
    let _ = builder.cable(Socket::endpoint(1), Socket::switch(switches - 1, 1), &spec()).unwrap();
    builder.build().unwrap()
}

fn costs(window: u32) -> Costs {
    Costs {
        window,
        timeout: Span::from_us(200_000),
        retries: 3,
        handling: Span::from_us(7),
        switch_agent: Span::from_us(11),
        adapter_agent: Span::from_us(5),
        directed_hop: Span::from_us(2),
        buffer: 64,
        computing: Span::from_us(1000),
    }
}

/// Agents and the manager take no time: what is left is the wire.
fn wires_only(window: u32) -> Costs {
    let zero = Span::ZERO;
    Costs { handling: zero, switch_agent: zero, adapter_agent: zero, directed_hop: zero, computing: zero, ..costs(window) }
}

fn swept(graph: &Graph, costs: &Costs, kind: SweepKind) -> SweepReport {
    sweep(subnet(graph, Routed::Directed), costs, kind)
}

fn subnet(graph: &Graph, routed: Routed) -> Subnet<'_> {
    Subnet { graph, latencies: &[LATENCY], manager: EndpointId(0), service_levels: false, routed }
}

/// One datagram at a time, *n* hosts at a switch: 4 to the manager's own adapter, 4 to each of the others over two links and through the
/// switch's agent, *n* + 5 to the switch over one. They add up exactly.
#[test]
fn one_at_a_time_the_round_trips_add_up() {
    let (n, costs) = (8, costs(1));
    let report = swept(&star(8), &costs, SweepKind::Again);
    let link = wire() + DELAY;
    let own = costs.adapter_agent + costs.handling;
    let switch = link * 2 + costs.switch_agent + costs.handling;
    let host = link * 4 + costs.directed_hop * 2 + costs.adapter_agent + costs.handling;
    assert_eq!(report.took(Stage::Discovery), Some(own * 4 + switch * (n + 5) + host * (4 * (n - 1))));
    assert_eq!((report.endpoints, report.switches, report.dropped, report.retries), (8, 1, 0, 0));
    let count = |attribute| report.mads.get(&(attribute, Method::Get)).copied().unwrap_or(0);
    assert_eq!((count(Attribute::NodeInfo), count(Attribute::NodeDescription)), (n + 1, n + 1));
    // Ports 0 to n of the switch, and one of each host.
    assert_eq!((count(Attribute::PortInfo), count(Attribute::SwitchInfo)), (2 * n + 1, 1));
    // Nine nodes have addresses 1 to 9: one block of 64.
    assert_eq!(report.mads[&(Attribute::LinearForwarding, Method::Set)], 1);
    assert_eq!(report.took(Stage::Computing), Some(costs.computing));
    assert_eq!(report.end, report.stages.iter().fold(Time::ZERO, |end, stage| end + stage.took));
}

/// 12 blocks of a table, 4 in flight, a round trip of 2 (290 B + delay): 3 round trips, the last packet of each four behind three others.
#[test]
fn a_window_of_w_takes_n_over_w_round_trips() {
    let graph = star(703);
    let round_trip = (wire() + DELAY) * 2;
    for (window, waves) in [(1, 12), (2, 6), (4, 3), (12, 1)] {
        let report = swept(&graph, &wires_only(window), SweepKind::Again);
        assert_eq!(report.mads[&(Attribute::LinearForwarding, Method::Set)], 12);
        assert_eq!(report.took(Stage::Tables), Some(round_trip * waves + wire() * u64::from(window - 1)), "{window}");
    }
}

/// Where the manager takes longer for an answer than the window allows a datagram, it is what bounds the sweep: *n* · *h* and a round trip.
#[test]
fn a_slow_manager_bounds_the_sweep() {
    let graph = star(703);
    let costs = Costs { handling: Span::from_us(20), ..wires_only(4) };
    let report = swept(&graph, &costs, SweepKind::Again);
    assert_eq!(report.took(Stage::Tables), Some((wire() + DELAY) * 2 + costs.handling * 12));
}

/// An agent that holds one packet drops what comes while it serves: each drop costs a timeout, and all is answered in the end.
#[test]
fn an_agent_that_is_full_drops_and_the_manager_sends_again() {
    let graph = star(703);
    let costs = Costs { buffer: 1, switch_agent: Span::from_us(10), ..wires_only(4) };
    let report = swept(&graph, &costs, SweepKind::Again);
    assert!(report.dropped > 0 && report.retries == report.dropped, "{report:?}");
    assert_eq!(report.unanswered, 0);
    assert!(report.end > Time::ZERO + costs.timeout);
    assert_eq!(report.sent, report.total() + report.retries);
    // With room for as many as are in flight nothing is lost; without retries what was lost has no answer.
    let room = swept(&graph, &Costs { buffer: 4, ..costs }, SweepKind::Again);
    assert_eq!((room.dropped, room.retries), (0, 0));
    assert!(room.end.since(Time::ZERO) < costs.timeout);
    let once = swept(&graph, &Costs { retries: 0, ..costs }, SweepKind::Again);
    assert!(once.unanswered > 0 && once.retries == 0);
}

/// To a node behind *l* links a directed packet is stored *l* times and goes through *l* − 1 agents; by address it is stored once, and
/// goes through *l* − 1 crossbars. Both ways.
#[test]
fn packets_by_address_pass_agents_by() {
    let (switches, costs) = (5, costs(1));
    let graph = chain(switches);
    let [directed, by_address] =
        [Routed::Directed, Routed::ByAddress].map(|routed| sweep(subnet(&graph, routed), &costs, SweepKind::First));
    let (link, beyond) = (wire() + DELAY, |links: u64| links - 1);
    let directed_way = |links: u64| (link * links + costs.directed_hop * beyond(links)) * 2;
    let address_way = |links: u64| (wire() + DELAY * links + LATENCY * beyond(links)) * 2;
    let stage = |way: &dyn Fn(u64) -> Span| {
        let own = costs.adapter_agent + costs.handling;
        let to = |links: u64, agent: Span| way(links) + agent + costs.handling;
        // Two ports of each switch, and the far host behind all of them.
        let switches = (1..=5).map(|links| to(links, costs.switch_agent) * 2).fold(Span::ZERO, |sum, took| sum + took);
        own + switches + to(6, costs.adapter_agent)
    };
    assert_eq!(directed.took(Stage::Arm), Some(stage(&directed_way)));
    assert_eq!(by_address.took(Stage::Arm), Some(stage(&address_way)));
    // Nodes that are new are asked by directed routes in both.
    assert!(by_address.took(Stage::Discovery) < directed.took(Stage::Discovery) && by_address.mads == directed.mads);
    assert_eq!(directed.took(Stage::Activate), directed.took(Stage::Arm));
}

/// Tables of service levels of a switch: from each of its ports and port 0 to each port that is up.
#[test]
fn service_levels_are_pairs_of_ports() {
    let graph = star(8);
    let report = sweep(Subnet { service_levels: true, ..subnet(&graph, Routed::Directed) }, &costs(4), SweepKind::First);
    assert_eq!(report.mads[&(Attribute::SlToVlMapping, Method::Set)], 8 * 9 + 8);
    assert_eq!(report.mads[&(Attribute::VlArbitration, Method::Set)], 2 * (8 + 8));
    // Nine ports with that of management: one block of 16.
    assert_eq!(report.mads[&(Attribute::MulticastForwarding, Method::Set)], 1);
    assert!(report.busiest > Bytes::ZERO && report.answers == report.total());
}

/// The same sweep twice is the same; a manager that is not there finds nothing.
#[test]
fn sweeps_repeat_and_refuse_nobody() {
    let graph = chain(3);
    assert_eq!(swept(&graph, &costs(4), SweepKind::First), swept(&graph, &costs(4), SweepKind::First));
    let nobody = sweep(Subnet { manager: EndpointId(9), ..subnet(&graph, Routed::Directed) }, &costs(4), SweepKind::First);
    assert_eq!(nobody.total(), 0);
}
