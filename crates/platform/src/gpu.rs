//! The GPUs of a node as programs see them.

use fabriscope_catalog::{Gpu, ResolvedNode, ScaleUp, Switched};
use fabriscope_machine::Machine;
use fabriscope_units::{Bytes, Rate, Span};

use crate::address::PciAddress;

/// What programs know of the GPUs of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuTarget {
    /// What one calls itself: `NVIDIA A100-SXM4-80GB`.
    pub title: String,
    /// How many each node has.
    pub count: u32,
    /// How many of these one operating system has: those of a tray, where a node is several.
    pub own: u32,
    /// The switches between those of a node.
    pub switches: Option<ScaleUpSwitches>,
    /// PCI addresses of those of a node, in order, as Linux writes them; empty where the node part does not say.
    pub buses: Vec<String>,
    /// What a kernel gets of the memory when it only reads.
    pub read_rate: Rate,
    /// What a byte written costs of that beyond a byte read, in thousandths: the bus turns round.
    pub write_cost: u32,
    /// From starting a kernel until a core that waits for its end goes on, beside what the kernel does.
    pub launch: Span,
}

/// Switches between the GPUs of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleUpSwitches {
    /// How many: each GPU is joined to all of them.
    pub count: u32,
    /// Links of a GPU to all of them together.
    pub links: u32,
    /// What they do with vectors that they add up.
    pub reduction: Option<Reduction>,
}

/// Sums in such a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reduction {
    /// From the last contribution to the first byte of the sum, beside the way through the switch.
    pub latency: Span,
    /// Data of a packet.
    pub payload: Bytes,
    /// From one such packet of a link to the next.
    pub interval: Span,
}

impl ScaleUpSwitches {
    fn of(switched: &Switched) -> ScaleUpSwitches {
        let reduction = switched.reduction.as_ref();
        let reduction = reduction.map(|sums| Reduction { latency: *sums.latency, payload: *sums.payload, interval: *sums.interval });
        ScaleUpSwitches { count: switched.switches, links: switched.links, reduction }
    }
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
            own: node.gpus.div_ceil(node.layout.part.trays.max(1)),
            switches: match &node.layout.part.scale_up {
                Some(ScaleUp::Switched(switched)) => Some(ScaleUpSwitches::of(switched)),
                _ => None,
            },
            buses: if buses.iter().all(String::is_empty) { Vec::new() } else { buses },
            read_rate: gpu.memory.read_rate(),
            write_cost: gpu.memory.write_cost.of_count(1000),
            launch: gpu.calls.kernel(),
        }
    }
    /// The same as a program sees them that runs under one operating system.
    #[must_use]
    pub fn of_one_system(mut self) -> GpuTarget {
        self.count = self.own;
        self.buses.truncate(self.own as usize);
        self
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
