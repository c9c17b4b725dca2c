//! Blocks are gathered at the leaders, exchanged among them, and the result is spread in each node.
//!
//! Source: MVAPICH2, allgather_osu.c (two-level); Open MPI, coll_han_allgather.c (gather, allgather of leaders, reordering, broadcast).

use std::fmt;

use fabriscope_units::Bytes;

use super::{NodePosition, at, name, pairs};
use crate::blocks::{Blocks, Vector};
use crate::group::{Nodes, buffers, on};
use crate::piece::Buffer;
use crate::round::{Round, Rounds};
use crate::{allgather, bcast, gather};

/// A gather of each node, an allgather of leaders, a broadcast of each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allgather {
    /// To the leader.
    pub gather: gather::Algorithm,
    /// Among leaders.
    pub outer: allgather::Algorithm,
    /// From the leader.
    pub bcast: bcast::Algorithm,
}

impl Allgather {
    /// What [`Allgather::named`] reads.
    pub const NAMES: &str = "two_level(gather, outer, bcast)";

    /// Reads `two_level(gather, outer, bcast)`.
    #[must_use]
    pub fn named(text: &str) -> Option<Allgather> {
        let mut name = name(text)?;
        let gather = name.inner(gather::Algorithm::named, gather::Algorithm::Linear { at_a_time: 0 })?;
        let outer = name.inner(allgather::Algorithm::named, allgather::Algorithm::Ring)?;
        let bcast = name.inner(bcast::Algorithm::named, bcast::Algorithm::KNomial { radix: 4 })?;
        name.end(Allgather { gather, outer, bcast })
    }
    /// The rounds of `rank`, where ranks have these blocks.
    #[must_use]
    pub fn rounds(self, rank: u32, nodes: &Nodes, blocks: Blocks) -> Rounds {
        let seat = NodePosition::new(nodes, rank, None);
        let (members, joined) = (nodes.members(seat.node), nodes.joined(&blocks));
        // The result in the order of nodes, and how many scratch buffers that takes.
        let (result, taken) = if nodes.in_order() { (Buffer::Recv, 0) } else { (Buffer::Scratch(0), 1) };
        let (send, whole, own) = (at(Buffer::Send, Bytes::ZERO), at(result, Bytes::ZERO), joined.piece(result, seat.node));
        let all = Vector { count: blocks.total().0, width: Bytes(1) };

        let gather = self.gather.rounds(seat.index, seat.ranks, 0, blocks.of(members.iter()));
        let gather = on(members.clone(), buffers(send, own, taken, gather));
        let across = seat.leads().then(|| {
            let rounds = self.outer.in_place(seat.node, joined);
            on(nodes.leaders(), buffers(send, whole, taken, rounds))
        });
        let spread = on(members, buffers(send, whole, taken, self.bcast.rounds(seat.index, seat.ranks, 0, all)));
        let nodes = (!nodes.in_order()).then(|| nodes.clone());
        let sort = nodes
            .into_iter()
            .map(move |nodes| Round::local(pairs(&nodes, &blocks, Buffer::Recv, result).map(|(own, sorted)| sorted.copied(own)).collect()));
        Box::new(gather.chain(across.into_iter().flatten()).chain(spread).chain(sort))
    }
}

impl fmt::Display for Allgather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two_level({}, {}, {})", self.gather, self.outer, self.bcast)
    }
}
