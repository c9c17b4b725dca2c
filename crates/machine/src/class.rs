//! How near two devices are, in the classes of NCCL and nvidia-smi.
//!
//! Source: NCCL, src/graph/topo.h (PATH_*); `nvidia-smi topo -m` (legend).

use std::fmt;

use serde::Serialize;

use crate::graph::Machine;
use crate::link::LinkKind;
use crate::path::{Path, Purpose};
use crate::vertex::{VertexId, VertexKind};

/// The class of a path, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum PathClass {
    /// The same device.
    Loc,
    /// Links between GPUs, directly or through their switch.
    Nvl,
    /// Links between GPUs, through a third one.
    Nvb,
    /// A coherent link between processor and GPU.
    C2c,
    /// At most one PCI Express switch.
    Pix,
    /// Several PCI Express switches, and no host bridge.
    Pxb,
    /// A host bridge.
    Phb,
    /// Several host bridges of one socket.
    Node,
    /// The link between sockets.
    Sys,
    /// No path.
    Dis,
}

impl fmt::Display for PathClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PathClass::Loc => "LOC",
            PathClass::Nvl => "NVL",
            PathClass::Nvb => "NVB",
            PathClass::C2c => "C2C",
            PathClass::Pix => "PIX",
            PathClass::Pxb => "PXB",
            PathClass::Phb => "PHB",
            PathClass::Node => "NODE",
            PathClass::Sys => "SYS",
            PathClass::Dis => "DIS",
        })
    }
}

impl Machine {
    /// How near two devices are.
    #[must_use]
    pub fn class(&self, from: VertexId, to: VertexId) -> PathClass {
        let both_gpus = [from, to].iter().all(|end| self.vertex(*end).kind == VertexKind::Gpu);
        let purpose = if both_gpus { Purpose::Copy } else { Purpose::Dma };
        self.path(from, to, purpose).map_or(PathClass::Dis, |path| self.class_of(&path))
    }

    /// The class of a path.
    #[must_use]
    pub fn class_of(&self, path: &Path) -> PathClass {
        let kinds = || path.steps.iter().map(|step| self.link(step.link).kind);
        let vertices = path.vertices(self);
        let inner = vertices.get(1..vertices.len().saturating_sub(1)).unwrap_or_default();
        let count = |wanted: fn(VertexKind) -> bool| inner.iter().filter(|id| wanted(self.vertex(**id).kind)).count();
        if path.steps.is_empty() {
            PathClass::Loc
        } else if kinds().any(|kind| kind == LinkKind::Smp) {
            PathClass::Sys
        } else if kinds().all(|kind| kind.is_scale_up() || kind == LinkKind::Memory) {
            // The GPU whose memory is an end passes nothing on.
            let relay = |id: &&VertexId| {
                let own = self.memory_of(**id).is_some_and(|memory| [path.from, path.to].contains(&memory));
                self.vertex(**id).kind == VertexKind::Gpu && !own
            };
            if inner.iter().any(|id| relay(&id)) { PathClass::Nvb } else { PathClass::Nvl }
        } else if kinds().any(LinkKind::is_coherent) && count(|kind| kind == VertexKind::HostBridge) == 0 {
            PathClass::C2c
        } else {
            match (count(|kind| kind == VertexKind::HostBridge), count(|kind| kind == VertexKind::PcieSwitch)) {
                (0, 0 | 1) => PathClass::Pix,
                (0, _) => PathClass::Pxb,
                (1, _) => PathClass::Phb,
                _ => PathClass::Node,
            }
        }
    }
}
