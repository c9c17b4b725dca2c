//! Linear: everybody sends to the root, which takes them in one by one, from the last rank to the first.
//!
//! Source: Open MPI, coll_base_reduce.c (basic_linear). Modelled: the order of operands, whoever is the root.

use crate::blocks::Vector;
use crate::piece::Buffer;
use crate::round::Round;

pub(super) fn rounds(rank: u32, ranks: u32, root: u32, vector: Vector) -> impl Iterator<Item = Round> {
    let [own, result, came] = [Buffer::Send, Buffer::Recv, Buffer::Scratch(0)].map(|buffer| vector.whole(buffer));
    let last = ranks - 1;
    let take = move |from: u32| match (from == root, from == last) {
        (true, true) => Round::local(vec![own.copied(result)]),
        (true, false) => Round::local(vec![own.reduced_before(result)]),
        (false, true) => Round::exchange(Some(result.with(from)), None),
        (false, false) => Round::exchange(Some(came.with(from)), None).then([came.reduced_before(result)]),
    };
    let taken = if rank == root { 0..ranks } else { 0..0 };
    let send = (rank != root).then(|| Round::exchange(None, Some(own.with(root))));
    taken.rev().map(take).chain(send)
}
