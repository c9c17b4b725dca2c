//! Double binary tree: each half of the data goes up one of two trees and down again in segments; a rank has children in one of them at most.
//!
//! Source: P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing
//! 35(12), 2009: the first tree is numbered in order, its odd positions have children; the second is its mirror image for an even
//! number of ranks, and shifted by one for an odd one (as in NCCL, trees.cc).
//! Modelled: both ways in one pipeline of equal steps, elements never split, the order of operands (kept where the number of ranks is even).
//! Not modelled: the two colours of steps by which a rank that sends one message at a time serves its children in turn: here a rank
//! posts all messages of a step.

use fabriscope_units::Bytes;

use crate::blocks::Vector;
use crate::piece::{Buffer, Piece};
use crate::reduction::{begin, take_in};
use crate::round::Round;

/// Where a rank stands in one of the trees, and that tree's half of the data.
#[derive(Debug, Clone)]
struct TreeRole {
    /// The tree's scratch buffer.
    tree: u8,
    parent: Option<u32>,
    children: Vec<u32>,
    /// Edges from the root.
    depth: u64,
    /// Bytes before the half.
    offset: Bytes,
    half: Vector,
}

pub(super) fn rounds(rank: u32, ranks: u32, vector: Vector, segment: Bytes) -> impl Iterator<Item = Round> {
    let stands = [0, 1].map(|tree| TreeRole::new(tree, rank, ranks, vector));
    let segments = stands.iter().map(|stand| stand.half.segments(segment)).max().unwrap_or(0);
    let deepest = u64::from(deepest(ranks));
    // The last segment arrives at the root after `deepest` steps, and at the deepest leaves after as many more.
    let steps = if ranks == 1 { 0 } else { segments + 2 * deepest - 1 };
    let step = move |step: u64| stands.iter().map(|stand| stand.round(rank, step, deepest, segment)).fold(Round::default(), Round::beside);
    let busy = |round: &Round| round.peers().next().is_some();
    std::iter::once(begin(vector.whole(Buffer::Send), vector.whole(Buffer::Recv))).chain((0..steps).map(step).filter(busy))
}

impl TreeRole {
    fn new(tree: u8, rank: u32, ranks: u32, vector: Vector) -> TreeRole {
        // An involution, or a shift and its way back.
        let position = |rank: u32| match (tree, ranks % 2) {
            (0, _) => rank,
            (_, 0) => ranks - 1 - rank,
            _ => (rank + ranks - 1) % ranks,
        };
        let rank_at = |position: u32| match (tree, ranks % 2) {
            (0, _) => position,
            (_, 0) => ranks - 1 - position,
            _ => (position + 1) % ranks,
        };
        let place = position(rank);
        let mut children: Vec<u32> = children(place, ranks).into_iter().flatten().map(rank_at).collect();
        children.sort_unstable();
        let halves = vector.blocks(2);
        let half = Vector { count: halves.length(tree.into()).0 / vector.width.0.max(1), ..vector };
        let depth = std::iter::successors(Some(place), |place| parent(*place, ranks)).count() as u64 - 1;
        TreeRole { tree, parent: parent(place, ranks).map(rank_at), children, depth, offset: halves.offset(tree.into()), half }
    }
    /// Segment s goes from depth d to d − 1 in step s + deepest − d, and back in step s + deepest + d − 1.
    fn round(&self, rank: u32, step: u64, deepest: u64, segment: Bytes) -> Round {
        let segments = self.half.segments(segment);
        let at = |behind: u64| step.checked_sub(behind).filter(|index| *index < segments).map(|index| self.piece(segment, index));
        let mut round = Round::default();
        if !self.children.is_empty() {
            round = at(deepest - self.depth - 1).map_or(round, |piece| take_in(rank, &self.children, piece, self.tree));
            round = if let Some(piece) = at(deepest + self.depth) { round.sending(piece, &self.children) } else { round };
        }
        if let Some(parent) = self.parent {
            round.sends.extend(at(deepest - self.depth).map(|piece| piece.with(parent)));
            round.receives.extend(at(deepest + self.depth - 1).map(|piece| piece.with(parent)));
        }
        round
    }
    fn piece(&self, segment: Bytes, index: u64) -> Piece {
        let piece = self.half.segment(segment, Buffer::Recv, index);
        piece.buffer.piece(self.offset + piece.offset, piece.bytes)
    }
}

/// Edges from the root to the deepest leaf.
pub(super) fn deepest(ranks: u32) -> u32 {
    ranks.ilog2()
}

/// The parent of a position: counted from 1, the number with the next higher lowest bit between it and which it lies.
fn parent(position: u32, ranks: u32) -> Option<u32> {
    let up = |at: &u64| {
        let low = at & at.wrapping_neg();
        Some((at ^ low) | low << 1)
    };
    let root = 1u64 << ranks.ilog2();
    let at = u64::from(position) + 1;
    (at != root).then(|| std::iter::successors(up(&at), up).find(|at| *at <= u64::from(ranks)).map(|at| at as u32 - 1)).flatten()
}

/// The children of a position: half of its lowest bit below and above, nearer above where that is beyond the end.
fn children(position: u32, ranks: u32) -> [Option<u32>; 2] {
    let at = u64::from(position) + 1;
    let half = (at & at.wrapping_neg()) >> 1;
    let above = std::iter::successors(Some(half), |half| Some(half >> 1)).take_while(|half| *half > 0);
    let above = above.map(|half| at + half).find(|at| *at <= u64::from(ranks));
    [(half > 0).then(|| at - half), above].map(|child| child.map(|at| at as u32 - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_trees_and_nobody_has_children_in_both() {
        for ranks in 1..200 {
            let most = (0..ranks)
                .flat_map(|rank| [0, 1].map(|tree| TreeRole::new(tree, rank, ranks, Vector { count: 2, width: Bytes(1) }).depth))
                .max();
            assert_eq!(most, Some(u64::from(deepest(ranks))), "{ranks} ranks");
            for rank in 0..ranks {
                let [first, second] = [0, 1].map(|tree| TreeRole::new(tree, rank, ranks, Vector { count: 2, width: Bytes(1) }));
                assert!(first.children.is_empty() || second.children.is_empty(), "rank {rank} of {ranks}");
            }
            for position in 0..ranks {
                assert!(children(position, ranks).into_iter().flatten().all(|child| parent(child, ranks) == Some(position)));
                let siblings = parent(position, ranks).map(|up| children(up, ranks).contains(&Some(position)));
                assert_ne!(siblings, Some(false), "position {position} of {ranks}");
            }
        }
    }
}
