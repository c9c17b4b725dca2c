//! Minimal: at most one local link, one global link and one local link; the destination selects among parallel cables.
//!
//! Source: Kim, Dally, Scott, Abts, ISCA 2008 (MIN); two lanes for the local links of the first and the
//! last group.
//! Modelled: neighbouring destinations take different ones of the cables between two groups, and different spines.
//! Not modelled: choice among cables by load (see [`super::adaptive`]).

use super::layout::{Layout, PROOF};
use super::walk::{Select, Step, Walk};
use crate::divisor::Divisor;
use crate::graph::SwitchId;
use crate::routing::family::Prepare;
use crate::routing::{Head, Hop, Route, Routing, RoutingError, SwitchView};
use crate::topology::{Fabric, Groups};

/// At most one global link, by a way that `S` selects.
#[derive(Clone, Debug)]
pub(in crate::routing) struct Minimal<S>(Walk<S>);

impl<S: Select> Prepare<Groups> for Minimal<S> {
    fn prepare(_: &Fabric, groups: &Groups, _: Routing) -> Result<Self, RoutingError> {
        Ok(Minimal(Walk::new(groups)))
    }
}

impl<S: Select> Route for Minimal<S> {
    #[inline]
    fn output(&self, at: SwitchId, head: Head, _: &mut impl SwitchView) -> Hop {
        let (at, home) = self.0.places(at, &head);
        self.0.minimal(at, home, &head).hop
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        let (at, home) = self.0.places(at, &head);
        self.0.minimal_options(at, home, &head, visit);
    }
    fn lanes(&self) -> u8 {
        self.0.layout.minimal_lanes()
    }
    fn longest(&self) -> u32 {
        self.0.layout.minimal_longest()
    }
    fn proof(&self) -> Option<&'static str> {
        Some(PROOF)
    }
}

/// Reads a number as digits of mixed radix, one digit for each step.
#[derive(Clone, Debug)]
pub(super) struct Digits {
    /// Ways of the first step.
    ways: Divisor,
    /// Ways of the first step and parallel cables.
    cables: Divisor,
}

impl Digits {
    pub(super) fn new(layout: &Layout) -> Digits {
        let spines = if layout.plus() { layout.gateways } else { 1 };
        let ways = layout.pair.max(1).saturating_mul(spines);
        Digits { ways: Divisor::new(ways), cables: Divisor::new(ways.saturating_mul(layout.parallel)) }
    }
    /// The digit of `step`, below `count`.
    #[inline(always)]
    pub(super) fn digit(&self, number: u32, step: Step, count: u32) -> u32 {
        match step {
            Step::Path => number % count,
            Step::FirstCable => self.ways.quotient(number) % count,
            Step::LaterCable => self.cables.quotient(number) % count,
        }
    }
}

/// The destination selects.
#[derive(Clone, Debug)]
pub(in crate::routing) struct ByDestination(Digits);

impl Select for ByDestination {
    const FIXED: bool = true;

    fn new(layout: &Layout) -> ByDestination {
        ByDestination(Digits::new(layout))
    }
    #[inline(always)]
    fn select(&self, head: &Head, step: Step, count: u32) -> u32 {
        self.0.digit(head.dest.0, step, count)
    }
}
