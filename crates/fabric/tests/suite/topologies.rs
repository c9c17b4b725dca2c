//! Every family against its closed form, and its errors against what they must say.

use fabriscope_fabric::topology::{BackToBack, Defect, FatTree, LeafSpine, Oversubscription, SingleSwitch, conforms};
use fabriscope_fabric::{
    Builder, Coordinates, Counts, EndpointId, Fabric, LinkSpec, Links, Node, Socket, SwitchId, Topology, TopologyError,
};
use fabriscope_units::Remedy;
use fabriscope_units::{Rate, Span};

const LINKS: Links = Links {
    host: LinkSpec::new(Rate::from_gbps(200), Span::from_ns(5)),
    trunk: LinkSpec::new(Rate::from_gbps(400), Span::from_ns(25)),
    global: LinkSpec::new(Rate::from_gbps(400), Span::from_ns(25)),
};

fn counts(endpoints: u32, switches: u32, cables: u32) -> Counts {
    Counts { endpoints, switches, cables }
}

fn build(topology: &Topology, radix: u32) -> Result<Fabric, TopologyError> {
    let fabric = topology.build(&LINKS, radix)?;
    conforms(&fabric).unwrap();
    Ok(fabric)
}

fn fat_tree(change: impl FnOnce(&mut FatTree)) -> Topology {
    let mut family = FatTree::default();
    change(&mut family);
    Topology::FatTree(family)
}

#[test]
fn full_trees_of_three_levels() {
    // k ports: k³/4 endpoints, 5k²/4 switches, 3·k³/4 cables.
    for (radix, endpoints, switches) in [(4, 16, 20), (16, 1024, 320), (32, 8192, 1280), (36, 11_664, 1620)] {
        let fabric = build(&fat_tree(|tree| tree.levels = Some(3)), radix).unwrap();
        assert_eq!(fabric.counts(), counts(endpoints, switches, 3 * endpoints), "radix {radix}");
        assert_eq!(fabric.coordinates.diameter(), 6);
    }
}

#[test]
fn full_trees_of_two_levels() {
    // k ports: k²/2 endpoints, k leaves and k/2 spines, as many cables between them as endpoints.
    for radix in [2, 8, 36, 64] {
        let fabric = build(&fat_tree(|_| ()), radix).unwrap();
        assert_eq!(fabric.counts(), counts(radix * radix / 2, radix * 3 / 2, radix * radix));
    }
}

#[test]
fn the_levels_follow_the_endpoints() {
    for (endpoints, height) in [(1, 2), (648, 2), (649, 3), (11_664, 3), (11_665, 4)] {
        let fabric = build(&fat_tree(|tree| tree.endpoints = Some(endpoints)), 36).unwrap();
        assert_eq!(fabric.coordinates.diameter(), 2 * height, "{endpoints}");
    }
}

#[test]
fn half_a_tree_has_half_the_spines_with_two_cables_each() {
    // 324 endpoints on 36 ports: 18 leaves with 18 uplinks; 18 leaves · 2 cables fill a spine; 18 / 2 = 9 spines.
    let fabric = build(&fat_tree(|tree| tree.endpoints = Some(324)), 36).unwrap();
    assert_eq!(fabric.counts(), counts(324, 18 + 9, 324 + 324));
    let to_spine = |spine: u32| fabric.graph.outputs(SwitchId(0)).filter(|(_, link)| fabric.graph.link(*link).to.0 == spine).count();
    assert!((324 + 18..324 + 27).all(|spine| to_spine(spine) == 2));
}

#[test]
fn a_tree_filled_in_part_leaves_empty_switches_out() {
    // 16 ports, 600 endpoints: 75 leaves of 8; 10 pods of 8 leaves, 8 switches each at level 2; 10 pods with 8 uplinks each
    // fit 16 top ports once, so 64 tops.
    let fabric = build(&fat_tree(|tree| (tree.levels, tree.endpoints) = (Some(3), Some(600))), 16).unwrap();
    assert_eq!(fabric.counts(), counts(600, 75 + 80 + 64, 600 + 75 * 8 + 80 * 8));
    let Coordinates::Tree(tree) = &fabric.coordinates else { panic!() };
    assert_eq!(tree.leaf(EndpointId(599)), SwitchId(74));
    assert_eq!((tree.place(SwitchId(75 + 9)).level, tree.place(SwitchId(75 + 9)).subtree, tree.place(SwitchId(75 + 9)).copy), (2, 1, 1));
    assert_eq!([0, 7, 8, 64].map(|other| tree.meeting_level(EndpointId(0), EndpointId(other))), [0, 1, 2, 3]);
}

#[test]
fn tapered_trees() {
    let ratio = |text| Some(Oversubscription::parse(text).unwrap());
    // 36 ports at 2:1: 24 down, 12 up; 36 leaves on 12 spines.
    let two = build(&fat_tree(|tree| tree.oversubscription = ratio("2:1")), 36).unwrap();
    assert_eq!(two.counts(), counts(864, 48, 864 + 36 * 12));
    // Three levels: pods of 18 leaves with 12 switches above, 36 pods on 12 · 18 tops.
    let three = build(&fat_tree(|tree| (tree.levels, tree.oversubscription) = (Some(3), ratio("2:1"))), 36).unwrap();
    assert_eq!(three.counts(), counts(24 * 18 * 36, 36 * (18 + 12) + 12 * 18, 24 * 18 * 36 + 36 * 18 * 12 + 36 * 12 * 18));
    // 2:1 at the second level instead: 24 leaves in a pod, 12 uplinks from each switch above.
    let upper = build(&fat_tree(|tree| (tree.levels, tree.upper_oversubscription) = (Some(3), ratio("2:1"))), 36).unwrap();
    assert_eq!(upper.counts().switches, 36 * (24 + 18) + 18 * 12);
    // A leaf may be given by its ports: 40 ports with 24 down and 16 up.
    let ports = build(&fat_tree(|tree| (tree.down, tree.up) = (Some(24), Some(16))), 40).unwrap();
    assert_eq!(ports.counts(), counts(24 * 40, 40 + 16, 24 * 40 + 16 * 40));
    // One of them and the ratio give the other.
    let up = build(&fat_tree(|tree| (tree.up, tree.oversubscription) = (Some(10), ratio("3:1"))), 40).unwrap();
    assert_eq!(up.counts(), counts(30 * 40, 40 + 10, 30 * 40 + 40 * 10));
}

#[test]
fn leaf_and_spine() {
    // Three leaves with 24 endpoints each, two spines with 4 cables to each leaf.
    let family = LeafSpine { leaves: Some(3), spines: Some(2), links_per_uplink: Some(4), down: Some(24), ..LeafSpine::default() };
    let fabric = build(&Topology::LeafSpine(family), 36).unwrap();
    assert_eq!(fabric.counts(), counts(72, 5, 72 + 3 * 2 * 4));
    // Nothing said: as the full tree of two levels.
    assert_eq!(build(&Topology::LeafSpine(LeafSpine::default()), 36).unwrap().counts(), counts(648, 54, 1296));
    // Endpoints alone: 100 on leaves of 18 are 6 leaves, the last one with 10.
    // Six leaves of 18; a spine has ports for six cables to each, so three are enough.
    let family = LeafSpine { endpoints: Some(100), ..LeafSpine::default() };
    assert_eq!(build(&Topology::LeafSpine(family), 36).unwrap().counts(), counts(100, 6 + 3, 100 + 6 * 18));
}

#[test]
fn one_switch_or_none() {
    let one = build(&Topology::SingleSwitch(SingleSwitch::default()), 40).unwrap();
    assert_eq!((one.counts(), one.coordinates.diameter()), (counts(40, 1, 40), 2));
    let none = build(&Topology::BackToBack(BackToBack {}), 40).unwrap();
    assert_eq!((none.counts(), none.coordinates.diameter()), (counts(2, 0, 1), 1));
    assert_eq!(none.graph.node(none.graph.link(none.graph.uplink(EndpointId(0))).to), Node::Endpoint(EndpointId(1)));
}

#[test]
fn hosts_and_trunks_have_their_own_cables() {
    let fabric = build(&fat_tree(|_| ()), 8).unwrap();
    let leaf_links: Vec<Rate> = fabric.graph.outputs(SwitchId(0)).map(|(_, link)| fabric.graph.link(link).rate).collect();
    assert_eq!(leaf_links, [[Rate::from_gbps(200); 4], [Rate::from_gbps(400); 4]].concat());
    assert_eq!(fabric.graph.link(fabric.graph.uplink(EndpointId(3))).delay, Span::from_ns(5));
}

#[test]
fn errors_give_the_values_and_a_remedy() {
    let ratio = |text| Some(Oversubscription::parse(text).unwrap());
    let cases: [(Topology, u32, &[&str]); 12] = [
        (
            fat_tree(|tree| (tree.down, tree.up) = (Some(24), Some(24))),
            36,
            &["a leaf needs 48 ports but the switch has 36", "lower `down`"],
        ),
        (fat_tree(|tree| tree.endpoints = Some(2_000_000)), 16, &["2000000 endpoints do not fit", "8192"]),
        (fat_tree(|tree| (tree.endpoints, tree.levels) = (Some(1025), Some(3))), 16, &["holds 1024", "`levels`"]),
        (fat_tree(|tree| tree.levels = Some(9)), 16, &["`levels = 9`", "2, 3 or 4"]),
        (fat_tree(|tree| tree.radix = Some(64)), 36, &["`radix = 64`", "36 ports"]),
        (fat_tree(|tree| tree.endpoints = Some(0)), 36, &["`endpoints = 0`", "at least 1"]),
        (fat_tree(|tree| (tree.down, tree.oversubscription) = (Some(25), ratio("2:1"))), 40, &["25 ports down at 2:1", "multiple of 2"]),
        (
            fat_tree(|tree| (tree.down, tree.up, tree.oversubscription) = (Some(2), Some(1), ratio("2:1"))),
            40,
            &["`down and up` and `oversubscription` say the same"],
        ),
        (fat_tree(|tree| tree.upper_oversubscription = ratio("2:1")), 36, &["`upper_oversubscription` has no effect"]),
        (fat_tree(|tree| tree.oversubscription = ratio("30:10")), 3, &["a leaf needs 4 ports", "smaller ratio"]),
        (Topology::LeafSpine(LeafSpine { leaves: Some(40), ..LeafSpine::default() }), 36, &["a spine needs 40 ports", "`leaves`"]),
        (Topology::SingleSwitch(SingleSwitch { endpoints: Some(41), radix: None }), 40, &["needs 41 ports", "leaf_spine"]),
    ];
    for (topology, radix, parts) in cases {
        let message = build(&topology, radix).unwrap_err().in_full();
        assert!(parts.iter().all(|part| message.contains(part)), "{topology:?}: {message}");
    }
}

#[test]
fn a_slip_of_the_pen_is_refused_before_it_fills_the_memory() {
    let topology = fat_tree(|tree| (tree.levels, tree.endpoints) = (Some(4), None));
    let message = build(&topology, 1024).unwrap_err().in_full();
    assert!(message.contains("can be numbered") && message.contains("`endpoints`"), "{message}");
}

#[test]
fn parts_have_names() {
    let fabric = build(&fat_tree(|tree| tree.levels = Some(3)), 4).unwrap();
    let names = [0, 7, 8, 15, 16, 19].map(|switch| fabric.name(Node::Switch(SwitchId(switch))));
    assert_eq!(names, ["leaf 0", "leaf 7", "level-2 switch 0 of pod 0", "level-2 switch 1 of pod 3", "spine 0", "spine 3"]);
    assert_eq!(fabric.to_string(), "tree of 3 levels: 16 endpoints, 20 switches, 48 cables");
}

#[test]
fn a_link_without_a_rate_is_refused() {
    let dead = Links { trunk: LinkSpec::new(Rate::from_bps(0), Span::ZERO), ..LINKS };
    let message = Topology::FatTree(FatTree::default()).build(&dead, 4).unwrap_err().in_full();
    assert!(message.contains("rate 0"), "{message}");
}

#[test]
fn toml_is_read_strictly() {
    #[derive(serde::Deserialize)]
    struct Lab {
        topology: Topology,
    }
    let read = |text: &str| toml::from_str::<Lab>(text).map(|lab| lab.topology);
    let text = "[topology.fat_tree]\nlevels = 3\noversubscription = \"2:1\"\nendpoints = 100";
    let expected = fat_tree(|tree| {
        (tree.levels, tree.endpoints) = (Some(3), Some(100));
        tree.oversubscription = Some(Oversubscription::parse("2:1").unwrap());
    });
    assert_eq!(read(text).unwrap(), expected);
    assert_eq!(toml::from_str::<Topology>(&toml::to_string(&expected).unwrap()).unwrap(), expected);
    assert_eq!(read("[topology.back_to_back]").unwrap(), Topology::BackToBack(BackToBack {}));
    let unknown = read("[topology.fat_tree]\nlevel = 3").unwrap_err().to_string();
    assert!(unknown.contains("line 2") && unknown.contains("`level`") && unknown.contains("`levels`"), "{unknown}");
    let ratio = read("[topology.fat_tree]\noversubscription = \"2\"").unwrap_err().to_string();
    assert!(ratio.contains("line 2") && ratio.contains("\"2:1\""), "{ratio}");
    assert!(read("[topology.moebius]").unwrap_err().to_string().contains("fat_tree"));
}

#[test]
fn the_schema_explains_every_key() {
    let schema = serde_json::to_string(&schemars::schema_for!(Topology)).unwrap();
    for text in ["fat_tree", "leaf_spine", "How many spine switches there are", "Ports towards the endpoints", "additionalProperties"] {
        assert!(schema.contains(text), "{text}: {schema}");
    }
}

/// A fabric of two switches that is not what its coordinates say.
fn wired_by_hand(cables: &[(Socket, Socket)], template: &Fabric) -> Fabric {
    let mut builder = Builder::new(2, [2, 2, 2]).unwrap();
    for (from, to) in cables {
        builder.cable(*from, *to, &LINKS.host).unwrap();
    }
    let mut fabric = template.clone();
    fabric.graph = builder.build().unwrap();
    fabric
}

#[test]
fn the_suite_finds_defects() {
    // Two endpoints on two leaves below one spine: four cables.
    let family = LeafSpine { endpoints: Some(2), down: Some(1), spines: Some(1), ..LeafSpine::default() };
    let right = Topology::LeafSpine(family).build(&Links { trunk: LINKS.host, ..LINKS }, 2).unwrap();
    conforms(&right).unwrap();
    let hosts = [(Socket::endpoint(0), Socket::switch(0, 0)), (Socket::endpoint(1), Socket::switch(1, 0))];
    let trunks = [(Socket::switch(0, 1), Socket::switch(2, 0)), (Socket::switch(1, 1), Socket::switch(2, 1))];
    let same = wired_by_hand(&[hosts, trunks].concat(), &right);
    assert_eq!(same, right);

    let missing = wired_by_hand(&[hosts[0], hosts[1], trunks[0]], &right);
    assert!(matches!(conforms(&missing), Err(Defect::Counts { .. })));
    let island = [hosts[0], (Socket::endpoint(1), Socket::switch(0, 1)), (Socket::switch(1, 0), Socket::switch(2, 0)), trunks[1]];
    let island = wired_by_hand(&island, &right);
    assert!(matches!(conforms(&island), Err(Defect::Unreachable { node: Node::Switch(SwitchId(1)) })), "{:?}", conforms(&island));
    let mut small = right.clone();
    small.radix = 1;
    assert!(matches!(conforms(&small), Err(Defect::Degree { degree: 2, radix: 1, .. })));
}
