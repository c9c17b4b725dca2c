//! The path of a transfer, leg by leg, for people.

use serde::Serialize;

use crate::graph::Machine;
use crate::link::LinkKind;
use crate::path::{Access, Path, Purpose, Step};
use crate::vertex::{VertexId, VertexKind};

/// One link of a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Leg {
    /// Where it begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// The link.
    pub link: String,
    /// Latency in nanoseconds.
    pub latency_ns: f64,
    /// What it carries of data in bytes per second, if nothing else is in flight.
    pub bytes_per_s: f64,
    /// Nothing on the path carries less.
    pub binds: bool,
}

/// The legs of the path of a transfer.
#[must_use]
pub fn legs(machine: &Machine, path: &Path, access: Access) -> Vec<Leg> {
    let bound = path.bound(machine, access).map(|(_, resource)| resource);
    let leg = |step: &Step| {
        let link = machine.link(step.link);
        let (from, to) = if step.forwards { (link.a, link.b) } else { (link.b, link.a) };
        let used = machine.carried(step, access);
        Leg {
            from: machine.vertex(from).name.clone(),
            to: machine.vertex(to).name.clone(),
            link: if link.title.is_empty() { kind_name(link.kind).to_owned() } else { link.title.clone() },
            latency_ns: link.latency.as_ps() as f64 / 1000.0,
            bytes_per_s: machine.payload(used).unwrap_or_default().as_bytes_per_s_f64(),
            binds: bound == Some(used.resource),
        }
    };
    path.steps.iter().map(leg).collect()
}

/// What a kind of link is called.
#[must_use]
pub const fn kind_name(kind: LinkKind) -> &'static str {
    match kind {
        LinkKind::Memory => "memory",
        LinkKind::Die => "on the die",
        LinkKind::Smp => "between sockets",
        LinkKind::Pcie { .. } => "PCIe",
        LinkKind::NvLink { .. } | LinkKind::HostNvLink { .. } => "NVLink",
        LinkKind::Coherent => "coherent",
        LinkKind::Xgmi { .. } => "xGMI",
        LinkKind::UaLink { .. } => "UALink",
        LinkKind::Ethernet { .. } => "Ethernet",
        LinkKind::Cxl => "CXL",
        LinkKind::Mesh => "mesh",
    }
}

/// The way of a transfer between two vertices: of GPUs by their own links, of adapters by DMA.
#[must_use]
pub fn way(machine: &Machine, from: VertexId, to: VertexId) -> Option<Path> {
    let adapter = [from, to].iter().any(|end| machine.vertex(*end).kind == VertexKind::Nic);
    machine.path(from, to, if adapter { Purpose::Dma } else { Purpose::Copy })
}
