//! A reduction in each node, an allreduce among leaders, a broadcast in each node.
//!
//! Source: MVAPICH2, allreduce_osu.c (two-level); MPICH, allreduce_intra_smp.c; Open MPI, coll_han_allreduce.c (simple).
//! Not modelled: HAN's segments, whose levels overlap.

use std::fmt;

use super::{Seat, name};
use crate::blocks::Vector;
use crate::group::{Nodes, on};
use crate::round::Rounds;
use crate::{allreduce, bcast, reduce};

/// To the leaders, among them, to all. Keeps the order of operands where the algorithms do, and nodes have ranks side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allreduce {
    /// To the leader.
    pub reduce: reduce::Algorithm,
    /// Among leaders.
    pub outer: allreduce::Algorithm,
    /// From the leader.
    pub bcast: bcast::Algorithm,
}

impl Allreduce {
    /// Reads `two_level(reduce, outer, bcast)`.
    #[must_use]
    pub fn named(text: &str) -> Option<Allreduce> {
        let mut name = name(text)?;
        let reduce = name.inner(reduce::Algorithm::named, reduce::Algorithm::KNomial { radix: 4 })?;
        let outer = name.inner(allreduce::Algorithm::named, allreduce::Algorithm::RecursiveDoubling)?;
        let bcast = name.inner(bcast::Algorithm::named, bcast::Algorithm::KNomial { radix: 4 })?;
        name.end(Allreduce { reduce, outer, bcast })
    }
    /// The rounds of `rank`.
    #[must_use]
    pub fn rounds(self, rank: u32, nodes: &Nodes, vector: Vector) -> Rounds {
        let seat = Seat::new(nodes, rank, None);
        let members = nodes.members(seat.node);
        let up = on(members.clone(), self.reduce.rounds(seat.index, seat.ranks, 0, vector));
        let across = seat.leads().then(|| on(nodes.leaders(), self.outer.in_place(seat.node, nodes.nodes(), vector)));
        let down = on(members, self.bcast.rounds(seat.index, seat.ranks, 0, vector));
        Box::new(up.chain(across.into_iter().flatten()).chain(down))
    }
}

impl fmt::Display for Allreduce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two_level({}, {}, {})", self.reduce, self.outer, self.bcast)
    }
}
