//! Routing looked at from outside: packets are walked through the graph switch by switch, distances are counted by breadth first, and cycles
//! of waiting packets are looked for by taking away what waits for nothing, without the library's own suites.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fabriscope_fabric::routing::deadlock;
use fabriscope_fabric::{
    EndpointId, Fabric, Head, Idle, LinkId, LinkSpec, Links, Node, Route, Router, Routing, SwitchId, Topology, Vertex, path,
};
use fabriscope_units::{Rate, Span};

/// Small members of every family, some with parallel cables, tapered, or not full.
const FABRICS: [&str; 22] = [
    "single_switch = { endpoints = 6 }",
    "leaf_spine = { leaves = 4, spines = 2, down = 3, links_per_uplink = 2 }",
    "leaf_spine = { endpoints = 10, leaves = 4, spines = 3, down = 3 }",
    "fat_tree = { levels = 2, radix = 8 }",
    "fat_tree = { levels = 3, radix = 4 }",
    "fat_tree = { levels = 3, radix = 6, oversubscription = '2:1' }",
    "fat_tree = { endpoints = 20, levels = 3, radix = 6 }",
    "rail_optimised = { rails = 2, nodes = 3, units = 3 }",
    "director = { line_modules = 4, spine_modules = 2, ports = 4 }",
    "torus = { sizes = [5] }",
    "torus = { sizes = [4, 3] }",
    "torus = { sizes = [3, 3, 2], endpoints = 2 }",
    "mesh = { sizes = [4, 3] }",
    "mesh = { sizes = [2, 3, 2] }",
    "hypercube = { dimensions = 4 }",
    "hyperx = { sizes = [3, 4] }",
    "full_mesh = { switches = 5, cables = 2, endpoints = 2 }",
    "dragonfly = { groups = 5, switches = 4, endpoints = 1, global = 1 }",
    "dragonfly = { groups = 4, switches = 3, endpoints = 2, global = 2 }",
    "dragonfly = { groups = 3, switches = 4, endpoints = 2, global = 1, arrangement = 'relative' }",
    "dragonfly_plus = { groups = 3, leaves = 2, spines = 2, endpoints = 2, global = 2 }",
    "dragonfly_plus = { groups = 4, leaves = 3, spines = 3, endpoints = 2, global = 1 }",
];

fn build(topology: &str) -> Fabric {
    #[derive(serde::Deserialize)]
    struct File {
        topology: Topology,
    }
    let file: File = toml::from_str(&format!("[topology]\n{topology}")).unwrap_or_else(|error| panic!("{topology}: {error}"));
    let links = Links::uniform(LinkSpec::new(Rate::from_gbps(100), Span::from_ns(10)));
    file.topology.build(&links, 24).unwrap_or_else(|error| panic!("{topology}: {error}"))
}

/// All fabrics with all routings that take them.
fn routed() -> Vec<(String, Fabric, Routing, Router)> {
    let mut all = Vec::new();
    for topology in FABRICS {
        let fabric = build(topology);
        for routing in Routing::ALL {
            if let Ok(router) = Router::new(&fabric, *routing) {
                all.push((format!("{topology}, {}", routing.name()), fabric.clone(), *routing, router));
            }
        }
    }
    all
}

fn switch(fabric: &Fabric, vertex: Vertex) -> Option<SwitchId> {
    match fabric.graph.node(vertex) {
        Node::Switch(switch) => Some(switch),
        Node::Endpoint(_) => None,
    }
}

/// Links from `source` to every vertex, by breadth first over the links as they are.
fn distances(fabric: &Fabric, source: Vertex) -> BTreeMap<Vertex, u32> {
    let mut out: BTreeMap<Vertex, Vec<Vertex>> = BTreeMap::new();
    fabric.graph.links().iter().for_each(|link| out.entry(link.from).or_default().push(link.to));
    let mut reached = BTreeMap::from([(source, 0)]);
    let mut open = VecDeque::from([source]);
    while let Some(here) = open.pop_front() {
        for next in &out[&here] {
            if !reached.contains_key(next) {
                reached.insert(*next, reached[&here] + 1);
                // Endpoints pass nothing on.
                if switch(fabric, *next).is_some() {
                    open.push_back(*next);
                }
            }
        }
    }
    reached
}

fn vertex(fabric: &Fabric, endpoint: EndpointId) -> Vertex {
    fabric.graph.vertex(Node::Endpoint(endpoint))
}

#[test]
fn packets_arrive() {
    // Walked by hand: each hop leaves from where the packet is, nothing passes the same link twice, the end is the destination, within the
    // length that the routing promises.
    let all = routed();
    assert!(all.len() > 100, "{} routed fabrics", all.len());
    for (name, fabric, _, router) in &all {
        for source in fabric.graph.endpoints() {
            for dest in fabric.graph.endpoints().filter(|dest| *dest != source) {
                for entropy in [0, 1, 7, 0x9E37_79B9] {
                    let mut view = Idle::new();
                    let (mut link, mut vl, mut via) = (fabric.graph.uplink(source), 0, 0);
                    let mut passed = vec![link];
                    while let Some(at) = switch(fabric, fabric.graph.link(link).to) {
                        let hop = router.output(at, Head { dest, entropy, input: link, vl, via }, &mut view);
                        assert_eq!(fabric.graph.link(hop.link).from, fabric.graph.link(link).to, "{name}: a hop from elsewhere");
                        assert!(hop.vl < router.lanes(), "{name}: lane {} of {}", hop.vl, router.lanes());
                        assert!(!passed.contains(&hop.link), "{name}: {source:?} to {dest:?} passes a link twice");
                        (link, vl, via) = (hop.link, hop.vl, hop.via);
                        passed.push(link);
                        assert!(passed.len() as u32 <= router.longest(), "{name}: {} links, promised {}", passed.len(), router.longest());
                    }
                    assert_eq!(fabric.graph.link(link).to, vertex(fabric, dest), "{name}: {source:?} to {dest:?}");
                }
            }
        }
    }
}

#[test]
fn the_shortest_are_the_shortest() {
    // Paths of these are as long as breadth first says. Those of a dragonfly are minimal among those with one global cable, no more (Kim et al.
    // 2008), so they are compared on a full mesh of groups only where each switch reaches every group: not here.
    let shortest = [Routing::DModK, Routing::Ecmp, Routing::Spray, Routing::DimensionOrder, Routing::MinHop];
    let mut looked = 0;
    for (name, fabric, _, router) in routed().iter().filter(|(_, _, routing, _)| shortest.contains(routing)) {
        if name.starts_with("dragonfly") && !name.ends_with("min_hop") {
            continue;
        }
        looked += 1;
        for source in fabric.graph.endpoints() {
            let reached = distances(fabric, vertex(fabric, source));
            for dest in fabric.graph.endpoints().filter(|dest| *dest != source) {
                let links = path(fabric, router, source, dest, 3).len() as u32;
                assert_eq!(links, reached[&vertex(fabric, dest)], "{name}: {source:?} to {dest:?}");
            }
        }
    }
    assert!(looked > 40, "{looked} routed fabrics");
}

#[test]
fn the_diameter_is_the_farthest_pair() {
    for topology in FABRICS {
        let fabric = build(topology);
        let mut most = 0;
        for source in fabric.graph.endpoints() {
            let reached = distances(&fabric, vertex(&fabric, source));
            most = most.max(fabric.graph.endpoints().map(|dest| reached[&vertex(&fabric, dest)]).max().unwrap_or(0));
        }
        let said = fabric.coordinates.diameter();
        // A dragonfly says what its one global cable may need: two local ones beside it, whether or not a pair needs both.
        let exact = !topology.starts_with("dragonfly") && !topology.contains("endpoints = 1");
        assert!(most == said || !exact && most <= said, "{topology}: {most}, not {said}");
    }
}

/// A link with a lane: what a packet holds while it waits for the next.
type Channel = (LinkId, u8);

/// Every pair of channels of which a packet can hold one and want the other: all that `options` may answer, from every source.
fn dependencies(fabric: &Fabric, router: &Router) -> BTreeMap<Channel, BTreeSet<Channel>> {
    let mut wants: BTreeMap<Channel, BTreeSet<Channel>> = BTreeMap::new();
    for dest in fabric.graph.endpoints() {
        let mut seen = BTreeSet::new();
        let mut open: Vec<(LinkId, u8, u16)> =
            fabric.graph.endpoints().filter(|source| *source != dest).map(|source| (fabric.graph.uplink(source), 0, 0)).collect();
        while let Some((input, vl, via)) = open.pop() {
            let Some(at) = switch(fabric, fabric.graph.link(input).to) else { continue };
            if !seen.insert((input, vl, via)) {
                continue;
            }
            router.options(at, Head { dest, entropy: 0, input, vl, via }, &mut |hop| {
                wants.entry((input, vl)).or_default().insert((hop.link, hop.vl));
                open.push((hop.link, hop.vl, hop.via));
            });
        }
    }
    wants
}

/// Whether nothing is left when what waits for nothing is taken away again and again (Dally and Seitz 1987: an acyclic graph of channels).
fn acyclic(mut wants: BTreeMap<Channel, BTreeSet<Channel>>) -> bool {
    loop {
        let waiting: BTreeSet<Channel> = wants.keys().copied().collect();
        let before = wants.len();
        wants.retain(|_, wanted| wanted.iter().any(|channel| waiting.contains(channel)));
        if wants.is_empty() || wants.len() == before {
            return wants.is_empty();
        }
    }
}

#[test]
fn cycles_are_found_where_they_are() {
    let (mut free, mut stuck) = (0, Vec::new());
    for (name, fabric, routing, router) in &routed() {
        let wants = dependencies(fabric, router);
        let verdict = deadlock::check(fabric, router);
        let none = acyclic(wants.clone());
        assert_eq!(verdict.is_free(), none, "{name}: {}", verdict.describe(fabric));
        if none {
            free += 1;
        } else {
            stuck.push(routing.name());
        }
        // What the library shows for a cycle is one: each hop wants the next.
        if let deadlock::Verdict::Cycle(hops) = &verdict {
            for (place, hop) in hops.iter().enumerate() {
                let next = &hops[(place + 1) % hops.len()];
                assert!(wants[&(hop.link, hop.vl)].contains(&(next.link, next.vl)), "{name}: hop {place} does not wait for the next");
            }
        }
    }
    // Only what says so can deadlock: shortest paths on any graph, and what is built on them.
    stuck.sort_unstable();
    stuck.dedup();
    assert!(
        free > 100 && stuck.iter().all(|name| ["min_hop", "lmc", "ftree", "dnup", "sssp"].contains(name)),
        "{free} free, {stuck:?} not"
    );
    assert!(stuck.contains(&"min_hop"), "a ring of five with shortest paths has a cycle");
}

#[test]
fn what_a_switch_answers_is_among_its_options() {
    // The proof rests on it: `output` may never do what `options` leaves out, whatever the entropy.
    for (name, fabric, _, router) in &routed() {
        for source in fabric.graph.endpoints().step_by(2) {
            for dest in fabric.graph.endpoints().filter(|dest| *dest != source) {
                for entropy in 0..6 {
                    let (mut link, mut vl, mut via) = (fabric.graph.uplink(source), 0, 0);
                    while let Some(at) = switch(fabric, fabric.graph.link(link).to) {
                        let head = Head { dest, entropy, input: link, vl, via };
                        let hop = router.output(at, head, &mut Idle::new());
                        let mut offered = false;
                        router.options(at, head, &mut |option| offered |= option == hop);
                        assert!(offered, "{name}: {hop:?} of {head:?} at {at:?}");
                        (link, vl, via) = (hop.link, hop.vl, hop.via);
                    }
                }
            }
        }
    }
}

#[test]
fn trees_spread_shifts_without_contention() {
    // Zahavi 2012: on a full tree D-mod-K gives every shift permutation (source + k) links of its own in every direction.
    for topology in [
        "fat_tree = { levels = 2, radix = 8 }",
        "fat_tree = { levels = 3, radix = 6 }",
        "leaf_spine = { leaves = 4, spines = 4, down = 4 }",
    ] {
        let fabric = build(topology);
        let router = Router::new(&fabric, Routing::DModK).unwrap();
        let n = fabric.graph.endpoint_count();
        for shift in 1..n {
            let mut used = BTreeSet::new();
            for source in 0..n {
                for link in path(&fabric, &router, EndpointId(source), EndpointId((source + shift) % n), 0) {
                    assert!(used.insert(link), "{topology}, shift {shift}: two flows on one link");
                }
            }
        }
    }
}

#[test]
fn dimension_order_keeps_the_order() {
    // In a mesh the coordinates change one after the other: at most one turn into each dimension, so Σ |Δ| switches and never back.
    let fabric = build("mesh = { sizes = [4, 3] }");
    let router = Router::new(&fabric, Routing::DimensionOrder).unwrap();
    let n = fabric.graph.endpoint_count();
    for source in 0..n {
        for dest in (0..n).filter(|dest| *dest != source) {
            let switches: Vec<u32> = path(&fabric, &router, EndpointId(source), EndpointId(dest), 0)
                .iter()
                .filter_map(|link| switch(&fabric, fabric.graph.link(*link).to))
                .map(|switch| switch.0)
                .collect();
            // Which dimension each step moves in, by how far the numbers are apart.
            let steps: Vec<u32> = switches.windows(2).map(|pair| pair[0].abs_diff(pair[1])).collect();
            let mut turns = steps.clone();
            turns.dedup();
            assert!(turns.len() <= 2, "{source} to {dest}: {steps:?}");
            let up = switches.windows(2).filter(|pair| pair[0] < pair[1]).map(|pair| pair[1] - pair[0]).collect::<BTreeSet<_>>();
            let down = switches.windows(2).filter(|pair| pair[0] > pair[1]).map(|pair| pair[0] - pair[1]).collect::<BTreeSet<_>>();
            assert!(up.is_disjoint(&down), "{source} to {dest} turns back: {switches:?}");
        }
    }
}
