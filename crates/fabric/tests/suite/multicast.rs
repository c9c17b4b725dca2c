//! Multicast trees on every family of fabrics, under random joins and leaves, with cables missing.

use std::collections::BTreeMap;

use fabriscope_fabric::multicast::{Group, GroupAttr, Groups, JoinState, Mgid, MulticastError, Snooping, Tree, conforms, cycle};
use fabriscope_fabric::{Builder, EndpointId, Fabric, Graph, LinkId, LinkSpec, Links, Node, Socket, SwitchId, Topology};
use fabriscope_units::Remedy;
use fabriscope_units::{Rate, Span};
use proptest::prelude::*;

const SPEC: LinkSpec = LinkSpec::new(Rate::from_gbps(100), Span::from_ns(10));
const GROUP: Mgid = Mgid::infiniband(1);
const STATES: [JoinState; 4] = [JoinState::Full, JoinState::NonMember, JoinState::SendOnly, JoinState::SendOnlyFull];

/// One of every family, as a lab writes it, and the ports of its switches.
const FAMILIES: &[(&str, u32)] = &[
    ("[single_switch]\nendpoints = 9", 16),
    ("[leaf_spine]\nleaves = 4\nspines = 3\ndown = 5", 16),
    ("[fat_tree]\nlevels = 2", 8),
    ("[fat_tree]\nlevels = 3", 8),
    ("[fat_tree]\nlevels = 3\nendpoints = 100", 8),
    ("[dragonfly]\ngroups = 5", 11),
    ("[dragonfly_plus]\ngroups = 3", 8),
    ("[rail_optimised]\nnodes = 16", 32),
    ("[director]", 24),
    ("[torus]\nsizes = [4, 3, 3]\nendpoints = 2", 64),
    ("[mesh]\nsizes = [5, 4]", 64),
    ("[hypercube]\ndimensions = 5", 64),
    ("[hyperx]\nsizes = [4, 3]\nendpoints = 2", 64),
    ("[full_mesh]\nswitches = 6\nendpoints = 3", 64),
];

fn families() -> Vec<Fabric> {
    let build = |(text, radix): &(&str, u32)| {
        let topology: Topology = toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        topology.build(&Links::uniform(SPEC), *radix).unwrap_or_else(|error| panic!("{text}: {error}"))
    };
    FAMILIES.iter().map(build).collect()
}

fn fat_tree(levels: u32, radix: u32) -> Graph {
    let topology: Topology = toml::from_str(&format!("[fat_tree]\nlevels = {levels}")).unwrap();
    topology.build(&Links::uniform(SPEC), radix).unwrap().graph
}

fn home(graph: &Graph, endpoint: EndpointId) -> SwitchId {
    match graph.node(graph.link(graph.uplink(endpoint)).to) {
        Node::Switch(at) => at,
        Node::Endpoint(_) => panic!("a switch was expected at {endpoint}"),
    }
}

/// Endpoints whose packets find the tree: members, and whoever sits at one of its switches.
fn senders(graph: &Graph, group: &Group) -> Vec<EndpointId> {
    let on_tree = |endpoint: &EndpointId| group.tree().is_some_and(|tree| !tree.outputs(home(graph, *endpoint)).is_empty());
    graph.endpoints().filter(on_tree).collect()
}

fn check(graph: &Graph, group: &Group) {
    let receivers: Vec<EndpointId> = group.receivers().collect();
    conforms(graph, group.tree().unwrap(), &senders(graph, group), &receivers).unwrap();
    let members: Vec<EndpointId> = group.members().map(|(endpoint, _)| endpoint).collect();
    conforms(graph, group.tree().unwrap(), &members, &receivers).unwrap();
}

/// Whether every port used in `less` is used in `more`.
fn within(graph: &Graph, less: &Tree, more: &Tree) -> bool {
    graph.switches().all(|switch| less.outputs(switch).iter().all(|link| more.outputs(switch).contains(link)))
}

/// Joins, changes of state and leaves of random endpoints; the tree is checked after each.
fn exercise(graph: &Graph, steps: &[(prop::sample::Index, usize, bool)]) {
    let mut groups = Groups::new();
    groups.create(GROUP, GroupAttr::default()).unwrap();
    let mut model: BTreeMap<EndpointId, JoinState> = BTreeMap::new();
    for (endpoint, state, leaves) in steps {
        let endpoint = EndpointId(endpoint.index(graph.endpoint_count() as usize) as u32);
        let state = STATES[*state];
        let before = groups.group(GROUP).ok().and_then(|group| group.tree().cloned());
        let changed = if *leaves {
            match groups.leave(graph, GROUP, endpoint) {
                Ok(changed) => {
                    assert!(model.remove(&endpoint).is_some());
                    changed
                }
                Err(error) => {
                    assert_eq!(error, MulticastError::NotJoined { endpoint, mgid: GROUP });
                    assert!(!model.contains_key(&endpoint));
                    continue;
                }
            }
        } else {
            match groups.join(graph, GROUP, endpoint, state) {
                Ok(changed) => {
                    model.insert(endpoint, state);
                    changed
                }
                Err(MulticastError::AlreadyJoined { .. }) => {
                    assert_eq!(model.get(&endpoint), Some(&state));
                    continue;
                }
                Err(MulticastError::NoFullMember { .. }) => {
                    assert!(!model.iter().any(|(member, state)| *member != endpoint && state.keeps_alive()) && !state.keeps_alive());
                    continue;
                }
                Err(MulticastError::Apart { .. }) => continue,
                Err(error) => panic!("{error}"),
            }
        };
        let Ok(group) = groups.group(GROUP) else {
            assert!(!model.values().any(|state| state.keeps_alive()), "a group ends with its last full member");
            model.clear();
            groups.create(GROUP, GroupAttr::default()).unwrap();
            continue;
        };
        assert!(group.members().eq(model.iter().map(|(endpoint, state)| (*endpoint, *state))));
        check(graph, group);
        let now = group.tree().unwrap();
        if let Some(before) = before {
            let moved = graph.switches().filter(|switch| before.outputs(*switch) != now.outputs(*switch));
            assert!(moved.eq(changed), "exactly the switches named change their tables");
            if *leaves {
                assert!(within(graph, now, &before), "pruning moved somebody");
            }
        }
    }
}

/// Switches with endpoints and any cables between them: perhaps several islands.
fn graphs() -> impl Strategy<Value = Graph> {
    (1usize..12).prop_flat_map(|switches| {
        let hosts = prop::collection::vec(0u16..4, switches);
        let cables = prop::collection::vec((0..switches, 0..switches), 0..30);
        (hosts, cables).prop_map(|(mut hosts, cables)| {
            hosts[0] = hosts[0].max(1);
            let total = hosts.iter().map(|hosts| u32::from(*hosts)).sum();
            let mut builder = Builder::new(total, hosts.iter().map(|_| 64)).unwrap();
            let (mut endpoint, mut ports) = (0, vec![0u16; hosts.len()]);
            let mut port = |switch: usize| {
                ports[switch] += 1;
                Socket::switch(switch as u32, ports[switch] - 1)
            };
            for (switch, &hosts) in hosts.iter().enumerate() {
                for _ in 0..hosts {
                    builder.cable(Socket::endpoint(endpoint), port(switch), &SPEC).unwrap();
                    endpoint += 1;
                }
            }
            for (a, b) in cables.into_iter().filter(|(a, b)| a != b) {
                builder.cable(port(a), port(b), &SPEC).unwrap();
            }
            builder.build().unwrap()
        })
    })
}

fn steps() -> impl Strategy<Value = Vec<(prop::sample::Index, usize, bool)>> {
    prop::collection::vec(
        (any::<prop::sample::Index>(), prop::sample::select(vec![0usize, 0, 0, 1, 2, 3]), prop::bool::weighted(0.35)),
        1..60,
    )
}

proptest! {
    #[test]
    fn any_network_any_joins_and_leaves(graph in graphs(), steps in steps()) {
        exercise(&graph, &steps);
    }

    #[test]
    fn every_family_any_joins_and_leaves(family in 0..FAMILIES.len(), steps in steps()) {
        exercise(&families()[family].graph, &steps);
    }

    #[test]
    fn snooping_prunes_the_spanning_tree(family in 0..FAMILIES.len(), members in prop::collection::vec(any::<prop::sample::Index>(), 1..20)) {
        let graph = &families()[family].graph;
        let all: Vec<EndpointId> = graph.endpoints().collect();
        let snooping = Snooping::new(graph).unwrap();
        conforms(graph, snooping.flood(), &all[..all.len().min(10)], &all).unwrap();
        let mut receivers: Vec<EndpointId> = members.iter().map(|member| *member.get(&all)).collect();
        receivers.sort_unstable();
        receivers.dedup();
        let pruned = snooping.pruned(graph, receivers.iter().copied(), []);
        conforms(graph, &pruned, &receivers, &receivers).unwrap();
        prop_assert!(within(graph, &pruned, snooping.flood()));
    }
}

/// Groups of everybody at once: the paths from the root are shortest, and trees of several groups cannot block each other
/// where the family climbs and descends once.
#[test]
fn whole_families() {
    for fabric in families() {
        let graph = &fabric.graph;
        let mut groups = Groups::new();
        for number in 0..6 {
            let mgid = Mgid::infiniband(number);
            groups.create(mgid, GroupAttr::default()).unwrap();
            let members: Vec<_> =
                graph.endpoints().skip(number as usize).step_by(1 + number as usize).map(|e| (e, JoinState::Full)).collect();
            groups.join_all(graph, mgid, &members).unwrap();
            check(graph, groups.group(mgid).unwrap());
        }
        let trees: Vec<&Tree> = groups.iter().filter_map(Group::tree).collect();
        assert!(cycle(graph, &trees[..1]).is_none(), "one tree has no cycle");
        if fabric.to_string().contains("tree") {
            assert!(cycle(graph, &trees).is_none(), "{fabric}");
        }
    }
}

#[test]
fn trees_of_a_ring_wait_for_each_other() {
    // Four switches in a ring with an endpoint each; four groups of three neighbours, each with its own middle. Packets of
    // each go two links clockwise, and all four close the cycle.
    let mut builder = Builder::new(4, [3; 4]).unwrap();
    for switch in 0..4 {
        builder.cable(Socket::endpoint(switch), Socket::switch(switch, 0), &SPEC).unwrap();
        builder.cable(Socket::switch(switch, 1), Socket::switch((switch + 1) % 4, 2), &SPEC).unwrap();
    }
    let graph = builder.build().unwrap();
    let mut groups = Groups::new();
    for middle in 0..4 {
        let mgid = Mgid::infiniband(middle);
        groups.create(mgid, GroupAttr::default()).unwrap();
        let members = [middle, middle + 1, middle + 3].map(|member| (EndpointId(member % 4), JoinState::Full));
        groups.join_all(&graph, mgid, &members).unwrap();
        assert_eq!(groups.group(mgid).unwrap().tree().unwrap().root(), SwitchId(middle));
    }
    let trees: Vec<&Tree> = groups.iter().filter_map(Group::tree).collect();
    let cycle_of = cycle(&graph, &trees).unwrap();
    assert_eq!(cycle_of.len(), 4);
    for (index, link) in cycle_of.iter().enumerate() {
        assert_eq!(graph.link(*link).to, graph.link(cycle_of[(index + 1) % 4]).from);
    }
    assert!(cycle(&graph, &trees[..1]).is_none() && cycle(&graph, &trees[..2]).is_none());
}

#[test]
fn the_root_is_the_switch_with_the_fewest_hops() {
    // 3 levels of 8 ports: 32 leaves with 4 endpoints. Members at one leaf: that leaf. In one pod: the pod's first switch
    // of level 2. In two pods: 2 hops from a top, against 1 + 3 from a switch of level 2: as many in all, but not so far.
    let graph = fat_tree(3, 8);
    for (members, longest, switches) in [(vec![0, 1, 3], 2, 1), (vec![0, 5, 9], 4, 3 + 1), (vec![0, 100], 6, 5)] {
        let mut groups = Groups::new();
        groups.create(GROUP, GroupAttr::default()).unwrap();
        let joining: Vec<_> = members.iter().map(|&member| (EndpointId(member), JoinState::Full)).collect();
        groups.join_all(&graph, GROUP, &joining).unwrap();
        let tree = groups.group(GROUP).unwrap().tree().unwrap();
        assert_eq!(tree.longest(&graph), longest, "{members:?}");
        assert_eq!(tree.switches().count(), switches, "{members:?}");
    }
}

#[test]
fn grafting_moves_nobody_and_the_last_leave_takes_the_switch() {
    let graph = fat_tree(3, 8);
    let mut groups = Groups::new();
    groups.create(GROUP, GroupAttr::default()).unwrap();
    groups.join_all(&graph, GROUP, &[0, 16, 40].map(|member| (EndpointId(member), JoinState::Full))).unwrap();
    let before = groups.group(GROUP).unwrap().tree().unwrap().clone();
    let changed = groups.join(&graph, GROUP, EndpointId(20), JoinState::Full).unwrap();
    let after = groups.group(GROUP).unwrap().tree().unwrap().clone();
    assert!(within(&graph, &before, &after));
    // Endpoints 16 and 20 share a pod: the leaf is new, its switch of level 2 gets a port.
    assert_eq!(changed.len(), 2);
    assert_eq!(groups.leave(&graph, GROUP, EndpointId(20)).unwrap(), changed);
    assert_eq!(groups.group(GROUP).unwrap().tree().unwrap(), &before);
    // Only one pod is left: the way above it is cut off.
    groups.leave(&graph, GROUP, EndpointId(16)).unwrap();
    groups.leave(&graph, GROUP, EndpointId(40)).unwrap();
    assert_eq!(groups.group(GROUP).unwrap().tree().unwrap().switches().collect::<Vec<_>>(), [SwitchId(0)]);
    assert_eq!(groups.leave(&graph, GROUP, EndpointId(0)).unwrap(), [SwitchId(0)]);
    assert_eq!(groups.group(GROUP).unwrap_err(), MulticastError::NoSuchGroup { mgid: GROUP });
}

#[test]
fn a_new_root_serves_the_members_there_are() {
    let graph = fat_tree(3, 8);
    let mut groups = Groups::new();
    groups.create(GROUP, GroupAttr::default()).unwrap();
    for member in [0, 16, 17, 18] {
        groups.join(&graph, GROUP, EndpointId(member), JoinState::Full).unwrap();
    }
    assert_eq!(groups.group(GROUP).unwrap().tree().unwrap().root(), SwitchId(0), "the first to join has it");
    groups.reroot(&graph, GROUP).unwrap();
    assert_eq!(groups.group(GROUP).unwrap().tree().unwrap().root(), home(&graph, EndpointId(16)));
    check(&graph, groups.group(GROUP).unwrap());
}

fn mixed(cable: u32, salt: u32) -> u32 {
    (cable + 1).wrapping_mul(0x9e37_79b9).wrapping_mul(2 * salt + 1) >> 16
}

/// Some trunks die: the trees that are made anew leave them out and serve every member that is left a path to the root; when all are back,
/// so are the trees.
#[test]
fn repaired_trees_leave_dead_cables_out() {
    for fabric in families() {
        let graph = &fabric.graph;
        let trunk = |link: &LinkId| {
            matches!((graph.node(graph.link(*link).from), graph.node(graph.link(*link).to)), (Node::Switch(_), Node::Switch(_)))
        };
        let trunks: Vec<u32> = (0..graph.link_count()).map(LinkId).filter(trunk).map(LinkId::cable).collect();
        for (share, salt) in [(10, 1), (3, 7), (2, 5), (2, 11)] {
            let mut groups = Groups::new();
            let mlid = groups.create(GROUP, GroupAttr::default()).unwrap();
            let members: Vec<_> =
                graph.endpoints().filter(|endpoint| endpoint.0 % 3 == 0).map(|endpoint| (endpoint, JoinState::Full)).collect();
            groups.join_all(graph, GROUP, &members).unwrap();
            groups.reroot(graph, GROUP).unwrap();
            let whole = groups.group(GROUP).unwrap().tree().unwrap().clone();
            let dead: Vec<u32> = trunks.iter().copied().filter(|cable| mixed(*cable, salt).is_multiple_of(share)).collect();
            let changed = groups.repair(graph, &dead);
            let tree = groups.group(GROUP).unwrap().tree().unwrap().clone();
            let told: Vec<SwitchId> = graph.switches().filter(|switch| whole.outputs(*switch) != tree.outputs(*switch)).collect();
            assert_eq!(changed, if told.is_empty() { Vec::new() } else { vec![(mlid, told)] });
            let used = graph.switches().flat_map(|switch| tree.outputs(switch).to_vec());
            assert!(used.into_iter().all(|link| !dead.contains(&link.cable())));
            let left: Vec<EndpointId> =
                members.iter().map(|(member, _)| *member).filter(|member| tree.reaches(home(graph, *member))).collect();
            assert!(left.len() >= members.len().min(2) / 2, "a root serves some");
            conforms(graph, &tree, &left, &left).unwrap();
            // A member that joins now does so on what is left.
            let joining = graph.endpoints().find(|endpoint| endpoint.0 % 3 == 1 && tree.reaches(home(graph, *endpoint)));
            if let Some(joining) = joining {
                groups.join(graph, GROUP, joining, JoinState::Full).unwrap();
                groups.leave(graph, GROUP, joining).unwrap();
                assert_eq!(groups.group(GROUP).unwrap().tree(), Some(&tree));
            }
            groups.repair(graph, &[]);
            assert_eq!(groups.group(GROUP).unwrap().tree(), Some(&whole));
        }
    }
}

#[test]
fn refusals_say_what_to_do() {
    let graph = fat_tree(2, 8);
    let mut groups = Groups::new();
    let unicast = Mgid::ip("10.0.0.1".parse().unwrap());
    let said = |error: MulticastError| error.in_full();
    assert!(said(groups.create(unicast, GroupAttr::default()).unwrap_err()).contains("224.0.0.0"));
    assert!(said(groups.join(&graph, GROUP, EndpointId(0), JoinState::Full).unwrap_err()).contains("create it first"));
    let mlid = groups.create(GROUP, GroupAttr::default()).unwrap();
    assert_eq!(mlid.0, 0xC000);
    assert!(said(groups.create(GROUP, GroupAttr::default()).unwrap_err()).contains("0xc000"));
    assert!(said(groups.join(&graph, GROUP, EndpointId(99), JoinState::Full).unwrap_err()).contains("has 32"));
    assert!(said(groups.join(&graph, GROUP, EndpointId(0), JoinState::SendOnly).unwrap_err()).contains("full member"));
    assert!(said(groups.leave(&graph, GROUP, EndpointId(0)).unwrap_err()).contains("join before"));
    // Numbers are used again, and they end.
    groups.delete(GROUP).unwrap();
    for number in 0..0x3FFF {
        groups.create(Mgid::infiniband(number), GroupAttr::default()).unwrap();
    }
    assert_eq!(groups.create(Mgid::infiniband(0x3FFF), GroupAttr::default()), Err(MulticastError::Full));
}
