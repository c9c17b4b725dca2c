//! A cluster: which parts, how many, wired how. And the same with all its parts at hand.

use fabriscope_fabric::topology::TopologyError;
use fabriscope_fabric::{EndpointId, Fabric, Length, Links, RoutePrototype, Routing, SetRate, Topology};
use fabriscope_nic::IommuLimits;
use fabriscope_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::copy_on_write::Shared;
use crate::error::Problem;
use crate::group::{Group, NodeGroup, spec};
use crate::identity::AdapterIdentity;
use crate::iommu::IommuMaps;
use crate::link_retry::Line;
use crate::listed::Listed;
use crate::multicast::Multicast;
use crate::node::Node;
use crate::part::{Cable, Congestion, Drive, Kernel, Kind, Layer, LinkSpeed, Part, Software, Switch};
use crate::partitions::{PartitionEnforcement, Partitions};
use crate::qos::Qos;
use crate::sourced::{Basis, Sourced};
use crate::stop::Stop;
use crate::switch_levels::SwitchLevels;
use crate::virtual_switch::VirtualSwitch;

/// How packets are framed on the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LinkLayer {
    /// InfiniBand within one subnet: no global header.
    #[serde(rename = "infiniband")]
    InfiniBand,
    /// RDMA over Ethernet by a global route header and an EtherType of its own, within one broadcast domain.
    RoceV1,
    /// RDMA over UDP, IPv4 and Ethernet.
    RoceV2,
    /// The same with a header of 10 bytes in the place of these on links, where switches know it (`short_header`).
    RoceShort,
}

impl LinkLayer {
    /// What the links must be able to carry.
    pub const fn layer(self) -> Layer {
        match self {
            LinkLayer::InfiniBand => Layer::InfiniBand,
            LinkLayer::RoceV1 | LinkLayer::RoceV2 | LinkLayer::RoceShort => Layer::Ethernet,
        }
    }
    /// The framing whose bytes the wire crate counts.
    pub const fn wire(self) -> fabriscope_wire::LinkLayer {
        match self {
            LinkLayer::InfiniBand => fabriscope_wire::LinkLayer::InfiniBand,
            LinkLayer::RoceV1 => fabriscope_wire::LinkLayer::RoceV1,
            LinkLayer::RoceV2 => fabriscope_wire::LinkLayer::RoceV2Ipv4,
            LinkLayer::RoceShort => fabriscope_wire::LinkLayer::RoceShort,
        }
    }
}

/// What happens where a buffer is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowControl {
    /// The sender is held back: by credits on InfiniBand, by pause frames on Ethernet, where the switch has thresholds for them.
    Lossless,
    /// The sender has credits on Ethernet too (CBFC of Ultra Ethernet), where the switch grants them (`credits`).
    Credits,
    /// Packets are dropped, or trimmed where the switch does that.
    Lossy,
}

/// Which nodes a benchmark between two nodes uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeChoice {
    /// Two at one leaf switch: the nearest ones.
    #[default]
    SameLeaf,
    /// Two as far apart as the topology has them; more are spread evenly.
    Across,
    /// As a scheduler finds them on a busy machine: free ones drawn by the seed, below as few switches as possible.
    Scattered,
}

/// Interruptions of cores by the operating system: exponential times from one to the next, exponential lengths, each core by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// The mean time from the end of one to the next.
    pub every: Span,
    /// Their mean length.
    pub lasts: Span,
}

impl Noise {
    /// Whether interruptions leave a core time of its own.
    #[must_use]
    pub fn leaves_time(&self) -> bool {
        self.every > self.lasts
    }
    pub(crate) fn check(&self) -> Result<(), Problem> {
        if !self.leaves_time() {
            let message = format!("interruptions of {} every {} leave a core no time", self.lasts, self.every);
            return Err(Problem::at(&["noise", "every"], message, "make `every` longer than `lasts`, as 1 ms and 10 us"));
        }
        Ok(())
    }
}

/// The cables of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CableRun {
    /// Name of the kind of cable.
    pub part: String,
    /// Length from a node to its switch.
    pub host_length: Sourced<Length>,
    /// Length from switch to switch.
    pub trunk_length: Sourced<Length>,
    /// Length from group to group, in topologies that have groups. Default: `trunk_length`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_length: Option<Sourced<Length>>,
}

/// How IP runs over InfiniBand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IpoibMode {
    /// Unreliable datagrams: the MTU of the fabric less 4 bytes.
    #[default]
    Datagram,
    /// Reliable connections: up to 65,520 bytes, without the adapter's help for TCP.
    Connected,
}

/// The IP interfaces of the nodes, for sockets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ip {
    /// Name of the kernel.
    #[serde(default = "usual_kernel")]
    pub kernel: String,
    /// The largest IP packet. Default: 1500 B on Ethernet; on InfiniBand what `mode` allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Bytes>,
    /// How IP runs over InfiniBand.
    #[serde(default)]
    pub mode: IpoibMode,
    /// The adapter does TCP itself (TCP offload engine, TOE): for adapters with an `[iwarp]` table, whose TCP it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub offload: bool,
    /// Who switches the packets of virtual machines; where it is there, programs run in those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_switch: Option<VirtualSwitch>,
}

fn usual_kernel() -> String {
    "linux-tcp".to_owned()
}

impl Default for Ip {
    /// As the usual kernel has it on any fabric.
    fn default() -> Ip {
        Ip { kernel: usual_kernel(), mtu: None, mode: IpoibMode::Datagram, offload: false, virtual_switch: None }
    }
}

/// The IP interfaces with their kernel at hand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedIp {
    /// The kernel.
    pub kernel: Kernel,
    /// The largest IP packet.
    pub mtu: Bytes,
    /// How IP runs over InfiniBand.
    pub mode: IpoibMode,
    /// The adapter does TCP itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub offload: bool,
    /// Who switches the packets of virtual machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_switch: Option<VirtualSwitch>,
}

/// A number of a part that is another on one cluster: what was fitted to its measurements, or measured there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The folder of the part: `nics`, `switches`, `software`, ….
    pub kind: String,
    /// The part in whose file the number stands; parts that rest on it have the change too.
    pub part: String,
    /// The keys that lead to the number: `root_complex.max_payload`.
    pub field: String,
    /// What stands there on this cluster, with its unit.
    pub value: String,
    /// What that rests on.
    pub basis: Basis,
    /// Where it comes from.
    pub source: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// A machine made of catalogue parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// The name others refer to it by; equals the name of its file.
    #[serde(default = "inline_name")]
    pub name: String,
    /// One line that tells a person what it is.
    #[serde(default)]
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// Number of nodes, where all are alike. On an imported fabric by default all hosts that it names, or all with so many adapters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// The hosts of an imported fabric that are its nodes, as Slurm lists them: `gpu[01-16],gpu20`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<String>,
    /// What each of them is made of, where all are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// Groups of unlike nodes, in place of `nodes` and `node`; they take the endpoints in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group: Vec<Group>,
    /// Name of the speed of every link, but for those named below.
    pub link: String,
    /// Name of the speed between switches. Default: `link`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trunk_link: Option<String>,
    /// Name of the speed between groups, in topologies that have groups. Default: `trunk_link`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_link: Option<String>,
    /// How packets are framed.
    pub link_layer: LinkLayer,
    /// Largest payload of a packet.
    pub mtu: Bytes,
    /// How switches and nodes are wired.
    pub topology: Topology,
    /// How packets find their way. Default: a routing that works on every fabric of the topology, with every transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing>,
    /// Name of the congestion control of the adapters; none where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Whether switches hold packets back or drop what does not fit. Default: what they can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_control: Option<FlowControl>,
    /// How traffic of different classes shares the links; one lane for all where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<Qos>,
    /// How multicast groups are managed.
    #[serde(default)]
    pub multicast: Multicast,
    /// What links do beyond carrying bits: retry, rest.
    #[serde(default)]
    pub line: Line,
    /// InfiniBand partitions by name; all hosts are in the default one where nothing else is said.
    #[serde(default, skip_serializing_if = "Partitions::is_empty")]
    pub partitions: Partitions,
    /// Whether switches drop packets of partitions that the adapter at a port has no part in.
    #[serde(default)]
    pub partition_enforcement: PartitionEnforcement,
    /// Nodes of an InfiniBand subnet, where routers join several: packets from one to another carry a global route header. The routers are
    /// switches of the topology, as `switch_levels` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_nodes: Option<u32>,
    /// The IOMMU translates what devices read and write: as kernels have it that protect memory from devices, or for the virtual functions
    /// (SR-IOV) of guests in which programs run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iommu: Option<IommuMaps>,
    /// Name of the switch; none where nodes are wired to each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
    /// Other switches at some levels of the topology: `{ leaf = "…", spine = "…", core = "…" }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_levels: Option<SwitchLevels>,
    /// What operating systems take of the cores that run programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// Numbers of its parts that are others on this cluster alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub change: Vec<Change>,
    /// The cables.
    pub cable: CableRun,
    /// The IP interfaces of the nodes, for sockets.
    #[serde(default)]
    pub ip: Ip,
    /// What adapters say of themselves to programs, where it is not what their model does.
    #[serde(default, skip_serializing_if = "AdapterIdentity::is_empty")]
    pub identity: AdapterIdentity,
    /// Which nodes a benchmark between two nodes uses.
    #[serde(default)]
    pub placement: NodeChoice,
    /// Name of the MPI library that programs use where nothing else is said.
    pub software: String,
    /// Name of the library of collectives on GPUs, as `nccl-2.18`, where nodes have GPUs that it drives; the usual release of the GPUs'
    /// vendor over their adapters where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collectives: Option<String>,
    /// What a list of machines says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<Listed>,
}

fn inline_name() -> String {
    "inline".to_owned()
}

impl Part for Cluster {
    const KIND: Kind = Kind::Cluster;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        crate::group::check(self)?;
        self.multicast.check(self.link_layer != LinkLayer::InfiniBand)?;
        if let Some(noise) = &self.noise {
            noise.check()?;
        }
        self.identity.check()?;
        if let Some(listed) = &self.listed {
            listed.check(self.group.iter().map(|group| group.name.as_str()))?;
        }
        crate::part::check_mtu(self.mtu, &["mtu"])
    }
}

/// A cluster with all its parts at hand: every name is resolved and everything fits together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedCluster {
    /// The name of the cluster.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    pub notes: String,
    /// Its nodes, group by group: those of a group are alike. Never empty.
    pub groups: Vec<NodeGroup>,
    /// Numbers of its parts that are others here: they are in its parts, but not in those of the catalogue that take the place of one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub change: Vec<Change>,
    /// The speed from switch to switch.
    pub trunk_link: LinkSpeed,
    /// The speed from group to group.
    pub global_link: LinkSpeed,
    /// How packets are framed.
    pub link_layer: LinkLayer,
    /// Largest payload of a packet.
    pub mtu: Bytes,
    /// How switches and nodes are wired.
    pub topology: Topology,
    /// How packets find their way.
    pub routing: Routing,
    /// The congestion control of the adapters.
    pub congestion: Option<Congestion>,
    /// What happens where a buffer is full.
    pub flow_control: FlowControl,
    /// How traffic of different classes shares the links.
    pub qos: Option<Qos>,
    /// How multicast groups are managed.
    pub multicast: Multicast,
    /// What links do beyond carrying bits: retry, rest.
    pub line: Line,
    /// What operating systems take of the cores that run programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// InfiniBand partitions by name.
    pub partitions: Partitions,
    /// Whether switches drop packets of partitions that the adapter at a port has no part in.
    pub partition_enforcement: PartitionEnforcement,
    /// Nodes of an InfiniBand subnet, where routers join several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet_nodes: Option<u32>,
    /// The IOMMU translates what devices read and write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iommu: Option<IommuMaps>,
    /// The switch; none where nodes are wired to each other.
    pub switch: Option<Switch>,
    /// Other switches by level, leaves first; empty where all are alike.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub switch_levels: Vec<Option<Switch>>,
    /// The kind of cable between switches.
    pub cable: Cable,
    /// Length from switch to switch.
    pub trunk_length: Sourced<Length>,
    /// Length from group to group.
    pub global_length: Sourced<Length>,
    /// The IP interfaces of the nodes.
    pub ip: ResolvedIp,
    /// What adapters say of themselves to programs, where it is not what their model does.
    #[serde(skip_serializing_if = "AdapterIdentity::is_empty")]
    pub identity: AdapterIdentity,
    /// Which nodes a benchmark between two nodes uses.
    pub placement: NodeChoice,
    /// Defaults of perftest.
    pub perftest: Shared<Software>,
    /// The libraries of the catalogue that exchange tokens among experts.
    pub experts: Vec<Shared<Software>>,
    /// Those that call procedures on other nodes, those that shuffle, and what carries out commands of NVMe.
    #[serde(skip)]
    pub services: Vec<Shared<Software>>,
    /// The drives of the catalogue, which nodes may have.
    #[serde(skip)]
    pub drives: Vec<Shared<Drive>>,
    /// What chooses among the ways of the routing, where the program around this library brings something along.
    #[serde(skip)]
    pub route_prototype: Option<RoutePrototype>,
    /// What ends runs on it.
    #[serde(skip)]
    pub stop: Stop,
}

impl ResolvedCluster {
    /// What translations of addresses by the host cost, and the pages by which memory is mapped; none where devices use its addresses as they are.
    #[must_use]
    pub fn iommu(&self) -> Option<(IommuLimits, Bytes)> {
        let maps = self.iommu?;
        let limits = self.groups.first()?.node.cpu.root_complex.iommu.as_ref()?;
        Some((limits.plain(), maps.page))
    }
    /// Propagation from switch to switch.
    pub fn trunk_delay(&self) -> Span {
        self.cable.delay(*self.trunk_length)
    }
    /// Propagation from group to group.
    pub fn global_delay(&self) -> Span {
        self.cable.delay(*self.global_length)
    }
    /// The cables of the fabric: rate after encoding, propagation and error correction as their delay; at the hosts those of the
    /// first group.
    pub fn links(&self) -> Links {
        let host = self.groups.first().map(NodeGroup::link_spec);
        let trunk = spec(&self.trunk_link, self.trunk_delay());
        Links { host: host.unwrap_or(trunk), trunk, global: spec(&self.global_link, self.global_delay()) }
    }
    /// Ports of each switch; none where nodes are wired to each other.
    pub fn radix(&self) -> u32 {
        self.switch.as_ref().map_or(0, |switch| switch.ports)
    }
    /// The wired fabric.
    ///
    /// # Errors
    /// None for a cluster that [`Catalog::resolve`](crate::Catalog::resolve) gave, unless it was changed since.
    pub fn fabric(&self) -> Result<Fabric, TopologyError> {
        let mut fabric = self.topology.build(&self.links(), self.radix())?;
        for group in self.groups.iter().skip(1) {
            // Cables that the topology itself knows the rate of, as in an imported fabric, run at the lower rate of their two ends.
            let spec = group.link_spec();
            let known = matches!(self.topology, Topology::Imported(_) | Topology::Irregular(_));
            let there = fabric.graph.endpoint_count();
            for endpoint in group.endpoints().take_while(|endpoint| *endpoint < there) {
                fabric.graph.set_uplink(EndpointId(endpoint), spec, if known { SetRate::Lower } else { SetRate::Replace });
            }
        }
        Ok(fabric)
    }
}
