//! Up a tree to rank 0 and down again: k-nomial, or all below rank 0.
//!
//! Source: Open MPI, coll_base_barrier.c (tree: binomial; basic_linear).

use crate::piece::{Buffer, Piece};
use crate::round::Round;
use crate::tree::Branch;
use fabriscope_units::Bytes;

fn nothing(_: u32, _: u32) -> Piece {
    Buffer::Recv.piece(Bytes::ZERO, Bytes::ZERO)
}

/// Up and down.
pub(super) fn rounds(rank: u32, ranks: u32, radix: u32) -> impl Iterator<Item = Round> {
    up(rank, ranks, radix).chain(down(rank, ranks, radix))
}

/// Until rank 0 knows that all have come.
pub(crate) fn up(rank: u32, ranks: u32, radix: u32) -> impl Iterator<Item = Round> {
    Branch::new(rank, ranks, radix).up(nothing)
}

/// Until all know that rank 0 has come.
pub(crate) fn down(rank: u32, ranks: u32, radix: u32) -> impl Iterator<Item = Round> {
    Branch::new(rank, ranks, radix).down(nothing)
}
