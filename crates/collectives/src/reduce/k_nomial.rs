//! Up a k-nomial tree, a level a round: the reductions of the nearest branches first.
//!
//! Source: MPICH, reduce_intra_binomial.c (radix 2); MVAPICH2, reduce_osu.c (k-nomial: a level's receives are posted together).
//! Modelled: memory of their own at ranks with children. Not modelled: MPICH's order for operators that do not commute (the tree
//! begins at rank 0, which then sends to the root); here ranks are counted from the root.

use crate::blocks::Vector;
use crate::piece::Buffer;
use crate::reduction::{begin, take_in};
use crate::round::Round;
use crate::tree::Branch;

/// `rank` is numbered from the root.
pub(super) fn rounds(rank: u32, ranks: u32, radix: u32, vector: Vector) -> impl Iterator<Item = Round> {
    let branch = Branch::new(rank, ranks, radix);
    let leaf = rank > 0 && branch.end == rank + 1;
    let own = vector.whole(Buffer::Send);
    let acc = vector.whole(if rank == 0 { Buffer::Recv } else { Buffer::Scratch(1) });
    let first = (!leaf).then(|| begin(own, acc));
    let levels = branch.levels().rev().map(move |level| {
        let children: Vec<u32> = level.into_iter().map(|child| child.rank).collect();
        take_in(rank, &children, acc, 0)
    });
    let send = branch.parent.map(|parent| Round::exchange(None, Some(if leaf { own } else { acc }.with(parent))));
    first.into_iter().chain(levels).chain(send)
}
