//! Scatter down a binomial tree, then allgather: for long messages, of which every rank then sends about twice the length at the most.
//!
//! Source: M. Barnett, L. Shuler, R. van de Geijn, S. Gupta, D. Payne, J. Watts, "Interprocessor Collective Communication Library
//! (InterCom)", SHPCC 1994; MPICH, bcast_intra_scatter_ring_allgather.c, bcast_intra_scatter_recursive_doubling_allgather.c; Open MPI,
//! coll_base_bcast.c (scatter_allgather, scatter_allgather_ring).
//! Modelled: blocks as even as elements allow. Not modelled: MPICH's blocks, all of the same rounded-up length but the last ones.

use crate::allgather;
use crate::blocks::Vector;
use crate::piece::Buffer;
use crate::round::Round;
use crate::tree::Branch;

pub(super) fn rounds(rank: u32, ranks: u32, vector: Vector, allgather: allgather::Algorithm) -> impl Iterator<Item = Round> {
    let blocks = vector.blocks(ranks);
    let pieces = blocks.clone();
    let scatter = Branch::new(rank, ranks, 2).down(move |first, end| pieces.pieces(Buffer::Recv, first, end));
    scatter.chain(allgather.in_place(rank, blocks))
}
