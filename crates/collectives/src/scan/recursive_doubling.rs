//! Recursive doubling: in step k groups of 2^k neighbours exchange their reductions; the result takes in those from lower ranks only.
//!
//! Source: MPICH, scan_intra_recursive_doubling.c and exscan_intra_recursive_doubling.c; Open MPI, coll_base_scan.c
//! (recursivedoubling). Modelled: the order of operands; partners that are not there, which only a group at the end lacks, whose
//! reduction nobody needs.

use crate::blocks::Vector;
use crate::piece::Buffer;
use crate::reduction::begin;
use crate::round::Round;

pub(super) fn rounds(rank: u32, ranks: u32, vector: Vector, exclusive: bool) -> impl Iterator<Item = Round> {
    let [own, result, came, group] =
        [Buffer::Send, Buffer::Recv, Buffer::Scratch(0), Buffer::Scratch(1)].map(|buffer| vector.whole(buffer));
    let steps = ranks.next_power_of_two().trailing_zeros();
    let first = begin(own, group).then((!exclusive).then(|| own.copied(result)));
    let exchange = (0..steps).map(move |step| (step, rank ^ 1 << step)).filter(move |(_, partner)| *partner < ranks);
    std::iter::once(first).chain(exchange.map(move |(step, partner)| {
        let round = Round::exchange(Some(came.with(partner)), Some(group.with(partner)));
        if partner > rank {
            return round.then([came.reduced_after(group)]);
        }
        // Where nothing came before, the exclusive result begins.
        let empty = exclusive && rank & ((1 << step) - 1) == 0;
        round.then([came.reduced_before(group), if empty { came.copied(result) } else { came.reduced_before(result) }])
    }))
}
