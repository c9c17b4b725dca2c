//! The cores on adapters as programs see them.

use fabriscope_catalog::{ResolvedDpu, ResolvedNode};
use fabriscope_units::Bytes;

use crate::processor::Processor;

/// The cores on an adapter as a tool sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DpuTarget {
    /// The adapter's name.
    pub name: String,
    /// Cores that programs may use.
    pub cores: u32,
    /// They may use keys of the host's memory (GVMI).
    pub cross_keys: bool,
}

impl DpuTarget {
    /// The cores on the adapters of a node, where there are some.
    #[must_use]
    pub fn of(node: &ResolvedNode) -> Option<DpuTarget> {
        let part = &node.dpu.as_ref()?.part;
        Some(DpuTarget { name: node.nic.name.clone(), cores: part.cores, cross_keys: *part.cross_keys })
    }
}

/// The cores on the adapters of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterCores {
    /// What they are.
    pub title: String,
    /// How many, and what their memory moves.
    pub processor: Processor,
    /// How much it holds.
    pub memory: Bytes,
}

impl AdapterCores {
    /// What the cores of a DPU are; nothing where its part does not say what their memory moves.
    #[must_use]
    pub fn of(dpu: &ResolvedDpu) -> Option<AdapterCores> {
        let processor = Processor { cores: dpu.part.cores, memory: dpu.memory_rate(), ..Processor::of(&dpu.cpu, 1)? };
        Some(AdapterCores { title: dpu.cpu.title.clone(), processor, memory: *dpu.part.memory.size })
    }
}
