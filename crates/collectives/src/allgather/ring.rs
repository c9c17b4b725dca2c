//! Ring: every rank passes on to the right what came from the left.
//!
//! Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 19(1), 2005;
//! MPICH, allgather_intra_ring.c; Open MPI, coll_base_allgather.c.
//! Not modelled: MPICH's cutting of long blocks of an allgatherv.

use crate::blocks::Blocks;
use crate::piece::Buffer;
use crate::ring::gather;
use crate::round::{Numbered, Round};

pub(super) fn rounds(rank: u32, blocks: Blocks) -> impl Iterator<Item = Round> {
    let ranks = blocks.ranks();
    let steps = u64::from(ranks.saturating_sub(1));
    Numbered::new(steps, move |step| gather(step as u32, rank, ranks, rank, |index| blocks.piece(Buffer::Recv, index)))
}
