//! What happens on a cluster: the workloads of lab files, and whether they can happen there.

mod alltoallv;
pub(crate) mod beside_storage;
pub(crate) mod collective;
pub(crate) mod compare;
pub(crate) mod flows;
pub mod mix;
mod training;

use std::net::IpAddr;
use std::path::PathBuf;

use fabriscope_units::{Bytes, Span};
use fabriscope_wire::Service;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::jobs::{self, Jobs};
use crate::to_group::{self, ToGroup};
use fabriscope_catalog::{Interface, Problem, ResolvedCluster};

pub use beside_storage::{BesideStorage, BurstOf, StorageTraffic};
pub use collective::Collective;
pub use compare::{Compare, ComparedPattern};
pub use flows::{Flows, IncastMix};
pub use mix::Mix;
pub use training::{GradientExchange, Graphed, Order, Overlap, Recomputed, Scores, Shared, Strategy, TokenDispatcher, Training};

/// Every host sends one message to another; nobody receives two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Permutation {
    /// Size of each message.
    pub size: Bytes,
    /// Transport service.
    #[serde(default)]
    pub transport: Service,
    /// Packets may be taken in any order: what spraying needs.
    #[serde(default)]
    pub any_order: bool,
}

/// Several hosts send to one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Incast {
    /// How many hosts send.
    pub senders: u32,
    /// Size of each message.
    pub size: Bytes,
    /// Transport service.
    #[serde(default)]
    pub transport: Service,
    /// Packets may be taken in any order: what spraying needs.
    #[serde(default)]
    pub any_order: bool,
}

/// Every host sends one message to every other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllToAll {
    /// Size of each message.
    pub size: Bytes,
    /// Transport service.
    #[serde(default)]
    pub transport: Service,
    /// Packets may be taken in any order: what spraying needs.
    #[serde(default)]
    pub any_order: bool,
}

/// Every host sends to the one `by` places further on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shift {
    /// How many places.
    pub by: u32,
    /// Size of each message.
    pub size: Bytes,
    /// Transport service.
    #[serde(default)]
    pub transport: Service,
    /// Packets may be taken in any order: what spraying needs.
    #[serde(default)]
    pub any_order: bool,
}

/// Messages between random pairs of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uniform {
    /// How many messages in all.
    pub messages: u32,
    /// Size of each message.
    pub size: Bytes,
    /// Transport service.
    #[serde(default)]
    pub transport: Service,
    /// Packets may be taken in any order: what spraying needs.
    #[serde(default)]
    pub any_order: bool,
}

/// Messages whose receivers follow from the pattern alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// Size of each message.
    pub size: Bytes,
    /// Transport service.
    #[serde(default)]
    pub transport: Service,
    /// Packets may be taken in any order: what spraying needs.
    #[serde(default)]
    pub any_order: bool,
}

/// Every host sends several messages, a share of them to a few hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HotSpot {
    /// How many hosts are hot: the first ones.
    #[serde(default = "one")]
    pub targets: u32,
    /// Share of the messages that go to them [0..1].
    pub share: f64,
    /// How many messages each host sends.
    pub messages: u32,
    /// Size of each message.
    pub size: Bytes,
    /// Transport service.
    #[serde(default)]
    pub transport: Service,
    /// Packets may be taken in any order: what spraying needs.
    #[serde(default)]
    pub any_order: bool,
}

/// Every process of a grid sends to its neighbours in each dimension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Halo {
    /// Sizes of the grid; their product is at most the number of hosts.
    pub grid: Vec<u32>,
    /// The last neighbours the first.
    #[serde(default)]
    pub periodic: bool,
    /// Size of each message.
    pub size: Bytes,
    /// Transport service.
    #[serde(default)]
    pub transport: Service,
    /// Packets may be taken in any order: what spraying needs.
    #[serde(default)]
    pub any_order: bool,
}

/// Where the messages of an open loop go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OpenPattern {
    /// To any other host, each as likely.
    Uniform,
    /// To one other host each, drawn once.
    Permutation,
    /// From each group of the topology to the next: the worst case of a dragonfly.
    Adversarial,
    /// Almost half way around each dimension.
    Tornado,
    /// Rows and columns change places.
    Transpose,
    /// To the host with the opposite number.
    BitComplement,
}

/// Every host generates messages at random times, whether the network takes them or not; one run for each load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenLoop {
    /// Where they go.
    pub pattern: OpenPattern,
    /// Offered loads, as shares of what the link of a host carries [0..1].
    pub loads: Vec<f64>,
    /// Size of each message.
    pub size: Bytes,
    /// Time before the measurement begins.
    pub warm_up: Span,
    /// Length of the measurement.
    pub window: Span,
    /// Transport service.
    #[serde(default)]
    pub transport: Service,
    /// Packets may be taken in any order: what spraying needs.
    #[serde(default)]
    pub any_order: bool,
}

/// Every host keeps a number of messages outstanding: a new one is sent when one is over; one run for each number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClosedLoop {
    /// Where they go.
    pub pattern: OpenPattern,
    /// How many messages each host keeps outstanding.
    pub outstanding: Vec<u32>,
    /// How many messages each host sends in all.
    pub messages: u32,
    /// Size of each message.
    pub size: Bytes,
    /// Transport service.
    #[serde(default)]
    pub transport: Service,
    /// Packets may be taken in any order: what spraying needs.
    #[serde(default)]
    pub any_order: bool,
}

/// `MPI_Alltoallv` of several processes on each node: every process sends to every other; one run for each job, size and transport.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllToAllV {
    /// Processes on each node, which share its adapter.
    pub processes_per_node: u32,
    /// Processes of each job; nodes are filled one after the other.
    pub processes: Vec<u32>,
    /// Sizes of messages; in a run all are of one size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<Bytes>,
    /// Instead of `sizes`: lengths that messages take in turn; that from rank *r* to rank *d* has length number (*r* + *d*) mod *n*.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vector: Vec<Bytes>,
    /// Transport services to compare.
    #[serde(default = "both")]
    pub transports: Vec<Service>,
    /// How often the exchange is measured, after one that is not.
    #[serde(default = "one")]
    pub iterations: u32,
}

fn both() -> Vec<Service> {
    vec![Service::Rc, Service::Ud]
}

/// One way to control congestion and to route, in a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scheme {
    /// Name of the congestion control; none where nothing is said.
    pub congestion: Option<String>,
    /// What happens where a buffer is full, where it is not as the cluster says.
    pub flow_control: Option<fabriscope_catalog::FlowControl>,
    /// How packets find their way, where it is not as the lab says.
    pub routing: Option<fabriscope_fabric::Routing>,
    /// Packets may be taken in any order: what spraying needs of reliable connections.
    pub any_order: bool,
    /// Transport service.
    pub transport: Service,
}

/// Two jobs: an incast to the first host, and victims that only share the network with it: the last hosts send to the last hosts of
/// the first host's switch. Each scheme runs both together and the victims alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interference {
    /// How many hosts send to the first one: those after it.
    pub senders: u32,
    /// Size of each message of the incast.
    pub size: Bytes,
    /// How many victims there are.
    #[serde(default = "one")]
    pub victims: u32,
    /// Size of the message of each victim.
    pub victim_size: Bytes,
    /// The ways to compare.
    pub schemes: Vec<Scheme>,
}

fn one() -> u32 {
    1
}

/// A benchmark program with its own command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bench {
    /// Name of the program: `ib_write_lat`, `osu_bw` …
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Nodes of a job of several ranks a node. Default: as many as `hosts` names; else two, or one of a benchmark of GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// The hosts that it runs on, of an imported fabric, as Slurm lists them: `gpu[01-04],gpu20`. Default: as the cluster's `placement` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<String>,
    /// Its ranks on each. Default: one for each core, or GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_node: Option<u32>,
}

/// The messages of a packet capture, each at its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// A capture of RoCE version 2, pcap or pcapng; a path as seen from this file.
    pub file: PathBuf,
    /// The address of each host, in order; without it hosts are numbered as they appear in the capture.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<IpAddr>,
    /// Transport service.
    #[serde(default)]
    pub transport: Service,
    /// Packets may be taken in any order: what spraying needs.
    #[serde(default)]
    pub any_order: bool,
}

/// What happens on the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Workload {
    /// Every host sends one message to another; nobody receives two.
    Permutation(Permutation),
    /// Several hosts send to one.
    Incast(Incast),
    /// Every host sends one message to every other.
    AllToAll(AllToAll),
    /// Every host sends to the one some places further on.
    Shift(Shift),
    /// Messages between random pairs of hosts.
    Uniform(Uniform),
    /// Every host sends almost half way around each dimension of the topology.
    Tornado(Messages),
    /// Hosts in a square: rows and columns change places.
    Transpose(Messages),
    /// Every host sends to the one with the opposite number.
    BitComplement(Messages),
    /// Every host sends to a random host of the next group: the worst case of a dragonfly.
    Adversarial(Messages),
    /// Every host sends to the next.
    Ring(Messages),
    /// A share of the messages goes to a few hosts.
    HotSpot(HotSpot),
    /// Neighbours of a grid of processes exchange messages.
    Halo(Halo),
    /// Ring all-reduce of a buffer of this size.
    RingAllReduce(Messages),
    /// Recursive doubling all-reduce of a buffer of this size.
    RecursiveDoubling(Messages),
    /// A step of training of a model on GPUs.
    Training(Training),
    /// A collective operation of MPI by one algorithm.
    Collective(Collective),
    /// Messages at random times, one run for each offered load.
    OpenLoop(OpenLoop),
    /// Messages one after the other, one run for each number of them outstanding.
    ClosedLoop(ClosedLoop),
    /// `MPI_Alltoallv` of several processes on each node, over several transports.
    #[serde(rename = "alltoallv")]
    AllToAllV(AllToAllV),
    /// The messages of a packet capture, each at its time.
    Capture(Capture),
    /// An incast and its victims, under several ways to control congestion.
    Interference(Interference),
    /// Patterns, each under several ways to control congestion and to route.
    Compare(Compare),
    /// Flows of measured sizes at random times, one run for each load and scheme.
    Flows(Flows),
    /// Several jobs that share the network, each in a class of its own.
    Jobs(Jobs),
    /// Jobs of several kinds beside each other: training, storage, inference, collective operations.
    Mix(Mix),
    /// One host sends to a multicast group, one run for each number of members.
    Multicast(ToGroup),
    /// A benchmark program with its own command line.
    Bench(Bench),
    /// A benchmark program while clients of a file system read or write on the same fabric.
    BesideStorage(BesideStorage),
}

impl Workload {
    /// The word used in files.
    pub const fn name(&self) -> &'static str {
        match self {
            Workload::Permutation(_) => "permutation",
            Workload::Incast(_) => "incast",
            Workload::AllToAll(_) => "all_to_all",
            Workload::Shift(_) => "shift",
            Workload::Uniform(_) => "uniform",
            Workload::Tornado(_) => "tornado",
            Workload::Transpose(_) => "transpose",
            Workload::BitComplement(_) => "bit_complement",
            Workload::Adversarial(_) => "adversarial",
            Workload::Ring(_) => "ring",
            Workload::HotSpot(_) => "hot_spot",
            Workload::Halo(_) => "halo",
            Workload::RingAllReduce(_) => "ring_all_reduce",
            Workload::RecursiveDoubling(_) => "recursive_doubling",
            Workload::Training(_) => "training",
            Workload::Collective(_) => "collective",
            Workload::OpenLoop(_) => "open_loop",
            Workload::ClosedLoop(_) => "closed_loop",
            Workload::AllToAllV(_) => "alltoallv",
            Workload::Capture(_) => "capture",
            Workload::Interference(_) => "interference",
            Workload::Compare(_) => "compare",
            Workload::Flows(_) => "flows",
            Workload::Jobs(_) => "jobs",
            Workload::Mix(_) => "mix",
            Workload::Multicast(_) => "multicast",
            Workload::Bench(_) => "bench",
            Workload::BesideStorage(_) => "beside_storage",
        }
    }
}

impl Workload {
    /// The transport service of its messages, where there is one for all of them.
    #[must_use]
    pub fn transport(&self) -> Option<Service> {
        match self {
            Workload::Capture(Capture { transport, .. })
            | Workload::Collective(Collective { transport, .. })
            | Workload::Training(Training { transport, .. }) => Some(*transport),
            pattern => pattern.messages().map(|(_, transport, _)| transport),
        }
    }

    /// Whether receivers are asked to take packets in any order.
    fn any_order(&self) -> bool {
        match self {
            Workload::Capture(Capture { any_order, .. })
            | Workload::Collective(Collective { any_order, .. })
            | Workload::Training(Training { any_order, .. }) => *any_order,
            pattern => pattern.messages().is_some_and(|(_, _, any_order)| any_order),
        }
    }

    /// Size and transport service of the messages of a pattern, which are the same for all of them, and whether they take any order.
    fn messages(&self) -> Option<(Bytes, Service, bool)> {
        Some(match self {
            Workload::Permutation(Permutation { size, transport, any_order, .. })
            | Workload::AllToAll(AllToAll { size, transport, any_order, .. })
            | Workload::Shift(Shift { size, transport, any_order, .. })
            | Workload::Uniform(Uniform { size, transport, any_order, .. })
            | Workload::Incast(Incast { size, transport, any_order, .. })
            | Workload::HotSpot(HotSpot { size, transport, any_order, .. })
            | Workload::Halo(Halo { size, transport, any_order, .. })
            | Workload::OpenLoop(OpenLoop { size, transport, any_order, .. })
            | Workload::ClosedLoop(ClosedLoop { size, transport, any_order, .. }) => (*size, *transport, *any_order),
            Workload::Tornado(messages)
            | Workload::Transpose(messages)
            | Workload::BitComplement(messages)
            | Workload::Adversarial(messages)
            | Workload::Ring(messages)
            | Workload::RingAllReduce(messages)
            | Workload::RecursiveDoubling(messages) => (messages.size, messages.transport, messages.any_order),
            Workload::Bench(_)
            | Workload::BesideStorage(_)
            | Workload::Jobs(_)
            | Workload::Mix(_)
            | Workload::Multicast(_)
            | Workload::AllToAllV(_)
            | Workload::Interference(_)
            | Workload::Compare(_)
            | Workload::Flows(_)
            | Workload::Capture(_)
            | Workload::Training(_)
            | Workload::Collective(_) => return None,
        })
    }
}

/// Whether the workload can happen on the cluster.
pub(crate) fn check(workload: &Workload, cluster: &ResolvedCluster) -> Result<(), Problem> {
    let name = workload.name();
    if let (Some(transport), true) = (workload.transport(), workload.any_order()) {
        check_order(transport, &["workload", name, "any_order"])?;
    }
    let hosts = cluster.endpoints();
    let (size, transport) = match workload {
        Workload::Interference(interference) => (interference.size, Service::Rc),
        Workload::Bench(bench) if bench.tool.is_empty() => {
            return Err(Problem::at(&["workload", name, "tool"], "the benchmark has no name", "write for example \"ib_write_lat\""));
        }
        Workload::Bench(bench) => return check_job(bench, cluster),
        Workload::BesideStorage(work) => return beside_storage::check(work, cluster),
        Workload::Jobs(work) => {
            return jobs::check(work, cluster, LARGEST_MESSAGE).map_err(|problem| problem.under(name).under("workload"));
        }
        Workload::Mix(work) => return mix::check(work),
        Workload::Multicast(work) => return to_group::check(work, cluster),
        Workload::Flows(work) => return work.check(cluster),
        Workload::Compare(work) => return work.check(cluster),
        Workload::Capture(capture) => return check_capture(capture, cluster),
        Workload::AllToAllV(exchange) => return alltoallv::check(exchange, cluster),
        Workload::Collective(work) => return collective::check(work, cluster),
        // Its model is of the catalogue: `training::of_lab` looks.
        Workload::Training(_) => return Ok(()),
        pattern => match pattern.messages() {
            Some((size, transport, _)) => (size, transport),
            None => return Ok(()),
        },
    };
    if hosts < 2 {
        let message = format!("a workload between hosts needs two, the cluster has {hosts}");
        return Err(Problem::at(&["cluster"], message, "use a cluster of at least 2 nodes"));
    }
    if size == Bytes::ZERO || size > LARGEST_MESSAGE {
        let message = format!("a message of {size} cannot be sent: {name} takes 1 B to {LARGEST_MESSAGE} here");
        return Err(Problem::at(&["workload", name, "size"], message, "choose another size"));
    }
    check_transport(transport, cluster, &["workload", name, "transport"])?;
    check_pattern(workload, hosts)
}

/// Whether the numbers of a pattern make sense among so many hosts.
fn check_pattern(workload: &Workload, hosts: u32) -> Result<(), Problem> {
    let name = workload.name();
    match workload {
        Workload::Incast(incast) if incast.senders == 0 || incast.senders >= hosts => {
            let message = format!("{} senders and a receiver do not fit into {hosts} hosts", incast.senders);
            Err(Problem::at(&["workload", name, "senders"], message, format!("use at least 1 and at most {}", hosts - 1)))
        }
        Workload::Shift(shift) if shift.by % hosts == 0 => {
            let message = format!("a shift by {} makes every one of {hosts} hosts send to itself", shift.by);
            Err(Problem::at(&["workload", name, "by"], message, format!("use at least 1 and at most {}", hosts - 1)))
        }
        Workload::HotSpot(spot) if !(0.0..=1.0).contains(&spot.share) => {
            let message = format!("`share` must be in [0, 1], got {}", spot.share);
            Err(Problem::at(&["workload", name, "share"], message, "write a number from 0 to 1"))
        }
        Workload::HotSpot(spot) if spot.targets == 0 || spot.targets >= hosts => {
            let message = format!("{} hot hosts of {hosts}", spot.targets);
            Err(Problem::at(&["workload", name, "targets"], message, format!("use at least 1 and at most {}", hosts - 1)))
        }
        Workload::HotSpot(spot) if spot.messages == 0 => {
            Err(Problem::at(&["workload", name, "messages"], "no message is sent", "use at least 1"))
        }
        Workload::Halo(halo) => {
            let processes = halo.grid.iter().fold(1u64, |all, &size| all.saturating_mul(u64::from(size)));
            if halo.grid.is_empty() || halo.grid.len() > 6 || processes < 2 || processes > u64::from(hosts) {
                let message = format!("a grid of {processes} processes on {hosts} hosts");
                return Err(Problem::at(
                    &["workload", name, "grid"],
                    message,
                    format!("write 1 to 6 sizes with a product of 2 to {hosts}"),
                ));
            }
            Ok(())
        }
        Workload::OpenLoop(open) => {
            let place = |key| ["workload", name, key];
            if open.loads.is_empty() || open.loads.len() > 1000 {
                return Err(Problem::at(
                    &place("loads"),
                    format!("{} loads", open.loads.len()),
                    "write 1 to 1000 of them: [0.1, 0.5, 0.9]",
                ));
            }
            if let Some(load) = open.loads.iter().find(|load| !(**load > 0.0 && **load <= 1.0)) {
                return Err(Problem::at(&place("loads"), format!("a load of {load}"), "write shares of the link above 0 and up to 1"));
            }
            if open.window == Span::ZERO || open.window.as_ps().saturating_add(open.warm_up.as_ps()) > LONGEST.as_ps() {
                let message = format!("a measurement of {} after {}", open.window, open.warm_up);
                return Err(Problem::at(&place("window"), message, format!("measure for some time, and stay below {LONGEST} in all")));
            }
            Ok(())
        }
        Workload::Interference(jobs) => {
            let place = |key| ["workload", name, key];
            let needed = u64::from(jobs.senders) + 1 + u64::from(jobs.victims);
            if jobs.senders == 0 || jobs.victims == 0 || needed > u64::from(hosts) {
                let message = format!("{} senders, {} victims and a receiver on {hosts} hosts", jobs.senders, jobs.victims);
                return Err(Problem::at(&place("senders"), message, "use at least 1 of each, and together at most all hosts"));
            }
            if jobs.victim_size == Bytes::ZERO || jobs.victim_size > LARGEST_MESSAGE {
                let message = format!("a message of {} cannot be sent", jobs.victim_size);
                return Err(Problem::at(&place("victim_size"), message, format!("use 1 B to {LARGEST_MESSAGE}")));
            }
            if jobs.schemes.is_empty() || jobs.schemes.len() > 1000 {
                let message = format!("{} schemes", jobs.schemes.len());
                return Err(Problem::at(&place("schemes"), message, "write 1 to 1000 of them: [{ congestion = \"dcqcn\" }]"));
            }
            Ok(())
        }
        Workload::ClosedLoop(closed) => {
            let place = |key| ["workload", name, key];
            let numbers = &closed.outstanding;
            if numbers.is_empty() || numbers.len() > 1000 {
                let message = format!("{} numbers of outstanding messages", numbers.len());
                return Err(Problem::at(&place("outstanding"), message, "write 1 to 1000 of them: [1, 4, 16]"));
            }
            if numbers.contains(&0) {
                return Err(Problem::at(&place("outstanding"), "no message is ever outstanding", "write numbers from 1"));
            }
            if closed.messages == 0 {
                return Err(Problem::at(&place("messages"), "no message is sent", "use at least 1"));
            }
            Ok(())
        }
        Workload::Uniform(uniform) if uniform.messages == 0 => {
            Err(Problem::at(&["workload", name, "messages"], "no message is sent", "use at least 1"))
        }
        _ => Ok(()),
    }
}

/// Whether receivers of a transport can take packets as they come.
pub(crate) fn check_order(transport: Service, place: &[&str]) -> Result<(), Problem> {
    if transport == Service::Rc || transport.any_order() {
        return Ok(());
    }
    let message = format!("`any_order` over {}, whose receivers keep the order", transport.name());
    Err(Problem::at(place, message, "leave any_order out, or use transport = \"rc\", \"srd\" or \"uet\""))
}

/// Whether the cluster's library and congestion control have what a transport takes.
pub(crate) fn check_transport(transport: Service, cluster: &ResolvedCluster, place: &[&str]) -> Result<(), Problem> {
    if let Some(congestion) = cluster.congestion.as_ref().filter(|congestion| congestion.gives_credit() && !transport.takes_credit()) {
        let message = format!("{} carries no credit, which `{}` gives", transport.name(), congestion.name);
        return Err(Problem::at(place, message, "use transport = \"uet\", or another congestion control"));
    }
    for group in &cluster.groups {
        let nic = &group.node.nic;
        if let (Interface::Iwarp, true) = (nic.interface, transport != Service::Rc) {
            let message = format!("the adapter `{}` has connections over TCP (iWARP) and nothing else", nic.name);
            return Err(Problem::at(place, message, "use transport = \"rc\""));
        }
        // What a library inherits from one over verbs does not hold over another interface.
        let mpi = group.software.mpi.as_ref().filter(|_| group.software.interface == Interface::Verbs);
        if transport == Service::Ud && mpi.is_none_or(|mpi| mpi.datagrams.is_none() || mpi.connections.is_none()) {
            let message = format!("the library `{}` has no messages over datagrams", group.software.name);
            let help = "use transport = \"rc\", or a library with [mpi.connections] and [mpi.datagrams], for example software = \"mvapich2-2.3.7\"";
            return Err(Problem::at(place, message, help));
        }
    }
    if transport == Service::Ud && cluster.uniform().is_none() {
        let message = format!("datagrams of a library between the unlike nodes of `{}`", cluster.name);
        return Err(Problem::at(place, message, "use transport = \"rc\", or name one group of nodes"));
    }
    Ok(())
}

/// Whether the job fits.
fn check_job(bench: &Bench, cluster: &ResolvedCluster) -> Result<(), Problem> {
    let wrong = |key, message, most: u32| Err(Problem::at(&["workload", "bench", key], message, format!("use 1 to {most}")));
    let cores = cluster.groups.iter().map(|group| group.node.cpu.cores.saturating_mul(group.node.sockets)).min().unwrap_or(0).max(1);
    if let Some(list) = &bench.hosts {
        cluster.nodes_named(list).map_err(|problem| problem.under("bench").under("workload"))?;
    }
    match (bench.nodes, bench.per_node) {
        (Some(nodes), _) if nodes == 0 || nodes > cluster.nodes() => {
            wrong("nodes", format!("{nodes} nodes of {}", cluster.nodes()), cluster.nodes())
        }
        (_, Some(ranks)) if ranks == 0 || ranks > cores => wrong("per_node", format!("{ranks} ranks on {cores} cores"), cores),
        _ => Ok(()),
    }
}

fn check_capture(capture: &Capture, cluster: &ResolvedCluster) -> Result<(), Problem> {
    let (place, hosts) = (|key| ["workload", "capture", key], cluster.endpoints());
    check_transport(capture.transport, cluster, &place("transport"))?;
    if !capture.file.is_file() {
        let message = format!("there is no file {}", capture.file.display());
        return Err(Problem::at(&place("file"), message, "name a capture as seen from the file that says so: \"trace.pcap\""));
    }
    if capture.hosts.len() > hosts as usize {
        let message = format!("{} addresses for {hosts} hosts", capture.hosts.len());
        return Err(Problem::at(&place("hosts"), message, "use a larger cluster, or name fewer hosts"));
    }
    let mut sorted = capture.hosts.clone();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let message = format!("{} is a duplicate entry", twice[0]);
        return Err(Problem::at(&place("hosts"), message, "name each host once, rank 0 first"));
    }
    Ok(())
}

/// The longest open loop. Basis: assumed.
const LONGEST: Span = Span::from_us(1_000_000);

/// The largest RDMA message (standard: InfiniBand Architecture Specification volume 1, 2³¹ bytes).
const LARGEST_MESSAGE: Bytes = Bytes(1 << 31);
