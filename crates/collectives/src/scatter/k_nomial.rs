//! Down a k-nomial tree: each rank passes on what is for the branches below it, which stands side by side.
//!
//! Source: MPICH, scatter_intra_binomial.c; Open MPI, coll_base_scatter.c (binomial: memory of its own at ranks with children; two copies
//! at a root other than rank 0).

use fabriscope_units::Bytes;

use crate::blocks::{Blocks, Turned};
use crate::piece::Buffer;
use crate::round::Round;
use crate::tree::Branch;

/// `rank` is numbered from `root`.
pub(super) fn rounds(rank: u32, root: u32, blocks: Blocks, radix: u32) -> impl Iterator<Item = Round> {
    let ranks = blocks.ranks();
    let branch = Branch::new(rank, ranks, radix);
    let buffer = match branch.end - rank {
        _ if rank == 0 && root == 0 => Buffer::Send,
        1 if rank > 0 => Buffer::Recv,
        _ => Buffer::Scratch(0),
    };
    let turned = Turned { blocks, first: root };
    let first = (rank == 0 && root > 0).then(|| Round::local(turned.turn(Buffer::Send, buffer).to_vec()));
    let own = turned.pieces(buffer, rank, rank, rank + 1);
    let last = Round::local(vec![own.copied(Buffer::Recv.piece(Bytes::ZERO, own.bytes))]);
    let down = branch.down(move |first, end| turned.pieces(buffer, rank, first, end));
    first.into_iter().chain(down).chain(std::iter::once(last))
}
