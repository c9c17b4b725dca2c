//! Up a binary tree in which a rank comes behind all ranks below it, in segments; the last rank is the top, and sends to the root.
//!
//! Source: Open MPI, coll_base_topo.c (`build_in_order_bintree`), coll_base_reduce.c (in_order_binary).
//! Modelled: the order of operands, whoever is the root.

use fabriscope_units::Bytes;

use crate::blocks::Vector;
use crate::piece::Buffer;
use crate::round::Round;
use crate::tree::TreePosition;

use super::segmented;

pub(super) fn rounds(rank: u32, ranks: u32, root: u32, vector: Vector, segment: Bytes) -> impl Iterator<Item = Round> {
    let top = ranks - 1;
    let at = if rank == root && rank == top { Buffer::Recv } else { Buffer::Scratch(1) };
    let last = match (rank == top, rank == root) {
        (true, false) => Some(Round::exchange(None, Some(vector.whole(at).with(root)))),
        (false, true) => Some(Round::exchange(Some(vector.whole(Buffer::Recv).with(top)), None)),
        _ => None,
    };
    segmented::rounds(rank, place(rank, ranks), vector, segment, at).chain(last)
}

/// A subtree is ranks side by side with its top last; below that, the first half of all of them and the rest are the two subtrees.
fn place(rank: u32, ranks: u32) -> TreePosition {
    let (mut first, mut size, mut parent) = (0, ranks, None);
    loop {
        let top = first + size - 1;
        let lower = if size > 2 { size / 2 } else { 0 };
        if rank == top {
            let below = [(lower > 0).then(|| first + lower - 1), (size > 1).then(|| top - 1)];
            return TreePosition { parent, children: below.into_iter().flatten().collect() };
        }
        parent = Some(top);
        (first, size) = if rank < first + lower { (first, lower) } else { (first + lower, size - 1 - lower) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The picture in coll_base_topo.c: 9 ranks.
    #[test]
    fn tree_of_nine() {
        let children: Vec<Vec<u32>> = (0..9).map(|rank| place(rank, 9).children).collect();
        let wanted: [&[u32]; 9] = [&[], &[0], &[], &[1, 2], &[], &[4], &[], &[5, 6], &[3, 7]];
        assert_eq!(children, wanted);
        assert_eq!((place(3, 9).parent, place(8, 9).parent), (Some(8), None));
    }
}
