//! XML of hwloc: what `lstopo --of xml` writes.
//!
//! ```text
//! <topology version="2.0">
//!   <object type="Machine" …><info name="HostName" value="gpu01"/>
//!     <object type="Package" …><object type="NUMANode" os_index="0" cpuset="0x0000ffff" local_memory="…"/> … cores …
//!       <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[16-1f]"> … PCI devices, see `hwloc_devices`
//! ```
//!
//! Source: hwloc 1.x to 3.0 (<https://www.open-mpi.org/projects/hwloc/doc/>), chapters "Terms and definitions", "I/O devices".
//! Read: packages, NUMA domains with processors, cores and memories (`hwloc_domains`), the model of the processor, host bridges, PCI
//! bridges and devices, GPUs and adapters by the operating system's devices, bandwidths of NVLink. A file without PCI devices is legal.
//! Not read: caches, groups, memory attributes, devices that are no PCI devices.

use super::assembly::Draft;
use super::element::Element;
use super::error::ImportError;
use super::hwloc_devices::Devices;
use super::hwloc_domains::Domains;
use super::rates::Rates;
use super::{Format, NodeFile, hwloc_links};
use crate::cpu_set::CpuSet;

/// Reads the file whose first element is `topology`.
pub(super) fn read(topology: Element<'_>, rates: &Rates) -> Result<NodeFile, ImportError> {
    let version = topology.says("version").unwrap_or("1");
    let third = match version.split('.').next() {
        Some("1" | "2") => false,
        Some("3") => true,
        _ => {
            let known = "1.x to 3.0";
            return Err(ImportError::Version { line: topology.line(), format: "hwloc's XML", found: version.to_owned(), known });
        }
    };
    let mut draft = Draft::new(rates);
    let domains = Domains::read(&mut draft, topology)?;
    let objects = || topology.below().filter(|element| element.name() == "object");
    let mut devices = Devices::new(third, &domains, topology);
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

const MOST_LEVELS: usize = 256;
