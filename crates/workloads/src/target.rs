//! What a tool has to know of the simulated machine before it starts.

use fabriscope_catalog::{Aggregation, Interface, Mpi, Perftest, Rdma, ResolvedNode, Shmem};
use fabriscope_verbs::Mtu;

use crate::error::UsageError;
use crate::gpu::GpuTarget;
use crate::krylov::{AdapterCores, Processor};
use crate::mpi::Binding;
use crate::nccl::Library;

/// Link layer of the ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkType {
    /// InfiniBand: addressed by LID.
    InfiniBand,
    /// Ethernet (RoCE): addressed by GID.
    Ethernet,
}

/// How many nodes a collective job takes, and how many ranks each of them runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Nodes.
    pub nodes: u32,
    /// Ranks on each, one core each.
    pub per_node: u32,
}

impl Layout {
    /// Ranks of the job.
    #[must_use]
    pub fn ranks(self) -> u32 {
        self.nodes.saturating_mul(self.per_node)
    }
}

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

/// The machine as a tool sees it.
#[derive(Debug, Clone)]
pub struct Target {
    /// Nodes that take part.
    pub nodes: u32,
    /// The shape of a collective job; programs between two nodes do not look at it.
    pub layout: Layout,
    /// Names of the NICs of every node, in order: `mlx5_0`, `mlx5_1`, …
    pub devices: Vec<String>,
    /// Through what programs drive the NICs.
    pub interface: Interface,
    /// Link layer of the ports.
    pub link: LinkType,
    /// Path MTU in bytes.
    pub mtu: u32,
    /// Largest datagram in bytes, where the adapter has larger ones than the path MTU.
    pub datagram: Option<u32>,
    /// What the adapters do with memory for their peers.
    pub rdma: Rdma,
    /// Largest message that fits into a work request, in bytes.
    pub max_inline: u32,
    /// Reads and atomics a queue pair may have outstanding.
    pub max_outstanding_reads: u8,
    /// The MPI library that the OSU benchmarks are linked with, if the cluster has one.
    pub mpi: Option<Mpi>,
    /// The OpenSHMEM library over the same transport, if there is one.
    pub shmem: Option<Shmem>,
    /// Adapters or the fabric may deliver writes to a peer in another order than they were posted in.
    pub unordered: bool,
    /// The GPUs of every node, if there are any.
    pub gpu: Option<GpuTarget>,
    /// NCCL or RCCL on them, if there is one over the adapters.
    pub nccl: Option<Library>,
    /// Which of them each rank of a node has.
    pub binding: Binding,
    /// The cores on the adapters, where these have some.
    pub dpu: Option<DpuTarget>,
    /// What the switches reduce, and their name.
    pub aggregation: Option<(String, Aggregation)>,
    /// The processors of a node, where it is known what their memory moves.
    pub processor: Option<Processor>,
    /// The cores on its adapters, where these have some.
    pub cores: Option<AdapterCores>,
    /// Defaults of perftest, if the cluster's software has them; otherwise the tool's own.
    pub perftest: Option<Perftest>,
}

impl Target {
    /// The MPI library that `tool` is linked with.
    ///
    /// # Errors
    /// The cluster's software has none.
    pub(crate) fn mpi_for(&self, tool: &str) -> Result<&Mpi, UsageError> {
        self.mpi.as_ref().ok_or_else(|| UsageError::Conflict {
            what: format!("{tool} needs an MPI library, and the cluster's software has none"),
            remedy: "choose software with an [mpi] table".to_owned(),
        })
    }
}

/// The largest MTU of the standard that is not above `bytes`: what a port negotiates.
pub(crate) fn path_mtu(bytes: u32) -> Mtu {
    let fits = |mtu: &Mtu| mtu.bytes().0 <= u64::from(bytes);
    Mtu::ALL.into_iter().rev().find(fits).unwrap_or(Mtu::B256)
}
