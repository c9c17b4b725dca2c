//! Grids of every kind: closed forms, routings that claim them, datelines.

use fabriscope_fabric::routing::deadlock::{Verdict, check};
use fabriscope_fabric::routing::delivers;
use fabriscope_fabric::topology::{FullMesh, HyperX, Hypercube, Mesh, Torus, conforms};
use fabriscope_fabric::{
    Counts, EndpointId, Fabric, Head, Hop, LinkSpec, Links, Route, Router, Routing, SwitchId, SwitchView, Topology, TopologyError,
    switch_hops,
};
use fabriscope_units::Remedy;
use fabriscope_units::{Rate, Span};
use proptest::prelude::*;

/// Every routing that is made for grids.
fn routings(fabric: &Fabric) -> impl Iterator<Item = Routing> {
    Routing::ALL.iter().copied().filter(|routing| routing.is_made_for(&fabric.coordinates))
}

fn build(topology: &Topology) -> Result<Fabric, TopologyError> {
    let fabric = topology.build(&Links::uniform(LinkSpec::new(Rate::from_gbps(100), Span::from_ns(10))), 64)?;
    conforms(&fabric).unwrap();
    Ok(fabric)
}

fn torus(sizes: &[u32]) -> Topology {
    Topology::Torus(Torus { sizes: sizes.to_vec(), ..Torus::default() })
}

fn mesh(sizes: &[u32]) -> Topology {
    Topology::Mesh(Mesh { sizes: sizes.to_vec(), ..Mesh::default() })
}

fn counts(endpoints: u32, switches: u32, cables: u32) -> Counts {
    Counts { endpoints, switches, cables }
}

#[test]
fn known_grids() {
    // 3 dimensions · 64 cables each; a 10-cube has 10 / 2 cables for each switch; 8 processors · 7 / 2 pairs · 3 cables.
    let full_mesh = FullMesh { switches: Some(8), cables: Some(3), endpoints: Some(3), radix: Some(24) };
    let hyper_x = HyperX { sizes: vec![4, 3], endpoints: Some(2), ..HyperX::default() };
    for (topology, expected, diameter, name) in [
        (torus(&[4, 4, 4]), counts(64, 64, 64 + 192), 2 + 6, "torus of 4 × 4 × 4"),
        (torus(&[5, 2]), counts(10, 10, 10 + 10 + 5), 2 + 2 + 1, "torus of 5 × 2"),
        (mesh(&[4, 3]), counts(12, 12, 12 + 9 + 8), 2 + 5, "mesh of 4 × 3"),
        (Topology::Hypercube(Hypercube { dimensions: Some(10), ..Hypercube::default() }), counts(1024, 1024, 1024 + 5120), 12, "hypercube"),
        (Topology::HyperX(hyper_x), counts(24, 12, 24 + 3 * 6 + 4 * 3), 4, "HyperX of 4 × 3"),
        (Topology::FullMesh(full_mesh), counts(24, 8, 24 + 28 * 3), 3, "full mesh of 8"),
    ] {
        let fabric = build(&topology).unwrap();
        assert_eq!((fabric.counts(), fabric.coordinates.diameter()), (expected, diameter), "{topology:?}");
        assert!(fabric.to_string().starts_with(name), "{fabric}");
    }
    assert_eq!(build(&torus(&[4, 3])).unwrap().name(fabriscope_fabric::Node::Switch(SwitchId(6))), "switch (2,1)");
}

#[test]
fn shapes_that_are_none() {
    let message = |topology: &Topology| build(topology).unwrap_err().in_full();
    assert!(message(&torus(&[])).contains("`sizes = 0` is out of range"));
    assert!(message(&torus(&[4, 0])).contains("sizes of at least 1"));
    assert!(message(&Topology::Hypercube(Hypercube { dimensions: Some(40), ..Hypercube::default() })).contains("1 to 20"));
    let wide = Topology::FullMesh(FullMesh { switches: Some(100), ..FullMesh::default() });
    assert!(message(&wide).contains("100 ports but the switch has 64"), "{}", message(&wide));
    assert!(message(&torus(&[100_000, 100_000])).contains("more than"));
    let uneven = Torus { sizes: vec![4, 4, 4], cables: Some(vec![1, 2]), ..Torus::default() };
    assert!(message(&Topology::Torus(uneven)).contains("one number of cables for all"));
}

/// A switch of a hypercube has one neighbour in each dimension: ports for d cables and its endpoints are enough.
#[test]
fn a_neighbour_takes_one_port() {
    let cube = |dimensions, endpoints, radix| {
        let cube = Hypercube { dimensions: Some(dimensions), endpoints: Some(endpoints), radix: Some(radix), ..Hypercube::default() };
        build(&Topology::Hypercube(cube))
    };
    for (dimensions, endpoints) in [(1, 1), (6, 2), (10, 1)] {
        let enough = cube(dimensions, endpoints, dimensions + endpoints).unwrap();
        assert_eq!(enough.counts().cables, (dimensions << (dimensions - 1)) + (endpoints << dimensions));
        let message = cube(dimensions, endpoints, dimensions + endpoints - 1).unwrap_err().in_full();
        assert!(message.contains(&format!("{} ports", dimensions + endpoints)), "{message}");
    }
    // A torus of two is the same cube; three in a row are a ring, with two neighbours.
    let mixed = |radix| build(&Topology::Torus(Torus { sizes: vec![2, 3], radix: Some(radix), ..Torus::default() }));
    assert!(mixed(1 + 1 + 2).is_ok() && mixed(1 + 2).is_err());
}

fn grids() -> impl Strategy<Value = Topology> {
    let sizes = || prop::collection::vec(1u32..=5, 1..=3);
    let cables = || proptest::option::of(Just(vec![2]));
    let endpoints = || proptest::option::of(1u32..=3);
    prop_oneof![
        3 => (sizes(), cables(), endpoints()).prop_map(|(sizes, cables, endpoints)| Topology::Torus(Torus { sizes, cables, endpoints, radix: None })),
        2 => (sizes(), cables(), endpoints()).prop_map(|(sizes, cables, endpoints)| Topology::Mesh(Mesh { sizes, cables, endpoints, radix: None })),
        2 => (prop::collection::vec(1u32..=4, 1..=3), cables(), endpoints()).prop_map(|(sizes, cables, endpoints)| Topology::HyperX(HyperX { sizes, cables, endpoints, radix: None })),
        1 => (1u32..=5, endpoints()).prop_map(|(dimensions, endpoints)| Topology::Hypercube(Hypercube { dimensions: Some(dimensions), cables: None, endpoints, radix: None })),
        1 => (1u32..=8, 1u32..=3, endpoints()).prop_map(|(switches, cables, endpoints)| Topology::FullMesh(FullMesh { switches: Some(switches), cables: Some(cables), endpoints, radix: None })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_routing_delivers_on_every_grid(topology in grids()) {
        let fabric = build(&topology).unwrap();
        for routing in routings(&fabric) {
            let router = Router::new(&fabric, routing).unwrap();
            let delivery = delivers(&fabric, &router);
            prop_assert!(delivery.is_ok(), "{routing} on {topology:?}: {delivery:?}");
            prop_assert!(router.proof().is_some() && check(&fabric, &router).is_free(), "{routing} on {topology:?}");
        }
        // Shortest ways: no longer than the diameter, and the diameter is reached.
        let router = Router::new(&fabric, Routing::DimensionOrder).unwrap();
        let count = fabric.graph.endpoint_count();
        let longest = (1..count).map(|to| switch_hops(&fabric, &router, EndpointId(0), EndpointId(to), 0) + 1).max();
        if matches!(topology, Topology::Torus(_)) && count > 1 {
            prop_assert_eq!(longest, Some(fabric.coordinates.diameter().max(2)));
        }
    }
}

/// Dimension order without the second lane.
struct WithoutDatelines(Router);

impl Route for WithoutDatelines {
    fn output(&self, at: SwitchId, head: Head, view: &mut impl SwitchView) -> Hop {
        Hop { vl: 0, ..self.0.output(at, head, view) }
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        self.0.options(at, head, &mut |hop| visit(Hop { vl: 0, ..hop }));
    }
    fn lanes(&self) -> u8 {
        1
    }
    fn longest(&self) -> u32 {
        self.0.longest()
    }
}

/// The table of docs/models/torus.md: rings of more than three switches need the second lane, and with it are free.
#[test]
fn datelines() {
    for (sizes, cycle) in [(vec![3], 0), (vec![4], 4), (vec![5], 5), (vec![8], 8), (vec![4, 4], 4), (vec![4, 4, 4], 4), (vec![8, 8], 8)] {
        let fabric = build(&torus(&sizes)).unwrap();
        let router = Router::new(&fabric, Routing::DimensionOrder).unwrap();
        assert!(matches!(check(&fabric, &router), Verdict::Free { .. }), "{sizes:?}");
        match check(&fabric, &WithoutDatelines(router)) {
            Verdict::Cycle(hops) => assert_eq!(hops.len(), cycle, "{sizes:?}"),
            verdict => assert_eq!((cycle, verdict.is_free()), (0, true), "{sizes:?}"),
        }
    }
}

/// Uniform traffic on a ring of k (even): each link up carries k / 8 of what a switch sends, as of Dally and Towles §5.
#[test]
fn loads_of_a_ring() {
    let fabric = build(&torus(&[8])).unwrap();
    let router = Router::new(&fabric, Routing::DimensionOrder).unwrap();
    let mut load = vec![0u32; fabric.graph.link_count() as usize];
    for (from, to) in (0..8).flat_map(|from| (0..8).map(move |to| (from, to))) {
        for link in fabriscope_fabric::path(&fabric, &router, EndpointId(from), EndpointId(to), 0) {
            load[link.index()] += 1;
        }
    }
    // From each switch 1 + 2 + 3 + 4 links up to the four nearest on that side, 1 + 2 + 3 down: 10 and 6 for each link.
    let ring: Vec<u32> = load[16..].to_vec();
    assert_eq!((ring.iter().max(), ring.iter().min()), (Some(&10), Some(&6)));
}
