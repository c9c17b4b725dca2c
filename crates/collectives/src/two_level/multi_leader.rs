//! An allreduce with several leaders a node: each reduces a part of the data for its node, takes part in an allreduce of that part among the
//! leaders of the same place, and spreads it.
//!
//! Source: M. Bayatpour, S. Chakraborty, H. Subramoni, X. Lu, D. K. Panda, "Scalable Reduction Collectives with Data Partitioning-based
//! Multi-Leader Design", SC 2017 (DPML), as in MVAPICH2.
//! Modelled: a node with fewer ranks than leaders, where a rank leads several parts, one after the other; parts of whole elements.
//! Not modelled: its pipeline of sub-parts; copies into shared memory and out of it are messages between the ranks of a node.

use std::fmt;

use super::{NodePosition, at};
use crate::allreduce::Algorithm;
use crate::blocks::{Blocks, Vector};
use crate::group::{Nodes, buffers, on};
use crate::names::Name;
use crate::piece::Buffer;
use crate::reduction::take_in;
use crate::round::{Round, Rounds};

/// Parts to their leaders, among these, to all. Keeps the order of operands where the outer algorithm does, and nodes have ranks side by
/// side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultiLeader {
    /// Leaders of a node, at least one.
    pub leaders: u8,
    /// Among leaders of the same place.
    pub outer: Algorithm,
}

impl MultiLeader {
    /// Reads `multi_leader(leaders, outer)`.
    #[must_use]
    pub fn named(text: &str) -> Option<MultiLeader> {
        let mut name = Name::read(text).filter(|name| name.word == "multi_leader")?;
        let leaders = u8::try_from(name.number(1, 4)?).ok()?;
        let outer = name.inner(Algorithm::named, Algorithm::RecursiveDoubling)?;
        name.end(MultiLeader { leaders, outer })
    }
    /// The rounds of `rank`.
    #[must_use]
    pub fn rounds(self, rank: u32, nodes: &Nodes, vector: Vector) -> Rounds {
        let seat = NodePosition::new(nodes, rank, None);
        let members = nodes.members(seat.node);
        let parts = vector.blocks(u32::from(self.leaders.max(1)));
        let up = on(members.clone(), std::iter::once(up(seat, &parts)));
        let down = on(members, std::iter::once(down(seat, &parts)));
        let nodes = nodes.clone();
        let own = (0..parts.ranks()).filter(move |part| seat.leader_of(*part) == seat.index);
        let across = own.flat_map(move |part| {
            let piece = parts.piece(Buffer::Recv, part);
            let elements = Vector { count: piece.bytes.0 / vector.width.0.max(1), ..vector };
            let place = at(Buffer::Recv, piece.offset);
            let rounds = buffers(place, place, 0, self.outer.in_place(seat.node, nodes.nodes(), elements));
            let nodes = nodes.clone();
            let leader = move |node: u32| {
                let members = nodes.members(node);
                members.rank(part % members.ranks())
            };
            rounds.map(move |round| round.renamed(&leader, |piece| piece))
        });
        Box::new(up.chain(across).chain(down))
    }
}

impl NodePosition {
    /// The member of this node that leads `part`.
    fn leader_of(self, part: u32) -> u32 {
        part % self.ranks
    }
    fn others(self) -> Vec<u32> {
        (0..self.ranks).filter(|other| *other != self.index).collect()
    }
}

/// Every part goes to its leader, which takes in all of them.
fn up(seat: NodePosition, parts: &Blocks) -> Round {
    (0..parts.ranks()).fold(Round::default(), |mut round, part| {
        let leader = seat.leader_of(part);
        if leader != seat.index {
            return round.sending(parts.piece(Buffer::Send, part), &[leader]);
        }
        let acc = parts.piece(Buffer::Recv, part);
        round.before.push(acc.of(Buffer::Send).copied(acc));
        round.beside(take_in(seat.index, &seat.others(), acc, part as u8))
    })
}

/// Every part comes from its leader.
fn down(seat: NodePosition, parts: &Blocks) -> Round {
    (0..parts.ranks()).fold(Round::default(), |mut round, part| {
        let (leader, piece) = (seat.leader_of(part), parts.piece(Buffer::Recv, part));
        if leader == seat.index {
            return round.sending(piece, &seat.others());
        }
        round.receives.push(piece.with(leader));
        round
    })
}

impl fmt::Display for MultiLeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "multi_leader({}, {})", self.leaders, self.outer)
    }
}
