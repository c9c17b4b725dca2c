//! The walk to another group and to the destination that all routings of this family share.
//!
//! A switch with cables of its own to the group aimed at takes one of them; else the packet goes to a switch that has
//! one. So a path to another group takes at most one local link, one global link and one local link. Which of
//! several cables it takes is what the algorithms differ in.

use super::ground::{From, Ground, Own, Stand};
use crate::graph::{LinkId, SwitchId};
use crate::routing::{Head, Hop};
use crate::topology::Groups;

/// How an algorithm selects among cables that lead equally far.
pub(super) trait Select {
    /// The destination alone selects.
    const FIXED: bool;
    fn new(ground: &Ground) -> Self;
    /// One of `count` ways, counted from 0.
    fn select(&self, head: &Head, step: Step, count: u32) -> u32;
}

/// What is selected: independent steps must not use the same digit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// One of the cables to another group, or a spine.
    Way,
    /// One of the parallel cables of the first local link.
    FirstCable,
    /// One of those of a later one.
    LaterCable,
}

/// A way out of a switch, with what adaptive algorithms compare.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub hop: Hop,
    /// The global link that it leads to in this group, where there is one and it is not `hop.link` itself.
    pub gate: Option<LinkId>,
    /// Links from switch to switch that it takes at most.
    pub links: u32,
}

/// The common walk with a way to select.
#[derive(Clone, Debug)]
pub(super) struct Walk<S> {
    pub ground: Ground,
    select: S,
}

impl<S: Select> Walk<S> {
    pub(super) fn new(groups: &Groups) -> Walk<S> {
        let ground = Ground::new(groups);
        Walk { ground, select: S::new(&ground) }
    }

    #[inline(always)]
    fn pick(&self, head: &Head, step: Step, count: u32) -> u32 {
        if count <= 1 { 0 } else { self.select.select(head, step, count) }
    }

    /// A local hop to the switch at position `to`.
    #[inline(always)]
    pub(super) fn local_hop(&self, at: Stand, to: u32, head: &Head, via: u16) -> Hop {
        let from = self.ground.from(head.input);
        let step = if from == From::Endpoint { Step::FirstCable } else { Step::LaterCable };
        let cable = self.pick(head, step, self.ground.parallel);
        Hop { link: self.ground.local(at, to, cable), vl: self.ground.local_lane(at, from, head.vl), via }
    }

    /// A global hop.
    #[inline(always)]
    pub(super) fn global_hop(&self, at: Stand, to: u32, cable: u32, head: &Head, via: u16) -> Hop {
        let vl = self.ground.global_lane(self.ground.from(head.input), head.vl);
        Hop { link: self.ground.global(at.group, to, cable), vl, via }
    }

    /// Towards the destination, which is at `home`, by at most one global link.
    #[inline(always)]
    pub(super) fn minimal(&self, at: Stand, home: Stand, head: &Head) -> Way {
        if at.group != home.group {
            return self.cross(at, home.group, head, 0);
        }
        if at.position == home.position {
            return Way { hop: Hop { link: self.ground.deliver(head.dest), vl: 0, via: 0 }, gate: None, links: 0 };
        }
        if self.ground.plus() && !self.ground.is_gateway(at) {
            let spine = self.ground.first_gateway + self.pick(head, Step::Way, self.ground.gateways);
            return Way { hop: self.local_hop(at, spine, head, 0), gate: None, links: 2 };
        }
        Way { hop: self.local_hop(at, home.position, head, 0), gate: None, links: 1 }
    }

    /// Towards another group.
    #[inline(always)]
    pub(super) fn cross(&self, at: Stand, to: u32, head: &Head, via: u16) -> Way {
        let own = self.ground.own(at, to);
        if own.count != 0 {
            let cable = own.first + self.pick(head, Step::Way, own.count);
            return Way { hop: self.global_hop(at, to, cable, head, via), gate: None, links: 2 };
        }
        let cable = self.pick(head, Step::Way, self.ground.pair);
        let gateway = self.ground.gateway(at.group, to, cable);
        let gate = Some(self.ground.global(at.group, to, cable));
        // A spine without a cable of its own, in the group of a detour: by way of a leaf to another spine.
        let climbs = self.ground.plus() && self.ground.is_gateway(at);
        let next = if climbs { self.pick(head, Step::Way, self.ground.edges) } else { gateway };
        Way { hop: self.local_hop(at, next, head, via), gate, links: 3 }
    }

    /// Every answer that [`Walk::minimal`] may give.
    pub(super) fn minimal_options(&self, at: Stand, home: Stand, head: &Head, visit: &mut dyn FnMut(Hop)) {
        if S::FIXED {
            visit(self.minimal(at, home, head).hop);
        } else if at.group != home.group {
            self.cross_options(at, home.group, head, 0, visit);
        } else if at.position == home.position {
            visit(self.minimal(at, home, head).hop);
        } else if self.ground.plus() && !self.ground.is_gateway(at) {
            let first = self.ground.first_gateway;
            (first..first + self.ground.gateways).for_each(|spine| self.local_options(at, spine, head, 0, visit));
        } else {
            self.local_options(at, home.position, head, 0, visit);
        }
    }

    /// Every answer that [`Walk::cross`] may give.
    pub(super) fn cross_options(&self, at: Stand, to: u32, head: &Head, via: u16, visit: &mut dyn FnMut(Hop)) {
        let Own { first, count } = self.ground.own(at, to);
        if count != 0 {
            (first..first + count).for_each(|cable| visit(self.global_hop(at, to, cable, head, via)));
        } else if self.ground.plus() && self.ground.is_gateway(at) {
            (0..self.ground.edges).for_each(|leaf| self.local_options(at, leaf, head, via, visit));
        } else {
            let mut gateways: Vec<u32> = (0..self.ground.pair).map(|cable| self.ground.gateway(at.group, to, cable)).collect();
            gateways.dedup();
            gateways.into_iter().for_each(|gateway| self.local_options(at, gateway, head, via, visit));
        }
    }

    /// All parallel cables to a neighbour.
    pub(super) fn local_options(&self, at: Stand, to: u32, head: &Head, via: u16, visit: &mut dyn FnMut(Hop)) {
        let vl = self.ground.local_lane(at, self.ground.from(head.input), head.vl);
        (0..self.ground.parallel).for_each(|cable| visit(Hop { link: self.ground.local(at, to, cable), vl, via }));
    }

    /// Where the packet stands and where it goes.
    #[inline(always)]
    pub(super) fn places(&self, at: SwitchId, head: &Head) -> (Stand, Stand) {
        (self.ground.stand(at), self.ground.home(head.dest))
    }
}
