//! Hashed equal-cost multi-path: a flow keeps to one path that its hash selects.
//!
//! Source: C. Hopps, RFC 2992 (hash-threshold: the range of the hash is split evenly among the ports).
//! Modelled: a hash of the destination and of the entropy, different at each level, so that the choices
//! at two levels are independent. The sender puts whatever else sets its flows apart into the entropy.
//! Not modelled: switches that hash alike at all levels (polarisation), weights, flowlets.

use super::{Climb, Stair};
use crate::routing::Head;
use crate::routing::hash::{below, hash};

#[derive(Clone, Debug)]
pub(in crate::routing) struct Ecmp;

impl Climb for Ecmp {
    const FIXED: bool = false;

    #[inline(always)]
    fn select(stair: &Stair, head: &Head) -> u32 {
        below(hash(u64::from(head.dest.0) << 32 | u64::from(head.entropy), stair.level), stair.ports.get())
    }
}
