//! How a buffer is divided among ranks.

use std::sync::Arc;

use fabriscope_units::Bytes;

use crate::group::Nodes;
use crate::piece::{Buffer, Move, Piece};

/// Blocks of a buffer, one for each rank, in the order of the ranks and without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocks {
    /// All of one length.
    Even {
        /// How many.
        ranks: u32,
        /// The length of each.
        block: Bytes,
    },
    /// So many elements, divided as evenly as possible; the first blocks have one more.
    Split {
        /// How many blocks.
        ranks: u32,
        /// Elements of the whole buffer.
        count: u64,
        /// Length of an element.
        width: Bytes,
    },
    /// Of any lengths: where each begins, and the end of all. Copies share the list.
    Varying(Arc<[Bytes]>),
    /// For each node, those of its ranks together.
    Joined {
        /// Those of the ranks, node by node.
        of: Arc<Blocks>,
        /// The ranks of the nodes.
        nodes: Nodes,
    },
}

/// Elements of a buffer, none of which is ever split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vector {
    /// How many.
    pub count: u64,
    /// The length of each.
    pub width: Bytes,
}

impl Vector {
    /// All of them.
    #[must_use]
    pub fn bytes(self) -> Bytes {
        self.width * self.count
    }
    /// They in so many blocks, as even as possible.
    #[must_use]
    pub fn blocks(self, ranks: u32) -> Blocks {
        Blocks::Split { ranks, count: self.count, width: self.width }
    }
    /// So many of them as go into `segment`, one at least; all where that is zero.
    #[must_use]
    pub fn in_segment(self, segment: Bytes) -> u64 {
        if segment == Bytes::ZERO { self.count.max(1) } else { (segment.0 / self.width.0.max(1)).max(1) }
    }
    /// The segments that a pipeline cuts them into: all of the same length but the last. One, if there is nothing to cut.
    #[must_use]
    pub fn segments(self, segment: Bytes) -> u64 {
        self.count.div_ceil(self.in_segment(segment)).max(1)
    }
    /// Segment `index` in `buffer`.
    #[must_use]
    pub fn segment(self, segment: Bytes, buffer: Buffer, index: u64) -> Piece {
        let step = self.in_segment(segment);
        let begin = (step * index).min(self.count);
        buffer.piece(self.width * begin, self.width * (self.count - begin).min(step))
    }
    /// All of it in `buffer`.
    #[must_use]
    pub fn whole(self, buffer: Buffer) -> Piece {
        buffer.piece(Bytes::ZERO, self.bytes())
    }
}

impl Blocks {
    /// Blocks of these lengths.
    #[must_use]
    pub fn varying(lengths: &[Bytes]) -> Blocks {
        let mut at = Bytes::ZERO;
        let mut begins = vec![at];
        begins.extend(lengths.iter().map(|length| {
            at += *length;
            at
        }));
        Blocks::Varying(begins.into())
    }
    /// These of them, in this order and one behind the other.
    #[must_use]
    pub fn of(&self, indices: impl IntoIterator<Item = u32>) -> Blocks {
        let indices = indices.into_iter();
        match self {
            Blocks::Even { block, .. } => Blocks::Even { ranks: indices.count() as u32, block: *block },
            _ => Blocks::varying(&indices.map(|index| self.length(index)).collect::<Vec<_>>()),
        }
    }
    /// How many there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        match self {
            Blocks::Joined { nodes, .. } => nodes.nodes(),
            Blocks::Even { ranks, .. } | Blocks::Split { ranks, .. } => *ranks,
            Blocks::Varying(begins) => begins.len() as u32 - 1,
        }
    }
    /// Bytes before block `index`; of all where `index` is their number.
    #[must_use]
    pub fn offset(&self, index: u32) -> Bytes {
        match self {
            Blocks::Even { block, .. } => *block * u64::from(index),
            Blocks::Split { ranks, count, width } => {
                let (ranks, index) = (u64::from(*ranks), u64::from(index));
                *width * (count / ranks * index + (count % ranks).min(index))
            }
            Blocks::Varying(begins) => begins[index as usize],
            Blocks::Joined { of, nodes } => of.offset(nodes.before(index)),
        }
    }
    /// The length of block `index`.
    #[must_use]
    pub fn length(&self, index: u32) -> Bytes {
        self.offset(index + 1) - self.offset(index)
    }
    /// All of them.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.offset(self.ranks())
    }
    /// Block `index` in `buffer`.
    #[must_use]
    pub fn piece(&self, buffer: Buffer, index: u32) -> Piece {
        self.pieces(buffer, index, index + 1)
    }
    /// The blocks from `first` to before `end`, which lie together.
    #[must_use]
    pub fn pieces(&self, buffer: Buffer, first: u32, end: u32) -> Piece {
        let offset = self.offset(first);
        buffer.piece(offset, self.offset(end) - offset)
    }
}

/// Blocks in another order: from block `first` on to the last one, then from the first one on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turned {
    /// In their own order.
    pub blocks: Blocks,
    /// Which comes first.
    pub first: u32,
}

impl Turned {
    /// Bytes before the block that comes at `index`; of all where `index` is their number.
    #[must_use]
    pub fn offset(&self, index: u32) -> Bytes {
        let before = self.blocks.offset(self.first);
        match (index + self.first).checked_sub(self.blocks.ranks()) {
            None => self.blocks.offset(index + self.first) - before,
            Some(index) => self.blocks.total() - before + self.blocks.offset(index),
        }
    }
    /// The blocks from the one at `first` to before `end`, in a buffer that begins with the one at `base`.
    #[must_use]
    pub fn pieces(&self, buffer: Buffer, base: u32, first: u32, end: u32) -> Piece {
        let offset = self.offset(first);
        buffer.piece(offset - self.offset(base), self.offset(end) - offset)
    }
    /// All of them from their own order in `from` to this one in `to`: two pieces.
    #[must_use]
    pub fn turn(&self, from: Buffer, to: Buffer) -> [Move; 2] {
        self.halves(from, to).map(|(own, turned)| own.copied(turned))
    }
    /// All of them from this order in `from` to their own in `to`: two pieces.
    #[must_use]
    pub fn turn_back(&self, from: Buffer, to: Buffer) -> [Move; 2] {
        self.halves(to, from).map(|(own, turned)| turned.copied(own))
    }

    fn halves(&self, own: Buffer, turned: Buffer) -> [(Piece, Piece); 2] {
        let ranks = self.blocks.ranks();
        let ahead = ranks - self.first;
        [
            (self.blocks.pieces(own, self.first, ranks), self.pieces(turned, 0, 0, ahead)),
            (self.blocks.pieces(own, 0, self.first), self.pieces(turned, 0, ahead, ranks)),
        ]
    }
}

#[cfg(test)]
impl Blocks {
    /// Block r has (5 r + 2) mod 4 bytes.
    pub(crate) fn uneven(ranks: u32) -> Blocks {
        Blocks::varying(&(0..u64::from(ranks)).map(|rank| Bytes((5 * rank + 2) % 4)).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_end_with_the_vector() {
        // 11 elements of 4 B in segments of 18 B: 4, 4, 3.
        let vector = Vector { count: 11, width: Bytes(4) };
        assert_eq!((vector.bytes(), vector.segments(Bytes(18))), (Bytes(44), 3));
        assert_eq!(vector.segment(Bytes(18), Buffer::Recv, 2), Buffer::Recv.piece(Bytes(32), Bytes(12)));
        assert_eq!(vector.segments(Bytes(1)), 11);
        let nothing = Vector { count: 0, width: Bytes(4) };
        assert_eq!((nothing.segments(Bytes(64)), nothing.segment(Bytes(64), Buffer::Recv, 0).bytes), (1, Bytes::ZERO));
        assert_eq!(vector.blocks(4).total(), vector.bytes());
    }

    #[test]
    fn blocks_lie_one_behind_the_other() {
        // 11 elements of 4 B for 4 ranks are 3, 3, 3, 2.
        let split = Blocks::Split { ranks: 4, count: 11, width: Bytes(4) };
        assert_eq!((0..4).map(|index| split.length(index).0).collect::<Vec<_>>(), [12, 12, 12, 8]);
        assert_eq!((split.offset(3), split.total()), (Bytes(36), Bytes(44)));
        let varying = Blocks::varying(&[Bytes(5), Bytes(0), Bytes(7)]);
        assert_eq!((varying.ranks(), varying.total()), (3, Bytes(12)));
        assert_eq!(varying.pieces(Buffer::Recv, 1, 3), Buffer::Recv.piece(Bytes(5), Bytes(7)));
        assert_eq!(Blocks::Even { ranks: 3, block: Bytes(8) }.piece(Buffer::Send, 2).end(), 24);
        assert_eq!(varying.of([2, 0]), Blocks::varying(&[Bytes(7), Bytes(5)]));
        let joined = Nodes::filled(3, 2).joined(&varying);
        assert_eq!((joined.ranks(), joined.length(0), joined.length(1)), (2, Bytes(5), Bytes(7)));
    }

    #[test]
    fn blocks_are_turned_and_turned_back() {
        let turned = Turned { blocks: Blocks::varying(&[Bytes(5), Bytes(0), Bytes(7), Bytes(2)]), first: 2 };
        assert_eq!((0..=4).map(|index| turned.offset(index).0).collect::<Vec<_>>(), [0, 7, 9, 14, 14]);
        assert_eq!(turned.pieces(Buffer::Scratch(0), 1, 2, 4), Buffer::Scratch(0).piece(Bytes(2), Bytes(5)));
        let [ahead, behind] = turned.turn(Buffer::Send, Buffer::Recv);
        assert_eq!((ahead.from.offset, ahead.to.offset, ahead.to.bytes), (Bytes(5), Bytes(0), Bytes(9)));
        assert_eq!((behind.from.offset, behind.to.offset, behind.to.bytes), (Bytes(0), Bytes(9), Bytes(5)));
        let back = turned.turn_back(Buffer::Recv, Buffer::Send);
        assert_eq!(back.map(|this| (this.to, this.from)), [(ahead.from, ahead.to), (behind.from, behind.to)]);
    }
}
