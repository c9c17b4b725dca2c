//! Topology files of NCCL, and of RCCL.
//!
//! ```text
//! <system version="1">
//!   <cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
//!     <pci busid="0000:17:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
//!       <pci …><gpu dev="0" sm="90" rank="0" gdr="1"><nvlink target="0000:07:00.0" count="18" tclass="0x068000"/></gpu></pci>
//!       <pci …><nic><net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x…"/></nic></pci>
//! <system version="2">
//!   … <pci …><gpu dev="0" sm="90" gcn="910" arch="38911" rank="0" gdr="1"><xgmi target="0000:c5:00.0" count="1" tclass="0x038000"/>
//! ```
//!
//! Source: NCCL, src/graph/topo.cc and xml.cc (<https://github.com/NVIDIA/nccl>); RCCL, the same files
//! (<https://github.com/ROCm/rccl>), whose version is 2.
//! Read: all of these elements, `c2c` and `pcilink`, with all attributes; those that nothing here needs are kept as they stand.
//! As in NCCL each `cpu` is a socket of its own, all NVSwitches are one, links to a GPU that the file does not describe
//! (hidden from a container) are passed over, a `pci` of a template without `gpu` or `nic` is what its class says, and adapters
//! off the bus that stand under several processors are one, which all of these reach.
//! Not read: further `gpu` elements of one device (several ranks, partitions); they are noted.

use std::collections::{BTreeMap, BTreeSet};

use fabriscope_units::Rate;

use super::assembly::Draft;
use super::element::{Element, hex};
use super::error::{ImportError, Mistake};
use super::rates::Rates;
use super::{Format, NodeFile, nccl_links};
use crate::bus::Address;
use crate::cpu_set::CpuSet;
use crate::identity::{Identity, Port, Processor};
use crate::vertex::{Vertex, VertexId, VertexKind};

/// Reads the file whose first element is `system`.
pub(super) fn read(system: Element<'_>, rates: &Rates) -> Result<NodeFile, ImportError> {
    let version = system.needed("version", "it is 1 in files of NCCL, 2 in those of RCCL")?;
    let format = match version.trim() {
        "1" => Format::Nccl,
        "2" => Format::Rccl,
        _ => {
            let known = "1 (NCCL) and 2 (RCCL)";
            return Err(ImportError::Version { line: system.line(), format: "NCCL's topology", found: version.to_owned(), known });
        }
    };
    let mut numbers = BTreeSet::new();
    for gpu in system.below().filter(|element| element.name() == "gpu") {
        numbers.extend(gpu.number("dev")?);
    }
    let mut reader = Reader {
        draft: Draft::new(rates),
        rccl: format == Format::Rccl,
        numbers,
        gpus: Vec::new(),
        switches: BTreeMap::new(),
        virtual_nics: Vec::new(),
        nics: 0,
        by_class: [0, 0],
        unknown: 0,
        host: None,
    };
    for (index, cpu) in system.children().filter(|child| child.name() == "cpu").enumerate() {
        reader.cpu(cpu, index as u32)?;
    }
    reader.template();
    nccl_links::between_gpus(&mut reader.draft, &reader.gpus)?;
    nccl_links::between_switches(&mut reader.draft, &reader.switches)?;
    reader.draft.finish(format, String::new())
}

struct Reader<'r, 'd> {
    draft: Draft<'r>,
    rccl: bool,
    /// Numbers that some GPU of the file says it has.
    numbers: BTreeSet<u32>,
    gpus: Vec<Gpu<'d>>,
    switches: Switches<'d>,
    /// Adapters off the bus.
    virtual_nics: Vec<VertexId>,
    nics: u32,
    /// GPUs and adapters that only their class tells.
    by_class: [u32; 2],
    /// Devices of which the file says nothing but the address.
    unknown: u32,
    host: Option<&'d str>,
}

/// A GPU of the file.
pub(super) struct Gpu<'d> {
    pub(super) id: VertexId,
    /// The domain it is at.
    pub(super) domain: VertexId,
    pub(super) element: Element<'d>,
    /// The architecture of an AMD GPU, such as `gfx90a`.
    pub(super) amd: Option<String>,
}

/// Switches by address, with their elements.
pub(super) type Switches<'d> = BTreeMap<Address, (VertexId, Element<'d>)>;

impl<'d> Reader<'_, 'd> {
    fn cpu(&mut self, cpu: Element<'d>, index: u32) -> Result<(), ImportError> {
        let numa = cpu.needed("numaid", "give the number of the NUMA domain")?;
        let whole = |text: &str| text.parse::<i32>().ok();
        let number = cpu.parsed("numaid", "whole number", "use digits, or -1 where it is not known", whole)?;
        let number = number.and_then(|number| u32::try_from(number).ok());
        let host = cpu.says("host_hash").unwrap_or_default();
        if self.host.replace(host).is_some_and(|before| before != host) {
            return Err(cpu.wrong(Mistake::SeveralHosts));
        }
        let cpus = cpu.parsed("affinity", "set of processors", "use hexadecimal words, such as 00000000,0000ffff", CpuSet::of_mask)?;
        let mut said = cpu.rest(&["numaid", "affinity", "arch", "vendor", "familyid", "modelid"]);
        if number.is_none() {
            said.push(("numaid".to_owned(), numa.to_owned()));
        }
        let text = |name: &str| cpu.says(name).unwrap_or_default().to_owned();
        let processor = Processor {
            architecture: text("arch"),
            vendor: text("vendor"),
            family: cpu.number("familyid")?,
            model: cpu.number("modelid")?,
        };
        let name = number.unwrap_or(index);
        let mut domain = Vertex::new(VertexKind::Numa { package: index }, format!("numa{name}"));
        domain.identity = Identity { number, cpus: cpus.unwrap_or_default(), processor, said, ..Identity::default() };
        let line = cpu.line();
        let domain = self.draft.domain(domain, line)?;
        let inside: Vec<Element<'d>> = cpu.children().filter(|child| matches!(child.name(), "pci" | "nic")).collect();
        if !inside.is_empty() {
            let bridge = self.draft.bridge(&[domain], line)?;
            for child in inside {
                match child.name() {
                    "pci" => self.pci(child, bridge, domain, 0)?,
                    // Adapters without a place on the bus: each rank puts them under the processor that it sees first.
                    _ => {
                        let nic = self.virtual_nic(child)?;
                        self.draft.slot(bridge, nic, 0, 0);
                    }
                }
            }
        }
        Ok(())
    }

    fn pci(&mut self, pci: Element<'d>, above: VertexId, domain: VertexId, depth: usize) -> Result<(), ImportError> {
        if depth > MOST_LEVELS {
            return Err(pci.wrong(Mistake::TooMany { what: "PCI bridges above each other", most: MOST_LEVELS }));
        }
        let expected = "an address such as 0000:17:00.0";
        pci.needed("busid", "give its address, such as 0000:17:00.0")?;
        let address = pci.parsed("busid", "address on the bus", expected, Address::parse)?;
        let class = pci.hex("class")?.map(|class| (class & 0xff_ffff) as u32);
        let pair = |vendor: &str, device: &str| -> Result<Option<[u16; 2]>, ImportError> {
            let word = |name: &str| pci.parsed(name, "number of 16 bits", "use four hexadecimal digits, such as 0x15b3", word);
            Ok(word(vendor)?.zip(word(device)?).map(|(vendor, device)| [vendor, device]))
        };
        let (part, board) = (pair("vendor", "device")?, pair("subsystem_vendor", "subsystem_device")?);
        let mut known = vec!["busid", "class"];
        known.extend(part.iter().flat_map(|_| ["vendor", "device"]));
        known.extend(board.iter().flat_map(|_| ["subsystem_vendor", "subsystem_device"]));
        let said = pci.rest(&known);
        let identity = Identity { class, part, board, said, ..Identity::default() };
        let bus = address.map(|address| address.to_string()).unwrap_or_default();

        let below = |name: &'static str| pci.children().filter(move |child| child.name() == name);
        let line = pci.line();
        let is = |classes: &[u32]| class.is_some_and(|class| classes.contains(&(class >> 16)));
        let vertex = if let Some(gpu) = below("gpu").next() {
            let more = below("gpu").count() - 1;
            if more > 0 {
                self.draft.notes.push(format!("line {line}: {more} more `gpu` at {bus} left out: one device is one GPU here"));
            }
            self.gpu(gpu, identity, (bus, line), domain)?
        } else if let Some(nic) = below("nic").next() {
            self.nic(nic, identity, bus, line)?
        } else if below("pci").next().is_some() || class.is_some_and(|class| class >> 8 == PCI_BRIDGE) {
            let name = self.draft.next_switch();
            let switch = self.draft.add(Vertex { bus, identity, ..Vertex::new(VertexKind::PcieSwitch, name) }, line)?;
            self.switches.extend(address.map(|address| (address, (switch, pci))));
            switch
        } else if is(&GPU_CLASSES) {
            self.by_class[0] += 1;
            let name = format!("gpu{}", self.free_number());
            self.draft.gpu(Vertex { bus, identity, ..Vertex::new(VertexKind::Gpu, name) }, line)?
        } else if is(&[NETWORK]) {
            self.by_class[1] += 1;
            let name = self.free_nic();
            self.draft.add(Vertex { bus, identity, ..Vertex::new(VertexKind::Nic, name) }, line)?
        } else {
            self.unknown += u32::from(class.is_none());
            let title = class.map_or_else(String::new, |class| format!("class {class:#08x}"));
            let device = Vertex { bus: bus.clone(), identity, title, ..Vertex::new(VertexKind::Device, format!("pci {bus}")) };
            self.draft.add(device, line)?
        };
        let generation = pci.says("link_speed").and_then(|text| self.draft.rates.generation_of_speed(text)).unwrap_or(0);
        if let (0, Some(text)) = (generation, pci.says("link_speed").map(str::trim).filter(|text| !text.is_empty())) {
            self.draft.notes.push(format!("line {line}: a link of `{text}` is not known; taken as NCCL does"));
        }
        let lanes = pci.number("link_width")?.unwrap_or(0);
        if lanes > MOST_LANES {
            let expected = "a link has 1 to 32 lanes";
            return Err(pci.wrong(Mistake::Value { text: lanes.to_string(), what: "number of lanes", expected }));
        }
        // A GPU right at its processor whose width nobody knows is there for its address: the way to it are the NVLinks.
        let by_nvlink = below("gpu").flat_map(Element::children).any(nccl_links::is_host_nvlink);
        if !(by_nvlink && depth == 0 && lanes == 0) {
            self.draft.slot(above, vertex, generation, lanes);
        }
        for child in below("pci") {
            self.pci(child, vertex, domain, depth + 1)?;
        }
        Ok(())
    }

    fn gpu(
        &mut self,
        gpu: Element<'d>,
        mut identity: Identity,
        (bus, line): (String, u32),
        domain: VertexId,
    ) -> Result<VertexId, ImportError> {
        let number = gpu.number("dev")?;
        identity.number = number;
        let amd = gpu.says("gcn").filter(|_| self.rccl).map(|gcn| architecture(gcn.trim()));
        // What RCCL calls `sm` is another number: of versions of HIP, or of compute units.
        let known: &[&str] = if self.rccl { &["dev"] } else { &["dev", "sm"] };
        if !self.rccl {
            identity.compute_capability = gpu.number("sm")?;
        }
        identity.said.extend(gpu.rest(known).into_iter().map(|(name, value)| (format!("gpu/{name}"), value)));
        if gpu.says("rank").is_none() {
            self.draft.notes.push(format!("line {}: NCCL passes over a GPU without `rank`", gpu.line()));
        }
        let title = identity.compute_capability.map(|sm| format!("sm_{sm}")).or_else(|| amd.clone()).unwrap_or_default();
        let name = format!("gpu{}", number.unwrap_or_else(|| self.free_number()));
        let id = self.draft.gpu(Vertex { bus, identity, title, ..Vertex::new(VertexKind::Gpu, name) }, line)?;
        self.gpus.push(Gpu { id, domain, element: gpu, amd });
        Ok(id)
    }

    /// The next number that no GPU of the file has.
    fn free_number(&mut self) -> u32 {
        let free = (0..).find(|number| !self.numbers.contains(number)).unwrap_or(u32::MAX);
        self.numbers.insert(free);
        free
    }
    /// The name of the next adapter that the file does not name, which none before it has.
    fn free_nic(&mut self) -> String {
        loop {
            self.nics += 1;
            let name = format!("nic{}", self.nics - 1);
            if !self.draft.has(&name) {
                return name;
            }
        }
    }

    /// An adapter without a place on the bus; that of another processor if it has a port of that name.
    fn virtual_nic(&mut self, nic: Element<'d>) -> Result<VertexId, ImportError> {
        let ports = self.ports(nic)?;
        for &known in &self.virtual_nics {
            let seen = &mut self.draft.vertex_mut(known).identity.ports;
            if ports.iter().any(|port| !port.name.is_empty() && seen.iter().any(|other| other.name == port.name)) {
                let more = ports.into_iter().filter(|port| seen.iter().all(|other| other.name != port.name)).collect::<Vec<_>>();
                seen.extend(more);
                return Ok(known);
            }
        }
        let id = self.named_nic(nic, Identity { ports, ..Identity::default() }, String::new(), nic.line())?;
        self.virtual_nics.push(id);
        Ok(id)
    }

    fn nic(&mut self, nic: Element<'d>, identity: Identity, bus: String, line: u32) -> Result<VertexId, ImportError> {
        let ports = self.ports(nic)?;
        self.named_nic(nic, Identity { ports, ..identity }, bus, line)
    }
    fn named_nic(&mut self, nic: Element<'d>, mut identity: Identity, bus: String, line: u32) -> Result<VertexId, ImportError> {
        identity.said.extend(nic.rest(&[]).into_iter().map(|(name, value)| (format!("nic/{name}"), value)));
        let named = identity.ports.iter().map(|port| port.name.clone()).find(|name| !name.is_empty());
        let name = named.unwrap_or_else(|| self.free_nic());
        self.draft.add(Vertex { bus, identity, ..Vertex::new(VertexKind::Nic, name) }, line)
    }

    /// The ports in a `nic`.
    fn ports(&mut self, nic: Element<'d>) -> Result<Vec<Port>, ImportError> {
        let mut ports = Vec::new();
        for net in nic.children().filter(|child| child.name() == "net") {
            let speed = net.parsed("speed", "speed in Mb/s", "use a whole number", |text| text.parse::<i64>().ok())?;
            let rate = speed.and_then(|speed| u64::try_from(speed).ok()).filter(|speed| *speed > 0);
            let rate = rate.and_then(|speed| speed.checked_mul(1_000_000)).map(Rate::from_bps);
            let guid = net.hex("guid")?;
            let mut known = vec!["name", "guid"];
            known.extend(rate.map(|_| "speed"));
            let name = net.says("name").unwrap_or_default().to_owned();
            if net.says("dev").is_none() {
                self.draft.notes.push(format!("line {}: NCCL passes over a `net` without `dev`", net.line()));
            }
            ports.push(Port { name, guid, rate, said: net.rest(&known) });
        }
        Ok(ports)
    }

    /// Says what a template leaves to the machine on which NCCL reads it.
    fn template(&mut self) {
        let [gpus, nics] = self.by_class;
        if gpus + nics > 0 {
            let what = "known by their class alone: what they can do and the rates of ports NCCL finds out on the machine";
            self.draft.notes.push(format!("{gpus} GPUs and {nics} adapters are {what}"));
        }
        if self.unknown > 0 {
            let what = "devices have no class: NCCL asks the machine what they are, and here they are neither GPU nor adapter";
            self.draft.notes.push(format!("{} {what}", self.unknown));
        }
    }
}

fn word(text: &str) -> Option<u16> {
    hex(text).and_then(|number| u16::try_from(number).ok())
}

/// The architecture that RCCL's `gcn` stands for: `gfx942`, `gfx90a:sramecc+`, or the number of older versions of HIP.
fn architecture(gcn: &str) -> String {
    let name = gcn.split(':').next().unwrap_or_default();
    match name {
        // hipDeviceProp_t::gcnArch of MI200 (HIP before 6.0).
        "910" => "gfx90a".to_owned(),
        _ if name.starts_with("gfx") => name.to_owned(),
        _ => format!("gfx{name}"),
    }
}

/// Class and subclass of bridges between PCI buses (PCI Code and ID Assignment Specification).
const PCI_BRIDGE: u32 = 0x0604;
/// Classes of GPUs: display controllers and processing accelerators.
pub(super) const GPU_CLASSES: [u32; 2] = [0x03, 0x12];
/// Class of network controllers.
const NETWORK: u32 = 0x02;
/// Deeper trees are mistakes, and would exhaust the stack.
const MOST_LEVELS: usize = 64;
const MOST_LANES: u32 = 32;
