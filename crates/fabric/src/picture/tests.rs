use super::*;
use crate::topology::{BackToBack, Dragonfly, FatTree, Links, SingleSwitch, Topology, Torus};
use crate::{LinkSpec, SwitchId};
use fabriscope_units::Remedy;
use fabriscope_units::{Rate, Span};

fn fabric(topology: &Topology, radix: u32) -> Fabric {
    topology.build(&Links::uniform(LinkSpec::new(Rate::from_gbps(100), Span::from_ns(10))), radix).unwrap()
}

fn drawn(fabric: &Fabric) -> String {
    let loads: Vec<f64> = (0..fabric.graph.link_count()).map(|link| f64::from(link % 7) / 3.0).collect();
    let caption = ["a & b < c".to_owned()];
    svg(fabric, &Picture { title: "tests", caption: &caption, loads: Some(&loads) }).unwrap()
}

#[test]
fn all_switches_and_endpoints_are_there() {
    let torus = fabric(&Topology::Torus(Torus { sizes: vec![4, 3, 3], ..Torus::default() }), 16);
    let dragonfly = Dragonfly { groups: Some(5), switches: Some(4), endpoints: Some(2), global: Some(1), ..Dragonfly::default() };
    let dragonfly = fabric(&Topology::Dragonfly(dragonfly), 16);
    for fabric in [torus, dragonfly] {
        let text = drawn(&fabric);
        let (switches, endpoints) = (fabric.graph.switch_count() as usize, fabric.graph.endpoint_count() as usize);
        assert_eq!((text.matches("<circle").count(), text.matches("h0").count()), (switches, endpoints));
        assert_eq!(text, drawn(&fabric));
        assert!(text.contains("<desc id=\"desc\">a &amp; b &lt; c</desc>") && text.contains("switch (1,2,0)") == (switches == 36));
    }
}

#[test]
fn large_trees_are_drawn_by_subtrees() {
    let tree = FatTree { levels: Some(3), ..FatTree::default() };
    let large = fabric(&Topology::FatTree(tree.clone()), 64);
    assert_eq!(large.graph.switch_count(), 5 * 1024);
    let text = drawn(&large);
    // 2,048 leaves, 64 subtrees of two levels, one of three.
    assert_eq!(text.matches("<rect x").count(), 2048 + 64 + 1 + colour::STEPS);
    let small = drawn(&fabric(&Topology::FatTree(tree), 4));
    assert!(small.contains("<title>leaf 7</title>") && small.contains("× 16"), "{small}");
}

#[test]
fn what_is_too_large_is_told() {
    let torus = fabric(&Topology::Torus(Torus { sizes: vec![17, 17, 17], ..Torus::default() }), 16);
    assert_eq!(torus.name(crate::Node::Switch(SwitchId(4912))), "switch (16,16,16)");
    let error = svg(&torus, &Picture::default()).unwrap_err();
    assert_eq!(error, PictureError::TooManySwitches { switches: 4913, most: MOST_SWITCHES });
    assert!(error.in_full().contains("at most 4000"));
}

#[test]
fn the_smallest_fabrics() {
    let pair = drawn(&fabric(&Topology::BackToBack(BackToBack {}), 0));
    assert_eq!((pair.matches("<title>endpoint").count(), pair.matches("M").count()), (2, 1));
    let one = drawn(&fabric(&Topology::SingleSwitch(SingleSwitch { endpoints: Some(3), ..SingleSwitch::default() }), 8));
    assert_eq!((one.matches("<title>switch</title>").count(), one.matches("h0").count()), (1, 3));
}
