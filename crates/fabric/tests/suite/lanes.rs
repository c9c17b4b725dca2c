//! Tables with service levels: every path arrives, no links wait for each other in a cycle, and OpenSM's engines of the same names
//! lead packets the same way, or as evenly.

use fabriscope_fabric::import::Subnet;
use fabriscope_fabric::routing::deadlock::{self, Verdict};
use fabriscope_fabric::routing::{Layered, Load, Nue, delivers, forward_layered, forward_partly};
use fabriscope_fabric::topology::{Dragonfly, FatTree, Torus};
use fabriscope_fabric::{EndpointId, Fabric, Node, Route, Router, Routing, RoutingError, SwitchId, Tables, Topology, export, path};
use proptest::prelude::*;

use crate::graph_routing::{home, multigraphs, pairs, ring, shortest};
use crate::opensm::{built, degrade, links, opensm, opensm_with, read, same, shuffled, written};

fn torus(sizes: &[u32], endpoints: u32) -> Fabric {
    Topology::Torus(Torus { sizes: sizes.to_vec(), endpoints: Some(endpoints), ..Torus::default() }).build(&links(), 64).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn lanes_keep_every_graph_free(fabric in multigraphs(), lanes in 1u8..=3) {
        let hops = shortest(&fabric);
        for routing in [Routing::Dfsssp, Routing::Lash, Routing::Nue(Nue { lanes })] {
            let router = Router::new(&fabric, routing).unwrap();
            let delivery = delivers(&fabric, &router);
            prop_assert!(delivery.is_ok(), "{} {:?}", routing, delivery);
            let verdict = deadlock::check(&fabric, &router);
            prop_assert!(verdict.is_free(), "{}: {}", routing, verdict.describe(&fabric));
            if matches!(routing, Routing::Nue(_)) {
                prop_assert!(router.lanes() <= lanes);
                continue;
            }
            for (src, dst) in pairs(&fabric) {
                let links = path(&fabric, &router, src, dst, 0);
                prop_assert_eq!(links.len(), hops[home(&fabric, src).index()][home(&fabric, dst).index()] + 1);
            }
        }
    }

    #[test]
    fn a_torus_takes_two_lanes(sizes in proptest::collection::vec(1u32..=6, 1..=3), endpoints in 1u32..=2) {
        let fabric = torus(&sizes, endpoints);
        prop_assume!(fabric.graph.endpoint_count() > 1);
        let router = Router::new(&fabric, Routing::Torus2Qos).unwrap();
        let delivery = delivers(&fabric, &router);
        prop_assert!(delivery.is_ok(), "{:?} {:?}", sizes, delivery);
        prop_assert!(deadlock::check(&fabric, &router).is_free());
        prop_assert!(router.lanes() <= 2);
        // As long as those of dimension order by coordinates.
        let other = Router::new(&fabric, Routing::DimensionOrder).unwrap();
        for (src, dst) in pairs(&fabric) {
            prop_assert_eq!(path(&fabric, &router, src, dst, 0).len(), path(&fabric, &other, src, dst, 0).len());
        }
    }
}

/// Shortest paths around a ring of five wait for each other on one lane.
#[test]
fn a_ring_takes_two_lanes_or_detours() {
    let fabric = ring(5);
    assert!(matches!(deadlock::check(&fabric, &Router::new(&fabric, Routing::Sssp).unwrap()), Verdict::Cycle(_)));
    for (routing, lanes) in [(Routing::Dfsssp, 2), (Routing::Lash, 2), (Routing::Nue(Nue { lanes: 1 }), 1)] {
        let router = Router::new(&fabric, routing).unwrap();
        assert_eq!(router.lanes(), lanes, "{routing}");
        assert!(deadlock::check(&fabric, &router).is_free(), "{routing}");
    }
    // All on one lane, the same tables have the cycle that the levels break.
    let Layered { tables, levels } = Layered::dfsssp(&fabric).unwrap();
    assert!(matches!(deadlock::check(&fabric, &forward_partly(&fabric, tables)), Verdict::Cycle(_)));
    assert_eq!(levels.paths().iter().sum::<u64>(), 25);
    // One lane leaves a packet two links too many at least: a ring without one turn is a line.
    let length = |routing| Load::of_route(&fabric, &Router::new(&fabric, routing).unwrap()).links.iter().sum::<u64>();
    assert!(length(Routing::Nue(Nue { lanes: 1 })) > length(Routing::Dfsssp));
}

#[test]
fn what_cannot_be_is_told() {
    let fabric = ring(5);
    for routing in [Routing::Nue(Nue { lanes: 0 }), Routing::Nue(Nue { lanes: 16 })] {
        assert!(matches!(Router::new(&fabric, routing), Err(RoutingError::Cannot { .. })));
    }
    assert!(matches!(Router::new(&fabric, Routing::Torus2Qos), Err(RoutingError::Unsuitable { .. })));
    assert!(matches!(Layered::torus_2qos(&fabric), Err(RoutingError::Cannot { .. })));
}

#[test]
fn levels_are_written_for_every_path() {
    let subnet = export::subnet(&torus(&[5, 5], 1));
    let fabric = subnet.fabric(&links()).unwrap();
    let Layered { tables, levels } = Layered::lash(&fabric).unwrap();
    let text = export::service_levels(&subnet, &tables, &levels);
    let mut counts = vec![0; levels.paths().len()];
    for line in text.lines().filter(|line| line.starts_with("0x")) {
        counts[line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap()] += 1;
    }
    assert_eq!(counts, levels.paths());
    assert!(counts.len() > 1 && counts.iter().sum::<u64>() == 25 * 25, "{counts:?}");
}

/// Tori, dragonflies and damaged trees with GUIDs in no order, and a real tree.
fn judged() -> Vec<(&'static str, Subnet)> {
    let dragonfly = Dragonfly { groups: Some(9), switches: Some(4), endpoints: Some(2), global: Some(2), ..Dragonfly::default() };
    let mut tree = shuffled(built(Topology::FatTree(FatTree { levels: Some(3), ..FatTree::default() }), 8));
    degrade(&mut tree, 1);
    vec![
        ("torus of 3 x 4 x 5", shuffled(export::subnet(&torus(&[3, 4, 5], 1)))),
        ("torus of 5 x 5 with two each", shuffled(export::subnet(&torus(&[5, 5], 2)))),
        ("dragonfly of 72", shuffled(built(Topology::Dragonfly(dragonfly), 16))),
        ("damaged tree", tree),
        ("dgx-ndr", read("dgx-ndr.ibnetdiscover")),
    ]
}

/// Five switches with hosts below two levels of switches that are joined among themselves.
fn crowns() -> Subnet {
    let mut cables = vec![(0, 6), (2, 8)];
    cables.extend((0..5).flat_map(|at| [(at, 5 + at), (5 + at, 5 + (at + 1) % 5), (5 + at, 10 + at % 3)]));
    cables.extend([(10, 11), (11, 12), (10, 12)]);
    written(&[1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0], &cables)
}

#[test]
fn dnup_and_lash_are_opensms_entry_by_entry() {
    let mut fabrics = judged();
    fabrics.push(("crowns", shuffled(crowns())));
    for (what, subnet) in fabrics {
        let fabric = subnet.fabric(&links()).unwrap();
        for engine in ["dnup", "lash"] {
            let theirs = opensm(&subnet, engine, &[]);
            assert!(theirs.configured, "{what}: {engine}");
            let ours = if engine == "dnup" { Tables::dnup(&fabric).unwrap() } else { Layered::lash(&fabric).unwrap().tables };
            let (all, equal) = same(&fabric, &ours, &theirs.tables);
            assert_eq!(equal, all, "{what}: {engine}");
        }
    }
}

/// Pairs on the busiest link between switches.
fn busiest(fabric: &Fabric, tables: &Tables) -> u64 {
    let load = Load::of_tables(fabric, tables);
    assert_eq!(load.unreachable, 0);
    let between =
        |link: &fabriscope_fabric::Link| [link.from, link.to].iter().all(|end| matches!(fabric.graph.node(*end), Node::Switch(_)));
    let loads = fabric.graph.links().iter().zip(&load.links).filter(|(link, _)| between(link)).map(|(_, load)| *load);
    loads.max().unwrap_or(0)
}

/// Which of several equally light paths Dijkstra's algorithm finds depends on the order of its heap: these are not OpenSM's entry by
/// entry, but as evenly spread to a tenth.
#[test]
fn balanced_engines_are_as_even_as_opensms() {
    for (what, subnet) in judged() {
        let fabric = subnet.fabric(&links()).unwrap();
        let balanced = [
            ("sssp", Tables::sssp(&fabric).unwrap()),
            ("dfsssp", Layered::dfsssp(&fabric).unwrap().tables),
            ("nue", Layered::nue(&fabric, 1).unwrap().tables),
        ];
        for (engine, ours) in balanced {
            let theirs = opensm(&subnet, engine, &[]);
            assert!(theirs.configured, "{what}: {engine}");
            let (ours, theirs) = (busiest(&fabric, &ours), busiest(&fabric, &theirs.tables));
            assert!(10 * ours <= 11 * theirs, "{what}: {engine}: {ours} pairs on the busiest link, OpenSM's {theirs}");
        }
        let route = forward_layered(&fabric, Layered::dfsssp(&fabric).unwrap());
        assert!(deadlock::check(&fabric, &route).is_free(), "{what}");
    }
}

/// The torus as OpenSM has to be told it: its sizes, and the neighbours of one switch.
#[test]
fn torus_2qos_is_opensms_entry_by_entry() {
    for (sizes, endpoints) in [(vec![3u32, 4, 5], 1), (vec![5, 5], 2), (vec![6, 6], 2), (vec![4, 4, 4], 1)] {
        let fabric = torus(&sizes, endpoints);
        let subnet = export::subnet(&fabric);
        let guid = |at: u32| subnet.devices[at as usize].guid.unwrap();
        let of = |axis: usize| sizes.get(axis).copied().unwrap_or(1);
        let mut config = format!("torus {} {} {}\n", of(0), of(1), of(2));
        for (axis, name) in ["x", "y", "z"].iter().enumerate().take(sizes.len()) {
            let stride: u32 = sizes[..axis].iter().product();
            config += &format!("{name}p_link {:#x} {:#x}\n", guid(0), guid(stride));
            if sizes[axis] == 4 {
                config += &format!("{name}m_link {:#x} {:#x}\n", guid(0), guid(3 * stride));
            }
        }
        let theirs = opensm_with(&subnet, "torus-2QoS", &[("--torus_config", config)]);
        assert!(theirs.configured, "{sizes:?}");
        let ours = Layered::torus_2qos(&fabric).unwrap().tables;
        // The reader numbers switches and endpoints anew; the devices are in the order of the torus.
        let wiring = subnet.wiring();
        for (at, &device) in (0u32..).zip(&wiring.switches) {
            for (dest, plug) in (0u32..).zip(&wiring.endpoints) {
                let own = ours.port(SwitchId(device), EndpointId(plug.device - fabric.graph.switch_count()), 0);
                assert_eq!(own, theirs.tables.port(SwitchId(at), EndpointId(dest), 0), "{sizes:?}: {at} to {dest}");
            }
        }
    }
}
