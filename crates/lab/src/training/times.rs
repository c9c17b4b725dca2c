//! How long operations of a job's groups take on a cluster.
//!
//! Source: NCCL as `fabriscope-nccl` has it: channels, rings and trees, the choice by its table of costs.
//! Modelled: groups within a node by the library itself, step by step, as `bench` runs it; groups between nodes as fluids: every channel of
//! every group of the job is a fluid along its ring or tree, and moves with all others at max-min fair rates. The latency is that of the
//! library's own table. Tokens by nodes: fluids along rails, and the links of the node. Neighbours of a pipeline: a message alone between two nodes by packets, and what it loses of its rate to the others.
//! Not modelled: groups of kinds that meet each other on the network.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_engine::Cluster;
use fabriscope_engine_flow::{Fluid, FluidBound, Nodes, adapters_of_gpus_on, rates_on};
use fabriscope_nccl::{self as nccl, Algorithm};
use fabriscope_platform::links_of_gpu;
use fabriscope_platform::nccl::{Library, set_variable};
use fabriscope_training::tokens::forwarded;
use fabriscope_training::{Bound, CommunicationTimes, Cost, Group, Operation};
use fabriscope_training_plan::collective_of;
use fabriscope_units::{Bytes, Rate, Span};

use super::benched;
use crate::error::LabError;

/// The times of a job's operations, each asked once.
pub struct ClusterTimes<'a> {
    catalog: &'a Catalog,
    parts: ResolvedCluster,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) library: Library,
    /// Of the job.
    gpus: u32,
    per_node: u32,
    /// The adapter of each GPU of a node.
    pub(crate) adapters: Vec<u32>,
    /// By network; of groups within nodes, which no network changes, as it is.
    known: BTreeMap<(Network, Operation, Bytes, Group), Known>,
    /// The slowest of the fluids of a shape.
    rates: BTreeMap<(Group, Shape), (Rate, Span, FluidBound)>,
    plans: BTreeMap<(u32, u32), (nccl::Communicator, nccl::Tuner)>,
    /// What may be taken between nodes.
    algorithms: Vec<Algorithm>,
    network: Network,
    situation: Situation,
}

/// What is otherwise than the cluster and its library have it, for what it costs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Situation {
    /// What nodes use of what they have.
    pub nodes: Nodes,
    /// Variables of the library.
    pub environment: Vec<(&'static str, &'static str)>,
    /// Switches reduce, where the library has it and finds it better.
    pub in_network: bool,
    /// Nothing that does not depend on bytes takes time.
    pub without_latency: bool,
}

/// The network between nodes, for what it costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Network {
    /// As the cluster has it.
    AsItIs,
    /// Adapters and links carry twice as much in the same time; latencies stay.
    TwiceAsFast,
    /// Nothing between nodes takes time.
    None,
}

/// What is known of an operation.
#[derive(Debug, Clone, Copy)]
struct Known {
    span: Span,
    /// What of it does not depend on the bytes.
    latency: Span,
    bound: Bound,
    processors: u32,
}

impl Known {
    const NOTHING: Known = Known { span: Span::ZERO, latency: Span::ZERO, bound: Bound::Latency, processors: 0 };
}

/// The same operation in both engines.
#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// GPUs that take part.
    pub ranks: u32,
    /// How much is reduced.
    pub bytes: Bytes,
    /// By packets.
    pub packets: Span,
    /// As fluids.
    pub fluids: Span,
}

/// What the library itself expects of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// What it is.
    pub operation: Operation,
    /// Bytes of the larger buffer of a rank.
    pub bytes: Bytes,
    /// Among whom.
    pub group: Group,
    /// What it takes here.
    pub taken: Span,
    /// As `ncclGroupSimulateEnd` says it.
    pub estimate: Span,
}

/// Which groups lie within nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupsWithin {
    per_node: u32,
}

impl GroupsWithin {
    pub fn within(self, group: Group) -> bool {
        let span = u64::from(group.size) * u64::from(group.stride);
        span <= u64::from(self.per_node) && u64::from(self.per_node).is_multiple_of(span)
    }
}

/// What is compared: long enough that rates count, short enough that packets are soon done.
const COMPARED: Bytes = Bytes::from_mib(64);

/// What the library may take between nodes.
const BETWEEN_NODES: [Algorithm; 2] = [Algorithm::Ring, Algorithm::Tree];

/// The same with those in which switches reduce.
const WITH_SWITCHES: [Algorithm; 4] = [Algorithm::Ring, Algorithm::Tree, Algorithm::CollnetDirect, Algorithm::CollnetChain];

/// How fluids of groups lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    /// To the switches that add and back: what crosses an adapter or a leaf does so once each way, as an edge of a ring does.
    Switches(Rate),
    Rings(u32, Rate),
    Trees(u32, Rate),
    Pairs,
    Alone,
    Everybody,
    Rails,
}

impl<'a> ClusterTimes<'a> {
    /// For a job of `gpus` on the first nodes of a cluster.
    ///
    /// # Errors
    /// GPUs without a library, a fabric that its switches cannot form.
    pub fn new(catalog: &'a Catalog, parts: ResolvedCluster, gpus: u32) -> Result<ClusterTimes<'a>, LabError> {
        ClusterTimes::in_situation(catalog, parts, gpus, Situation::default())
    }

    /// The same in another situation.
    ///
    /// # Errors
    /// As [`ClusterTimes::new`].
    pub fn in_situation(
        catalog: &'a Catalog,
        parts: ResolvedCluster,
        gpus: u32,
        situation: Situation,
    ) -> Result<ClusterTimes<'a>, LabError> {
        let refused = |what: String, help: &str| LabError::Training { message: what, help: help.to_owned() };
        // Adapters that are lost the library does not see.
        let mut seen = parts.clone();
        if situation.nodes.lost > 0 && seen.uniform().is_some() {
            let node = &mut seen.sole_mut().node;
            node.nics = node.nics.saturating_sub(situation.nodes.lost).max(1);
        }
        let mut library = Library::of(&seen).ok_or_else(|| {
            refused(
                format!("no library of collective operations runs on the GPUs of `{}`", parts.name),
                "name one: collectives = \"nccl-2.18\"",
            )
        })?;
        for (name, value) in &situation.environment {
            set_variable(&mut library.settings, name, value).map_err(|error| told(&error))?;
        }
        let cluster =
            Cluster::new(parts.clone()).map_err(|error| refused(error.to_string(), "look at the topology: fabriscope topo check"))?;
        let per_node = library.gpus();
        let adapters = adapters_of_gpus_on(&cluster, per_node, situation.nodes)
            .map_err(|error| refused(error.to_string(), "use nodes whose GPUs and adapters are joined"))?;
        Ok(ClusterTimes {
            catalog,
            cluster: Arc::new(cluster),
            adapters,
            gpus,
            per_node,
            library,
            parts,
            known: BTreeMap::new(),
            rates: BTreeMap::new(),
            plans: BTreeMap::new(),
            algorithms: if situation.in_network { WITH_SWITCHES.to_vec() } else { BETWEEN_NODES.to_vec() },
            network: Network::AsItIs,
            situation,
        })
    }

    /// Takes over what another knows of groups within nodes, which are the same there.
    pub fn inherit(&mut self, other: &ClusterTimes<'_>) {
        self.known.extend(other.known.iter().filter(|((.., group), _)| other.within(*group)).map(|(key, known)| (*key, *known)));
        if self.situation.without_latency {
            self.known.values_mut().for_each(|known| *known = without_latency(*known));
        }
    }

    /// The same with another network; what stays within nodes takes as long there.
    pub fn on(&mut self, network: Network) {
        self.network = network;
    }

    fn known(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<Known, LabError> {
        if group.size <= 1 || bytes == Bytes::ZERO {
            return Ok(Known::NOTHING);
        }
        let network = if self.within(group) { Network::AsItIs } else { self.network };
        let key = (network, operation, bytes, group);
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let known = match network {
            _ if self.within(group) && matches!(operation, Operation::Tokens { .. }) => self.between(operation, bytes, group)?,
            _ if self.within(group) => self.benched(operation, bytes, (1, group.size))?,
            Network::AsItIs => self.between(operation, bytes, group)?,
            Network::TwiceAsFast => self.between(operation, Bytes(bytes.0.div_ceil(2)), group)?,
            Network::None => Known::NOTHING,
        };
        let known = if self.situation.without_latency { without_latency(known) } else { known };
        self.known.insert(key, known);
        Ok(known)
    }

    /// How far fluids are from the library step by step, packet by packet: an all-reduce of one group of the kind on two nodes, by the algorithm
    /// that the job takes for `bytes`. Nothing where groups do not leave their nodes.
    ///
    /// # Errors
    /// What the cluster cannot do.
    pub fn compared(&mut self, group: Group, bytes: Bytes) -> Result<Option<Comparison>, LabError> {
        if group.size <= 1 || self.within(group) {
            return Ok(None);
        }
        let each = self.on_each(group);
        let (_, tuner) = self.plan(group.size.div_ceil(each), each)?;
        let algorithm = chosen(tuner, Operation::AllReduce, bytes, &BETWEEN_NODES)?.0.algorithm;
        let two = Group { size: 2 * each, stride: group.stride };
        let mut job = ClusterTimes {
            parts: self.parts.clone(),
            cluster: Arc::clone(&self.cluster),
            library: self.library.clone(),
            gpus: 2 * self.per_node,
            adapters: self.adapters.clone(),
            known: BTreeMap::new(),
            rates: BTreeMap::new(),
            plans: BTreeMap::new(),
            algorithms: vec![algorithm],
            network: Network::AsItIs,
            situation: self.situation.clone(),
            ..*self
        };
        let packets = job.benched(Operation::AllReduce, COMPARED, (2, each))?.span;
        let fluids = job.between(Operation::AllReduce, COMPARED, two)?.span;
        Ok(Some(Comparison { algorithm, ranks: two.size, bytes: COMPARED, packets, fluids }))
    }

    /// What the library itself expects of the collective operations whose times are known.
    ///
    /// # Errors
    /// What users set leaves nothing.
    pub fn expected(&mut self) -> Result<Vec<Expected>, LabError> {
        let planned = |(network, operation, ..): &(Network, Operation, Bytes, Group)| {
            *network == Network::AsItIs && matches!(operation, Operation::AllReduce | Operation::AllGather | Operation::ReduceScatter)
        };
        let known: Vec<_> = self.known.iter().filter(|(key, _)| planned(key)).map(|(key, known)| (*key, *known)).collect();
        let mut all = Vec::new();
        for ((_, operation, bytes, group), known) in known {
            let within = self.within(group);
            let each = if within { group.size } else { self.on_each(group) };
            let algorithms = if within { Algorithm::ALL.to_vec() } else { self.algorithms.clone() };
            let (_, tuner) = self.plan(group.size.div_ceil(each), each)?;
            let (choice, _) = chosen(tuner, operation, bytes, &algorithms)?;
            all.push(Expected { operation, bytes, group, taken: known.span, estimate: choice.estimate });
        }
        Ok(all)
    }

    /// Whether all groups of the kind lie within nodes.
    pub(super) fn within(&self, group: Group) -> bool {
        self.groups_within().within(group)
    }
    /// The same for whoever cannot hold on to the times.
    pub(crate) fn groups_within(&self) -> GroupsWithin {
        GroupsWithin { per_node: self.per_node }
    }

    /// Members of a group on each of its nodes: as many everywhere, for the library's channels.
    fn on_each(&self, group: Group) -> u32 {
        let most = (self.per_node / group.stride.max(1)).clamp(1, (group.size - 1).max(1));
        (1..=most).rev().find(|each| group.size.is_multiple_of(*each)).unwrap_or(1)
    }

    /// What `bench` prints on nodes that nobody shares, and the channels it says.
    fn benched(&mut self, operation: Operation, bytes: Bytes, (nodes, each): (u32, u32)) -> Result<Known, LabError> {
        let ranks = u64::from(nodes * each);
        let bytes = bytes.0.next_multiple_of(ranks * 16);
        let only = self.algorithms.first().filter(|_| self.algorithms.len() == 1).map(|only| format!("NCCL_ALGO={only}"));
        let set = self.situation.environment.iter().map(|(name, value)| format!("{name}={value}"));
        let mut options: Vec<String> = only.into_iter().chain(set).flat_map(|variable| ["--env".to_owned(), variable]).collect();
        options.extend(["-b", &bytes.to_string(), "-e", &bytes.to_string(), "-n", "5"].map(str::to_owned));
        let outcome = benched(self.catalog, tool(operation), &self.parts, (nodes, each), options)?;
        let points = outcome.get("points").and_then(|points| points.as_array());
        let time = points.and_then(|points| points.iter().find(|point| point["metric"] == "time")?["value"].as_f64());
        let remarks = outcome.get("remarks").map(ToString::to_string).unwrap_or_default();
        let channels = remarks.split(" channels").next().and_then(|before| before.rsplit(' ').next()?.parse().ok());
        let us = time.ok_or_else(|| LabError::Training {
            message: format!("`{}` gave no time on `{}`", tool(operation), self.parts.name),
            help: "run it by itself: fabriscope bench".to_owned(),
        })?;
        let span = Span::from_ps((us * 1e6) as u64);
        let latency = self.latency_of(operation, Bytes(bytes), (nodes, each))?.min(span);
        let bound = match nodes {
            _ if latency * 2 > span => Bound::Latency,
            1 if self.parts.sole().node.layout.scale_up.is_some() => Bound::ScaleUp,
            1 => Bound::PciExpress,
            _ => Bound::Adapters,
        };
        Ok(Known { span, latency, bound, processors: channels.unwrap_or(CHANNELS_OF_PAIR) })
    }

    /// What the library's table says that an operation takes whatever its bytes; of messages, what the host and the kernel take to start.
    fn latency_of(&mut self, operation: Operation, bytes: Bytes, (nodes, each): (u32, u32)) -> Result<Span, LabError> {
        let start = self.library.call + self.library.kernel_start;
        if matches!(operation, Operation::AllToAll | Operation::SendReceive) {
            let proxy = if nodes > 1 { self.library.proxy_step } else { Span::ZERO };
            return Ok(start + proxy);
        }
        let (_, tuner) = self.plan(nodes, each)?;
        Ok(chosen(tuner, operation, bytes, &Algorithm::ALL)?.1)
    }

    /// As fluids, on the nodes where the groups are.
    fn between(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<Known, LabError> {
        let size = f64::from(group.size);
        let others = (size - 1.0) / size;
        let (shape, latency, moved, processors) = match operation {
            Operation::AllReduce | Operation::AllGather | Operation::ReduceScatter => {
                let each = self.on_each(group);
                let algorithms = self.algorithms.clone();
                let (communicator, tuner) = self.plan(group.size.div_ceil(each), each)?;
                let (choice, entry) = chosen(tuner, operation, bytes, &algorithms)?;
                let channels = choice.channels.min(communicator.channels()).max(1);
                let most = self.library.pace(choice.protocol).rate;
                let share = bytes.0 as f64 / f64::from(channels);
                let (shape, moved) = match (choice.algorithm, operation) {
                    (Algorithm::CollnetDirect | Algorithm::CollnetChain, _) => (Shape::Switches(self.reduced(group)), bytes.0 as f64),
                    (Algorithm::Tree, _) => (Shape::Trees(channels, most), share),
                    (_, Operation::AllReduce) => (Shape::Rings(channels, most), 2.0 * others * share),
                    _ => (Shape::Rings(channels, most), others * share),
                };
                (shape, entry, moved, channels)
            }
            Operation::AllToAll => {
                let steps = u64::from(group.size - 1);
                let latency = self.library.call + self.library.kernel_start + self.library.proxy_step * steps;
                (Shape::Everybody, latency, bytes.0 as f64 * others, CHANNELS_OF_PAIR)
            }
            Operation::Tokens { .. } => return self.by_nodes(operation, bytes, group),
            Operation::SendReceive => {
                let alone = self.benched(operation, bytes, (2, 1))?;
                let (rate, _, bound) = self.rate(group, Shape::Pairs)?;
                let (free, ..) = self.rate(group, Shape::Alone)?;
                let lost = rate.time(bytes).saturating_sub(free.max(rate).time(bytes));
                let span = alone.span + lost;
                return Ok(Known { span, bound: self.bound(bound, alone.latency, span), ..alone });
            }
        };
        let (rate, crossing, bound) = self.rate(group, shape)?;
        let steps = if matches!(shape, Shape::Everybody) { 1 } else { 0 };
        let latency = latency + crossing * steps;
        let span = latency + rate.time(Bytes(moved as u64));
        Ok(Known { span, latency, bound: self.bound(bound, latency, span), processors })
    }

    /// Tokens to experts by kernels of their own: what goes along rails to the other nodes and, meanwhile, on the links of the node.
    fn by_nodes(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<Known, LabError> {
        let each = if self.within(group) { group.size } else { self.on_each(group) };
        let sent = forwarded(operation, bytes, group, each).unwrap_or_default();
        // Counts go before the tokens.
        let start = (self.library.call + self.library.kernel_start) * 2;
        let links = links_of_gpu(&self.parts).filter(|_| each > 1);
        let inside = links.map_or(Span::ZERO, |links| links.time(sent.inside));
        let (mut outside, mut latency, mut bound) = (Span::ZERO, start, Bound::ScaleUp);
        if group.size > each {
            let (rate, crossing, fluid) = self.rate(group, Shape::Rails)?;
            outside = rate.time(sent.outside);
            latency += crossing * 2;
            bound = if outside > inside { self.bound(fluid, Span::ZERO, outside) } else { bound };
        }
        let span = latency + inside.max(outside);
        Ok(Known { span, latency, bound: if latency * 2 > span { Bound::Latency } else { bound }, processors: PROCESSORS_OF_TOKENS })
    }

    /// What decides the time of an operation whose fluid is held back like this.
    fn bound(&self, fluid: FluidBound, latency: Span, span: Span) -> Bound {
        match fluid {
            _ if latency * 2 > span => Bound::Latency,
            FluidBound::Own => Bound::Blocks,
            FluidBound::Node => Bound::PciExpress,
            FluidBound::Adapter => Bound::Adapters,
            FluidBound::Uplink => Bound::Uplinks,
        }
    }

    /// What switches add for each group of the kind, while all groups whose ranks a switch has ask at once: its stream of sums is shared.
    fn reduced(&self, group: Group) -> Rate {
        let stream = self.parts.switch.as_ref().and_then(|switch| switch.aggregation.as_ref()?.stream.as_ref().map(|stream| *stream.rate));
        let groups = (self.per_node / self.on_each(group).max(1)).clamp(1, group.stride.max(1));
        Rate::from_bps(stream.unwrap_or(Rate::from_bps(u64::MAX)).as_bps() / u64::from(groups.max(1)))
    }

    /// The library's plan for nodes with so many GPUs each.
    fn plan(&mut self, nodes: u32, each: u32) -> Result<&(nccl::Communicator, nccl::Tuner), LabError> {
        match self.plans.entry((nodes, each)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let plan = self.library.join(nodes, each, &self.library.settings).map_err(|error| told(&error))?;
                let tuner = nccl::Tuner::new(&plan);
                Ok(place.insert((plan, tuner)))
            }
        }
    }

    /// What the slowest fluid of a shape moves while all groups of the kind do the same.
    fn rate(&mut self, group: Group, shape: Shape) -> Result<(Rate, Span, FluidBound), LabError> {
        if let Some(known) = self.rates.get(&(group, shape)) {
            return Ok(*known);
        }
        let members = |number: u32| -> Vec<u32> {
            let (block, within) = (number / group.stride, number % group.stride);
            let first = block * group.stride * group.size + within;
            (0..group.size).map(|rank| first + rank * group.stride).collect()
        };
        // Blocks of groups side by side; ends of a pipeline are one block that does not fill the job.
        let whole = self.gpus / (group.size * group.stride);
        let groups = (whole * group.stride).max(group.stride.min(self.gpus.saturating_sub((group.size - 1) * group.stride)));
        let each = self.on_each(group);
        let mut fluids = Vec::new();
        let edges = match shape {
            Shape::Rings(channels, _) | Shape::Trees(channels, _) => {
                let adapters = self.adapters.clone();
                let algorithm = if matches!(shape, Shape::Trees(..)) { Algorithm::Tree } else { Algorithm::Ring };
                let (plan, _) = self.plan(group.size.div_ceil(each), each)?;
                (0..channels).map(|channel| plan.edges_between_nodes(&adapters, channel, algorithm)).collect()
            }
            _ => Vec::new(),
        };
        for number in 0..groups {
            let members = members(number);
            match shape {
                Shape::Rings(_, most) | Shape::Trees(_, most) => fluids.extend(edges.iter().map(|edges| {
                    let way = |(from, to): &(u32, u32)| (members[*from as usize], members[*to as usize], 1.0);
                    Fluid { ways: edges.iter().map(way).collect(), most }
                })),
                Shape::Switches(most) => {
                    let next = |rank: usize| members[(rank + 1) % members.len()];
                    let ways = members.iter().enumerate().map(|(rank, member)| (*member, next(rank), 1.0)).collect();
                    fluids.push(Fluid { ways, most });
                }
                Shape::Pairs => {
                    let most = Rate::from_bps(u64::MAX);
                    fluids.extend(members.windows(2).map(|pair| Fluid { ways: vec![(pair[0], pair[1], 1.0)], most }));
                }
                Shape::Alone if number > 0 => {}
                Shape::Alone => fluids.push(Fluid { ways: vec![(members[0], members[1], 1.0)], most: Rate::from_bps(u64::MAX) }),
                Shape::Rails => {
                    let most = Rate::from_bps(u64::MAX);
                    let (nodes, size) = (group.size / each, members.len());
                    let share = 1.0 / f64::from((nodes - 1).max(1));
                    for (place, from) in members.iter().enumerate() {
                        let peer = |step: u32| (*from, members[(place + (step * each) as usize) % size], share);
                        fluids.push(Fluid { ways: (1..nodes).map(peer).collect(), most });
                    }
                }
                Shape::Everybody => {
                    let share = 1.0 / f64::from(group.size - 1);
                    let most = Rate::from_bps(u64::MAX);
                    for from in &members {
                        let ways = members.iter().filter(|to| *to != from).map(|to| (*from, *to, share)).collect();
                        fluids.push(Fluid { ways, most });
                    }
                }
            }
        }
        let nodes = self.situation.nodes;
        let found = rates_on(&self.cluster, self.gpus, self.per_node, nodes, &fluids).map_err(|error| LabError::Training {
            message: format!("the job as fluids: {error}"),
            help: "use a cluster whose routes are fixed, with room for the job".to_owned(),
        })?;
        let slowest = found.rates.into_iter().zip(found.bounds).min().unwrap_or((Rate::default(), FluidBound::Own));
        let known = (slowest.0, found.latency, slowest.1);
        self.rates.insert((group, shape), known);
        Ok(known)
    }
}

impl CommunicationTimes for ClusterTimes<'_> {
    type Error = LabError;
    fn time(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<Span, LabError> {
        Ok(self.known(operation, bytes, group)?.span)
    }
    fn processors(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<u32, LabError> {
        Ok(self.known(operation, bytes, group)?.processors)
    }
    fn cost(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<Cost, LabError> {
        let Known { span, latency, bound, processors } = self.known(operation, bytes, group)?;
        Ok(Cost { span, latency, bound, processors, leaves_node: !self.within(group) })
    }
}

/// The same as if nothing but bytes took time.
fn without_latency(known: Known) -> Known {
    Known { span: known.span.saturating_sub(known.latency), latency: Span::ZERO, ..known }
}

/// What the library takes of these algorithms, and its latency.
fn chosen(tuner: &nccl::Tuner, operation: Operation, bytes: Bytes, algorithms: &[Algorithm]) -> Result<(nccl::Choice, Span), LabError> {
    let choice = tuner.choose_among(collective_of(operation), algorithms, bytes).map_err(|error| told(&error))?;
    let entry = tuner.entry(choice.operation, choice.algorithm, choice.protocol);
    Ok((choice, entry.map_or(Span::ZERO, |entry| entry.as_units().0)))
}

fn told(error: &nccl::NcclError) -> LabError {
    use fabriscope_units::Remedy;
    LabError::Training { message: error.in_full(), help: "see how the library sees it: fabriscope show nccl".to_owned() }
}

const fn tool(operation: Operation) -> &'static str {
    match operation {
        Operation::AllReduce => "all_reduce_perf",
        Operation::AllGather => "all_gather_perf",
        Operation::ReduceScatter => "reduce_scatter_perf",
        Operation::AllToAll | Operation::Tokens { .. } => "alltoall_perf",
        Operation::SendReceive => "sendrecv_perf",
    }
}

/// Processors that kernels of tokens keep. Basis: published, DeepEP's default.
const PROCESSORS_OF_TOKENS: u32 = 20;

/// Basis: published, NCCL's channels for a peer on the network.
const CHANNELS_OF_PAIR: u32 = 2;
