//! Blocks go from the root to the leaders, and from there to the ranks of the nodes.
//!
//! Source: MVAPICH2, scatter_osu.c (two-level); Open MPI, coll_han_scatter.c.

use std::fmt;

use fabriscope_units::Bytes;

use super::{NodePosition, at, name, pairs};
use crate::blocks::Blocks;
use crate::group::{Nodes, buffers, on};
use crate::piece::Buffer;
use crate::round::{Round, Rounds};
use crate::scatter::Algorithm;

/// The blocks of a node, at its leader.
const NODE: Buffer = Buffer::Scratch(0);
/// All blocks in the order of nodes, where that is not the order of ranks.
const SORTED: Buffer = Buffer::Scratch(1);
/// Scratch buffers of this level.
const TAKEN: u8 = 2;

/// A scatter of leaders, then of each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scatter {
    /// In a node.
    pub inner: Algorithm,
    /// Among leaders.
    pub outer: Algorithm,
}

impl Scatter {
    /// What [`Scatter::named`] reads.
    pub const NAMES: &str = "two_level(inner, outer)";

    /// Reads `two_level(inner, outer)`.
    #[must_use]
    pub fn named(text: &str) -> Option<Scatter> {
        let mut name = name(text)?;
        let inner = name.inner(Algorithm::named, Algorithm::Linear { at_a_time: 0 })?;
        let outer = name.inner(Algorithm::named, Algorithm::KNomial { radix: 2 })?;
        name.end(Scatter { inner, outer })
    }
    /// The rounds of `rank`; the blocks come from `root`.
    #[must_use]
    pub fn rounds(self, rank: u32, nodes: &Nodes, root: u32, blocks: Blocks) -> Rounds {
        let seat = NodePosition::new(nodes, rank, Some(root));
        let (members, of_root) = (nodes.members(seat.node), nodes.seat(root).0);
        let source = if nodes.in_order() { Buffer::Send } else { SORTED };
        let [whole, node, recv] = [source, NODE, Buffer::Recv].map(|buffer| at(buffer, Bytes::ZERO));

        let across = seat.leads().then(|| {
            let rounds = self.outer.rounds(seat.node, nodes.nodes(), of_root, nodes.joined(&blocks));
            on(nodes.leaders_with(root), buffers(whole, node, TAKEN, rounds))
        });
        let inside = self.inner.rounds(seat.index, seat.ranks, seat.leader, blocks.of(members.iter()));
        let inside = on(members, buffers(node, recv, TAKEN, inside));
        let nodes = (rank == root && !nodes.in_order()).then(|| nodes.clone());
        let sort = nodes
            .into_iter()
            .map(move |nodes| Round::local(pairs(&nodes, &blocks, Buffer::Send, source).map(|(own, sorted)| own.copied(sorted)).collect()));
        Box::new(sort.chain(across.into_iter().flatten()).chain(inside))
    }
}

impl fmt::Display for Scatter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two_level({}, {})", self.inner, self.outer)
    }
}
