//! Blocks are gathered at the leaders, and from there at the root.
//!
//! Source: MVAPICH2, gather_osu.c (two-level); Open MPI, coll_han_gather.c.

use std::fmt;

use fabriscope_units::Bytes;

use super::{NodePosition, at, name, pairs};
use crate::blocks::Blocks;
use crate::gather::Algorithm;
use crate::group::{Nodes, buffers, on};
use crate::piece::Buffer;
use crate::round::{Round, Rounds};

/// The blocks of a node, at its leader.
const NODE: Buffer = Buffer::Scratch(0);
/// All blocks in the order of nodes, where that is not the order of ranks.
const SORTED: Buffer = Buffer::Scratch(1);
/// Scratch buffers of this level.
const TAKEN: u8 = 2;

/// A gather of each node, then of leaders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gather {
    /// In a node.
    pub inner: Algorithm,
    /// Among leaders.
    pub outer: Algorithm,
}

impl Gather {
    /// What [`Gather::named`] reads.
    pub const NAMES: &str = "two_level(inner, outer)";

    /// Reads `two_level(inner, outer)`.
    #[must_use]
    pub fn named(text: &str) -> Option<Gather> {
        let mut name = name(text)?;
        let inner = name.inner(Algorithm::named, Algorithm::Linear { at_a_time: 0 })?;
        let outer = name.inner(Algorithm::named, Algorithm::KNomial { radix: 2 })?;
        name.end(Gather { inner, outer })
    }
    /// The rounds of `rank`; the blocks go to `root`.
    #[must_use]
    pub fn rounds(self, rank: u32, nodes: &Nodes, root: u32, blocks: Blocks) -> Rounds {
        let seat = NodePosition::new(nodes, rank, Some(root));
        let (members, of_root) = (nodes.members(seat.node), nodes.seat(root).0);
        let result = if nodes.in_order() { Buffer::Recv } else { SORTED };
        let [send, node, whole] = [Buffer::Send, NODE, result].map(|buffer| at(buffer, Bytes::ZERO));

        let inside = self.inner.rounds(seat.index, seat.ranks, seat.leader, blocks.of(members.iter()));
        let inside = on(members, buffers(send, node, TAKEN, inside));
        let across = seat.leads().then(|| {
            let rounds = self.outer.rounds(seat.node, nodes.nodes(), of_root, nodes.joined(&blocks));
            on(nodes.leaders_with(root), buffers(node, whole, TAKEN, rounds))
        });
        let nodes = (rank == root && !nodes.in_order()).then(|| nodes.clone());
        let sort = nodes
            .into_iter()
            .map(move |nodes| Round::local(pairs(&nodes, &blocks, Buffer::Recv, result).map(|(own, sorted)| sorted.copied(own)).collect()));
        Box::new(inside.chain(across.into_iter().flatten()).chain(sort))
    }
}

impl fmt::Display for Gather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two_level({}, {})", self.inner, self.outer)
    }
}
