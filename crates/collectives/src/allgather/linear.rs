//! Linear: everybody sends its block to everybody.
//!
//! Source: MPICH and Open MPI post the non-blocking form so (libnbc, nbc_iallgather.c: all at once).

use crate::blocks::Blocks;
use crate::piece::Buffer;
use crate::round::{Round, batches};

pub(super) fn rounds(rank: u32, blocks: Blocks, at_a_time: u32) -> impl Iterator<Item = Round> {
    let ranks = blocks.ranks();
    batches(ranks, at_a_time).map(move |distances| Round {
        receives: distances
            .clone()
            .map(|distance| (rank + ranks - distance) % ranks)
            .map(|from| blocks.piece(Buffer::Recv, from).with(from))
            .collect(),
        sends: distances.map(|distance| blocks.piece(Buffer::Recv, rank).with((rank + distance) % ranks)).collect(),
        ..Round::default()
    })
}
