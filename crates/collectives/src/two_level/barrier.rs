//! A barrier of leaders, between the way of each node to its leader and the way back.
//!
//! Source: MVAPICH2, barrier_osu.c (all tell the leader before, and hear from it afterwards); Open MPI, coll_han_barrier.c (a whole barrier
//! of the node before and one afterwards).

use std::fmt;

use super::{NodePosition, name};
use crate::barrier::{Algorithm, tree};
use crate::group::{Nodes, on};
use crate::round::{Round, Rounds};

/// A barrier in each node, among leaders, and in each node again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barrier {
    /// In a node: of a tree the way up before and the way down afterwards; others are gone through twice.
    pub inner: Algorithm,
    /// Among leaders.
    pub outer: Algorithm,
}

impl Barrier {
    /// What [`Barrier::named`] reads.
    pub const NAMES: &str = "two_level(inner, outer)";

    /// Reads `two_level(inner, outer)`.
    #[must_use]
    pub fn named(text: &str) -> Option<Barrier> {
        let mut name = name(text)?;
        let inner = name.inner(Algorithm::named, Algorithm::Linear)?;
        let outer = name.inner(Algorithm::named, Algorithm::Dissemination { radix: 2 })?;
        name.end(Barrier { inner, outer })
    }
    /// The rounds of `rank`.
    #[must_use]
    pub fn rounds(self, rank: u32, nodes: &Nodes) -> Rounds {
        let NodePosition { node, index, ranks, .. } = NodePosition::new(nodes, rank, None);
        let tree =
            |radix: u32| -> (Rounds, Rounds) { (Box::new(tree::up(index, ranks, radix)), Box::new(tree::down(index, ranks, radix))) };
        let (before, after) = match self.inner {
            Algorithm::Tree { radix } => tree(radix),
            Algorithm::Linear => tree(ranks),
            Algorithm::Slots { radix } => {
                let (up, down) = tree(radix);
                (Box::new(up.map(Round::in_slots)) as Rounds, Box::new(down.map(Round::in_slots)) as Rounds)
            }
            whole => (whole.rounds(index, ranks), whole.rounds(index, ranks)),
        };
        let across = (index == 0).then(|| on(nodes.leaders(), self.outer.rounds(node, nodes.nodes())));
        let members = nodes.members(node);
        Box::new(on(members.clone(), before).chain(across.into_iter().flatten()).chain(on(members, after)))
    }
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two_level({}, {})", self.inner, self.outer)
    }
}
