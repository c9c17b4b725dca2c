//! Hashed equal-cost multi-path: a flow keeps to one of the minimal paths, which its hash selects.
//!
//! Source: C. Hopps, RFC 2992, as [`crate::routing::tree`]'s.
//! Modelled: a hash of the destination and of the entropy, different at each step of the path.
//! Not modelled: non-minimal paths, weights.

use super::layout::Layout;
use super::walk::{Select, Step};
use crate::routing::Head;
use crate::routing::hash::{below, hash};

/// A hash of the flow selects; of the packet, where each one has an entropy of its own.
#[derive(Clone, Debug)]
pub(in crate::routing) struct ByFlow;

impl Select for ByFlow {
    const FIXED: bool = false;

    fn new(_: &Layout) -> ByFlow {
        ByFlow
    }
    #[inline(always)]
    fn select(&self, head: &Head, step: Step, count: u32) -> u32 {
        below(hash(u64::from(head.dest.0) << 32 | u64::from(head.entropy), step as u32), count)
    }
}
