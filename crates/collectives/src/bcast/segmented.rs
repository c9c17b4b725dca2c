//! Down a tree in segments: a rank receives a segment and passes on the one before.
//!
//! Source: Open MPI, coll_base_bcast.c (`bcast_intra_generic`: two receives in flight, sends to all children at once), which
//! linear, chain, pipeline, binary, binomial and k-nomial trees use.
//! Modelled: one segment that comes while the one before goes. Not modelled: a child that is late holds back the others' next segment
//! as in the libraries, but the next receive waits for it as well.

use crate::piece::Piece;
use crate::round::Round;
use crate::tree::TreePosition;

/// The first segments of a pipeline at `place`; `piece` says where segment `i` lies.
pub(super) fn rounds(place: TreePosition, segments: u64, piece: impl Fn(u64) -> Piece) -> impl Iterator<Item = Round> {
    let lag = u64::from(place.parent.is_some());
    let rounds = if place.children.is_empty() { segments * lag } else { segments + lag };
    (0..rounds).map(move |index| Round {
        receives: place.parent.filter(|_| index < segments).map(|parent| piece(index).with(parent)).into_iter().collect(),
        sends: match index.checked_sub(lag) {
            Some(index) => place.children.iter().map(|child| piece(index).with(*child)).collect(),
            None => Vec::new(),
        },
        ..Round::default()
    })
}
