//! The channel dependency graph against a plain search: the check asks once for heads that must want the same, and keeps bits;
//! here every head is asked, and sets are kept. Both must count the same channels and dependencies on every topology and routing.

use std::collections::BTreeSet;

use fabriscope_fabric::routing::deadlock::{self, Verdict};
use fabriscope_fabric::topology::{Dragonfly, FatTree, HyperX, LeafSpine, Mesh, Oversubscription, Torus};
use fabriscope_fabric::{Fabric, Head, Hop, LinkSpec, Links, Node, Route, Router, Routing, Topology};
use fabriscope_units::{Rate, Span};

fn build(topology: &Topology, radix: u32) -> Fabric {
    topology.build(&Links::uniform(LinkSpec::new(Rate::from_gbps(400), Span::from_ns(25))), radix).unwrap()
}

/// Small members of the families, with trees that are cut, thinned, or have several cables between two switches.
fn fabrics() -> Vec<(&'static str, Fabric)> {
    let tree = |endpoints, levels, ratio: Option<&str>| {
        let oversubscription = ratio.map(|text| Oversubscription::parse(text).unwrap());
        Topology::FatTree(FatTree { levels: Some(levels), endpoints, oversubscription, ..FatTree::default() })
    };
    let spines = LeafSpine { endpoints: Some(11), leaves: Some(3), spines: Some(2), down: Some(4), links_per_uplink: Some(2), radix: None };
    vec![
        ("two levels", build(&tree(None, 2, None), 6)),
        ("three levels", build(&tree(None, 3, None), 4)),
        ("three levels, cut", build(&tree(Some(13), 3, None), 6)),
        ("three levels, 3:1", build(&tree(Some(20), 3, Some("3:1")), 8)),
        ("leaves with two cables to each spine", build(&Topology::LeafSpine(spines), 16)),
        ("torus", build(&Topology::Torus(Torus { sizes: vec![4, 3], ..Torus::default() }), 8)),
        ("mesh", build(&Topology::Mesh(Mesh { sizes: vec![3, 3], ..Mesh::default() }), 8)),
        ("hyper_x", build(&Topology::HyperX(HyperX { sizes: vec![3, 4], ..HyperX::default() }), 8)),
        (
            "dragonfly",
            build(
                &Topology::Dragonfly(Dragonfly {
                    groups: Some(4),
                    switches: Some(3),
                    endpoints: Some(1),
                    global: Some(1),
                    ..Dragonfly::default()
                }),
                8,
            ),
        ),
    ]
}

/// All heads, one after the other: (link, lane) pairs that are held while another is wanted, and such pairs of pairs.
fn plain(fabric: &Fabric, route: &impl Route) -> (u64, u64) {
    let graph = &fabric.graph;
    let mut dependencies = BTreeSet::new();
    for dest in graph.endpoints() {
        let mut open: Vec<Hop> =
            graph.endpoints().filter(|src| *src != dest).map(|src| Hop { link: graph.uplink(src), vl: 0, via: 0 }).collect();
        let mut seen: BTreeSet<Hop> = open.iter().copied().collect();
        while let Some(held) = open.pop() {
            let Node::Switch(at) = graph.node(graph.link(held.link).to) else { continue };
            let head = Head { dest, entropy: 0, input: held.link, vl: held.vl, via: held.via };
            route.options(at, head, &mut |wanted| {
                dependencies.insert(((held.link, held.vl), (wanted.link, wanted.vl)));
                if seen.insert(wanted) {
                    open.push(wanted);
                }
            });
        }
    }
    let holders: BTreeSet<_> = dependencies.iter().map(|(held, _)| *held).collect();
    (holders.len() as u64, dependencies.len() as u64)
}

#[test]
fn the_check_counts_what_a_plain_search_counts() {
    let mut checked = 0;
    for (name, fabric) in fabrics() {
        for &routing in Routing::ALL {
            let Ok(router) = Router::new(&fabric, routing) else { continue };
            let Verdict::Free { channels, dependencies } = deadlock::check(&fabric, &router) else { continue };
            assert_eq!((channels, dependencies), plain(&fabric, &router), "{name}, {routing}");
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked} pairs of fabric and routing");
}

/// A routing says by `options_by_input` whether the input decides; where it says no, all inputs of a switch must want the same.
#[test]
fn routings_that_do_not_look_at_the_input_answer_alike_for_each() {
    let mut checked = 0;
    for (name, fabric) in fabrics() {
        let graph = &fabric.graph;
        for &routing in Routing::ALL {
            let Ok(router) = Router::new(&fabric, routing) else { continue };
            if router.options_by_input() {
                continue;
            }
            for at in graph.switches() {
                for dest in graph.endpoints() {
                    let wanted = |input| {
                        let mut wanted = BTreeSet::new();
                        let head = Head { dest, entropy: 0, input, vl: 0, via: 0 };
                        router.options(at, head, &mut |hop| {
                            wanted.insert(hop);
                        });
                        wanted
                    };
                    let inputs: Vec<_> = graph.outputs(at).map(|(_, link)| link.reverse()).collect();
                    let first = wanted(inputs[0]);
                    inputs.iter().for_each(|input| assert_eq!(wanted(*input), first, "{name}, {routing}, {at:?} to {dest:?}"));
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 1000, "{checked}");
}
