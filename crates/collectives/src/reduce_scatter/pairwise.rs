//! Pairwise: in step i every rank sends its contribution to the block of the rank i further, and takes in one to its own.
//!
//! Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19(1), 2005, §4.2; MPICH, reduce_scatter_intra_pairwise.c.
//! Modelled: blocks of any lengths. Not modelled: operators that do not commute.

use fabriscope_units::Bytes;

use crate::blocks::Blocks;
use crate::piece::Buffer;
use crate::reduction::{begin, take_in};
use crate::round::Round;

pub(super) fn rounds(rank: u32, ranks: u32, blocks: Blocks) -> impl Iterator<Item = Round> {
    let result = Buffer::Recv.piece(Bytes::ZERO, blocks.length(rank));
    let first = begin(blocks.piece(Buffer::Send, rank), result);
    std::iter::once(first).chain((1..ranks).map(move |step| {
        let to = (rank + step) % ranks;
        take_in(rank, &[(rank + ranks - step) % ranks], result, 0).sending(blocks.piece(Buffer::Send, to), &[to])
    }))
}
