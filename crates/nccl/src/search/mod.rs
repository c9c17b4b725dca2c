//! Channels of a node: for each the order of its GPUs, and the adapters by which it comes and goes.
//!
//! Source: NCCL 2.22.3, src/graph/search.cc (ncclTopoCompute and what it calls), init.cc for which graphs are searched.
//! Modelled: speeds tried from fast to slow, equal and different channels, kinds of paths allowed one after the other, rings that
//! cross adapters, the order in which GPUs and adapters are tried, the limits of steps, doubling of fast channels, and the second
//! pass that tries more speed.
//! Not modelled: graphs from files.

mod compute;
mod models;
mod walk;

use fabriscope_units::{Rate, Span};

use crate::path_type::PathType;
use crate::settings::Settings;
use crate::tables;
use crate::topology::Topology;

/// The shape that is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// A ring through all GPUs; between nodes from the adapter of the first to that of the last.
    Ring,
    /// A chain of all GPUs; the adapter sends by the first two.
    BalancedTree,
    /// A chain; the adapter is at the first GPU.
    Tree,
    /// A switch of NVLinks reduces; the first GPU is the head.
    Nvls,
    /// The first GPU gathers from all others and uses the network's reduction.
    CollnetDirect,
}

/// One channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// GPUs in order, by their number in the topology. With NVLS the head alone.
    pub gpus: Vec<u32>,
    /// The adapters by which it comes and goes, by their number in the machine; none within a node.
    pub adapters: Option<[u32; 2]>,
}

/// The channels of one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Their shape.
    pub pattern: Pattern,
    /// The channels.
    pub channels: Vec<Channel>,
    /// What each carries within the node.
    pub intra: Rate,
    /// What each carries between nodes.
    pub inter: Rate,
    /// Worst way between GPUs that was allowed.
    pub type_intra: PathType,
    /// Worst way to an adapter that was allowed.
    pub type_inter: PathType,
    /// Whether all channels have the same order.
    pub same_channels: bool,
    /// Whether channels may leave by another adapter than they came.
    pub cross_nic: bool,
    /// Latency that the adapter says.
    pub latency: Span,
    /// What finding them took: how often a GPU was tried at a place of a channel.
    pub steps: u64,
}

impl Graph {
    /// What all channels carry together within the node.
    #[must_use]
    pub fn total_intra(&self) -> Rate {
        self.intra * self.channels.len() as u64
    }
}

/// All graphs of a node. Those that it cannot have are without channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graphs {
    /// Rings.
    pub ring: Graph,
    /// Trees.
    pub tree: Graph,
    /// Chains to the network's reduction.
    pub collnet_chain: Graph,
    /// The same without a chain.
    pub collnet_direct: Graph,
    /// Heads of NVLS.
    pub nvls: Graph,
    /// How many times RCCL's model of a node repeats its channels; 1 otherwise.
    pub copies: usize,
    /// Whether rings go the other way round in every second node, so that they stay with their adapters (RCCL's models).
    pub alternate: bool,
    /// The set of RCCL's constants that its model of the node names.
    pub tuning: usize,
}

/// The channels of a node.
#[must_use]
pub fn search(topology: &Topology, settings: &Settings) -> Graphs {
    let most = tables::most_channels(topology.facts.architecture) / 2;
    let none = |pattern| Graph {
        pattern,
        channels: Vec::new(),
        intra: Rate::default(),
        inter: Rate::default(),
        type_intra: PathType::Dis,
        type_inter: PathType::Dis,
        same_channels: false,
        cross_nic: false,
        latency: Span::ZERO,
        steps: 0,
    };
    if let Some(known) = models::find(topology, none) {
        return known;
    }
    let find = |pattern, collnet, least, most| compute::graph(topology, settings, compute::SearchTarget { pattern, collnet, least, most });
    let ring = find(Pattern::Ring, false, 1, most);
    let tree = find(Pattern::BalancedTree, false, ring.channels.len(), ring.channels.len());
    let collnet = settings.collnet && !topology.nets.is_empty() && topology.facts.adapters.iter().any(|adapter| adapter.collectives);
    let (collnet_chain, collnet_direct) = if collnet {
        (find(Pattern::Tree, true, ring.channels.len(), ring.channels.len()), find(Pattern::CollnetDirect, true, 1, 2 * most))
    } else {
        (none(Pattern::Tree), none(Pattern::CollnetDirect))
    };
    let switched = topology.switched() && topology.capability() >= 90 && topology.gpus() > 2;
    let nvls = if settings.nvls && switched { find(Pattern::Nvls, false, 1, 2 * most) } else { none(Pattern::Nvls) };
    Graphs { ring, tree, collnet_chain, collnet_direct, nvls, copies: 1, alternate: false, tuning: 0 }
}
