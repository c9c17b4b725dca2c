//! The kinds of part: one file describes one part, its folder says which kind.

mod aggregation;
mod cable;
pub mod collective_rules;
pub mod congestion;
mod cpu;
mod decisions;
mod dgemm;
mod dpu;
mod drive;
mod experts;
mod file_system;
mod gpu;
mod gpu_protocol;
mod hcl;
mod interconnect;
mod iwarp;
mod kernel;
mod link;
mod loads;
mod lustre;
mod manager;
mod model;
mod multicast;
mod nccl;
mod network;
mod nic;
mod node;
mod node_files;
mod nvme;
mod offload;
mod one_sided;
mod pcie;
mod power;
mod psm2;
mod rpc;
mod shared_memory;
mod shuffle;
mod software;
mod spliced;
mod switch;
mod switching;
mod wafer;

use std::fmt;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Problem;

pub use aggregation::{Aggregation, AggregationStream};
pub use cable::Cable;
pub use collective_rules::{CollectiveRule, CollectiveRules, Occasion};
pub use congestion::Congestion;
pub use cpu::{Cpu, CpuFamily, PeerToPeer, RootComplex};
pub use decisions::{DecisionTables, Decisions};
pub use dgemm::{CpuDgemm, GpuDgemm};
pub use dpu::{Dpu, DpuMode};
pub use drive::{Drive, Medium, Positioning};
pub use experts::{ExpertLibrary, Poster, TokenForwarding};
pub use file_system::{Controller, FileSystem, PublishedRates, Routers, Servers, Uplinks};
pub use gpu::{Block, Compute, CopyEngines, Gpu, GpuCalls, GpuMemory, Mapped, MemoryKind, Pageable, PeerAccess, ScaleUpPorts, Vendor};
pub use gpu_protocol::{GpuDirect, GpuPeers, GpuProtocol, Nearness, Registration};
pub use hcl::Hcl;
pub use interconnect::{Interconnect, InterconnectKind, Stages, Transactions};
pub use iwarp::{Iwarp, OffloadControl};
pub use kernel::Kernel;
pub use link::{LinkFrame, LinkSpeed};
pub use loads::{CoreLoads, CxlCredits, CxlFlit, CxlLink, CxlPeer, CxlPool, CxlSharing, DramTiming};
pub use lustre::{Lnet, Lustre, LustreClient, LustreData, LustreMetadata};
pub use manager::{Manager, SubnetSweep};
pub use model::{Experts, Latent, Model, Transformer};
pub use multicast::MulticastProtocol;
pub use nccl::{Nccl, NcclTransport, Step, StepParameters, Variable};
pub use network::{Bottleneck, Convolution, Convolutional, Crossing, Linear, NetLayer, Pool, Recommendation};
pub(crate) use nic::check_mtu;
pub use nic::{BlueFlame, Contexts, Nic, Onload, Rdma};
pub use node::{
    AllToAllLinks, Bundle, Expanders, GpuPair, Gpus, HostMemory, Mesh, Nics, NodeDrives, NodePart, PcieSwitches, PointToPoint, ScaleUp,
    SwitchReduction, Switched, Under,
};
pub use node_files::{AmdFamily, GpuFamily, NodeFiles, ProcessorFamily};
pub use nvme::{NvmeOffload, NvmeStack};
pub use offload::Offload;
pub use one_sided::{Accumulate, OneSidedRules, Shmem, ShmemCollectives, SingleElement};
pub use pcie::Pcie;
pub use power::{BitsCounted, CableEndPower, DevicePower, PowerFigures};
pub use psm2::Psm2;
pub use rpc::{CallsOverRdma, CallsOverStreams, RpcLibrary};
pub use shared_memory::{Mechanism, SharedMemory, SharedMemoryParameters, SingleCopy, SingleCopyParameters, SlotParameters, Slots};
pub use shuffle::{OneSidedFetch, ShuffleJob, ShuffleLibrary};
pub use software::{
    Connections, Datagrams, EachRegistration, EagerChannel, FirstUse, MapBy, Mpi, MpiTransport, Perftest, RailPolicy, Rendezvous, Software,
    TagMatching,
};
pub(crate) use switch::check_ecn;
pub use switch::{Ecn, Forwarding, Pfc, Switch};
pub use switching::{CompressionEngine, Engine, Engines, PacketPipeline, PipelineStage, StageKind, SwitchingCosts};
pub use wafer::Wafer;

/// The kind of a part; one folder of the catalogue each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Speeds of links.
    Link,
    /// Cables.
    Cable,
    /// Network adapters.
    Nic,
    /// Switches.
    Switch,
    /// Processors with their memory and root complex.
    Cpu,
    /// GPUs and other accelerators.
    Gpu,
    /// Links inside a node and between its accelerators.
    Interconnect,
    /// Nodes: what is wired to what.
    Node,
    /// What files about nodes leave out.
    NodeFiles,
    /// Generations of PCI Express.
    Pcie,
    /// MPI libraries and benchmark programs.
    Software,
    /// Which algorithms MPI libraries take for collective operations.
    Decisions,
    /// Congestion controls with their parameters.
    Congestion,
    /// Managers of fabrics: what happens when links fail.
    Manager,
    /// Operating systems: what TCP costs the core.
    Kernel,
    /// Neural networks that jobs train and ask.
    Model,
    /// Disks and flash of servers.
    Drive,
    /// Parallel file systems: servers, what they store on, how clients reach them.
    FileSystem,
    /// What switches, adapters and cables draw.
    Power,
    /// Machines made of the other kinds.
    Cluster,
}

impl Kind {
    /// Every kind, in the order of listings.
    pub const ALL: [Kind; 20] = [
        Kind::Link,
        Kind::Cable,
        Kind::Nic,
        Kind::Switch,
        Kind::Cpu,
        Kind::Gpu,
        Kind::Interconnect,
        Kind::Node,
        Kind::NodeFiles,
        Kind::Pcie,
        Kind::Software,
        Kind::Decisions,
        Kind::Congestion,
        Kind::Manager,
        Kind::Kernel,
        Kind::Model,
        Kind::Drive,
        Kind::FileSystem,
        Kind::Power,
        Kind::Cluster,
    ];

    /// The folder that holds parts of this kind.
    pub const fn folder(self) -> &'static str {
        match self {
            Kind::Link => "links",
            Kind::Cable => "cables",
            Kind::Nic => "nics",
            Kind::Switch => "switches",
            Kind::Cpu => "cpus",
            Kind::Gpu => "gpus",
            Kind::Interconnect => "interconnects",
            Kind::Node => "nodes",
            Kind::NodeFiles => "node-files",
            Kind::Pcie => "pcie",
            Kind::Software => "software",
            Kind::Decisions => "decisions",
            Kind::Congestion => "congestion",
            Kind::Manager => "managers",
            Kind::Kernel => "kernels",
            Kind::Model => "models",
            Kind::Drive => "drives",
            Kind::FileSystem => "file-systems",
            Kind::Power => "power",
            Kind::Cluster => "clusters",
        }
    }
    /// What one of them is called in a sentence.
    pub const fn noun(self) -> &'static str {
        match self {
            Kind::Link => "link speed",
            Kind::Cable => "cable",
            Kind::Nic => "NIC",
            Kind::Switch => "switch",
            Kind::Cpu => "CPU",
            Kind::Gpu => "GPU",
            Kind::Interconnect => "interconnect",
            Kind::Node => "node",
            Kind::NodeFiles => "rates of node files",
            Kind::Pcie => "PCIe generation",
            Kind::Software => "software",
            Kind::Decisions => "decisions of collectives",
            Kind::Congestion => "congestion control",
            Kind::Manager => "fabric manager",
            Kind::Kernel => "kernel",
            Kind::Model => "model",
            Kind::Drive => "drive",
            Kind::FileSystem => "file system",
            Kind::Power => "power figures",
            Kind::Cluster => "cluster",
        }
    }
    /// The kind whose folder is `folder`.
    pub fn of_folder(folder: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.folder() == folder)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.noun())
    }
}

/// What all kinds of part have in common.
pub trait Part: Serialize + DeserializeOwned + JsonSchema + Clone + fmt::Debug {
    /// The kind of the part.
    const KIND: Kind;
    /// The name others refer to it by; equals the name of its file.
    fn name(&self) -> &str;
    /// One line that tells a person what it is.
    fn title(&self) -> &str;
    /// What is wrong with the part as a whole, beyond the types of its fields.
    ///
    /// # Errors
    /// The first contradiction found.
    fn check(&self) -> Result<(), Problem>;
}

/// What runs on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// InfiniBand, with credits per virtual lane.
    #[serde(rename = "infiniband")]
    InfiniBand,
    /// Ethernet, with or without priority flow control.
    Ethernet,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::InfiniBand => "infiniband",
            Layer::Ethernet => "ethernet",
        })
    }
}

/// Through what a program drives an adapter: which libraries run on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Interface {
    /// libibverbs with connected queue pairs: InfiniBand, RoCE.
    #[default]
    Verbs,
    /// libfabric's provider for Slingshot's Cassini.
    Cxi,
    /// libfabric's provider for Amazon's adapters; their transport is SRD.
    Efa,
    /// The messaging library of Omni-Path.
    Psm2,
    /// The library of Cray's Aries.
    Ugni,
    /// Portals 4, which BXI implements.
    Portals,
    /// Verbs over TCP.
    Iwarp,
    /// Sockets of the kernel: any adapter that carries IP.
    Sockets,
}

impl Interface {
    /// Whether adapters that are driven so carry out atomics at the target.
    #[must_use]
    pub const fn has_atomics(self) -> bool {
        matches!(self, Interface::Verbs | Interface::Cxi | Interface::Portals)
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Interface::Verbs => "verbs",
            Interface::Cxi => "cxi",
            Interface::Efa => "efa",
            Interface::Psm2 => "psm2",
            Interface::Ugni => "ugni",
            Interface::Portals => "portals",
            Interface::Iwarp => "iwarp",
            Interface::Sockets => "sockets",
        })
    }
}

/// A PCI Express slot: a generation of the catalogue and a number of lanes; or a place on a bus before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PcieSlot {
    /// The generation of PCI Express, 1 to 7; left out with `bus`.
    #[serde(default, skip_serializing_if = "is_none")]
    pub generation: u32,
    /// The number of lanes: 1, 2, 4, 8 or 16, and 32 for two slots of 16 (Socket Direct); of a bus its width, 32 or 64.
    pub lanes: u32,
    /// The bus, where it is not PCI Express.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<Bus>,
    /// Reads that the device has outstanding at most; as many as it likes where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references")]
fn is_none(generation: &u32) -> bool {
    *generation == 0
}

impl PcieSlot {
    /// Refuses widths that no slot has, and reads that no device may have outstanding.
    pub(crate) fn check(self, path: &[&str]) -> Result<(), Problem> {
        let at = |key: &'static str| path.iter().copied().chain([key]).collect::<Vec<_>>();
        if self.tags == Some(0) {
            return Err(Problem::at(&at("tags"), "a device that may read nothing", "use at least 1"));
        }
        match self.bus {
            Some(bus) if self.generation != 0 => {
                let message = format!("both `{bus}` and generation {} of PCI Express", self.generation);
                Err(Problem::at(&at("bus"), message, "remove `bus`, or `generation`"))
            }
            Some(_) if matches!(self.lanes, 32 | 64) => Ok(()),
            Some(bus) => Err(Problem::at(&at("lanes"), format!("`{bus}` has no width of {} bits", self.lanes), "use 32 or 64")),
            None if matches!(self.lanes, 1 | 2 | 4 | 8 | 16 | 32) => Ok(()),
            None => Err(Problem::at(
                &at("lanes"),
                format!("a PCIe slot has no {} lanes", self.lanes),
                "use 1, 2, 4, 8, 16, or 32 for two of 16",
            )),
        }
    }
    /// What it is called in a sentence.
    pub fn noun(self) -> String {
        self.bus.map_or_else(|| format!("PCIe generation {}", self.generation), |bus| format!("bus `{bus}`"))
    }
}

/// A bus that devices shared before PCI Express, the slower first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Bus {
    /// PCI at 33 MHz.
    #[serde(rename = "pci-33")]
    Pci33,
    /// PCI at 66 MHz.
    #[serde(rename = "pci-66")]
    Pci66,
    /// PCI-X at 66 MHz.
    #[serde(rename = "pci-x-66")]
    PciX66,
    /// PCI-X at 100 MHz.
    #[serde(rename = "pci-x-100")]
    PciX100,
    /// PCI-X at 133 MHz.
    #[serde(rename = "pci-x-133")]
    PciX133,
    /// PCI-X 2.0, data at both edges.
    #[serde(rename = "pci-x-266")]
    PciX266,
    /// PCI-X 2.0, data four times a clock.
    #[serde(rename = "pci-x-533")]
    PciX533,
}

impl fmt::Display for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bus::Pci33 => "pci-33",
            Bus::Pci66 => "pci-66",
            Bus::PciX66 => "pci-x-66",
            Bus::PciX100 => "pci-x-100",
            Bus::PciX133 => "pci-x-133",
            Bus::PciX266 => "pci-x-266",
            Bus::PciX533 => "pci-x-533",
        })
    }
}
