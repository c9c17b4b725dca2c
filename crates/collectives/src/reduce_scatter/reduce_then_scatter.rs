//! A reduction to rank 0, which scatters the blocks: of any two algorithms.
//!
//! Source: Open MPI, coll_base_reduce_scatter.c (nonoverlapping), coll_base_reduce_scatter_block.c (basic_linear).
//! Modelled: blocks of any lengths. Not modelled: reductions in segments or parts where lengths differ, as what is an element is not
//! known then: all goes in one piece.

use fabriscope_units::Bytes;

use crate::blocks::{Blocks, Vector};
use crate::group::buffers;
use crate::piece::Buffer;
use crate::round::Round;
use crate::{reduce, scatter};

/// The reduction, at rank 0.
const ALL: Buffer = Buffer::Scratch(0);

pub(super) fn rounds(
    reduce: reduce::Algorithm,
    scatter: scatter::Algorithm,
    rank: u32,
    ranks: u32,
    blocks: Blocks,
) -> impl Iterator<Item = Round> {
    let vector = match blocks {
        Blocks::Split { count, width, .. } => Vector { count, width },
        Blocks::Even { ranks, block } => Vector { count: ranks.into(), width: block },
        _ => Vector { count: 1, width: blocks.total() },
    };
    let [send, all, recv] = [Buffer::Send, ALL, Buffer::Recv].map(|buffer| buffer.piece(Bytes::ZERO, Bytes::ZERO));
    let reduced = buffers(send, all, 1, reduce.rounds(rank, ranks, 0, vector));
    reduced.chain(buffers(all, recv, 1, scatter.rounds(rank, ranks, 0, blocks)))
}
