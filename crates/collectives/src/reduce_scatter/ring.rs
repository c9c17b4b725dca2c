//! Ring: n − 1 steps to the neighbour; a block starts at the rank after its owner and gathers contributions on its way round.
//!
//! Source: Open MPI, coll_base_reduce_scatter.c (ring), which copies the whole send buffer first and the result last.
//! Modelled: blocks of any lengths. Not modelled: operators that do not commute; Open MPI's overlap of a step's receive with the
//! reduction of the step before.

use fabriscope_units::Bytes;

use crate::blocks::Blocks;
use crate::piece::Buffer;
use crate::reduction::begin;
use crate::ring;
use crate::round::Round;

/// What the rank gathers.
const ACC: Buffer = Buffer::Scratch(1);

pub(super) fn rounds(rank: u32, ranks: u32, blocks: Blocks) -> impl Iterator<Item = Round> {
    let all = blocks.pieces(ACC, 0, ranks);
    let result = blocks.piece(ACC, rank).copied(Buffer::Recv.piece(Bytes::ZERO, blocks.length(rank)));
    let steps =
        (0..ranks - 1).map(move |step| ring::reduce(step, rank, ranks, (rank + ranks - 1) % ranks, |index| blocks.piece(ACC, index)));
    std::iter::once(begin(all.of(Buffer::Send), all)).chain(steps).chain([Round::local(vec![result])])
}
