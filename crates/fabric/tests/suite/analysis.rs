//! What a fabric is worth: known values of regular topologies, and nothing better than the truth on random ones.

use std::fmt::Write;
use std::path::Path;

use fabriscope_fabric::analysis::{Backbone, Offer, bisection, census, distances, diversity, levels, mean_hops, pressure, shortest_hops};
use fabriscope_fabric::import;
use fabriscope_fabric::topology::{CableList, NamedCable, NamedSwitch};
use fabriscope_fabric::{EndpointId, Fabric, LinkSpec, Links, Node, Router, Routing, SwitchId, Topology};
use fabriscope_units::{Rate, Span};
use proptest::prelude::*;

fn links() -> Links {
    Links::uniform(LinkSpec::new(Rate::from_gbps(100), Span::from_ns(10)))
}

fn build(topology: &str) -> Fabric {
    #[derive(serde::Deserialize)]
    struct File {
        topology: Topology,
    }
    let file: File = toml::from_str(&format!("[topology]\n{topology}")).unwrap();
    file.topology.build(&links(), 64).unwrap()
}

fn imported(name: &str) -> Fabric {
    let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fabrics").join(name)).unwrap();
    import::read(&import::text(&bytes).unwrap()).unwrap().fabric(&links()).unwrap()
}

/// Closed forms that must come out, with n endpoints:
///
/// * diameter, in switches: tree of h levels 2h - 1; ring of k 1 + k/2; cube of d dimensions 1 + d; full mesh 2; dragonfly 4.
/// * bisection, in cables: full tree n/2, tapered 2:1 n/4; k-ary d-cube 2 kᵈ⁻¹, mesh kᵈ⁻¹; hypercube 2ᵈ⁻¹; full mesh (n/2)²;
///   HyperX 4 · (4/2)²; dragonfly of 8 groups (8/2)².
/// * shortest paths: leaf–spine one per spine; three levels of radix 8 below a pod 4, beyond 4²; corners of a 4 × 4 torus
///   4!/(2! 2!) · 2² = 24; of a 6-cube 6! = 720; of an 8 × 8 mesh 14!/(7! 7!) = 3432.
/// * disjoint paths: uplinks of a leaf; 2d in a torus; d in a cube; k - 1 in a full mesh.
#[test]
fn known_values() {
    let expected = "\
topology                                                             diameter, mean, bisection, shortest and disjoint paths: least, middle, most
back_to_back = {}                                                     0  0.000  -                  0 0 0      0 0 0
single_switch = { endpoints = 8 }                                     1  1.000  4 cables 1.000     0 0 0      0 0 0
leaf_spine = { endpoints = 64, radix = 16 }                           3  2.778  32 cables 1.000    16 16 16   8 8 8
leaf_spine = { endpoints = 24, radix = 16 }                           3  2.391  12 cables 1.000    32 32 32   8 8 8
fat_tree = { levels = 2, radix = 12, oversubscription = '2:1' }       3  2.853  24 cables 0.500    4 4 4      4 4 4
fat_tree = { levels = 3, radix = 8 }                                  5  4.717  64 cables 1.000    4 16 16    4 4 4
fat_tree = { levels = 3, radix = 12, oversubscription = '2:1' }       5  4.812  144 cables 0.500   4 24 24    4 4 4
rail_optimised = { rails = 4, nodes = 4, units = 4 }                  3  2.905  32 cables 1.000    4 4 4      4 4 4
director = { radix = 24 }                                             3  2.846  72 cables 1.000    24 24 24   12 12 12
torus = { sizes = [8] }                                               5  3.286  2 cables 0.500     1 1 2      2 2 2
torus = { sizes = [4, 4] }                                            5  3.133  8 cables 1.000     1 2 24     4 4 4
torus = { sizes = [6, 6] }                                            7  4.086  12 cables 0.667    1 3 80     4 4 4
torus = { sizes = [4, 4, 4] }                                         7  4.048  32 cables 1.000    1 6 720    6 6 6
mesh = { sizes = [8, 8] }                                            15  6.333  8 cables 0.250     1 6 3432   2 3 4
hypercube = { dimensions = 6 }                                        7  4.048  32 cables 1.000    1 6 720    6 6 6
hypercube = { dimensions = 8 }                                        9  5.016  128 cables 1.000   1 24 40320  8 8 8
hyperx = { sizes = [4, 4] }                                           3  2.600  16 cables 2.000    1 2 2      6 6 6
full_mesh = { switches = 8 }                                          2  2.000  16 cables 4.000    1 1 1      7 7 7
full_mesh = { switches = 8, cables = 3, endpoints = 3 }               2  1.913  48 cables 4.000    3 3 3      21 21 21
dragonfly = { groups = 8, switches = 4, endpoints = 2, global = 2 }   4  3.300  16 cables 0.500    1 1 5      4 5 5
dragonfly = { groups = 33, switches = 8, endpoints = 4, global = 4 }  4  3.686  272 cables 0.515   1 1 9      11 11 11
";
    let mut found = String::from(expected.lines().next().unwrap());
    found += "\n";
    for line in expected.lines().skip(1) {
        let topology = line[..=line.find('}').unwrap()].trim();
        let fabric = build(topology);
        let backbone = Backbone::new(&fabric);
        let (distances, diversity) = (distances(&backbone), diversity(&backbone));
        assert_eq!(distances.diameter() + 1, fabric.coordinates.diameter(), "{topology}");
        let cut = bisection(&fabric, &backbone).map_or("-".to_owned(), |cut| format!("{} cables {:.3}", cut.cables, cut.share));
        let (s, d) = (diversity.shortest, diversity.disjoint);
        let shortest = format!("{} {} {}", s.min, s.median, s.max);
        let disjoint = format!("{} {} {}", d.min, d.median, d.max);
        let (diameter, mean) = (distances.diameter(), distances.mean());
        let _ = writeln!(found, "{topology:<68} {diameter:>2}  {mean:.3}  {cut:<17}  {shortest:<9}  {disjoint}");
    }
    assert!(found == expected, "\n{found}");
}

#[test]
fn what_is_plugged_where() {
    let text = |topology: &str| {
        let census = census(&build(topology));
        let switch = |class: &fabriscope_fabric::analysis::SwitchClass| {
            format!("{} {}: {}+{} used, {} free", class.switches, class.name, class.to_endpoints, class.to_switches, class.free())
        };
        let switches: Vec<String> = census.switches.iter().map(switch).collect();
        let cables: Vec<String> = census.cables.iter().map(|class| format!("{} {}", class.cables, class.kind)).collect();
        format!("{} | {}", switches.join(", "), cables.join(", "))
    };
    assert_eq!(
        text("fat_tree = { levels = 3, radix = 8 }"),
        "32 leaf: 128+128 used, 0 free, 32 level-2 switch: 0+256 used, 0 free, 16 spine: 0+128 used, 0 free | \
         128 endpoint, 128 level 1 to 2, 128 level 2 to 3"
    );
    assert_eq!(
        text("dragonfly_plus = { groups = 5, leaves = 4, spines = 4, endpoints = 4, global = 4, radix = 8 }"),
        "20 leaf: 80+80 used, 0 free, 20 spine: 0+160 used, 0 free | 80 endpoint, 80 local, 40 global"
    );
    assert_eq!(text("torus = { sizes = [4, 3] }"), "12 switch: 12+48 used, 708 free | 12 endpoint, 12 dimension 0, 12 dimension 1");
}

#[test]
fn real_fabrics() {
    // fabrics/README.md: 204, 322 and 140 switches; hosts' adapters 458 · 8 + 11.
    let selene = imported("selene-compute.ibnetdiscover.gz");
    let census = census(&selene);
    let levels: Vec<u32> = census.switches.iter().map(|class| class.switches).collect();
    assert_eq!(levels, [204, 322, 140]);
    assert_eq!(census.switches.iter().map(|class| class.to_endpoints).sum::<u64>(), 458 * 8 + 11);
    let dgx = imported("dgx-ndr.ibnetdiscover");
    let backbone = Backbone::new(&dgx);
    assert_eq!(distances(&backbone).diameter(), 3);
    let cut = bisection(&dgx, &backbone).unwrap();
    assert!((0.9..1.0).contains(&cut.share), "{cut:?}");
}

/// One endpoint in each group of 4 would be alone on the link to the next: 4 · 2 = 8 endpoints share it.
#[test]
fn the_busiest_link_of_a_pattern() {
    let fabric = build("dragonfly = { groups = 9, switches = 4, endpoints = 2, global = 2 }");
    let backbone = Backbone::new(&fabric);
    let pairs: Vec<_> = (0..72).map(|src| (EndpointId(src), EndpointId((src + 8) % 72))).collect();
    let hops = mean_hops(&fabric, &backbone, &pairs);
    let offer = Offer { messages: 1, packets: 1, hops };
    let look = |routing, packets| {
        let router = Router::new(&fabric, routing).unwrap();
        pressure(&fabric, &router, pairs.iter().copied(), &Offer { packets, ..offer })
    };
    let minimal = look(Routing::Minimal, 1);
    assert_eq!((minimal.worst(), minimal.endpoints, minimal.ideal, minimal.factor()), (8.0, 1.0, 1.0, 8.0));
    let busiest = fabric.graph.link(minimal.busiest.unwrap());
    let group = |vertex| match fabric.graph.node(vertex) {
        Node::Switch(SwitchId(switch)) => switch / 4,
        Node::Endpoint(_) => u32::MAX,
    };
    assert_eq!((group(busiest.from) + 1) % 9, group(busiest.to));
    // Detours spread it over all groups: twice the hops, an eighth of the load and some chance.
    let valiant = look(Routing::Valiant, 64).worst();
    assert!((2.0..3.0).contains(&valiant), "{valiant}");
    // A shift through a full tree under d_mod_k: no link has two.
    let tree = build("fat_tree = { levels = 3, radix = 8 }");
    let router = Router::new(&tree, Routing::DModK).unwrap();
    for distance in [1, 3, 16, 64, 127] {
        let pairs: Vec<_> = (0..128).map(|src| (EndpointId(src), EndpointId((src + distance) % 128))).collect();
        let hops = mean_hops(&tree, &Backbone::new(&tree), &pairs);
        assert_eq!(pressure(&tree, &router, pairs, &Offer { hops, ..offer }).worst(), 1.0, "{distance}");
    }
}

/// The ideal of a tapered tree is its taper: all traffic crosses between halves, over half as many cables.
#[test]
fn no_routing_beats_the_ideal() {
    let tree = build("fat_tree = { levels = 2, radix = 12, oversubscription = '2:1' }");
    let router = Router::new(&tree, Routing::DModK).unwrap();
    let pairs: Vec<_> = (0..96).map(|src| (EndpointId(src), EndpointId((src + 48) % 96))).collect();
    let hops = mean_hops(&tree, &Backbone::new(&tree), &pairs);
    let pressure = pressure(&tree, &router, pairs, &Offer { messages: 1, packets: 1, hops });
    assert_eq!((hops, pressure.ideal, pressure.worst()), (2.0, 2.0, 2.0));
}

/// A connected network of a few switches: a path through all of them, some more cables, endpoints anywhere.
fn network() -> impl Strategy<Value = Fabric> {
    let cables = proptest::collection::vec((0u32..6, 0u32..6), 0..10);
    (cables, proptest::collection::vec(0u32..6, 2..9)).prop_map(|(cables, hosts)| {
        let switch = |number: u32| format!("s{number}");
        let switches = (0..6).map(|number| NamedSwitch { name: switch(number), ports: None }).collect();
        let endpoints = (0..hosts.len()).map(|number| format!("e{number}")).collect();
        let mut list = CableList { switches, endpoints, cables: Vec::new() };
        let mut cable =
            |one: String, other: String| list.cables.push(NamedCable { between: [one, other], count: None, rate: None, length: None });
        (1..6).for_each(|number| cable(switch(number - 1), switch(number)));
        cables.iter().filter(|(one, other)| one != other).for_each(|&(one, other)| cable(switch(one), switch(other)));
        for (number, &at) in hosts.iter().enumerate() {
            cable(format!("e{number}"), switch(at));
        }
        Topology::Irregular(list).build(&links(), 64).unwrap()
    })
}

proptest! {
    /// Against every side that each switch can be on, where the endpoints of one of them may be on both.
    #[test]
    fn small_bisections_are_the_least(fabric in network()) {
        let graph = &fabric.graph;
        let backbone = Backbone::new(&fabric);
        let half = graph.endpoint_count() / 2;
        let mut least = u64::MAX;
        for sides in 0u32..1 << graph.switch_count() {
            let side = |at: SwitchId| sides >> at.0 & 1 == 1;
            let trunks = || graph.switches().flat_map(|at| backbone.trunks(at).iter().map(move |trunk| (at, trunk)));
            let cut: u32 = trunks().filter(|(at, trunk)| side(*at) && !side(trunk.to)).map(|(_, trunk)| trunk.cables).sum();
            for &split in backbone.leaves() {
                let others: u32 = backbone.leaves().iter().filter(|&&at| at != split && side(at)).map(|&at| backbone.endpoints(at)).sum();
                let all = backbone.endpoints(split);
                // A switch whose endpoints are all in one half stands there, too.
                let fits = |there: u32| there < all + u32::from(side(split)) && there + u32::from(!side(split)) > 0;
                if let Some(there) = half.checked_sub(others).filter(|&there| fits(there)) {
                    least = least.min(u64::from(cut + if side(split) { all - there } else { there }));
                }
            }
        }
        let found = bisection(&fabric, &backbone).unwrap();
        prop_assert!(found.exact);
        prop_assert_eq!(found.cables, least);
        prop_assert_eq!(found.share, least as f64 / f64::from(half));
    }

    /// One search after the other says the same as all at once.
    #[test]
    fn distances_are_those_of_single_searches(fabric in network()) {
        let graph = &fabric.graph;
        let backbone = Backbone::new(&fabric);
        let single = |from: u32| {
            let mut hops = vec![None; graph.switch_count() as usize];
            hops[from as usize] = Some(0);
            let mut open = std::collections::VecDeque::from([SwitchId(from)]);
            while let Some(at) = open.pop_front() {
                for trunk in backbone.trunks(at) {
                    if hops[trunk.to.index()].is_none() {
                        hops[trunk.to.index()] = hops[at.index()].map(|hops: u32| hops + 1);
                        open.push_back(trunk.to);
                    }
                }
            }
            hops
        };
        let switches = graph.switch_count();
        let pairs: Vec<_> = (0..switches * switches).map(|pair| (SwitchId(pair / switches), SwitchId(pair % switches))).collect();
        let expected: Vec<_> = (0..switches).flat_map(single).collect();
        prop_assert_eq!(shortest_hops(&backbone, &pairs), expected);
        let found = distances(&backbone);
        let endpoints = u64::from(graph.endpoint_count());
        prop_assert_eq!(found.pairs.iter().sum::<u64>(), endpoints * (endpoints - 1));
        prop_assert_eq!(found.diameter() + 1, fabric.coordinates.diameter());
        prop_assert!(levels(&fabric).iter().all(|&level| level >= 1));
    }
}
