//! Alltoall(v) in which every rank has one partner in each other node: it collects what the ranks of its node have for the partner and
//! sends it in one message, node after node.
//!
//! Source: Open MPI, coll_han_alltoall.c (using_smsc; nodes have equally many ranks that stand side by side, otherwise another component
//! does it), coll_han_alltoallv.c.
//! Modelled: one node at a time, also for what the node keeps. Not modelled: HAN copies straight from the memory of the node's other ranks,
//! where these send messages; several nodes at a time (han_alltoall_pstages), pieces of the length of HAN's buffers with blocks of any
//! lengths.

use fabriscope_units::Bytes;

use crate::alltoall;
use crate::blocks::Blocks;
use crate::group::Nodes;
use crate::piece::{Buffer, Piece};
use crate::round::{Round, Rounds};

/// What a partner gets, rank by rank of this node.
const COLLECTED: Buffer = Buffer::Scratch(0);

/// The rounds of `rank`, which sends and receives blocks of any lengths, as all ranks do. Pairwise where nodes are not alike.
pub(super) fn rounds(
    rank: u32,
    nodes: &Nodes,
    sends: impl Fn(u32) -> Blocks + Send + 'static,
    receives: impl Fn(u32) -> Blocks + Send + 'static,
) -> Rounds {
    let own = (sends(rank), receives(rank));
    let Some(members) = nodes.per_node().filter(|_| nodes.in_order()) else {
        return alltoall::Algorithm::Pairwise { partners: alltoall::Partners::Shift }.rounds_of(rank, own.0, own.1);
    };
    let (count, node, index) = (nodes.nodes(), rank / members, rank % members);
    Box::new((0..count).flat_map(move |step| {
        // Two nodes name each other in the same step; once a node names itself.
        let other = (count + step - node) % count;
        let first = other * members;
        let mut collect = Round::default();
        let mut collected = Bytes::ZERO;
        for member in node * members..(node + 1) * members {
            let to = if other == node {
                own.1.piece(Buffer::Recv, member)
            } else {
                COLLECTED.piece(collected, sends(member).length(first + index))
            };
            collected += to.bytes;
            if member == rank {
                collect.before.push(own.0.piece(Buffer::Send, first + index).copied(to));
            } else {
                collect.receives.push(to.with(member));
                collect.sends.push(own.0.piece(Buffer::Send, first + member % members).with(member));
            }
        }
        let exchange = (other != node).then(|| {
            let all: Piece = COLLECTED.piece(Bytes::ZERO, collected);
            let receive = own.1.pieces(Buffer::Recv, first, first + members);
            Round::exchange(Some(receive.with(first + index)), Some(all.with(first + index)))
        });
        std::iter::once(collect).chain(exchange)
    }))
}
