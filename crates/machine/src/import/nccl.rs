//! Topology files of NCCL.
//!
//! ```text
//! <system version="1">
//!   <cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
//!     <pci busid="0000:17:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
//!       <pci …><gpu dev="0" sm="90" rank="0" gdr="1"><nvlink target="0000:07:00.0" count="18" tclass="0x068000"/></gpu></pci>
//!       <pci …><nic><net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x…"/></nic></pci>
//! ```
//!
//! Source: NCCL, src/graph/topo.cc and xml.cc (<https://github.com/NVIDIA/nccl>).
//! Read: all of these elements, `c2c` and `pcilink`, with all attributes; those that nothing here needs are kept as they stand.
//! As in NCCL each `cpu` is a socket of its own, all NVSwitches are one, and `nvlink` to a GPU that the file does not describe
//! (hidden from a container) is passed over.
//! Not read: further `gpu` elements of one device (several ranks, partitions); they are noted.

use std::collections::BTreeMap;

use fabriscope_units::Rate;

use super::assembly::Draft;
use super::element::{Element, hex};
use super::error::{ImportError, Mistake};
use super::rates::Rates;
use super::{Format, NodeFile};
use crate::bus::Address;
use crate::cpu_set::CpuSet;
use crate::identity::{Bundle, Identity, Port, Processor};
use crate::link::LinkKind;
use crate::vertex::{Vertex, VertexId, VertexKind};

/// Reads the file whose first element is `system`.
pub(super) fn read(system: Element<'_>, rates: &Rates) -> Result<NodeFile, ImportError> {
    let version = system.needed("version", "it is 1 in all files of NCCL")?;
    if version.trim() != "1" {
        return Err(ImportError::Version { line: system.line(), format: "NCCL's topology", found: version.to_owned(), known: "1" });
    }
    let mut reader = Reader { draft: Draft::new(rates), gpus: Vec::new(), switches: BTreeMap::new(), nics: 0, host: None };
    for (index, cpu) in system.children().filter(|child| child.name() == "cpu").enumerate() {
        reader.cpu(cpu, index as u32)?;
    }
    reader.nvlinks()?;
    reader.peer_links()?;
    reader.draft.finish(Format::Nccl, String::new())
}

/// NVLinks that stay among GPUs.
#[derive(Default)]
struct OwnLinks {
    /// Of each pair the number of links that either says.
    pairs: BTreeMap<[VertexId; 2], [u32; 2]>,
    /// Of each GPU the number of links to switches.
    switched: Vec<(VertexId, u32)>,
}

struct Reader<'r, 'd> {
    draft: Draft<'r>,
    /// Each GPU with its domain and its element.
    gpus: Vec<(VertexId, VertexId, Element<'d>)>,
    /// Switches by address, with their elements.
    switches: BTreeMap<Address, (VertexId, Element<'d>)>,
    nics: u32,
    host: Option<&'d str>,
}

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
        let domain = self.draft.domain(domain, None, line)?;
        let inside: Vec<Element<'d>> = cpu.children().filter(|child| matches!(child.name(), "pci" | "nic")).collect();
        if !inside.is_empty() {
            let bridge = self.draft.bridge(&[domain], line)?;
            for child in inside {
                match child.name() {
                    "pci" => self.pci(child, bridge, domain, 0)?,
                    // Adapters without a place on the bus: NCCL puts them to the first processor.
                    _ => {
                        let nic = self.nic(child, Identity::default(), String::new(), child.line())?;
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
        } else {
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
        let by_nvlink = below("gpu").flat_map(Element::children).any(is_host_nvlink);
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
        identity.compute_capability = gpu.number("sm")?;
        identity.said.extend(gpu.rest(&["dev", "sm"]).into_iter().map(|(name, value)| (format!("gpu/{name}"), value)));
        if gpu.says("rank").is_none() {
            self.draft.notes.push(format!("line {}: NCCL passes over a GPU without `rank`", gpu.line()));
        }
        let title = identity.compute_capability.map_or_else(String::new, |sm| format!("sm_{sm}"));
        let name = format!("gpu{}", number.unwrap_or(self.gpus.len() as u32));
        let id = self.draft.gpu(Vertex { bus, identity, title, ..Vertex::new(VertexKind::Gpu, name) }, line)?;
        self.gpus.push((id, domain, gpu));
        Ok(id)
    }

    fn nic(&mut self, nic: Element<'d>, mut identity: Identity, bus: String, line: u32) -> Result<VertexId, ImportError> {
        identity.said.extend(nic.rest(&[]).into_iter().map(|(name, value)| (format!("nic/{name}"), value)));
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
            identity.ports.push(Port { name, guid, rate, said: net.rest(&known) });
        }
        let named = identity.ports.iter().map(|port| port.name.clone()).find(|name| !name.is_empty());
        let name = named.unwrap_or_else(|| format!("nic{}", self.nics));
        self.nics += 1;
        self.draft.add(Vertex { bus, identity, ..Vertex::new(VertexKind::Nic, name) }, line)
    }

    /// `nvlink` and `c2c` of all GPUs, when all are known.
    fn nvlinks(&mut self) -> Result<(), ImportError> {
        let gpus = std::mem::take(&mut self.gpus);
        let mut by_bus = BTreeMap::new();
        for (id, ..) in &gpus {
            by_bus.extend(Address::parse(&self.draft.vertex_mut(*id).bus).map(|address| (address, *id)));
        }
        let mut own = OwnLinks::default();
        for (id, domain, gpu) in &gpus {
            let rates = self.draft.rates;
            let ability = self.draft.vertex_mut(*id).identity.compute_capability;
            let total = |name: &str| gpu.children().filter(|child| child.name() == name).count() as u32;
            let of = ability.map_or_else(|| rates.nvlink_of_links(total("nvlink")), |sm| rates.nvlink_of_gpu(sm));
            let mut to_switches = 0u32;
            for link in gpu.children() {
                let bundle = match link.name() {
                    "nvlink" => bundle(link)?,
                    "c2c" => coherent(link)?,
                    _ => continue,
                };
                if let Some(each) = bundle.each {
                    let rate = Rate::from_bps(each.as_bps().saturating_mul(u64::from(bundle.links)));
                    self.draft.coherent(*domain, *id, format!("C2C x{}", bundle.links), rate);
                } else if bundle.class.is_some_and(|class| class >> 16 == DISPLAY) {
                    if let Some(peer) = Address::parse(&bundle.target).and_then(|address| by_bus.get(&address)).filter(|peer| *peer != id) {
                        let pair = [*id.min(peer), *id.max(peer)];
                        let said = own.pairs.entry(pair).or_default();
                        said[usize::from(pair[0] != *id)] += bundle.links;
                        continue;
                    }
                    let (line, links, target) = (link.line(), bundle.links, &bundle.target);
                    self.draft.notes.push(format!("line {line}: {links} NVLinks lead to {target}, which the file does not describe"));
                } else if bundle.class == Some(Bundle::POWER_CPU) {
                    self.draft.host_nvlink(*domain, *id, of, bundle.links);
                } else {
                    to_switches = to_switches.saturating_add(bundle.links);
                }
                self.draft.vertex_mut(*id).identity.bundles.push(bundle);
            }
            if to_switches > 0 {
                own.switched.push((*id, to_switches));
            }
        }
        let line = gpus.first().map_or(1, |(_, _, gpu)| gpu.line());
        self.own_links(own, line)
    }

    /// NVLinks between two GPUs, and from GPUs to their switch.
    fn own_links(&mut self, own: OwnLinks, line: u32) -> Result<(), ImportError> {
        let of = |draft: &mut Draft<'_>, id: VertexId, links: u32| {
            let ability = draft.vertex_mut(id).identity.compute_capability;
            let rates = draft.rates;
            ability.map_or_else(|| rates.nvlink_of_links(links), |sm| rates.nvlink_of_gpu(sm)).cloned()
        };
        for ([a, b], [there, back]) in own.pairs {
            if there != back {
                let names = [a, b].map(|id| self.draft.vertex_mut(id).name.clone());
                let what = format!("{} counts {there} NVLinks to {}, which counts {back}", names[0], names[1]);
                self.draft.notes.push(format!("{what}: the larger number is taken"));
            }
            let nvlink = of(&mut self.draft, a, there.max(back));
            self.draft.nvlink(a, b, nvlink.as_ref(), there.max(back));
        }
        if !own.switched.is_empty() {
            let switch = self.draft.add(Vertex::new(VertexKind::ScaleUpSwitch, "nvswitch"), line)?;
            for (id, links) in own.switched {
                let nvlink = of(&mut self.draft, id, links);
                self.draft.nvlink(id, switch, nvlink.as_ref(), links);
            }
        }
        Ok(())
    }

    /// `pcilink`: switches that are joined beside the tree.
    fn peer_links(&mut self) -> Result<(), ImportError> {
        let switches = std::mem::take(&mut self.switches);
        let mut joined: Vec<[VertexId; 2]> = Vec::new();
        for (id, pci) in switches.values() {
            for link in pci.children().filter(|child| child.name() == "pcilink") {
                let target = link.needed("target", "give the address of the other switch")?;
                self.draft.vertex_mut(*id).identity.said.push(("pcilink/target".to_owned(), target.to_owned()));
                let Some((other, _)) = Address::parse(target).and_then(|address| switches.get(&address)) else {
                    self.draft.notes.push(format!("line {}: `pcilink` to {target}, which is no switch of the file", link.line()));
                    continue;
                };
                let pair = [*id.min(other), *id.max(other)];
                if id != other && !joined.contains(&pair) {
                    joined.push(pair);
                    let (rate, latency) = (self.draft.rates.local, self.draft.rates.pcie_latency);
                    self.draft.join(pair[0], pair[1], LinkKind::Die, "between switches".to_owned(), rate, latency);
                }
            }
        }
        Ok(())
    }
}

fn word(text: &str) -> Option<u16> {
    hex(text).and_then(|number| u16::try_from(number).ok())
}

fn count(link: Element<'_>) -> Result<u32, ImportError> {
    link.needed("count", "say how many links there are")?;
    let links = link.number("count")?.unwrap_or(0);
    if links == 0 || links > MOST_LINKS {
        let expected = "a GPU has 1 to 1000 links";
        return Err(link.wrong(Mistake::Value { text: links.to_string(), what: "number of links", expected }));
    }
    Ok(links)
}

/// Whether this is NVLinks from a GPU to a POWER processor.
fn is_host_nvlink(link: Element<'_>) -> bool {
    link.name() == "nvlink" && link.says("tclass").and_then(hex).is_some_and(|class| class & 0xff_ffff == u64::from(Bundle::POWER_CPU))
}

fn bundle(link: Element<'_>) -> Result<Bundle, ImportError> {
    link.needed("tclass", "say what is at the other end: 0x030200 a GPU, 0x068000 an NVSwitch, 0x068001 a processor")?;
    let class = link.hex("tclass")?.map(|class| (class & 0xff_ffff) as u32);
    Ok(Bundle { target: link.says("target").unwrap_or_default().to_owned(), class, links: count(link)?, each: None })
}

fn coherent(link: Element<'_>) -> Result<Bundle, ImportError> {
    link.needed("bw", "say what a link carries in MB/s")?;
    let rate = link.number("bw")?.unwrap_or(0);
    if rate == 0 {
        return Err(link.wrong(Mistake::Value { text: "0".to_owned(), what: "bandwidth in MB/s", expected: "use what a link carries" }));
    }
    Ok(Bundle { links: count(link)?, each: Some(Rate::from_bps(u64::from(rate) * 8_000_000)), ..Bundle::default() })
}

/// Class and subclass of bridges between PCI buses (PCI Code and ID Assignment Specification).
const PCI_BRIDGE: u32 = 0x0604;
/// Class of display controllers, which GPUs are.
const DISPLAY: u32 = 0x03;
/// Deeper trees are mistakes, and would exhaust the stack.
const MOST_LEVELS: usize = 64;
const MOST_LANES: u32 = 32;
const MOST_LINKS: u32 = 1000;
