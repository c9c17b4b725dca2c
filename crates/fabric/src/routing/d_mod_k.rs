//! D-mod-K: the destination's number selects the way up.
//!
//! Up port at level l = ⌊d / W_l⌋ mod (w_{l+1} · p_{l+1}) for destination d.
//! Source: Zahavi 2012 (see [`crate::topology::tree`]).
//!
//! On a full tree every shift permutation puts at most one flow on each link; other permutations can
//! collide, and do so for as long as they last. Neither the flow nor the packet has an influence.

use super::Head;
use super::tree::{Climb, Stair};

#[derive(Clone, Debug)]
pub(super) struct DModK;

impl Climb for DModK {
    #[inline(always)]
    fn select(stair: &Stair, head: &Head) -> u32 {
        stair.ports.remainder(stair.copies.quotient(head.dest.0))
    }
}
