//! Recursive doubling: in round k ranks that differ in bit k exchange a message. Ranks beyond the largest power of two tell one below it
//! before, and hear from it afterwards.
//!
//! Source: Open MPI, coll_base_barrier.c (recursivedoubling).

use crate::piece::Message;
use crate::round::Round;

pub(super) fn rounds(rank: u32, ranks: u32) -> impl Iterator<Item = Round> {
    let (whole, bits) = (1 << ranks.max(1).ilog2(), ranks.max(1).ilog2());
    let tell = |peer: u32| Round::exchange(None, Some(Message::empty(peer)));
    let hear = |peer: u32| Round::exchange(Some(Message::empty(peer)), None);
    let beyond = rank >= whole;
    let partner = if beyond { Some(rank - whole) } else { Some(rank + whole).filter(|partner| *partner < ranks) };
    let before = partner.map(|peer| if beyond { tell(peer) } else { hear(peer) });
    let after = partner.map(|peer| if beyond { hear(peer) } else { tell(peer) });
    let swap = move |bit: u32| Round::exchange(Some(Message::empty(rank ^ 1 << bit)), Some(Message::empty(rank ^ 1 << bit)));
    before.into_iter().chain((0..if beyond { 0 } else { bits }).map(swap)).chain(after)
}
