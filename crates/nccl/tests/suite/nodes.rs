//! The nodes of the catalogue as the libraries see them: channels, speeds, orders, transports and what the tuner makes of them.
//!
//! `UPDATE_GOLDEN=1 cargo test -p fabriscope-nccl --test suite nodes::` writes the table anew.
#![expect(clippy::disallowed_methods, reason = "UPDATE_GOLDEN writes the pinned file anew")]

use crate::catalogued;
use crate::catalogued::gigabytes;
use std::fmt::Write;
use std::path::Path;

use catalogued::{facts, node};
use fabriscope_catalog::Catalog;
use fabriscope_nccl::point_to_point::Schedule;
use fabriscope_nccl::{
    Algorithm, Communicator, Graph, NodeKind, Operation, PathType, Protocol, RankPlacement, Settings, Topology, Transport, Tuner, search,
};
use fabriscope_units::Bytes;
use fabriscope_units::Remedy;

fn catalog() -> Catalog {
    Catalog::embedded().unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)))
}

/// Nodes with the rate of their adapters' ports.
const NODES: [(&str, u64); 21] = [
    ("dgx-1v", 100),
    ("dgx-a100", 200),
    ("hgx-h100", 400),
    ("hgx-h200", 400),
    ("hgx-b200", 400),
    ("gb200-nvl72", 400),
    ("mi250x", 200),
    ("mi300a", 200),
    ("hgx-mi300x", 400),
    ("gh200-quad", 200),
    ("aws-p4d", 100),
    ("aws-p4de", 100),
    ("aws-p5", 100),
    ("azure-ndv4", 200),
    ("azure-ndv5", 400),
    ("opa100-a40", 100),
    ("ibex-a100x4", 200),
    ("ibex-v100x4", 100),
    ("ibex-v100x8", 100),
    ("ri2-k80", 100),
    ("ac922", 100),
];

fn communicator(catalog: &Catalog, known: (&str, u64), nodes: u32, settings: &Settings) -> Communicator {
    some_gpus(catalog, known, usize::MAX, nodes, settings)
}

/// A communicator with the first GPUs of each node.
fn some_gpus(catalog: &Catalog, (name, gigabits): (&str, u64), gpus: usize, nodes: u32, settings: &Settings) -> Communicator {
    let node = node(catalog, name);
    let machine = node.machine().unwrap();
    let all = machine.gpus();
    let topology = Topology::new(&machine, &all[..gpus.min(all.len())], facts(&node, gigabits), settings, nodes == 1).unwrap();
    let graphs = search(&topology, settings);
    let gpus = topology.gpus() as u32;
    let seats: Vec<RankPlacement> = (0..nodes * gpus).map(|rank| RankPlacement { node: rank / gpus, gpu: rank % gpus }).collect();
    Communicator::new(vec![NodeKind { topology, graphs }], &vec![0; nodes as usize], &seats, settings.clone()).unwrap()
}

fn graph(title: &str, graph: &Graph, text: &mut String) {
    if graph.channels.is_empty() {
        return;
    }
    let Graph { channels, intra, inter, type_intra, type_inter, same_channels, cross_nic, .. } = graph;
    let (intra, inter) = (gigabytes(*intra), gigabytes(*inter));
    let kind = if *same_channels { "same" } else { "different" };
    let cross = if *cross_nic { ", crossing adapters" } else { "" };
    let count = channels.len();
    writeln!(text, "  {title:<5} {count:>2} at {intra:>6.2} / {inter:>6.2} GB/s, {type_intra} / {type_inter}, {kind}{cross}").unwrap();
    let mut last = String::new();
    for (number, channel) in channels.iter().enumerate() {
        let order: Vec<String> = channel.gpus.iter().map(u32::to_string).collect();
        let order = order.join(" ");
        let line = match channel.adapters {
            Some([first, end]) => format!("[{first}] {order} [{end}]"),
            None => order,
        };
        if line != last && number < 8 {
            writeln!(text, "          {number:>2}: {line}").unwrap();
        }
        last = line;
    }
}

fn transport(transport: Transport) -> String {
    match transport {
        Transport::P2p { class, read, relay } => {
            let how = if read { "read" } else { "write" };
            format!("P2P {class} {how}{}", relay.map_or_else(String::new, |rank| format!(" by {rank}")))
        }
        Transport::Shm => "SHM".to_owned(),
        Transport::Net(way) => {
            let memory = |direct| if direct { "GPU" } else { "host" };
            let flush = if way.flush { ", flush" } else { "" };
            let (from, to) = (memory(way.send_gpudirect), memory(way.receive_gpudirect));
            format!("NET {} ({from}) by {} to {} ({to}{flush})", way.send_adapter, way.send_proxy, way.receive_adapter)
        }
    }
}

fn describe(catalog: &Catalog, known: (&str, u64)) -> String {
    let mut text = String::new();
    for nodes in [1, 4] {
        let communicator = communicator(catalog, known, nodes, &Settings::default());
        let kind = &communicator.kinds()[0];
        let (gpus, nvls) = (kind.topology.gpus(), communicator.nvls_channels());
        let place = if nodes == 1 { "one node".to_owned() } else { format!("{nodes} nodes") };
        writeln!(text, "{}, {place}: {gpus} GPUs, {} channels, {nvls} of NVLS", known.0, communicator.channels()).unwrap();
        graph("rings", &kind.graphs.ring, &mut text);
        graph("trees", &kind.graphs.tree, &mut text);
        graph("NVLS", &kind.graphs.nvls, &mut text);
        let ranks = communicator.ranks();
        if ranks < 2 {
            continue;
        }
        for (from, to) in [(0, 1), (0, ranks - 1)] {
            let way = communicator.point_to_point(from, to, 0);
            writeln!(text, "  {from} to {to}: {}", transport(way)).unwrap();
        }
        if nodes > 1 {
            let place = communicator.ring(0, 0);
            let last = (0..gpus as u32).find(|rank| communicator.ring(0, *rank).next >= gpus as u32).unwrap_or(0);
            let next = communicator.ring(0, last).next;
            let way = communicator.transport(last, next, 0, Algorithm::Ring);
            writeln!(text, "  ring 0: {} to 0 to {}, {last} to {next}: {}", place.previous, place.next, transport(way)).unwrap();
        }
        let tuner = Tuner::new(&communicator);
        for operation in [Operation::AllReduce, Operation::AllGather] {
            let mut before = String::new();
            let mut line = String::new();
            for step in (10..=30).step_by(2) {
                let choice = tuner.choose(operation, Bytes(1 << step)).unwrap();
                let now = format!("{} {}", choice.algorithm, choice.protocol);
                if now != before {
                    write!(line, "; from {} {now} x{}", Bytes(1 << step), choice.channels).unwrap();
                }
                before = now;
            }
            writeln!(text, "  {operation}: {}", line.trim_start_matches("; ")).unwrap();
        }
    }
    text.push('\n');
    text
}

/// Compares with a file beside this one.
fn golden(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap();
    for (known, found) in known.lines().zip(text.lines()) {
        assert_eq!(found, known, "{file} is written anew by UPDATE_GOLDEN=1");
    }
    assert_eq!(text.len(), known.len(), "{file}");
}

#[test]
fn nodes_have_their_channels() {
    let catalog = catalog();
    let text: String = NODES.iter().map(|known| describe(&catalog, *known)).collect();
    golden("tests/nodes.txt", &text);
}

/// The table of the tuner on some nodes.
#[test]
fn tuners_have_their_tables() {
    let catalog = catalog();
    let mut text = String::new();
    for (name, gigabits, nodes) in
        [("dgx-1v", 100, 1), ("dgx-a100", 200, 1), ("dgx-a100", 200, 4), ("hgx-h100", 400, 1), ("hgx-h100", 400, 16), ("mi250x", 200, 4)]
    {
        let communicator = communicator(&catalog, (name, gigabits), nodes, &Settings::default());
        writeln!(text, "{name}, {nodes} x {} GPUs\n{}", communicator.ranks() / nodes, Tuner::new(&communicator)).unwrap();
    }
    let settings = Settings { collnet: true, ..Settings::default() };
    let communicator = communicator(&catalog, ("hgx-h100", 400), 16, &settings);
    assert!(communicator.has_collnet());
    writeln!(text, "hgx-h100, 16 x 8 GPUs, switches reduce\n{}", Tuner::new(&communicator)).unwrap();
    golden("tests/tuner.txt", &text);
}

/// Pairs of GPUs, as programs between two ranks use them: channels, those of point to point, and how they talk.
#[test]
fn pairs_of_gpus_have_their_channels() {
    let catalog = catalog();
    let mut text = format!("{:<12} {:>5} {:>8} {:>10} {:>8}  way\n", "node", "nodes", "channels", "p2p", "per peer");
    for (name, gigabits) in NODES {
        for nodes in [1, 2] {
            let gpus = if nodes == 1 { 2 } else { 1 };
            let communicator = some_gpus(&catalog, (name, gigabits), gpus, nodes, &Settings::default());
            if communicator.ranks() < 2 {
                continue;
            }
            let (schedule, channels) = (Schedule::new(&communicator), communicator.channels());
            let (all, each) = (schedule.channels(), schedule.channels_per_peer());
            let way = transport(communicator.point_to_point(0, 1, 0));
            writeln!(text, "{name:<12} {nodes:>5} {channels:>8} {all:>10} {each:>8}  {way}").unwrap();
        }
    }
    golden("tests/pairs.txt", &text);
}

/// Channels that the libraries' own logs show on these nodes ("24 coll channels, 16 nvls channels").
#[test]
fn channels_are_as_many_as_in_logs() {
    let catalog = catalog();
    for (name, gigabits, nodes, channels, nvls) in [
        ("dgx-1v", 100, 1, 12, 0),
        ("dgx-a100", 200, 1, 24, 0),
        ("dgx-a100", 200, 2, 16, 0),
        ("hgx-h100", 400, 1, 24, 16),
        ("hgx-h100", 400, 2, 16, 16),
    ] {
        let communicator = communicator(&catalog, (name, gigabits), nodes, &Settings::default());
        assert_eq!((communicator.channels(), communicator.nvls_channels()), (channels, nvls), "{name}, {nodes} nodes");
    }
}

#[test]
fn a_search_ends_within_its_steps() {
    // search.cc: a try ends after 2^14 steps (NCCL_SEARCH_TIMEOUT), and all tries of a shape after 2^19 (NCCL_SEARCH_GLOBAL_TIMEOUT) if there is
    // a solution by then; where there is none it goes on, and behind it comes a try for each speed above the one found. Twice that is enough
    // for all of these nodes.
    let most = 1 << 20;
    let catalog = catalog();
    for (name, gigabits) in NODES {
        let node = node(&catalog, name);
        let machine = node.machine().unwrap();
        for alone in [true, false] {
            let topology = Topology::new(&machine, &machine.gpus(), facts(&node, gigabits), &Settings::default(), alone).unwrap();
            let found = search(&topology, &Settings::default());
            for graph in [found.ring, found.tree, found.collnet_chain, found.collnet_direct, found.nvls] {
                let (pattern, steps) = (graph.pattern, graph.steps);
                // RCCL's models of nodes with AMD's GPUs are looked up; every other channel was walked from GPU to GPU.
                let looked_up = name.contains("mi") && steps == 0;
                let walked: usize = graph.channels.iter().map(|channel| channel.gpus.len()).min().unwrap_or(0);
                assert!(steps <= most && (looked_up || steps >= walked as u64), "{name}, {pattern:?}: {steps} steps");
            }
        }
    }
}

/// All of a large communicator is at hand without room for every pair of ranks.
#[test]
fn large_communicators_have_neighbours_on_demand() {
    let catalog = catalog();
    let communicator = communicator(&catalog, ("hgx-h100", 400), 8192, &Settings::default());
    let ranks = communicator.ranks();
    assert_eq!(ranks, 65_536);
    let (mut at, mut seen) = (0, 0);
    loop {
        let place = communicator.ring(3, at);
        assert_eq!(place.index, seen);
        assert_eq!(communicator.ring(3, place.next).previous, at);
        (at, seen) = (place.next, seen + 1);
        if at == 0 {
            break;
        }
    }
    assert_eq!(seen, ranks, "a ring goes through all ranks");
    for channel in [0, 9] {
        let mut roots = 0;
        for rank in (0..ranks).step_by(7) {
            let tree = communicator.tree(channel, rank);
            match tree.up {
                Some(up) => assert!(communicator.tree(channel, up).down.contains(&rank)),
                None => roots += 1,
            }
        }
        assert!(roots <= 1);
    }
    let choice = Tuner::new(&communicator).choose(Operation::AllReduce, Bytes(1 << 30)).unwrap();
    assert!(matches!(choice.protocol, Protocol::Simple | Protocol::Ll128));
}

/// Also where every second node has other orders: NICs of pairs of channels swapped, RCCL's rings reversed.
#[test]
fn rings_go_through_all_ranks() {
    let catalog = catalog();
    for node in [("hgx-h100", 400), ("dgx-a100", 200), ("mi250x", 200), ("hgx-mi300x", 400)] {
        let communicator = communicator(&catalog, node, 5, &Settings::default());
        for channel in 0..communicator.channels() {
            let (mut at, mut seen) = (0, 0);
            while seen == 0 || at != 0 {
                let place = communicator.ring(channel, at);
                assert_eq!(place.index, seen, "{} channel {channel}", node.0);
                assert_eq!(communicator.ring(channel, place.next).previous, at);
                (at, seen) = (place.next, seen + 1);
            }
            assert_eq!(seen, communicator.ranks(), "{} channel {channel}", node.0);
        }
    }
}

#[test]
fn variables_are_honoured() {
    let catalog = catalog();
    let with = |variables: &[(&str, &str)], nodes| {
        let mut settings = Settings::default();
        for (name, value) in variables {
            assert!(settings.set(name, value).unwrap(), "{name}");
        }
        communicator(&catalog, ("dgx-a100", 200), nodes, &settings)
    };
    assert_eq!(with(&[("NCCL_MAX_NCHANNELS", "4")], 1).channels(), 4);
    assert_eq!(with(&[("NCCL_MIN_NCHANNELS", "32")], 1).channels(), 32);
    let rings = Tuner::new(&with(&[("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "^LL128")], 2));
    for step in 3..30 {
        let choice = rings.choose(Operation::AllReduce, Bytes(1 << step)).unwrap();
        assert_eq!(choice.algorithm, Algorithm::Ring);
        assert_ne!(choice.protocol, Protocol::Ll128);
    }
    let direct = |communicator: &Communicator| communicator.transport(0, 1, 0, Algorithm::Ring);
    assert!(matches!(direct(&with(&[], 1)), Transport::P2p { class: PathType::Nvl, read: true, .. }));
    assert_eq!(direct(&with(&[("NCCL_P2P_DISABLE", "1")], 1)), Transport::Shm);
    let far = |communicator: &Communicator| match communicator.point_to_point(0, 9, 0) {
        Transport::Net(way) => way,
        other => panic!("{other:?}"),
    };
    assert_eq!(far(&with(&[], 2)).send_proxy, 1, "PXN sends by the GPU with the receiver's number");
    assert_eq!(far(&with(&[("NCCL_PXN_DISABLE", "1")], 2)).send_proxy, 0);
    assert!(!far(&with(&[("NCCL_NET_GDR_LEVEL", "LOC")], 2)).receive_gpudirect);
    assert!(!far(&with(&[("NCCL_NET_GDR_READ", "0")], 2)).send_gpudirect);
    for (name, value, says) in [
        ("NCCL_ALGO", "Rign", "NCCL_ALGO=Rign: use names of Tree, Ring, CollNetDirect, CollNetChain, NVLS, NVLSTree with commas between"),
        ("NCCL_P2P_LEVEL", "NEAR", "NCCL_P2P_LEVEL=NEAR: use LOC, NVL, NVB, PIX, PXB, PXN, PHB or SYS, or a number from 0 to 5"),
        ("NCCL_NTHREADS", "100", "NCCL_NTHREADS=100: use a multiple of 32"),
        ("NCCL_CROSS_NIC", "7", "NCCL_CROSS_NIC=7: use 0, 1 or 2"),
        ("NCCL_BUFFSIZE", "4 MiB", "NCCL_BUFFSIZE=4 MiB: use a whole number"),
    ] {
        assert_eq!(Settings::default().set(name, value).unwrap_err().in_full(), says);
    }
    assert!(!Settings::default().set("NCCL_DEBUG", "INFO").unwrap());
}
