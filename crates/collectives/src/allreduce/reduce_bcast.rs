//! A reduction to rank 0, and a broadcast from there: of any two algorithms.
//!
//! Source: Open MPI, coll_base_allreduce.c (nonoverlapping, basic_linear).
//! Modelled: in place, rank 0 reduces into memory of its own and copies.

use fabriscope_units::Bytes;

use crate::blocks::Vector;
use crate::group::buffers;
use crate::piece::Buffer;
use crate::round::Round;
use crate::{bcast, reduce};

pub(super) fn rounds(
    reduce: reduce::Algorithm,
    bcast: bcast::Algorithm,
    rank: u32,
    ranks: u32,
    vector: Vector,
) -> impl Iterator<Item = Round> {
    reduce.rounds(rank, ranks, 0, vector).chain(bcast.rounds(rank, ranks, 0, vector))
}

pub(super) fn in_place(
    reduce: reduce::Algorithm,
    bcast: bcast::Algorithm,
    rank: u32,
    ranks: u32,
    vector: Vector,
) -> impl Iterator<Item = Round> {
    let [own, made] = [Buffer::Recv, Buffer::Scratch(0)].map(|buffer| buffer.piece(Bytes::ZERO, vector.bytes()));
    let copy = (rank == 0).then(|| Round::local(vec![made.copied(own)]));
    buffers(own, made, 1, reduce.rounds(rank, ranks, 0, vector)).chain(copy).chain(bcast.rounds(rank, ranks, 0, vector))
}
