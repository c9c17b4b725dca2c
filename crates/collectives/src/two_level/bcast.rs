//! A broadcast among leaders, then inside the nodes; in segments, the next segment travels among leaders while one travels in the nodes.
//!
//! Source: Open MPI, coll_han_bcast.c (segments, of which a non-blocking broadcast among leaders overlaps that of the segment before in
//! the node).
//! Modelled: a leader goes on with both when a step of both is over. Not modelled: HAN's leaders of the root's node are those with the same
//! place in their nodes as the root, here the first ones.

use std::fmt;

use fabriscope_units::Bytes;

use super::{NodePosition, at, beside, name};
use crate::bcast::Algorithm;
use crate::blocks::Vector;
use crate::group::{Nodes, buffers, on};
use crate::piece::Buffer;
use crate::round::Rounds;

/// A broadcast of leaders, then of each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bcast {
    /// In a node.
    pub inner: Algorithm,
    /// Among leaders.
    pub outer: Algorithm,
    /// What goes at a time; all of it where this is zero.
    pub segment: Bytes,
}

impl Bcast {
    /// What [`Bcast::named`] reads.
    pub const NAMES: &str = "two_level(inner, outer, segment)";

    /// Reads `two_level(inner, outer, segment)`.
    #[must_use]
    pub fn named(text: &str) -> Option<Bcast> {
        let mut name = name(text)?;
        let inner = name.inner(Algorithm::named, Algorithm::KNomial { radix: 4 })?;
        let outer = name.inner(Algorithm::named, Algorithm::KNomial { radix: 2 })?;
        let segment = name.size(Bytes::ZERO)?;
        name.end(Bcast { inner, outer, segment })
    }
    /// The rounds of `rank`; `root` has the data.
    #[must_use]
    pub fn rounds(self, rank: u32, nodes: &Nodes, root: u32, vector: Vector) -> Rounds {
        let seat = NodePosition::new(nodes, rank, Some(root));
        let (leaders, members, of_root) = (nodes.leaders_with(root), nodes.members(seat.node), nodes.seat(root).0);
        let segments = vector.segments(self.segment);
        // A segment is a vector of its own.
        let segment = move |index: u64| {
            let piece = vector.segment(self.segment, Buffer::Recv, index);
            (Vector { count: piece.bytes.0 / vector.width.0.max(1), ..vector }, piece)
        };
        let outer = move |index: u64| -> Rounds {
            let (part, piece) = segment(index);
            let rounds = self.outer.rounds(seat.node, leaders.ranks(), of_root, part);
            Box::new(on(leaders.clone(), buffers(at(Buffer::Send, Bytes::ZERO), piece, 0, rounds)))
        };
        let inner = move |index: u64| -> Rounds {
            let (part, piece) = segment(index);
            let rounds = self.inner.rounds(seat.index, seat.ranks, seat.leader, part);
            Box::new(on(members.clone(), buffers(at(Buffer::Send, Bytes::ZERO), piece, 0, rounds)))
        };
        Box::new((0..=segments).flat_map(move |index| {
            let across = (seat.leads() && index < segments).then(|| outer(index));
            let inside = index.checked_sub(1).map(&inner);
            beside(across.into_iter().flatten(), inside.into_iter().flatten())
        }))
    }
}

impl fmt::Display for Bcast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two_level({}, {}, {})", self.inner, self.outer, self.segment)
    }
}
