//! Rabenseifner's algorithm: a reduce-scatter by halving blocks and doubling distances, then the same way back as an allgather.
//!
//! Source: R. Rabenseifner, "Optimization of Collective Reduction Operations", ICCS 2004; MPICH, allreduce_intra_reduce_scatter_allgather.c;
//! Open MPI, coll_base_allreduce.c (redscat_allgather).
//! Modelled: ranks beyond a power of two, which fold in pairs; blocks of whole elements, also empty ones; the order of operands.
//! Not modelled: Open MPI's refusal of fewer elements than ranks.

use crate::blocks::Vector;
use crate::fold::Fold;
use crate::halving::{Distance, Share};
use crate::piece::Buffer;
use crate::reduction::begin;
use crate::round::Round;

pub(super) fn rounds(rank: u32, ranks: u32, vector: Vector) -> impl Iterator<Item = Round> {
    let fold = Fold::new(ranks, 2);
    let acc = vector.whole(Buffer::Recv);
    let exchange = move |number: u32| {
        let blocks = vector.blocks(fold.power());
        let share = move |step| Distance::Doubling.share(fold, number, step, |kept| blocks.pieces(Buffer::Recv, kept.start, kept.end));
        let scatter = (0..fold.steps()).map(share.clone()).map(Share::reduce);
        scatter.chain((0..fold.steps()).rev().map(share).map(|share| share.gather()))
    };
    std::iter::once(begin(vector.whole(Buffer::Send), acc))
        .chain(fold.join(rank, acc))
        .chain(fold.stays(rank).into_iter().flat_map(exchange))
        .chain(fold.spread(rank, acc))
}
