//! Linear with synchronisation: the root asks one rank after the other for the first part of its block; the second part comes while
//! the next rank is asked. So no two ranks send their first parts at once.
//!
//! Source: Open MPI, coll_base_gather.c (linear_sync).
//! Modelled: one second part in flight at a time. Not modelled: in Open MPI the root waits for all second parts at the end only.

use fabriscope_units::Bytes;

use crate::blocks::Blocks;
use crate::piece::{Buffer, Message, Piece};
use crate::round::{Round, Rounds};

/// `rank` is numbered from `root`; its block lies at `own`. The first part of a block has `segment` bytes, all where that is zero.
pub(super) fn rounds(rank: u32, root: u32, blocks: Blocks, segment: Bytes, own: Piece) -> Rounds {
    let ranks = blocks.ranks();
    let parts = move |piece: Piece| {
        let first = if segment == Bytes::ZERO { piece.bytes } else { piece.bytes.min(segment) };
        let second = piece.buffer.piece(piece.offset + first, piece.bytes - first);
        (Piece { bytes: first, ..piece }, Some(second).filter(|second| second.bytes > Bytes::ZERO))
    };
    if rank > 0 {
        let (first, second) = parts(own);
        let asked = Round::exchange(Some(Message::empty(0)), None);
        let send = |part: Piece| Round::exchange(None, Some(part.with(0)));
        return Box::new([asked, send(first)].into_iter().chain(second.map(send)));
    }
    let block = move |peer: u32| blocks.piece(Buffer::Recv, (peer + root) % ranks);
    let local = Round::local(vec![own.copied(block(0))]);
    let asks = (1..=ranks).map(move |peer| {
        let second = Some(peer - 1).filter(|last| *last > 0).and_then(|last| Some(parts(block(last)).1?.with(last)));
        let first = (peer < ranks).then(|| parts(block(peer)).0.with(peer));
        let sends = first.map(|_| Message::empty(peer)).into_iter().collect();
        Round { receives: first.into_iter().chain(second).collect(), sends, ..Round::default() }
    });
    Box::new(std::iter::once(local).chain(asks))
}
