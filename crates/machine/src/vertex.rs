//! What a node is made of.

use fabriscope_units::Rate;
use serde::Serialize;

use crate::identity::Identity;

/// The number of a vertex in its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct VertexId(pub u32);

impl VertexId {
    /// As an index of an array of all vertices.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a vertex is, in the words of hwloc where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum VertexKind {
    /// A NUMA domain: cores with the fabric that joins them to memory and to host bridges.
    Numa {
        /// The socket it belongs to.
        package: u32,
    },
    /// The memory of a NUMA domain.
    HostMemory,
    /// A host bridge (root complex): where PCI Express begins.
    HostBridge,
    /// A PCI Express switch.
    PcieSwitch,
    /// A GPU or another accelerator: its engines and what joins them to links and memory.
    Gpu,
    /// The memory of a GPU.
    DeviceMemory,
    /// A network adapter.
    Nic,
    /// A switch between GPUs: NVSwitch, UALink or Scale-Up Ethernet.
    ScaleUpSwitch,
    /// Memory behind CXL.
    CxlMemory,
    /// The cores on an adapter (DPU, SmartNIC).
    Dpu,
    /// The memory of these.
    DpuMemory,
    /// Part of a wafer-scale mesh.
    Tile,
    /// Any other PCI device: storage.
    Device,
}

impl VertexKind {
    /// Whether bytes can lie there.
    #[must_use]
    pub const fn is_memory(self) -> bool {
        matches!(self, VertexKind::HostMemory | VertexKind::DeviceMemory | VertexKind::CxlMemory | VertexKind::DpuMemory)
    }
    /// Whether paths for all purposes lead through it.
    #[must_use]
    pub const fn forwards(self) -> bool {
        matches!(
            self,
            VertexKind::Numa { .. } | VertexKind::HostBridge | VertexKind::PcieSwitch | VertexKind::ScaleUpSwitch | VertexKind::Tile
        )
    }
}

/// How fast a host bridge passes traffic from one device to another, or a GPU serves other devices, where that is less than its
/// links: payload each way. A GPU has the first two only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PeerLimits {
    /// What a device reads from another one below the same socket.
    pub read: Option<Rate>,
    /// What a device writes to another one below the same socket.
    pub write: Option<Rate>,
    /// What a device reads from another one below another socket.
    pub read_across: Option<Rate>,
    /// What a device writes to another one below another socket.
    pub write_across: Option<Rate>,
}

impl PeerLimits {
    /// Reads, writes, and both across sockets.
    pub(crate) const fn each(&self) -> [Option<Rate>; 4] {
        [self.read, self.write, self.read_across, self.write_across]
    }
}

/// One vertex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vertex {
    /// A name that no other vertex of the machine has: `gpu0`, `numa1`, `mlx5_0`.
    pub name: String,
    /// What it is.
    pub kind: VertexKind,
    /// The part it is, for people: `A100-SXM4-80GB`.
    pub title: String,
    /// Its address on the bus, as Linux writes it: `0000:17:00.0`. Empty where there is none.
    pub bus: String,
    /// GPUs only: traffic between two others may pass it (xGMI between GPUs of AMD).
    pub relays: bool,
    /// Host bridges and GPUs only.
    pub peer: PeerLimits,
    /// What it is as a piece of hardware.
    pub identity: Identity,
}

impl Vertex {
    /// A vertex with a name and nothing else said.
    #[must_use]
    pub fn new(kind: VertexKind, name: impl Into<String>) -> Vertex {
        Vertex {
            name: name.into(),
            kind,
            title: String::new(),
            bus: String::new(),
            relays: false,
            peer: PeerLimits::default(),
            identity: Identity::default(),
        }
    }
    /// The same, called `title` for people.
    #[must_use]
    pub fn titled(mut self, title: impl Into<String>) -> Vertex {
        self.title = title.into();
        self
    }
}
