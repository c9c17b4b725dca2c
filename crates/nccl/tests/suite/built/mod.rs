//! Nodes built by hand, so that what the library finds in them can be said beforehand.

use fabriscope_machine::{Link, LinkKind, Machine, Vertex, VertexId, VertexKind};
use fabriscope_nccl::{Adapter, Architecture, Communicator, Facts, Graphs, NodeKind, Processor, RankPlacement, Settings, Topology, search};
use fabriscope_units::{Rate, Span};

pub const fn slot(generation: u32) -> LinkKind {
    LinkKind::Pcie { generation, lanes: 16 }
}

/// A node in the making: rates in the graph do not count for NCCL, which has its own, but for coherent links.
pub struct Node {
    builder: fabriscope_machine::Builder,
    pub numas: Vec<VertexId>,
    pub bridges: Vec<VertexId>,
    pub gpus: Vec<VertexId>,
    count: u32,
}

impl Node {
    pub fn new(sockets: u32) -> Node {
        let mut node = Node { builder: Machine::builder(), numas: vec![], bridges: vec![], gpus: vec![], count: 0 };
        for package in 0..sockets {
            let numa = node.vertex(VertexKind::Numa { package });
            let bridge = node.vertex(VertexKind::HostBridge);
            node.join(numa, bridge, LinkKind::Die);
            if let Some(first) = node.numas.first().copied() {
                node.join(first, numa, LinkKind::Smp);
            }
            node.numas.push(numa);
            node.bridges.push(bridge);
        }
        node
    }
    pub fn vertex(&mut self, kind: VertexKind) -> VertexId {
        self.count += 1;
        self.builder.vertex(Vertex::new(kind, format!("v{}", self.count)))
    }
    pub fn join(&mut self, a: VertexId, b: VertexId, kind: LinkKind) {
        self.builder.link(Link::new(a, b, kind, Rate::from_gbps(400), Span::from_ns(100)));
    }
    pub fn below(&mut self, above: VertexId, kind: VertexKind, generation: u32) -> VertexId {
        let below = self.vertex(kind);
        self.join(above, below, slot(generation));
        if kind == VertexKind::Gpu {
            self.gpus.push(below);
        }
        below
    }
    pub fn nvlink(&mut self, a: usize, b: usize, links: u32) {
        self.join(self.gpus[a], self.gpus[b], LinkKind::NvLink { generation: 3, links });
    }
    pub fn done(self) -> Machine {
        self.builder.build().unwrap()
    }
}

pub fn facts(sm: u32, processor: Processor, adapters: usize, gbps: u64) -> Facts {
    let adapter = Adapter { rate: Rate::from_gbps(gbps), latency: Span::ZERO, gpudirect: true, collectives: false };
    Facts { architecture: Architecture::Sm(sm), processor, adapters: vec![adapter; adapters], hosts: 1, rails: 1 }
}

pub fn seen(machine: &Machine, facts: Facts, alone: bool) -> (Topology, Graphs) {
    let settings = Settings::default();
    let topology = Topology::new(machine, &machine.gpus(), facts, &settings, alone).unwrap();
    let graphs = search(&topology, &settings);
    (topology, graphs)
}

/// Eight GPUs on an NVSwitch by twelve links each, two below each of four PCI Express switches with two adapters: a DGX A100.
pub fn dgx_a100() -> Machine {
    let mut node = Node::new(2);
    let scale_up = node.vertex(VertexKind::ScaleUpSwitch);
    for bridge in node.bridges.clone() {
        for _ in 0..2 {
            let switch = node.below(bridge, VertexKind::PcieSwitch, 4);
            for _ in 0..2 {
                let gpu = node.below(switch, VertexKind::Gpu, 4);
                node.join(gpu, scale_up, LinkKind::NvLink { generation: 3, links: 12 });
                let _ = node.below(switch, VertexKind::Nic, 4);
            }
        }
    }
    node.done()
}

/// Ranks node by node over so many DGX A100.
pub fn a100s(nodes: u32) -> Communicator {
    let (topology, graphs) = seen(&dgx_a100(), facts(80, Processor::Amd, 8, 200), nodes == 1);
    let seats: Vec<RankPlacement> = (0..8 * nodes).map(|rank| RankPlacement { node: rank / 8, gpu: rank % 8 }).collect();
    Communicator::new(vec![NodeKind { topology, graphs }], &vec![0; nodes as usize], &seats, Settings::default()).unwrap()
}
