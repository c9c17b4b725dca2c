//! Routing of any fabric by its graph: tables as subnet managers compute them, and all shortest paths.

use std::collections::BTreeSet;

use fabriscope_fabric::routing::deadlock::{self, Verdict};
use fabriscope_fabric::routing::{Defect, Flowlet, Lmc, Load, delivers, forward, survey};
use fabriscope_fabric::topology::{CableError, CableList, FatTree, NamedCable, NamedSwitch, Oversubscription, TopologyError, conforms};
use fabriscope_fabric::{
    EndpointId, Fabric, LinkId, LinkSpec, Links, Node, Route, Router, Routing, RoutingError, SwitchId, Tables, Topology, path,
};
use fabriscope_fabric::{export, import};
use fabriscope_units::Remedy;
use fabriscope_units::{Rate, Span};
use proptest::prelude::*;

fn links() -> Links {
    Links::uniform(LinkSpec::new(Rate::from_gbps(100), Span::from_ns(25)))
}

fn cable(from: &str, to: &str) -> NamedCable {
    NamedCable { between: [from.to_owned(), to.to_owned()], count: None, rate: None, length: None }
}

/// Switches with `hosts[i]` endpoints each, and cables between switches.
fn list(hosts: &[u32], cables: &[(usize, usize)]) -> CableList {
    let mut list = CableList::default();
    for (switch, &count) in hosts.iter().enumerate() {
        list.switches.push(NamedSwitch { name: format!("s{switch}"), ports: None });
        for host in 0..count {
            list.endpoints.push(format!("h{switch}-{host}"));
            list.cables.push(cable(&format!("h{switch}-{host}"), &format!("s{switch}")));
        }
    }
    list.cables.extend(cables.iter().map(|(a, b)| cable(&format!("s{a}"), &format!("s{b}"))));
    list
}

fn build(hosts: &[u32], cables: &[(usize, usize)]) -> Fabric {
    Topology::Irregular(list(hosts, cables)).build(&links(), 64).unwrap()
}

pub(crate) fn ring(switches: usize) -> Fabric {
    let cables: Vec<_> = (0..switches).map(|switch| (switch, (switch + 1) % switches)).collect();
    build(&vec![1; switches], &cables)
}

fn torus(side: usize) -> Fabric {
    let at = |x: usize, y: usize| (y % side) * side + x % side;
    let places = (0..side).flat_map(|y| (0..side).map(move |x| (x, y)));
    let cables: Vec<_> = places.flat_map(|(x, y)| [(at(x, y), at(x + 1, y)), (at(x, y), at(x, y + 1))]).collect();
    build(&vec![1; side * side], &cables)
}

/// Connected multigraphs: a random tree over all switches, and more cables, parallel ones among them.
pub(crate) fn multigraphs() -> impl Strategy<Value = Fabric> {
    (2usize..14).prop_flat_map(|switches| {
        let hosts = proptest::collection::vec(0u32..3, switches);
        let parents = proptest::collection::vec(any::<prop::sample::Index>(), switches - 1);
        let more = proptest::collection::vec((0..switches, 0..switches), 0..20);
        (hosts, parents, more).prop_map(|(mut hosts, parents, more)| {
            hosts[0] = hosts[0].max(1);
            *hosts.last_mut().unwrap() += 1;
            let mut cables: Vec<_> = parents.iter().enumerate().map(|(child, parent)| (child + 1, parent.index(child + 1))).collect();
            cables.extend(more.into_iter().filter(|(a, b)| a != b));
            build(&hosts, &cables)
        })
    })
}

/// Switches on the shortest path between each pair of switches, by relaxation until nothing changes.
pub(crate) fn shortest(fabric: &Fabric) -> Vec<Vec<usize>> {
    let count = fabric.graph.switch_count() as usize;
    let mut hops = vec![vec![usize::MAX / 4; count]; count];
    (0..count).for_each(|switch| hops[switch][switch] = 1);
    for link in fabric.graph.links() {
        if let (Node::Switch(a), Node::Switch(b)) = (fabric.graph.node(link.from), fabric.graph.node(link.to)) {
            hops[a.index()][b.index()] = hops[a.index()][b.index()].min(2);
        }
    }
    for by in 0..count {
        for from in 0..count {
            for to in 0..count {
                hops[from][to] = hops[from][to].min(hops[from][by] + hops[by][to] - 1);
            }
        }
    }
    hops
}

pub(crate) fn home(fabric: &Fabric, endpoint: EndpointId) -> SwitchId {
    match fabric.graph.node(fabric.graph.link(fabric.graph.uplink(endpoint)).to) {
        Node::Switch(at) => at,
        Node::Endpoint(_) => unreachable!("no endpoints back to back here"),
    }
}

pub(crate) fn pairs(fabric: &Fabric) -> impl Iterator<Item = (EndpointId, EndpointId)> + '_ {
    fabric.graph.endpoints().flat_map(|src| fabric.graph.endpoints().map(move |dst| (src, dst))).filter(|(src, dst)| src != dst)
}

/// Delivers in all but freedom from deadlock, which shortest paths on one lane do not promise.
fn arrives(fabric: &Fabric, route: &impl Route) -> Result<(), TestCaseError> {
    match delivers(fabric, route) {
        Ok(_) => {}
        Err(Defect::Deadlock { .. }) => prop_assert!(route.proof().is_none()),
        Err(other) => prop_assert!(false, "{other}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn min_hop_and_port_order_take_shortest_paths(fabric in multigraphs(), bits in 0u8..3) {
        prop_assert_eq!(conforms(&fabric), Ok(()));
        let hops = shortest(&fabric);
        for routing in [Routing::MinHop, Routing::DimensionOrder, Routing::Lmc(Lmc { bits })] {
            let router = Router::new(&fabric, routing).unwrap();
            arrives(&fabric, &router)?;
            for (src, dst) in pairs(&fabric) {
                for entropy in 0..1 << bits {
                    let links = path(&fabric, &router, src, dst, entropy);
                    prop_assert_eq!(links.len(), hops[home(&fabric, src).index()][home(&fabric, dst).index()] + 1);
                }
            }
        }
    }

    #[test]
    fn up_down_never_goes_up_after_down(fabric in multigraphs(), root in any::<prop::sample::Index>()) {
        let router = Router::new(&fabric, Routing::UpDown).unwrap();
        let delivery = delivers(&fabric, &router);
        prop_assert!(delivery.is_ok(), "{:?}", delivery);

        // With one root, ranks are known here as well: distances from it, told apart by number.
        let root = SwitchId(root.index(fabric.graph.switch_count() as usize) as u32);
        let rank: Vec<(usize, usize)> = shortest(&fabric)[root.index()].iter().copied().zip(0..).collect();
        let tables = Tables::up_down(&fabric, 0, Some(&[root])).unwrap();
        let route = forward(&fabric, tables).unwrap();
        let verdict = deadlock::check(&fabric, &route);
        prop_assert!(verdict.is_free(), "{}", verdict.describe(&fabric));
        for (src, dst) in pairs(&fabric) {
            let links = path(&fabric, &route, src, dst, 0);
            let places = links.iter().filter_map(|link| match fabric.graph.node(fabric.graph.link(*link).to) {
                Node::Switch(at) => Some(rank[at.index()]),
                Node::Endpoint(_) => None,
            });
            let places: Vec<_> = places.collect();
            let ups: Vec<bool> = places.windows(2).map(|pair| pair[1] < pair[0]).collect();
            prop_assert!(ups.is_sorted_by(|before, after| before >= after), "{src} to {dst}: {ups:?}");
        }
    }

    #[test]
    fn all_shortest_paths_are_free_with_a_lane_for_each_hop(fabric in multigraphs()) {
        let hops = shortest(&fabric);
        for routing in [Routing::Ecmp, Routing::Spray, Routing::Adaptive, Routing::Flowlet(Flowlet { gap: Span::from_ns(500) })] {
            let router = Router::new(&fabric, routing).unwrap();
            let delivery = delivers(&fabric, &router);
            prop_assert!(delivery.is_ok(), "{} {:?}", routing, delivery);
            let verdict = deadlock::check(&fabric, &router);
            prop_assert!(verdict.is_free(), "{}", verdict.describe(&fabric));
            for (src, dst) in pairs(&fabric) {
                let links = path(&fabric, &router, src, dst, 3);
                prop_assert_eq!(links.len(), hops[home(&fabric, src).index()][home(&fabric, dst).index()] + 1);
            }
        }
    }

    #[test]
    fn ftree_routes_every_fat_tree(levels in 2u32..=3, radix in 4u32..=10, taper in 1u32..=3, missing in 0u32..10) {
        let ratio = Oversubscription::parse(&format!("{taper}:1")).unwrap();
        let family = FatTree { levels: Some(levels), oversubscription: Some(ratio), ..FatTree::default() };
        let Ok(full) = Topology::FatTree(family.clone()).build(&links(), radix) else { return Ok(()) };
        let endpoints = full.counts().endpoints.saturating_sub(missing).max(2);
        let fabric = Topology::FatTree(FatTree { endpoints: Some(endpoints), ..family }).build(&links(), radix).unwrap();
        let router = Router::new(&fabric, Routing::Ftree).unwrap();
        let delivery = delivers(&fabric, &router);
        prop_assert!(delivery.is_ok(), "{:?}", delivery);
    }
}

/// How many of the paths use each link.
fn load(fabric: &Fabric, paths: impl Iterator<Item = Vec<LinkId>>) -> Vec<u32> {
    let mut load = vec![0; fabric.graph.link_count() as usize];
    paths.flatten().for_each(|link| load[link.index()] += 1);
    load
}

#[test]
fn ftree_keeps_shifts_apart() {
    for (levels, radix) in [(2, 8), (3, 4), (3, 8)] {
        let fabric = Topology::FatTree(FatTree { levels: Some(levels), ..FatTree::default() }).build(&links(), radix).unwrap();
        let router = Router::new(&fabric, Routing::Ftree).unwrap();
        let count = fabric.graph.endpoint_count();
        for shift in 1..count {
            let flow = |src| path(&fabric, &router, EndpointId(src), EndpointId((src + shift) % count), 0);
            assert_eq!(load(&fabric, (0..count).map(flow)).into_iter().max(), Some(1), "shift {shift} of {count}");
        }
    }
}

#[test]
fn min_hop_deadlocks_on_rings_and_tori_and_the_cycle_is_named() {
    for switches in [5, 6, 9] {
        let fabric = ring(switches);
        let verdict = deadlock::check(&fabric, &Router::new(&fabric, Routing::MinHop).unwrap());
        let Verdict::Cycle(cycle) = &verdict else { panic!("min_hop on a ring of {switches}: {verdict:?}") };
        assert_eq!(cycle.len(), switches);
        let text = verdict.describe(&fabric);
        for switch in 0..switches {
            let (up, down) = (format!("s{switch} -> s{} ", (switch + 1) % switches), format!("s{} -> s{switch} ", (switch + 1) % switches));
            assert!(text.contains(&up) || text.contains(&down), "{text}");
        }
    }
    let fabric = torus(5);
    assert!(matches!(deadlock::check(&fabric, &Router::new(&fabric, Routing::MinHop).unwrap()), Verdict::Cycle(_)));
    assert!(matches!(delivers(&fabric, &Router::new(&fabric, Routing::MinHop).unwrap()), Err(Defect::Deadlock { .. })));
    // Up*/down* and a lane for each hop do not. The farthest switch of a 5 x 5 torus is 4 hops away.
    assert!(delivers(&fabric, &Router::new(&fabric, Routing::UpDown).unwrap()).is_ok());
    assert_eq!(Router::new(&fabric, Routing::Ecmp).unwrap().lanes(), 4);
}

#[test]
fn a_tree_needs_one_lane_and_long_rings_too_many() {
    let tree = Topology::FatTree(FatTree { levels: Some(3), ..FatTree::default() }).build(&links(), 8).unwrap();
    assert_eq!(Router::new(&tree, Routing::Adaptive).unwrap().lanes(), 1);
    assert_eq!(Router::new(&ring(30), Routing::Ecmp).unwrap().lanes(), 15);
    let error = Router::new(&ring(32), Routing::Ecmp).unwrap_err();
    assert_eq!(
        error.in_full(),
        "`ecmp` cannot route this fabric: its shortest paths have up to 16 hops between switches, each of which needs a lane of its own; \
         choose up_down, which needs one lane, or a routing made for the topology"
    );
}

#[test]
fn several_addresses_take_several_paths() {
    let fabric = Topology::FatTree(FatTree { levels: Some(2), ..FatTree::default() }).build(&links(), 8).unwrap();
    let router = Router::new(&fabric, Routing::Lmc(Lmc { bits: 2 })).unwrap();
    let ways: BTreeSet<_> = (0..16).map(|entropy| path(&fabric, &router, EndpointId(0), EndpointId(31), entropy)).collect();
    // Four spines, four addresses, one each.
    assert_eq!(ways.len(), 4);
    assert!(delivers(&fabric, &router).is_ok());
    assert!(matches!(Router::new(&fabric, Routing::Lmc(Lmc { bits: 8 })), Err(RoutingError::Cannot { .. })));
}

#[test]
fn destinations_are_spread_evenly_over_equal_ways() {
    let fabric = Topology::FatTree(FatTree { levels: Some(2), ..FatTree::default() }).build(&links(), 8).unwrap();
    for routing in [Routing::MinHop, Routing::UpDown, Routing::Ftree] {
        let router = Router::new(&fabric, routing).unwrap();
        let all = load(&fabric, pairs(&fabric).map(|(src, dst)| path(&fabric, &router, src, dst, 0)));
        for (number, link) in fabric.graph.links().iter().enumerate() {
            if let (Node::Switch(_), Node::Switch(_)) = (fabric.graph.node(link.from), fabric.graph.node(link.to)) {
                // 4 hosts of a leaf to 28 others by 4 uplinks.
                assert_eq!(all[number], 4 * 28 / 4, "{routing} on {number}");
            }
        }
    }
}

#[test]
fn what_is_no_fat_tree_is_told() {
    let same = build(&[2, 2, 0], &[(0, 2), (1, 2), (0, 1)]);
    let error = Router::new(&same, Routing::Ftree).unwrap_err().in_full();
    assert!(error.contains("it is no fat tree: s0 and s1 both have endpoints, and a cable between them"), "{error}");
    let high = build(&[2, 2, 0, 0], &[(0, 2), (1, 3), (2, 3)]);
    let error = Router::new(&high, Routing::Ftree).unwrap_err().in_full();
    assert!(error.contains("a cable joins s2 and s3, both 1 levels above the leaves"), "{error}");
    // A spine that only some of the leaves have, and one between the others: not complete, but a tree.
    let partial = build(&[2, 2, 2, 0, 0], &[(0, 3), (1, 3), (1, 4), (2, 4), (0, 4)]);
    assert!(delivers(&partial, &Router::new(&partial, Routing::Ftree).unwrap()).is_ok());
}

#[test]
fn tables_with_gaps_are_refused() {
    let fabric = ring(5);
    let mut tables = Tables::min_hop(&fabric, 0).unwrap();
    assert_eq!(survey(&fabric, &tables).pairs, [0, 0, 10, 10]);
    assert_eq!(survey(&fabric, &tables).unreachable, 0);
    // s1 sends what is for h3-0 back to s0 and round.
    let back =
        fabric.graph.outputs(SwitchId(1)).find(|(_, link)| fabric.graph.link(*link).to == fabric.graph.vertex(Node::Switch(SwitchId(0))));
    let forth =
        fabric.graph.outputs(SwitchId(0)).find(|(_, link)| fabric.graph.link(*link).to == fabric.graph.vertex(Node::Switch(SwitchId(1))));
    tables.set(SwitchId(1), EndpointId(3), 0, back.unwrap().0.0 as u8);
    tables.set(SwitchId(0), EndpointId(3), 0, forth.unwrap().0.0 as u8);
    let survey = survey(&fabric, &tables);
    assert_eq!(survey.unreachable, 2);
    assert!(survey.faults[0].tell(&fabric).starts_with("from s0 to h3-0"), "{:?}", survey.faults);
    assert!(forward(&fabric, tables).is_err());
    assert!(matches!(Router::new(&fabric, Routing::Table), Err(RoutingError::Cannot { .. })));
    assert!(matches!(Router::new(&fabric, Routing::Minimal), Err(RoutingError::Unsuitable { .. })));
}

#[test]
fn a_network_written_cable_by_cable() {
    let text = r#"
        endpoints = ["a", "b", "c"]
        switches = [{ name = "left", ports = 8 }, { name = "right" }]
        cables = [
            { between = ["b", "left"] },
            { between = ["a", "left:1"] },
            { between = ["c", "right"], rate = "50 Gb/s" },
            { between = ["left", "right"], count = 2, length = "5 m" },
        ]
    "#;
    let list: CableList = toml::from_str(text).unwrap();
    let fabric = Topology::Irregular(list.clone()).build(&links(), 16).unwrap();
    assert_eq!(conforms(&fabric), Ok(()));
    assert_eq!((fabric.counts().endpoints, fabric.counts().switches, fabric.counts().cables), (3, 2, 5));
    assert_eq!(fabric.coordinates.diameter(), 3);
    // Port 1 is a's, though b's cable was written first.
    assert_eq!(fabric.graph.link(fabric.graph.uplink(EndpointId(0))).to_port.0, 0);
    assert_eq!(fabric.graph.link(fabric.graph.uplink(EndpointId(1))).to_port.0, 1);
    assert_eq!(fabric.graph.link(fabric.graph.uplink(EndpointId(2))).rate, Rate::from_gbps(50));
    assert_eq!((fabric.graph.port_count(SwitchId(0)), fabric.graph.port_count(SwitchId(1))), (8, 16));

    let wrong = |change: &dyn Fn(&mut CableList)| {
        let mut list = list.clone();
        change(&mut list);
        match Topology::Irregular(list).build(&links(), 16).unwrap_err() {
            TopologyError::Cable(error) => error,
            other => panic!("{other}"),
        }
    };
    assert!(matches!(wrong(&|l| l.cables.push(cable("a:1", "left"))), CableError::Full { .. } | CableError::PortUsedTwice { .. }));
    assert!(matches!(wrong(&|l| l.cables.push(cable("left:1", "right"))), CableError::PortUsedTwice { port: 1, .. }));
    assert!(matches!(wrong(&|l| l.cables.push(cable("middle", "right"))), CableError::Unknown { .. }));
    assert!(matches!(wrong(&|l| l.cables.push(cable("left:9", "right"))), CableError::Port { ports: 8, .. }));
    assert!(matches!(wrong(&|l| l.cables[3].count = Some(9)), CableError::Full { ports: 8, .. }));
    assert!(matches!(wrong(&|l| l.switches[0].ports = Some(20)), CableError::Radix { limit: 16, .. }));
    assert!(matches!(wrong(&|l| l.endpoints[1] = "left".to_owned()), CableError::NamedTwice { .. }));
    assert!(matches!(wrong(&|l| l.cables.truncate(3)), CableError::Disconnected { .. }));
    assert!(toml::from_str::<CableList>("hosts = []").is_err());
}

#[test]
fn tables_come_back_from_a_dump() {
    let subnet = export::subnet(&torus(4));
    let fabric = subnet.fabric(&links()).unwrap();
    let tables = Tables::up_down(&fabric, 0, None).unwrap();
    let (read, summary) = import::read_lfts(&subnet, export::lfts(&subnet, &tables).as_bytes()).unwrap();
    assert_eq!(read, tables);
    assert_eq!((summary.switches, summary.entries, summary.passed_over), (16, 16 * 16, 16));
}

#[test]
fn loads_of_tables_are_those_of_their_paths() {
    for fabric in [torus(4), build(&[3, 0, 2, 1], &[(0, 1), (1, 2), (2, 3), (1, 3), (1, 3)])] {
        let tables = Tables::min_hop(&fabric, 0).unwrap();
        let by_path = Load::of_route(&fabric, &forward(&fabric, tables.clone()).unwrap());
        assert_eq!(Load::of_tables(&fabric, &tables), by_path);
    }
}
