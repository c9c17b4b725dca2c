//! The GPUs of a node as programs see them.

use fabriscope_catalog::{Gpu, ResolvedNode};
use fabriscope_machine::Machine;
use fabriscope_units::{Rate, Span};

use crate::address::PciAddress;

/// What programs know of the GPUs of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuTarget {
    /// What one calls itself: `NVIDIA A100-SXM4-80GB`.
    pub title: String,
    /// How many each node has.
    pub count: u32,
    /// PCI addresses of those of a node, in order, as Linux writes them; empty where the node part does not say.
    pub buses: Vec<String>,
    /// What a kernel gets of the memory when it only reads.
    pub read_rate: Rate,
    /// What a byte written costs of that beyond a byte read, in thousandths: the bus turns round.
    pub write_cost: u32,
    /// From starting a kernel until a core that waits for its end goes on, beside what the kernel does.
    pub launch: Span,
}

impl GpuTarget {
    /// The GPUs of a node.
    #[must_use]
    pub fn of(gpu: &Gpu, node: &ResolvedNode) -> GpuTarget {
        let named = |machine: Machine| machine.gpus().iter().map(|id| machine.vertex(*id).bus.clone()).collect();
        let buses: Vec<String> = node.machine().map_or_else(|_| Vec::new(), named);
        GpuTarget {
            title: gpu.title.clone(),
            count: node.gpus,
            buses: if buses.iter().all(String::is_empty) { Vec::new() } else { buses },
            read_rate: gpu.memory.read_rate(),
            write_cost: gpu.memory.write_cost.of_count(1000),
            launch: gpu.calls.kernel(),
        }
    }
    /// The PCI address of every GPU; made up where the node part does not say it: bus 1 and up.
    #[must_use]
    pub fn addresses(&self) -> Vec<PciAddress> {
        addresses(&self.buses, self.count)
    }
}

/// Addresses from what the machine says of its GPUs; made up where it does not: bus 1 and up.
pub(crate) fn addresses(buses: &[String], count: u32) -> Vec<PciAddress> {
    let known = |index: u32| buses.get(index as usize).and_then(|bus| PciAddress::parse(bus));
    let made_up = |index: u32| PciAddress { domain: 0, bus: index + 1, device: 0 };
    (0..count).map(|index| known(index).unwrap_or_else(|| made_up(index))).collect()
}
