//! Where the ranks of a job sit, and over which links a message goes from one to another: of the fabric, and of their nodes.
//!
//! ```text
//!  GPU ── PCIe … ──┐ adapter ══ fabric ══ adapter ┌── PCIe … ── GPU
//!  GPU ── NVLink, xGMI, PCIe, host memory ── GPU of the same node
//! ```
//!
//! Nodes are filled one after the other. On nodes with GPUs rank *i* of a node is GPU *i*, with the adapter nearest to it that the fewest
//! others have. Without GPUs, and with no more ranks than adapters, rank *i* is adapter *i*; more ranks are spread evenly over the NUMA domains.
//!
//! Source: the parts, by the paths of `machine` and the tables of `node::Reach` that the packet engine uses.
//! Modelled: every link of the node's graph with its rate; a copy within a node by the engine of the sending GPU, or by the core of the
//! receiving rank, which reads and writes memory once. Not modelled: two copies through shared memory, GPUs that copy by kernels.

use std::collections::BTreeMap;

use fabriscope_engine::{Cluster, EngineError, Feature, timing};
use fabriscope_fabric::{LinkId, distances_to_endpoints};
use fabriscope_machine::{Access, Machine, Purpose, ResourceId, Use, VertexId, Weight};
use fabriscope_node::{Memory, Reach};
use fabriscope_units::{Rate, Remedy, Span};

use crate::latency::{Latency, SwitchLatency};
use crate::paths::Paths;
use crate::support::refusal;

/// Links of a node, and what a byte of payload takes of each.
type Inside = Vec<(u32, f64)>;

/// A rank of a node.
#[derive(Debug, Clone, Default)]
struct RankPath {
    /// Its adapter, among those of the node.
    nic: u32,
    /// What the adapter passes when it fetches from the memory of the rank, and when it writes there.
    out: Inside,
    into: Inside,
    /// What that takes longer than with the memory nearest to the adapter.
    read: Span,
    write: Span,
}

/// What copies within a node cost beside moving bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CopyCosts {
    /// Core time of the sender.
    pub call: Span,
    /// From the call until bytes move.
    pub start: Span,
    /// From the last byte until sender and receiver know.
    pub notice: Span,
}

/// What a message from one rank to another meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessagePath {
    /// Nothing leaves the node.
    pub inside: bool,
    /// Links, switches and cables (ps).
    pub latency: u64,
    /// Writing to the memory of the receiver, beyond the nearest one.
    pub write: Span,
}

/// What of its nodes a job uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nodes {
    /// Messages of GPUs go through the memory of the host: adapters do not reach that of the GPUs (no GPUDirect RDMA).
    pub staged: bool,
    /// Adapters of each node, from the last on, that are not used.
    pub lost: u32,
}

/// Ranks on the nodes of a cluster.
pub(crate) struct Places<'a> {
    pub cluster: &'a Cluster,
    paths: Paths<'a>,
    pub ranks: u32,
    per_node: u32,
    seats: Vec<RankPath>,
    /// From each rank of a node to each other one, with the latency of the way.
    between: Vec<(Inside, Span)>,
    /// Capacities of the links of a node, bytes per picosecond.
    inside: Vec<f64>,
    pub costs: CopyCosts,
}

impl<'a> Places<'a> {
    /// `ranks` of them, `per_node` on each node.
    pub fn new(cluster: &'a Cluster, ranks: u32, per_node: u32) -> Result<Places<'a>, EngineError> {
        Places::on(cluster, ranks, per_node, Nodes::default())
    }

    /// The same where the job does not use all that its nodes have.
    pub fn on(cluster: &'a Cluster, ranks: u32, per_node: u32, nodes: Nodes) -> Result<Places<'a>, EngineError> {
        let parts = &cluster.parts;
        let room = u64::from(parts.nodes()) * u64::from(per_node);
        if per_node == 0 || u64::from(ranks) > room {
            return Err(EngineError::TooManyRanks { ranks, adapters: u32::try_from(room).expect("there is room for fewer than `ranks`") });
        }
        let paths = Paths::new(&cluster.fabric, parts.routing)?;
        let machine = parts.sole().node.machine().map_err(|error| EngineError::Setup(error.in_full()))?;
        let gpus = machine.gpus().len() as u32;
        if gpus > 0 && per_node > gpus {
            let what = format!("{per_node} ranks on a node with {gpus} GPUs");
            return Err(refusal(Feature::Placement, what, format!("use at most {gpus} ranks a node")).into());
        }
        let mut node = NodeGraph { machine: &machine, numbers: BTreeMap::new(), capacities: Vec::new() };
        let homes = homes(&machine, per_node, parts.sole().node.nics);
        let reach = Reach::of(&machine, &timing::pcie(parts), true);
        let bus = timing::pcie(parts);
        let seats: Result<Vec<RankPath>, EngineError> = adapters(&machine, &homes, nodes.lost)
            .into_iter()
            .zip(&homes)
            .map(|(nic, home)| {
                let Some(memory) = home.memory else { return Ok(RankPath { nic, ..RankPath::default() }) };
                if nodes.staged && gpus > 0 {
                    return node.staged(&reach, nic, home);
                }
                let way = reach.place_of(memory).and_then(|place| reach.path(nic as usize, place));
                let Some(way) = way else {
                    let what = format!("adapters that do not reach the memory of `{}`", machine.vertex(home.vertex).name);
                    return Err(refusal(Feature::Placement, what, "use a node whose GPUs and adapters are joined").into());
                };
                let [out, into] = way.takes.each_ref().map(|uses| node.links(uses));
                let (read, write) =
                    (way.read_latency.saturating_sub(bus.read_latency), way.write_latency.saturating_sub(bus.write_latency));
                Ok(RankPath { nic, out, into, read, write })
            })
            .collect();
        let costs = timing::devices(parts).filter(|_| gpus > 0);
        let engine = costs.as_ref().map_or(parts.sole().node.cpu.copy_rate_streaming.value, |costs| costs.copy_engines.most());
        let mut between = Vec::new();
        for from in 0..homes.len() {
            for to in 0..homes.len() {
                between.push(if from == to { (Inside::new(), Span::ZERO) } else { node.copy(&homes, from, to, gpus > 0, engine)? });
            }
        }
        let cpu = timing::cpu(parts);
        let costs = costs.map_or(CopyCosts { call: cpu.copy_call, start: Span::ZERO, notice: cpu.detect }, |costs| CopyCosts {
            call: costs.calls.copy_async,
            start: costs.calls.copy_start,
            notice: costs.calls.stream_synchronize,
        });
        Ok(Places { cluster, paths, ranks, per_node, seats: seats?, between, inside: node.capacities, costs })
    }

    fn seat(&self, rank: u32) -> &RankPath {
        &self.seats[self.local(rank) as usize]
    }
    /// The adapter of a rank, among all.
    pub fn adapter(&self, rank: u32) -> u32 {
        let group = self.cluster.parts.sole();
        group.first_endpoint + rank / self.per_node * group.node.nics + self.seat(rank).nic
    }
    /// The adapter of a rank, among those of its node.
    pub fn nic(&self, rank: u32) -> u32 {
        self.seat(rank).nic
    }
    /// Its place among the ranks of its adapter.
    pub fn turn(&self, rank: u32) -> u32 {
        let local = self.local(rank);
        let nic = self.seats[local as usize].nic;
        self.seats[..local as usize].iter().filter(|seat| seat.nic == nic).count() as u32
    }
    /// Its place among the ranks of its node.
    pub fn local(&self, rank: u32) -> u32 {
        rank % self.per_node
    }
    pub fn node(&self, rank: u32) -> u32 {
        rank / self.per_node
    }
    /// What fetching from the memory of a rank takes longer than from that nearest to its adapter.
    pub fn read(&self, rank: u32) -> Span {
        self.seat(rank).read
    }
    /// Adapters of a node.
    pub fn nics(&self) -> usize {
        self.cluster.parts.sole().node.nics as usize
    }
    /// Nodes of the job.
    pub fn nodes(&self) -> u32 {
        self.ranks.div_ceil(self.per_node)
    }
    /// The most links of a message.
    pub fn stride(&self) -> u32 {
        let most = |ways: &mut dyn Iterator<Item = usize>| ways.max().unwrap_or(0) as u32;
        let out = most(&mut self.seats.iter().map(|seat| seat.out.len()));
        let into = most(&mut self.seats.iter().map(|seat| seat.into.len()));
        (self.paths.stride + out + into).max(most(&mut self.between.iter().map(|(links, _)| links.len()))).max(1)
    }

    /// All links: those of the fabric, then those of each node of the job. Capacity in bytes per picosecond, and what can be told
    /// apart at once: the delay and how far the ends are from the hosts, the place in the node.
    pub fn links(&self, latency: &Latency) -> impl Iterator<Item = (f64, (u64, u32, u32))> {
        let graph = &self.cluster.fabric.graph;
        let levels = distances_to_endpoints(graph);
        let fabric = graph.links().iter().map(move |link| {
            let ends = [link.from, link.to].map(|end| levels[end.index()]);
            (latency.capacity(link, graph.endpoint_count()), (link.delay.as_ps(), ends[0], ends[1]))
        });
        let of_node = || (0..).zip(&self.inside).map(|(number, capacity)| (*capacity, (u64::MAX, number, 0)));
        let nodes = (0..self.nodes()).flat_map(move |_| of_node());
        fabric.chain(nodes)
    }
    /// How many links those are.
    pub fn link_count(&self) -> u64 {
        u64::from(self.cluster.fabric.graph.link_count()) + u64::from(self.nodes()) * self.inside.len() as u64
    }

    /// The links of a message of `bytes`, `wire` of them with headers, from one rank to another one: each once.
    pub fn way(&self, from: u32, to: u32, bytes: u64, wire: u64, switch: &SwitchLatency, links: &mut Vec<(u32, f64)>) -> MessagePath {
        let graph = &self.cluster.fabric.graph;
        let base = |rank: u32| graph.link_count() + self.node(rank) * self.inside.len() as u32;
        if self.node(from) == self.node(to) {
            let (inside, latency) = &self.between[(self.local(from) * self.per_node + self.local(to)) as usize];
            links.clear();
            links.extend(inside.iter().map(|(link, weight)| (base(from) + link, *weight)));
            return MessagePath { inside: true, latency: latency.as_ps(), write: Span::ZERO };
        }
        self.paths.path(self.adapter(from), self.adapter(to), self.adapter(from), links);
        let (mut count, mut delay) = (0.0, 0.0);
        for &(link, share) in links.iter() {
            count += share;
            delay += share * graph.link(LinkId(link)).delay.as_ps() as f64;
        }
        let latency = (delay + switch.along(graph, links, count)) as u64;
        // Links of the fabric count bytes with headers, those of nodes payload.
        let payload = bytes as f64 / wire as f64;
        let (sender, receiver) = (self.seat(from), self.seat(to));
        if bytes > 0 {
            links.extend(sender.out.iter().map(|(link, weight)| (base(from) + link, weight * payload)));
            links.extend(receiver.into.iter().map(|(link, weight)| (base(to) + link, weight * payload)));
        }
        MessagePath { inside: false, latency, write: receiver.write }
    }
}

/// Where a rank of a node has its memory.
struct MemoryLocation {
    /// Its GPU, NUMA domain or adapter.
    vertex: VertexId,
    /// None for the memory right at the adapter.
    memory: Option<Memory>,
    numa: usize,
}

fn homes(machine: &Machine, per_node: u32, nics: u32) -> Vec<MemoryLocation> {
    let (gpus, numas, adapters) = (machine.gpus(), machine.numas(), machine.nics());
    let numa_of = |vertex: VertexId| machine.home(vertex).unwrap_or(0);
    let home = |local: u32| {
        if let Some(gpu) = gpus.get(local as usize) {
            return MemoryLocation { vertex: *gpu, memory: Some(Memory::Device(local)), numa: numa_of(*gpu) };
        }
        if per_node <= nics
            && let Some(nic) = adapters.get(local as usize)
        {
            return MemoryLocation { vertex: *nic, memory: None, numa: numa_of(*nic) };
        }
        let numa = (u64::from(local) * numas.len() as u64 / u64::from(per_node)) as usize;
        MemoryLocation { vertex: numas[numa], memory: Some(Memory::Host(numa as u32)), numa }
    };
    (0..per_node).map(home).collect()
}

/// The adapter of each rank of a node: the nearest, of those the one that the fewest others have, of those the first.
fn adapters(machine: &Machine, homes: &[MemoryLocation], lost: u32) -> Vec<u32> {
    let all = machine.nics();
    let nics = &all[..all.len().saturating_sub(lost as usize).max(1).min(all.len())];
    let mut taken = vec![0u32; nics.len()];
    let mut chosen = Vec::new();
    for home in homes {
        let distance =
            |nic: &VertexId| machine.path(home.vertex, *nic, Purpose::Dma).map_or(u64::MAX, |path| path.latency(machine).as_ps());
        let best = (0..nics.len()).min_by_key(|&index| (distance(&nics[index]), taken[index], index)).unwrap_or(0);
        taken[best] += 1;
        chosen.push(best as u32);
    }
    chosen
}

/// The links of a node that messages use, with numbers of their own.
struct NodeGraph<'m> {
    machine: &'m Machine,
    numbers: BTreeMap<ResourceId, u32>,
    capacities: Vec<f64>,
}

impl NodeGraph<'_> {
    fn number(&mut self, resource: ResourceId) -> u32 {
        let (numbers, capacities) = (&mut self.numbers, &mut self.capacities);
        *numbers.entry(resource).or_insert_with(|| {
            capacities.push(per_ps(self.machine.capacity(resource).unwrap_or_default()));
            capacities.len() as u32 - 1
        })
    }

    fn links(&mut self, uses: &[Use]) -> Inside {
        let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
        for used in uses {
            let taken = ONE.as_bps() as f64 / used.weight.payload_of(ONE).as_bps() as f64;
            *sums.entry(self.number(used.resource)).or_default() += taken;
        }
        sums.into_iter().collect()
    }

    /// A GPU and an adapter that meet in the memory of the host nearest to the GPU: its kernels write and read there, and so does the adapter.
    fn staged(&mut self, reach: &Reach, nic: u32, home: &MemoryLocation) -> Result<RankPath, EngineError> {
        let machine = self.machine;
        let memory = Memory::Host(home.numa as u32);
        let refused = || {
            let what = format!("a node where `{}` does not reach the memory of the host", machine.vertex(home.vertex).name);
            EngineError::from(refusal(Feature::Placement, what, "let adapters reach the memory of the GPUs"))
        };
        let far = reach.place_of(memory).and_then(|place| reach.path(nic as usize, place));
        let [mut out, mut into] = far.map(|way| way.takes.each_ref().map(|uses| self.links(uses))).unwrap_or_default();
        let host = *machine.numas().get(home.numa).ok_or_else(refused)?;
        let [gpu, host] = [machine.own_memory(home.vertex), machine.own_memory(host)];
        let way = |from, to| machine.path(from, to, Purpose::Dma).ok_or_else(refused);
        let (there, back) = (way(gpu, host)?, way(host, gpu)?);
        let latency = there.latency(machine);
        out.extend(self.links(&machine.uses(&there, Access::Write)));
        into.extend(self.links(&machine.uses(&back, Access::Read)));
        let once = |links: Inside| -> Inside {
            let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
            links.into_iter().for_each(|(link, weight)| *sums.entry(link).or_default() += weight);
            sums.into_iter().collect()
        };
        Ok(RankPath { nic, out: once(out), into: once(into), read: latency, write: back.latency(machine) })
    }

    /// A copy by the engine of the GPU at `from`, or by the core at `to`, which moves `mover` at the most.
    fn copy(&mut self, homes: &[MemoryLocation], from: usize, to: usize, gpus: bool, mover: Rate) -> Result<(Inside, Span), EngineError> {
        let machine = self.machine;
        let (source, sink) = if gpus { (homes[from].vertex, homes[to].vertex) } else { self.memories(homes[from].numa, homes[to].numa) };
        let path = machine.path(machine.own_memory(source), machine.own_memory(sink), if gpus { Purpose::Copy } else { Purpose::Dma });
        let Some(path) = path else {
            let names = [source, sink].map(|end| machine.vertex(end).name.clone());
            let what = format!("a node where nothing leads from `{}` to `{}`", names[0], names[1]);
            return Err(refusal(Feature::Placement, what, "place fewer ranks on a node").into());
        };
        let mut uses = machine.uses(&path, Access::Write);
        if !gpus && path.steps.is_empty() {
            // Read and written in one memory.
            let memory = machine.own_memory(source);
            let link = machine.around(memory).first();
            uses.extend(link.map(|link| Use { resource: machine.resource_of_link(*link, true), weight: Weight::ONE.plus(Weight::ONE) }));
        }
        let mut links = self.links(&uses);
        if mover < Rate::from_bps(u64::MAX) {
            // The engine or core as a link of its own.
            let who = ResourceId(u32::MAX - if gpus { from } else { to } as u32);
            let capacities = &mut self.capacities;
            let number = *self.numbers.entry(who).or_insert_with(|| {
                capacities.push(per_ps(mover));
                capacities.len() as u32 - 1
            });
            links.push((number, 1.0));
        }
        Ok((links, path.latency(machine)))
    }

    fn memories(&self, from: usize, to: usize) -> (VertexId, VertexId) {
        let numas = self.machine.numas();
        (numas[from], numas[to])
    }
}

/// Any rate that shows what a weight takes of it.
const ONE: Rate = Rate::from_gbps(1000);

/// Bytes per picosecond.
pub(crate) fn per_ps(rate: Rate) -> f64 {
    rate.as_bps() as f64 / 8e12
}
