//! Recursive doubling: in step k groups of 2^k neighbours exchange all blocks but the sender's own group's, which it has to keep.
//!
//! Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19(1), 2005, §4.2 (log₂ n rounds, n log₂ n − (n − 1) blocks);
//! MPICH, reduce_scatter_intra_recursive_doubling.c.
//! Modelled: the order of operands; packing where a group's own blocks lie between those that go; blocks of any lengths.
//! Not modelled: MPICH's way for numbers of ranks that are no power of two (partial subtrees are passed on): here they fold in pairs.

use fabriscope_units::Bytes;

use crate::blocks::Blocks;
use crate::fold::Fold;
use crate::piece::{Buffer, Piece};
use crate::reduction::begin;
use crate::round::Round;

/// What comes; what the rank gathers; what goes, without a gap.
const COMING: Buffer = Buffer::Scratch(0);
const ACC: Buffer = Buffer::Scratch(1);
const GOING: Buffer = Buffer::Scratch(2);

pub(super) fn rounds(rank: u32, ranks: u32, blocks: Blocks) -> impl Iterator<Item = Round> {
    let fold = Fold::new(ranks, 2);
    let all = blocks.pieces(ACC, 0, ranks);
    let result = Buffer::Recv.piece(Bytes::ZERO, blocks.length(rank));
    let own = blocks.piece(ACC, rank);
    let last = match fold.stays(rank) {
        Some(_) => Round::local(vec![own.copied(result)]).beside(others(fold, rank, &blocks)),
        None => Round::exchange(Some(result.with(fold.rank(fold.number(rank)))), None),
    };
    let exchange = move |number: u32| {
        let blocks = blocks.clone();
        (0..fold.steps()).map(move |step| {
            let partner = number ^ 1 << step;
            let besides = |number: u32| {
                let first = number >> step << step;
                let own = (fold.begin(first), fold.begin(first + (1 << step)));
                [blocks.pieces(ACC, 0, own.0), blocks.pieces(ACC, own.1, ranks)]
            };
            exchange(fold.rank(partner), partner < number, besides(number), besides(partner))
        })
    };
    std::iter::once(begin(all.of(Buffer::Send), all))
        .chain(fold.join(rank, all))
        .chain(fold.stays(rank).into_iter().flat_map(exchange))
        .chain([last])
}

/// `goes` to `partner`, and `comes` from it: two pieces each, of which one may be empty.
fn exchange(partner: u32, lower: bool, goes: [Piece; 2], comes: [Piece; 2]) -> Round {
    let together = |buffer: Buffer, pieces: [Piece; 2]| buffer.piece(Bytes::ZERO, pieces[0].bytes + pieces[1].bytes);
    let parts =
        |buffer: Buffer, pieces: [Piece; 2]| [buffer.piece(Bytes::ZERO, pieces[0].bytes), buffer.piece(pieces[0].bytes, pieces[1].bytes)];
    let there = |piece: &Piece| piece.bytes != Bytes::ZERO;
    let mut round = Round::default();
    let send = match goes {
        [piece, other] | [other, piece] if !there(&other) => piece,
        _ => {
            round.before.extend(goes.into_iter().zip(parts(GOING, goes)).map(|(from, to)| from.copied(to)));
            together(GOING, goes)
        }
    };
    round.sends.push(send.with(partner));
    round.receives.push(together(COMING, comes).with(partner));
    let taken = parts(COMING, comes).into_iter().zip(comes).filter(|(from, _)| there(from));
    round.then(taken.map(|(from, to)| if lower { from.reduced_before(to) } else { from.reduced_after(to) }))
}

/// The other ranks of the group get their blocks.
fn others(fold: Fold, rank: u32, blocks: &Blocks) -> Round {
    let sends = fold.others(rank).into_iter().map(|other| blocks.piece(ACC, other).with(other)).collect();
    Round { sends, ..Round::default() }
}
