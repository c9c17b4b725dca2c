//! What all readers build on: vertices by role, links with the rates that the file or the catalogue gives.

use std::collections::BTreeMap;

use fabriscope_units::{Rate, Span};

use super::error::{ImportError, Mistake};
use super::rates::{NvLinkRate, Rates};
use super::{Format, NodeFile};
use crate::builder::Builder;
use crate::graph::Machine;
use crate::identity::Processor;
use crate::link::{Framing, Link, LinkKind};
use crate::vertex::{Vertex, VertexId, VertexKind};

/// A machine under construction.
pub(super) struct Draft<'r> {
    builder: Builder,
    pub(super) rates: &'r Rates,
    /// Where each name stands.
    names: BTreeMap<String, u32>,
    /// Where each address stands, and what is there.
    addresses: BTreeMap<String, (u32, VertexKind)>,
    domains: Vec<(VertexId, u32, Processor)>,
    bridges: u32,
    switches: u32,
    vertices: usize,
    pub(super) notes: Vec<String>,
}

impl<'r> Draft<'r> {
    pub(super) fn new(rates: &'r Rates) -> Draft<'r> {
        let builder = Machine::builder();
        let (names, addresses) = (BTreeMap::new(), BTreeMap::new());
        Draft { builder, rates, names, addresses, domains: Vec::new(), bridges: 0, switches: 0, vertices: 0, notes: Vec::new() }
    }

    /// Whether something has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }
    /// Adds a vertex that `line` describes; its name is its own. So is its address, of GPUs and adapters; switches that a hypervisor
    /// hides are given any.
    pub(super) fn add(&mut self, vertex: Vertex, line: u32) -> Result<VertexId, ImportError> {
        if let Some(before) = self.names.insert(vertex.name.clone(), line) {
            return Err(Mistake::Twice { id: vertex.name, before }.at(line));
        }
        if !vertex.bus.is_empty() {
            match self.addresses.get(&vertex.bus) {
                Some((before, kind)) if *kind == vertex.kind && matches!(kind, VertexKind::Gpu | VertexKind::Nic) => {
                    return Err(Mistake::Twice { id: vertex.bus, before: *before }.at(line));
                }
                Some((before, _)) => {
                    let what = format!("line {line}: {} stands in line {before} as well", vertex.bus);
                    self.notes.push(format!("{what}: taken as two devices"));
                }
                None => {
                    self.addresses.insert(vertex.bus.clone(), (line, vertex.kind));
                }
            }
        }
        self.vertices += 1;
        if self.vertices > MOST_VERTICES {
            return Err(Mistake::TooMany { what: "devices", most: MOST_VERTICES }.at(line));
        }
        Ok(self.builder.vertex(vertex))
    }
    pub(super) fn vertex_mut(&mut self, id: VertexId) -> &mut Vertex {
        self.builder.vertex_mut(id)
    }

    /// Adds a NUMA domain with its memory.
    pub(super) fn domain(&mut self, domain: Vertex, line: u32) -> Result<VertexId, ImportError> {
        let memory = Vertex::new(VertexKind::HostMemory, format!("{}-memory", domain.name));
        let id = self.cores(domain, line)?;
        let memory = self.add(memory, line)?;
        self.memory_at(id, memory);
        Ok(id)
    }
    /// Adds the cores of a domain; its memories are others'.
    pub(super) fn cores(&mut self, domain: Vertex, line: u32) -> Result<VertexId, ImportError> {
        let processor = domain.identity.processor.clone();
        let package = if let VertexKind::Numa { package } = domain.kind { package } else { 0 };
        let id = self.add(domain, line)?;
        self.domains.push((id, package, processor));
        Ok(id)
    }
    /// Joins a memory to a domain: the first one is its own.
    pub(super) fn memory_at(&mut self, domain: VertexId, memory: VertexId) {
        self.join(domain, memory, LinkKind::Memory, String::new(), self.rates.local, self.rates.memory_latency);
    }
    /// Adds a host bridge at some domains of a package.
    pub(super) fn bridge(&mut self, domains: &[VertexId], line: u32) -> Result<VertexId, ImportError> {
        let id = self.add(Vertex::new(VertexKind::HostBridge, format!("bridge{}", self.bridges)), line)?;
        self.bridges += 1;
        for domain in domains {
            self.join(*domain, id, LinkKind::Die, String::new(), self.rates.local, self.rates.local_latency);
        }
        Ok(id)
    }
    /// The name of the next PCI Express switch.
    pub(super) fn next_switch(&mut self) -> String {
        self.switches += 1;
        format!("switch{}", self.switches - 1)
    }
    /// Adds a GPU with its memory.
    pub(super) fn gpu(&mut self, gpu: Vertex, line: u32) -> Result<VertexId, ImportError> {
        let memory = format!("{}-memory", gpu.name);
        let id = self.add(gpu, line)?;
        let memory = self.add(Vertex::new(VertexKind::DeviceMemory, memory), line)?;
        self.join(id, memory, LinkKind::Memory, String::new(), self.rates.local, self.rates.memory_latency);
        Ok(id)
    }

    /// A PCI Express link; generation and lanes are 0 where they are not known.
    pub(super) fn slot(&mut self, above: VertexId, below: VertexId, generation: u32, lanes: u32) {
        let (_, usual) = self.rates.pcie_unknown;
        let width = if lanes == 0 { usual.max(1) } else { lanes };
        let known = self.rates.pcie(generation);
        let rate = known.map_or(self.rates.local, |pcie| Rate::from_bps(pcie.packets.as_bps().saturating_mul(u64::from(width))));
        let framing = known.map_or(Framing::NONE, |pcie| pcie.framing);
        let title = match (generation, lanes) {
            (0, _) | (_, 0) => "PCIe".to_owned(),
            _ => format!("PCIe {generation}.0 x{lanes}"),
        };
        let link = Link::new(above, below, LinkKind::Pcie { generation, lanes }, rate, self.rates.pcie_latency);
        self.builder.link(Link { title, framing, ..link });
    }
    /// All NVLinks between two vertices.
    pub(super) fn nvlink(&mut self, a: VertexId, b: VertexId, of: Option<&NvLinkRate>, links: u32) {
        self.wired(a, b, of, links, |generation| LinkKind::NvLink { generation, links });
    }
    /// All NVLinks between a POWER processor and a GPU.
    pub(super) fn host_nvlink(&mut self, processor: VertexId, gpu: VertexId, of: Option<&NvLinkRate>, links: u32) {
        self.wired(processor, gpu, of, links, |generation| LinkKind::HostNvLink { generation, links });
    }
    fn wired(&mut self, a: VertexId, b: VertexId, of: Option<&NvLinkRate>, links: u32, kind: impl Fn(u32) -> LinkKind) {
        let unknown = (0, self.rates.local, self.rates.coherent_latency);
        let (generation, each, latency) = of.map_or(unknown, |nvlink| (nvlink.generation, nvlink.data, nvlink.latency));
        let rate = Rate::from_bps(each.as_bps().saturating_mul(u64::from(links)));
        let title = if generation == 0 { format!("NVLink x{links}") } else { format!("NVLink {generation} x{links}") };
        self.join(a, b, kind(generation), title, rate, latency);
    }
    /// All links of xGMI between two GPUs, through which others may pass as well.
    pub(super) fn xgmi(&mut self, a: VertexId, b: VertexId, architecture: Option<&str>, links: u32) {
        let unknown = (self.rates.local, self.rates.coherent_latency);
        let (each, latency) = self.rates.xgmi_of(architecture).map_or(unknown, |xgmi| (xgmi.data, xgmi.latency));
        let rate = Rate::from_bps(each.as_bps().saturating_mul(u64::from(links)));
        for gpu in [a, b] {
            self.builder.vertex_mut(gpu).relays = true;
        }
        self.join(a, b, LinkKind::Xgmi { links }, format!("xGMI x{links}"), rate, latency);
    }
    /// A link between processor and GPU through which each sees the other's memory.
    pub(super) fn coherent(&mut self, processor: VertexId, gpu: VertexId, title: String, rate: Rate) {
        self.join(processor, gpu, LinkKind::Coherent, title, rate, self.rates.coherent_latency);
    }
    /// Any other link.
    pub(super) fn join(&mut self, a: VertexId, b: VertexId, kind: LinkKind, title: String, rate: Rate, latency: Span) {
        self.builder.link(Link { title, ..Link::new(a, b, kind, rate, latency) });
    }

    /// Joins the domains of each package with each other, and the packages through their first domains.
    pub(super) fn sockets(&mut self) {
        let domains = std::mem::take(&mut self.domains);
        let first = |package: u32| domains.iter().find(|(_, of, _)| *of == package);
        for (index, (a, package, processor)) in domains.iter().enumerate() {
            for (b, other, _) in &domains[index + 1..] {
                if package == other {
                    self.join(*a, *b, LinkKind::Die, String::new(), self.rates.local, self.rates.local_latency);
                } else if first(*package).is_some_and(|(id, ..)| id == a) && first(*other).is_some_and(|(id, ..)| id == b) {
                    let rate = self.rates.between_sockets(processor);
                    self.join(*a, *b, LinkKind::Smp, String::new(), rate, self.rates.socket_latency);
                }
            }
        }
    }

    /// The machine, when all is there.
    pub(super) fn finish(mut self, format: Format, host: String) -> Result<NodeFile, ImportError> {
        if self.domains.is_empty() {
            return Err(ImportError::Empty);
        }
        self.sockets();
        Ok(NodeFile { format, host, machine: self.builder.build()?, notes: self.notes })
    }
}

/// More than any node has.
const MOST_VERTICES: usize = 4096;
