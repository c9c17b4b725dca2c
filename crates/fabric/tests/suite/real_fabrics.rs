//! Real dumps: every count that their owners or the literature know comes out.

use std::collections::BTreeMap;

use fabriscope_fabric::export::{self, Dialect, ibnetdiscover};
use fabriscope_fabric::import::{Review, Subnet, read, review, text};
use fabriscope_fabric::routing::survey;
use fabriscope_fabric::topology::{FatTree, conforms};
use fabriscope_fabric::{Fabric, LinkSpec, Links, Node, SwitchId, Tables, Topology};
use fabriscope_units::Remedy;
use fabriscope_units::{Rate, Span};

fn subnet(file: &str) -> Subnet {
    let bytes = std::fs::read(format!("{}/../../fabrics/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    read(&text(&bytes).unwrap()).unwrap()
}

fn fabric(subnet: &Subnet) -> Fabric {
    let fabric = subnet.fabric(&Links::uniform(LinkSpec::new(Rate::from_gbps(100), Span::from_ns(10)))).unwrap();
    conforms(&fabric).unwrap();
    fabric
}

fn between(review: &Review, low: &str, high: &str) -> u32 {
    review.between.iter().filter(|(a, b, _)| (a, b) == (&low.to_owned(), &high.to_owned())).map(|(_, _, cables)| cables).sum()
}

fn class<'a>(review: &'a Review, name: &str) -> &'a fabriscope_fabric::import::Class {
    review.classes.iter().find(|class| class.name == name).unwrap()
}

fn found(review: &Review, what: &str) -> bool {
    review.findings.iter().any(|finding| finding.what.contains(what))
}

#[test]
fn selene() {
    let subnet = subnet("selene-compute.ibnetdiscover.gz");
    let review = review(&subnet);
    assert_eq!((review.switches, review.levels.as_slice(), review.unread_lines), (666, [204, 322, 140].as_slice(), 0));
    let classes: Vec<(&str, u32)> = review.classes.iter().map(|class| (class.name.as_str(), class.switches)).collect();
    assert_eq!(classes, [("LG", 200), ("MLG", 4), ("CSPINE", 320), ("MSPINE", 2), ("CCORE", 140)]);
    assert_eq!((review.hosts, &review.hosts_by_adapters), (469, &BTreeMap::from([(1, 11), (8, 458)])));
    assert_eq!((review.adapters, review.aggregation_nodes), (3675, 666));
    assert_eq!((review.cables, review.switch_cables), (12_852, 8_511));
    assert_eq!(review.speeds, BTreeMap::from([("4xHDR".to_owned(), 12_852)]));
    for rail in ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_6", "mlx5_7", "mlx5_8", "mlx5_9"] {
        assert!(review.rails[rail] >= 458, "{rail}");
    }
    assert_eq!((class(&review, "LG").host_cables, class(&review, "MLG").host_cables), (3664, 11));
    assert_eq!(between(&review, "LG", "CSPINE"), 3987);
    assert_eq!(between(&review, "CSPINE", "CCORE"), 4464);
    assert_eq!(between(&review, "MLG", "CSPINE"), 4);
    assert_eq!(between(&review, "MLG", "MSPINE"), 28);
    assert_eq!(between(&review, "MSPINE", "CCORE"), 28);
    assert_eq!(class(&review, "LG").uplinks, BTreeMap::from([(19, 13), (20, 187)]));
    assert_eq!(class(&review, "CSPINE").uplinks, BTreeMap::from([(12, 1), (13, 14), (14, 305)]));
    assert_eq!((review.parallel.get(&2), review.parallel.get(&14)), (Some(&2003), Some(&2)));
    // Every compute leaf carries one rail.
    assert!(review.single_rail_leaves >= 200);
    assert!(found(&review, "leaf switches LG: 13 of 200 have 19 of 20 cables"), "{:#?}", review.findings);
    assert!(found(&review, "16 of 4,480 are missing"), "{:#?}", review.findings);

    let fabric = fabric(&subnet);
    assert_eq!(fabric.counts().endpoints, 3675);
    // Service leaves hang on some spines only: from a host below another one it is up to the core and down twice.
    assert_eq!(fabric.coordinates.diameter(), 8);
    assert_eq!(fabric.name(fabric.graph.node(fabriscope_fabric::Vertex(0))), "luna-0001 mlx5_0");
}

/// With the core switches as roots OpenSM 3.3.23 leaves 36 pairs without a path: service leaves that share no core. These
/// counts are those of its tables for the same file and the same roots.
#[test]
fn selene_up_and_down_from_its_core() {
    let subnet = subnet("selene-compute.ibnetdiscover.gz");
    let fabric = fabric(&subnet);
    let is_core = |at: &SwitchId| fabric.name(Node::Switch(*at)).starts_with("CCORE");
    let roots: Vec<SwitchId> = fabric.graph.switches().filter(is_core).collect();
    assert_eq!(roots.len(), 140);
    let survey = survey(&fabric, &Tables::up_down(&fabric, 0, Some(&roots)).unwrap());
    assert_eq!((survey.unreachable, survey.pairs.as_slice()), (36, [0, 63_970, 0, 377_128, 0, 13_060_816].as_slice()));
    assert!(survey.faults[0].tell(&fabric).starts_with("from MLG01-04 to selene-cache-01 mlx5_1"), "{}", survey.faults[0].tell(&fabric));
}

#[test]
fn dgx() {
    let subnet = subnet("dgx-ndr.ibnetdiscover");
    let review = review(&subnet);
    assert_eq!((review.switches, review.levels.as_slice(), review.unread_lines), (40, [31, 9].as_slice(), 0));
    // Of 123 first words two are no host's: MT4129 and localhost.
    assert_eq!((review.adapters + review.aggregation_nodes, review.aggregation_nodes, review.hosts), (582, 40, 121));
    assert_eq!((review.cables, review.switch_cables), (1114, 532));
    assert_eq!(review.speeds, BTreeMap::from([("4xNDR".to_owned(), 1114)]));
    assert_eq!(fabric(&subnet).counts().endpoints, 542);
}

#[test]
fn small() {
    let subnet = subnet("small.ibnetdiscover");
    let review = review(&subnet);
    assert_eq!((review.switches, review.adapters + review.aggregation_nodes, review.aggregation_nodes), (2, 13, 1));
    assert_eq!((review.hosts, review.cables, review.switch_cables, review.unread_lines), (5, 16, 3, 0));
    assert!(found(&review, "2 cables join two ports of one switch"), "{:#?}", review.findings);
    assert_eq!(fabric(&subnet).counts().endpoints, 12);
}

#[test]
fn what_is_written_is_read_again() {
    for file in ["selene-compute.ibnetdiscover.gz", "dgx-ndr.ibnetdiscover", "small.ibnetdiscover"] {
        let first = subnet(file);
        let again = read(&ibnetdiscover(&first, Dialect::Ibnetdiscover)).unwrap();
        let plain = |subnet: &Subnet| {
            let devices: Vec<_> = subnet.devices.iter().map(|d| (d.id.clone(), d.kind, d.description.clone(), d.ports, d.guid)).collect();
            let mut cables: Vec<_> = subnet.cables.iter().map(|c| (c.ends, c.speed)).collect();
            cables.sort_unstable();
            (devices, cables)
        };
        assert_eq!(plain(&first), plain(&again), "{file}");
        assert!(again.unread.is_empty());
    }
    let tree = Topology::FatTree(FatTree { levels: Some(3), ..FatTree::default() });
    let built = tree.build(&Links::uniform(LinkSpec::new(Rate::from_gbps(400), Span::from_ns(25))), 4).unwrap();
    let again = fabric(&read(&ibnetdiscover(&export::subnet(&built), Dialect::Ibnetdiscover)).unwrap());
    assert_eq!((again.counts(), again.coordinates.diameter()), (built.counts(), 6));
}

/// Four ports, three levels: two leaves in each of four pods, four core switches.
#[test]
fn a_tree_for_slurm() {
    let tree = Topology::FatTree(FatTree { levels: Some(3), ..FatTree::default() });
    let built = tree.build(&Links::uniform(LinkSpec::new(Rate::from_gbps(400), Span::from_ns(25))), 4).unwrap();
    let text = export::slurm_conf(&export::subnet(&built));
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(lines[..2], ["SwitchName=leaf-0 Nodes=host[00-01]", "SwitchName=leaf-1 Nodes=host[02-03]"]);
    assert_eq!(lines[8], "SwitchName=level-2-switch-0-of-pod-0 Switches=leaf-[0-1]");
    assert_eq!(lines.len(), 8 + 4 + 1);
    assert!(lines[12].starts_with("SwitchName=spine-0 Switches=level-2-switch-0-of-pod-[0-3]"), "{text}");
}

/// A dump with a mistake in it: what is said.
fn mistake(file: &str) -> String {
    read(file).map(|_| String::new()).unwrap_or_else(|error| error.in_full())
}

const PAIR: &str = "Switch\t4 \"S-0000000000000001\"\t\t# \"a\" base port 0 lid 1 lmc 0
[1]\t\"S-0000000000000002\"[3]\t\t# \"b\" lid 2 4xEDR

Switch\t4 \"S-0000000000000002\"\t\t# \"b\" base port 0 lid 2 lmc 0
[3]\t\"S-0000000000000001\"[1]\t\t# \"a\" lid 1 4xEDR
";

#[test]
fn what_contradicts_itself_is_told_with_its_line() {
    assert_eq!(mistake(PAIR), "");
    for (broken, said) in [
        (PAIR.replace("[3]\t\"S-0000000000000001\"[1]", "[3]\t\"S-0000000000000001\"[2]"), "line 5: port 3"),
        (PAIR.replace("[1]\t\"S", "[9]\t\"S"), "line 2: `S-0000000000000001` has 4 ports, there is no port 9"),
        (PAIR.replace("[1]\t\"S", "[0]\t\"S"), "line 2: `S-0000000000000001` has 4 ports, there is no port 0"),
        (
            PAIR.replace("\"S-0000000000000002\"\t\t#", "\"S-0000000000000001\"\t\t#"),
            "line 4: `S-0000000000000001` was described before, in line 1",
        ),
        (
            PAIR.lines().take(3).collect::<Vec<_>>().join("\n"),
            "line 2: the cable leads to `S-0000000000000002`, which the file does not describe",
        ),
        (PAIR.lines().skip(1).collect::<Vec<_>>().join("\n"), "line 1: a cable before the first switch"),
        (
            format!("{PAIR}[3]\t\"S-0000000000000001\"[2]\t\t# \"a\" lid 1 4xEDR\n"),
            "line 6: port 3 of `S-0000000000000002` has a cable already, in line 5",
        ),
        (PAIR.replace("Switch\t4", "Switch\t99999"), "line 1: `99999` is no number of ports"),
        (format!("include \"other\"\n{PAIR}"), "line 1: `include` of ibsim is not read"),
        ("Unicast lids [0-13] of switch Lid 1 guid 0x01 ('a'):".to_owned(), "forwarding tables, not a fabric"),
        ("Dear diary,\nnothing to see here\n".to_owned(), "none of the formats"),
        (String::new(), "none of the formats"),
    ] {
        assert!(mistake(&broken).contains(said), "{said}: {}", mistake(&broken));
    }
    assert!(text(&[0x53, 0x00, 0x41]).unwrap_err().in_full().contains("byte 1"));
    assert!(text(&[0x53, 0xff]).unwrap_err().in_full().contains("byte 1"));
    assert!(text(&[0x1f, 0x8b, 8, 0, 1]).unwrap_err().in_full().contains("damaged"));
}

#[test]
fn lost_tabulators_and_noise_do_no_harm() {
    let noisy = format!("=~=~=~ PuTTY log 2021.02.23 =~=~=~\n{}\n$ exit\n", PAIR.replace('\t', ""));
    let subnet = read(&noisy).unwrap();
    assert_eq!((subnet.devices.len(), subnet.cables.len()), (2, 1));
    assert_eq!(subnet.unread.iter().map(|unread| unread.line).collect::<Vec<_>>(), [1, 8]);
}

#[test]
fn a_file_of_ibsim() {
    let subnet = read("switchguid=0x100001\nSwitch 8 \"leafA\"\n[1] \"hostA\"[1] w=2 s=4 e=4\n[8] \"spine\"\n\nHca 2 \"hostA\"\n[1] \"leafA\"[1]\n\nSwitch 8 \"spine\"\n[1] \"leafA\"[8]\n").unwrap();
    assert_eq!((subnet.devices.len(), subnet.cables.len(), subnet.devices[0].guid), (3, 2, Some(0x10_0001)));
    assert_eq!(subnet.cables[0].speed.unwrap().to_string(), "4xHDR");
    assert!(subnet.unread.is_empty());
}

#[test]
fn lists_of_edges() {
    let subnet = read("# four hosts\nhost0 leaf0 100Gbps\nhost1 leaf0 100Gbps\nhost2 leaf1\nhost3,leaf1,100G\nleaf0 leaf1 400Gbps 1us\nleaf0 leaf1 400Gbps\n").unwrap();
    let fabric = fabric(&subnet);
    assert_eq!((fabric.counts().endpoints, fabric.counts().switches, fabric.counts().cables), (4, 2, 6));
    assert!(mistake("a b 100Gbps\nc b fast\n").is_empty() || mistake("a b 100Gbps\nc b fast\n").contains("none of the formats"));
}
