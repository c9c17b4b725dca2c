//! Up a tree in segments: a rank receives a segment from its children and sends up the one before.
//!
//! Source: Open MPI, coll_base_reduce.c (`reduce_generic`), which chain, pipeline, binary and binomial trees use: the first child's
//! segment comes to where the result is made, and the rank's own is taken into it, without a copy.
//! Modelled: one segment that comes while the one before goes. Not modelled: receives in flight beyond that; the limit of sends that a
//! leaf has outstanding (`max_requests`): it waits for each.

use fabriscope_units::Bytes;

use crate::blocks::Vector;
use crate::piece::Buffer;
use crate::reduction::take_in;
use crate::round::Round;
use crate::tree::TreePosition;

/// The children of `rank` all come before it, or all behind. Ranks with children make the result in `at`.
pub(super) fn rounds(rank: u32, place: TreePosition, vector: Vector, segment: Bytes, at: Buffer) -> impl Iterator<Item = Round> {
    let TreePosition { parent, mut children } = place;
    children.sort_unstable();
    let behind = children.first().is_some_and(|child| *child > rank);
    let nearest = if behind { Some(children.remove(0)) } else { children.pop() };
    let alone = (nearest.is_none() && parent.is_none()).then(|| Round::local(vec![vector.whole(Buffer::Send).copied(vector.whole(at))]));
    let segments = vector.segments(segment);
    let count = if alone.is_some() { 0 } else { segments + u64::from(nearest.is_some() && parent.is_some()) };
    let pipeline = (0..count).map(move |index| {
        let piece = |buffer: Buffer, index: u64| vector.segment(segment, buffer, index);
        let Some(nearest) = nearest else {
            return Round::default().sending(piece(Buffer::Send, index), parent.as_slice());
        };
        let mut round = Round::default();
        if index < segments {
            let (own, acc) = (piece(Buffer::Send, index), piece(at, index));
            round.receives.push(acc.with(nearest));
            round.after.push(if behind { own.reduced_before(acc) } else { own.reduced_after(acc) });
            round = round.beside(take_in(rank, &children, acc, 0));
        }
        match index.checked_sub(1) {
            Some(index) => round.sending(piece(at, index), parent.as_slice()),
            None => round,
        }
    });
    alone.into_iter().chain(pipeline)
}
