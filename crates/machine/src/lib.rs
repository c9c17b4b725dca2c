//! One node as a graph: memories, NUMA domains, host bridges, PCI Express switches, GPUs, adapters and the links among them.
//!
//! A transfer is a [`Path`] in the graph; its latency is the sum of its links', and its speed follows from what the links and
//! limits on it carry and from who else uses them ([`Sharing`]). Whether an adapter reaches a GPU's memory below one switch, through
//! the host bridge or across sockets is a property of the path, and so are GPUDirect, the nearest adapter and NUMA distance.
//!
//! Source: hwloc (F. Broquedis et al., PDP 2010) for the vocabulary; NCCL's topology search for the classes of paths.
//! Modelled: rates of each link and direction, bytes that framing adds, latency, limits of host bridges for peer-to-peer traffic.
//! Not modelled: caches, coherence traffic, power.

#![warn(missing_docs)]

mod builder;
mod bus;
mod class;
mod cpu_set;
pub mod export;
mod graph;
mod identity;
pub mod import;
mod leg;
mod link;
mod path;
#[cfg(test)]
mod path_test;
pub mod picture;
pub mod sharing;
#[cfg(test)]
mod sharing_test;
mod vertex;

pub use builder::{Builder, MachineError};
pub use class::PathClass;
pub use cpu_set::CpuSet;
pub use graph::{Machine, PeerTraffic, ResourceId};
pub use identity::{Bundle, Identity, Port, Processor};
pub use leg::{Leg, kind_name, legs, way};
pub use link::{Framing, Link, LinkId, LinkKind, Tlp};
pub use path::{Access, Path, Purpose, Step};
pub use sharing::{FlowId, Sharing, Use, Weight};
pub use vertex::{PeerLimits, Vertex, VertexId, VertexKind};
