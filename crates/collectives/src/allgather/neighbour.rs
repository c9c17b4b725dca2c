//! Neighbour exchange: pairs of ranks exchange their blocks, then every rank exchanges the two blocks that came last with its two
//! neighbours in turn.
//!
//! Source: J. Chen, L. Zhang, Y. Zhang, W. Yuan, "Performance Evaluation of Allgather Algorithms on Terascale Linux Cluster with Fast
//! Ethernet", HPC Asia 2005; Open MPI, coll_base_allgather.c (a ring where the number of ranks is odd).

use crate::blocks::Blocks;
use crate::piece::Buffer;
use crate::round::{Round, Rounds};

pub(super) fn rounds(rank: u32, blocks: Blocks) -> Rounds {
    if blocks.ranks().is_multiple_of(2) { Box::new(even(rank, blocks)) } else { Box::new(super::ring::rounds(rank, blocks)) }
}

/// For an even number of ranks.
fn even(rank: u32, blocks: Blocks) -> impl Iterator<Item = Round> {
    let ranks = blocks.ranks();
    // Even ranks begin with the neighbour at their right, odd ones with the one at their left.
    let right = move |round: u32| round.is_multiple_of(2) == rank.is_multiple_of(2);
    let own = rank & !1;
    // The pair of blocks that comes in a round; round 0 brings the other half of its own.
    let pair = move |round: u32| {
        let away = 2 * round.div_ceil(2);
        if right(round) { (own + away) % ranks } else { (own + ranks - away) % ranks }
    };
    (0..ranks / 2).map(move |round| {
        let peer = if right(round) { (rank + 1) % ranks } else { (rank + ranks - 1) % ranks };
        let both = |first: u32| blocks.pieces(Buffer::Recv, first, first + 2);
        let (receive, send) = match round {
            0 => (blocks.piece(Buffer::Recv, peer), blocks.piece(Buffer::Recv, rank)),
            1 => (both(pair(1)), both(own)),
            _ => (both(pair(round)), both(pair(round - 1))),
        };
        Round::exchange(Some(receive.with(peer)), Some(send.with(peer)))
    })
}
