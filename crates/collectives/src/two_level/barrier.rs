//! A barrier of leaders, between the node's way up a tree to its leader and the way down.

use std::fmt;

use super::{Seat, name};
use crate::barrier::{self, tree};
use crate::group::{Nodes, on};
use crate::round::Rounds;

/// Up a k-nomial tree to the leader, a barrier of leaders, and down again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barrier {
    /// Of the tree in a node, 2 or more; so many as the node has ranks put all below the leader.
    pub radix: u32,
    /// Among leaders.
    pub outer: barrier::Algorithm,
}

impl Barrier {
    /// Reads `two_level(radix, outer)`.
    #[must_use]
    pub fn named(text: &str) -> Option<Barrier> {
        let mut name = name(text)?;
        let radix = name.number(2, 2)?;
        let outer = name.inner(barrier::Algorithm::named, barrier::Algorithm::Dissemination { radix: 2 })?;
        name.end(Barrier { radix, outer })
    }
    /// The rounds of `rank`.
    #[must_use]
    pub fn rounds(self, rank: u32, nodes: &Nodes) -> Rounds {
        let seat = Seat::new(nodes, rank, None);
        let members = nodes.members(seat.node);
        let up = on(members.clone(), tree::up(seat.index, seat.ranks, self.radix));
        let across = seat.leads().then(|| on(nodes.leaders(), self.outer.rounds(seat.node, nodes.nodes())));
        let down = on(members, tree::down(seat.index, seat.ranks, self.radix));
        Box::new(up.chain(across.into_iter().flatten()).chain(down))
    }
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two_level({}, {})", self.radix, self.outer)
    }
}
