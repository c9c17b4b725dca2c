//! Communicators over nodes of the catalogue, for tests.

use std::collections::BTreeMap;
use std::sync::Mutex;

use fabriscope_catalog::{Catalog, CpuFamily, Node, ResolvedNode};
use fabriscope_nccl::{Adapter, Architecture, Communicator, Facts, NodeKind, Processor, RankPlacement, Settings, Topology, search};
use fabriscope_units::{Rate, Span};

/// Nodes of all kinds, with the rate of the ports of their adapters in Gb/s.
pub const NODES: [(&str, u64); 14] = [
    ("dgx-1v", 100),
    ("dgx-a100", 200),
    ("hgx-h100", 400),
    ("hgx-b200", 400),
    ("gb200-nvl72", 400),
    ("mi250x", 200),
    ("mi300a", 200),
    ("hgx-mi300x", 400),
    ("gh200-quad", 200),
    ("aws-p4d", 100),
    ("ibex-a100x4", 200),
    ("ibex-v100x8", 100),
    ("opa100-a40", 100),
    ("ac922", 100),
];

/// What the library finds in a node with its usual settings: alone or with others. Searched once.
pub fn kind(catalog: &Catalog, known: (&'static str, u64), alone: bool) -> NodeKind {
    static KNOWN: Mutex<BTreeMap<(&str, bool), NodeKind>> = Mutex::new(BTreeMap::new());
    let found = KNOWN.lock().unwrap().get(&(known.0, alone)).cloned();
    found.unwrap_or_else(|| {
        let kind = searched(catalog, known, &Settings::default(), alone);
        KNOWN.lock().unwrap().insert((known.0, alone), kind.clone());
        kind
    })
}

fn searched(catalog: &Catalog, (name, gigabits): (&str, u64), settings: &Settings, alone: bool) -> NodeKind {
    let node = node(catalog, name);
    let machine = node.machine().unwrap();
    let topology = Topology::new(&machine, &machine.gpus(), facts(&node, gigabits), settings, alone).unwrap();
    let graphs = search(&topology, settings);
    NodeKind { topology, graphs }
}

/// A node of the catalogue.
pub fn node(catalog: &Catalog, name: &str) -> ResolvedNode {
    let node = Node { part: Some(name.to_owned()), ..Node::default() };
    catalog.resolve_node(&node).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What the library is told of a node whose adapters' ports have so many Gb/s.
pub fn facts(node: &ResolvedNode, gigabits: u64) -> Facts {
    let gpu = node.gpu.as_ref().expect("a node with GPUs");
    let architecture: Architecture = gpu.architecture.as_deref().expect("every GPU says its own").parse().expect("one of NVIDIA or AMD");
    let processor = match node.cpu.family {
        Some(CpuFamily::IntelBroadwell) => Processor::IntelBroadwell,
        Some(CpuFamily::IntelSkylake) => Processor::IntelSkylake,
        Some(CpuFamily::Amd) => Processor::Amd,
        Some(CpuFamily::Arm) => Processor::Arm,
        Some(CpuFamily::Power) => Processor::Power,
        None => Processor::Other,
    };
    let adapter =
        Adapter { rate: Rate::from_gbps(gigabits), latency: Span::ZERO, gpudirect: gpu.peer.is_some(), collectives: gigabits == 400 };
    let rails = Facts::rails(node.nics, node.gpus);
    Facts { architecture, processor, adapters: vec![adapter; node.nics as usize], hosts: node.layout.part.trays, rails }
}

/// One rank for each GPU of `nodes` nodes, node by node.
pub fn communicator(catalog: &Catalog, known: (&'static str, u64), nodes: u32) -> Communicator {
    communicator_with(catalog, known, nodes, Settings::default())
}

/// The same where users set variables that matter after the search.
pub fn communicator_with(catalog: &Catalog, known: (&'static str, u64), nodes: u32, settings: Settings) -> Communicator {
    let kind = kind(catalog, known, nodes == 1);
    let gpus = kind.topology.gpus() as u32;
    let seats: Vec<RankPlacement> = (0..nodes * gpus).map(|rank| RankPlacement { node: rank / gpus, gpu: rank % gpus }).collect();
    Communicator::new(vec![kind], &vec![0; nodes as usize], &seats, settings).unwrap()
}

/// A rate in GB/s, as the files of the library say it.
pub fn gigabytes(rate: Rate) -> f64 {
    rate.as_bytes_per_s_f64() / 1e9
}
