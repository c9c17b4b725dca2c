//! Recursive multiplying: in step k every rank exchanges all it has with the radix − 1 ranks that differ from it in digit k.
//! Radix 2 is recursive doubling.
//!
//! Source: M. Ruefenacht, M. Bull, S. Booth, "Generalisation of Recursive Doubling for AllReduce", Parallel Computing 69, 2017;
//! R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19(1), 2005, §4.4; MPICH, allreduce_intra_recexch.c, allreduce_intra_recursive_doubling.c.
//! Modelled: ranks beyond a power of the radix, which fold into their neighbours first; the order of operands.
//! Not modelled: a mixture of radices.

use crate::blocks::Vector;
use crate::fold::Fold;
use crate::piece::Buffer;
use crate::reduction::{begin, take_in};
use crate::round::Round;

pub(super) fn rounds(rank: u32, ranks: u32, radix: u32, vector: Vector) -> impl Iterator<Item = Round> {
    let fold = Fold::new(ranks, radix);
    let acc = vector.whole(Buffer::Recv);
    let exchange = move |number: u32| {
        (0..fold.steps()).map(move |step| {
            let peers = fold.peers(number, step);
            take_in(rank, &peers, acc, 0).sending(acc, &peers)
        })
    };
    std::iter::once(begin(vector.whole(Buffer::Send), acc))
        .chain(fold.join(rank, acc))
        .chain(fold.stays(rank).into_iter().flat_map(exchange))
        .chain(fold.spread(rank, acc))
}
