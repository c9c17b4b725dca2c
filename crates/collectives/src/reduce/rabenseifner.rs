//! Rabenseifner's algorithm: a reduce-scatter by halving blocks and doubling distances, then the same way back to the root alone.
//!
//! Source: R. Rabenseifner, "Optimization of Collective Reduction Operations", ICCS 2004; MPICH, reduce_intra_reduce_scatter_gather.c;
//! Open MPI, coll_base_reduce.c (redscat_gather).
//! Modelled: ranks beyond a power of two, which fold in pairs; blocks of whole elements; the order of operands. Not modelled: the
//! libraries' exchange of roles where the root was folded away: here the root stays in its pair.

use crate::blocks::Vector;
use crate::fold::Fold;
use crate::halving::{Distance, Share};
use crate::piece::Buffer;
use crate::reduction::begin;
use crate::round::Round;

pub(super) fn rounds(rank: u32, ranks: u32, root: u32, vector: Vector) -> impl Iterator<Item = Round> {
    let fold = Fold::keeping(ranks, root);
    let top = fold.number(root);
    let buffer = if rank == root { Buffer::Recv } else { Buffer::Scratch(1) };
    let acc = vector.whole(buffer);
    let exchange = move |number: u32| {
        let blocks = vector.blocks(fold.power());
        let share = move |step| Distance::Doubling.share(fold, number, step, |kept| blocks.pieces(buffer, kept.start, kept.end));
        let scatter = (0..fold.steps()).map(share.clone()).map(Share::reduce);
        // Those that agree with the root in all later steps still have something to send or receive.
        let taking_part = (0..fold.steps()).rev().filter(move |step| (number ^ top) >> step < 2);
        let gather = taking_part.map(move |step| {
            let here = number >> step == top >> step;
            share(step).gather_at_one(here)
        });
        scatter.chain(gather)
    };
    std::iter::once(begin(vector.whole(Buffer::Send), acc))
        .chain(fold.join(rank, acc))
        .chain(fold.stays(rank).into_iter().flat_map(exchange))
}
