//! The cores of an adapter with their parts at hand, and their place in the graph of the node.

use fabriscope_machine::{Link, LinkKind, Vertex, VertexId, VertexKind};
use fabriscope_units::{Rate, Span};
use serde::Serialize;

use crate::copy_on_write::Shared;
use crate::machine::Wiring;
use crate::node::ResolvedSlot;
use crate::part::{Cpu, Dpu};

/// The cores of an adapter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedDpu {
    /// What the adapter says of them.
    pub part: Dpu,
    /// Their processor.
    pub cpu: Shared<Cpu>,
    /// The adapter's own port at the switch.
    pub port: ResolvedSlot,
    /// The link between cores and switch.
    pub pcie: ResolvedSlot,
}

impl ResolvedDpu {
    /// What all cores move together in their memory.
    pub fn memory_rate(&self) -> Rate {
        let cores = Rate::from_bps(self.cpu.copy_rate_streaming.as_bps().saturating_mul(2 * u64::from(self.part.cores)));
        self.cpu.memory.as_ref().map_or_else(|| cores.min(self.part.memory.peak()), |memory| *memory.copy_rate)
    }
    /// Half of what the switch adds: on each side of it.
    fn half(&self) -> Span {
        Span::from_ps(self.part.switch_latency.as_ps() / 2)
    }
}

impl Wiring<'_> {
    /// The switch between host, cores and adapter `number`, below `above`, with the cores and their memory; what the adapter hangs under,
    /// and what of the way lies there.
    pub(crate) fn dpu(&mut self, dpu: &ResolvedDpu, number: usize, above: VertexId, latency: Span) -> (VertexId, Span) {
        let half = dpu.half();
        let switch = self.builder.vertex(Vertex::new(VertexKind::PcieSwitch, format!("nic{number}-switch")));
        self.slot(above, switch, &self.node.pcie, latency + half);
        let cores = self.builder.vertex(Vertex::new(VertexKind::Dpu, format!("dpu{number}")).titled(&dpu.cpu.title));
        let root = &dpu.cpu.root_complex;
        self.slot_of(root, switch, cores, &dpu.pcie, *root.dma_write_latency + half);
        let kind = format!("{:?}", dpu.part.memory.kind).to_uppercase();
        let memory = self.builder.vertex(Vertex::new(VertexKind::DpuMemory, format!("dpu{number}-memory")).titled(kind));
        self.builder.link(Link::new(cores, memory, LinkKind::Memory, dpu.memory_rate(), Span::ZERO));
        (switch, half)
    }
}
