//! Who hangs below whom: the graph of a node as trees below its NUMA domains.

use crate::graph::Machine;
use crate::link::{LinkId, LinkKind};
use crate::vertex::{VertexId, VertexKind};

/// The trees, and what is in none.
pub(super) struct Trees {
    /// What is below each vertex, with the link that leads there.
    pub(super) below: Vec<Vec<(VertexId, LinkId)>>,
    /// Links of the trees.
    pub(super) used: Vec<bool>,
    /// Switches between accelerators.
    pub(super) middle: Vec<VertexId>,
    /// Whatever else no tree reaches.
    pub(super) loose: Vec<VertexId>,
}

impl Trees {
    pub(super) fn of(machine: &Machine) -> Trees {
        let count = machine.vertices().len();
        let (below, used) = (vec![Vec::new(); count], vec![false; machine.links().len()]);
        let mut hanging = Trees { below, used, middle: Vec::new(), loose: Vec::new() };
        let mut seen = vec![false; count];
        let numas = machine.numas();
        numas.iter().for_each(|numa| seen[numa.index()] = true);
        // Memories first, so that they lie beside what they are the memory of; then PCI Express, then whatever else leads from a
        // processor to a device.
        let memory = |kind: LinkKind, _: VertexKind, to: VertexKind| kind == LinkKind::Memory && to.is_memory();
        // Of a memory that processor and GPU share, that of the GPU.
        let accelerators = machine.of(|kind| matches!(kind, VertexKind::Gpu | VertexKind::Tile | VertexKind::Dpu));
        for id in accelerators.chain(numas.iter().copied()) {
            hanging.hang(machine, id, &mut seen, memory, false);
        }
        let bus = |kind: LinkKind, from: VertexKind, to: VertexKind| match from {
            VertexKind::Numa { .. } => kind == LinkKind::Die && to == VertexKind::HostBridge,
            _ => matches!(kind, LinkKind::Pcie { .. }),
        };
        let other = |kind: LinkKind, from: VertexKind, to: VertexKind| match from {
            VertexKind::Numa { .. } => {
                kind != LinkKind::Smp && !matches!(to, VertexKind::Numa { .. } | VertexKind::ScaleUpSwitch | VertexKind::HostBridge)
            }
            // Adapters on the chip of an accelerator.
            _ => to == VertexKind::Nic,
        };
        numas.iter().for_each(|numa| hanging.hang(machine, *numa, &mut seen, bus, true));
        numas.iter().for_each(|numa| hanging.hang(machine, *numa, &mut seen, other, false));
        // What hangs at these in turn.
        for id in machine.of(|kind| matches!(kind, VertexKind::Gpu | VertexKind::PcieSwitch)) {
            if seen[id.index()] {
                hanging.hang(machine, id, &mut seen, bus, true);
                hanging.hang(machine, id, &mut seen, other, false);
            }
        }
        for id in (0..count as u32).map(VertexId).filter(|id| !seen[id.index()]) {
            let switch = machine.vertex(id).kind == VertexKind::ScaleUpSwitch;
            if switch { hanging.middle.push(id) } else { hanging.loose.push(id) }
        }
        hanging
    }

    /// Hangs below `id` what is reached by wanted links and hangs nowhere yet; with `deep` also what is below that.
    fn hang(
        &mut self,
        machine: &Machine,
        id: VertexId,
        seen: &mut [bool],
        wanted: impl Fn(LinkKind, VertexKind, VertexKind) -> bool,
        deep: bool,
    ) {
        let mut open = vec![id];
        while let Some(here) = open.pop() {
            for link in machine.around(here) {
                let to = machine.link(*link).other(here);
                let kinds = (machine.link(*link).kind, machine.vertex(here).kind, machine.vertex(to).kind);
                if !seen[to.index()] && wanted(kinds.0, kinds.1, kinds.2) {
                    seen[to.index()] = true;
                    self.used[link.index()] = true;
                    self.below[here.index()].push((to, *link));
                    if deep {
                        open.push(to);
                    }
                }
            }
        }
    }
}
