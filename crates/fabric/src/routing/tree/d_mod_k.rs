//! D-mod-K: the destination's number selects the way up.
//!
//! Up port at level l = ⌊d / W_l⌋ mod (w_{l+1} · p_{l+1}) for destination d.
//! Source: Zahavi 2012 (see [`crate::topology::tree`]).
//!
//! On a full tree every shift permutation puts at most one flow on each link; other permutations can
//! collide, and do so for as long as they last. Neither the flow nor the packet has an influence.

use super::{Climb, Stair};
use crate::routing::Head;

#[derive(Clone, Debug)]
pub(in crate::routing) struct DModK;

impl Climb for DModK {
    const FIXED: bool = true;

    #[inline(always)]
    fn select(stair: &Stair, head: &Head) -> u32 {
        stair.ports.remainder(stair.copies.quotient(head.dest.0))
    }
}
