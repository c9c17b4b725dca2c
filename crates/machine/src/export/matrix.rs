//! The matrix that `nvidia-smi topo -m` prints, of any machine.
//!
//! Source: NVIDIA System Management Interface manual, `topo -m` with its legend. In the form of drivers since 535: adapters by
//! legend, with NUMA affinity and the NUMA domain of the GPU's own memory.
//! A path by NVLink is `NV<n>`; that through a third GPU is none to that tool, which then tells how PCI Express leads there.

use std::fmt::Write;

use crate::class::PathClass;
use crate::cpu_set::CpuSet;
use crate::graph::Machine;
use crate::link::LinkKind;
use crate::path::{Path, Purpose};
use crate::vertex::{VertexId, VertexKind};

/// What stands in the cell of two devices.
#[must_use]
pub fn cell(machine: &Machine, from: VertexId, to: VertexId) -> String {
    let gpus = [from, to].iter().all(|end| machine.vertex(*end).kind == VertexKind::Gpu);
    let own = gpus.then(|| machine.path(from, to, Purpose::Copy)).flatten();
    if let Some(path) = own.filter(|path| machine.class_of(path) == PathClass::Nvl) {
        return bundle(machine, &path);
    }
    let by_pcie = machine.path(from, to, Purpose::Dma);
    match by_pcie.map_or(PathClass::Dis, |path| machine.class_of(&path)) {
        PathClass::Loc => "X".to_owned(),
        PathClass::Dis => "N/A".to_owned(),
        // The tool knows processors as host bridges.
        PathClass::C2c => PathClass::Phb.to_string(),
        class => class.to_string(),
    }
}

/// `NV4`, or what other links between GPUs are called.
fn bundle(machine: &Machine, path: &Path) -> String {
    let links = path.steps.iter().map(|step| match machine.link(step.link).kind {
        LinkKind::NvLink { links, .. } => ("NV", links),
        LinkKind::Xgmi { links } => ("XGMI", links),
        LinkKind::UaLink { links } => ("UAL", links),
        LinkKind::Ethernet { links } => ("ETH", links),
        _ => ("NV", 1),
    });
    links.min_by_key(|(_, links)| *links).map_or_else(|| "X".to_owned(), |(name, links)| format!("{name}{links}"))
}

/// The text of the matrix with its legend.
#[must_use]
pub fn nvidia_smi(machine: &Machine) -> String {
    // As drivers count GPUs, and adapters by their names.
    let mut gpus = machine.gpus();
    gpus.sort_by_key(|id| machine.vertex(*id).identity.number);
    let mut adapters = machine.nics();
    adapters.sort_by_key(|id| by_number(&machine.vertex(*id).name));
    // Each port of an adapter is one to that tool.
    let nics: Vec<(VertexId, String)> = adapters
        .into_iter()
        .flat_map(|id| {
            let vertex = machine.vertex(id);
            let names: Vec<String> = vertex.identity.ports.iter().map(|port| port.name.clone()).filter(|name| !name.is_empty()).collect();
            let names = if names.is_empty() { vec![vertex.name.clone()] } else { names };
            names.into_iter().map(move |name| (id, name))
        })
        .collect();
    let numbers = |id: VertexId, place: usize| machine.vertex(id).identity.number.unwrap_or(place as u32);
    let mut devices: Vec<(String, VertexId)> =
        gpus.iter().enumerate().map(|(place, id)| (format!("GPU{}", numbers(*id, place)), *id)).collect();
    devices.extend(nics.iter().enumerate().map(|(place, (id, _))| (format!("NIC{place}"), *id)));

    let mut text = String::new();
    for (label, _) in &devices {
        let _ = write!(text, "\t{label}");
    }
    text += "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n";
    for (row, (label, from)) in devices.iter().enumerate() {
        text += label;
        for (column, (_, to)) in devices.iter().enumerate() {
            let word = match (row == column, from == to) {
                (true, _) => " X ".to_owned(),
                (false, true) => PathClass::Pix.to_string(),
                _ => cell(machine, *from, *to),
            };
            let _ = write!(text, "\t{word}");
        }
        if row < gpus.len() {
            let (cpus, numa) = affinity(machine, *from);
            let _ = write!(text, "\t{cpus}\t{numa}\t\tN/A");
        } else {
            text += "\t\t\t\t";
        }
        text.push('\n');
    }
    text += LEGEND;
    if !nics.is_empty() {
        text += "\nNIC Legend:\n\n";
        for (place, (_, name)) in nics.iter().enumerate() {
            let _ = writeln!(text, "  NIC{place}: {name}");
        }
    }
    text
}

/// A name before its last number, and the number.
fn by_number(name: &str) -> (String, u64) {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (front, number) = name.split_at(name.len() - digits);
    (front.to_owned(), number.parse().unwrap_or(0))
}

/// Processors and NUMA domain near a GPU.
fn affinity(machine: &Machine, gpu: VertexId) -> (CpuSet, String) {
    let Some(nearest) = machine.nearest(gpu, &machine.numas(), Purpose::Dma) else { return (CpuSet::default(), "N/A".to_owned()) };
    let numa = &machine.vertex(nearest).identity;
    let own = &machine.vertex(gpu).identity.cpus;
    let cpus = if own.is_empty() { &numa.cpus } else { own };
    let place = machine.numas().iter().position(|id| *id == nearest).map(|place| place as u32);
    (cpus.clone(), numa.number.or(place).map_or_else(|| "N/A".to_owned(), |number| number.to_string()))
}

const LEGEND: &str = "
Legend:

  X    = Self
  SYS  = across the link between NUMA domains of different sockets
  NODE = across host bridges of one NUMA domain
  PHB  = across a host bridge
  PXB  = across several PCIe switches, no host bridge
  PIX  = across one PCIe switch at most
  NV#  = across so many NVLinks
";
