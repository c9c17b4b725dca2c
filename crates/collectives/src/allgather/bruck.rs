//! Bruck: in round k every rank sends all it has to the rank 2^k before it, of which the last round takes only what is missing.
//!
//! Source: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby, IEEE TPDS 8(11), 1997; MPICH, allgather_intra_brucks.c (memory of its
//! own, in which the rank's block is the first, and two copies at the end); Open MPI, coll_base_allgather.c.

use crate::blocks::{Blocks, Turned};
use crate::piece::{Buffer, Piece};
use crate::round::Round;

const TURNED: Buffer = Buffer::Scratch(0);

/// `own` is where the rank's block lies.
pub(super) fn rounds(rank: u32, blocks: Blocks, own: Piece) -> impl Iterator<Item = Round> {
    let ranks = blocks.ranks();
    let turned = Turned { blocks, first: rank };
    let pieces = turned.clone();
    let steps = (0..ranks.next_power_of_two().trailing_zeros()).map(move |step| {
        let distance = 1 << step;
        let count = distance.min(ranks - distance);
        let receive = pieces.pieces(TURNED, 0, distance, distance + count).with((rank + distance) % ranks);
        let send = pieces.pieces(TURNED, 0, 0, count).with((rank + ranks - distance) % ranks);
        Round::exchange(Some(receive), Some(send))
    });
    let first = Round::local(vec![own.copied(turned.pieces(TURNED, 0, 0, 1))]);
    let last = Round::local(turned.turn_back(TURNED, Buffer::Recv).to_vec());
    std::iter::once(first).chain(steps).chain(std::iter::once(last))
}
