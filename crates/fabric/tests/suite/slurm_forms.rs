//! Every form in which Slurm has a tree: what is read, what is written, and that nothing of a tree is lost on the way.

use fabriscope_fabric::export::{slurm_conf, slurm_notes, slurm_yaml};
use fabriscope_fabric::import::{Subnet, read, review};
use fabriscope_fabric::topology::{Dragonfly, DragonflyPlus, FatTree};
use fabriscope_fabric::{LinkSpec, Links, Topology, export};
use fabriscope_units::{Rate, Remedy, Span};

/// The lines of `topology.conf` without its comments.
fn lines(subnet: &Subnet) -> Vec<String> {
    slurm_conf(subnet).lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// Written as either file and read again, the tree is what it was, line by line.
fn round_trips(text: &str, expected: &[&str]) -> Subnet {
    let subnet = read(text).unwrap();
    assert_eq!(lines(&subnet), expected);
    for again in [slurm_conf(&subnet), slurm_yaml(&subnet)] {
        let again = read(&again).unwrap();
        assert_eq!(lines(&again), expected);
        assert_eq!(again.levels(), subnet.levels());
    }
    assert!(slurm_notes(&subnet).is_empty());
    subnet
}

/// Cells of leaves under two spines each, both of which are below both top switches: no switch and no root may be lost.
#[test]
fn several_roots_over_the_same_switches() {
    let text = "SwitchName=top1 Switches=cell[1-2]s[1-2]
SwitchName=top2 Switches=cell[1-2]s[1-2]
SwitchName=cell1s1 Switches=cell1l[1-2]
SwitchName=cell1s2 Switches=cell1l[1-2]
SwitchName=cell2s1 Switches=cell2l1
SwitchName=cell2s2 Switches=cell2l1
SwitchName=cell1l1 Nodes=n[001-004]
SwitchName=cell1l2 Nodes=n[005-008]
SwitchName=cell2l1 Nodes=n[009-012]
";
    let expected: Vec<String> = text.lines().map(|line| line.replace("cell[1-2]s[1-2]", "cell1s[1-2],cell2s[1-2]")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    let subnet = round_trips(text, &expected);
    assert_eq!(review(&subnet).levels, [3, 4, 2]);
}

/// Leaves beside switches that have leaves: from its hosts each switch is at most two away, as Slurm counts `top` is at level 3.
#[test]
fn leaves_at_several_depths() {
    let text = "SwitchName=s0 Nodes=node[1-2]
SwitchName=s1 Nodes=node[3-4]
SwitchName=s2 Switches=s[0-1]
SwitchName=s3 Nodes=node[5-8]
SwitchName=top Switches=s[2-3]
";
    let expected: Vec<&str> = text.lines().collect();
    let subnet = round_trips(text, &expected);
    assert_eq!(review(&subnet).levels, [3, 1, 1]);
    assert_eq!(subnet.fabric(&links()).unwrap().counts().to_string(), "8 endpoints, 5 switches, 12 cables");
}

/// Trees side by side, and a switch that waits for its nodes.
#[test]
fn trees_without_a_common_root_and_switches_without_nodes() {
    let text = "SwitchName=islandA Switches=a[1-2]
SwitchName=a1 Nodes=a[001-002]
SwitchName=a2
SwitchName=islandB Switches=b1
SwitchName=b1 Nodes=b[001-002]
";
    let expected: Vec<&str> = text.lines().collect();
    let subnet = round_trips(text, &expected);
    assert!(review(&subnet).findings.iter().any(|finding| finding.what.contains("falls into 2 parts")));
}

/// A node may have the name of a switch.
#[test]
fn nodes_with_names_of_switches() {
    let text = "SwitchName=gpu1 Nodes=gpu[1-2]\nSwitchName=gpu2 Nodes=gpu3\nSwitchName=up Switches=gpu[1-2]\n";
    let expected: Vec<&str> = text.lines().collect();
    round_trips(text, &expected);
}

const PRINTED: &str = "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=tux[0-3]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=tux[4-7]
SwitchName=s2 Level=0 LinkSpeed=1 Nodes=
SwitchName=s3 Level=1 LinkSpeed=1 Nodes=tux[0-7] Switches=s[0-1]
SwitchName=s4 Level=1 LinkSpeed=1 Nodes= Switches=s2
SwitchName=s5 Level=2 LinkSpeed=1 Nodes=tux[0-7] Switches=s[3-4]
";

#[test]
fn what_scontrol_prints() {
    let expected = [
        "SwitchName=s0 Nodes=tux[0-3]",
        "SwitchName=s1 Nodes=tux[4-7]",
        "SwitchName=s2",
        "SwitchName=s3 Switches=s[0-1]",
        "SwitchName=s4 Switches=s2",
        "SwitchName=s5 Switches=s[3-4]",
    ];
    let subnet = round_trips(PRINTED, &expected);
    assert_eq!((review(&subnet).hosts, review(&subnet).levels), (8, vec![3, 2, 1]));
    // Without the nodes of inner switches, as some versions print it.
    round_trips(&PRINTED.replace(" Nodes=tux[0-7]", ""), &expected);
    let said = |text: &str| read(text).map(|_| String::new()).unwrap_or_else(|error| error.in_full());
    let lost = said(&PRINTED.replace("Nodes=tux[0-7] Switches=s[0-1]", "Nodes=tux[0-8] Switches=s[0-1]"));
    assert!(lost.contains("line 4: the nodes of `s3` are not those of the switches below it: `tux8` is listed and not below it"), "{lost}");
    let cut = said(&PRINTED.replace("Nodes=tux[4-7]\n", "Nodes=tux[4-6]\n"));
    assert!(cut.contains("line 4: the nodes of `s3`") && cut.contains("`tux7` is listed and not below it"), "{cut}");
    let one = said("SwitchName=s3 Level=1 LinkSpeed=1 Nodes=tux[0-7] Switches=s[0-1]\n");
    assert!(one.contains("`s0` is below `s3`, but no line describes it"), "{one}");
    let both = said("SwitchName=s3 Nodes=tux[0-7] Switches=s[0-1]\n");
    assert!(both.contains("`s3` with switches and nodes below it") && both.contains("as Slurm wants it"), "{both}");
}

#[test]
fn towers_of_switches_are_refused() {
    let tower: String =
        (0..100).map(|at| format!("SwitchName=s{} Switches=s{at}\n", at + 1)).chain(["SwitchName=s0 Nodes=n\n".to_owned()]).collect();
    assert!(read(&tower).unwrap_err().in_full().contains("levels of switches"), "{}", read(&tower).unwrap_err());
}

fn links() -> Links {
    Links::uniform(LinkSpec::new(Rate::from_gbps(100), Span::from_ns(10)))
}

/// Hosts at a spine: Slurm takes no switch with both nodes and switches.
#[test]
fn nodes_at_a_switch_above_others() {
    let hosts: String = (0..8).map(|host| format!("n{host} leaf{}\n", host / 4)).collect();
    let text = format!("{hosts}svc1 spine0\nleaf0 spine0\nleaf1 spine0\nleaf0 spine1\nleaf1 spine1\n");
    let subnet = read(&text).unwrap();
    assert_eq!(review(&subnet).levels, [2, 2]);
    let expected = [
        "SwitchName=leaf0 Nodes=n[0-3]",
        "SwitchName=leaf1 Nodes=n[4-7]",
        "SwitchName=spine0-nodes Nodes=svc1",
        "SwitchName=spine0 Switches=leaf[0-1],spine0-nodes",
    ];
    assert_eq!(lines(&subnet), expected);
    assert_eq!(lines(&read(&slurm_conf(&subnet)).unwrap()), expected);
}

/// Cells of a Dragonfly+ and groups of a dragonfly are one switch each, below one that joins them all.
#[test]
fn groups_and_what_joins_them() {
    let build = |topology: Topology, radix| export::subnet(&topology.build(&links(), radix).unwrap());
    let plus = build(Topology::DragonflyPlus(DragonflyPlus { groups: Some(3), ..DragonflyPlus::default() }), 8);
    let written = lines(&plus);
    let roots: Vec<&String> = written.iter().filter(|line| line.contains("Name=all-of-")).collect();
    assert_eq!(roots.len(), 1, "{written:#?}");
    let joined = read(roots[0].split_once("Switches=").map(|(_, list)| format!("SwitchName=x Nodes={list}\n")).unwrap().as_str()).unwrap();
    assert_eq!(review(&joined).hosts, 3, "{written:#?}");

    let groups = Topology::Dragonfly(Dragonfly { groups: Some(5), switches: Some(4), endpoints: Some(2), ..Dragonfly::default() });
    let written = lines(&build(groups, 16));
    assert_eq!(written.iter().filter(|line| line.contains("Name=group-of-")).count(), 5, "{written:#?}");
    assert_eq!(written.iter().filter(|line| line.contains("Name=all-of-")).count(), 1, "{written:#?}");
    assert_eq!(written.len(), 5 * 4 + 5 + 1);
    // What was made for a fabric is a tree of its own: read and written again it stays.
    let tree = build(Topology::FatTree(FatTree { levels: Some(3), ..FatTree::default() }), 4);
    for subnet in [plus, tree] {
        assert_eq!(lines(&read(&slurm_conf(&subnet)).unwrap()), lines(&subnet));
    }
}

/// Adapters that nobody told their host are no node of the name of their part.
#[test]
fn adapters_without_a_host() {
    let text = include_str!("unnamed.ibnetdiscover");
    let subnet = read(text).unwrap();
    assert_eq!(lines(&subnet), ["SwitchName=leaf1 Nodes=gpu01", "SwitchName=leaf2 Nodes=gpu02", "SwitchName=spine1 Switches=leaf[1-2]"]);
    let note = "left out: 3 adapters that no host has named, such as H-0000000000000a03 (MT4123 ConnectX6   Mellanox Technologies)";
    assert_eq!(slurm_notes(&subnet), [note]);
    assert!(slurm_conf(&subnet).contains(&format!("# {note}\n")) && slurm_yaml(&subnet).contains(&format!("# {note}\n")));
    let review = review(&subnet);
    assert_eq!((review.hosts, review.adapters), (2, 5));
    assert!(review.findings.iter().any(|finding| finding.what == "3 adapters have no host's name in their description"));
    let hosts = subnet.hosts();
    assert_eq!(hosts.iter().filter(|host| host.unnamed).map(|host| host.ports.len()).collect::<Vec<_>>(), [1, 1, 1]);
}
