//! The catalogue: TOML files into typed parts and clusters, with every check and every diagnostic.
//!
//! One file is one part; its folder says which kind. Every number says what it rests on ([`Sourced`]).
//! A [`Cluster`] names its parts; [`ResolvedCluster`] holds them.
//! Nothing here prints, and no input makes it panic.

mod altered;
mod amend;
mod catalog;
mod cluster;
mod copy_on_write;
mod deserialize;
mod document;
mod dpu;
pub mod draft;
mod error;
mod file;
mod file_system;
mod group;
mod hosts;
mod identity;
mod imported;
mod iommu;
mod ip;
mod link_retry;
mod listed;
mod machine;
mod multicast;
mod node;
mod node_files;
mod part;
mod partitions;
pub mod profile;
mod qos;
mod resolve;
mod resolve_node;
mod resolve_switches;
mod schema;
mod sourced;
mod stop;
mod subnets;
mod suggest;
mod switch_levels;
mod switching;
mod table;
mod target;
mod virtual_switch;

pub use altered::Alteration;
pub use catalog::{AnyPart, Catalog};
pub use cluster::{CableRun, Change, Cluster, FlowControl, LinkLayer, NodeChoice, Noise, ResolvedCluster};
pub use cluster::{Ip, IpoibMode, ResolvedIp};
pub use copy_on_write::Shared;
pub use document::Document;
pub use dpu::ResolvedDpu;
pub use error::{CatalogError, Fault, Problem};
pub use fabriscope_fabric::{Fabric, Length, Routing, Topology};
pub use fabriscope_machine::{Machine, MachineError};
pub use fabriscope_units::{Frequency, Ratio};
pub use file::read as read_text;
pub use file_system::{ResolvedFileSystem, ResolvedServers};
pub use group::{Group, GroupCable, NodeGroup};
pub use hosts::HostSet;
pub use identity::{AdapterIdentity, GuidPrefix, pci_identity};
pub use iommu::IommuMaps;
pub use link_retry::{Line, LinkRest, LinkRetry};
pub use listed::Listed;
pub use multicast::Multicast;
pub use node::{Devices, Node, NodeLayout, NumaDistance, ResolvedBundle, ResolvedNode, ResolvedSlot};
pub use part::collective_rules::select as select_collective;
pub use part::congestion;
pub use part::{Accumulate, OneSidedRules, Shmem, ShmemCollectives, SingleElement};
pub use part::{
    Aggregation, AggregationStream, AllToAllLinks, Bundle, Expanders, GpuPair, Gpus, HostMemory, Mesh, Nics, NodePart, PcieSwitches,
    PointToPoint, ScaleUp, SwitchReduction, Switched, Under,
};
pub use part::{AmdFamily, GpuFamily, NodeFiles, ProcessorFamily};
pub use part::{BitsCounted, CableEndPower, DevicePower, PowerFigures, SubnetSweep};
pub use part::{
    Block, Compute, CopyEngines, Gpu, GpuCalls, GpuDgemm, GpuMemory, Interconnect, InterconnectKind, Mapped, MemoryKind, Pageable,
    PeerAccess, PeerToPeer, ScaleUpPorts, Stages, Transactions,
};
pub use part::{
    BlueFlame, Cable, Congestion, Connections, Contexts, Cpu, CpuDgemm, CpuFamily, Datagrams, DecisionTables, Decisions, EagerChannel, Ecn,
    FirstUse, Forwarding, Interface, Iwarp, Kernel, Kind, Layer, LinkSpeed, Manager, Mechanism, Mpi, Nic, OffloadControl, Part, Pcie,
    PcieSlot, Perftest, Pfc, RailPolicy, Rdma, Rendezvous, RootComplex, SharedMemory, SingleCopy, Slots, Software, Switch, TagMatching,
};
pub use part::{Bottleneck, Convolution, Convolutional, Crossing, Linear, NetLayer, Pool, Recommendation};
pub use part::{Bus, LinkFrame};
pub use part::{CallsOverRdma, CallsOverStreams, OneSidedFetch, RpcLibrary, ShuffleJob, ShuffleLibrary};
pub use part::{CollectiveRule, CollectiveRules, MapBy, MpiTransport, Occasion};
pub use part::{CompressionEngine, Engine, Engines, PacketPipeline, PipelineStage, StageKind, SwitchingCosts};
pub use part::{Controller, Drive, FileSystem, Medium, Positioning, PublishedRates, Routers, Servers, Uplinks};
pub use part::{CoreLoads, CxlCredits, CxlFlit, CxlLink, CxlPeer, CxlPool, CxlSharing, DramTiming};
pub use part::{Dpu, DpuMode, Offload};
pub use part::{EachRegistration, MulticastProtocol};
pub use part::{ExpertLibrary, Poster, TokenForwarding};
pub use part::{Experts, Latent, Model, Transformer};
pub use part::{GpuDirect, GpuPeers, GpuProtocol, Nearness, Registration};
pub use part::{Hcl, Wafer};
pub use part::{Lnet, Lustre, LustreClient, LustreData, LustreMetadata};
pub use part::{Nccl, NcclTransport, Step, StepParameters, Variable, Vendor};
pub use part::{NodeDrives, NvmeOffload, NvmeStack};
pub use part::{Onload, Psm2};
pub use part::{SharedMemoryParameters, SingleCopyParameters, SlotParameters};
pub use partitions::{DEFAULT_PKEY, FULL, Partition, PartitionEnforcement, Partitions, keys};
pub use qos::{
    EthernetClass, EthernetQos, FullTables, PortPairs, PortTables, Qos, QosRequest, SlingshotQos, SwitchTables, TrafficClass, VlArb, VlQos,
    VlWeight,
};
pub use schema::{add_base, part_schema, property, require_unless};
pub use sourced::{Basis, Sourced, Stated};
pub use stop::Stop;
pub use suggest::{nearest, remedy};
pub use switch_levels::SwitchLevels;
pub use table::Row;
pub use target::{ClusterSource, Target, is_cluster_file};
pub use virtual_switch::{FlowsBy, Ipsec, SwitchedBy, TenantTunnel, VirtualSwitch};
