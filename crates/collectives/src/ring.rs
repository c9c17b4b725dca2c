//! Steps of a ring that reduces: every rank receives from the rank before it what it has of a block, takes it in, and passes it on.

use crate::piece::Piece;
use crate::reduction::take_in;
use crate::round::Round;

/// Step `step` of `ranks - 1` for a rank that sends block `first` in step 0; `piece` says where it gathers a block. At the end it has all
/// of block `first + 1`.
pub(crate) fn reduce(step: u32, rank: u32, ranks: u32, first: u32, piece: impl Fn(u32) -> Piece) -> Round {
    let block = |back: u32| piece((first + 2 * ranks - step - back) % ranks);
    take_in(rank, &[(rank + ranks - 1) % ranks], block(1), 0).sending(block(0), &[(rank + 1) % ranks])
}

/// Step `step` of `ranks - 1` for a rank that has all of block `first` and passes whole blocks on.
pub(crate) fn gather(step: u32, rank: u32, ranks: u32, first: u32, piece: impl Fn(u32) -> Piece) -> Round {
    let block = |back: u32| piece((first + 2 * ranks - step - back) % ranks);
    Round::exchange(Some(block(1).with((rank + ranks - 1) % ranks)), Some(block(0).with((rank + 1) % ranks)))
}
