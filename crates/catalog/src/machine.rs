//! The graph of a node from its parts.
//!
//! Source: the parts. Latencies of the way between an adapter and memory add up to the root complex's `dma_write_latency`: half of
//! it lies between device and host bridge, half between bridge and memory; the latency of a GPU's memory is what its part says for
//! writes of peers.
//! Modelled: cores on an adapter with their memory behind a switch that they share with the host; a host bridge at every NUMA domain with a device, alike switches of a scale-up network as one (traffic is spread over all
//! of them), the memory of a socket split evenly over its domains.
//! Not modelled: rates inside the processor beside that of its memory.

use fabriscope_machine::{Builder, Framing, Link, LinkKind, Machine, MachineError, PeerLimits, Tlp, Vertex, VertexId, VertexKind};
use fabriscope_units::{Rate, Span};

use crate::node::{ResolvedBundle, ResolvedNode, ResolvedSlot};
use crate::part::{Interconnect, InterconnectKind, RootComplex, ScaleUp, Under};
use crate::sourced::Sourced;

impl ResolvedNode {
    /// The node as a graph: `numa0`, `numa0-memory`, `bridge0`, PCI Express switches by their names, `gpu0`, `gpu0-memory`,
    /// `nic0`, `nic0-switch`, `dpu0`, `dpu0-memory`, `scale-up`, `cxl0`; devices counted over all trays, GPUs and adapters as far as they are in use.
    ///
    /// # Errors
    /// A part that nothing joins to the rest.
    pub fn machine(&self) -> Result<Machine, MachineError> {
        let mut wiring = Wiring { node: self, builder: Machine::builder(), numa: Vec::new(), bridges: Vec::new(), gpus: Vec::new() };
        for tray in 0..self.layout.part.trays {
            wiring.tray(tray);
        }
        wiring.scale_up();
        wiring.builder.build()
    }
}

pub(crate) struct Wiring<'n> {
    pub(crate) node: &'n ResolvedNode,
    pub(crate) builder: Builder,
    /// All NUMA domains.
    numa: Vec<VertexId>,
    /// The host bridge of each, as soon as it has one.
    bridges: Vec<Option<VertexId>>,
    /// The GPUs in use.
    gpus: Vec<VertexId>,
}

impl Wiring<'_> {
    fn tray(&mut self, tray: u32) {
        self.sockets(tray);
        let switches = self.switches(tray);
        self.gpus(tray, &switches);
        self.nics(tray, &switches);
        self.expanders(tray);
    }

    fn sockets(&mut self, tray: u32) {
        let (part, cpu) = (&self.node.layout.part, &self.node.cpu);
        let unified = part.gpus.as_ref().is_some_and(|gpus| gpus.unified_memory);
        let domains = part.numa_per_socket;
        let first = self.numa.len();
        for domain in 0..part.numa_domains() {
            let number = self.numa.len();
            let package = tray * part.sockets + domain / domains;
            let numa = self.builder.vertex(Vertex::new(VertexKind::Numa { package }, format!("numa{number}")).titled(&cpu.title));
            if !unified {
                let kind = part.memory.as_ref().map_or_else(String::new, |memory| format!("{:?}", memory.kind).to_uppercase());
                let memory = Vertex::new(VertexKind::HostMemory, format!("numa{number}-memory")).titled(kind);
                let memory = self.builder.vertex(memory);
                let rate = share(self.socket_rate(), domains);
                self.builder.link(Link::new(numa, memory, LinkKind::Memory, rate, Span::ZERO));
            }
            self.numa.push(numa);
            self.bridges.push(None);
        }
        // The domains of a processor, each to each.
        for a in first..self.numa.len() {
            for b in a + 1..self.numa.len() {
                if (a - first) / domains as usize == (b - first) / domains as usize {
                    self.builder.link(Link::new(self.numa[a], self.numa[b], LinkKind::Die, self.socket_rate(), DIE));
                }
            }
        }
        let Some(link) = &self.node.layout.socket_link else { return };
        for a in 0..part.sockets as usize {
            for b in a + 1..part.sockets as usize {
                let ends = [a, b].map(|socket| self.numa[first + socket * domains as usize]);
                self.builder.link(bundle(ends[0], ends[1], LinkKind::Smp, link));
            }
        }
    }

    /// What the cores of a processor move; the memory's own peak where that is not known.
    fn socket_rate(&self) -> Rate {
        let (cpu, part) = (&self.node.cpu, &self.node.layout.part);
        let cores = Rate::from_bps(cpu.copy_rate_streaming.as_bps().saturating_mul(2 * u64::from(cpu.cores)));
        match (&cpu.memory, &part.memory) {
            (Some(memory), _) => *memory.copy_rate,
            (None, Some(memory)) => cores.min(memory.peak()),
            (None, None) => cores,
        }
    }

    /// The host bridge of a NUMA domain, made when it is first asked for.
    fn bridge(&mut self, numa: usize) -> VertexId {
        if let Some(bridge) = self.bridges[numa] {
            return bridge;
        }
        let root = &self.node.cpu.root_complex;
        let mut vertex = Vertex::new(VertexKind::HostBridge, format!("bridge{numa}"));
        if let Some(peer) = &root.peer_to_peer {
            let [read, write, read_across, write_across] =
                [&peer.read, &peer.write, &peer.read_across, &peer.write_across].map(|rate| Some(**rate));
            vertex.peer = PeerLimits { read, write, read_across, write_across };
        }
        let bridge = self.builder.vertex(vertex);
        let inside = root.dma_write_latency.as_ps() - self.outside().as_ps();
        self.builder.link(Link::new(self.numa[numa], bridge, LinkKind::Die, self.socket_rate(), Span::from_ps(inside)));
        self.bridges[numa] = Some(bridge);
        bridge
    }
    /// Between a device and its host bridge.
    fn outside(&self) -> Span {
        Span::from_ps(self.node.cpu.root_complex.dma_write_latency.as_ps() / 2)
    }

    /// The vertex that a device hangs under, and what of the way to the device lies at its end.
    fn above(&mut self, tray: u32, name: &str, switches: &[(VertexId, Span)]) -> Option<(VertexId, Span)> {
        let part = &self.node.layout.part;
        match part.under(name)? {
            Under::Numa(domain) => {
                let bridge = self.bridge((tray * part.numa_domains() + domain) as usize);
                Some((bridge, self.outside()))
            }
            Under::Switch(number) => switches.get(number as usize).copied(),
            Under::Gpu(number) => {
                let all = part.gpus() / part.trays.max(1);
                Some((*self.gpus.get((tray * all + number) as usize)?, self.outside()))
            }
            Under::ScaleUp => None,
        }
    }

    fn switches(&mut self, tray: u32) -> Vec<(VertexId, Span)> {
        let part = &self.node.layout.part;
        let mut known: Vec<(VertexId, Span)> = Vec::new();
        for (group, uplink) in part.switches.iter().zip(&self.node.layout.uplinks) {
            // From port to port is a way in and a way out.
            let half = Span::from_ps(group.latency.as_ps() / 2);
            for (name, under) in group.names.iter().zip(&group.under) {
                let name = if part.trays > 1 { format!("tray{tray}-{name}") } else { name.clone() };
                let switch = self.builder.vertex(Vertex::new(VertexKind::PcieSwitch, name));
                if let Some((above, latency)) = self.above(tray, under, &known) {
                    self.slot(above, switch, uplink, latency + half);
                }
                known.push((switch, half));
            }
        }
        known
    }

    pub(crate) fn slot(&mut self, above: VertexId, below: VertexId, slot: &ResolvedSlot, latency: Span) {
        self.slot_of(&self.node.cpu.root_complex, above, below, slot, latency);
    }
    /// The same with packets as large as `root` makes them.
    pub(crate) fn slot_of(&mut self, root: &RootComplex, above: VertexId, below: VertexId, slot: &ResolvedSlot, latency: Span) {
        let (generation, lanes) = (slot.part.generation, slot.lanes);
        let mut link = Link::new(above, below, LinkKind::Pcie { generation, lanes }, slot.part.tlp_rate(lanes), latency);
        link.title = match slot.part.bus {
            Some(_) => slot.part.title.clone(),
            None => format!("PCIe {generation}.0 x{lanes}"),
        };
        let [write, read, request] = [&root.max_payload, &root.completion_payload, &root.max_read_request]
            .map(|payload| slot.part.burst.as_ref().map_or(**payload, |burst| **burst));
        link.framing = Framing {
            write: Tlp { payload: write, overhead: *slot.part.write_overhead },
            read: Tlp { payload: read, overhead: *slot.part.completion_overhead },
            request: Tlp { payload: request, overhead: *slot.part.read_request },
            ..Framing::NONE
        };
        self.builder.link(link);
    }

    fn gpus(&mut self, tray: u32, switches: &[(VertexId, Span)]) {
        let layout = &self.node.layout;
        let (Some(gpus), Some(part)) = (&layout.part.gpus, &self.node.gpu) else { return };
        let meshed = layout.scale_up.as_ref().is_some_and(|link| relays(link.part.kind));
        let carries = layout.part.nics.iter().flat_map(|nics| &nics.under).any(|under| under.starts_with("gpu"));
        let numa = |name: &str| match layout.part.under(name) {
            Some(Under::Numa(domain)) => Some((tray * layout.part.numa_domains() + domain) as usize),
            _ => None,
        };
        for under in &gpus.under {
            let number = self.gpus.len();
            if number >= self.node.gpus as usize {
                return;
            }
            let mut vertex = Vertex::new(VertexKind::Gpu, format!("gpu{number}")).titled(&part.title);
            vertex.relays = meshed || carries;
            let limit = |rate: Option<&Sourced<Rate>>| rate.map(|rate| **rate);
            let (read, write) = part.peer.as_ref().map_or((None, None), |peer| (peer.read_rate.as_ref(), peer.write_rate.as_ref()));
            vertex.peer = PeerLimits { read: limit(read), write: limit(write), ..PeerLimits::default() };
            let gpu = self.builder.vertex(vertex);
            let kind = format!("{:?}", part.memory.kind).to_uppercase();
            let memory = Vertex::new(VertexKind::DeviceMemory, format!("gpu{number}-memory")).titled(kind);
            let memory = self.builder.vertex(memory);
            let rate = part.memory.copy_rate();
            let latency = part.peer.as_ref().map_or(Span::ZERO, |peer| *peer.write_latency);
            self.builder.link(Link::new(gpu, memory, LinkKind::Memory, rate, latency));
            if let (Some(link), Some(numa)) = (&layout.gpu_link, numa(under)) {
                self.builder.link(bundle(gpu, self.numa[numa], host_link(link), link));
            } else if let Some(slot) = &layout.gpu_slot
                && let Some((above, latency)) = self.above(tray, under, switches)
            {
                self.slot(above, gpu, slot, latency);
            } else if let Some(numa) = numa(under) {
                // One chip: processor and GPU reach the same memory.
                self.builder.link(Link::new(gpu, self.numa[numa], LinkKind::Die, rate, DIE));
                self.builder.link(Link::new(self.numa[numa], memory, LinkKind::Memory, rate, Span::ZERO));
            }
            self.gpus.push(gpu);
        }
    }

    fn nics(&mut self, tray: u32, switches: &[(VertexId, Span)]) {
        let layout = &self.node.layout;
        let Some(nics) = &layout.part.nics else { return };
        let first = tray as usize * nics.under.len();
        for (number, under) in nics.under.iter().enumerate() {
            let number = first + number;
            if number >= self.node.nics as usize {
                return;
            }
            // Where the GPU it hangs under is not in use, neither is the adapter's slot.
            let Some((above, latency)) = self.above(tray, under, switches) else { continue };
            let dpu = self.node.dpu.as_ref().filter(|_| layout.nic_link.is_none());
            let (above, latency) = dpu.map_or((above, latency), |dpu| self.dpu(dpu, number, above, latency));
            let slot = dpu.map_or(&self.node.pcie, |dpu| &dpu.port);
            let nic = self.builder.vertex(Vertex::new(VertexKind::Nic, format!("nic{number}")).titled(&self.node.nic.title));
            match &layout.nic_link {
                Some(link) => {
                    // On a wafer the way to the edge is the mesh itself.
                    let wafer = layout.scale_up.as_ref().is_some_and(|ports| ports.part.kind == InterconnectKind::WaferMesh);
                    self.builder.link(bundle(above, nic, if wafer { LinkKind::Mesh } else { LinkKind::Die }, link));
                }
                None => self.slot(above, nic, slot, latency),
            }
        }
    }

    fn expanders(&mut self, tray: u32) {
        let part = &self.node.layout.part;
        let (Some(expanders), Some(link)) = (&part.expanders, &self.node.layout.expander_link) else { return };
        for (number, under) in expanders.under.iter().enumerate() {
            let Some(Under::Numa(domain)) = part.under(under) else { continue };
            let numa = self.numa[(tray * part.numa_domains() + domain) as usize];
            let name = format!("cxl{}", tray as usize * expanders.under.len() + number);
            let memory = self.builder.vertex(Vertex::new(VertexKind::CxlMemory, name).titled(&link.part.title));
            let mut link = bundle(numa, memory, LinkKind::Cxl, link);
            link.rate = link.rate.map(|rate| rate.min(*expanders.peak));
            self.builder.link(link);
        }
    }

    fn scale_up(&mut self) {
        let layout = &self.node.layout;
        let (Some(scale_up), Some(ports)) = (&layout.part.scale_up, &layout.scale_up) else { return };
        if let ScaleUp::Switched(switched) = scale_up {
            let links = switched.links;
            let title = format!("{} switches, {links} links from each GPU", switched.switches);
            let switch = self.builder.vertex(Vertex::new(VertexKind::ScaleUpSwitch, "scale-up").titled(title));
            // Two such links and the switch between them take as long as one link and the switch: both cross one crossbar of a GPU.
            let half = Span::from_ps((ports.part.crossing().as_ps() + switched.latency.as_ps()) / 2);
            for &gpu in &self.gpus {
                let mut link = scale_up_link(gpu, switch, &ports.part, links);
                link.latency = half;
                // A link ends at the switch: there and back is what two ends take.
                link.rate = [ports.part.credited_rate(links, ports.part.crossing()); 2];
                self.builder.link(link);
            }
        }
        for [a, b, links] in scale_up.pairs(layout.part.gpus()) {
            let ends = [a, b].map(|gpu| self.gpus.get(gpu as usize).copied());
            if let [Some(a), Some(b)] = ends {
                self.builder.link(scale_up_link(a, b, &ports.part, links));
            }
        }
    }
}

fn share(rate: Rate, of: u32) -> Rate {
    Rate::from_bps(rate.as_bps() / u64::from(of.max(1)))
}

/// Whether accelerators pass traffic on that is not theirs.
fn relays(kind: InterconnectKind) -> bool {
    matches!(kind, InterconnectKind::Xgmi | InterconnectKind::WaferMesh)
}

fn scale_up_link(a: VertexId, b: VertexId, part: &Interconnect, links: u32) -> Link {
    let generation = part.generation.unwrap_or(1);
    let kind = match part.kind {
        InterconnectKind::NvLink => LinkKind::NvLink { generation, links },
        InterconnectKind::Xgmi | InterconnectKind::XeLink => LinkKind::Xgmi { links },
        InterconnectKind::UaLink => LinkKind::UaLink { links },
        InterconnectKind::Sue | InterconnectKind::Ethernet => LinkKind::Ethernet { links },
        _ => LinkKind::Mesh,
    };
    wire(a, b, kind, part, links)
}

/// What leads from a processor to a GPU beside PCI Express.
fn host_link(link: &ResolvedBundle) -> LinkKind {
    match link.part.kind {
        InterconnectKind::NvLink => LinkKind::HostNvLink { generation: link.part.generation.unwrap_or(1), links: link.links },
        _ => LinkKind::Coherent,
    }
}

fn bundle(a: VertexId, b: VertexId, kind: LinkKind, bundle: &ResolvedBundle) -> Link {
    wire(a, b, kind, &bundle.part, bundle.links)
}

/// Some links as one, with what framing and requests take of it.
fn wire(a: VertexId, b: VertexId, kind: LinkKind, part: &Interconnect, links: u32) -> Link {
    let mut link = Link::new(a, b, kind, part.raw_rate(links), part.crossing());
    link.title = if links == 1 { part.title.clone() } else { format!("{} x{links}", part.title) };
    // Credits come back over the same link.
    link.rate = [part.credited_rate(links, part.crossing() * 2); 2];
    link.framing = part.framing();
    link
}

/// From NUMA domain to NUMA domain of one processor. Basis: assumed; a tenth of what a processor away takes.
const DIE: Span = Span::from_ns(10);
