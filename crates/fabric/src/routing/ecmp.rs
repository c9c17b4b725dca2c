//! Hashed equal-cost multi-path: a flow keeps to one path that its hash selects.
//!
//! Source: C. Hopps, RFC 2992 (hash-threshold: the range of the hash is split evenly among the ports).
//! Modelled: a hash of the destination and of the entropy, different at each level, so that the choices
//! at two levels are independent. The sender puts whatever else sets its flows apart into the entropy.
//! Not modelled: switches that hash alike at all levels (polarisation), weights, flowlets.

use super::Head;
use super::tree::{Climb, Stair};

#[derive(Clone, Debug)]
pub(super) struct Ecmp;

impl Climb for Ecmp {
    #[inline(always)]
    fn select(stair: &Stair, head: &Head) -> u32 {
        let hash = hash(u64::from(head.dest.0) << 32 | u64::from(head.entropy), stair.level);
        ((u64::from(hash) * u64::from(stair.ports.get())) >> 32) as u32
    }
}

/// The upper half of SplitMix64's output function (Steele, Lea, Flood, OOPSLA 2014) with the level as its step.
#[inline(always)]
fn hash(flow: u64, level: u32) -> u32 {
    let mut x = flow.wrapping_add((u64::from(level) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x >> 32) as u32
}
