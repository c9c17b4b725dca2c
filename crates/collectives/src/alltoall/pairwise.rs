//! Pairwise exchange: one send and one receive per round, each round waits for both.
//!
//! Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 19(1),
//! 2005 (exclusive or for powers of two); Open MPI, coll_base_alltoall.c (always a shift).

use super::Partners;
use crate::blocks::Blocks;
use crate::piece::Buffer;
use crate::round::{Numbered, Round};

pub(super) fn rounds(partners: Partners, rank: u32, sends: Blocks, receives: Blocks) -> impl Iterator<Item = Round> {
    Numbered::new(sends.ranks().into(), move |index| round(index as u32, partners, rank, &sends, &receives))
}

fn round(index: u32, partners: Partners, rank: u32, sends: &Blocks, receives: &Blocks) -> Round {
    let ranks = sends.ranks();
    if index == 0 {
        return Round::local(vec![super::own(rank, sends, receives)]);
    }
    let (from, to) = if partners == Partners::ExclusiveOr && ranks.is_power_of_two() {
        (rank ^ index, rank ^ index)
    } else {
        ((rank + ranks - index) % ranks, (rank + index) % ranks)
    };
    Round::exchange(Some(receives.piece(Buffer::Recv, from).with(from)), Some(sends.piece(Buffer::Send, to).with(to)))
}
