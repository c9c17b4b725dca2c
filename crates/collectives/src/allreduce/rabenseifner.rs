//! Rabenseifner's algorithm: a reduce-scatter by halving blocks and doubling distances, then the same way back as an allgather.
//!
//! Source: R. Rabenseifner, "Optimization of Collective Reduction Operations", ICCS 2004; MPICH, allreduce_intra_reduce_scatter_allgather.c;
//! Open MPI, coll_base_allreduce.c (redscat_allgather).
//! Modelled: ranks beyond a power of two, which fold in pairs; blocks of whole elements, also empty ones; the order of operands.
//! Not modelled: Open MPI's refusal of fewer elements than ranks.

use crate::blocks::Vector;
use crate::fold::Fold;
use crate::halving::Distance;
use crate::piece::Buffer;
use crate::reduction::{begin, take_in};
use crate::round::Round;

pub(super) fn rounds(rank: u32, ranks: u32, vector: Vector) -> impl Iterator<Item = Round> {
    let fold = Fold::new(ranks, 2);
    let acc = vector.whole(Buffer::Recv);
    let exchange = move |number: u32| {
        let steps = fold.steps();
        // With whom, what is this rank's after the step, what the partner's.
        let shared = move |step: u32| {
            let partner = Distance::Doubling.partner(number, step, steps);
            let piece = |number| {
                let kept = Distance::Doubling.kept(number, step + 1, steps);
                vector.blocks(fold.power()).pieces(Buffer::Recv, kept.start, kept.end)
            };
            (fold.rank(partner), piece(number), piece(partner))
        };
        let scatter = (0..steps).map(move |step| {
            let (partner, own, theirs) = shared(step);
            take_in(rank, &[partner], own, 0).sending(theirs, &[partner])
        });
        let gather = (0..steps).rev().map(move |step| {
            let (partner, own, theirs) = shared(step);
            Round::exchange(Some(theirs.with(partner)), Some(own.with(partner)))
        });
        scatter.chain(gather)
    };
    std::iter::once(begin(vector.whole(Buffer::Send), acc))
        .chain(fold.join(rank, acc))
        .chain(fold.stays(rank).into_iter().flat_map(exchange))
        .chain(fold.spread(rank, acc))
}
