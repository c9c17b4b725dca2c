//! Pairwise exchange: one send and one receive per round, each round waits for both.
//!
//! Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 19(1),
//! 2005 (exclusive or for powers of two); Open MPI, coll_base_alltoall.c (always a shift).

use fabriscope_units::Bytes;

use crate::round::{Copies, Message, Round};

pub(super) fn round(index: u32, exclusive_or: bool, rank: u32, ranks: u32, size: Bytes) -> Round {
    if index == 0 {
        return Round { before: Copies { blocks: 1, bytes: size }, ..Round::default() };
    }
    let (from, to) = if exclusive_or && ranks.is_power_of_two() {
        (rank ^ index, rank ^ index)
    } else {
        ((rank + ranks - index) % ranks, (rank + index) % ranks)
    };
    let message = |peer: u32| vec![Message { peer, bytes: size }];
    Round { receives: message(from), sends: message(to), ..Round::default() }
}
