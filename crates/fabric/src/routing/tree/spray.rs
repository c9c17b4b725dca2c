//! Per-packet spraying: the packet's entropy counts through all shortest paths.
//!
//! Source: A. Dixit et al., "On the impact of packet spraying in data center networks", INFOCOM 2013;
//! Ultra Ethernet Specification 1.0 (the entropy value of a packet selects its path).
//! With u_l up ports at level l the entropy is a number of mixed radix: its first digit, entropy mod u_1,
//! is the port at level 1, the next one, ⌊entropy / u_1⌋ mod u_2, the port at level 2. A sender that adds
//! one per packet visits every path once per u_1 · u_2 · … packets.
//! Not modelled: weights, choice by queue length. Senders should start at different values, else they
//! move from port to port in step.

use super::{Climb, Stair};
use crate::routing::Head;

#[derive(Clone, Debug)]
pub(in crate::routing) struct Spray;

impl Climb for Spray {
    const FIXED: bool = false;

    #[inline(always)]
    fn select(stair: &Stair, head: &Head) -> u32 {
        stair.ports.remainder(stair.ports_below.quotient(head.entropy))
    }
}
