//! Levels come from the cables, whatever switches are called; what they are good for: chassis, and cables that are missing.

use fabriscope_fabric::export::{self, Dialect};
use fabriscope_fabric::import::{Kind, Subnet, read, review};
use fabriscope_fabric::{Coordinates, LinkSpec, Links, analysis};
use fabriscope_units::{Rate, Span};

const DIRECTOR: &str = include_str!("director.ibnetdiscover");

/// The levels of the switches whose names begin like this, in the order of the file.
fn of(subnet: &Subnet, name: &str) -> Vec<u32> {
    let levels = subnet.levels();
    let names = subnet.distinct_names();
    subnet
        .of_kind(Kind::Switch)
        .filter(|(at, _)| names[*at as usize].starts_with(name))
        .map(|(at, _)| levels[at as usize].unwrap())
        .collect()
}

/// Four edge leaves below a director with four line modules, one of them without cables out, and three spine modules: all
/// modules have one name. One edge leaf lacks an uplink, one line module a cable to a spine module.
#[test]
fn modules_of_a_director_are_at_their_own_levels() {
    let subnet = read(DIRECTOR).unwrap();
    assert_eq!((of(&subnet, "ib-dir/L"), of(&subnet, "ib-dir/S")), (vec![2; 4], vec![3; 3]));
    let review = review(&subnet);
    assert_eq!((review.levels.as_slice(), review.chassis.len()), ([4, 4, 3].as_slice(), 1));
    let chassis = &review.chassis[0];
    assert_eq!((chassis.name.as_str(), chassis.switches.iter().collect::<Vec<_>>()), ("ib-dir", vec![(&2, &4), (&3, &3)]));
    let found: Vec<&str> = review.findings.iter().map(|finding| finding.what.as_str()).collect();
    let edge = "leaf switches (various): 1 of 4 have 2 of 3 cables to level-2 switches ib-dir; 1 of 12 are missing";
    let inside = "level-2 switches ib-dir: 1 of 4 have 5 of 6 cables to level-3 switches ib-dir; 1 of 24 are missing";
    assert_eq!(found, [edge, inside]);
    assert_eq!(
        (&review.findings[0].places[..], &review.findings[1].places[..]),
        (&["delta (2)".to_owned()][..], &["ib-dir/L03/U1 (5)".to_owned()][..])
    );

    // Modules are told apart wherever a fabric has names, and are one chassis again in what is written.
    let fabric = subnet.fabric(&Links::uniform(LinkSpec::new(Rate::from_gbps(100), Span::from_ns(10)))).unwrap();
    let Coordinates::Irregular(irregular) = &fabric.coordinates else { panic!("an imported fabric") };
    let mut names = irregular.switches.clone();
    names.sort();
    names.dedup();
    assert_eq!((names.len(), irregular.switches[4].as_str()), (11, "ib-dir/L01/U1"));
    assert_eq!(analysis::levels(&fabric), [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3]);
    let again = read(&export::ibnetdiscover(&subnet, Dialect::Ibnetdiscover)).unwrap();
    assert_eq!(fabriscope_fabric::import::review(&again), review);
}

/// The same fabric under names that say the opposite, or nothing.
#[test]
fn names_have_no_part_in_it() {
    let subnet = read(DIRECTOR).unwrap();
    let plain = DIRECTOR.replace("MF0;ib-dir:CS7500/", "leaf-").replace("alpha", "spine-1").replace("beta", "core-1").replace("/U1", "");
    let renamed = read(&plain).unwrap();
    assert_eq!(renamed.levels(), subnet.levels());
    assert_eq!(review(&renamed).levels, [4, 4, 3]);
    assert_eq!(review(&renamed).chassis.len(), 1);
}

/// Boards of a director that each have a system image GUID of their own are one chassis by the name that they share.
#[test]
fn a_chassis_whose_boards_have_guids_of_their_own() {
    let mut boards = 0x6000;
    let own: String = DIRECTOR
        .lines()
        .map(|line| {
            let is_chassis = line == "sysimgguid=0x5000";
            boards += u32::from(is_chassis);
            if is_chassis { format!("sysimgguid={boards:#x}\n") } else { format!("{line}\n") }
        })
        .collect();
    assert_eq!(boards, 0x6007);
    let (one, other) = (read(DIRECTOR).unwrap(), read(&own).unwrap());
    assert_eq!((other.chassis(), other.levels()), (one.chassis(), one.levels()));
}

/// Leaves of two racks whose names have nothing in common, one of them with two cables less.
#[test]
fn missing_cables_between_switches_with_names_of_their_own() {
    let mut text = String::new();
    for (at, leaf) in ["oslo", "rome", "bern", "wien", "kyiv"].iter().enumerate() {
        (0..4).for_each(|host| text += &format!("n{at}{host} {leaf}\n"));
        (0..4).filter(|spine| at != 3 || *spine > 1).for_each(|spine| text += &format!("{leaf} s{spine}\n"));
    }
    let review = review(&read(&text).unwrap());
    assert_eq!(review.levels, [5, 4]);
    let found: Vec<&str> = review.findings.iter().map(|finding| finding.what.as_str()).collect();
    assert_eq!(found[0], "leaf switches (various): 1 of 5 have 2 of 4 cables to level-2 switches s; 2 of 20 are missing");
}

/// A leaf without hosts, a spine with a service host, and a core above: as drawn.
#[test]
fn idle_leaves_and_service_hosts() {
    let mut text = String::new();
    for pod in 0..3 {
        for leaf in 0..3 {
            // The last leaf of the last pod has no host yet.
            if (pod, leaf) != (2, 2) {
                (0..6).for_each(|host| text += &format!("n{pod}{leaf}{host} x{pod}y{leaf}\n"));
            }
            (0..2).for_each(|spine| text += &format!("x{pod}y{leaf} x{pod}z{spine}\n"));
        }
        (0..4).for_each(|core| text += &format!("x{pod}z{} w{core}\n", core / 2));
    }
    text += "svc01 x0z0\n";
    let subnet = read(&text).unwrap();
    assert_eq!(review(&subnet).levels, [9, 6, 4]);
    let idle: Vec<String> = review(&subnet)
        .findings
        .into_iter()
        .filter(|finding| finding.what == "1 leaf switches have no host")
        .flat_map(|f| f.places)
        .collect();
    assert_eq!(idle, ["x2y2"]);
}
