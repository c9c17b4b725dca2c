//! Plans that people write: Slurm's topology.conf and topology.yaml, cabling plans in dot. What is written here is read
//! again; what contradicts itself is told with its line.

use fabriscope_fabric::export;
use fabriscope_fabric::import::{ImportError, Kind, Subnet, read, review, text};
use fabriscope_fabric::topology::{Dragonfly, FatTree, conforms};
use fabriscope_fabric::{Fabric, LinkSpec, Links, Topology};
use fabriscope_units::Remedy;
use fabriscope_units::{Rate, Span};

fn links() -> Links {
    Links::uniform(LinkSpec::new(Rate::from_gbps(100), Span::from_ns(10)))
}

fn fabric(subnet: &Subnet) -> Fabric {
    let fabric = subnet.fabric(&links()).unwrap();
    conforms(&fabric).unwrap();
    fabric
}

fn real(file: &str) -> Subnet {
    let bytes = std::fs::read(format!("{}/../../fabrics/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    read(&text(&bytes).unwrap()).unwrap()
}

fn built() -> Vec<Subnet> {
    let tree = Topology::FatTree(FatTree { levels: Some(3), ..FatTree::default() });
    let groups = Topology::Dragonfly(Dragonfly { groups: Some(3), switches: Some(2), endpoints: Some(2), ..Dragonfly::default() });
    let build = |topology: Topology, radix| export::subnet(&topology.build(&links(), radix).unwrap());
    vec![build(tree, 4), build(groups, 16), real("dgx-ndr.ibnetdiscover"), real("small.ibnetdiscover")]
}

fn mistake(file: &str) -> String {
    read(file).map(|_| String::new()).unwrap_or_else(|error: ImportError| error.in_full())
}

/// Devices and cables by name, as far as dot carries them.
fn by_name(subnet: &Subnet) -> (Vec<(String, Kind)>, Vec<String>) {
    let mut devices: Vec<_> = subnet.devices.iter().map(|device| (device.name().to_owned(), device.kind)).collect();
    let mut cables: Vec<_> = subnet
        .cables
        .iter()
        .map(|cable| {
            let mut ends = cable.ends.map(|end| format!("{} {}", subnet.device(end).name(), end.port));
            ends.sort();
            format!("{} -- {} {:?}", ends[0], ends[1], cable.data_rate())
        })
        .collect();
    devices.sort();
    cables.sort();
    (devices, cables)
}

#[test]
fn dot_that_is_written_is_read_again() {
    for subnet in built() {
        let names = subnet.devices.iter().map(|device| device.name()).collect::<std::collections::BTreeSet<_>>().len();
        let again = read(&export::dot(&subnet)).unwrap();
        assert!(again.unread.is_empty() && again.notes.is_empty(), "{:?}", again.unread);
        if names == subnet.devices.len() {
            assert_eq!(by_name(&subnet), by_name(&again));
        }
        assert_eq!((subnet.devices.len(), subnet.cables.len()), (again.devices.len(), again.cables.len()));
        assert_eq!(export::dot(&again), export::dot(&subnet));
        let (one, other) = (fabric(&subnet), fabric(&again));
        assert_eq!((one.counts(), one.coordinates.diameter()), (other.counts(), other.coordinates.diameter()));
    }
}

/// Slurm's format has neither ports nor parallel cables, and one switch at the top of each subtree: what is left after
/// writing once does not change any more.
#[test]
fn slurm_that_is_written_is_read_again() {
    let selene = real("selene-compute.ibnetdiscover.gz");
    for subnet in built().into_iter().chain([selene]) {
        let (conf, yaml) = (export::slurm_conf(&subnet), export::slurm_yaml(&subnet));
        let again = read(&conf).unwrap();
        assert!(again.structure_only && again.unread.is_empty());
        // Comments say what of the fabric is left out: the tree itself has lost nothing.
        let lines = |text: &str| text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lines(&export::slurm_conf(&again)), lines(&conf));
        let of_yaml = read(&yaml).unwrap();
        assert_eq!(lines(&export::slurm_conf(&of_yaml)), lines(&conf));
        assert_eq!(lines(&export::slurm_yaml(&of_yaml)), lines(&yaml));
        assert_eq!(review(&again).hosts, review(&subnet).hosts);
    }
}

#[test]
fn every_plan_can_be_written_for_opensm() {
    for file in ["a leaf1\nb leaf1\nleaf1 leaf2\nc leaf2\n", CONF, DOT] {
        let subnet = read(file).unwrap();
        let again = read(&export::ibnetdiscover(&subnet, export::Dialect::Ibnetdiscover)).unwrap();
        assert_eq!((fabric(&subnet).counts(), review(&subnet).levels), (fabric(&again).counts(), review(&again).levels));
    }
}

const CONF: &str = "# a tree
SwitchName=spine0 Switches=leaf[01-02] LinkSpeed=100
switchname = leaf01 nodes = \"gpu[01-04]\"
SwitchName=leaf02 \\
  Nodes=gpu[05-07],login
";

#[test]
fn slurm_conf() {
    let subnet = read(CONF).unwrap();
    let fabric = fabric(&subnet);
    assert_eq!(fabric.counts().to_string(), "8 endpoints, 3 switches, 10 cables");
    let review = review(&subnet);
    assert_eq!((review.levels.as_slice(), review.hosts), ([2, 1].as_slice(), 8));
    assert!(review.findings.is_empty(), "{:?}", review.findings);
    assert!(review.notes[0].contains("one cable is assumed"));
    // Two spines, as many write a fat tree.
    let two = read(&CONF.replace("# a tree", "SwitchName=spine1 Switches=leaf01,leaf02")).unwrap();
    assert_eq!(two.fabric(&links()).unwrap().counts().to_string(), "8 endpoints, 4 switches, 12 cables");
    // Slurm allows several trees; packets have no way between them.
    let forest = read("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\n").unwrap();
    assert!(fabriscope_fabric::import::review(&forest).findings[0].what.contains("falls into 2 parts"));
    assert!(matches!(forest.fabric(&links()), Err(ImportError::Disconnected { .. })));
}

#[test]
fn mistakes_in_slurm_conf() {
    for (file, said) in [
        ("SwitchName=a Switches=b\n", "line 1: `b` is below `a`, but no line describes it; add a line for `b`"),
        ("SwitchName=a Nodes=n1\n\nSwitchName=a Nodes=n2\n", "line 3: `a` was described before, in line 1"),
        ("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n2\n", "line 2: `n2` is a node of `a` already, in line 1"),
        ("SwitchName=a Nodes=n1,n1\n", "line 1: `n1` is a node of `a` already, in line 1"),
        (
            "SwitchName=a Switches=b\nSwitchName=b Switches=c\nSwitchName=c Switches=b\n",
            "line 2: switches are above each other in a cycle: b above c above b",
        ),
        ("SwitchName=a Switches=a\n", "line 1: switches are above each other in a cycle: a above a"),
        ("SwitchName=a Switches=b,b\nSwitchName=b Nodes=n\n", "line 1: `a` has one of its switches below it twice"),
        ("SwitchName=a Nodes=x Switches=b\n", "line 1: `a` with switches and nodes below it"),
        ("SwitchName=a Nodes=x Nodes=y\n", "line 1: `Nodes` twice in one line"),
        ("SwitchName=a[1-2] Nodes=x\n", "line 1: `a[1-2]` as the name of a switch"),
        ("SwitchName=a Nodes=x[1-\n", "line 1: the list `x[1-` is no list of hosts: a bracket has no partner"),
        ("SwitchName=a Nodes=x[0-99999]\n", "more names than a switch can have ports"),
        ("SwitchName=a Nodes=x Colour=red\n", "line 1: the key `Colour`, which topology/tree does not have"),
        ("SwitchName=a Nodes=x\nNodes=y\n", "line 2: a line without SwitchName"),
        ("SwitchName=a Nodes=x\nInclude other.conf\n", "line 2: an `Include` cannot be read; put the lines"),
        ("SwitchName=a Nodes=x\nnoise\n", "line 2: `noise` cannot be read; write Key=value"),
        ("SwitchName=a Nodes=\"x\n", "line 1: `Nodes=\"x` cannot be read"),
        ("BlockName=b1 Nodes=gpu[01-16]\nBlockSizes=16,32\n", "line 1: this is for Slurm's topology/block"),
        ("RingName=r1 Nodes=gpu[01-16]\n", "line 1: this is for Slurm's topology/ring"),
    ] {
        assert!(mistake(file).contains(said), "{said}\n{}", mistake(file));
    }
}

const YAML: &str = "---
- topology: other
  block:
    block_sizes: [4, 16]
    blocks:
      - block: b1
        nodes: gpu[01-04]
- topology: small
  tree: { switches: [ { switch: x, nodes: y } ] }
- topology: fabric
  cluster_default: true
  tree:
    switches:
      - switch: spine0   # on top
        children: leaf[01-02]
      - {switch: leaf01, nodes: \"gpu[01-04]\"}
      - switch: leaf02
        nodes: [ gpu05, \"gpu[06-08]\" ]
";

#[test]
fn slurm_yaml() {
    let subnet = read(YAML).unwrap();
    assert_eq!(fabric(&subnet).counts().to_string(), "8 endpoints, 3 switches, 10 cables");
    assert_eq!(
        subnet.notes,
        ["of several topologies `fabric` is read, not `small`", "a topology/block in the same file names no switches and is passed over"]
    );
    assert_eq!(subnet.devices[0].line, 14);
}

#[test]
fn mistakes_in_slurm_yaml() {
    let tree = |switches: &str| format!("- topology: t\n  tree:\n    switches:\n{switches}");
    for (file, said) in [
        (tree("      - switch: a\n        children: b\n"), "line 4: `b` is below `a`, but no line describes it"),
        (
            tree("      - switch: a\n        nodes: n[1-2]\n      - switch: b\n        nodes: n2\n"),
            "line 6: `n2` is a node of `a` already, in line 4",
        ),
        (tree("      - switch: a\n        colour: red\n"), "line 5: the key `colour`, which is not known here"),
        (tree("      - switch: a\n        nodes: x\n        nodes: y\n"), "line 6: the key `nodes` twice"),
        (tree("      - nodes: a\n"), "line 4: a switch without a name"),
        (tree("      - a\n"), "line 4: a text in the place of something else cannot be read; a switch: `switch: NAME`"),
        (tree("      - switch: [a\n"), "what is not YAML"),
        (tree("      - switch: a\n        nodes: *b\n"), "what is not YAML"),
        (tree("      - switch: &b a\n        nodes: *b\n"), "line 5: an alias cannot be read; write its value"),
        (tree("      - switch: a\n        nodes:\n          - {b: c}\n"), "line 6: a table in the place of something else"),
        (tree(&format!("      - switch: {}\n", "[".repeat(40))), "too many levels"),
        ("- topology: t\n  block:\n    blocks: []\n".to_owned(), "line 3: this is for Slurm's topology/block"),
        ("- topology: t\n  flat: true\n".to_owned(), "line 2: this is for Slurm's topology/flat"),
        ("topology: t\n".to_owned(), "line 1: a table in the place of something else cannot be read; a list of topologies"),
    ] {
        assert!(mistake(&file).contains(said), "{said}\n{}", mistake(&file));
    }
}

const DOT: &str = "/* three
   servers */
strict graph \"vx\" {
  graph [hostidtype=\"hostname\"]; node [shape=box]
  rankdir = LR
  subgraph cluster_1 { \"leaf01\" [function=\"leaf\" mgmt_ip=\"192.168.0.11\"] }
  \"leaf02\" [ function = \"leaf\", os=<b> ]  // the other
  spine01 [role=spine]
  \"server01\":\"eth1\" -- \"leaf01\":\"swp1\" [left_mac=\"44:38:39:00:00:03\"]
  \"server01\":\"eth2\" -- \"leaf02\":\"swp1\"
# by hand
  server02:eth1 -- leaf01:swp2; server03:eth1 -> leaf02:swp2
  \"leaf01\":\"swp49\" -- \"spine01\":\"swp1\" [speed=\"400Gbps\"]
  \"leaf01\":\"swp50\" -- \"spine01\":\"swp2\" [speed=\"400Gbps\"]
  \"spine01\":\"swp3\" -- \"leaf02\":\"swp49\" [ speed = 4xNDR ]
  \"leaf02\":\"swp49\" -- \"spine01\":\"swp3\"
}
";

#[test]
fn dot() {
    let subnet = read(DOT).unwrap();
    let fabric = fabric(&subnet);
    assert_eq!(fabric.counts().to_string(), "4 endpoints, 3 switches, 7 cables");
    assert!(subnet.unread.is_empty() && subnet.notes.is_empty(), "{:?} {:?}", subnet.unread, subnet.notes);
    let review = review(&subnet);
    assert_eq!((review.levels.as_slice(), review.hosts), ([2, 1].as_slice(), 3));
    assert_eq!(review.parallel.get(&2), Some(&1));
    let leaf = subnet.devices.iter().find(|device| device.name() == "leaf01").unwrap();
    assert_eq!(leaf.ports, 50);
    let rates: Vec<u64> = subnet.cables.iter().filter_map(|cable| cable.data_rate()).map(|rate| rate.as_bps() / 1_000_000_000).collect();
    assert_eq!(rates, [400, 400, 400]);

    let breakout = read("graph g { s1:swp1s1 -- h1:eth0 s1:swp1s0 -- h2:eth0 s1:swp2 -- h3 }").unwrap();
    assert_eq!(breakout.notes.len(), 1);
    let at: Vec<u16> = breakout.cables.iter().map(|cable| cable.ends[0].port).collect();
    assert_eq!(at, [2, 1, 3]);
}

#[test]
fn mistakes_in_dot() {
    for (file, said) in [
        ("graph g {\n a:p1 -- b:p1\n c:p1 -- a:p1\n}", "line 3: port `p1` of `a` has a cable already, in line 2"),
        ("graph g {\n a:p1 -- a:p1\n}", "line 2: port `p1` of `a` has a cable already, in line 2"),
        ("graph g {\n a:p1 -- b:p1\n b:p1 -- a:p1\n b:p1 -- a:p1\n}", "line 4: port `p1` of `b` has a cable already"),
        ("graph g {\n a:p1 -- b:p1\n", "the end of the file in the place of `}` at the end; is the file cut off?"),
        ("graph g {\n a:p1 --\n}", "line 3: `}` in the place of the name of a device"),
        ("graph g {\n a -- { b c }\n}", "line 2: `{` cannot be read; write each cable on its own"),
        ("graph g {\n a:p1\n}", "line 2: a port without a cable"),
        ("graph g {\n leaf-1 -- b\n}", "line 2: `-` cannot be read; put names with other characters"),
        ("graph g {\n \"a -- b\n}", "line 2: a text without end"),
        ("graph g {\n /* a -- b\n}", "line 2: a comment without end"),
        ("graph g {\n a [role=]\n}", "line 2: `]` cannot be read; put values between quotes"),
        ("graph g { }", "describes no switch and no adapter"),
        ("graph g\n a -- b", "line 2: `a` cannot be read; after the name of the graph comes `{`"),
    ] {
        assert!(mistake(file).contains(said), "{said}\n{}", mistake(file));
    }
    let odd = read("graph g { a:p1 -- b:p1 [speed=fast] c -- b } trailing").unwrap();
    assert_eq!(odd.unread.len(), 2);
}

/// Files that an editor of another system saved.
#[test]
fn marks_and_line_ends_of_other_systems() {
    for file in [CONF, YAML, DOT] {
        let other = format!("\u{feff}{}", file.replace('\n', "\r\n"));
        let (one, other) = (read(file).unwrap(), read(&other).unwrap());
        assert_eq!((&one.devices, &one.cables, &one.notes), (&other.devices, &other.cables, &other.notes));
    }
}

/// Any file cut off anywhere is refused or read, and never mistaken for another format.
#[test]
fn cut_off_anywhere() {
    for file in [CONF, YAML, DOT] {
        for end in (0..file.len()).filter(|&end| file.is_char_boundary(end)) {
            if let Ok(subnet) = read(&file[..end]) {
                drop((review(&subnet), subnet.fabric(&links())));
            }
        }
    }
}
