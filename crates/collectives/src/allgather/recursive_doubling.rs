//! Recursive doubling: in round k subtrees of 2^k ranks exchange all they have. Ranks whose partner is not there get the blocks from ranks
//! of their own subtree, down a binomial tree.
//!
//! Source: MPICH, allgather_intra_recursive_doubling.c (any number of ranks).

use crate::blocks::Blocks;
use crate::piece::Buffer;
use crate::round::Round;

pub(super) fn rounds(rank: u32, blocks: Blocks) -> impl Iterator<Item = Round> {
    let ranks = blocks.ranks();
    let steps = ranks.next_power_of_two().trailing_zeros();
    (0..steps).flat_map(move |step| step_of(1 << step, rank, &blocks).collect::<Vec<_>>())
}

/// The exchange of subtrees of `size` ranks, and what follows for those that had no partner.
fn step_of(size: u32, rank: u32, blocks: &Blocks) -> impl Iterator<Item = Round> {
    let ranks = blocks.ranks();
    let pieces = move |first: u32| blocks.pieces(Buffer::Recv, first, (first + size).min(ranks));
    let own = rank & !(size - 1);
    let (other, partner) = (own ^ size, rank ^ size);
    let exchange = (partner < ranks).then(|| Round::exchange(Some(pieces(other).with(partner)), Some(pieces(own).with(partner))));
    // So many ranks of this subtree have had a partner, where the other one is there but not whole.
    let served = ranks.saturating_sub(other);
    let passes = if served == 0 || served >= size { 0 } else { size.trailing_zeros() };
    let pass = move |bit: u32| {
        let half = 1 << bit;
        let peer = rank ^ half;
        let end = (rank & !(2 * half - 1)) + served;
        let (low, high) = (rank.min(peer), rank.max(peer));
        let message = pieces(other).with(peer);
        match low < end && high >= end {
            true if rank == low => Some(Round::exchange(None, Some(message))),
            true => Some(Round::exchange(Some(message), None)),
            false => None,
        }
    };
    exchange.into_iter().chain((0..passes).rev().filter_map(pass))
}
