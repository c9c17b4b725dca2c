//! Up a k-nomial tree: each rank sends what its branch has, which stands side by side.
//!
//! Source: MPICH, gather_intra_binomial.c; Open MPI, coll_base_gather.c (binomial: memory of its own at ranks with children; two copies at
//! a root other than rank 0).

use crate::blocks::{Blocks, Turned};
use crate::piece::{Buffer, Piece};
use crate::round::Round;
use crate::tree::Branch;

/// `rank` is numbered from `root`; its block lies at `own`.
pub(super) fn rounds(rank: u32, root: u32, blocks: Blocks, radix: u32, own: Piece) -> impl Iterator<Item = Round> {
    let ranks = blocks.ranks();
    let branch = Branch::new(rank, ranks, radix);
    let leaf = rank > 0 && branch.end == rank + 1;
    let buffer = if rank == 0 && root == 0 { Buffer::Recv } else { Buffer::Scratch(0) };
    let turned = Turned { blocks, first: root };
    let first = (!leaf).then(|| Round::local(vec![own.copied(turned.pieces(buffer, rank, rank, rank + 1))]));
    let last = (rank == 0 && root > 0).then(|| Round::local(turned.turn_back(buffer, Buffer::Recv).to_vec()));
    let up = branch.up(move |first, end| if leaf { own } else { turned.pieces(buffer, rank, first, end) });
    first.into_iter().chain(up).chain(last)
}
