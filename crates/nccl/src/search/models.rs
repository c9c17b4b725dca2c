//! Nodes of AMD that RCCL knows: it does not search them but has their rings at hand.
//!
//! Source: RCCL, src/graph/rome_models.cc: rome_model_62 and 63 (eight dies of MI250X with NUMA domains 3, 3, 1, 1, 0, 0, 2, 2, without
//! and with four adapters), 79 (eight MI300X, each linked to each), 80 (four MI300A with two links between each two, and adapters);
//! init.cc for how often channels are repeated.
//! Not modelled: other models; nodes without one are searched. Trees take the order of the rings, and a channel carries the fastest
//! way of the node. Basis of both: assumed.

use fabriscope_units::Span;

use super::{Channel, Graph, Graphs, Pattern};
use crate::architecture::Architecture;
use crate::path_type::PathType;
use crate::tables;
use crate::topology::{Topology, rate};

/// A node that RCCL knows.
struct Model {
    gpus: usize,
    adapters: usize,
    /// Name of the GPUs' architecture.
    gfx: u32,
    /// Pairs with links between them.
    linked: &'static [(usize, usize)],
    /// Rings; with adapters the first and the last number are those.
    rings: &'static [&'static [u32]],
    /// Channels are repeated so often beyond the two halves of trees.
    copies: usize,
    /// Its constants of the tuner.
    tuning: usize,
}

/// Dies of MI250X: a ladder that is twisted.
const LADDER: &[(usize, usize)] = &[(0, 1), (0, 2), (0, 6), (1, 3), (1, 5), (2, 3), (2, 4), (3, 7), (4, 5), (4, 6), (5, 7), (6, 7)];
/// Each to each.
const FOUR: &[(usize, usize)] = &[(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];

const MODELS: [Model; 4] = [
    Model {
        gpus: 8,
        adapters: 0,
        gfx: 0x90a,
        linked: LADDER,
        rings: &[&[0, 1, 3, 2, 4, 5, 7, 6], &[6, 7, 5, 4, 2, 3, 1, 0], &[0, 1, 5, 4, 6, 7, 3, 2], &[2, 3, 7, 6, 4, 5, 1, 0]],
        copies: 2,
        tuning: 0,
    },
    Model {
        gpus: 8,
        adapters: 4,
        gfx: 0x90a,
        linked: LADDER,
        rings: &[
            &[0, 0, 1, 5, 4, 6, 7, 3, 2, 1],
            &[1, 2, 3, 7, 6, 4, 5, 1, 0, 0],
            &[3, 7, 6, 0, 1, 3, 2, 4, 5, 2],
            &[2, 5, 4, 2, 3, 1, 0, 6, 7, 3],
            &[0, 0, 1, 5, 4, 6, 7, 3, 2, 1],
            &[1, 2, 3, 7, 6, 4, 5, 1, 0, 0],
            &[3, 7, 6, 0, 1, 3, 2, 4, 5, 2],
            &[2, 5, 4, 2, 3, 1, 0, 6, 7, 3],
        ],
        copies: 1,
        tuning: 3,
    },
    Model {
        gpus: 8,
        adapters: 0,
        gfx: 0x942,
        linked: &[],
        rings: &[
            &[0, 1, 2, 3, 4, 5, 6, 7],
            &[0, 1, 2, 3, 4, 5, 7, 6],
            &[0, 2, 4, 1, 3, 6, 5, 7],
            &[0, 2, 4, 6, 1, 7, 3, 5],
            &[0, 3, 1, 5, 2, 7, 4, 6],
            &[0, 3, 5, 1, 6, 2, 7, 4],
            &[0, 4, 1, 7, 3, 6, 2, 5],
            &[7, 6, 5, 4, 3, 2, 1, 0],
            &[6, 7, 5, 4, 3, 2, 1, 0],
            &[7, 5, 6, 3, 1, 4, 2, 0],
            &[5, 3, 7, 1, 6, 4, 2, 0],
            &[6, 4, 7, 2, 5, 1, 3, 0],
            &[4, 7, 2, 6, 1, 5, 3, 0],
            &[5, 2, 6, 3, 7, 1, 4, 0],
        ],
        copies: 2,
        tuning: 5,
    },
    Model {
        gpus: 4,
        adapters: 4,
        gfx: 0x942,
        linked: FOUR,
        rings: &[
            &[2, 2, 3, 0, 1, 1],
            &[0, 0, 1, 3, 2, 2],
            &[0, 0, 2, 1, 3, 3],
            &[3, 3, 1, 0, 2, 2],
            &[3, 3, 1, 2, 0, 0],
            &[1, 1, 0, 3, 2, 2],
            &[1, 1, 2, 3, 0, 0],
            &[2, 2, 0, 1, 3, 3],
            &[3, 3, 0, 2, 1, 1],
            &[2, 2, 3, 1, 0, 0],
            &[1, 1, 2, 0, 3, 3],
            &[0, 0, 3, 2, 1, 1],
        ],
        copies: 1,
        tuning: 0,
    },
];

/// MI350 is joined as MI300 is. Basis: assumed; RCCL gives links of both the same rate (src/graph/topo.h).
const fn alike(gfx: u32) -> u32 {
    if gfx == 0x950 { 0x942 } else { gfx }
}

impl Model {
    fn fits(&self, topology: &Topology) -> bool {
        let pair = |a: usize, b: usize| self.linked.is_empty() || self.linked.contains(&(a.min(b), a.max(b)));
        let count = topology.gpus() == self.gpus && topology.adapters() == self.adapters;
        let all = (0..self.gpus).flat_map(|a| (0..a).map(move |b| (a, b)));
        count
            && matches!(topology.facts.architecture, Architecture::Gfx(gfx) if alike(gfx) == self.gfx)
            && all.into_iter().all(|(a, b)| (topology.between(a, b).0 == PathType::Nvl) == pair(a, b))
    }

    fn graph(&self, topology: &Topology, pattern: Pattern) -> Graph {
        let ends = if self.adapters == 0 { &topology.gpus } else { &topology.nets };
        let ways = topology.gpus.iter().flat_map(|gpu| ends.iter().map(move |end| topology.path(*gpu, *end)));
        let most = rate(ways.filter(|path| !path.links.is_empty()).map(|path| path.rate).max().unwrap_or(0));
        let channel = |ring: &&[u32]| match (self.adapters, *ring) {
            (0, gpus) => Channel { gpus: gpus.to_vec(), adapters: None },
            (_, [first, gpus @ .., last]) => Channel { gpus: gpus.to_vec(), adapters: Some([*first, *last]) },
            (_, _) => Channel { gpus: Vec::new(), adapters: None },
        };
        Graph {
            pattern,
            channels: self.rings.iter().map(channel).collect(),
            intra: most,
            inter: most,
            type_intra: PathType::Nvl,
            type_inter: PathType::Phb,
            same_channels: false,
            cross_nic: false,
            latency: Span::ZERO,
            steps: 0,
        }
    }
}

/// The graphs of a node that RCCL has a model of.
pub(super) fn find(topology: &Topology, none: impl Fn(Pattern) -> Graph) -> Option<Graphs> {
    let model = MODELS.iter().find(|model| model.fits(topology))?;
    Some(Graphs {
        ring: model.graph(topology, Pattern::Ring),
        tree: model.graph(topology, Pattern::BalancedTree),
        collnet_chain: none(Pattern::Tree),
        collnet_direct: none(Pattern::CollnetDirect),
        nvls: none(Pattern::Nvls),
        copies: model.copies,
        alternate: model.adapters > 0,
        tuning: model.tuning,
    })
}

/// Within the limits of the library.
const _: () = assert!(14 * 4 <= tables::most_channels(Architecture::Gfx(0x942)));
