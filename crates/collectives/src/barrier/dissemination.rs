//! Dissemination: in round k every rank tells the ranks i · radix^k further, for i from 1 to radix − 1, what it knows.
//!
//! Source: D. Hensgen, R. Finkel, U. Manber, "Two Algorithms for Barrier Synchronization", Int. J. Parallel Programming 17(1), 1988;
//! MPICH, barrier_intra_k_dissemination.c (any radix); Open MPI, coll_base_barrier.c ("bruck", radix 2).
//! Modelled: all messages of a round posted at once. Not modelled: MPICH's buffered receives of the round after.

use crate::piece::Message;
use crate::round::Round;

pub(super) fn rounds(rank: u32, ranks: u32, radix: u32) -> impl Iterator<Item = Round> {
    let (all, radix) = (u64::from(ranks), u64::from(radix.max(2)));
    std::iter::successors(Some(1), move |distance| Some(distance * radix)).take_while(move |distance| *distance < all).map(
        move |distance| {
            let steps = || (1..radix).map(|step| step * distance).take_while(|step| *step < all);
            let at = |place: u64| Message::empty((place % all) as u32);
            Round {
                receives: steps().map(|step| at(u64::from(rank) + all - step)).collect(),
                sends: steps().map(|step| at(u64::from(rank) + step)).collect(),
                ..Round::default()
            }
        },
    )
}
