//! Pieces of a rank's buffers, and what is done with them.

use fabriscope_units::Bytes;

/// One of the buffers of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    /// What the program gave: `sendbuf`. A broadcast has none.
    Send,
    /// Where the program finds the result: `recvbuf`, and the only buffer of a broadcast.
    Recv,
    /// Memory of the library's own.
    Scratch(u8),
}

/// A contiguous piece of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The buffer.
    pub buffer: Buffer,
    /// Bytes before it.
    pub offset: Bytes,
    /// Its length.
    pub bytes: Bytes,
}

/// What a rank does with its own memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// `to` becomes what `from` is.
    Copy,
    /// `to` becomes `from ∘ to`: the operand from the lower ranks is at `from`.
    ReduceBefore,
    /// `to` becomes `to ∘ from`.
    ReduceAfter,
}

/// One pass over two pieces of the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Move {
    /// What happens.
    pub action: Action,
    /// Read.
    pub from: Piece,
    /// Written, and read by a reduction.
    pub to: Piece,
}

/// One message of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Message {
    /// The other rank.
    pub peer: u32,
    /// What is sent, or where it is received.
    pub piece: Piece,
    /// Whether it lies in a slot of memory that the ranks of a node share: written once for all who read it, and read where it lies.
    pub slot: bool,
}

impl Buffer {
    /// The piece of `bytes` after the first `offset`.
    #[must_use]
    pub fn piece(self, offset: Bytes, bytes: Bytes) -> Piece {
        Piece { buffer: self, offset, bytes }
    }
}

impl Move {
    /// Whether nothing happens: a copy of a piece to where it is.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.action == Action::Copy && self.from == self.to
    }
}

impl Message {
    /// One without data, to or from `peer`.
    #[must_use]
    pub fn empty(peer: u32) -> Message {
        Buffer::Recv.piece(Bytes::ZERO, Bytes::ZERO).with(peer)
    }
}

impl Piece {
    /// The byte after the last one.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset.0 + self.bytes.0
    }
    /// Whether a byte belongs to both.
    #[must_use]
    pub fn overlaps(&self, other: &Piece) -> bool {
        self.buffer == other.buffer && self.offset.0 < other.end() && other.offset.0 < self.end()
    }
    /// The same bytes of another buffer.
    #[must_use]
    pub fn of(self, buffer: Buffer) -> Piece {
        Piece { buffer, ..self }
    }
    /// `to` becomes what this is.
    #[must_use]
    pub fn copied(self, to: Piece) -> Move {
        Move { action: Action::Copy, from: self, to }
    }
    /// `to` takes this in, which is from lower ranks than what `to` holds.
    #[must_use]
    pub fn reduced_before(self, to: Piece) -> Move {
        Move { action: Action::ReduceBefore, from: self, to }
    }
    /// `to` takes this in, which is from higher ranks than what `to` holds.
    #[must_use]
    pub fn reduced_after(self, to: Piece) -> Move {
        Move { action: Action::ReduceAfter, from: self, to }
    }
    /// This piece to or from `peer`.
    #[must_use]
    pub fn with(self, peer: u32) -> Message {
        Message { peer, piece: self, slot: false }
    }
}
