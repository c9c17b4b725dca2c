//! The real OpenSM on the real ibsim as the judge of our tables: who reaches whom, over how many switches, how evenly.
//!
//! Each fabric is written as a file of ibsim, OpenSM makes its tables for it, and both tables are followed on the fabric
//! that our reader makes of the same file. Needs Debian's packages opensm, ibsim-utils and libumad2sim0.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use fabriscope_fabric::export::{self, Dialect};
use fabriscope_fabric::import::{self, Kind, Subnet};
use fabriscope_fabric::routing::deadlock::{self, Verdict};
use fabriscope_fabric::routing::{forward_partly, impure_tree, roots_by_hops, survey};
use fabriscope_fabric::topology::{CableList, Dragonfly, FatTree, NamedCable, NamedSwitch, Oversubscription, Torus};
use fabriscope_fabric::{Fabric, LinkSpec, Links, Node, RoutingError, SwitchId, Tables, Topology};
use fabriscope_units::{Rate, Span};

const INSTALL: &str = "this test needs OpenSM and ibsim: apt-get install opensm ibsim-utils libumad2sim0 (.ci/run does it)";

pub(crate) fn links() -> Links {
    Links::uniform(LinkSpec::new(Rate::from_gbps(100), Span::from_ns(25)))
}

/// A process that ends with its owner, whatever happens.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The library through which programs talk to ibsim instead of the kernel.
fn preload() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found = folders.map(|folder| folder.join("umad2sim/libumad2sim.so")).filter(|path| path.is_file());
    found.next().unwrap_or_else(|| panic!("libumad2sim.so is missing; {INSTALL}"))
}

/// What OpenSM did with a fabric.
pub(crate) struct Answer {
    pub(crate) tables: Tables,
    /// Whether the engine asked for made the tables; else OpenSM fell back to minhop.
    pub(crate) configured: bool,
}

/// Runs one sweep of OpenSM with `engine` on the fabric of `subnet`.
pub(crate) fn opensm(subnet: &Subnet, engine: &str, roots: &[u64]) -> Answer {
    opensm_with(subnet, engine, &[("-a", guids(roots))])
}

/// A file of GUIDs.
fn guids(list: &[u64]) -> String {
    list.iter().map(|guid| format!("{guid:#x}\n")).collect()
}

/// The same with several options that name a file each, those without content left out.
pub(crate) fn opensm_with(subnet: &Subnet, engine: &str, files: &[(&str, String)]) -> Answer {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let folder = tempfile::tempdir().unwrap();
    let socket = format!("fabriscope-{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    let topology = folder.path().join("fabric.ibsim");
    std::fs::write(&topology, export::ibnetdiscover(subnet, Dialect::Ibsim)).unwrap();
    let _simulator = ibsim(&topology, &socket);
    let wiring = subnet.wiring();
    let host = subnet.device(*wiring.endpoints.first().expect("a fabric has hosts"));
    // Debian keeps it where only root's path leads.
    let program = Some("/usr/sbin/opensm").filter(|path| Path::new(path).is_file()).unwrap_or("opensm");
    let mut command = Command::new(program);
    command.args(["-o", "-R", engine, "-D", "0x43", "-f"]).arg(folder.path().join("log"));
    for (option, content) in files.iter().filter(|(_, content)| !content.is_empty()) {
        let file = folder.path().join(format!("file{option}"));
        std::fs::write(&file, content).unwrap();
        command.arg(option).arg(&file);
    }
    if ["lash", "dfsssp", "nue", "torus-2QoS"].contains(&engine) {
        command.arg("-Q");
    }
    command.env("SIM_HOST", &host.id).env("IBSIM_SOCKNAME", &socket).env("LD_PRELOAD", preload());
    command.env("OSM_CACHE_DIR", folder.path()).env("OSM_TMP_DIR", folder.path()).current_dir(folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut manager = Owned(command.spawn().unwrap_or_else(|error| panic!("opensm: {error}; {INSTALL}")));
    manager.0.wait().unwrap();

    let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    let dump = std::fs::File::open(folder.path().join("opensm-lfts.dump")).unwrap_or_else(|_| panic!("{engine} wrote no tables:\n{log}"));
    let (tables, _) = import::read_lfts(subnet, BufReader::new(dump)).unwrap();
    Answer { tables, configured: log.contains(&format!("{engine} tables configured on all switches")) }
}

/// ibsim with a fabric, ready to be asked. It stays as long as its standard input is open.
fn ibsim(topology: &Path, socket: &str) -> Owned {
    let mut command = Command::new("ibsim");
    command.args(["-s", "-N", "16384", "-S", "2048", "-P", "262144"]).arg(topology).env("IBSIM_SOCKNAME", socket);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut simulator = Owned(command.spawn().unwrap_or_else(|error| panic!("ibsim: {error}; {INSTALL}")));
    let mut stdout = simulator.0.stdout.take().expect("it is piped");
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !said.ends_with(b"sim> ") {
        assert!(stdout.read(&mut byte).unwrap() > 0, "ibsim does not read the fabric: {}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
    // It goes on to write there: without a reader it would end.
    std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
    simulator
}

/// Levels of switches: distance from the nearest switch with endpoints.
fn levels(fabric: &Fabric) -> Vec<u32> {
    let graph = &fabric.graph;
    let mut level = vec![u32::MAX; graph.switch_count() as usize];
    let mut open = std::collections::VecDeque::new();
    for endpoint in graph.endpoints() {
        if let Node::Switch(at) = graph.node(graph.link(graph.uplink(endpoint)).to)
            && std::mem::replace(&mut level[at.index()], 0) != 0
        {
            open.push_back(at);
        }
    }
    while let Some(at) = open.pop_front() {
        for (_, link) in graph.outputs(at) {
            if let Node::Switch(to) = graph.node(graph.link(link).to)
                && level[to.index()] == u32::MAX
            {
                level[to.index()] = level[at.index()] + 1;
                open.push_back(to);
            }
        }
    }
    level
}

const ENGINES: [&str; 4] = ["minhop", "updn", "ftree", "dor"];

fn ours(fabric: &Fabric, engine: &str) -> Result<Tables, RoutingError> {
    match engine {
        "minhop" => Tables::min_hop(fabric, 0),
        "updn" => Tables::updn(fabric, None),
        "ftree" => Tables::ftree(fabric, None),
        _ => Tables::port_order(fabric),
    }
}

/// Holds our tables of all engines against OpenSM's. Returns the engines that OpenSM cannot use on this fabric.
fn compare(what: &str, subnet: &Subnet) -> Vec<&'static str> {
    let fabric = subnet.fabric(&links()).unwrap();
    let wiring = subnet.wiring();
    let guid = |at: SwitchId| subnet.devices[wiring.switches[at.index()] as usize].guid.unwrap();
    let mut fell_back = Vec::new();
    for engine in ENGINES {
        let mut theirs = opensm(subnet, engine, &[]);
        let mut ours = ours(&fabric, engine);
        if !theirs.configured {
            fell_back.push(engine);
        }
        match engine {
            "updn" => {
                // Whether OpenSM finds roots is what we say; then both take the same ones.
                let found = roots_by_hops(&fabric, &adapters(subnet, &fabric)).unwrap();
                assert_eq!(found.is_empty(), !theirs.configured, "{what}: roots found by hop counts");
                let roots: Vec<u64> = Tables::roots(&fabric).unwrap().into_iter().map(guid).collect();
                theirs = opensm(subnet, engine, &roots);
                assert!(theirs.configured, "{what}: {engine} with roots");
            }
            "ftree" => {
                // Whether OpenSM takes the fabric for a tree is what we say.
                let impure = impure_tree(&fabric).unwrap();
                let told = ours.is_err() || impure.is_some() || adapters_above_leaves(subnet, &fabric);
                assert_eq!(told, !theirs.configured, "{what}: {engine}: {:?} {impure:?}", ours.as_ref().err());
                if ours.is_err() || adapters_above_leaves(subnet, &fabric) {
                    continue;
                }
                if !theirs.configured {
                    // With roots, it takes trees that are not wired evenly.
                    let level = levels(&fabric);
                    let top = level.iter().max().copied().unwrap_or(0);
                    if top == 0 {
                        continue;
                    }
                    let roots: Vec<SwitchId> = fabric.graph.switches().filter(|at| level[at.index()] == top).collect();
                    theirs = opensm(subnet, engine, &roots.iter().copied().map(guid).collect::<Vec<_>>());
                    assert!(theirs.configured, "{what}: {engine} with roots");
                    ours = Tables::ftree(&fabric, Some(&roots));
                }
            }
            _ => assert!(theirs.configured, "{what}: {engine}"),
        }
        let ours = ours.unwrap();
        let (our, their) = (survey(&fabric, &ours), survey(&fabric, &theirs.tables));
        assert_eq!((our.unreachable, their.unreachable), (0, 0), "{what}: {engine}: {:?} {:?}", our.faults, their.faults);
        let (all, equal) = same(&fabric, &ours, &theirs.tables);
        assert_eq!(equal, all, "{what}: {engine}: entries");
    }
    fell_back
}

/// Whether switches without endpoints have adapters: aggregation nodes, which OpenSM takes for hosts.
fn adapters_above_leaves(subnet: &Subnet, fabric: &Fabric) -> bool {
    let level = levels(fabric);
    adapters(subnet, fabric).iter().zip(level).any(|(&adapters, level)| adapters > 0 && level > 0)
}

/// Adapters at each switch, aggregation nodes included: OpenSM does not tell them apart.
fn adapters(subnet: &Subnet, fabric: &Fabric) -> Vec<u32> {
    let wiring = subnet.wiring();
    let mut adapters = vec![0; fabric.graph.switch_count() as usize];
    for cable in &subnet.cables {
        for (end, other) in [(cable.ends[0], cable.ends[1]), (cable.ends[1], cable.ends[0])] {
            if matches!(subnet.device(end).kind, Kind::Adapter | Kind::Aggregation)
                && let Some(at) = wiring.switches.iter().position(|&device| device == other.device)
            {
                adapters[at] += 1;
            }
        }
    }
    adapters
}

pub(crate) fn built(topology: Topology, radix: u32) -> Subnet {
    export::subnet(&topology.build(&links(), radix).unwrap())
}

fn cable(from: &str, to: &str) -> NamedCable {
    NamedCable { between: [from.to_owned(), to.to_owned()], count: None, rate: None, length: None }
}

/// Switches with a number of endpoints each, and cables between them in the order of dimensions.
pub(crate) fn written(hosts: &[u32], cables: &[(usize, usize)]) -> Subnet {
    let mut list = CableList::default();
    for (switch, &count) in hosts.iter().enumerate() {
        list.switches.push(NamedSwitch { name: format!("s{switch:02}"), ports: None });
        list.endpoints.extend((0..count).map(|host| format!("h{switch:02}-{host}")));
    }
    list.cables.extend(cables.iter().map(|(a, b)| cable(&format!("s{a:02}"), &format!("s{b:02}"))));
    for (switch, &count) in hosts.iter().enumerate() {
        list.cables.extend((0..count).map(|host| cable(&format!("h{switch:02}-{host}"), &format!("s{switch:02}"))));
    }
    built(Topology::Irregular(list), 36)
}

#[test]
fn fat_trees() {
    for (levels, radix) in [(2, 8), (3, 6)] {
        let family = FatTree { levels: Some(levels), ..FatTree::default() };
        assert!(compare(&format!("fat tree of {levels} levels"), &built(Topology::FatTree(family), radix)).is_empty());
    }
    let ratio = Oversubscription::parse("2:1").unwrap();
    let family = FatTree { levels: Some(2), oversubscription: Some(ratio), ..FatTree::default() };
    assert!(compare("tapered fat tree", &built(Topology::FatTree(family), 12)).is_empty());
}

#[test]
fn a_tree_with_missing_cables() {
    // Four leaves, three spines; leaf 1 lacks a spine, leaf 3 has two cables to one.
    let cables = [(0, 4), (0, 5), (0, 6), (1, 4), (1, 5), (2, 4), (2, 5), (2, 6), (3, 4), (3, 5), (3, 5), (3, 6)];
    compare("tree with missing cables", &written(&[4, 4, 3, 4, 0, 0, 0], &cables));
}

/// Trees in which something is missing: a whole spine switch at one leaf, one of two cables, a switch of the middle level,
/// most hosts; and what is no tree with a level above the leaves.
#[test]
fn incomplete_trees() {
    let leaf_spine = |missing: &[(usize, usize)], cables: usize| {
        let pairs = (0..4).flat_map(|leaf| (4..7).map(move |spine| (leaf, spine)));
        pairs.filter(|pair| !missing.contains(pair)).flat_map(|pair| std::iter::repeat_n(pair, cables)).collect::<Vec<_>>()
    };
    let hosts = [3, 3, 3, 3, 0, 0, 0];
    compare("leaf without one spine", &written(&hosts, &leaf_spine(&[(2, 5)], 1)));
    let mut one_less = leaf_spine(&[], 2);
    one_less.remove(7);
    compare("one of two cables missing", &written(&hosts, &one_less));
    compare("few hosts", &written(&[3, 1, 0, 2, 0, 0, 0], &leaf_spine(&[], 1)));
    compare("unequal leaves", &written(&[4, 1, 2, 3, 0, 0, 0], &leaf_spine(&[], 1)));
    // Two pods of two leaves and two switches each, two cores; one switch of the middle is missing.
    let pods = [(0, 4), (0, 5), (1, 4), (1, 5), (2, 6), (3, 6), (4, 7), (5, 8), (6, 7), (6, 8)];
    compare("pod with one switch in the middle", &written(&[2, 2, 2, 2, 0, 0, 0, 0, 0], &pods));
    assert_eq!(compare("one switch", &written(&[4], &[])), ["ftree"]);
    assert!(compare("two leaves", &written(&[2, 2], &[(0, 1)])).contains(&"ftree"));
}

/// Roots below which nothing joins them: pairs without a path have no entry, in OpenSM's tables as in ours, and OpenSM
/// says nothing of it.
#[test]
fn roots_that_leave_pairs_without_a_path() {
    // Leaves 0 and 1 under a root each; leaf 2 under both.
    let subnet = written(&[2, 2, 1, 0, 0], &[(0, 3), (1, 4), (2, 3), (2, 4)]);
    let fabric = subnet.fabric(&links()).unwrap();
    let wiring = subnet.wiring();
    let guid = |at: SwitchId| subnet.devices[wiring.switches[at.index()] as usize].guid.unwrap();
    let level = levels(&fabric);
    let roots: Vec<SwitchId> = fabric.graph.switches().filter(|at| level[at.index()] == 1).collect();
    let theirs = opensm(&subnet, "updn", &roots.iter().copied().map(guid).collect::<Vec<_>>());
    assert!(theirs.configured);
    let ours = Tables::updn(&fabric, Some(&roots)).unwrap();
    let (our, their) = (survey(&fabric, &ours), survey(&fabric, &theirs.tables));
    assert_eq!((our.unreachable, their.unreachable), (8, 8));
    assert_eq!((&our.pairs, our.faults.len()), (&their.pairs, 4));
    // Entry by entry: gaps are at the same places.
    for at in fabric.graph.switches() {
        for dest in fabric.graph.endpoints() {
            assert_eq!(ours.port(at, dest, 0).is_none(), theirs.tables.port(at, dest, 0).is_none());
        }
    }
}

#[test]
fn a_mesh() {
    let at = |x: usize, y: usize| y * 4 + x;
    // All cables along x first: the ports of every switch are in the order of dimensions.
    let along_x = (0..4).flat_map(|y| (0..3).map(move |x| (at(x, y), at(x + 1, y))));
    let along_y = (0..3).flat_map(|y| (0..4).map(move |x| (at(x, y), at(x, y + 1))));
    let fell_back = compare("mesh", &written(&[2; 16], &along_x.chain(along_y).collect::<Vec<_>>()));
    assert_eq!(fell_back, ["updn", "ftree"]);
}

#[test]
fn the_dragonfly_of_72_endpoints() {
    let family = Dragonfly { groups: Some(9), switches: Some(4), endpoints: Some(2), global: Some(2), ..Dragonfly::default() };
    let fell_back = compare("dragonfly", &built(Topology::Dragonfly(family), 16));
    assert_eq!(fell_back, ["updn", "ftree"]);
}

/// Entries of both tables, and how many are the same.
pub(crate) fn same(fabric: &Fabric, ours: &Tables, theirs: &Tables) -> (usize, usize) {
    let entries = fabric.graph.switches().flat_map(|at| fabric.graph.endpoints().map(move |dest| (at, dest)));
    let mut counts = (0, 0);
    for (at, dest) in entries {
        counts.0 += 1;
        counts.1 += usize::from(ours.port(at, dest, 0) == theirs.port(at, dest, 0));
    }
    counts
}

/// A real fabric: destinations come in OpenSM's order, so that every entry of `minhop`, and of `updn` from the same roots, is OpenSM's.
fn compare_entries(what: &str, subnet: &Subnet) {
    let fabric = subnet.fabric(&links()).unwrap();
    let theirs = opensm(subnet, "minhop", &[]);
    let (all, equal) = same(&fabric, &Tables::min_hop(&fabric, 0).unwrap(), &theirs.tables);
    assert_eq!(equal, all, "{what}: minhop");
    let wiring = subnet.wiring();
    let guid = |at: SwitchId| subnet.devices[wiring.switches[at.index()] as usize].guid.unwrap();
    let level = levels(&fabric);
    let top = level.iter().max().copied();
    let highest = fabric.graph.switches().filter(|at| Some(level[at.index()]) == top).collect();
    for roots in [Tables::roots(&fabric).unwrap(), highest] {
        let theirs = opensm(subnet, "updn", &roots.iter().copied().map(guid).collect::<Vec<_>>());
        let (all, equal) = same(&fabric, &Tables::updn(&fabric, Some(&roots)).unwrap(), &theirs.tables);
        assert_eq!(equal, all, "{what}: updn from {} roots", roots.len());
    }
}

pub(crate) fn read(name: &str) -> Subnet {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fabrics");
    import::read(&import::text(&std::fs::read(folder.join(name)).unwrap()).unwrap()).unwrap()
}

/// Trees of three levels with a tenth of the cables between switches and a fifth of the hosts missing, and GUIDs in no order; some
/// pairs have no path up and down, and no entries in both tables.
#[test]
fn degraded_trees() {
    for (radix, ratio, seed) in [(8, "1:1", 1), (8, "1:1", 3), (8, "1:1", 4), (12, "3:1", 2)] {
        let ratio = Oversubscription::parse(ratio).unwrap();
        let family = FatTree { levels: Some(3), oversubscription: Some(ratio), ..FatTree::default() };
        let mut subnet = shuffled(built(Topology::FatTree(family), radix));
        let level = levels(&subnet.fabric(&links()).unwrap());
        let top: Vec<u64> = {
            let wiring = subnet.wiring();
            let guid = |at: usize| subnet.devices[wiring.switches[at] as usize].guid.unwrap();
            (0..level.len()).filter(|&at| level[at] == 2).map(guid).collect()
        };
        degrade(&mut subnet, seed);
        let fabric = subnet.fabric(&links()).unwrap();
        let wiring = subnet.wiring();
        let is_root = |at: &SwitchId| top.contains(&subnet.devices[wiring.switches[at.index()] as usize].guid.unwrap());
        let roots: Vec<SwitchId> = fabric.graph.switches().filter(is_root).collect();
        for (engine, ours) in [("updn", Tables::updn(&fabric, Some(&roots))), ("ftree", Tables::ftree(&fabric, Some(&roots)))] {
            let theirs = opensm(&subnet, engine, &top);
            assert!(theirs.configured, "{engine}, {seed}");
            let (all, equal) = same(&fabric, &ours.unwrap(), &theirs.tables);
            assert_eq!(equal, all, "{engine} of radix {radix}, {seed}");
        }
    }
}

/// Takes cables away, and hosts with theirs.
pub(crate) fn degrade(subnet: &mut Subnet, seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let switch: Vec<bool> = subnet.devices.iter().map(|device| device.kind == Kind::Switch).collect();
    subnet.cables.retain(|cable| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let trunk = cable.ends.iter().all(|end| switch[end.device as usize]);
        state % 100 >= if trunk { 10 } else { 20 }
    });
}

/// One spine as the only root: the others are below the leaves, and no way leads through them.
#[test]
fn a_tree_with_one_root() {
    let subnet = built(Topology::FatTree(FatTree { levels: Some(2), ..FatTree::default() }), 8);
    let fabric = subnet.fabric(&links()).unwrap();
    let root = fabric.graph.switches().zip(levels(&fabric)).find(|(_, level)| *level == 1).unwrap().0;
    let wiring = subnet.wiring();
    let theirs = opensm(&subnet, "ftree", &[subnet.devices[wiring.switches[root.index()] as usize].guid.unwrap()]);
    assert!(theirs.configured);
    let (all, equal) = same(&fabric, &Tables::ftree(&fabric, Some(&[root])).unwrap(), &theirs.tables);
    assert_eq!(equal, all);
}

/// With lists of roots and compute nodes, OpenSM takes a real tree with aggregation nodes on its spines: those that are not in
/// the second list come last, and the others have the ways that they have here.
#[test]
fn a_real_tree_with_aggregation_nodes() {
    let subnet = read("dgx-ndr.ibnetdiscover");
    let fabric = subnet.fabric(&links()).unwrap();
    let wiring = subnet.wiring();
    let level = levels(&fabric);
    let roots: Vec<SwitchId> = fabric.graph.switches().filter(|at| level[at.index()] == 1).collect();
    let tops: Vec<u64> = roots.iter().map(|at| subnet.devices[wiring.switches[at.index()] as usize].guid.unwrap()).collect();
    let hosts: Vec<u64> = wiring.endpoints.iter().map(|plug| subnet.device(*plug).guid.unwrap() + u64::from(plug.port)).collect();
    let theirs = opensm_with(&subnet, "ftree", &[("-a", guids(&tops)), ("-u", guids(&hosts))]);
    assert!(theirs.configured);
    let (all, equal) = same(&fabric, &Tables::ftree(&fabric, Some(&roots)).unwrap(), &theirs.tables);
    assert_eq!((equal, all), (21_680, 21_680));
}

#[test]
fn entries_are_those_of_opensm() {
    for name in ["small.ibnetdiscover", "dgx-ndr.ibnetdiscover"] {
        compare_entries(name, &read(name));
    }
}

/// Nets as those that come with ibsim: two switches with several cables between them, one switch, adapters with two ports of
/// which one or both are connected.
#[test]
fn nets_as_for_ibsim() {
    let one = "Switch 8 \"S1\"\n[2] \"A\"[1]\n[5] \"B\"[1]\n\nHca 2 \"A\"\n[1] \"S1\"[2]\n\nHca 2 \"B\"\n[1] \"S1\"[5]\n";
    let bare = "Switch 8 \"S1\"\n[1] \"A\"[1]\n[2] \"B\"[2]\n[3] \"S2\"[3]\n[4] \"S2\"[4]\n\nSwitch 8 \"S2\"\n[3] \"S1\"[3]\n[4] \"S1\"[4]\n\n\
        Hca 2 \"A\"\n[1] \"S1\"[1]\n\nHca 2 \"B\"\n[2] \"S1\"[2]\n";
    let two = "Switch 8 \"S1\"\n[1] \"A\"[1]\n[2] \"A\"[2]\n[3] \"S2\"[3]\n[5] \"S2\"[5]\n[6] \"C\"[1]\n\n\
        Switch 8 \"S2\"\n[1] \"B\"[1]\n[2] \"B\"[2]\n[3] \"S1\"[3]\n[5] \"S1\"[5]\n\nHca 2 \"A\"\n[1] \"S1\"[1]\n[2] \"S1\"[2]\n\n\
        Hca 2 \"B\"\n[1] \"S2\"[1]\n[2] \"S2\"[2]\n\nHca 1 \"C\"\n[1] \"S1\"[6]\n";
    for (what, text) in [("one switch", one), ("a switch without hosts", bare), ("adapters with two ports", two)] {
        // Devices without GUIDs get some, which OpenSM has to find all different.
        let subnet = import::read(&export::ibnetdiscover(&import::read(text).unwrap(), Dialect::Ibsim)).unwrap();
        compare_entries(what, &subnet);
    }
}

/// GUIDs in no order: which of two switches of one rank is above the other goes by them. OpenSM's search then sends some packets up
/// after down, on these fabrics around cycles, as the check finds in both tables.
#[test]
fn switches_of_one_rank_go_by_their_guids() {
    let torus = Topology::Torus(Torus { sizes: vec![3, 4, 5], ..Torus::default() });
    let dragonfly = Dragonfly { groups: Some(9), switches: Some(4), endpoints: Some(2), global: Some(2), ..Dragonfly::default() };
    for (what, topology) in [("torus", torus), ("dragonfly", Topology::Dragonfly(dragonfly))] {
        let subnet = shuffled(built(topology, 16));
        let fabric = subnet.fabric(&links()).unwrap();
        let wiring = subnet.wiring();
        let guid = |at: SwitchId| subnet.devices[wiring.switches[at.index()] as usize].guid.unwrap();
        let all: Vec<SwitchId> = fabric.graph.switches().collect();
        for roots in [vec![SwitchId(0)], all.iter().copied().step_by(5).collect(), all] {
            let theirs = opensm(&subnet, "updn", &roots.iter().copied().map(guid).collect::<Vec<_>>());
            let ours = Tables::updn(&fabric, Some(&roots)).unwrap();
            let (all, equal) = same(&fabric, &ours, &theirs.tables);
            assert_eq!(equal, all, "{what} from {} roots", roots.len());
            if roots.len() == 1 {
                assert!(matches!(deadlock::check(&fabric, &forward_partly(&fabric, ours)), Verdict::Cycle(_)), "{what}");
                let strict = Tables::up_down(&fabric, 0, Some(&roots)).unwrap();
                assert!(deadlock::check(&fabric, &forward_partly(&fabric, strict)).is_free(), "{what}");
            }
        }
        let theirs = opensm(&subnet, "minhop", &[]);
        let (all, equal) = same(&fabric, &Tables::min_hop(&fabric, 0).unwrap(), &theirs.tables);
        assert_eq!(equal, all, "{what}: minhop");
    }
}

/// The same devices with GUIDs in no order: Marsaglia's xorshift of 64 bits.
pub(crate) fn shuffled(mut subnet: Subnet) -> Subnet {
    let mut state = 88_172_645_463_325_252u64;
    for device in &mut subnet.devices {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let guid = (state & 0x00ff_ffff_ffff_ff00) | 0x0200_0000_0000_0000;
        let letter = if device.kind == Kind::Switch { 'S' } else { 'H' };
        (device.guid, device.id, device.lid) = (Some(guid), format!("{letter}-{guid:016x}"), None);
    }
    subnet
}

/// 2,447,550 entries of each.
#[test]
#[ignore = "half a minute: make test-long"]
fn entries_of_selene_are_those_of_opensm() {
    compare_entries("selene", &read("selene-compute.ibnetdiscover.gz"));
}

/// The compute leaves of Selene alone: service leaves are nearer to the core, which OpenSM refuses.
#[test]
#[ignore = "half a minute: make test-long"]
fn fat_tree_of_selene_is_that_of_opensm() {
    let mut subnet = read("selene-compute.ibnetdiscover.gz");
    let kept = |device: &fabriscope_fabric::import::Device| device.kind != Kind::Aggregation && !device.name().starts_with('M');
    let keep: Vec<bool> = subnet.devices.iter().map(kept).collect();
    subnet.cables.retain(|cable| cable.ends.iter().all(|end| keep[end.device as usize]));
    let mut number = vec![None; keep.len()];
    for cable in &subnet.cables {
        cable.ends.iter().for_each(|end| number[end.device as usize] = Some(0));
    }
    let mut next = 0u32..;
    number.iter_mut().filter(|number| number.is_some()).for_each(|number| *number = next.next());
    let mut old = number.iter();
    subnet.devices.retain(|_| old.next().is_some_and(Option::is_some));
    for end in subnet.cables.iter_mut().flat_map(|cable| &mut cable.ends) {
        end.device = number[end.device as usize].unwrap();
    }
    let fabric = subnet.fabric(&links()).unwrap();
    let wiring = subnet.wiring();
    let roots: Vec<SwitchId> = fabric.graph.switches().filter(|at| fabric.name(Node::Switch(*at)).starts_with("CCORE")).collect();
    let guids: Vec<u64> = roots.iter().map(|at| subnet.devices[wiring.switches[at.index()] as usize].guid.unwrap()).collect();
    let theirs = opensm(&subnet, "ftree", &guids);
    assert!(theirs.configured);
    let (all, equal) = same(&fabric, &Tables::ftree(&fabric, Some(&roots)).unwrap(), &theirs.tables);
    assert_eq!((equal, all), (3664 * 660, 3664 * 660));
}

#[test]
fn real_fabrics() {
    compare("small", &read("small.ibnetdiscover"));
    compare("dgx", &read("dgx-ndr.ibnetdiscover"));
}
