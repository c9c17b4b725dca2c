//! Trees for reductions on every family of fabrics: lowest, whole, over links that are alive; and what a manager refuses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fabriscope_fabric::aggregation::{Limits, Manager, Refusal, Tree};
use fabriscope_fabric::{EndpointId, Fabric, Graph, LinkId, LinkSpec, Links, Node, SwitchId, Topology};
use fabriscope_units::{Rate, Span};
use proptest::prelude::*;

const SPEC: LinkSpec = LinkSpec::new(Rate::from_gbps(100), Span::from_ns(10));
const LIMITS: Limits = Limits { trees: 4, groups: 3, slots: 16, children: 64 };

const FAMILIES: &[(&str, u32)] = &[
    ("[single_switch]\nendpoints = 9", 16),
    ("[leaf_spine]\nleaves = 4\nspines = 3\ndown = 5", 16),
    ("[fat_tree]\nlevels = 2", 8),
    ("[fat_tree]\nlevels = 3", 8),
    ("[dragonfly]\ngroups = 5", 11),
    ("[dragonfly_plus]\ngroups = 3", 8),
    ("[rail_optimised]\nnodes = 16", 32),
    ("[director]", 24),
    ("[torus]\nsizes = [4, 3, 3]\nendpoints = 2", 64),
    ("[hyperx]\nsizes = [4, 3]\nendpoints = 2", 64),
];

fn build(text: &str, radix: u32) -> Fabric {
    let topology: Topology = toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    topology.build(&Links::uniform(SPEC), radix).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn home(graph: &Graph, endpoint: EndpointId) -> SwitchId {
    match graph.node(graph.link(graph.uplink(endpoint)).to) {
        Node::Switch(at) => at,
        Node::Endpoint(_) => panic!("a switch was expected at {endpoint}"),
    }
}

fn hops(graph: &Graph, from: SwitchId, usable: &impl Fn(LinkId) -> bool) -> BTreeMap<SwitchId, u32> {
    let mut seen = BTreeMap::from([(from, 0)]);
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for (_, link) in graph.outputs(at).filter(|(_, link)| usable(*link)) {
            if let Node::Switch(next) = graph.node(graph.link(link).to) {
                let distance = seen[&at] + 1;
                seen.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    distance
                });
            }
        }
    }
    seen
}

/// No root is better: the farthest of the leaf switches is as near as it can be.
fn lowest(graph: &Graph, members: &[EndpointId], usable: &impl Fn(LinkId) -> bool) -> u32 {
    let farthest = |root: SwitchId| {
        let hops = hops(graph, root, usable);
        members.iter().map(|member| hops.get(&home(graph, *member)).copied()).try_fold(0, |most, hops| Some(most.max(hops?)))
    };
    1 + graph.switches().filter_map(farthest).min().expect("a root")
}

/// Every member is there once, every node is below its parent by a cable of its own, nothing is there that leads nowhere.
fn check(graph: &Graph, tree: &Tree, members: &[EndpointId], usable: &impl Fn(LinkId) -> bool) {
    let mut cables = BTreeSet::new();
    assert!(tree.cables().all(|cable| cables.insert(cable)), "cables are distinct");
    assert!(cables.iter().all(|cable| usable(LinkId(cable * 2))), "cables are alive");
    let mut reached = BTreeSet::new();
    let mut switches = BTreeSet::from([tree.root()]);
    for node in tree.nodes() {
        assert!(switches.contains(&node.switch), "parents come first");
        assert_eq!(node.up.is_none(), node.switch == tree.root());
        assert!(!node.children.is_empty(), "every switch has something below it");
        for link in &node.children {
            assert_eq!(graph.node(graph.link(*link).from), Node::Switch(node.switch));
            match graph.node(graph.link(*link).to) {
                Node::Endpoint(endpoint) => assert!(reached.insert(endpoint), "{endpoint} twice"),
                Node::Switch(child) => {
                    assert!(switches.insert(child), "{child} twice");
                    let below = tree.nodes().iter().find(|other| other.switch == child).expect("the child is a node");
                    assert_eq!(below.up, Some(link.reverse()));
                }
            }
        }
    }
    assert_eq!(reached, members.iter().copied().collect(), "the members and nobody else");
    assert_eq!(tree.depth(), lowest(graph, members, usable), "no tree is lower");
}

fn over(graph: &Graph, members: &[EndpointId], usable: &impl Fn(LinkId) -> bool) -> Option<Tree> {
    Tree::over(graph, members, usable, |_| 0, |_| 0).ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn trees_are_whole_and_lowest(family in 0..FAMILIES.len(), picks in prop::collection::vec(any::<u32>(), 2..40), cut in prop::collection::vec(any::<u32>(), 0..6)) {
        let fabric = build(FAMILIES[family].0, FAMILIES[family].1);
        let graph = &fabric.graph;
        let members: BTreeSet<EndpointId> = picks.iter().map(|pick| EndpointId(pick % graph.endpoint_count())).collect();
        let members: Vec<EndpointId> = members.into_iter().collect();
        let dead: BTreeSet<u32> = cut.iter().map(|pick| pick % graph.cable_count()).collect();
        let usable = |link: LinkId| !dead.contains(&link.cable());
        let joined = hops(graph, home(graph, members[0]), &usable);
        let whole = members.iter().all(|m| usable(graph.uplink(*m)) && joined.contains_key(&home(graph, *m)));
        match over(graph, &members, &usable) {
            Some(tree) => { prop_assert!(whole); check(graph, &tree, &members, &usable); }
            None => prop_assert!(!whole, "there was a way"),
        }
    }
}

/// On a fat tree of 8-port switches: one level below a leaf, two in a pod, three beyond; whatever the number of members.
#[test]
fn depth_follows_from_the_place_of_the_members() {
    let fabric = build("[fat_tree]\nlevels = 3", 8);
    let depth = |members: &[u32]| {
        let members: Vec<EndpointId> = members.iter().map(|m| EndpointId(*m)).collect();
        over(&fabric.graph, &members, &|_| true).expect("a tree").depth()
    };
    assert_eq!([depth(&[0, 3]), depth(&[0, 1, 2, 3]), depth(&[0, 4]), depth(&(0..16).collect::<Vec<_>>())], [1, 1, 2, 2]);
    assert_eq!([depth(&[0, 127]), depth(&(0..128).collect::<Vec<_>>())], [3, 3]);
}

#[test]
fn trees_of_several_groups_take_other_roots_and_other_cables() {
    let fabric = build("[fat_tree]\nlevels = 2", 8);
    let members: Vec<EndpointId> = (0..32).map(EndpointId).collect();
    let mut manager = Manager::new(Limits { groups: 8, slots: 1000, ..LIMITS });
    let groups: Vec<u32> = (0..4).map(|_| manager.grant(&fabric.graph, &members, 1, |_| true).unwrap()).collect();
    let roots: BTreeSet<SwitchId> = groups.iter().map(|group| manager.tree(*group).unwrap().root()).collect();
    assert_eq!(roots.len(), 4, "each of the four spines is the root of one");
    // The trees are used up: a group of the same members shares one, others get none.
    let fifth = manager.grant(&fabric.graph, &members, 1, |_| true).unwrap();
    assert!(groups.iter().any(|group| manager.tree(*group) == manager.tree(fifth)));
    assert_eq!(manager.grant(&fabric.graph, &members[..9], 1, |_| true), Err(Refusal::Trees(4)));
    manager.release(groups[1]);
    manager.release(fifth);
    assert!(manager.grant(&fabric.graph, &members[..9], 1, |_| true).is_ok());
}

#[test]
fn resources_run_out_and_come_back() {
    let fabric = build("[single_switch]\nendpoints = 9", 16);
    let graph = &fabric.graph;
    let members: Vec<EndpointId> = (0..4).map(EndpointId).collect();
    let mut manager = Manager::new(LIMITS);
    let first = manager.grant(graph, &members, 10, |_| true).unwrap();
    let switch = SwitchId(0);
    assert_eq!(manager.grant(graph, &members, 10, |_| true), Err(Refusal::Slots { switch, left: 6, wanted: 10 }));
    manager.grant(graph, &members, 1, |_| true).unwrap();
    manager.grant(graph, &members[1..], 1, |_| true).unwrap();
    assert_eq!(manager.grant(graph, &members, 1, |_| true), Err(Refusal::Groups { switch, groups: 3 }));
    manager.release(first);
    manager.release(first);
    assert!(manager.grant(graph, &members, 10, |_| true).is_ok());
    assert_eq!(manager.grant(graph, &members[..1], 1, |_| true), Err(Refusal::TooFew(1)));
    assert_eq!(manager.grant(graph, &[EndpointId(2), EndpointId(2)], 1, |_| true), Err(Refusal::Twice(EndpointId(2))));
    let uplink = graph.uplink(EndpointId(1)).cable();
    assert_eq!(manager.grant(graph, &members, 1, |link| link.cable() != uplink), Err(Refusal::Apart(EndpointId(1))));
    let mut narrow = Manager::new(Limits { children: 3, ..LIMITS });
    assert_eq!(narrow.grant(graph, &members, 1, |_| true), Err(Refusal::Children { switch, children: 4, limit: 3 }));
}
