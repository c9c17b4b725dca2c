//! Gathered at rank 0, and broadcast from there.
//!
//! Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 19(1), 2005, §4.1.
//! Modelled: blocks of any lengths, any algorithms of the two operations. Not modelled: an overlap of the two.

use fabriscope_units::Bytes;

use crate::blocks::{Blocks, Vector};
use crate::piece::Piece;
use crate::round::Round;
use crate::{bcast, gather};

pub(super) fn rounds(
    gather: gather::Algorithm,
    bcast: bcast::Algorithm,
    own: Piece,
    rank: u32,
    blocks: Blocks,
) -> impl Iterator<Item = Round> {
    let (ranks, all) = (blocks.ranks(), Vector { count: blocks.total().0, width: Bytes(1) });
    gather.from(own, rank, 0, blocks).chain(bcast.rounds(rank, ranks, 0, all))
}
