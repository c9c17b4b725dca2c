//! A reduction in each node, then among leaders.
//!
//! Source: MVAPICH2, reduce_osu.c (two-level helper); MPICH, reduce_intra_smp.c; Open MPI, coll_han_reduce.c (simple).
//! Not modelled: HAN's segments, whose levels overlap.

use std::fmt;

use fabriscope_units::Bytes;

use super::{NodePosition, at, name};
use crate::blocks::Vector;
use crate::group::{Nodes, buffers, on};
use crate::piece::Buffer;
use crate::reduce::Algorithm;
use crate::round::Rounds;

/// The reduction of a node, at its leader.
const NODE: Buffer = Buffer::Scratch(0);
/// Scratch buffers of this level.
const TAKEN: u8 = 1;

/// To the leaders, then to the root, which leads its node. Keeps the order of operands where the algorithms do, the root is rank 0, and
/// nodes have ranks side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reduce {
    /// In a node.
    pub inner: Algorithm,
    /// Among leaders.
    pub outer: Algorithm,
}

impl Reduce {
    /// Reads `two_level(inner, outer)`.
    #[must_use]
    pub fn named(text: &str) -> Option<Reduce> {
        let mut name = name(text)?;
        let inner = name.inner(Algorithm::named, Algorithm::KNomial { radix: 4 })?;
        let outer = name.inner(Algorithm::named, Algorithm::KNomial { radix: 2 })?;
        name.end(Reduce { inner, outer })
    }
    /// The rounds of `rank`; `root` gets the result.
    #[must_use]
    pub fn rounds(self, rank: u32, nodes: &Nodes, root: u32, vector: Vector) -> Rounds {
        let seat = NodePosition::new(nodes, rank, Some(root));
        let [send, node, recv] = [Buffer::Send, NODE, Buffer::Recv].map(|buffer| at(buffer, Bytes::ZERO));
        let inside = self.inner.rounds(seat.index, seat.ranks, seat.leader, vector);
        let inside = on(nodes.members(seat.node), buffers(send, node, TAKEN, inside));
        let across = seat.leads().then(|| {
            let rounds = self.outer.rounds(seat.node, nodes.nodes(), nodes.seat(root).0, vector);
            on(nodes.leaders_with(root), buffers(node, recv, TAKEN, rounds))
        });
        Box::new(inside.chain(across.into_iter().flatten()))
    }
}

impl fmt::Display for Reduce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two_level({}, {})", self.inner, self.outer)
    }
}
