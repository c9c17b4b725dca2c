//! Per-packet spraying over the minimal paths: the packet's entropy counts through them.
//!
//! Source: Dixit et al., INFOCOM 2013, as [`crate::routing::tree`]'s.
//! Modelled: round robin over the cables between two groups that lead equally far, over spines and parallel cables.
//! Not modelled: non-minimal paths, weights, choice by queue length.

use super::layout::Layout;
use super::minimal::Digits;
use super::walk::{Select, Step};
use crate::routing::Head;

/// The packet's number selects.
#[derive(Clone, Debug)]
pub(in crate::routing) struct ByPacket(Digits);

impl Select for ByPacket {
    const FIXED: bool = false;

    fn new(layout: &Layout) -> ByPacket {
        ByPacket(Digits::new(layout))
    }
    #[inline(always)]
    fn select(&self, head: &Head, step: Step, count: u32) -> u32 {
        self.0.digit(head.entropy, step, count)
    }
}
