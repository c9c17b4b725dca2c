//! The channels of all nodes joined: who is before and after a rank in each ring, above and below it in each tree.
//!
//! Nodes of a kind are searched once; a rank's neighbours are worked out when asked for, so that memory grows with ranks and not
//! with their square.
//!
//! Source: NCCL 2.22.3, src/graph/connect.cc, src/init.cc.
//! Modelled: the least of all nodes' channels, trees in two halves of the channels, copies of channels up to what users ask, the
//! swap of rings that cross adapters in every second node, heads of NVLS and their trees.

use fabriscope_units::Rate;
use smallvec::SmallVec;

use crate::algorithm::Algorithm;
use crate::error::NcclError;
use crate::search::{Graph, Graphs, Pattern};
use crate::settings::Settings;
use crate::tables;
use crate::topology::Topology;
use crate::trees;

/// A kind of node: its view and its channels.
#[derive(Clone, Debug)]
pub struct NodeKind {
    /// What the library sees.
    pub topology: Topology,
    /// What it found there.
    pub graphs: Graphs,
}

/// Where a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankPlacement {
    /// Its node.
    pub node: u32,
    /// The GPU among those of the node's topology.
    pub gpu: u32,
}

/// The place of a rank in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlace {
    /// From whom it receives.
    pub previous: u32,
    /// To whom it sends.
    pub next: u32,
    /// Steps from rank 0 along the ring.
    pub index: u32,
}

/// The place of a rank in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The rank above.
    pub up: Option<u32>,
    /// The ranks below, that of the own node first.
    pub down: SmallVec<[u32; 3]>,
}

/// Which channel of the search a channel is, and which of the two trees it has.
#[derive(Clone, Copy, Debug)]
struct Origin {
    channel: usize,
    tree: usize,
}

/// Ranks with the channels that join them.
#[derive(Clone, Debug)]
pub struct Communicator {
    kinds: Vec<NodeKind>,
    settings: Settings,
    /// Kind of each node; nodes count in the order of their first ranks.
    nodes: Vec<u32>,
    /// Ranks of all nodes before each, and of all.
    before: Vec<u32>,
    /// Ranks by node and GPU.
    ranks: Vec<u32>,
    /// Node (in that order) and GPU of each rank.
    seats: Vec<RankPlacement>,
    /// Of each kind and channel: the place of each GPU in the ring, and in the tree.
    ring_places: Vec<Vec<Vec<u32>>>,
    tree_places: Vec<Vec<Vec<u32>>>,
    /// Channels of the search that all nodes have.
    found: usize,
    /// Of all channels, those of NVLS included.
    origins: Vec<Origin>,
    channels: usize,
    nvls_channels: usize,
    nvls_heads: usize,
}

impl Communicator {
    /// Joins the nodes. `nodes` has the kind of each, `seats` node and GPU of each rank; each GPU of a topology has one rank.
    ///
    /// # Errors
    /// No ranks; a GPU that is not there or taken; several nodes and one without an adapter.
    pub fn new(kinds: Vec<NodeKind>, nodes: &[u32], seats: &[RankPlacement], settings: Settings) -> Result<Communicator, NcclError> {
        if seats.is_empty() || kinds.is_empty() {
            return Err(NcclError::Empty);
        }
        // Nodes in the order of their first ranks.
        let mut number = vec![u32::MAX; nodes.len()];
        let mut order = Vec::new();
        for (rank, seat) in seats.iter().enumerate() {
            let kind = nodes.get(seat.node as usize).and_then(|kind| kinds.get(*kind as usize));
            if kind.is_none_or(|kind| seat.gpu as usize >= kind.topology.gpus()) {
                return Err(NcclError::Seat { rank: rank as u32, node: seat.node, gpu: seat.gpu });
            }
            let known = &mut number[seat.node as usize];
            if *known == u32::MAX {
                *known = order.len() as u32;
                order.push(seat.node);
            }
        }
        let nodes: Vec<u32> = order.iter().map(|node| nodes[*node as usize]).collect();
        let gpus = |kind: u32| kinds[kind as usize].topology.gpus() as u32;
        let mut before = vec![0];
        for kind in &nodes {
            before.push(before[before.len() - 1] + gpus(*kind));
        }
        let total = before[before.len() - 1] as usize;
        let mut ranks = vec![u32::MAX; total];
        let seats: Vec<RankPlacement> =
            seats.iter().map(|seat| RankPlacement { node: number[seat.node as usize], gpu: seat.gpu }).collect();
        for (rank, seat) in seats.iter().enumerate() {
            let place = &mut ranks[(before[seat.node as usize] + seat.gpu) as usize];
            if *place != u32::MAX {
                return Err(NcclError::Seat { rank: rank as u32, node: order[seat.node as usize], gpu: seat.gpu });
            }
            *place = rank as u32;
        }
        if let Some(empty) = ranks.iter().position(|rank| *rank == u32::MAX) {
            let node = before.partition_point(|first| *first as usize <= empty) - 1;
            return Err(NcclError::Seat { rank: seats.len() as u32, node: order[node], gpu: empty as u32 - before[node] });
        }
        if nodes.len() > 1 && nodes.iter().any(|kind| kinds[*kind as usize].topology.adapters() == 0) {
            return Err(NcclError::NoAdapter(nodes.len()));
        }
        let places = |graph: &Graph, gpus: usize| -> Vec<Vec<u32>> {
            let of = |order: &[u32]| {
                let mut places = vec![0; gpus];
                for (place, gpu) in order.iter().enumerate() {
                    places[*gpu as usize] = place as u32;
                }
                places
            };
            graph.channels.iter().map(|channel| of(&channel.gpus)).collect()
        };
        let ring_places = kinds.iter().map(|kind| places(&kind.graphs.ring, kind.topology.gpus())).collect();
        let tree_places = kinds.iter().map(|kind| places(&kind.graphs.tree, kind.topology.gpus())).collect();
        let least = |count: fn(&Graphs) -> usize| kinds.iter().map(|kind| count(&kind.graphs)).min().unwrap_or(0);
        let found = least(|graphs| graphs.ring.channels.len().min(graphs.tree.channels.len()));
        let nvls_heads = if settings.nvls { least(|graphs| graphs.nvls.channels.len()) } else { 0 };
        let mut communicator = Communicator {
            kinds,
            settings,
            nodes,
            before,
            ranks,
            seats,
            ring_places,
            tree_places,
            found,
            origins: Vec::new(),
            channels: 0,
            nvls_channels: 0,
            nvls_heads,
        };
        communicator.count_channels();
        Ok(communicator)
    }

    /// How many channels there are (connect.cc, ncclTopoPostset).
    fn count_channels(&mut self) {
        let architecture = self.kinds[0].topology.facts().architecture;
        // What the all-gather of graphs leaves: the least of all nodes.
        let least = |of: fn(&Graphs) -> Rate| self.kinds.iter().map(|kind| of(&kind.graphs)).min().unwrap_or_default();
        let ring = least(|graphs| graphs.ring.intra);
        let (chain_intra, chain_inter) = (least(|graphs| graphs.collnet_chain.intra), least(|graphs| graphs.collnet_chain.inter));
        let chains = self.kinds.iter().all(|kind| !kind.graphs.collnet_chain.channels.is_empty());
        let most = self.kinds.iter().map(|kind| tables::most_channels(kind.topology.facts().architecture)).min().unwrap_or(1);
        let found = self.found;
        let origins = &mut self.origins;
        *origins = (0..2 * found).map(|channel| Origin { channel: channel % found, tree: channel / found }).collect();
        origins.truncate(most);
        let copy = |origins: &mut Vec<Origin>, count: usize| {
            let start = origins.len();
            (start..count).for_each(|channel| origins.push(origins[channel - start]));
        };
        let graphs = &self.kinds[0].graphs;
        for _ in 1..graphs.copies {
            let count = (origins.len() + 2 * found).min(most);
            copy(origins, count);
        }
        let several = self.nodes.len() > 1;
        if self.settings.collnet && chains && chain_intra > chain_inter && self.seats.len() > self.nodes.len() {
            let count = (origins.len() + origins.len() / 2).min(most);
            copy(origins, count);
        }
        let hopper = self.kinds.iter().all(|kind| kind.topology.capability() >= 90) && !architecture.is_amd();
        if hopper && several && ring > tables::mbs(45_000) && origins.len() < 16 {
            let count = 2 * origins.len();
            copy(origins, count);
        }
        origins.truncate(self.settings.most_channels_of(most));
        let least = self.settings.least_channels;
        copy(origins, least);
        self.channels = origins.len();
        if self.nvls_heads > 0 {
            let usual = tables::nvls_channels(architecture.capability(), several);
            self.nvls_channels = self.settings.nvls_channels.unwrap_or(usual).clamp(1, most).max(least);
            let count = self.nvls_channels;
            copy(origins, count);
            // Up to Hopper rings and trees have the channels of NVLS too.
            if architecture.capability() < 100 {
                self.channels = origins.len();
            }
        }
    }

    /// Number of ranks.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.seats.len() as u32
    }
    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.nodes.len() as u32
    }
    /// Edges from the root of a tree over the nodes to the deepest of them.
    #[must_use]
    pub fn levels(&self) -> u32 {
        trees::levels(self.nodes.len())
    }
    /// The ranks of the first nodes, with the channels that were found within nodes.
    ///
    /// # Errors
    /// No nodes.
    pub fn on_first(&self, nodes: u32) -> Result<Communicator, NcclError> {
        let kinds = &self.nodes[..self.nodes.len().min(nodes as usize)];
        let seats: Vec<RankPlacement> = self.seats.iter().copied().filter(|seat| seat.node < nodes).collect();
        Communicator::new(self.kinds.clone(), kinds, &seats, self.settings.clone())
    }
    /// Number of channels of rings and trees.
    #[must_use]
    pub fn channels(&self) -> u32 {
        self.channels as u32
    }
    /// Number of channels of NVLS; none without.
    #[must_use]
    pub fn nvls_channels(&self) -> u32 {
        self.nvls_channels as u32
    }
    /// What users set.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
    /// Node and GPU of a rank; nodes count in the order of their first ranks.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn seat(&self, rank: u32) -> RankPlacement {
        self.seats[rank as usize]
    }
    /// The kind of the node of a rank.
    #[must_use]
    pub fn kind(&self, rank: u32) -> &NodeKind {
        self.kind_of(self.seat(rank).node)
    }
    /// The number of that kind.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn kind_number(&self, rank: u32) -> usize {
        self.nodes[self.seat(rank).node as usize] as usize
    }
    /// All kinds of nodes.
    #[must_use]
    pub fn kinds(&self) -> &[NodeKind] {
        &self.kinds
    }
    /// The rank at a GPU of a node.
    #[must_use]
    pub fn rank_at(&self, node: u32, gpu: u32) -> u32 {
        self.ranks[(self.before[node as usize] + gpu) as usize]
    }
    /// The ranks of a node, by GPU.
    #[must_use]
    pub fn ranks_of(&self, node: u32) -> &[u32] {
        &self.ranks[self.before[node as usize] as usize..self.before[node as usize + 1] as usize]
    }
    /// The place of a rank among those of its node.
    pub(crate) fn place(&self, rank: u32) -> u32 {
        self.ranks_of(self.seat(rank).node).iter().filter(|local| **local < rank).count() as u32
    }
    /// The rank at a place of a node.
    pub(crate) fn placed(&self, node: u32, place: u32) -> u32 {
        let mut locals: SmallVec<[u32; 16]> = self.ranks_of(node).iter().copied().collect();
        locals.sort_unstable();
        locals[place as usize]
    }
    pub(crate) fn kind_of(&self, node: u32) -> &NodeKind {
        &self.kinds[self.nodes[node as usize] as usize]
    }
    /// Most GPUs of a node, and whether all nodes have as many.
    pub(crate) fn locals(&self) -> (u32, bool) {
        let counts = || self.before.windows(2).map(|pair| pair[1] - pair[0]);
        let most = counts().max().unwrap_or(1);
        (most, counts().all(|count| count == most))
    }

    /// The graph of an algorithm in a node.
    pub(crate) fn graph(&self, node: u32, algorithm: Algorithm) -> &Graph {
        let graphs = &self.kind_of(node).graphs;
        match algorithm {
            Algorithm::Ring => &graphs.ring,
            Algorithm::Tree => &graphs.tree,
            Algorithm::CollnetDirect => &graphs.collnet_direct,
            Algorithm::CollnetChain => &graphs.collnet_chain,
            Algorithm::Nvls | Algorithm::NvlsTree => &graphs.nvls,
        }
    }

    /// The channel of the search that a node uses for a ring, and whether it goes the other way round.
    pub(crate) fn ring_order(&self, node: u32, channel: u32) -> (usize, bool) {
        let origin = self.origins[channel as usize].channel;
        let odd = node % 2 == 1;
        let swapped = odd && self.found.is_multiple_of(2) && self.kinds.iter().any(|kind| kind.graphs.ring.cross_nic);
        let reversed = odd && self.kind_of(node).graphs.alternate;
        (if swapped { origin ^ 1 } else { origin }, reversed)
    }
    /// The channel of the search that a tree has.
    pub(crate) fn tree_channel(&self, channel: u32) -> usize {
        self.origins[channel as usize].channel
    }

    /// The place of a rank in the ring of a channel.
    ///
    /// # Panics
    /// If there is no such rank or channel.
    #[must_use]
    pub fn ring(&self, channel: u32, rank: u32) -> RingPlace {
        let (ranks, here) = (self.ranks(), self.ring_position(channel, rank));
        let at = |position: u32| self.ring_rank_at(channel, position % ranks);
        let index = (here + ranks - self.ring_position(channel, 0)) % ranks;
        RingPlace { previous: at(here + ranks - 1), next: at(here + 1), index }
    }
    /// The rank so many steps from rank 0 along the ring.
    #[must_use]
    pub fn ring_rank(&self, channel: u32, index: u32) -> u32 {
        self.ring_rank_at(channel, (self.ring_position(channel, 0) + index) % self.ranks())
    }
    fn ring_position(&self, channel: u32, rank: u32) -> u32 {
        let seat = self.seat(rank);
        let places = &self.ring_places[self.nodes[seat.node as usize] as usize];
        let (channel, reversed) = self.ring_order(seat.node, channel);
        let place = places[channel][seat.gpu as usize];
        let last = places[channel].len() as u32 - 1;
        self.before[seat.node as usize] + if reversed { last - place } else { place }
    }
    fn ring_rank_at(&self, channel: u32, position: u32) -> u32 {
        let node = self.before.partition_point(|first| *first <= position) as u32 - 1;
        let (channel, reversed) = self.ring_order(node, channel);
        let order = &self.kind_of(node).graphs.ring.channels[channel].gpus;
        let place = (position - self.before[node as usize]) as usize;
        self.rank_at(node, order[if reversed { order.len() - 1 - place } else { place }])
    }

    /// The place of a rank in the tree of a channel.
    ///
    /// # Panics
    /// If there is no such rank or channel.
    #[must_use]
    pub fn tree(&self, channel: u32, rank: u32) -> Tree {
        let Origin { channel, tree } = self.origins[channel as usize];
        let seat = self.seat(rank);
        let kind = self.nodes[seat.node as usize] as usize;
        let order = &self.kinds[kind].graphs.tree.channels[channel].gpus;
        let place = self.tree_places[kind][channel][seat.gpu as usize] as usize;
        let local = |place: usize| order.get(place).map(|gpu| self.rank_at(seat.node, *gpu));
        let mut up = place.checked_sub(1).and_then(local);
        let mut down: SmallVec<[u32; 3]> = local(place + 1).into_iter().collect();
        let between = trees::double(self.nodes.len(), seat.node as usize)[tree];
        // The first GPU goes to the parent; children come to it, or to the second.
        let child = |node: usize, second: bool| {
            let graph = &self.kind_of(node as u32).graphs.tree;
            let place = usize::from(!second && graph.pattern != Pattern::Tree);
            let order = &graph.channels[channel].gpus;
            self.rank_at(node as u32, order[place.min(order.len() - 1)])
        };
        if place == 0
            && let Some(parent) = between.up
        {
            up = Some(child(parent, between.second));
        }
        for (second, below) in between.down.into_iter().enumerate() {
            if let Some(below) = below.filter(|_| child(seat.node as usize, second == 1) == rank) {
                let first = self.kind_of(below as u32).graphs.tree.channels[channel].gpus[0];
                down.push(self.rank_at(below as u32, first));
            }
        }
        Tree { up, down }
    }

    /// Number of heads of NVLS in each node.
    #[must_use]
    pub fn nvls_heads(&self) -> u32 {
        self.nvls_heads as u32
    }
    /// The rank of a head in a node.
    #[must_use]
    pub fn nvls_head(&self, node: u32, head: u32) -> u32 {
        self.rank_at(node, self.kind_of(node).graphs.nvls.channels[head as usize].gpus[0])
    }
    /// Which head a rank is.
    #[must_use]
    pub fn nvls_head_of(&self, rank: u32) -> Option<u32> {
        let node = self.seat(rank).node;
        (0..self.nvls_heads()).find(|head| self.nvls_head(node, *head) == rank)
    }
    /// The place of a head in the tree over nodes of a channel; odd channels have the second tree.
    #[must_use]
    pub fn nvls_tree(&self, channel: u32, rank: u32) -> Option<Tree> {
        let head = self.nvls_head_of(rank)?;
        let place = trees::double(self.nodes.len(), self.seat(rank).node as usize)[channel as usize % 2];
        let at = |node: usize| self.nvls_head(node as u32, head);
        Some(Tree { up: place.up.map(at), down: place.down.into_iter().flatten().map(at).collect() })
    }

    /// Whether the network's reduction is used (init.cc: nodes enough, and GPUs of a node not too many).
    #[must_use]
    pub fn has_collnet(&self) -> bool {
        let few = self.locals().0 <= 8;
        let nodes = self.nodes.len() > 1 && self.nodes.len() >= self.settings.collnet_nodes;
        self.settings.collnet && few && nodes && self.kinds.iter().all(|kind| !kind.graphs.collnet_chain.channels.is_empty())
    }
    /// The place of a rank in the chain of a channel to the network's reduction: `up` is nothing at its head.
    #[must_use]
    pub fn collnet_chain(&self, channel: u32, rank: u32) -> Tree {
        let seat = self.seat(rank);
        let graph = &self.kind_of(seat.node).graphs.collnet_chain;
        let order = &graph.channels[self.tree_channel(channel) % graph.channels.len()].gpus;
        let place = order.iter().position(|gpu| *gpu == seat.gpu).unwrap_or(0);
        let local = |place: usize| order.get(place).map(|gpu| self.rank_at(seat.node, *gpu));
        Tree { up: place.checked_sub(1).and_then(local), down: local(place + 1).into_iter().collect() }
    }
    /// The heads of a node that gather for the network's reduction, each rank once.
    #[must_use]
    pub fn collnet_heads(&self, node: u32) -> Vec<u32> {
        let mut heads: Vec<u32> = Vec::new();
        for channel in &self.kind_of(node).graphs.collnet_direct.channels {
            let head = self.rank_at(node, channel.gpus[0]);
            if !heads.contains(&head) {
                heads.push(head);
            }
        }
        heads
    }

    /// Whether all GPUs of a node reach each other by NVLink or xGMI, in every node.
    #[must_use]
    pub fn all_linked(&self) -> bool {
        self.kinds.iter().all(|kind| kind.topology.all_linked())
    }
}
