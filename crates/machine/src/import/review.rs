//! What an operator checks first in a node: what there is, and what looks wrong.

use std::collections::BTreeMap;

use fabriscope_units::Rate;
use serde::Serialize;

use crate::class::PathClass;
use crate::cpu_set::CpuSet;
use crate::graph::Machine;
use crate::link::{Link, LinkKind};
use crate::vertex::{VertexId, VertexKind};

/// Something that looks wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub what: String,
    /// Where.
    pub places: Vec<String>,
}

/// What a node has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Review {
    /// Packages.
    pub sockets: u32,
    /// NUMA domains: memories of processors.
    pub domains: u32,
    /// Processors of the operating system, where the file lists them; those that several domains have count once.
    pub processors: u32,
    /// Cores, where the file lists them.
    pub cores: u32,
    /// Memory of the domains, where the file tells it, in bytes.
    pub memory_bytes: u64,
    /// GPUs.
    pub gpus: u32,
    /// Adapters.
    pub adapters: u32,
    /// Ports of adapters.
    pub ports: u32,
    /// PCI Express switches.
    pub pcie_switches: u32,
    /// Links between GPUs and to their switches, all counted.
    pub gpu_links: u32,
    /// What looks wrong.
    pub findings: Vec<Finding>,
}

/// The adapters nearest to a device, and their class.
#[must_use]
pub fn nearest(machine: &Machine, device: VertexId) -> (PathClass, Vec<VertexId>) {
    let classes: Vec<(PathClass, VertexId)> = machine.nics().into_iter().map(|nic| (machine.class(device, nic), nic)).collect();
    let best = classes.iter().map(|(class, _)| *class).min().unwrap_or(PathClass::Dis);
    (best, classes.into_iter().filter(|(class, _)| *class == best).map(|(_, nic)| nic).collect())
}

/// Looks at a node.
#[must_use]
pub fn review(machine: &Machine) -> Review {
    let count = |wanted: fn(VertexKind) -> bool| machine.of(wanted).count() as u32;
    let numas = machine.numas();
    let mut packages: Vec<VertexKind> = numas.iter().map(|id| machine.vertex(*id).kind).collect();
    packages.sort_unstable();
    packages.dedup();
    let of_numas = |wanted: fn(&crate::Identity) -> u32| numas.iter().map(|id| wanted(&machine.vertex(*id).identity)).sum();
    let sizes = machine.vertices().iter().filter(|vertex| vertex.kind == VertexKind::HostMemory);
    let nics = machine.nics();
    Review {
        sockets: packages.len() as u32,
        domains: count(|kind| kind == VertexKind::HostMemory),
        processors: numas.iter().fold(CpuSet::default(), |all, id| all.union(&machine.vertex(*id).identity.cpus)).len(),
        cores: of_numas(|identity| identity.cores),
        memory_bytes: sizes.filter_map(|vertex| vertex.identity.size).fold(0, |sum, size| sum.saturating_add(size.0)),
        gpus: machine.gpus().len() as u32,
        adapters: nics.len() as u32,
        ports: nics.iter().map(|id| machine.vertex(*id).identity.ports.len().max(1) as u32).sum(),
        pcie_switches: count(|kind| kind == VertexKind::PcieSwitch),
        gpu_links: machine.links().iter().filter_map(|link| bundle(link.kind)).sum(),
        findings: findings(machine),
    }
}

/// How many links between accelerators a link stands for.
#[must_use]
pub fn bundle(kind: LinkKind) -> Option<u32> {
    match kind {
        LinkKind::NvLink { links, .. } | LinkKind::Xgmi { links } | LinkKind::UaLink { links } | LinkKind::Ethernet { links } => {
            Some(links)
        }
        _ => None,
    }
}

fn findings(machine: &Machine) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut finding = |what: &str, places: Vec<String>| {
        if !places.is_empty() {
            found.push(Finding { what: what.to_owned(), places });
        }
    };
    let name = |id: VertexId| machine.vertex(id).name.clone();
    let (gpus, nics) = (machine.gpus(), machine.nics());
    if !nics.is_empty() {
        let far = gpus.iter().map(|gpu| (*gpu, nearest(machine, *gpu)));
        let far: Vec<_> = far.filter(|(_, (class, _))| *class >= PathClass::Sys).collect();
        let place = |(gpu, (class, nics)): (VertexId, (PathClass, Vec<VertexId>))| match class {
            PathClass::Dis => format!("{}: no path to any adapter", name(gpu)),
            _ => format!("{}: nearest {}", name(gpu), nics.into_iter().map(name).collect::<Vec<_>>().join(", ")),
        };
        finding("GPUs whose nearest adapter is at another socket", far.into_iter().map(place).collect());
    }
    if !gpus.is_empty() && nics.len() > 1 {
        let wanted: Vec<VertexId> = gpus.iter().flat_map(|gpu| nearest(machine, *gpu).1).collect();
        let alone = nics.iter().filter(|nic| !wanted.contains(nic));
        finding("adapters that are nearest to no GPU", alone.map(|nic| name(*nic)).collect());
    }
    finding("slots narrower or slower than those of their like", uneven_slots(machine));
    finding("adapters faster than their slot", nics.iter().filter_map(|nic| starved(machine, *nic)).collect());
    finding(
        "switches that share less than their fastest device takes",
        machine.of(|kind| kind == VertexKind::PcieSwitch).filter_map(|id| narrow(machine, id)).collect(),
    );
    finding("GPUs with fewer links to their like", fewer_links(machine));
    found
}

fn slot_of(machine: &Machine, id: VertexId) -> Option<&Link> {
    let links = machine.around(id).iter().map(|link| machine.link(*link));
    links.into_iter().find(|link| link.b == id && matches!(link.kind, LinkKind::Pcie { generation, lanes } if generation > 0 && lanes > 0))
}

/// Devices of one part number in different slots: those in other slots than most.
fn uneven_slots(machine: &Machine) -> Vec<String> {
    let mut alike: BTreeMap<[u16; 2], Vec<(VertexId, &Link)>> = BTreeMap::new();
    for id in machine.of(|kind| matches!(kind, VertexKind::Gpu | VertexKind::Nic)) {
        if let (Some(part), Some(slot)) = (machine.vertex(id).identity.part, slot_of(machine, id)) {
            alike.entry(part).or_default().push((id, slot));
        }
    }
    let mut places = Vec::new();
    for devices in alike.values() {
        let best = devices.iter().map(|(_, slot)| slot.rate[0]).max().unwrap_or_default();
        let usual = devices.iter().find(|(_, slot)| slot.rate[0] == best).map_or("", |(_, slot)| slot.title.as_str());
        let slow = devices.iter().filter(|(_, slot)| slot.rate[0] < best);
        places.extend(slow.map(|(id, slot)| format!("{}: {} and not {usual}", machine.vertex(*id).name, slot.title)));
    }
    places
}

/// An adapter whose ports carry more than its slot.
fn starved(machine: &Machine, nic: VertexId) -> Option<String> {
    let vertex = machine.vertex(nic);
    let ports = vertex.identity.ports.iter().filter_map(|port| port.rate).fold(0, |sum: u64, rate| sum.saturating_add(rate.as_bps()));
    let slot = slot_of(machine, nic)?;
    let carried = slot.framing.write.weight().payload_of(slot.rate[0]);
    // Rates of ports are those of their names, which are a few percent above what they carry.
    let room = u128::from(carried.as_bps()) * 11 / 10;
    let gigabits = carried.as_bps() as f64 / 1e9;
    let what = || format!("{}: {} of ports, {} carries {gigabits:.0} Gb/s of data", vertex.name, Rate::from_bps(ports), slot.title);
    (u128::from(ports) > room).then(what)
}

/// A switch whose way up is narrower than the widest way down.
fn narrow(machine: &Machine, switch: VertexId) -> Option<String> {
    let up = slot_of(machine, switch)?;
    let links = machine.around(switch).iter().map(|link| machine.link(*link)).filter(|link| link.a == switch);
    let down =
        links.filter(|link| matches!(link.kind, LinkKind::Pcie { generation, .. } if generation > 0)).max_by_key(|link| link.rate[0])?;
    let device = &machine.vertex(down.b).name;
    (down.rate[0] > up.rate[0]).then(|| format!("{}: {} up, {} to {device}", machine.vertex(switch).name, up.title, down.title))
}

/// GPUs with fewer links to other GPUs and their switches than the one with most.
fn fewer_links(machine: &Machine) -> Vec<String> {
    let links = |gpu: VertexId| machine.around(gpu).iter().filter_map(|link| bundle(machine.link(*link).kind)).sum::<u32>();
    let all: Vec<(VertexId, u32)> = machine.gpus().into_iter().map(|gpu| (gpu, links(gpu))).collect();
    let most = all.iter().map(|(_, links)| *links).max().unwrap_or(0);
    let fewer = all.into_iter().filter(|(_, links)| *links < most);
    fewer.map(|(gpu, links)| format!("{}: {links} of {most}", machine.vertex(gpu).name)).collect()
}
