//! What NCCL costs on a machine, from the parts of the library and of the GPU.
//!
//! Source: the parts; NCCL, src/include/device.h for how many bytes of a line are data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabriscope_catalog::{Cpu, CpuFamily, Layer, NcclTransport, Rdma, ResolvedCluster, StepParameters, Vendor};
use fabriscope_machine::{Machine, PathClass, VertexId};
use fabriscope_nccl::{
    Adapter, Algorithm, Architecture, Choice, Communicator, Facts, NcclError, NodeKind, Processor, Protocol, RankPlacement, Release, Rules,
    Settings, Topology, search,
};
use fabriscope_units::{Bytes, Rate, Span};
use fabriscope_wire::{Collective, Element};

use crate::address::PciAddress;
use crate::unlike::Unlike;

/// How blocks move slices with one protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// What a block moves of payload at most.
    pub rate: Rate,
    /// What its threads carry at once where each waits for its own flag: a step takes whole rounds of them, and who receives takes the
    /// first lines while the last are written. Nothing where threads wait together.
    pub wave: Bytes,
    /// Bytes on a link for bytes of payload.
    pub taken: (u64, u64),
    /// What a step costs beside its bytes.
    pub step: StepParameters,
    /// Data has to be there before its flag leaves: a way there and back.
    pub fenced: bool,
}

impl Pace {
    /// The same by a share of a block.
    #[must_use]
    pub fn of_share(self, (part, of): (u32, u32)) -> Pace {
        Pace { rate: share(self.rate, part.into(), of.into()), ..self }
    }
    /// Whether a receiver takes the first lines while the last are written.
    #[must_use]
    pub fn flows(&self) -> bool {
        self.wave > Bytes::ZERO
    }
    /// The most for a step of so many bytes.
    #[must_use]
    pub fn most(&self, bytes: Bytes) -> Rate {
        match (bytes.0, self.wave.0) {
            (0, _) | (_, 0) => self.rate,
            (bytes, wave) => share(self.rate, bytes, bytes.next_multiple_of(wave)),
        }
    }
}

/// Sets a variable of the environment of programs; of that which names a tuner's file, the file is read. `false` where it is none that matters.
///
/// # Errors
/// A value that cannot be read, a file that is not there, or its first line that cannot be read.
pub fn set_variable(settings: &mut Settings, name: &str, value: &str) -> Result<bool, NcclError> {
    if name != TUNER_FILE {
        return settings.set(name, value);
    }
    let told = |error: std::io::Error| NcclError::Variable {
        name: name.to_owned(),
        value: value.to_owned(),
        what: format!("the file cannot be read ({error}), name one that is there"),
    };
    let text = std::fs::read_to_string(value).map_err(told)?;
    settings.rules = Some(Arc::new(Rules::parse(value, &text)?));
    Ok(true)
}

/// The variable that names the file of NCCL's example tuner.
pub const TUNER_FILE: &str = "NCCL_TUNER_CONFIG_FILE";

fn share(rate: Rate, part: u64, of: u64) -> Rate {
    let bps = u128::from(rate.as_bps()) * u128::from(part) / u128::from(of.max(1));
    Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX).max(1))
}

/// Bytes on the way for bytes of data.
const fn taken(protocol: Protocol) -> (u64, u64) {
    match protocol {
        Protocol::Ll => (16, 8),
        Protocol::Ll128 => (128, 120),
        Protocol::Simple => (1, 1),
    }
}

/// A library on a model of GPU.
#[derive(Debug, Clone)]
pub struct Library {
    /// `NCCL` or `RCCL`.
    pub name: &'static str,
    /// The name of its part: the library with its plugin.
    part: String,
    /// What the GPU calls itself.
    pub gpu: String,
    /// Core time of a call with the start of its kernel.
    pub call: Span,
    /// From then until the kernel runs.
    pub kernel_start: Span,
    /// From the end of a stream's work until a waiting core goes on.
    pub synchronise: Span,
    /// Core time of the proxy for a step.
    pub proxy_step: Span,
    /// The plugin's for a message.
    pub plugin: Span,
    /// The receiver's adapter reads behind a message.
    pub flush: bool,
    /// The queue pairs of messages between nodes, over verbs.
    pub transport: NcclTransport,
    /// The farthest adapter that reaches a GPU's memory.
    pub farthest: PathClass,
    /// Length of a message between proxies.
    pub control: u32,
    /// What is left of links where their switch reduces.
    pub switch_share: (u64, u64),
    /// Messages that are longer are shared by the adapters of a row, shorter ones go by one of them.
    pub stripe: u32,
    /// What its plugin sets of what users may.
    pub settings: Settings,
    paces: [Pace; 3],
    nvls_start: Span,
    machine: Arc<Machine>,
    facts: Facts,
}

impl Library {
    /// The library on the nodes of a cluster; `None` where there is none for its GPUs and adapters, or where the part of the GPU does not
    /// say what a block moves.
    #[must_use]
    pub fn of(parts: &ResolvedCluster) -> Option<Library> {
        parts.uniform()?;
        let part = parts.sole().nccl.as_ref()?.nccl.as_ref()?;
        let (node, gpu) = (&parts.sole().node, parts.sole().node.gpu.as_ref()?);
        let block = gpu.block.as_ref()?;
        let architecture: Architecture = gpu.architecture.as_deref()?.parse().ok()?;
        let processor = match node.cpu.family {
            Some(CpuFamily::IntelBroadwell) => Processor::IntelBroadwell,
            Some(CpuFamily::IntelSkylake) => Processor::IntelSkylake,
            Some(CpuFamily::Amd) => Processor::Amd,
            Some(CpuFamily::Arm) => Processor::Arm,
            Some(CpuFamily::Power) => Processor::Power,
            None => Processor::Other,
        };
        let latency = part.told_latency.as_ref().map_or(Span::ZERO, |span| **span);
        let gpudirect = gpu.peer.is_some() && !gpu.without_gpudirect;
        let adapter = Adapter { rate: parts.sole().link.data_rate(), latency, gpudirect, collectives: reduces(parts, part) };
        let rails = Facts::rails(node.nics, node.gpus);
        let adapters = vec![adapter; node.nics as usize];
        let facts = Facts { architecture, processor, adapters, hosts: node.layout.part.trays, rails };
        let machine = Arc::new(node.machine().ok()?);
        let pace = |protocol: Protocol, step: &fabriscope_catalog::Step, rate| Pace {
            rate,
            wave: Bytes::ZERO,
            taken: taken(protocol),
            step: step.plain(),
            fenced: protocol == Protocol::Simple,
        };
        let by_writes = part.plugin_write_overhead.as_ref().filter(|_| node.nic.rdma == Rdma::ReadWrite);
        let plugin = by_writes.or(part.plugin_overhead.as_ref());
        let release = if part.release.as_deref() == Some("2.18") { Release::V2_18 } else { Release::default() };
        let mut settings = Settings { release, ..Settings::default() };
        if part.lines_need_writes && node.nic.rdma != Rdma::ReadWrite {
            settings.set("NCCL_PROTO", "Simple").ok()?;
        }
        for variable in &part.environment {
            set_variable(&mut settings, &variable.name, &variable.value).ok()?;
        }
        Some(Library {
            settings,
            name: if part.vendor == Vendor::Nvidia { "NCCL" } else { "RCCL" },
            part: parts.sole().nccl.as_ref()?.name.clone(),
            gpu: gpu.title.clone(),
            call: on_core(*part.call + *gpu.calls.kernel_launch, &node.cpu),
            kernel_start: *gpu.calls.kernel_start,
            synchronise: *gpu.calls.stream_synchronize,
            proxy_step: *part.proxy_step,
            plugin: plugin.map_or(Span::ZERO, |span| **span),
            flush: part.flush,
            transport: part.transport,
            farthest: part.gpudirect.class(),
            control: part.control_bytes.saturating_u32(),
            paces: [
                pace(Protocol::Ll, &part.ll, *block.ll),
                pace(Protocol::Ll128, &part.ll128, *block.ll128),
                pace(Protocol::Simple, &part.simple, *block.simple),
            ],
            nvls_start: part.nvls_start.as_ref().map_or(*part.simple.start, |span| **span),
            stripe: part.stripe_from.as_ref().map_or(0, |bytes| bytes.saturating_u32()),
            switch_share: block.switch_share.as_ref().map_or((1, 1), |share| (share.terms().0.into(), share.terms().1.into())),
            machine,
            facts,
        })
    }
    /// Channels, trees and rings of a job on the first GPUs of each of so many nodes, which are alike.
    ///
    /// # Errors
    /// As [`JobLibrary::join`].
    pub fn join(&self, nodes: u32, per_node: u32, settings: &Settings) -> Result<Communicator, NcclError> {
        JobLibrary::from(self.clone()).join(nodes, per_node, settings)
    }
    /// Channels, trees and rings of ranks that sit at these nodes and GPUs, of nodes that are alike; and the library of each kind of node:
    /// nodes of which other GPUs have ranks are of another kind.
    ///
    /// # Errors
    /// No ranks; a GPU that is not there or taken; several nodes and one without an adapter.
    pub fn join_at(&self, seats: &[(u32, u32)], settings: &Settings) -> Result<(JobLibrary, Communicator), NcclError> {
        let all = self.machine.gpus();
        let mut used: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (rank, (node, gpu)) in (0..).zip(seats.iter().copied()) {
            if gpu as usize >= all.len() || !used.entry(node).or_default().insert(gpu) {
                return Err(NcclError::Seat { rank, node, gpu });
            }
        }
        let mut sets: Vec<&BTreeSet<u32>> = used.values().collect();
        sets.sort_unstable();
        sets.dedup();
        let kind = |set: &&BTreeSet<u32>| {
            let gpus: Vec<_> = set.iter().map(|gpu| all[*gpu as usize]).collect();
            self.kind_of(&gpus, settings, used.len() == 1)
        };
        let kinds = sets.iter().map(kind).collect::<Result<Vec<_>, _>>()?;
        let of_nodes: Vec<u32> = used.values().map(|set| sets.iter().position(|other| *other == set).unwrap_or(0) as u32).collect();
        // Of the nodes that have ranks, and of the GPUs of each that have.
        let placed = |(node, gpu): &(u32, u32)| RankPlacement {
            node: used.range(..node).count() as u32,
            gpu: used[node].range(..gpu).count() as u32,
        };
        let seats: Vec<RankPlacement> = seats.iter().map(placed).collect();
        let library = JobLibrary { kinds: vec![self.clone(); kinds.len()], nodes: of_nodes.clone() };
        Ok((library, Communicator::new(kinds, &of_nodes, &seats, settings.clone())?))
    }
    /// What the first GPUs of a node look like to the library, and the channels that it finds there.
    fn kind(&self, per_node: u32, settings: &Settings, alone: bool) -> Result<NodeKind, NcclError> {
        let gpus = self.machine.gpus();
        self.kind_of(&gpus[..gpus.len().min(per_node as usize)], settings, alone)
    }
    /// The same of these GPUs.
    fn kind_of(&self, gpus: &[VertexId], settings: &Settings, alone: bool) -> Result<NodeKind, NcclError> {
        let topology = Topology::new(&self.machine, gpus, self.facts.clone(), settings, alone)?;
        let graphs = search(&topology, settings);
        Ok(NodeKind { topology, graphs })
    }
    /// The graph of a node.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
    /// PCI addresses of the GPUs of a node, in order, as far as the node part says them; made up where it does not.
    #[must_use]
    pub fn addresses(&self) -> Vec<PciAddress> {
        let buses: Vec<String> = self.machine.gpus().iter().map(|id| self.machine.vertex(*id).bus.clone()).collect();
        crate::gpu::addresses(&buses, self.gpus())
    }
    /// Whether one communicator can have GPUs of both: those of one vendor over one plugin, and of AMD one model, whose tables the
    /// library chooses by the first.
    fn understands(&self, other: &Library) -> bool {
        let one_model = self.capability().is_some() || self.facts.architecture == other.facts.architecture;
        self.name == other.name && self.part == other.part && one_model
    }
    /// The compute capability of the GPUs, as 90; none of AMD's.
    #[must_use]
    pub fn capability(&self) -> Option<u32> {
        match self.facts.architecture {
            Architecture::Sm(capability) => Some(capability),
            Architecture::Gfx(_) => None,
        }
    }
    /// GPUs of a node.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.machine.gpus().len() as u32
    }
    /// How blocks move slices.
    #[must_use]
    pub fn pace(&self, protocol: Protocol) -> Pace {
        self.paces[protocol as usize]
    }
    /// How a share of a block does in the kernel of a choice.
    #[must_use]
    pub fn pace_of(&self, choice: Choice, (part, of): (u32, u32)) -> Pace {
        let Choice { algorithm, protocol, threads, .. } = choice;
        let mut pace = self.pace(protocol);
        if matches!(algorithm, Algorithm::Nvls | Algorithm::NvlsTree) {
            pace.step.start = self.nvls_start;
        }
        if protocol == Protocol::Ll {
            // Each thread has lines of its own, and fewer of them carry less.
            let most = if self.facts.architecture.is_amd() { RCCL_THREADS } else { NCCL_THREADS };
            let threads = (threads * part / of.max(1)).max(1);
            return Pace { wave: protocol.wave(threads), ..pace.of_share((threads, most)) };
        }
        Pace { wave: protocol.wave(threads), ..pace.of_share((part, of)) }
    }
}

/// Threads of a block with LL at the most. Basis: published (NCCL, RCCL: src/include/device.h, NCCL_LL_MAX_NTHREADS).
const NCCL_THREADS: u32 = 512;
const RCCL_THREADS: u32 = 256;

/// What calls of library and driver take on a core of a processor.
fn on_core(calls: Span, cpu: &Cpu) -> Span {
    let (share, of) = cpu.code_time.as_ref().map_or((1, 1), |time| time.terms());
    Span::from_ps((u128::from(calls.as_ps()) * u128::from(share) / u128::from(of)) as u64)
}

/// The library of a job, whose nodes may be of several kinds: each kind is searched for itself, and the job has the least of what they
/// find.
#[derive(Debug, Clone)]
pub struct JobLibrary {
    kinds: Vec<Library>,
    /// The kind of each node of the job; of the first one where nothing is said.
    nodes: Vec<u32>,
}

impl From<Library> for JobLibrary {
    fn from(library: Library) -> JobLibrary {
        JobLibrary { kinds: vec![library], nodes: Vec::new() }
    }
}

impl JobLibrary {
    /// The library of a job on these nodes of a cluster, in the order of its ranks.
    ///
    /// # Errors
    /// Nodes without GPUs or without the library, and libraries that do not understand each other.
    pub fn on_nodes(parts: &ResolvedCluster, nodes: &[u32]) -> Result<JobLibrary, Unlike> {
        let mut groups: Vec<usize> = Vec::new();
        let mut kinds: Vec<Library> = Vec::new();
        let mut of_nodes = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Some((group, _)) = parts.group_of(*node) else { continue };
            if let Some(known) = groups.iter().position(|other| *other == group) {
                of_nodes.push(known as u32);
                continue;
            }
            let name = &parts.groups[group].name;
            let library = parts.narrowed(group).as_ref().and_then(Library::of);
            let Some(library) = library else {
                let what = match parts.groups[group].node.gpu {
                    None => format!("the nodes of `{name}` have no GPUs, and the job has some of them"),
                    Some(_) => format!("the nodes of `{name}` have no NCCL or RCCL over their adapters, and the job has some of them"),
                };
                return Err(Unlike { what });
            };
            if let Some(first) = kinds.first().filter(|first| !first.understands(&library)) {
                let other = &parts.groups[groups[0]].name;
                let what = format!(
                    "{} on the {} of `{other}` and {} on the {} of `{name}` cannot talk",
                    first.name, first.gpu, library.name, library.gpu
                );
                return Err(Unlike { what });
            }
            of_nodes.push(kinds.len() as u32);
            groups.push(group);
            kinds.push(library);
        }
        if kinds.is_empty() {
            return Err(Unlike { what: "a job without nodes".to_owned() });
        }
        Ok(JobLibrary { kinds, nodes: of_nodes })
    }
    /// The library on the first node.
    #[must_use]
    pub fn first(&self) -> &Library {
        &self.kinds[0]
    }
    /// The library on the nodes of a kind, as the communicator numbers them.
    ///
    /// # Panics
    /// If there is no such kind.
    #[must_use]
    pub fn of_kind(&self, kind: usize) -> &Library {
        &self.kinds[kind]
    }
    /// The library on a node of the job.
    #[must_use]
    pub fn on(&self, node: u32) -> &Library {
        &self.kinds[self.kind_of(node) as usize]
    }
    fn kind_of(&self, node: u32) -> u32 {
        self.nodes.get(node as usize).copied().unwrap_or(0)
    }
    /// GPUs that each node has.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.kinds.iter().map(Library::gpus).min().unwrap_or(0)
    }
    /// The least compute capability of all GPUs, as 90; none of AMD's.
    #[must_use]
    pub fn capability(&self) -> Option<u32> {
        self.kinds.iter().filter_map(Library::capability).min()
    }
    /// Channels, trees and rings of a job on the first GPUs of each node.
    ///
    /// # Errors
    /// More GPUs than there are; nodes without adapters.
    pub fn join(&self, nodes: u32, per_node: u32, settings: &Settings) -> Result<Communicator, NcclError> {
        let kinds = self.kinds.iter().map(|library| library.kind(per_node, settings, nodes == 1)).collect::<Result<Vec<_>, _>>()?;
        let of_nodes: Vec<u32> = (0..nodes).map(|node| self.kind_of(node)).collect();
        let seats: Vec<RankPlacement> =
            (0..nodes * per_node).map(|rank| RankPlacement { node: rank / per_node, gpu: rank % per_node }).collect();
        Communicator::new(kinds, &of_nodes, &seats, settings.clone())
    }
}

/// Whether the network's plugin finds switches that add long vectors: that of SHARP, over InfiniBand.
fn reduces(parts: &ResolvedCluster, part: &fabriscope_catalog::Nccl) -> bool {
    let switch = parts.switch.as_ref().and_then(|switch| switch.aggregation.as_ref());
    let streams = switch.is_some_and(|part| part.stream.is_some() && part.does(Collective::Allreduce, Element::F32));
    streams
        && part.vendor == Vendor::Nvidia
        && parts.link_layer.layer() == Layer::InfiniBand
        && parts.sole().node.nic.rdma == Rdma::ReadWrite
}
