//! Every routing on every topology: it delivers, and the load is what the algorithm promises.

use fabriscope_fabric::routing::{Defect, Flowlet, deadlock, delivers};
use fabriscope_fabric::topology::{BackToBack, FatTree, LeafSpine, Oversubscription, SingleSwitch, conforms};
use fabriscope_fabric::{
    Builder, EndpointId, Fabric, Head, Hop, Idle, LinkId, LinkSpec, Links, Memory, Route, Router, Routing, Socket, SwitchId, SwitchView,
    Topology, path, switch_hops,
};
use fabriscope_units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;

/// Every routing that is made for trees.
fn all() -> impl Iterator<Item = Routing> {
    let tree = tree(2, 4);
    Routing::ALL.iter().copied().filter(move |routing| routing.is_made_for(&tree.coordinates))
}

fn links() -> Links {
    let cable = LinkSpec::new(Rate::from_gbps(400), Span::from_ns(25));
    Links::uniform(cable)
}

fn tree(levels: u32, radix: u32) -> Fabric {
    Topology::FatTree(FatTree { levels: Some(levels), ..FatTree::default() }).build(&links(), radix).unwrap()
}

/// How many of the paths use each link.
fn load(fabric: &Fabric, paths: impl Iterator<Item = Vec<LinkId>>) -> Vec<u32> {
    let mut load = vec![0; fabric.graph.link_count() as usize];
    paths.flatten().for_each(|link| load[link.index()] += 1);
    load
}

fn fat_trees() -> impl Strategy<Value = (Topology, u32)> {
    let ratio = prop_oneof![Just("1:1"), Just("2:1"), Just("3:1"), Just("3:2"), Just("1:2")];
    let upper = proptest::option::of(prop_oneof![Just("2:1"), Just("3:1")]);
    (2u32..=4, 5u32..=12, ratio, upper, 1u32..=150).prop_map(|(levels, radix, ratio, upper, endpoints)| {
        let parse = |text| Oversubscription::parse(text).unwrap();
        let upper_oversubscription = upper.filter(|_| levels > 2).map(parse);
        let family = FatTree { levels: Some(levels), oversubscription: Some(parse(ratio)), upper_oversubscription, ..FatTree::default() };
        let fit = |endpoints| Topology::FatTree(FatTree { endpoints: Some(endpoints), ..family.clone() });
        // Too many for this tree: what it holds.
        let topology = if fit(endpoints).build(&links(), radix).is_ok() { fit(endpoints) } else { fit(1) };
        (topology, radix)
    })
}

fn leaf_spines() -> impl Strategy<Value = (Topology, u32)> {
    (1u32..=6, 1u32..=4, 1u32..=3, 1u32..=6, 0u32..=5).prop_map(|(leaves, spines, cables, down, missing)| {
        let endpoints = leaves * down - missing.min(down - 1);
        let (leaves, spines, down) = (Some(leaves), Some(spines), Some(down));
        let family = LeafSpine { endpoints: Some(endpoints), leaves, spines, down, links_per_uplink: Some(cables), radix: None };
        (Topology::LeafSpine(family), 24)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_routing_delivers_on_every_tree((topology, radix) in prop_oneof![fat_trees(), leaf_spines()]) {
        let fabric = topology.build(&links(), radix).unwrap();
        prop_assert_eq!(conforms(&fabric), Ok(()));
        for routing in all() {
            let delivery = delivers(&fabric, &Router::new(&fabric, routing).unwrap());
            prop_assert!(delivery.is_ok(), "{:?} {:?}: {:?}", routing, topology, delivery);
        }
    }

    #[test]
    fn no_numbers_make_it_panic(numbers in proptest::collection::vec(proptest::option::of(prop_oneof![0u32..70, any::<u32>()]), 6), limit in 0u32..70) {
        let [endpoints, levels, radix, down, up, spines] = numbers[..] else { unreachable!() };
        // A million endpoints are slow to build, not wrong.
        let endpoints = endpoints.map(|count| if count < 1_000_000_000 { count % 2000 } else { count }).or(Some(100));
        let fat_tree = FatTree { endpoints, levels, radix, down, up, ..FatTree::default() };
        let leaf_spine = LeafSpine { endpoints, leaves: levels, spines, down, links_per_uplink: up, radix };
        for topology in [Topology::FatTree(fat_tree), Topology::LeafSpine(leaf_spine), Topology::SingleSwitch(SingleSwitch { endpoints, radix })] {
            if let Ok(fabric) = topology.build(&links(), limit) {
                prop_assert_eq!(conforms(&fabric), Ok(()));
            }
        }
    }
}

#[test]
fn the_large_trees_deliver() {
    for radix in [16, 32] {
        let fabric = tree(3, radix);
        for routing in all() {
            let delivery = delivers(&fabric, &Router::new(&fabric, routing).unwrap()).unwrap();
            assert_eq!(delivery.longest, 6);
        }
    }
}

#[test]
fn back_to_back_needs_no_routing() {
    let fabric = Topology::BackToBack(BackToBack {}).build(&links(), 0).unwrap();
    let router = Router::new(&fabric, Routing::DModK).unwrap();
    assert_eq!(path(&fabric, &router, EndpointId(1), EndpointId(0), 0), [LinkId(1)]);
    assert_eq!(delivers(&fabric, &router).unwrap().longest, 1);
}

#[test]
fn hops_follow_the_lowest_common_level() {
    let fabric = tree(3, 8);
    for routing in all() {
        let router = Router::new(&fabric, routing).unwrap();
        let hops = |dest| switch_hops(&fabric, &router, EndpointId(0), EndpointId(dest), 5);
        // Leaves of 4, pods of 16: the endpoint itself, the leaf, the pod, the top.
        assert_eq!([0, 3, 4, 15, 16, 127].map(hops), [0, 1, 3, 3, 5, 5]);
        assert!(path(&fabric, &router, EndpointId(9), EndpointId(9), 0).is_empty());
    }
}

#[test]
fn d_mod_k_keeps_shifts_apart() {
    // Zahavi 2012: on a full tree every shift d = s + k mod n puts at most one flow on each link, up and down.
    let half = Topology::FatTree(FatTree { endpoints: Some(32), ..FatTree::default() }).build(&links(), 16).unwrap();
    for fabric in [tree(2, 8), tree(3, 8), tree(4, 4), half] {
        let router = Router::new(&fabric, Routing::DModK).unwrap();
        let count = fabric.graph.endpoint_count();
        for shift in 1..count {
            let flow = |src| path(&fabric, &router, EndpointId(src), EndpointId((src + shift) % count), 0);
            assert_eq!(load(&fabric, (0..count).map(flow)).into_iter().max(), Some(1), "shift {shift} of {count}");
        }
    }
}

#[test]
fn d_mod_k_at_two_to_one_doubles_the_load() {
    let family = FatTree { oversubscription: Some(Oversubscription::parse("2:1").unwrap()), ..FatTree::default() };
    let fabric = Topology::FatTree(family).build(&links(), 12).unwrap();
    let router = Router::new(&fabric, Routing::DModK).unwrap();
    let count = fabric.graph.endpoint_count();
    for shift in (8..count - 8).step_by(8) {
        // Shifts by whole leaves: 8 flows leave each leaf by 4 uplinks.
        let flow = |src| path(&fabric, &router, EndpointId(src), EndpointId((src + shift) % count), 0);
        assert_eq!(load(&fabric, (0..count).map(flow)).into_iter().max(), Some(2), "shift {shift}");
    }
}

#[test]
fn spray_visits_every_path_in_turn() {
    // 8 ports, three levels: 4 · 4 paths between pods. With parallel cables: 36 uplinks to 9 spines, twice each.
    let half = Topology::FatTree(FatTree { endpoints: Some(32), ..FatTree::default() }).build(&links(), 16).unwrap();
    for (fabric, dest, ways) in [(tree(3, 8), 127, 16), (half, 31, 8)] {
        let router = Router::new(&fabric, Routing::Spray).unwrap();
        let mut paths: Vec<_> =
            (1000..1000 + ways).map(|entropy| path(&fabric, &router, EndpointId(0), EndpointId(dest), entropy)).collect();
        let again = path(&fabric, &router, EndpointId(0), EndpointId(dest), 1000 + ways);
        assert_eq!(paths[0], again);
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), ways as usize);
    }
}

#[test]
fn ecmp_spreads_flows_and_keeps_each_on_its_path() {
    let fabric = tree(3, 16);
    let router = Router::new(&fabric, Routing::Ecmp).unwrap();
    let flows = 64 * 1000;
    let ends = |entropy| path(&fabric, &router, EndpointId(0), EndpointId(1023), entropy);
    assert_eq!(ends(7), ends(7));
    let load = load(&fabric, (0..flows).map(ends));
    // 8 · 8 paths by way of 64 tops: the third link of the path says which. All 64 are used only if the choices at the two
    // levels are independent. 1000 flows each, deviation 32; 5.5 deviations are allowed.
    let mut tops: Vec<LinkId> = (0..flows).map(|entropy| ends(entropy)[2]).collect();
    tops.sort_unstable();
    tops.dedup();
    assert_eq!(tops.len(), 64);
    assert!(tops.iter().all(|top| load[top.index()].abs_diff(1000) < 176));
}

#[test]
fn parallel_cables_are_all_used() {
    let family = LeafSpine { leaves: Some(3), spines: Some(2), links_per_uplink: Some(4), down: Some(24), ..LeafSpine::default() };
    let fabric = Topology::LeafSpine(family).build(&links(), 36).unwrap();
    for routing in all() {
        let router = Router::new(&fabric, routing).unwrap();
        let all = (0..72).flat_map(|src| (0..72).map(move |dst| (src, dst)));
        let flows = all.map(|(src, dst)| path(&fabric, &router, EndpointId(src), EndpointId(dst), src));
        assert!(load(&fabric, flows).iter().all(|&load| load > 0), "{routing:?}");
    }
}

/// A routing with a mistake in it: what `change` makes of the answer of d-mod-k.
struct Broken<F> {
    router: Router,
    change: F,
}

impl<F: Fn(SwitchId, Head, Hop) -> Hop> Route for Broken<F> {
    fn output(&self, at: SwitchId, head: Head, view: &mut impl SwitchView) -> Hop {
        (self.change)(at, head, self.router.output(at, head, view))
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        self.router.options(at, head, &mut |hop| visit((self.change)(at, head, hop)));
    }
    fn lanes(&self) -> u8 {
        self.router.lanes()
    }
    fn longest(&self) -> u32 {
        self.router.longest() + 4
    }
}

fn mistake(fabric: &Fabric, change: impl Fn(SwitchId, Head, Hop) -> Hop) -> Defect {
    let router = Router::new(fabric, Routing::DModK).unwrap();
    delivers(fabric, &Broken { router, change }).unwrap_err()
}

#[test]
fn the_suite_finds_mistakes() {
    let fabric = tree(2, 4);
    assert!(matches!(mistake(&fabric, |_, head, hop| Hop { link: head.input.reverse(), ..hop }), Defect::Bounces { .. }));
    assert!(matches!(mistake(&fabric, |_, _, hop| Hop { link: LinkId(u32::MAX), ..hop }), Defect::Elsewhere { .. }));
    assert!(matches!(mistake(&fabric, |_, head, hop| Hop { link: head.input, ..hop }), Defect::Elsewhere { .. }));
    assert!(matches!(mistake(&fabric, |_, _, hop| Hop { vl: 1, ..hop }), Defect::Lane { lanes: 1, .. }));
    let count = std::cell::Cell::new(0);
    let fickle = |_, _, hop: Hop| {
        count.set(count.get() + 1);
        if hop.link.0.is_multiple_of(2) && count.get() % 7 == 0 { Hop { link: LinkId(hop.link.0 ^ 2), ..hop } } else { hop }
    };
    assert!(matches!(mistake(&fabric, fickle), Defect::Fickle { .. }));
    // Delivered to the neighbour: endpoints 0 and 1 have the cables 0 and 1.
    let neighbour =
        |_, head: Head, hop: Hop| if hop.link.0 < 4 && head.input.0 >= 4 { Hop { link: LinkId(hop.link.0 ^ 2), ..hop } } else { hop };
    assert!(matches!(mistake(&fabric, neighbour), Defect::Lost { .. }));
    // Between the two endpoints of a leaf by way of a spine.
    let climbs = |at: SwitchId, head: Head, hop: Hop| {
        let detour = at == SwitchId(0) && head.input.0 < 4 && head.dest.0 < 2;
        if detour { Hop { link: fabric.graph.outputs(at).last().unwrap().1, ..hop } } else { hop }
    };
    assert!(matches!(mistake(&fabric, climbs), Defect::Bounces { .. } | Defect::NotUpDown { .. }));
}

/// A ring of switches with one endpoint each, all traffic clockwise; with or without a second lane behind the dateline.
struct Clockwise {
    switches: u32,
    lanes: u8,
}

impl Clockwise {
    fn fabric(&self) -> Fabric {
        let mut builder = Builder::new(self.switches, vec![3; self.switches as usize]).unwrap();
        for switch in 0..self.switches {
            builder.cable(Socket::endpoint(switch), Socket::switch(switch, 0), &links().host).unwrap();
        }
        for switch in 0..self.switches {
            builder.cable(Socket::switch(switch, 1), Socket::switch((switch + 1) % self.switches, 2), &links().trunk).unwrap();
        }
        let mut fabric = Topology::BackToBack(BackToBack {}).build(&links(), 0).unwrap();
        fabric.graph = builder.build().unwrap();
        fabric
    }
}

impl Route for Clockwise {
    fn output(&self, at: SwitchId, head: Head, _: &mut impl SwitchView) -> Hop {
        if head.dest.0 == at.0 {
            return Hop { link: LinkId(2 * at.0 + 1), vl: head.vl, via: 0 };
        }
        let dateline = self.lanes > 1 && at.0 == self.switches - 1;
        Hop { link: LinkId(2 * (self.switches + at.0)), vl: if dateline { 1 } else { head.vl }, via: 0 }
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        visit(self.output(at, head, &mut Idle::new()));
    }
    fn lanes(&self) -> u8 {
        self.lanes
    }
    fn longest(&self) -> u32 {
        self.switches + 1
    }
}

#[test]
fn a_ring_deadlocks_without_a_dateline() {
    for switches in [3, 5] {
        let ring = |lanes| Clockwise { switches, lanes };
        let fabric = ring(1).fabric();
        let Err(Defect::Deadlock { cycle }) = delivers(&fabric, &ring(1)) else { panic!("a ring of {switches} was thought free") };
        // The cycle is the ring itself: all its clockwise links, each once, end to end.
        assert_eq!(cycle.len(), switches as usize);
        for (index, hop) in cycle.iter().enumerate() {
            let next = cycle[(index + 1) % cycle.len()];
            assert_eq!(fabric.graph.link(hop.link).to, fabric.graph.link(next.link).from);
            assert_eq!(hop.vl, 0);
        }
        let text = deadlock::Verdict::Cycle(cycle).describe(&fabric);
        assert_eq!(text.lines().count(), 1 + switches as usize);
        assert!(text.contains(&format!("switch {} -> switch 0 on lane 0 (port 2)", switches - 1)), "{text}");
        assert_eq!(delivers(&ring(2).fabric(), &ring(2)).unwrap().longest, switches + 1);
    }
}

#[test]
fn every_head_of_a_thousand_hosts_is_visited() {
    let fabric = tree(3, 16);
    let router = Router::new(&fabric, Routing::Ecmp).unwrap();
    // Held: 1024 links from hosts, 1024 from leaves to pods, 1024 to the top, and as many down again, but those to hosts.
    // Wanted from each: a host's link any of 7 hosts of the leaf or 8 up; a leaf's uplink any of 7 leaves or 8 up; a pod's
    // uplink any of 15 pods; down, one of 8 each time.
    let expected = deadlock::Verdict::Free { channels: 5 * 1024, dependencies: 1024 * (15 + 15 + 15 + 8 + 8) };
    assert_eq!(deadlock::check(&fabric, &router), expected);
    assert!(matches!(deadlock::verdict(&tree(3, 32), &router_of(&tree(3, 32))), deadlock::Verdict::ByConstruction(_)));
}

fn router_of(fabric: &Fabric) -> Router {
    Router::new(fabric, Routing::Spray).unwrap()
}

/// Says that it answers with what d-mod-k answers, and sprays.
struct Secretive(Router, Router);

impl Route for Secretive {
    fn output(&self, at: SwitchId, head: Head, view: &mut impl SwitchView) -> Hop {
        self.0.output(at, head, view)
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        self.1.options(at, head, visit);
    }
    fn lanes(&self) -> u8 {
        1
    }
    fn longest(&self) -> u32 {
        self.0.longest()
    }
}

#[test]
fn hops_that_were_not_listed_are_found() {
    let fabric = tree(3, 8);
    let router = |routing| Router::new(&fabric, routing).unwrap();
    let defect = delivers(&fabric, &Secretive(router(Routing::Spray), router(Routing::DModK))).unwrap_err();
    assert!(matches!(defect, Defect::Unlisted { .. }), "{defect}");
}

/// Queues that are all as long, but for one that is empty; time passes with every packet.
struct OneFree {
    free: LinkId,
    packets: u64,
    memory: Memory,
}

impl SwitchView for OneFree {
    fn depth(&self, link: LinkId) -> Bytes {
        Bytes(if link == self.free { 0 } else { 4096 })
    }
    fn now(&self) -> Time {
        Time::ZERO + Span::from_ns(100) * self.packets
    }
    fn memory(&mut self, _: SwitchId, _: u32) -> &mut Memory {
        &mut self.memory
    }
}

/// Where 800 packets of one flow leave a leaf with 8 ports up, of which only port 3 is free.
fn at_a_leaf(routing: Routing) -> Vec<u32> {
    let fabric = tree(2, 16);
    let router = Router::new(&fabric, routing).unwrap();
    let (leaf, input) = (SwitchId(0), fabric.graph.uplink(EndpointId(0)));
    let ports: Vec<LinkId> = fabric.graph.outputs(leaf).map(|(_, link)| link).filter(|link| link.0 / 2 >= 128).collect();
    let mut view = OneFree { free: ports[3], packets: 0, memory: Memory::default() };
    let mut counts = vec![0; ports.len()];
    for packet in 0..800 {
        view.packets = packet;
        let head = Head { dest: EndpointId(100), entropy: 7, input, vl: 0, via: 0 };
        let hop = router.output(leaf, head, &mut view);
        counts[ports.iter().position(|&port| port == hop.link).unwrap()] += 1;
    }
    counts
}

#[test]
fn adaptive_takes_the_free_port_when_it_sees_it() {
    // Four draws of eight ports: the free one is among them with 1 − (7/8)⁴ = 0.41; the rest spreads evenly over seven.
    let counts = at_a_leaf(Routing::Adaptive);
    assert_eq!(counts.len(), 8);
    assert!(counts[3].abs_diff(331) < 45, "{counts:?}");
    assert!(counts.iter().enumerate().all(|(port, &count)| port == 3 || count > 30 && count < 110), "{counts:?}");
}

#[test]
fn a_flowlet_moves_after_a_pause_only() {
    // 100 ns between packets: a gap of 500 ns never passes, one of 50 ns always.
    let flowlet = |gap| at_a_leaf(Routing::Flowlet(Flowlet { gap: Span::from_ns(gap) }));
    assert_eq!(flowlet(500).iter().filter(|&&count| count > 0).count(), 1);
    assert!(flowlet(50).iter().all(|&count| count > 30));
}
