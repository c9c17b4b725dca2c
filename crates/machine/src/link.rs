//! What joins the vertices of a node.

use fabriscope_units::{Bytes, Rate, Span};
use serde::Serialize;

use crate::sharing::Weight;
use crate::vertex::VertexId;

/// The number of a link in its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct LinkId(pub u32);

impl LinkId {
    /// As an index of an array of all links.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The technology of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum LinkKind {
    /// From a processor or GPU to its memory.
    Memory,
    /// Within a socket: from NUMA domain to NUMA domain and to host bridges.
    Die,
    /// Between sockets: QPI, UPI, HyperTransport, Infinity Fabric, NVLink between Graces.
    Smp,
    /// PCI Express.
    Pcie {
        /// Its generation.
        generation: u32,
        /// Lanes in use.
        lanes: u32,
    },
    /// NVLink between GPUs or to an NVSwitch; all links between two vertices are one.
    NvLink {
        /// Its generation.
        generation: u32,
        /// How many.
        links: u32,
    },
    /// NVLink-C2C or another coherent link between a processor and a GPU.
    Coherent,
    /// NVLink between a POWER processor and a GPU, which is coherent; all links between the two are one.
    HostNvLink {
        /// Its generation.
        generation: u32,
        /// How many.
        links: u32,
    },
    /// xGMI (Infinity Fabric) between GPUs, or between a processor and a GPU.
    Xgmi {
        /// How many.
        links: u32,
    },
    /// UALink between accelerators.
    UaLink {
        /// How many.
        links: u32,
    },
    /// Ethernet between accelerators: Scale-Up Ethernet, RoCE engines on the chip.
    Ethernet {
        /// How many.
        links: u32,
    },
    /// CXL to memory.
    Cxl,
    /// A mesh on a wafer or a die of an accelerator.
    Mesh,
}

impl LinkKind {
    /// Whether it joins a processor and a GPU that see each other's memory through it.
    #[must_use]
    pub const fn is_coherent(self) -> bool {
        matches!(self, LinkKind::Coherent | LinkKind::HostNvLink { .. })
    }
    /// Whether it joins accelerators beside PCI Express.
    #[must_use]
    pub const fn is_scale_up(self) -> bool {
        matches!(
            self,
            LinkKind::NvLink { .. } | LinkKind::Xgmi { .. } | LinkKind::UaLink { .. } | LinkKind::Ethernet { .. } | LinkKind::Mesh
        )
    }
}

/// A packet on a link: so much payload in so many bytes more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Tlp {
    /// Largest payload.
    pub payload: Bytes,
    /// Bytes beside it.
    pub overhead: Bytes,
}

impl Tlp {
    /// What a byte of payload takes of the link.
    #[must_use]
    pub fn weight(self) -> Weight {
        Weight::of(self.payload.0 + self.overhead.0, self.payload.0)
    }
    /// Nothing is beside the payload.
    #[must_use]
    pub const fn takes_nothing(&self) -> bool {
        self.overhead.0 == 0
    }
}

/// What is on a link beside payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Framing {
    /// Packets that carry what is written.
    pub write: Tlp,
    /// Packets that carry what was read.
    pub read: Tlp,
    /// A request to read so much, and the bytes it takes the other way.
    pub request: Tlp,
    /// The answer to a write of so much, and the bytes it takes the other way.
    #[serde(skip_serializing_if = "Tlp::takes_nothing")]
    pub response: Tlp,
}

impl Framing {
    /// A link whose rate is one of payload.
    pub const NONE: Framing = {
        let plain = Tlp { payload: Bytes(1 << 16), overhead: Bytes(0) };
        Framing { write: plain, read: plain, request: plain, response: plain }
    };
}

/// One link, or several in parallel that are used as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// One end.
    pub a: VertexId,
    /// The other.
    pub b: VertexId,
    /// Its technology.
    pub kind: LinkKind,
    /// The part, for people: `PCIe 4.0 x16`, `NVLink 3 x12`.
    pub title: String,
    /// From `a` to `b`, and from `b` to `a`, framing included.
    pub rate: [Rate; 2],
    /// What is on it beside payload.
    pub framing: Framing,
    /// From end to end, the vertex behind it included.
    pub latency: Span,
}

impl Link {
    /// A link of the same rate both ways without framing.
    #[must_use]
    pub fn new(a: VertexId, b: VertexId, kind: LinkKind, rate: Rate, latency: Span) -> Link {
        Link { a, b, kind, title: String::new(), rate: [rate; 2], framing: Framing::NONE, latency }
    }
    /// The end that is not `from`.
    #[must_use]
    pub fn other(&self, from: VertexId) -> VertexId {
        if from == self.a { self.b } else { self.a }
    }
}
