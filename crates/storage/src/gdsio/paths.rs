//! The ways of bytes through a node, between storage and memory.
//!
//! Modelled: DMA by drives and adapters, by the shortest way; what a host bridge passes between devices; copies by the GPU's engine.

use std::sync::Arc;

use fabriscope_machine::{Access, Machine, Path, PeerTraffic, Purpose, ResourceId, Use, VertexId, VertexKind, Weight};
use fabriscope_tool::UsageError;

use super::{Transfer, conflict};

/// The legs of a call, in the order in which bytes pass them.
#[derive(Debug, Clone)]
pub(super) struct Legs {
    /// What each takes of links and limits.
    pub uses: Vec<Arc<[Use]>>,
    /// In words.
    pub told: String,
}

/// Where a drive hangs: a NUMA domain's host bridge, or a switch.
pub(super) fn above(machine: &Machine, name: &str) -> Result<VertexId, UsageError> {
    let bridge = name.strip_prefix("numa").map(|number| format!("bridge{number}"));
    let found = bridge.and_then(|bridge| machine.find(&bridge).ok()).or_else(|| machine.find(name).ok());
    let hangs = |id: &VertexId| {
        let kind = machine.vertex(*id).kind;
        matches!(kind, VertexKind::Numa { .. } | VertexKind::HostBridge | VertexKind::PcieSwitch)
    };
    match found.filter(hangs) {
        Some(id) => Ok(id),
        None => {
            let kinds = |kind| matches!(kind, VertexKind::Numa { .. } | VertexKind::PcieSwitch);
            let known: Vec<&str> = machine.of(kinds).map(|id| machine.vertex(id).name.as_str()).collect();
            conflict(format!("no drive can hang below `{name}` here"), format!("use one of {}", known.join(", ")))
        }
    }
}

impl Legs {
    /// The way between a device, or what it hangs below, and the memory that a call of `gpu` is about.
    pub fn new(machine: &Machine, device: VertexId, gpu: VertexId, (transfer, write): (Transfer, bool)) -> Result<Legs, UsageError> {
        let of_gpu = machine.own_memory(gpu);
        let host = || machine.host_memory_of(gpu).unwrap_or(of_gpu);
        let mut legs: Vec<(Path, Access)> = Vec::new();
        let mut add = |from: VertexId, to: VertexId, (purpose, access): (Purpose, Access)| {
            // Data go the other way round in writes.
            let (from, to) = if write { (to, from) } else { (from, to) };
            match machine.path(from, to, purpose) {
                Some(path) => {
                    legs.push((path, access));
                    Ok(())
                }
                None => {
                    let names = [from, to].map(|id| machine.vertex(id).name.clone());
                    conflict(format!("nothing leads from {} to {} in the node", names[0], names[1]), "take another GPU, or -x 1")
                }
            }
        };
        // A device brings what is read into memory, and fetches there what is written.
        let device_moves = if write { Access::Read } else { Access::Write };
        let gpu_moves = if write { Access::Write } else { Access::Read };
        match transfer {
            Transfer::GpuDirect => add(device, of_gpu, (Purpose::Dma, device_moves))?,
            Transfer::CpuOnly => add(device, host(), (Purpose::Dma, device_moves))?,
            Transfer::CpuGpu => {
                add(device, host(), (Purpose::Dma, device_moves))?;
                // On one chip there is nothing between.
                if host() != of_gpu {
                    add(host(), of_gpu, (Purpose::Copy, gpu_moves))?;
                }
            }
        }
        if write {
            legs.reverse();
        }
        let told: Vec<String> = legs.iter().map(|(path, _)| told(machine, path)).collect();
        let uses = legs.iter().map(|(path, access)| uses(machine, path, *access).into()).collect();
        Ok(Legs { uses, told: told.join(", then ") })
    }
}

/// What a leg takes, with the limits of a bridge that it begins or ends at: the device is below it.
fn uses(machine: &Machine, path: &Path, access: Access) -> Vec<Use> {
    let mut uses = machine.uses(path, access);
    let kind = |id: VertexId| machine.vertex(id).kind;
    let (bridge, other) = if kind(path.from) == VertexKind::HostBridge { (path.from, path.to) } else { (path.to, path.from) };
    let vertices = path.vertices(machine);
    let passes_host = vertices.iter().any(|id| matches!(kind(*id), VertexKind::HostMemory | VertexKind::CxlMemory));
    if kind(bridge) == VertexKind::HostBridge && kind(other) == VertexKind::DeviceMemory && !passes_host {
        let across = path.steps.iter().any(|step| machine.link(step.link).kind == fabriscope_machine::LinkKind::Smp);
        let writes = access == Access::Write;
        let gpu = vertices.iter().copied().find(|id| kind(*id) == VertexKind::Gpu);
        let limits = [
            machine.resource_of_peers(bridge, PeerTraffic { writes, across }),
            gpu.and_then(|gpu| machine.resource_of_peers(gpu, PeerTraffic { writes, across: false })),
        ];
        let known = |resource: &ResourceId| uses.iter().all(|used| used.resource != *resource);
        let more: Vec<Use> = limits.into_iter().flatten().filter(known).map(|resource| Use { resource, weight: Weight::ONE }).collect();
        uses.extend(more);
    }
    uses
}

fn told(machine: &Machine, path: &Path) -> String {
    let names: Vec<&str> = path.vertices(machine).iter().map(|id| machine.vertex(*id).name.as_str()).collect();
    names.join(" -> ")
}
