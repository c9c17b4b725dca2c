//! Bruck's algorithm: in round k every rank sends the blocks whose distance has bit k to the rank 2^k further.
//!
//! Source: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby, "Efficient Algorithms for All-to-All Communications in
//! Multiport Message-Passing Systems", IEEE TPDS 8(11), 1997; the copies as in MPICH (alltoall_intra_brucks.c): a rotation of
//! two pieces, packing and unpacking of each round's blocks, a rotation and the reversal of all blocks.
//! Modelled: the rounds and their copies. Not modelled: other radices than 2, blocks of different lengths.

use fabriscope_units::Bytes;

use crate::blocks::Blocks;
use crate::piece::{Buffer, Move};
use crate::round::{Amount, Outline, Round};

/// Block d is on its way to the rank at distance d.
const ROTATED: Buffer = Buffer::Scratch(0);
/// The blocks of a round, one behind the other: those that go, those that come.
const GOING: Buffer = Buffer::Scratch(1);
const COMING: Buffer = Buffer::Scratch(2);
/// All blocks, before they are reversed.
const TURNED: Buffer = Buffer::Scratch(3);

/// Rounds of `ranks` ranks: log₂ of it, rounded up; one for a rank alone, which copies.
pub(super) fn rounds(ranks: u32) -> u32 {
    ranks.next_power_of_two().trailing_zeros().max(1)
}

pub(super) fn round(index: u32, rank: u32, ranks: u32, block: Bytes) -> Round {
    let blocks = Blocks::Even { ranks, block };
    let distance = 1 << index;
    let moving: Vec<u32> = (0..ranks).filter(|other| other >> index & 1 == 1).collect();
    let packed = |buffer: Buffer| buffer.piece(Bytes::ZERO, block * moving.len() as u64);
    let mut round = Round::default();
    if index == 0 {
        round.before.extend(rotation(&blocks, Buffer::Send, ROTATED, rank));
    }
    let pack = moving.iter().zip(0..).map(|(&from, to)| blocks.piece(ROTATED, from).copied(blocks.piece(GOING, to)));
    round.before.extend(pack);
    if !moving.is_empty() {
        round.receives.push(packed(COMING).with((rank + ranks - distance) % ranks));
        round.sends.push(packed(GOING).with((rank + distance) % ranks));
    }
    let unpack = moving.iter().zip(0..).map(|(&to, from)| blocks.piece(COMING, from).copied(blocks.piece(ROTATED, to)));
    round.after.extend(unpack);
    if index + 1 == rounds(ranks) {
        // Block d came from the rank d before this one: turned by this rank and one, block n - 1 - r is from rank r.
        round.after.extend(rotation(&blocks, ROTATED, TURNED, (rank + 1) % ranks));
        round.after.extend((0..ranks).map(|from| blocks.piece(TURNED, ranks - 1 - from).copied(blocks.piece(Buffer::Recv, from))));
    }
    round
}

/// The same with the sums of its moves in their place.
pub(super) fn outline(index: u32, rank: u32, ranks: u32, block: Bytes) -> Outline {
    let distance = 1 << index;
    let moving = u64::from((ranks >> (index + 1) << index) + (ranks & (2 * distance - 1)).saturating_sub(distance));
    let packed = |buffer: Buffer| buffer.piece(Bytes::ZERO, block * moving);
    let mut round = Round::default();
    if moving > 0 {
        round.receives.push(packed(COMING).with((rank + ranks - distance) % ranks));
        round.sends.push(packed(GOING).with((rank + distance) % ranks));
    }
    let all = u64::from(ranks);
    let (first, last) = (u64::from(index == 0), u64::from(index + 1 == rounds(ranks)));
    let amount = |moves: u64, blocks: u64| Amount { moves, copied: block * blocks, reduced: Bytes::ZERO };
    let before = amount(moving + 2 * first, moving + all * first);
    Outline { round, before, after: amount(moving + (2 + all) * last, moving + 2 * all * last) }
}

/// All blocks from `from` to `to`, block `first` to the front.
fn rotation(blocks: &Blocks, from: Buffer, to: Buffer, first: u32) -> impl Iterator<Item = Move> {
    let ranks = blocks.ranks();
    let ahead = blocks.pieces(from, first, ranks).copied(blocks.pieces(to, 0, ranks - first));
    let behind = blocks.pieces(from, 0, first).copied(blocks.pieces(to, ranks - first, ranks));
    [ahead, behind].into_iter()
}
