//! XML of hwloc: what `lstopo --of xml` writes.
//!
//! ```text
//! <topology version="2.0">
//!   <object type="Machine" …><info name="HostName" value="gpu01"/>
//!     <object type="Package" …><object type="NUMANode" os_index="0" cpuset="0x0000ffff" local_memory="…"/> … cores …
//!       <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[16-1f]"> … PCI devices, see `hwloc_devices`
//! ```
//!
//! Source: hwloc 2.x and 3.0 (<https://www.open-mpi.org/projects/hwloc/doc/>), chapters "Terms and definitions", "I/O devices".
//! Read: packages, NUMA domains with processors, cores and memory, the model of the processor, host bridges, PCI bridges and devices,
//! GPUs and adapters by the operating system's devices, bandwidths of NVLink. A file without PCI devices is legal.
//! Not read: caches, groups, memory attributes, devices that are no PCI devices.

use std::collections::BTreeMap;

use fabriscope_units::Bytes;

use super::assembly::Draft;
use super::element::Element;
use super::error::ImportError;
use super::hwloc_devices::Devices;
use super::rates::Rates;
use super::{Format, NodeFile, hwloc_links};
use crate::cpu_set::CpuSet;
use crate::identity::{Identity, Processor};
use crate::vertex::{Vertex, VertexId, VertexKind};

/// Reads the file whose first element is `topology`.
pub(super) fn read(topology: Element<'_>, rates: &Rates) -> Result<NodeFile, ImportError> {
    let version = topology.says("version").unwrap_or("1");
    let third = match version.split('.').next() {
        Some("2") => false,
        Some("3") => true,
        _ => {
            let known = "2.x and 3.0";
            return Err(ImportError::Version { line: topology.line(), format: "hwloc's XML", found: version.to_owned(), known });
        }
    };
    let mut draft = Draft::new(rates);
    let architecture = info(topology.below(), "Architecture");
    let objects = || topology.below().filter(|element| element.name() == "object");
    // The processors of a file that names no package are one.
    let packages: Vec<Element<'_>> = objects().filter(|object| object.says("type") == Some("Package")).collect();
    let mut domains: BTreeMap<u32, VertexId> = BTreeMap::new();
    for numa in objects().filter(|object| object.says("type") == Some("NUMANode")) {
        let package = above(numa).find(|object| object.says("type") == Some("Package"));
        let place = package.and_then(|package| packages.iter().position(|known| *known == package));
        let number = numa.number("os_index")?.unwrap_or(domains.len() as u32);
        let cpus = mask(numa, "cpuset")?;
        if cpus.is_empty() && !domains.is_empty() {
            // Memory without processors: of a GPU, or behind CXL.
            draft.notes.push(format!("line {}: NUMA domain {number} has no processors and is left out", numa.line()));
            continue;
        }
        let mut domain = Vertex::new(VertexKind::Numa { package: place.unwrap_or(0) as u32 }, format!("numa{number}"));
        domain.title = package.and_then(|package| info(package.children(), "CPUModel")).unwrap_or_default().trim().to_owned();
        let processor = processor(package, architecture)?;
        let cores = cores(numa);
        domain.identity = Identity { number: Some(number), cpus, cores, processor, ..Identity::default() };
        let size = numa.parsed("local_memory", "number of bytes", "use a whole number", |text| text.parse().ok())?;
        let id = draft.domain(domain, size.map(Bytes), numa.line())?;
        domains.insert(number, id);
    }
    let mut devices = Devices::new(third, &domains);
    for bridge in objects().filter(|object| object.says("type") == Some("Bridge") && object.says("bridge_type") == Some("0-1")) {
        devices.host_bridge(&mut draft, bridge)?;
    }
    devices.loose(&mut draft, objects())?;
    hwloc_links::nvlinks(&mut draft, topology, &devices)?;
    if devices.gpus.is_empty() && devices.nics == 0 {
        draft.notes.push("no GPU and no adapter: lstopo lists them unless --no-io is given or the machine hides them".to_owned());
    }
    let host = info(topology.below(), "HostName").unwrap_or_default().to_owned();
    draft.finish(Format::Hwloc, host)
}

/// The value of an `info` among elements.
pub(super) fn info<'d>(mut elements: impl Iterator<Item = Element<'d>>, name: &str) -> Option<&'d str> {
    let found = elements.find(|element| element.name() == "info" && element.says("name") == Some(name))?;
    found.says("value")
}

/// The objects around one, from the inside.
pub(super) fn above(object: Element<'_>) -> impl Iterator<Item = Element<'_>> {
    std::iter::successors(object.parent(), |element| element.parent()).take(MOST_LEVELS)
}

/// A set of an object; an empty one where it has none.
pub(super) fn mask(object: Element<'_>, attribute: &str) -> Result<CpuSet, ImportError> {
    let expected = "use hexadecimal words, such as 0x00000003,0xffffffff";
    Ok(object.parsed(attribute, "set of numbers", expected, CpuSet::of_mask)?.unwrap_or_default())
}

/// Cores of a domain: those below the object that it is the memory of.
fn cores(numa: Element<'_>) -> u32 {
    let own = numa.says("nodeset");
    let core = |element: &Element<'_>| element.says("type") == Some("Core") && element.says("nodeset") == own;
    numa.parent().map_or(0, |parent| parent.below().filter(core).count() as u32)
}

fn processor(package: Option<Element<'_>>, architecture: Option<&str>) -> Result<Processor, ImportError> {
    let text = |name: &str| package.and_then(|package| info(package.children(), name)).unwrap_or_default().to_owned();
    let number = |name: &str| text(name).trim().parse().ok();
    // The words of NCCL, which knows three.
    let architecture = match architecture.unwrap_or_default() {
        "aarch64" => "arm64",
        "ppc64le" => "ppc64",
        other => other,
    };
    Ok(Processor {
        architecture: architecture.to_owned(),
        vendor: text("CPUVendor"),
        family: number("CPUFamilyNumber"),
        model: number("CPUModelNumber"),
    })
}

const MOST_LEVELS: usize = 256;
