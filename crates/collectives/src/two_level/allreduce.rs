//! A reduction in each node, an allreduce among leaders, a broadcast in each node; in segments, one travels among leaders while the next is
//! reduced and the one before is spread in the nodes.
//!
//! Source: MVAPICH2, allreduce_osu.c (two-level); MPICH, allreduce_intra_smp.c; Open MPI, coll_han_allreduce.c (segments, whose
//! operations among leaders do not block those in the nodes).
//! Modelled: a leader goes on with both when a step of both is over. Not modelled: HAN's two stages among leaders, a reduction and a broadcast,
//! which overlap as well.

use std::fmt;

use fabriscope_units::Bytes;

use super::{NodePosition, at, beside, name};
use crate::blocks::Vector;
use crate::group::{Nodes, buffers, on};
use crate::piece::Buffer;
use crate::round::Rounds;
use crate::{allreduce, bcast, reduce};

/// Scratch buffers of the algorithms in a node, which may run at the same time as that among leaders.
const INSIDE: u8 = 4;

/// To the leaders, among them, to all. Keeps the order of operands where the algorithms do, and nodes have ranks side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allreduce {
    /// To the leader.
    pub reduce: reduce::Algorithm,
    /// Among leaders.
    pub outer: allreduce::Algorithm,
    /// From the leader.
    pub bcast: bcast::Algorithm,
    /// What goes at a time; all of it where this is zero.
    pub segment: Bytes,
}

impl Allreduce {
    /// Reads `two_level(reduce, outer, bcast, segment)`.
    #[must_use]
    pub fn named(text: &str) -> Option<Allreduce> {
        let mut name = name(text)?;
        let reduce = name.inner(reduce::Algorithm::named, reduce::Algorithm::KNomial { radix: 4 })?;
        let outer = name.inner(allreduce::Algorithm::named, allreduce::Algorithm::RecursiveDoubling)?;
        let bcast = name.inner(bcast::Algorithm::named, bcast::Algorithm::KNomial { radix: 4 })?;
        let segment = name.size(Bytes::ZERO)?;
        name.end(Allreduce { reduce, outer, bcast, segment })
    }
    /// The rounds of `rank`.
    #[must_use]
    pub fn rounds(self, rank: u32, nodes: &Nodes, vector: Vector) -> Rounds {
        let seat = NodePosition::new(nodes, rank, None);
        let members = nodes.members(seat.node);
        let leaders = nodes.leaders();
        let segments = vector.segments(self.segment);
        // A segment is a vector of its own.
        let segment = move |index: u64| {
            let piece = vector.segment(self.segment, Buffer::Recv, index);
            (Vector { count: piece.bytes.0 / vector.width.0.max(1), ..vector }, piece, at(Buffer::Send, piece.offset))
        };
        let inner = move |index: u64, up: bool| -> Rounds {
            let (part, piece, own) = segment(index);
            let rounds =
                if up { self.reduce.rounds(seat.index, seat.ranks, 0, part) } else { self.bcast.rounds(seat.index, seat.ranks, 0, part) };
            Box::new(on(members.clone(), buffers(own, piece, 0, rounds)))
        };
        let outer = move |index: u64| -> Rounds {
            let (part, piece, _) = segment(index);
            let rounds = self.outer.in_place(seat.node, leaders.ranks(), part);
            Box::new(on(leaders.clone(), buffers(piece, piece, INSIDE, rounds)))
        };
        let at_step = move |step: u64, lag: u64| step.checked_sub(lag).filter(|index| *index < segments);
        Box::new((0..segments + 2).flat_map(move |step| {
            let up = at_step(step, 0).map(|index| inner(index, true));
            let across = at_step(step, 1).filter(|_| seat.leads()).map(&outer);
            let down = at_step(step, 2).map(|index| inner(index, false));
            beside(across.into_iter().flatten(), up.into_iter().chain(down).flatten())
        }))
    }
}

impl fmt::Display for Allreduce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two_level({}, {}, {}, {})", self.reduce, self.outer, self.bcast, self.segment)
    }
}
