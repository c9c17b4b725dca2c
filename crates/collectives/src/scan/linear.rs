//! Linear: what the ranks before have comes from the rank before, and goes on with this rank's contribution.
//!
//! Source: Open MPI, coll_base_scan.c and coll_base_exscan.c (intra_linear). Modelled: the order of operands.

use crate::blocks::Vector;
use crate::piece::Buffer;
use crate::reduction::{begin, take_in};
use crate::round::{Round, Rounds};

pub(super) fn rounds(rank: u32, ranks: u32, vector: Vector, exclusive: bool) -> Rounds {
    if exclusive { Box::new(self::exclusive(rank, ranks, vector)) } else { Box::new(inclusive(rank, ranks, vector)) }
}

fn inclusive(rank: u32, ranks: u32, vector: Vector) -> impl Iterator<Item = Round> {
    let result = vector.whole(Buffer::Recv);
    let receive = rank.checked_sub(1).map(|before| take_in(rank, &[before], result, 0));
    let send = (rank + 1 < ranks).then(|| Round::exchange(None, Some(result.with(rank + 1))));
    std::iter::once(begin(vector.whole(Buffer::Send), result)).chain(receive).chain(send)
}

fn exclusive(rank: u32, ranks: u32, vector: Vector) -> impl Iterator<Item = Round> {
    let [own, result, on] = [Buffer::Send, Buffer::Recv, Buffer::Scratch(0)].map(|buffer| vector.whole(buffer));
    let receive = rank.checked_sub(1).map(|before| Round::exchange(Some(result.with(before)), None));
    let send = (rank + 1 < ranks).then(|| match rank {
        0 => Round::exchange(None, Some(own.with(1))),
        _ => Round { before: vec![result.copied(on), own.reduced_after(on)], ..Round::exchange(None, Some(on.with(rank + 1))) },
    });
    receive.into_iter().chain(send)
}
