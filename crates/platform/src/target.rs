//! What a program has to know of the simulated machine before it starts.

use fabriscope_catalog::{
    Aggregation, Drive, ExpertLibrary, Hcl, Interface, Layer, Mpi, NvmeOffload, Perftest, Rdma, ResolvedCluster, Shared, Shmem, Software,
    Wafer,
};
use fabriscope_wire::Mtu;

use crate::binding::Binding;
use crate::compression::CompressionTarget;
use crate::dpu::{AdapterCores, DpuTarget};
use crate::gpu::GpuTarget;
use crate::loads::{Loads, Untold};
use crate::nccl::{JobLibrary, Library};
use crate::processor::Processor;
use crate::unlike::Unlike;

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
    /// The same on nodes that are unlike, or why it does not run between them; away where the nodes of the job are alike.
    pub nccl_between: Option<Result<JobLibrary, Unlike>>,
    /// Which of them each rank of a node has.
    pub binding: Binding,
    /// The cores on the adapters, where these have some.
    pub dpu: Option<DpuTarget>,
    /// What the switches reduce, and their name.
    pub aggregation: Option<(String, Aggregation)>,
    /// The processors of a node, where it is known what their memory moves.
    pub processor: Option<Processor>,
    /// What loads of its cores take on their way to memory; why nobody can tell where parts do not say it.
    pub loads: Result<Loads, Untold>,
    /// The adapters have counting events and triggered operations.
    pub triggered: bool,
    /// The cores on its adapters, where these have some.
    pub cores: Option<AdapterCores>,
    /// The engine for compression on its adapters, where these have one.
    pub compression: Option<CompressionTarget>,
    /// Defaults of perftest, if the cluster's software has them; otherwise the tool's own.
    pub perftest: Option<Perftest>,
    /// Libraries that exchange tokens among experts, by name, and through what each drives adapters.
    pub experts: Vec<(String, Interface, ExpertLibrary)>,
    /// How the adapters serve such commands by themselves, where they can.
    pub nvme_offload: Option<NvmeOffload>,
    /// The drives of the catalogue, which nodes may have.
    pub drives: Vec<Shared<Drive>>,
    /// Those of every node, by name, and how many.
    pub node_drives: Option<(String, u32)>,
    /// Libraries that call procedures on other nodes, those that shuffle, and what carries out commands of NVMe.
    pub services: Vec<Shared<Software>>,
    /// How HCL cuts operations, where it is the library of the accelerators.
    pub hcl: Option<Hcl>,
    /// The cores of the wafer that a node is, if it is one.
    pub wafer: Option<Wafer>,
    /// Each iteration of a tool is simulated, though it repeats those before: somebody counts or takes down what happens, or others use the
    /// network beside it.
    pub every_iteration: bool,
}

impl Target {
    /// What programs of a job find whose nodes may be unlike: what all of them have in common. Each process keeps the costs of its own
    /// node; what has to be the same at both ends of a message is the lesser of the two.
    ///
    /// # Errors
    /// Adapters or libraries that do not understand each other.
    pub fn common(parts: &ResolvedCluster, layout: Layout, binding: Binding) -> Result<Target, Unlike> {
        let views: Vec<ResolvedCluster> = (0..parts.groups.len()).filter_map(|number| parts.narrowed(number)).collect();
        let mut targets = views.iter().map(|view| Target::of(view, layout, binding.clone()));
        let first = targets.next().unwrap_or_else(|| Target::of(parts, layout, binding.clone()));
        if views.len() < 2 {
            return Ok(first);
        }
        let conflict = |what: String| Err(Unlike { what });
        let mut common = Target { nodes: parts.nodes(), dpu: None, nccl: None, processor: None, cores: None, compression: None, ..first };
        for (target, group) in targets.zip(&parts.groups[1..]) {
            let own = &parts.groups[0];
            if target.interface != common.interface || target.rdma != common.rdma {
                let (one, other) = (&own.node.nic, &group.node.nic);
                return conflict(format!(
                    "the adapters `{}` of `{}` and `{}` of `{}` cannot talk",
                    one.name, own.name, other.name, group.name
                ));
            }
            if group.software.name != own.software.name {
                let (one, other) = (&own.software.name, &group.software.name);
                return conflict(format!("two libraries that cannot talk: `{one}` of `{}` and `{other}` of `{}`", own.name, group.name));
            }
            common.devices.truncate(target.devices.len());
            common.datagram = common.datagram.zip(target.datagram).map(|(one, other)| one.min(other));
            common.max_inline = common.max_inline.min(target.max_inline);
            common.max_outstanding_reads = common.max_outstanding_reads.min(target.max_outstanding_reads);
            common.unordered |= target.unordered;
            if target.gpu != common.gpu {
                common.gpu = None;
            }
        }
        Ok(common)
    }

    /// The same for a job on these nodes, in the order of its ranks, whose GPUs a collective library joins.
    #[must_use]
    pub fn joined(self, parts: &ResolvedCluster, nodes: &[u32]) -> Target {
        let nccl_between = parts.uniform().is_none().then(|| JobLibrary::on_nodes(parts, nodes));
        Target { nccl_between, ..self }
    }

    /// What programs of a job of this shape find on a cluster whose nodes are alike.
    #[must_use]
    pub fn of(parts: &ResolvedCluster, layout: Layout, binding: Binding) -> Target {
        let nic = &parts.sole().node.nic;
        Target {
            gpu: parts.sole().node.gpu.as_ref().map(|gpu| GpuTarget::of(gpu, &parts.sole().node)),
            nccl: Library::of(parts),
            nccl_between: None,
            nodes: parts.nodes(),
            layout,
            devices: (0..parts.sole().node.nics).map(|number| device(nic.interface, number)).collect(),
            interface: nic.interface,
            link: match parts.link_layer.layer() {
                Layer::InfiniBand => LinkType::InfiniBand,
                Layer::Ethernet => LinkType::Ethernet,
            },
            mtu: parts.mtu.saturating_u32(),
            datagram: nic.datagram_max.as_ref().map(|most| most.saturating_u32()),
            rdma: nic.rdma,
            max_inline: nic.max_inline.saturating_u32(),
            max_outstanding_reads: u8::try_from(*nic.max_rd_atomic).unwrap_or(u8::MAX),
            binding,
            mpi: parts.sole().software.mpi.clone(),
            shmem: parts.sole().software.shmem.clone().filter(|shmem| shmem.provided),
            unordered: nic.any_order || nic.interface == Interface::Efa,
            dpu: DpuTarget::of(&parts.sole().node),
            triggered: nic.triggered.is_some(),
            aggregation: parts.switch.as_ref().and_then(|switch| Some((switch.name.clone(), switch.aggregation.clone()?))),
            processor: Processor::of(&parts.sole().node.cpu, parts.sole().node.sockets),
            loads: Loads::of(&parts.sole().node),
            cores: parts.sole().node.dpu.as_ref().and_then(AdapterCores::of),
            compression: CompressionTarget::of(&parts.sole().node),
            perftest: parts.sole().software.perftest.clone().or_else(|| parts.perftest.perftest.clone()),
            experts: parts.experts.iter().filter_map(|part| Some((part.name.clone(), part.interface, part.experts.clone()?))).collect(),
            nvme_offload: nic.nvme.clone(),
            drives: parts.drives.clone(),
            node_drives: parts.sole().node.layout.part.drives.as_ref().map(|drives| (drives.part.clone(), *drives.count)),
            services: parts.services.clone(),
            hcl: parts.sole().nccl.as_ref().and_then(|part| part.hcl.clone()),
            wafer: parts.sole().node.layout.part.wafer.clone(),
            every_iteration: true,
        }
    }
}

/// The name of an adapter in `/sys/class`.
#[must_use]
pub fn device(interface: Interface, number: u32) -> String {
    match interface {
        Interface::Cxi => format!("cxi{number}"),
        Interface::Efa => format!("efa_{number}"),
        Interface::Psm2 => format!("hfi1_{number}"),
        Interface::Ugni => format!("kgni{number}"),
        Interface::Portals => format!("bxi{number}"),
        Interface::Iwarp => format!("cxgb4_{number}"),
        Interface::Verbs | Interface::Sockets => format!("mlx5_{number}"),
    }
}

/// The largest MTU of the standard that is not above `bytes`: what a port negotiates.
#[must_use]
pub fn path_mtu(bytes: u32) -> Mtu {
    let fits = |mtu: &Mtu| mtu.bytes().0 <= u64::from(bytes);
    Mtu::ALL.into_iter().rev().find(fits).unwrap_or(Mtu::B256)
}
