//! Ring: n − 1 steps that reduce and n − 1 that gather, each with the n-th part; and the same cut into phases, so that the parts of a
//! step are no longer than a segment.
//!
//! Source: P. Patarasuk, X. Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations", JPDC 69(2), 2009; Open MPI,
//! coll_base_allreduce.c (ring, ring_segmented: every phase reduces its part of all blocks, one allgather of whole blocks follows).
//! Modelled: blocks of whole elements, also empty ones. Not modelled: Open MPI's overlap of a step's receive with the reduction of the
//! step before.

use fabriscope_units::Bytes;

use crate::blocks::Vector;
use crate::piece::{Buffer, Piece};
use crate::reduction::begin;
use crate::ring;
use crate::round::{Numbered, Round};

/// Without a segment the blocks are not cut.
pub(super) fn rounds(rank: u32, ranks: u32, vector: Vector, segment: Option<Bytes>) -> impl Iterator<Item = Round> {
    let steps = ranks - 1;
    let block = move |index: u32| vector.blocks(ranks).piece(Buffer::Recv, index);
    let phases = segment.map_or(1, |segment| phases(ranks, vector, segment));
    let (each, reducing) = (u64::from(steps), u64::from(phases) * u64::from(steps));
    let make = move |number: u64| {
        let Some(step) = number.checked_sub(1) else { return begin(vector.whole(Buffer::Send), vector.whole(Buffer::Recv)) };
        if step >= reducing {
            return ring::gather((step - reducing) as u32, rank, ranks, (rank + 1) % ranks, block);
        }
        let part = |index: u32| part(block(index), vector.width, phases, (step / each) as u32);
        ring::reduce((step % each) as u32, rank, ranks, rank, part)
    };
    Numbered::new(1 + reducing + each, make)
}

/// Phases that cut the longest block into segments.
pub(super) fn phases(ranks: u32, vector: Vector, segment: Bytes) -> u32 {
    let longest = Vector { count: vector.count.div_ceil(u64::from(ranks)), ..vector };
    longest.segments(segment).min(u64::from(u32::MAX)) as u32
}

/// What of a block goes in a phase.
fn part(block: Piece, width: Bytes, phases: u32, phase: u32) -> Piece {
    let elements = Vector { count: block.bytes.0 / width.0.max(1), width };
    let part = elements.blocks(phases).piece(block.buffer, phase);
    block.buffer.piece(block.offset + part.offset, part.bytes)
}
