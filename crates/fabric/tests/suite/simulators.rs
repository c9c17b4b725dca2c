//! Topologies of other simulators: htsim's numbers of a fat tree, the link lists of HPCC and SimAI.

use fabriscope_fabric::import::{ImportError, Kind, Subnet, read, review};
use fabriscope_fabric::topology::{FatTree, conforms};
use fabriscope_fabric::{Fabric, LinkSpec, Links, Router, Routing, Topology};
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

fn mistake(file: &str) -> String {
    read(file).map(|_| String::new()).unwrap_or_else(|error: ImportError| error.in_full())
}

fn rates(subnet: &Subnet) -> Vec<(u64, usize)> {
    let mut rates: Vec<u64> = subnet.cables.iter().filter_map(|cable| cable.data_rate()).map(|rate| rate.as_bps() / 1_000_000).collect();
    rates.sort_unstable();
    let mut counts: Vec<(u64, usize)> = Vec::new();
    for rate in rates {
        match counts.last_mut() {
            Some((last, count)) if *last == rate => *count += 1,
            _ => counts.push((rate, 1)),
        }
    }
    counts
}

/// 8 hosts at each of 4 leaves, 2 cables up at each: 4 to 1.
const LEAF_SPINE: &str = "Nodes 32
Tiers 2
Podsize 32

Tier 0
Downlink_speed_Gbps 100
Radix_Down 8
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 0
Oversubscribed 4

Tier 1
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 1000
";

/// A tree of switches with `k` ports, as htsim would make it of `k` alone.
fn whole(k: u32) -> String {
    let (nodes, half) = (k * k * k / 4, k / 2);
    let pod = half * half;
    format!(
        "# whole\nNodes {nodes}\nTiers 3\nPodsize {pod}\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down {half}\nRadix_Up {half}\n\
         Tier 1\nDownlink_speed_Gbps 100\nRadix_Down {half}\nRadix_Up {half}\nBundle 1\n\
         Tier 2\ndownlink_speed_gbps 100\nRadix_Down {k}\n"
    )
}

#[test]
fn htsim() {
    let subnet = read(LEAF_SPINE).unwrap();
    assert_eq!(fabric(&subnet).counts().to_string(), "32 endpoints, 6 switches, 40 cables");
    assert!(subnet.unread.is_empty());
    for k in [4, 8, 16] {
        let subnet = read(&whole(k)).unwrap();
        let fabric = fabric(&subnet);
        let ours = Topology::FatTree(FatTree { levels: Some(3), ..FatTree::default() }).build(&links(), k).unwrap();
        assert_eq!((fabric.counts(), fabric.coordinates.diameter()), (ours.counts(), 6));
        // OpenSM's ftree accepts trees only.
        assert!(Router::new(&fabric, Routing::Ftree).is_ok());
    }
    // 72 lower, 72 upper and 12 core switches; each upper one has 6 cables up in bundles of 3.
    let bundles = "Nodes 432\nTiers 3\nPodsize 36\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 6\nRadix_Up 6\n\
                   Tier 1\nDownlink_speed_Gbps 100\nRadix_Down 6\nRadix_Up 6\nTier 2\nDownlink_speed_Gbps 100\nRadix_Down 36\nBundle 3\n";
    let subnet = read(bundles).unwrap();
    assert_eq!(fabric(&subnet).counts().to_string(), "432 endpoints, 156 switches, 1296 cables");
    let review = review(&subnet);
    assert_eq!((review.levels.as_slice(), review.parallel.get(&3)), ([72, 72, 12].as_slice(), Some(&144)));
    // Tiers of different speeds: 400 Gb/s up need a quarter of the cables.
    let fast = "Nodes 64\nTiers 2\nPodsize 64\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 16\nRadix_Up 4\n\
                Tier 1\nDownlink_speed_Gbps 400\nRadix_Down 4\n";
    let subnet = read(fast).unwrap();
    assert_eq!(rates(&subnet), [(100_000, 64), (400_000, 16)]);
}

#[test]
fn mistakes_in_htsim() {
    for (file, said) in [
        (LEAF_SPINE.replace("Tiers 2", "Tiers 4"), "line 2: `Tiers 4` cannot be read; htsim has 2 or 3"),
        (
            LEAF_SPINE.replace("Podsize 32", "Podsize 16"),
            "line 3: `Podsize 16` of 32 nodes in two tiers cannot be read; two tiers are one pod",
        ),
        (LEAF_SPINE.replace("Tiers 2", "Tiers two"), "line 2: `Tiers two` cannot be read; write a whole number"),
        (LEAF_SPINE.replace("Podsize 32\n", ""), "a file without `podsize` before the tiers cannot be read; is it cut off?"),
        (
            LEAF_SPINE.replace("Radix_Down 4", "Radix_Down 3"),
            "line 15: cables up of tier 0 by ports down of tier 1, 8 / 3, is no whole number",
        ),
        (LEAF_SPINE.replace("Radix_Up 2", "Radix_Up 3"), "line 8: `Radix_Up 3` with 2 that the other numbers make"),
        (LEAF_SPINE.replace("Radix_Up 2", "Radix_Up 2\nRadix_Up 2"), "line 9: `radix_up` a second time, after line 8"),
        (LEAF_SPINE.replace("Oversubscribed 4", "Oversubscribed 0"), "line 11: `oversubscribed 0` cannot be read; write at least 1"),
        (LEAF_SPINE.replace("Tier 1", "Tier 7"), "line 13: `Tier 7` cannot be read; tiers are 0, 1 and 2"),
        (LEAF_SPINE.replace("Tier 0\n", ""), "`downlink_speed_gbps` before the first tier"),
        (LEAF_SPINE.lines().take(12).map(|line| format!("{line}\n")).collect(), "a file without `radix_down` of tier 1"),
        (LEAF_SPINE.replace("Nodes 32", "Nodes 99999999"), "line 1: `Nodes 99999999` cannot be read"),
        (
            "Nodes 2\nConnections 1\n0->1 start 0 size 1000\n".to_owned(),
            "line 2: traffic of htsim (`.cm`) cannot be read; give the topology",
        ),
    ] {
        assert!(mistake(&file).contains(said), "{said}\n{}", mistake(&file));
    }
    let odd = read(&LEAF_SPINE.replace("Oversubscribed 4", "Oversubscribed 4\nColour red")).unwrap();
    assert_eq!(odd.unread.len(), 1);
}

const HPCC: &str = "5 2 6
3 4
0 3 100Gbps 0.001ms 0
1 3 100Gbps 0.001ms 0
2 4 25Gbps 0.001ms 0
3 4 400Gbps 0.001ms 0
3 4 400Gbps 0.001ms 0
3 4 12.5Gbps 0.001ms 0
";

/// Two servers of two GPUs: an NVLink switch in each, one switch between.
const SIMAI: &str = "7 2 2 1 8 H100
4 5 6
0 4 2880Gbps 0.000025ms 0
1 4 2880Gbps 0.000025ms 0
2 5 2880Gbps 0.000025ms 0
3 5 2880Gbps 0.000025ms 0
0 6 400Gbps 0.0005ms 0
1 6 400Gbps 0.0005ms 0
2 6 400Gbps 0.0005ms 0
3 6 400Gbps 0.0005ms 0
";

#[test]
fn ns3() {
    let subnet = read(HPCC).unwrap();
    assert_eq!(fabric(&subnet).counts().to_string(), "3 endpoints, 2 switches, 6 cables");
    assert_eq!(rates(&subnet), [(12_500, 1), (25_000, 1), (100_000, 2), (400_000, 2)]);
    assert_eq!(review(&subnet).speeds.get("400 Gb/s"), Some(&2), "{:?}", review(&subnet).speeds);
    // HPCC makes one link of parallel ones.
    assert_eq!(review(&subnet).parallel.get(&3), Some(&1));
    let subnet = read(SIMAI).unwrap();
    assert_eq!(subnet.of_kind(Kind::Switch).count(), 1);
    assert_eq!(fabric(&subnet).counts().to_string(), "4 endpoints, 1 switches, 4 cables");
    assert!(subnet.notes.iter().any(|note| note.starts_with("2 NVLink switches and 4 links to them are left out")), "{:?}", subnet.notes);
}

/// Files of HPCC end with lines that explain those before; the simulator reads the links that the head promises and no more.
#[test]
fn ns3_with_lines_after_the_links() {
    let tail = "\nFirst line: total node #, switch node #, link #\nSecond line: switch node IDs...\nsrc0 dst0 rate delay error_rate\n0 1 1Gbps 1ms 0\n";
    let (plain, explained) = (read(HPCC).unwrap(), read(&format!("{HPCC}{tail}")).unwrap());
    assert_eq!((&plain.devices, &plain.cables), (&explained.devices, &explained.cables));
    assert_eq!(explained.unread.len(), 4);
    assert_eq!(explained.notes[0], "what follows the 6 links that line 1 promises is not read, as by the simulators");
    assert!(plain.unread.is_empty() && !plain.notes.contains(&explained.notes[0]));
    // The numbers of the switches may stand on several lines, as the simulators read them.
    let spread = read(&HPCC.replacen("3 4\n", "3\n4\n", 1)).unwrap();
    let links = |subnet: &Subnet| subnet.cables.iter().map(|cable| (cable.ends, cable.rate)).collect::<Vec<_>>();
    assert_eq!((spread.devices.len(), links(&spread)), (plain.devices.len(), links(&plain)));
}

#[test]
fn mistakes_in_ns3() {
    for (file, said) in [
        (HPCC.replace("5 2 6", "5 2 7"), "line 8: 6 links in the place of the 7 that line 1 promises cannot be read; is the file cut off?"),
        (HPCC.replace("5 2 6", "9 2 6"), "line 1: 9 nodes with 6 links, which cannot join them all, cannot be read"),
        (HPCC.replace("5 2 6", "5 6 6"), "line 1: 5 nodes, 6 of them switches, cannot be read"),
        (HPCC.replace("3 4\n", "3 5\n"), "line 2: `5` as a switch"),
        (HPCC.replacen("3 4\n", "3 3\n", 1), "line 2: `3` was described before"),
        (HPCC.replacen("3 4\n", "3\n", 1), "line 2: 1 numbers of 2 switches"),
        (HPCC.replace("2 4 25", "2 2 25"), "line 5: a link from 2 to itself"),
        (HPCC.replace("2 4 25", "2 9 25"), "line 5: `2 9 25Gbps 0.001ms 0` cannot be read; write two numbers"),
        (HPCC.replace("25Gbps", "fast"), "line 5: `fast` is no rate; write it as 400Gbps"),
        ("5 2 6\n".to_owned(), "line 1: the end of the file in the place of the numbers of the switches"),
    ] {
        assert!(mistake(&file).contains(said), "{said}\n{}", mistake(&file));
    }
}

#[test]
fn cut_off_anywhere() {
    for file in [LEAF_SPINE, HPCC, SIMAI] {
        for end in 0..file.len() {
            if let Ok(subnet) = read(&file[..end]) {
                drop((review(&subnet), subnet.fabric(&links())));
            }
        }
    }
}
