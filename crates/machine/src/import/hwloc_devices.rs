//! PCI in XML of hwloc: host bridges, bridges, devices, and what the operating system made of them.
//!
//! ```text
//! host bridge 0-1 ─ root port ─┬─ upstream port ─┬─ downstream port ─ device      a bridge that is below a port is a switch;
//!                              │  (a switch)     └─ downstream port ─ device      its own ports are no vertices,
//! host bridge 0-1 ─ root port ─ device                                            nor are root ports
//! ```
//!
//! Source: hwloc, "I/O devices"; PCI Express Base Specification §1.3 (root ports, switches).
//! A port leads to one device; a bridge right at the host bridge with several devices below it is a switch whose ports are hidden.
//! Functions of one adapter are one vertex with several ports.

use std::collections::{BTreeMap, BTreeSet};

use super::assembly::Draft;
use super::element::{Element, hex};
use super::error::{ImportError, Mistake};
use super::hwloc::{above, info, mask};
use super::hwloc_domains::Domains;
use crate::bus::Address;
use crate::identity::{Identity, Port};
use crate::vertex::{Vertex, VertexId, VertexKind};

/// What hangs at what.
#[derive(Clone, Copy)]
enum At {
    /// A host bridge.
    Root(VertexId),
    /// A switch.
    Switch(VertexId),
    /// A port: of the host or of a switch.
    Port(VertexId),
}

/// Devices that were read.
pub(super) struct Devices<'a> {
    /// The third version has other numbers for kinds of devices.
    third: bool,
    domains: &'a Domains,
    /// Vertices by the number of their object, and of the operating system's devices in it.
    pub(super) by_index: BTreeMap<u64, VertexId>,
    pub(super) gpus: Vec<VertexId>,
    pub(super) nics: usize,
    by_address: BTreeMap<Address, VertexId>,
    /// Some adapter of the file has verbs: those without are for other purposes.
    verbs: bool,
}

/// What the operating system made of a PCI device.
#[derive(Default)]
struct Software<'d> {
    compute: Option<Element<'d>>,
    verbs: Option<Element<'d>>,
    network: Option<Element<'d>>,
    first: Option<&'d str>,
}

impl<'a> Devices<'a> {
    pub(super) fn new(third: bool, domains: &'a Domains, topology: Element<'_>) -> Devices<'a> {
        let (by_index, by_address) = (BTreeMap::new(), BTreeMap::new());
        let devices = Devices { third, domains, by_index, gpus: Vec::new(), nics: 0, by_address, verbs: false };
        let verbs = topology.below().any(|object| devices.is(object, 3, 32));
        Devices { verbs, ..devices }
    }

    /// A host bridge with all below it.
    pub(super) fn host_bridge(&mut self, draft: &mut Draft<'_>, bridge: Element<'_>) -> Result<(), ImportError> {
        let domains = self.near(draft, bridge)?;
        let vertex = draft.bridge(&domains, bridge.line())?;
        self.below(draft, bridge, At::Root(vertex), 0)
    }

    /// PCI devices that are below no bridge: of virtual machines.
    pub(super) fn loose<'d>(&mut self, draft: &mut Draft<'_>, objects: impl Iterator<Item = Element<'d>>) -> Result<(), ImportError> {
        let loose = objects.filter(|object| {
            let pci = matches!(object.says("type"), Some("PCIDev"));
            pci && !above(*object).any(|outer| outer.says("type") == Some("Bridge"))
        });
        let loose: Vec<Element<'_>> = loose.collect();
        let Some(first) = loose.first() else { return Ok(()) };
        let domains = self.near(draft, *first)?;
        let bridge = draft.bridge(&domains, first.line())?;
        for device in loose {
            self.device(draft, device, At::Root(bridge))?;
        }
        Ok(())
    }

    /// Whether an object is a device of the operating system of a kind, whose numbers in both versions are given.
    fn is(&self, object: Element<'_>, second: u64, third: u64) -> bool {
        let number = object.says("osdev_type").and_then(|text| if text.starts_with("0x") { hex(text) } else { text.parse().ok() });
        let fits = |number: u64| if self.third { number & third != 0 } else { number == second };
        object.says("type") == Some("OSDev") && number.is_some_and(fits)
    }

    /// The domains that a host bridge is at: those of the object around it. Where that is more than a package, only the first.
    fn near(&self, draft: &mut Draft<'_>, object: Element<'_>) -> Result<Vec<VertexId>, ImportError> {
        let outer = above(object).find(|outer| outer.says("cpuset").or(outer.says("nodeset")).is_some());
        let set = |name: &str| outer.map(|outer| mask(outer, name)).transpose().map(Option::unwrap_or_default);
        let near = self.domains.near(&set("cpuset")?, &set("nodeset")?);
        let Some(first) = near.first().copied().or_else(|| self.domains.first()) else { return Err(ImportError::Empty) };
        let package = |draft: &mut Draft<'_>, id: VertexId| draft.vertex_mut(id).kind;
        let kind = package(draft, first);
        if near.iter().any(|id| package(draft, *id) != kind) || near.is_empty() {
            let name = draft.vertex_mut(first).name.clone();
            draft
                .notes
                .push(format!("line {}: the file does not say at which socket this host bridge is; taken to be at {name}", object.line()));
            return Ok(vec![first]);
        }
        Ok(near)
    }

    fn below(&mut self, draft: &mut Draft<'_>, object: Element<'_>, at: At, depth: usize) -> Result<(), ImportError> {
        if depth > MOST_LEVELS {
            return Err(object.wrong(Mistake::TooMany { what: "PCI bridges above each other", most: MOST_LEVELS }));
        }
        for child in object.children().filter(|child| child.name() == "object") {
            match child.says("type") {
                Some("Bridge") => {
                    let several = devices_below(child).len() > 1;
                    let inner = match at {
                        At::Root(above) | At::Switch(above) if !several => At::Port(above),
                        At::Root(above) | At::Switch(above) | At::Port(above) => {
                            let name = draft.next_switch();
                            let switch = self.vertex(child, VertexKind::PcieSwitch, name)?;
                            let switch = draft.add(switch, child.line())?;
                            self.by_index.extend(index(child).map(|index| (index, switch)));
                            self.slot(draft, above, switch, child)?;
                            At::Switch(switch)
                        }
                    };
                    self.below(draft, child, inner, depth + 1)?;
                }
                Some("PCIDev") => self.device(draft, child, at)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn device(&mut self, draft: &mut Draft<'_>, device: Element<'_>, at: At) -> Result<(), ImportError> {
        let (At::Root(above) | At::Switch(above) | At::Port(above)) = at;
        let software = self.software(device);
        let class = pci_type(device).map_or(0, |(class, _)| class);
        let is_gpu = matches!(class, 0x0302 | 0x0380) || class >> 8 == 0x12 || (class >> 8 == 0x03 && software.compute.is_some());
        let is_nic = software.verbs.is_some() || (!self.verbs && software.network.is_some() && class >> 8 == 0x02);
        let id = if is_gpu {
            let name = format!("gpu{}", self.gpus.len());
            let mut gpu = self.vertex(device, VertexKind::Gpu, name)?;
            let model = software.compute.and_then(|compute| info(compute.children(), "GPUModel"));
            gpu.title = model.or(device.says("name")).unwrap_or_default().to_owned();
            gpu.identity.number = Some(self.gpus.len() as u32);
            gpu.identity.compute_capability = software.compute.and_then(ability);
            let id = draft.gpu(gpu, device.line())?;
            self.gpus.push(id);
            id
        } else if is_nic {
            let port = port(&software);
            let address = device.says("pci_busid").and_then(Address::parse).map(Address::of_device);
            if let Some(first) = address.and_then(|address| self.by_address.get(&address)).copied() {
                draft.vertex_mut(first).identity.ports.push(port);
                self.remember(device, first);
                return Ok(());
            }
            let name = if port.name.is_empty() { format!("nic{}", self.nics) } else { port.name.clone() };
            let mut nic = self.vertex(device, VertexKind::Nic, name)?;
            nic.title = device.says("name").unwrap_or_default().to_owned();
            nic.identity.ports.push(port);
            self.nics += 1;
            let id = draft.add(nic, device.line())?;
            self.by_address.extend(address.map(|address| (address, id)));
            id
        } else {
            let bus = device.says("pci_busid").unwrap_or("?");
            let name = software.first.map_or_else(|| format!("pci {bus}"), |name| format!("{name} {bus}"));
            let mut other = self.vertex(device, VertexKind::Device, name)?;
            other.title = device.says("name").map_or_else(|| format!("class {class:#06x}"), str::to_owned);
            draft.add(other, device.line())?
        };
        self.remember(device, id);
        self.slot(draft, above, id, device)
    }

    /// Notes the numbers of an object and of what is in it.
    fn remember(&mut self, device: Element<'_>, id: VertexId) {
        self.by_index.extend(device.below().filter_map(index).map(|index| (index, id)));
    }

    fn software<'d>(&self, device: Element<'d>) -> Software<'d> {
        let mut found = Software::default();
        for object in device.below() {
            let name = object.says("name").unwrap_or_default();
            if object.says("type") == Some("OSDev") {
                found.first = found.first.or(Some(name));
            }
            let co_processor = self.is(object, 5, 8);
            if self.is(object, 1, 4) || co_processor {
                let computes = co_processor || COMPUTE.iter().any(|prefix| name.starts_with(prefix));
                found.compute = found.compute.or(computes.then_some(object));
            } else if self.is(object, 3, 32) {
                found.verbs = found.verbs.or(Some(object));
            } else if self.is(object, 2, 16) {
                found.network = found.network.or(Some(object));
            }
        }
        found
    }

    fn vertex(&self, device: Element<'_>, kind: VertexKind, name: String) -> Result<Vertex, ImportError> {
        let address = device.parsed("pci_busid", "address on the bus", "use an address such as 0000:17:00.0", Address::parse)?;
        let mut vertex = Vertex::new(kind, name);
        vertex.bus = address.map(|address| address.to_string()).unwrap_or_default();
        let mut identity = Identity::default();
        if let Some((class, numbers)) = pci_type(device) {
            identity.class = Some(class << 8);
            identity.part = numbers.first().copied();
            identity.board = numbers.get(1).copied().filter(|board| *board != [0, 0]);
        }
        vertex.identity = identity;
        Ok(vertex)
    }

    fn slot(&self, draft: &mut Draft<'_>, above: VertexId, below: VertexId, device: Element<'_>) -> Result<(), ImportError> {
        let read = |text: &str| text.parse::<f64>().ok().filter(|rate| (0.0..100_000.0).contains(rate));
        let gigabytes = device.parsed("pci_link_speed", "speed in GB/s", "use a number, 0 where it is not known", read)?.unwrap_or(0.0);
        let slot = draft.rates.slot_of_rate((gigabytes * 1000.0) as u64);
        if slot.is_none() && gigabytes > 0.0 {
            let what = format!("line {}: no width and generation of PCI Express carries {gigabytes} GB/s", device.line());
            draft.notes.push(format!("{what}; taken as if it were not known"));
        }
        let (generation, lanes) = slot.unwrap_or_default();
        draft.slot(above, below, generation, lanes);
        Ok(())
    }
}

/// Number of an object in its file.
fn index(object: Element<'_>) -> Option<u64> {
    object.says("gp_index")?.parse().ok()
}

/// The devices right below a bridge: functions of one count as one.
fn devices_below(bridge: Element<'_>) -> BTreeSet<Address> {
    let objects = bridge.children().filter(|child| matches!(child.says("type"), Some("Bridge" | "PCIDev")));
    objects.filter_map(|child| Address::parse(child.says("pci_busid")?)).map(Address::of_device).collect()
}

/// Class, and pairs of vendor and device: `0207 [15b3:1021] [15b3:0023] 00`.
fn pci_type(device: Element<'_>) -> Option<(u32, Vec<[u16; 2]>)> {
    let text = device.says("pci_type")?;
    let mut words = text.split_whitespace();
    let class = u32::from_str_radix(words.next()?, 16).ok().filter(|class| *class <= 0xffff)?;
    let pair = |word: &str| {
        let (vendor, part) = word.strip_prefix('[')?.strip_suffix(']')?.split_once(':')?;
        Some([u16::from_str_radix(vendor, 16).ok()?, u16::from_str_radix(part, 16).ok()?])
    };
    Some((class, words.filter_map(pair).collect()))
}

/// A port as the operating system has it.
fn port(software: &Software<'_>) -> Port {
    let device = software.verbs.or(software.network);
    let name = device.and_then(|device| device.says("name")).unwrap_or_default().to_owned();
    // 0002:c903:00a1:0000
    let guid = device.and_then(|device| info(device.children(), "NodeGUID")).and_then(|text| hex(&text.replace(':', "")));
    Port { name, guid, ..Port::default() }
}

/// What an NVIDIA GPU can do, where its driver was asked.
fn ability(compute: Element<'_>) -> Option<u32> {
    let text = info(compute.children(), "CUDAComputeCapability")?;
    let (major, minor) = text.split_once('.')?;
    Some(major.parse::<u32>().ok()?.checked_mul(10)? + minor.parse::<u32>().ok().filter(|minor| *minor < 10)?)
}

/// How the names of devices begin through which programs compute; others are for displays.
const COMPUTE: [&str; 6] = ["cuda", "nvml", "rsmi", "ze", "opencl", "ve"];
const MOST_LEVELS: usize = 64;
