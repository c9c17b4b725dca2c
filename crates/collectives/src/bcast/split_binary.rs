//! Split binary tree: the first half of the data goes down one subtree of the root, the second down the other, in segments; then each
//! rank exchanges its half for the other with a rank of the other subtree.
//!
//! Source: J. Pješivac-Grbović, T. Angskun, G. Bosilca, G. Fagg, E. Gabriel, J. Dongarra, "Performance Analysis of MPI Collective
//! Operations", Cluster Computing 10(2), 2007; Open MPI, coll_base_bcast.c (split_bintree; where the number of ranks is even, the last rank
//! gets the second half from the root).
//! Not modelled: Open MPI's sends to the two children follow each other; data shorter than two segments, which it sends down a chain.

use fabriscope_units::Bytes;

use super::segmented;
use crate::blocks::Vector;
use crate::piece::{Buffer, Piece};
use crate::round::{Round, Rounds};
use crate::tree::{Shape, TreePosition};

pub(super) fn rounds(rank: u32, ranks: u32, vector: Vector, segment: Bytes) -> Rounds {
    let halves = vector.blocks(2);
    let half = move |index: u32| halves.piece(Buffer::Recv, index);
    let count = move |index: u32| (vector.count + 1 - u64::from(index)) / 2;
    let segments = move |index: u32| Vector { count: count(index), ..vector }.segments(segment);
    let piece = move |index: u32, at: u64| {
        let begin = vector.width * (count(0) * u64::from(index));
        let piece = Vector { count: count(index), ..vector }.segment(segment, Buffer::Recv, at);
        Piece { offset: begin + piece.offset, ..piece }
    };
    if ranks == 1 {
        return Box::new(std::iter::empty());
    }
    // Where the number is even the last rank, of the first half, has nobody to exchange with.
    let lone = ranks.is_multiple_of(2).then(|| ranks - 1);
    if rank == 0 {
        let down = (0..segments(0)).map(move |at| {
            let sends =
                (0..2).filter(|index| index + 1 < ranks && at < segments(*index)).map(|index| piece(index, at).with(index + 1)).collect();
            Round { sends, ..Round::default() }
        });
        return Box::new(down.chain(lone.map(|last| Round::exchange(None, Some(half(1).with(last))))));
    }
    let own = u32::from(rank.is_multiple_of(2));
    let place: TreePosition = Shape::Binary.place(rank, ranks);
    let down = segmented::rounds(place, segments(own), move |at| piece(own, at));
    let other = half(1 - own);
    let exchange = if lone == Some(rank) {
        Round::exchange(Some(other.with(0)), None)
    } else {
        let partner = if own == 0 { rank + 1 } else { rank - 1 };
        Round::exchange(Some(other.with(partner)), Some(half(own).with(partner)))
    };
    Box::new(down.chain(std::iter::once(exchange)))
}
