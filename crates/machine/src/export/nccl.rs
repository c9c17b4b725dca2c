//! A topology file that NCCL's own reader accepts (`NCCL_TOPO_FILE`); for GPUs of AMD, that of RCCL, whose version is 2.
//!
//! Source: NCCL, src/graph/xml.cc (<https://github.com/NVIDIA/nccl>); RCCL, the same (<https://github.com/ROCm/rccl>). Its reader knows no declaration, no tabs and no entities; one
//! space is before each attribute; an element has at most 16 of them, a name or value at most 253 characters, a file at most 255
//! elements.
//! Written: processors, the PCI Express tree down to GPUs and adapters, NVLink, xGMI and C2C. Devices from other files keep what those
//! files said of them; where they said nothing of what NCCL needs, it gets an address of its own or a number in order.
//! Not written: memories, and devices that are neither GPU nor adapter; NCCL asks for neither. All NUMA domains are sockets to NCCL.

use std::collections::BTreeSet;
use std::fmt::Write;

use fabriscope_units::Rate;

use crate::graph::Machine;
use crate::identity::{Bundle, Identity, Port};
use crate::link::LinkKind;
use crate::vertex::{Vertex, VertexId, VertexKind};

/// Why a machine is no topology for NCCL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum NcclError {
    /// A GPU of which NCCL would not know what it can do.
    #[error("what {0} can do (its compute capability) is not known, and NCCL needs it")]
    #[diagnostic(help("say it: --sm 90 for Hopper, 80 for A100, 70 for V100"))]
    Ability(String),
    /// Too much for its reader.
    #[error("the file would have {elements} elements, and NCCL reads {most} at most")]
    #[diagnostic(help("leave out some adapters"))]
    TooLarge {
        /// How many it would have.
        elements: usize,
        /// How many NCCL takes.
        most: usize,
    },
}

/// What is said of devices of which nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// Compute capability of a GPU, 90 for 9.0.
    pub ability: Option<u32>,
    /// Rate of an adapter's port; NCCL takes 10 Gb/s where a file says none.
    pub port: Option<Rate>,
}

/// The text of the file, with `unknown` of devices whose own is not known.
///
/// # Errors
/// A GPU of unknown ability; more elements than NCCL reads.
pub fn nccl(machine: &Machine, unknown: Unknown) -> Result<String, NcclError> {
    let rccl = is_rccl(machine);
    let mut writer = Writer { machine, unknown, rccl, done: BTreeSet::new(), buses: addresses(machine), elements: 1, text: String::new() };
    let numas = machine.numas();
    for (index, (numa, number)) in numas.iter().zip(numbers(machine, &numas)).enumerate() {
        writer.cpu(*numa, number, index + 1 == numas.len())?;
    }
    if writer.elements > MOST_ELEMENTS {
        return Err(NcclError::TooLarge { elements: writer.elements, most: MOST_ELEMENTS });
    }
    let version = if rccl { 2 } else { 1 };
    Ok(format!("<system version=\"{version}\">\n{}</system>\n", writer.text))
}

/// Whether the GPUs are those of RCCL: a file of it said so, or xGMI joins them.
fn is_rccl(machine: &Machine) -> bool {
    let gpus = machine.gpus();
    let is_gpu = |id: VertexId| machine.vertex(id).kind == VertexKind::Gpu;
    let joined = machine.links().iter().any(|link| matches!(link.kind, LinkKind::Xgmi { .. }) && is_gpu(link.a) && is_gpu(link.b));
    joined || gpus.iter().any(|gpu| machine.vertex(*gpu).identity.said("gpu/gcn").is_some())
}

/// The number of each: its own, unless one before has it, or one that none has.
fn numbers(machine: &Machine, ids: &[VertexId]) -> Vec<u32> {
    let own: BTreeSet<u32> = ids.iter().filter_map(|id| machine.vertex(*id).identity.number).collect();
    let mut given = BTreeSet::new();
    let number = |(place, id): (usize, &VertexId)| {
        let own_number = machine.vertex(*id).identity.number.filter(|number| !given.contains(number));
        let free = |number: &u32| !own.contains(number) && !given.contains(number);
        let number = own_number.or_else(|| (place as u32..).find(free)).unwrap_or(0);
        given.insert(number);
        number
    };
    ids.iter().enumerate().map(number).collect()
}

/// The address of each vertex: its own, or one that nothing else has; with another such one.
fn addresses(machine: &Machine) -> Vec<[String; 2]> {
    let own: BTreeSet<&str> = machine.vertices().iter().map(|vertex| vertex.bus.as_str()).collect();
    let free = (1u32..).map(|number| format!("{:04x}:{:02x}:00.0", number >> 8, number & 0xff));
    let mut free = free.filter(|bus| !own.contains(bus.as_str()));
    let mut next = || free.next().unwrap_or_default();
    let address = |vertex: &Vertex| if vertex.bus.is_empty() { [next(), next()] } else { [vertex.bus.clone(), next()] };
    machine.vertices().iter().map(address).collect()
}

struct Writer<'m> {
    machine: &'m Machine,
    unknown: Unknown,
    /// What is written is a file of RCCL.
    rccl: bool,
    done: BTreeSet<VertexId>,
    /// The address of each vertex, and of the switches put above GPUs with adapters of their own.
    buses: Vec<[String; 2]>,
    elements: usize,
    text: String,
}

type Attributes = Vec<(String, String)>;

impl Writer<'_> {
    fn cpu(&mut self, numa: VertexId, number: u32, last: bool) -> Result<(), NcclError> {
        let identity = &self.machine.vertex(numa).identity;
        let number = identity.said("numaid").map_or_else(|| number.to_string(), str::to_owned);
        let mut attributes = vec![("numaid".to_owned(), number)];
        if !identity.cpus.is_empty() {
            attributes.push(("affinity".to_owned(), identity.cpus.mask()));
        }
        let processor = &identity.processor;
        let known = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
        attributes.push(("arch".to_owned(), known(&processor.architecture)));
        if !processor.vendor.is_empty() || processor.architecture == "x86_64" {
            attributes.push(("vendor".to_owned(), known(&processor.vendor)));
        }
        for (name, value) in [("familyid", processor.family), ("modelid", processor.model)] {
            // Without both NCCL refuses an Intel processor.
            let value = value.or((processor.architecture == "x86_64").then_some(0));
            attributes.extend(value.map(|value| (name.to_owned(), value.to_string())));
        }
        attributes.extend(identity.said.iter().filter(|(name, _)| name != "numaid").cloned());
        self.open(1, "cpu", &attributes);
        for bridge in self.beside(numa, |link, kind| link == LinkKind::Die && kind == VertexKind::HostBridge) {
            self.tree(bridge, 2)?;
        }
        // Accelerators that hang at the processor by another link than PCI Express.
        for device in self.beside(numa, |link, kind| link != LinkKind::Smp && is_device(kind)) {
            self.device(device, 2, (0, 0))?;
        }
        if last {
            // Those that only other accelerators lead to, as on a wafer.
            for device in self.machine.of(is_device) {
                if !self.done.contains(&device) {
                    self.device(device, 2, (0, 0))?;
                }
            }
        }
        self.close(1, "cpu");
        Ok(())
    }

    /// What is around `id` and not written yet.
    fn beside(&self, id: VertexId, wanted: impl Fn(LinkKind, VertexKind) -> bool) -> Vec<VertexId> {
        let links = self.machine.around(id).iter().map(|link| self.machine.link(*link));
        let ends = links.map(|link| (link.kind, link.other(id)));
        ends.filter(|(kind, end)| !self.done.contains(end) && wanted(*kind, self.machine.vertex(*end).kind)).map(|(_, end)| end).collect()
    }

    /// All that hangs below a host bridge or switch by PCI Express.
    fn tree(&mut self, above: VertexId, depth: usize) -> Result<(), NcclError> {
        self.done.insert(above);
        let machine = self.machine;
        for link in machine.around(above).iter().map(|link| machine.link(*link)) {
            let below = link.other(above);
            let LinkKind::Pcie { generation, lanes } = link.kind else { continue };
            let vertex = machine.vertex(below);
            // What several processors reach off the bus stands under each.
            let several = off_the_bus(vertex) && (generation, lanes) == (0, 0);
            if self.done.contains(&below) && !several {
                continue;
            }
            match vertex.kind {
                VertexKind::PcieSwitch => {
                    let attributes = self.pci(below, (generation, lanes), SWITCH);
                    self.open(depth, "pci", &attributes);
                    for (_, target) in vertex.identity.said.iter().filter(|(name, _)| name == "pcilink/target") {
                        self.single(depth + 1, "pcilink", &[("target".to_owned(), target.clone())]);
                    }
                    self.tree(below, depth + 1)?;
                    self.close(depth, "pci");
                }
                kind if is_device(kind) => self.device(below, depth, (generation, lanes))?,
                _ => {}
            }
        }
        Ok(())
    }

    fn device(&mut self, id: VertexId, depth: usize, slot: (u32, u32)) -> Result<(), NcclError> {
        self.done.insert(id);
        let vertex = self.machine.vertex(id);
        if vertex.kind == VertexKind::Nic {
            self.nic(id, depth, slot);
            return Ok(());
        }
        // Adapters right at a GPU: NCCL's trees need a switch between.
        let below = self.beside(id, |link, kind| matches!(link, LinkKind::Pcie { .. } | LinkKind::Die) && kind == VertexKind::Nic);
        let inner = depth + usize::from(!below.is_empty());
        if !below.is_empty() {
            let mut attributes = self.pci(id, slot, SWITCH);
            attributes.retain(|(name, _)| name.starts_with("link"));
            let class = ("class".to_owned(), format!("{SWITCH:#08x}"));
            attributes.extend([("busid".to_owned(), self.buses[id.index()][1].clone()), class]);
            self.open(depth, "pci", &attributes);
        }
        self.gpu(id, vertex, inner, slot)?;
        if !below.is_empty() {
            for nic in below {
                self.device(nic, inner, slot)?;
            }
            self.close(depth, "pci");
        }
        Ok(())
    }

    fn gpu(&mut self, id: VertexId, vertex: &Vertex, depth: usize, slot: (u32, u32)) -> Result<(), NcclError> {
        let identity = &vertex.identity;
        let ability = identity.compute_capability.or(self.unknown.ability).filter(|_| !self.rccl);
        if ability.is_none() && !self.rccl {
            return Err(NcclError::Ability(vertex.name.clone()));
        }
        let attributes = self.pci(id, slot, GPU);
        self.open(depth, "pci", &attributes);
        let own = of_part(identity, "gpu/");
        let gpus = self.machine.gpus();
        let place = gpus.iter().position(|gpu| *gpu == id).unwrap_or(0);
        let number = numbers(self.machine, &gpus)[place].to_string();
        let mut attributes = vec![("dev".to_owned(), number)];
        // RCCL finds out on the machine what its GPUs are, where their own file did not say it.
        attributes.extend(ability.map(|ability| ("sm".to_owned(), ability.to_string())));
        // NCCL passes over a GPU without a rank: where its own file left that out, so be it.
        if own.is_empty() {
            attributes.push(("rank".to_owned(), place.to_string()));
            attributes.push(("gdr".to_owned(), "1".to_owned()));
        }
        attributes.extend(own);
        self.open(depth + 1, "gpu", &attributes);
        for link in self.machine.around(id).iter().map(|link| self.machine.link(*link)) {
            let other = link.other(id);
            if let (LinkKind::NvLink { links, .. } | LinkKind::Xgmi { links }, VertexKind::Gpu) =
                (link.kind, self.machine.vertex(other).kind)
            {
                let target = self.buses[other.index()][0].clone();
                let class = self.machine.vertex(other).identity.class.unwrap_or(GPU);
                self.bundle(depth + 2, &Bundle { target, class: Some(class), links, each: None });
            }
        }
        for bundle in self.bundles(id, identity) {
            self.bundle(depth + 2, &bundle);
        }
        self.close(depth + 1, "gpu");
        self.close(depth, "pci");
        Ok(())
    }

    /// Links to switches and processors: as a file told them, or one bundle for each link of the graph.
    fn bundles(&self, id: VertexId, identity: &Identity) -> Vec<Bundle> {
        if !identity.bundles.is_empty() {
            return identity.bundles.clone();
        }
        let links = self.machine.around(id).iter().map(|link| self.machine.link(*link));
        let bundle = |link: &crate::link::Link| match (link.kind, self.machine.vertex(link.other(id)).kind) {
            (LinkKind::NvLink { links, .. }, VertexKind::ScaleUpSwitch) => {
                Some(Bundle { class: Some(NVSWITCH), links, ..Bundle::default() })
            }
            (LinkKind::HostNvLink { links, .. }, VertexKind::Numa { .. }) => {
                Some(Bundle { class: Some(Bundle::POWER_CPU), links, ..Bundle::default() })
            }
            (LinkKind::Coherent, VertexKind::Numa { .. }) => Some(Bundle { links: 1, each: Some(link.rate[0]), ..Bundle::default() }),
            _ => None,
        };
        links.filter_map(bundle).collect()
    }

    fn bundle(&mut self, depth: usize, bundle: &Bundle) {
        let count = ("count".to_owned(), bundle.links.to_string());
        if let Some(each) = bundle.each {
            let rate = (each.as_bps() / 8_000_000).max(1).to_string();
            return self.single(depth, "c2c", &[("bw".to_owned(), rate), count]);
        }
        // What NCCL itself writes for an NVSwitch whose address it does not see; of a processor it never reads the address.
        let target = if bundle.target.is_empty() { "fffffff:ffff:ff" } else { &bundle.target };
        let class = format!("{:#08x}", bundle.class.unwrap_or(NVSWITCH));
        let name = if self.rccl { "xgmi" } else { "nvlink" };
        self.single(depth, name, &[("target".to_owned(), target.to_owned()), count, ("tclass".to_owned(), class)]);
    }

    fn nic(&mut self, id: VertexId, depth: usize, slot: (u32, u32)) {
        let vertex = self.machine.vertex(id);
        let identity = &vertex.identity;
        let at_processor = off_the_bus(vertex) && slot == (0, 0);
        let inner = depth + usize::from(!at_processor);
        if !at_processor {
            let attributes = self.pci(id, slot, NIC);
            self.open(depth, "pci", &attributes);
        }
        self.open(inner, "nic", &of_part(identity, "nic/"));
        let unnamed = [Port { name: vertex.name.clone(), ..Port::default() }];
        let ports = if identity.ports.is_empty() { &unnamed[..] } else { &identity.ports };
        // Ports are counted over all adapters.
        let before = self.machine.nics().into_iter().take_while(|nic| *nic != id);
        let before: usize = before.map(|nic| self.machine.vertex(nic).identity.ports.len().max(1)).sum();
        for (place, port) in ports.iter().enumerate() {
            let attributes = net(port, before + place, self.unknown.port);
            self.single(inner + 1, "net", &attributes);
        }
        self.close(inner, "nic");
        if !at_processor {
            self.close(depth, "pci");
        }
    }

    /// What stands in a `pci`.
    fn pci(&self, id: VertexId, (generation, lanes): (u32, u32), class: u32) -> Attributes {
        let identity = &self.machine.vertex(id).identity;
        let bus = self.buses[id.index()][0].clone();
        let mut attributes = vec![("busid".to_owned(), bus), ("class".to_owned(), format!("{:#08x}", identity.class.unwrap_or(class)))];
        for (names, numbers) in [(["vendor", "device"], identity.part), (["subsystem_vendor", "subsystem_device"], identity.board)] {
            let numbers = numbers.into_iter().flat_map(|numbers| names.into_iter().zip(numbers));
            attributes.extend(numbers.map(|(name, number)| (name.to_owned(), format!("{number:#06x}"))));
        }
        let speed = SPEEDS.get(generation as usize).copied().unwrap_or_default();
        for (name, value) in [("link_speed", speed.to_owned()), ("link_width", lanes.to_string())] {
            if identity.said(name).is_none() {
                attributes.push((name.to_owned(), value));
            }
        }
        attributes.extend(identity.said.iter().filter(|(name, _)| !name.contains('/')).cloned());
        attributes
    }

    fn start(&mut self, depth: usize, name: &str, attributes: &[(String, String)]) {
        self.elements += 1;
        let _ = write!(self.text, "{:1$}<{name}", "", 2 * depth);
        // NCCL passes over more of them as well.
        for (name, value) in attributes.iter().take(MOST_ATTRIBUTES) {
            let plain = |text: &str| -> String {
                text.chars().filter(|c| !c.is_control() && !"\"'<>&".contains(*c)).take(MOST_CHARACTERS).collect()
            };
            let _ = write!(self.text, " {name}=\"{}\"", plain(value));
        }
    }
    fn open(&mut self, depth: usize, name: &str, attributes: &[(String, String)]) {
        self.start(depth, name, attributes);
        self.text.push_str(">\n");
    }
    fn single(&mut self, depth: usize, name: &str, attributes: &[(String, String)]) {
        self.start(depth, name, attributes);
        self.text.push_str("/>\n");
    }
    fn close(&mut self, depth: usize, name: &str) {
        let _ = writeln!(self.text, "{:1$}</{name}>", "", 2 * depth);
    }
}

/// Whether an adapter has no place on the bus.
fn off_the_bus(vertex: &Vertex) -> bool {
    vertex.kind == VertexKind::Nic && vertex.bus.is_empty() && vertex.identity.class.is_none()
}

const fn is_device(kind: VertexKind) -> bool {
    matches!(kind, VertexKind::Gpu | VertexKind::Nic)
}

/// What stands in a `net`.
fn net(port: &Port, number: usize, usual: Option<Rate>) -> Attributes {
    let mut attributes = vec![("name".to_owned(), port.name.clone())];
    // The same of a port without `dev`.
    if port.said.is_empty() {
        attributes.push(("dev".to_owned(), number.to_string()));
        attributes.push(("port".to_owned(), "1".to_owned()));
        attributes.push(("gdr".to_owned(), "1".to_owned()));
    }
    let rate = port.rate.or(usual.filter(|_| port.said.is_empty()));
    attributes.extend(rate.map(|rate| ("speed".to_owned(), (rate.as_bps() / 1_000_000).to_string())));
    attributes.extend(port.guid.map(|guid| ("guid".to_owned(), format!("{guid:#x}"))));
    attributes.extend(port.said.iter().cloned());
    attributes
}

/// What was said of a part of a device, without the part's name.
fn of_part(identity: &Identity, part: &str) -> Attributes {
    let said = identity.said.iter().filter_map(|(name, value)| Some((name.strip_prefix(part)?.to_owned(), value.clone())));
    said.collect()
}

/// Classes of what has none (PCI Code and ID Assignment Specification).
const SWITCH: u32 = 0x06_0400;
const GPU: u32 = 0x03_0200;
const NIC: u32 = 0x02_0000;
const NVSWITCH: u32 = 0x06_8000;
/// How Linux writes the speed of each generation; NCCL compares these texts.
const SPEEDS: [&str; 8] =
    ["", "2.5 GT/s PCIe", "5.0 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe", "64.0 GT/s PCIe", "128.0 GT/s PCIe"];
/// What NCCL's reader takes.
const MOST_ELEMENTS: usize = 255;
const MOST_ATTRIBUTES: usize = 16;
const MOST_CHARACTERS: usize = 253;
