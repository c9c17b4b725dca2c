//! Vertices and links of the library's view, out of a machine.
//!
//! Source: NCCL 2.22.3, src/graph/topo.cc (ncclTopoAddCpu, ncclTopoAddPci, ncclTopoAddNvLinks, ncclTopoAddC2c, ncclTopoConnectCpus,
//! ncclTopoConnectNodes, ncclTopoSort).

use fabriscope_machine::{LinkKind, Machine, VertexId, VertexKind};
use fabriscope_units::Rate;

use super::{Facts, Kind, Link, LinkType, Topology, Vertex, bits};
use crate::error::NcclError;
use crate::tables;

pub(super) fn build(machine: &Machine, gpus: &[VertexId], facts: Facts, alone: bool) -> Result<Topology, NcclError> {
    let count = machine.vertices().len();
    let mut build = Build { machine, gpus, facts: &facts, alone, vertices: Vec::new(), of: vec![None; count] };
    build.processors();
    build.scale_up();
    build.sockets();
    for cpu in 0..build.vertices.len() {
        if matches!(build.vertices[cpu].kind, Kind::Cpu(_)) {
            build.up_last(cpu, None);
        }
    }
    let vertices = build.vertices;
    let mut places = vec![0; gpus.len()];
    let (mut nets, mut cpus, mut nvswitch, mut found) = (Vec::new(), Vec::new(), None, 0);
    for (index, vertex) in vertices.iter().enumerate() {
        match vertex.kind {
            Kind::Gpu(gpu) => {
                places[gpu] = index;
                found += 1;
            }
            Kind::Net(_) => nets.push(index),
            Kind::Cpu(_) => cpus.push(index),
            Kind::NvSwitch => nvswitch = Some(index),
            Kind::Switch | Kind::Nic => {}
        }
    }
    if found < gpus.len() {
        let lost = gpus.iter().find(|gpu| build.of[gpu.index()].is_none()).copied().unwrap_or(gpus[0]);
        return Err(NcclError::Apart(machine.vertex(lost).name.clone()));
    }
    // Adapters by number, whatever the order of the processors they hang at.
    nets.sort_by_key(|net| match vertices[*net].kind {
        Kind::Net(number) => number,
        _ => usize::MAX,
    });
    let all = machine.gpus();
    let device = |gpu: &VertexId| all.iter().position(|known| known == gpu).unwrap_or(0) as u32;
    let devices: Vec<u32> = gpus.iter().map(device).collect();
    // Numbers of the driver count within a host.
    let each = (all.len() as u32).div_ceil(facts.hosts.max(1)).max(1);
    let devices = devices.into_iter().map(|device| device % each).collect();
    Ok(Topology { facts, vertices, gpus: places, nets, cpus, nvswitch, paths: Vec::new(), slots: Vec::new(), devices })
}

struct Build<'m> {
    machine: &'m Machine,
    gpus: &'m [VertexId],
    facts: &'m Facts,
    alone: bool,
    vertices: Vec<Vertex>,
    /// What each vertex of the machine became.
    of: Vec<Option<usize>>,
}

impl Build<'_> {
    fn add(&mut self, kind: Kind, host: u32) -> usize {
        self.vertices.push(Vertex { kind, host, links: Vec::new() });
        self.vertices.len() - 1
    }
    /// A link from `a` to `b`; several of a kind add up, and the fastest of a vertex comes first.
    fn one_way(&mut self, a: usize, b: usize, kind: LinkType, rate: Rate) {
        let links = &mut self.vertices[a].links;
        let place = links.iter().position(|link| link.to == b && link.kind == kind);
        let mut link = place.map_or(Link { kind, room: 0, to: b }, |place| links.remove(place));
        link.room += bits(rate);
        let place = place.unwrap_or(links.len());
        let before = links[..place].iter().rposition(|known| known.room >= link.room).map_or(0, |known| known + 1);
        links.insert(before, link);
    }
    fn both_ways(&mut self, a: usize, b: usize, kind: LinkType, rate: Rate) {
        self.one_way(a, b, kind, rate);
        self.one_way(b, a, kind, rate);
    }
    /// The way up a tree comes after those down.
    fn up_last(&mut self, vertex: usize, above: Option<usize>) {
        if let Some(place) = above.and_then(|above| self.vertices[vertex].links.iter().position(|link| link.to == above)) {
            let up = self.vertices[vertex].links.remove(place);
            self.vertices[vertex].links.push(up);
        }
        let below: Vec<usize> = self.vertices[vertex].links.iter().filter(|link| link.kind == LinkType::Pci).map(|link| link.to).collect();
        for child in below {
            if Some(child) != above {
                self.up_last(child, Some(vertex));
            }
        }
    }

    fn processors(&mut self) {
        let machine = self.machine;
        let numas = machine.numas();
        let each = numas.len().div_ceil(self.facts.hosts.max(1) as usize).max(1);
        for (number, numa) in numas.iter().enumerate() {
            let cpu = self.add(Kind::Cpu(number), (number / each) as u32);
            self.of[numa.index()] = Some(cpu);
        }
        for numa in numas {
            let cpu = self.of[numa.index()].expect("added above");
            for link in machine.around(numa).iter().map(|id| machine.link(*id)) {
                let end = link.other(numa);
                match machine.vertex(end).kind {
                    VertexKind::HostBridge if link.kind == LinkKind::Die => self.below(end, cpu, cpu),
                    VertexKind::Gpu => self.device(end, cpu, cpu, link.kind, link.rate[0]),
                    VertexKind::Nic => self.device(end, cpu, cpu, link.kind, link.rate[0]),
                    _ => {}
                }
            }
        }
    }

    /// What hangs at a bridge, switch or GPU by PCI Express; `above` is the vertex that carries it.
    fn below(&mut self, from: VertexId, above: usize, cpu: usize) {
        let machine = self.machine;
        self.of[from.index()].get_or_insert(above);
        for link in machine.around(from).iter().map(|id| machine.link(*id)) {
            let end = link.other(from);
            let LinkKind::Pcie { generation, lanes } = link.kind else { continue };
            if self.of[end.index()].is_some() {
                continue;
            }
            if machine.vertex(end).kind == VertexKind::PcieSwitch {
                let switch = self.add(Kind::Switch, 0);
                self.of[end.index()] = Some(switch);
                self.both_ways(switch, above, LinkType::Pci, tables::pci_lane(generation) * u64::from(lanes));
                self.below(end, switch, cpu);
            } else {
                self.device(end, above, cpu, link.kind, link.rate[0]);
            }
        }
    }

    fn device(&mut self, id: VertexId, above: usize, cpu: usize, kind: LinkKind, rate: Rate) {
        if self.of[id.index()].is_some() {
            return;
        }
        let amd = self.facts.architecture.is_amd();
        // How the bus shows what is joined by other links: 16 lanes of the fourth generation, of the fifth from gfx940 on.
        let shown = tables::pci_lane(if self.facts.architecture.capability() >= 94 { 5 } else { 4 }) * 16;
        let (joined, slot) = match kind {
            LinkKind::Pcie { generation, lanes } => (LinkType::Pci, tables::pci_lane(generation) * u64::from(lanes)),
            LinkKind::Coherent | LinkKind::HostNvLink { .. } if !amd => (LinkType::NvLink, rate),
            _ => (LinkType::Pci, shown),
        };
        match self.machine.vertex(id).kind {
            VertexKind::Gpu => {
                if let Some(gpu) = self.gpus.iter().position(|gpu| *gpu == id) {
                    let vertex = self.add(Kind::Gpu(gpu), 0);
                    self.of[id.index()] = Some(vertex);
                    self.both_ways(vertex, above, joined, slot);
                }
                // Adapters at a GPU are at its processor to the bus, also where the GPU is not used.
                self.below(id, cpu, cpu);
            }
            VertexKind::Nic if !self.alone => {
                let number = self.machine.nics().iter().position(|nic| *nic == id).unwrap_or(0);
                let rails = self.facts.rails.max(1) as usize;
                if !number.is_multiple_of(rails) {
                    return;
                }
                let adapters = self.facts.adapters.iter().skip(number).take(rails);
                let rate = Rate::from_bps(adapters.map(|adapter| adapter.rate.as_bps()).sum());
                let slot = slot * rails as u64;
                let nic = self.add(Kind::Nic, 0);
                self.of[id.index()] = Some(nic);
                self.both_ways(nic, above, LinkType::Pci, slot);
                let net = self.add(Kind::Net(number), 0);
                self.both_ways(nic, net, LinkType::Net, rate);
            }
            _ => {}
        }
    }

    fn scale_up(&mut self) {
        let (machine, each) = (self.machine, self.facts.architecture.link_rate());
        for id in self.gpus {
            let Some(gpu) = self.of[id.index()] else { continue };
            for link in machine.around(*id).iter().map(|link| machine.link(*link)) {
                let (LinkKind::NvLink { links, .. } | LinkKind::Xgmi { links }) = link.kind else { continue };
                let (end, rate) = (link.other(*id), each * u64::from(links));
                match machine.vertex(end).kind {
                    VertexKind::Gpu => {
                        if let Some(peer) = self.of[end.index()].filter(|peer| matches!(self.vertices[*peer].kind, Kind::Gpu(_))) {
                            self.one_way(gpu, peer, LinkType::NvLink, rate);
                        }
                    }
                    VertexKind::ScaleUpSwitch => {
                        let known = self.vertices.iter().position(|vertex| vertex.kind == Kind::NvSwitch);
                        let switch = known.unwrap_or_else(|| self.add(Kind::NvSwitch, 0));
                        self.both_ways(gpu, switch, LinkType::NvLink, rate);
                    }
                    VertexKind::Numa { .. } => {
                        if let Some(cpu) = self.of[end.index()] {
                            self.both_ways(gpu, cpu, LinkType::NvLink, rate);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// All domains of a host are joined, each to each.
    fn sockets(&mut self) {
        let cpus: Vec<usize> = (0..self.vertices.len()).filter(|v| matches!(self.vertices[*v].kind, Kind::Cpu(_))).collect();
        let rate = tables::between_sockets(self.facts.processor);
        for &a in &cpus {
            for &b in &cpus {
                if a != b && self.vertices[a].host == self.vertices[b].host {
                    self.one_way(a, b, LinkType::Sockets, rate);
                }
            }
        }
    }
}
