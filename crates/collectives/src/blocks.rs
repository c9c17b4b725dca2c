//! How a buffer is divided among ranks.

use fabriscope_units::Bytes;

use crate::piece::{Buffer, Piece};

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
    /// Of any lengths: where each begins, and the end of all.
    Varying(Vec<Bytes>),
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
        Blocks::Varying(begins)
    }
    /// How many there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        match self {
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

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
