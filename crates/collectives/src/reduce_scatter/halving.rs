//! Recursive halving, with the partners of a step far or near first.
//!
//! Far first (halving distance): every rank ends with its own block; operators have to commute. Source: R. Thakur, R. Rabenseifner, W. Gropp,
//! IJHPCA 19(1), 2005, §4.2; MPICH, reduce_scatter_intra_recursive_halving.c; Open MPI, coll_base_reduce_scatter.c (recursivehalving).
//! Near first (doubling distance), the butterfly: the order of operands is kept, and a rank ends with the block of its bits reversed,
//! which it sends to its owner. Source: J. L. Träff, "An Improved Algorithm for (Non-commutative) Reduce-Scatter with an Application",
//! EuroPVM/MPI 2005; Open MPI, coll_base_reduce_scatter.c (butterfly); MPICH, reduce_scatter_intra_noncommutative.c.
//!
//! Modelled: ranks beyond a power of two, which fold in pairs; blocks of any lengths. Not modelled: MPICH's copy of all blocks into
//! reversed order, by which its messages of the butterfly are contiguous; here they are without it, as each half is blocks side by side.

use std::ops::Range;

use fabriscope_units::Bytes;

use crate::blocks::Blocks;
use crate::fold::Fold;
use crate::halving::Distance;
use crate::piece::Buffer;
use crate::reduction::begin;
use crate::round::Round;

/// What the rank gathers.
const ACC: Buffer = Buffer::Scratch(1);

pub(super) fn rounds(distance: Distance, rank: u32, ranks: u32, blocks: Blocks) -> impl Iterator<Item = Round> {
    let fold = Fold::new(ranks, 2);
    let all = blocks.pieces(ACC, 0, ranks);
    let last = last(distance, fold, rank, &blocks);
    let halve = move |number: u32| {
        let blocks = blocks.clone();
        let piece = move |kept: Range<u32>| blocks.pieces(ACC, fold.begin(kept.start), fold.begin(kept.end));
        (0..fold.steps()).map(move |step| distance.share(fold, number, step, &piece).reduce())
    };
    std::iter::once(begin(all.of(Buffer::Send), all))
        .chain(fold.join(rank, all))
        .chain(fold.stays(rank).into_iter().flat_map(halve))
        .chain([last])
}

/// Blocks go to whom they belong.
fn last(distance: Distance, fold: Fold, rank: u32, blocks: &Blocks) -> Round {
    let result = Buffer::Recv.piece(Bytes::ZERO, blocks.length(rank));
    // Reversing bits twice changes nothing: who has the block of a number is whose block this number has.
    let other = |number: u32| distance.kept(number, fold.steps(), fold.steps()).start;
    let mut round = Round::default();
    let holder = fold.rank(other(fold.number(rank)));
    if holder == rank {
        round.before.push(blocks.piece(ACC, rank).copied(result));
    } else {
        round.receives.push(result.with(holder));
    }
    if let Some(number) = fold.stays(rank) {
        let owners = fold.group(other(number)).filter(|owner| *owner != rank);
        round.sends.extend(owners.map(|owner| blocks.piece(ACC, owner).with(owner)));
    }
    round
}
