//! Nodes drawn by hand and at random, and the rates that readers fill in.

use fabriscope_machine::export::Unknown;
use fabriscope_machine::import::{NvLinkRate, PcieRate, Rates, SocketRate};
use fabriscope_machine::{Builder, Framing, Link, LinkKind, Machine, Vertex, VertexId, VertexKind};
use fabriscope_units::{Rate, Span};
use proptest::prelude::*;

pub const SLOT: LinkKind = LinkKind::Pcie { generation: 4, lanes: 16 };

/// One generation of PCI Express, three of NVLink, one link between sockets: numbers that a test can reckon with.
pub fn rates() -> Rates {
    let nvlink = |compute_capability, generation, links| NvLinkRate {
        compute_capability,
        generation,
        links,
        raw: Rate::from_gbps(200),
        data: Rate::from_gbps(160),
        latency: Span::from_ns(300),
    };
    let signal = Rate::from_gbps(16);
    Rates {
        pcie: vec![PcieRate { generation: 4, signal, coded: Rate::from_bps(15_760_000_000), packets: signal, framing: Framing::NONE }],
        pcie_unknown: (4, 16),
        pcie_latency: Span::from_ns(100),
        nvlink: vec![nvlink(70, 2, 6), nvlink(80, 3, 12), nvlink(90, 4, 18)],
        xgmi: Vec::new(),
        sockets: vec![SocketRate { rate: Rate::from_gbps(200), ..SocketRate::default() }],
        socket_latency: Span::from_ns(60),
        local: Rate::from_gbps(40_000),
        local_latency: Span::from_ns(20),
        memory_latency: Span::from_ns(80),
        coherent_latency: Span::from_ns(100),
    }
}

/// GPUs of which nobody said what they can do are V100 here.
pub fn volta() -> Unknown {
    Unknown { ability: Some(70), port: Some(Rate::from_gbps(200)) }
}

/// A node in the making.
pub struct Drawing {
    pub builder: Builder,
    pub numas: Vec<VertexId>,
    pub bridges: Vec<VertexId>,
    pub gpus: Vec<VertexId>,
    nics: u32,
    switches: u32,
}

impl Drawing {
    /// Sockets with a memory and a host bridge each, all joined.
    pub fn new(sockets: u32) -> Drawing {
        let mut drawing = Drawing { builder: Machine::builder(), numas: vec![], bridges: vec![], gpus: vec![], nics: 0, switches: 0 };
        for package in 0..sockets {
            let numa = drawing.builder.vertex(Vertex::new(VertexKind::Numa { package }, format!("numa{package}")));
            let memory = drawing.builder.vertex(Vertex::new(VertexKind::HostMemory, format!("memory{package}")));
            let bridge = drawing.builder.vertex(Vertex::new(VertexKind::HostBridge, format!("bridge{package}")));
            drawing.join(numa, memory, LinkKind::Memory, 1600, 80);
            drawing.join(numa, bridge, LinkKind::Die, 40_000, 20);
            for before in drawing.numas.clone() {
                drawing.join(before, numa, LinkKind::Smp, 200, 60);
            }
            drawing.numas.push(numa);
            drawing.bridges.push(bridge);
        }
        drawing
    }
    pub fn join(&mut self, a: VertexId, b: VertexId, kind: LinkKind, gbps: u64, ns: u64) {
        self.builder.link(Link::new(a, b, kind, Rate::from_gbps(gbps), Span::from_ns(ns)));
    }
    pub fn switch(&mut self, above: VertexId) -> VertexId {
        let switch = self.builder.vertex(Vertex::new(VertexKind::PcieSwitch, format!("switch{}", self.switches)));
        self.switches += 1;
        self.join(above, switch, SLOT, 256, 100);
        switch
    }
    /// A GPU with its memory; `above` is none where another link than PCI Express leads to it.
    pub fn gpu(&mut self, above: Option<VertexId>) -> VertexId {
        let number = self.gpus.len();
        let gpu = self.builder.vertex(Vertex::new(VertexKind::Gpu, format!("gpu{number}")));
        let memory = self.builder.vertex(Vertex::new(VertexKind::DeviceMemory, format!("gpu{number}-memory")));
        self.join(gpu, memory, LinkKind::Memory, 7200, 80);
        if let Some(above) = above {
            self.join(above, gpu, SLOT, 256, 100);
        }
        self.gpus.push(gpu);
        gpu
    }
    pub fn nic(&mut self, above: VertexId) -> VertexId {
        let nic = self.builder.vertex(Vertex::new(VertexKind::Nic, format!("mlx5_{}", self.nics)));
        self.nics += 1;
        self.join(above, nic, SLOT, 256, 100);
        nic
    }
    pub fn nvlink(&mut self, a: VertexId, b: VertexId, links: u32) {
        self.join(a, b, LinkKind::NvLink { generation: 2, links }, 160 * u64::from(links), 300);
    }
    pub fn done(self) -> Machine {
        self.builder.build().unwrap()
    }
}

/// DGX A100 as its user guide draws it: two sockets, two switches each, two GPUs and two adapters below each switch, and twelve NVLinks from
/// each GPU to the NVSwitches.
pub fn dgx_a100() -> Machine {
    let mut drawing = Drawing::new(2);
    for bridge in drawing.bridges.clone() {
        for _ in 0..2 {
            let switch = drawing.switch(bridge);
            for _ in 0..2 {
                drawing.gpu(Some(switch));
                drawing.nic(switch);
            }
        }
    }
    let scale_up = drawing.builder.vertex(Vertex::new(VertexKind::ScaleUpSwitch, "nvswitch"));
    for gpu in drawing.gpus.clone() {
        drawing.join(gpu, scale_up, LinkKind::NvLink { generation: 3, links: 12 }, 12 * 160, 300);
    }
    drawing.done()
}

/// AC922 as its redbook draws it: two POWER9 with two V100 each, three NVLinks from each GPU to its processor and three to its neighbour.
pub fn ac922() -> Machine {
    let mut drawing = Drawing::new(2);
    for (numa, bridge) in drawing.numas.clone().into_iter().zip(drawing.bridges.clone()) {
        let gpus = [0; 2].map(|_| drawing.gpu(None));
        for gpu in gpus {
            drawing.join(gpu, numa, LinkKind::HostNvLink { generation: 2, links: 3 }, 3 * 160, 300);
        }
        drawing.nvlink(gpus[0], gpus[1], 3);
        drawing.nic(bridge);
    }
    drawing.done()
}

/// What hangs below a host bridge.
#[derive(Clone, Debug)]
pub enum Branch {
    Gpu,
    Nic,
    Switch(Vec<Branch>),
}

/// Trees of PCI Express of one to three sockets, and pairs of GPUs with so many NVLinks.
pub fn nodes() -> impl Strategy<Value = Machine> {
    let leaf = prop_oneof![Just(Branch::Gpu), Just(Branch::Nic)];
    let branch = leaf.prop_recursive(3, 12, 4, |inner| prop::collection::vec(inner, 1..4).prop_map(Branch::Switch));
    let socket = prop::collection::vec(branch, 1..4);
    (prop::collection::vec(socket, 1..4), prop::collection::vec((0usize..12, 0usize..12, 1u32..4), 0..5)).prop_map(|(sockets, pairs)| {
        let mut drawing = Drawing::new(sockets.len() as u32);
        for (bridge, branches) in drawing.bridges.clone().into_iter().zip(&sockets) {
            // At least one adapter and one GPU, so that there is something to tell.
            drawing.nic(bridge);
            drawing.gpu(Some(bridge));
            branches.iter().for_each(|branch| hang(&mut drawing, bridge, branch));
        }
        let (gpus, mut joined) = (drawing.gpus.clone(), Vec::new());
        for (a, b, links) in pairs {
            let pair = [a % gpus.len(), b % gpus.len()];
            let pair = [pair[0].min(pair[1]), pair[0].max(pair[1])];
            if pair[0] != pair[1] && !joined.contains(&pair) {
                joined.push(pair);
                drawing.nvlink(gpus[pair[0]], gpus[pair[1]], links);
            }
        }
        drawing.done()
    })
}

fn hang(drawing: &mut Drawing, above: VertexId, branch: &Branch) {
    match branch {
        Branch::Gpu => {
            drawing.gpu(Some(above));
        }
        Branch::Nic => {
            drawing.nic(above);
        }
        Branch::Switch(inner) => {
            let switch = drawing.switch(above);
            inner.iter().for_each(|branch| hang(drawing, switch, branch));
        }
    }
}

/// GPUs and adapters by name.
pub fn devices(machine: &Machine) -> Vec<(String, VertexId)> {
    let ids = machine.gpus().into_iter().chain(machine.nics());
    ids.map(|id| (machine.vertex(id).name.clone(), id)).collect()
}
