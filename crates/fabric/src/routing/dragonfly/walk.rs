//! The walk to another group and to the destination that all routings of this family share.
//!
//! A switch with cables of its own to the group aimed at takes one of them; else the packet goes to a switch that has
//! one. So a path to another group takes at most one local link, one global link and one local link. Which of
//! several cables it takes is what the algorithms differ in.

use super::layout::{From, Layout, Location, Own};
use crate::graph::{LinkId, SwitchId};
use crate::routing::{Head, Hop};
use crate::topology::Groups;

/// How an algorithm selects among cables that lead equally far.
pub(super) trait Select {
    /// The destination alone selects.
    const FIXED: bool;
    fn new(layout: &Layout) -> Self;
    /// One of `count` ways, counted from 0.
    fn select(&self, head: &Head, step: Step, count: u32) -> u32;
}

/// What is selected: independent steps must not use the same digit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// One of the cables to another group, or a spine.
    Path,
    /// One of the parallel cables of the first local link.
    FirstCable,
    /// One of those of a later one.
    LaterCable,
}

/// A way out of a switch, with what adaptive algorithms compare.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub hop: Hop,
    /// The global link that it leads to in this group, where there is one and it is not `hop.link` itself.
    pub gate: Option<LinkId>,
    /// Links from switch to switch that it takes at most.
    pub links: u32,
}

/// The common walk with a way to select.
#[derive(Clone, Debug)]
pub(super) struct Walk<S> {
    pub layout: Layout,
    select: S,
}

impl<S: Select> Walk<S> {
    pub(super) fn new(groups: &Groups) -> Walk<S> {
        let layout = Layout::new(groups);
        Walk { layout, select: S::new(&layout) }
    }

    #[inline(always)]
    fn pick(&self, head: &Head, step: Step, count: u32) -> u32 {
        if count <= 1 { 0 } else { self.select.select(head, step, count) }
    }

    /// A local hop to the switch at position `to`.
    #[inline(always)]
    pub(super) fn local_hop(&self, at: Location, to: u32, head: &Head, via: u16) -> Hop {
        let from = self.layout.from(head.input);
        let step = if from == From::Endpoint { Step::FirstCable } else { Step::LaterCable };
        let cable = self.pick(head, step, self.layout.parallel);
        Hop { link: self.layout.local(at, to, cable), vl: self.layout.local_lane(at, from, head.vl), via }
    }

    /// A global hop.
    #[inline(always)]
    pub(super) fn global_hop(&self, at: Location, to: u32, cable: u32, head: &Head, via: u16) -> Hop {
        let vl = self.layout.global_lane(self.layout.from(head.input), head.vl);
        Hop { link: self.layout.global(at.group, to, cable), vl, via }
    }

    /// Towards the destination, which is at `home`, by at most one global link.
    #[inline(always)]
    pub(super) fn minimal(&self, at: Location, home: Location, head: &Head) -> Candidate {
        if at.group != home.group {
            return self.cross(at, home.group, head, 0);
        }
        if at.position == home.position {
            return Candidate { hop: Hop { link: self.layout.deliver(head.dest), vl: 0, via: 0 }, gate: None, links: 0 };
        }
        if self.layout.plus() && !self.layout.is_gateway(at) {
            let spine = self.layout.first_gateway + self.pick(head, Step::Path, self.layout.gateways);
            return Candidate { hop: self.local_hop(at, spine, head, 0), gate: None, links: 2 };
        }
        Candidate { hop: self.local_hop(at, home.position, head, 0), gate: None, links: 1 }
    }

    /// Towards another group.
    #[inline(always)]
    pub(super) fn cross(&self, at: Location, to: u32, head: &Head, via: u16) -> Candidate {
        let own = self.layout.own(at, to);
        if own.count != 0 {
            let cable = own.first + self.pick(head, Step::Path, own.count);
            return Candidate { hop: self.global_hop(at, to, cable, head, via), gate: None, links: 2 };
        }
        let cable = self.pick(head, Step::Path, self.layout.pair);
        let gateway = self.layout.gateway(at.group, to, cable);
        let gate = Some(self.layout.global(at.group, to, cable));
        // A spine without a cable of its own, in the group of a detour: by way of a leaf to another spine.
        let climbs = self.layout.plus() && self.layout.is_gateway(at);
        let next = if climbs { self.pick(head, Step::Path, self.layout.edges) } else { gateway };
        Candidate { hop: self.local_hop(at, next, head, via), gate, links: 3 }
    }

    /// Every answer that [`Walk::minimal`] may give.
    pub(super) fn minimal_options(&self, at: Location, home: Location, head: &Head, visit: &mut dyn FnMut(Hop)) {
        if S::FIXED {
            visit(self.minimal(at, home, head).hop);
        } else if at.group != home.group {
            self.cross_options(at, home.group, head, 0, visit);
        } else if at.position == home.position {
            visit(self.minimal(at, home, head).hop);
        } else if self.layout.plus() && !self.layout.is_gateway(at) {
            let first = self.layout.first_gateway;
            (first..first + self.layout.gateways).for_each(|spine| self.local_options(at, spine, head, 0, visit));
        } else {
            self.local_options(at, home.position, head, 0, visit);
        }
    }

    /// Every answer that [`Walk::cross`] may give.
    pub(super) fn cross_options(&self, at: Location, to: u32, head: &Head, via: u16, visit: &mut dyn FnMut(Hop)) {
        let Own { first, count } = self.layout.own(at, to);
        if count != 0 {
            (first..first + count).for_each(|cable| visit(self.global_hop(at, to, cable, head, via)));
        } else if self.layout.plus() && self.layout.is_gateway(at) {
            (0..self.layout.edges).for_each(|leaf| self.local_options(at, leaf, head, via, visit));
        } else {
            let mut gateways: Vec<u32> = (0..self.layout.pair).map(|cable| self.layout.gateway(at.group, to, cable)).collect();
            gateways.dedup();
            gateways.into_iter().for_each(|gateway| self.local_options(at, gateway, head, via, visit));
        }
    }

    /// All parallel cables to a neighbour.
    pub(super) fn local_options(&self, at: Location, to: u32, head: &Head, via: u16, visit: &mut dyn FnMut(Hop)) {
        let vl = self.layout.local_lane(at, self.layout.from(head.input), head.vl);
        (0..self.layout.parallel).for_each(|cable| visit(Hop { link: self.layout.local(at, to, cable), vl, via }));
    }

    /// Where the packet stands and where it goes.
    #[inline(always)]
    pub(super) fn places(&self, at: SwitchId, head: &Head) -> (Location, Location) {
        (self.layout.stand(at), self.layout.home(head.dest))
    }
}
