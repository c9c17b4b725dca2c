//! Algorithms in two levels: inside the nodes, and among one rank of each, the leader. Any algorithm can be the inner or the outer one.
//!
//! Nodes may have any numbers of ranks, which need not stand side by side: the library then sorts blocks in memory of its own. The leader
//! is a node's lowest rank, or the root on its own node.
//!
//! Source: MVAPICH2 (the algorithms called two-level in its osu collectives); Open MPI, coll_han; MPICH, the algorithms called smp.
//! Modelled: one level after the other, the overlap of both that [`Bcast`] and [`Allreduce`] have, several leaders of a node in
//! [`MultiLeader`]. Not modelled: levels inside a node (sockets).

mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod bcast;
mod gather;
mod in_network;
mod multi_leader;
mod partners;
mod reduce;
mod scatter;

pub use allgather::Allgather;
pub use allreduce::Allreduce;
pub use alltoall::{Alltoall, Leaders};
pub use barrier::Barrier;
pub use bcast::Bcast;
pub use gather::Gather;
pub use in_network::InNetwork;
pub use multi_leader::MultiLeader;
pub use reduce::Reduce;
pub use scatter::Scatter;

use fabriscope_units::Bytes;

use crate::blocks::Blocks;
use crate::group::Nodes;
use crate::names::Name;
use crate::piece::{Buffer, Piece};
use crate::round::Round;

/// Reads `two_level(…)`.
fn name(text: &str) -> Option<Name<'_>> {
    Name::read(text).filter(|name| name.word == "two_level")
}

/// Where a rank sits.
#[derive(Debug, Clone, Copy)]
struct NodePosition {
    node: u32,
    /// Which of the node's ranks it is.
    index: u32,
    /// How many the node has.
    ranks: u32,
    /// Which of them is the leader.
    leader: u32,
}

impl NodePosition {
    /// Of `rank`; without a root, the leaders are the first ranks.
    fn new(nodes: &Nodes, rank: u32, root: Option<u32>) -> NodePosition {
        let (node, index) = nodes.seat(rank);
        let leader = root.map(|root| nodes.seat(root)).filter(|(of_root, _)| *of_root == node).map_or(0, |(_, index)| index);
        NodePosition { node, index, ranks: nodes.members(node).ranks(), leader }
    }
    fn leads(self) -> bool {
        self.index == self.leader
    }
}

/// All of a buffer that begins at `offset`; its length is that of what is put there.
fn at(buffer: Buffer, offset: Bytes) -> Piece {
    buffer.piece(offset, Bytes::ZERO)
}

/// The rounds of both, each with one of the other as long as both have some.
fn beside(mut one: impl Iterator<Item = Round>, mut other: impl Iterator<Item = Round>) -> impl Iterator<Item = Round> {
    std::iter::from_fn(move || match (one.next(), other.next()) {
        (Some(one), Some(other)) => Some(one.beside(other)),
        (one, other) => one.or(other),
    })
}

/// For each block, where it lies in `own` in the order of the ranks, and where in `sorted` in the order of nodes.
fn pairs(nodes: &Nodes, blocks: &Blocks, own: Buffer, sorted: Buffer) -> impl Iterator<Item = (Piece, Piece)> {
    let order = nodes.ordered(blocks);
    (0..nodes.ranks()).map(move |rank| (blocks.piece(own, rank), order.piece(sorted, nodes.place(rank))))
}

#[cfg(test)]
mod reductions_test;
#[cfg(test)]
mod tests;
