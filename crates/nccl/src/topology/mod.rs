//! A node as the library sees it: GPUs, PCI Express switches, NUMA domains, adapters, and classes of bandwidth between them.
//!
//! Source: NCCL 2.22.3, src/graph/topo.cc, topo.h.
//! Modelled: NVLink by generation of the GPU, PCI Express by generation and lanes, links between sockets by make of processor, NVLink
//! switches as one, C2C, several hosts of one NVLink domain, GPUs that relay, PXN, devices without GPUDirect.
//! Not modelled: adapters with several ports as one device, virtual machines, merged adapters of later releases.

mod build;
mod paths;

pub(crate) use paths::{gpudirect, peer_level};

use fabriscope_machine::{Machine, VertexId};
use fabriscope_units::{Rate, Span};

use crate::architecture::{Architecture, Processor};
use crate::error::NcclError;
use crate::path_type::PathType;
use crate::settings::Settings;
use crate::tables;

/// An adapter as its driver tells the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// Rate of its port.
    pub rate: Rate,
    /// Latency as the library's plugin says it; most say none.
    pub latency: Span,
    /// Whether it reads and writes the memory of GPUs.
    pub gpudirect: bool,
    /// Whether switches reduce for it (SHARP).
    pub collectives: bool,
}

/// What a machine does not say of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Architecture of the GPUs.
    pub architecture: Architecture,
    /// The processors.
    pub processor: Processor,
    /// The adapters, in the order of [`Machine::nics`].
    pub adapters: Vec<Adapter>,
    /// Hosts in the machine: the trays of an NVLink domain, each with as many NUMA domains; one otherwise.
    pub hosts: u32,
    /// Adapters that the network's plug-in uses as one, in a row: 4 on p5 with aws-ofi-nccl; one otherwise.
    pub rails: u32,
}

impl Facts {
    /// How many adapters plug-ins use as one: that for EFA those below a switch, where there are many more than GPUs.
    #[must_use]
    pub fn rails(nics: u32, gpus: u32) -> u32 {
        if nics > 16 && nics > 2 * gpus { nics / gpus.max(1) } else { 1 }
    }
}

/// The GPU, adapter, switch or domain that a vertex is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Gpu(usize),
    Switch,
    NvSwitch,
    Cpu(usize),
    Nic,
    Net(usize),
}

/// What a link is to the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkType {
    NvLink,
    Pci,
    Sockets,
    Net,
}

/// A link in one direction, with what is still free of it in bit/s while a search runs.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub kind: LinkType,
    pub room: i64,
    pub to: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Vertex {
    pub kind: Kind,
    /// NUMA domains only: which host it is of.
    pub host: u32,
    pub links: Vec<Link>,
}

/// A way to a device: links in order, each as vertex and number at it.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub links: Vec<(usize, usize)>,
    /// bit/s; nothing where there is no way.
    pub rate: i64,
    pub class: PathType,
}

/// A node as the library sees it.
#[derive(Clone, Debug)]
pub struct Topology {
    pub(crate) facts: Facts,
    pub(crate) vertices: Vec<Vertex>,
    /// Vertices of GPUs, adapters, NUMA domains and the switch between GPUs.
    pub(crate) gpus: Vec<usize>,
    pub(crate) nets: Vec<usize>,
    pub(crate) cpus: Vec<usize>,
    pub(crate) nvswitch: Option<usize>,
    /// From each vertex (second) to each of the devices above (first).
    pub(crate) paths: Vec<Vec<Path>>,
    /// The devices of `paths`, by vertex.
    pub(crate) slots: Vec<Option<usize>>,
    /// Number in the machine of each GPU.
    pub(crate) devices: Vec<u32>,
}

impl Topology {
    /// What the library sees of `machine`, where `gpus` are those of the communicator, in the order of their ranks. `alone` says that
    /// the whole communicator is in this node, and so its adapters do not matter.
    ///
    /// # Errors
    /// No GPU, too many of them, facts that do not fit the machine, a GPU that no way leads to.
    pub fn new(machine: &Machine, gpus: &[VertexId], facts: Facts, settings: &Settings, alone: bool) -> Result<Topology, NcclError> {
        if gpus.is_empty() {
            return Err(NcclError::NoGpu);
        }
        if gpus.len() > tables::MOST_DEVICES {
            return Err(NcclError::ManyGpus { gpus: gpus.len(), most: tables::MOST_DEVICES });
        }
        let adapters = machine.nics().len();
        if facts.adapters.len() != adapters {
            return Err(NcclError::Adapters { machine: adapters, facts: facts.adapters.len() });
        }
        let mut topology = build::build(machine, gpus, facts, alone)?;
        paths::compute(&mut topology, settings);
        Ok(topology)
    }

    /// What the machine did not say.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }
    /// Number of GPUs.
    #[must_use]
    pub fn gpus(&self) -> usize {
        self.gpus.len()
    }
    /// Number of adapters that are of use.
    #[must_use]
    pub fn adapters(&self) -> usize {
        self.nets.len()
    }
    /// Whether its GPUs are joined by switches.
    #[must_use]
    pub fn switched(&self) -> bool {
        self.nvswitch.is_some()
    }
    /// Class and rate of the way from one GPU to another.
    #[must_use]
    pub fn between(&self, from: usize, to: usize) -> (PathType, Rate) {
        let path = self.path(self.gpus[from], self.gpus[to]);
        (path.class, rate(path.rate))
    }
    /// Class and rate of the way from a GPU to an adapter.
    #[must_use]
    pub fn to_adapter(&self, gpu: usize, adapter: usize) -> (PathType, Rate) {
        let path = self.path(self.gpus[gpu], self.nets[adapter]);
        (path.class, rate(path.rate))
    }
    /// Whether all GPUs reach each other by NVLink or xGMI.
    #[must_use]
    pub fn all_linked(&self) -> bool {
        let pairs = self.gpus.iter().flat_map(|from| self.gpus.iter().map(move |to| (from, to)));
        // As the library has it: the nearest pair decides.
        pairs.filter(|(from, to)| from != to).map(|(from, to)| self.path(*from, *to).class).min().is_none_or(|best| best < PathType::Pix)
    }

    /// The way from a vertex to a device.
    pub(crate) fn path(&self, from: usize, to: usize) -> &Path {
        let slot = self.slots[to].expect("paths lead to devices");
        &self.paths[slot][from]
    }
    pub(crate) fn path_mut(&mut self, from: usize, to: usize) -> &mut Path {
        let slot = self.slots[to].expect("paths lead to devices");
        &mut self.paths[slot][from]
    }
    pub(crate) fn capability(&self) -> u32 {
        self.facts.architecture.capability()
    }

    /// The devices among `candidates` that are nearest to `from`: the fastest, and of those the nearest class.
    pub(crate) fn nearest(&self, from: usize, candidates: &[usize]) -> Vec<usize> {
        let key = |to: &usize| (self.path(from, *to).rate, std::cmp::Reverse(self.path(from, *to).class));
        let Some(best) = candidates.iter().map(key).max().filter(|(rate, _)| *rate > 0) else { return Vec::new() };
        (0..candidates.len()).filter(|place| key(&candidates[*place]) == best).collect()
    }
    /// The adapter of a GPU for a channel (topo.cc, ncclTopoGetLocalNet).
    pub(crate) fn local_net(&self, gpu: usize, channel: usize) -> Option<usize> {
        let nets = self.nearest(self.gpus[gpu], &self.nets);
        let sharing = self.nearest(self.nets[*nets.first()?], &self.gpus).len().max(1);
        let mut number = self.devices[gpu] as usize;
        if nets.len().is_power_of_two() {
            number = mirrored(number, nets.len());
        }
        number += channel % nets.len().div_ceil(sharing);
        Some(nets[number % nets.len()])
    }
    /// The adapters of a GPU, in the order of channels.
    pub(crate) fn local_nets(&self, gpu: usize) -> Vec<usize> {
        let mut found = Vec::new();
        for channel in 0..tables::MOST_CHANNELS {
            match self.local_net(gpu, channel) {
                Some(net) if found.first() != Some(&net) => found.push(net),
                _ => break,
            }
        }
        found
    }
    /// The GPU to which an adapter belongs (topo.cc, ncclTopoGetLocalGpu).
    pub(crate) fn local_gpu(&self, net: usize) -> Option<usize> {
        let gpus = self.nearest(self.nets[net], &self.gpus);
        (0..tables::MOST_CHANNELS).find_map(|channel| gpus.iter().copied().find(|gpu| self.local_net(*gpu, channel) == Some(net)))
    }
    /// How many of its adapters a GPU needs for the rate of its link to the processor; none where a switch is between.
    pub(crate) fn adapters_for_rate(&self, gpu: usize) -> u32 {
        let links = &self.vertices[self.gpus[gpu]].links;
        let own = links.iter().rfind(|link| matches!(self.vertices[link.to].kind, Kind::Cpu(_))).map_or(0, |link| link.room);
        let nets = self.nearest(self.gpus[gpu], &self.nets);
        let rates = nets.into_iter().map(|net| self.path(self.gpus[gpu], self.nets[net]).rate);
        let sums = rates.scan(0, |sum, rate| {
            let before = *sum;
            *sum += rate;
            Some(before)
        });
        sums.take_while(|before| *before < own).count() as u32
    }
    /// The GPU through which another one reaches an adapter, if it does not itself (PXN).
    pub(crate) fn relay(&self, gpu: usize, net: usize) -> usize {
        let path = self.path(self.gpus[gpu], self.nets[net]);
        if path.class != PathType::Pxn {
            return gpu;
        }
        let ends = path.links.iter().map(|(vertex, link)| self.vertices[*vertex].links[*link].to);
        let relay = ends.filter_map(|vertex| match self.vertices[vertex].kind {
            Kind::Gpu(relay) => Some(relay),
            _ => None,
        });
        relay.into_iter().next().unwrap_or(gpu)
    }
}

/// The bits of `value` below `size`, a power of two, in the opposite order.
fn mirrored(value: usize, size: usize) -> usize {
    let bits = size.trailing_zeros();
    (0..bits).filter(|bit| value >> bit & 1 == 1).map(|bit| 1 << (bits - 1 - bit)).sum()
}

/// Bit/s as a rate.
pub(crate) fn rate(bits: i64) -> Rate {
    Rate::from_bps(u64::try_from(bits).unwrap_or(0))
}
/// A rate as bit/s that can be taken away from.
pub(crate) fn bits(rate: Rate) -> i64 {
    i64::try_from(rate.as_bps()).unwrap_or(i64::MAX / 4)
}
