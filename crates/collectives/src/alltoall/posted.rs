//! Sends and receives to all ranks, posted before anything is waited for.
//!
//! Source: MPICH, alltoall_intra_scattered.c (so many at a time, partners in the order of their distance); Open MPI,
//! coll_base_alltoall.c, basic linear (all at once).

use crate::blocks::Blocks;
use crate::piece::Buffer;
use crate::round::{Numbered, Round};

pub(super) fn rounds(at_a_time: u32, rank: u32, sends: Blocks, receives: Blocks) -> impl Iterator<Item = Round> {
    let ranks = sends.ranks();
    let count = ranks.div_ceil(batch(ranks, at_a_time));
    Numbered::new(count.into(), move |index| round(index as u32, at_a_time, rank, &sends, &receives))
}

fn round(index: u32, at_a_time: u32, rank: u32, sends: &Blocks, receives: &Blocks) -> Round {
    let ranks = sends.ranks();
    let batch = batch(ranks, at_a_time);
    let distances = index * batch..((index + 1) * batch).min(ranks);
    let others = |peer: &u32| *peer != rank;
    Round {
        before: if index == 0 { vec![super::own(rank, sends, receives)] } else { Vec::new() },
        receives: distances
            .clone()
            .map(|distance| (rank + distance) % ranks)
            .filter(others)
            .map(|from| receives.piece(Buffer::Recv, from).with(from))
            .collect(),
        sends: distances
            .map(|distance| (rank + ranks - distance) % ranks)
            .filter(others)
            .map(|to| sends.piece(Buffer::Send, to).with(to))
            .collect(),
        after: Vec::new(),
        joint: None,
    }
}

fn batch(ranks: u32, at_a_time: u32) -> u32 {
    if at_a_time == 0 { ranks.max(1) } else { at_a_time }
}
