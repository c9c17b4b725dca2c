//! Linear: the root sends to everybody.
//!
//! Source: Open MPI, coll_base_scatter.c (basic_linear: a send at a time; linear_nb: so many at a time), coll_basic_scatterv.c.

use fabriscope_units::Bytes;

use crate::blocks::Blocks;
use crate::piece::Buffer;
use crate::round::{Round, Rounds, batches};

/// `rank` is numbered from `root`.
pub(super) fn rounds(rank: u32, root: u32, blocks: Blocks, at_a_time: u32) -> Rounds {
    let ranks = blocks.ranks();
    let block = move |peer: u32| blocks.piece(Buffer::Send, (peer + root) % ranks);
    let own = Buffer::Recv.piece(Bytes::ZERO, block(rank).bytes);
    if rank > 0 {
        return Box::new(std::iter::once(Round::exchange(Some(own.with(0)), None)));
    }
    let first = Round::local(vec![block(0).copied(own)]);
    let rest =
        batches(ranks, at_a_time).map(move |peers| Round { sends: peers.map(|peer| block(peer).with(peer)).collect(), ..Round::default() });
    Box::new(std::iter::once(first).chain(rest))
}
