//! Linear: everybody sends to the root.
//!
//! Source: Open MPI, coll_base_gather.c (basic_linear: a receive at a time), coll_basic_gatherv.c (all posted at once).

use crate::blocks::Blocks;
use crate::piece::{Buffer, Piece};
use crate::round::{Round, Rounds, batches};

/// `rank` is numbered from `root`; its block lies at `own`.
pub(super) fn rounds(rank: u32, root: u32, blocks: Blocks, at_a_time: u32, own: Piece) -> Rounds {
    let ranks = blocks.ranks();
    if rank > 0 {
        return Box::new(std::iter::once(Round::exchange(None, Some(own.with(0)))));
    }
    let block = move |peer: u32| blocks.piece(Buffer::Recv, (peer + root) % ranks);
    let first = Round::local(vec![own.copied(block(0))]);
    let rest = batches(ranks, at_a_time)
        .map(move |peers| Round { receives: peers.map(|peer| block(peer).with(peer)).collect(), ..Round::default() });
    Box::new(std::iter::once(first).chain(rest))
}
