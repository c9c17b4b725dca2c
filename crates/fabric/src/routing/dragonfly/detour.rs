//! Paths with a detour: by way of another group, or of another switch of the same group.
//!
//! The first switch decides. The group of the detour travels in [`Hop::via`] as its number plus one, until the packet
//! is there; from then on it goes the minimal way. A detour inside a dragonfly group needs no note: the lane tells the
//! second switch that it is not the first.

use super::ecmp::ByFlow;
use super::layout::{From, Location};
use super::walk::{Candidate, Walk};
use crate::graph::SwitchId;
use crate::routing::hash::{below, hash};
use crate::routing::{Head, Hop};
use crate::topology::Groups;

/// Minimal paths and detours.
#[derive(Clone, Debug)]
pub(super) struct Detours {
    pub walk: Walk<ByFlow>,
}

impl Detours {
    pub(super) fn new(groups: &Groups) -> Detours {
        Detours { walk: Walk::new(groups) }
    }

    /// Whether the packet stands at its first switch.
    #[inline(always)]
    pub(super) fn starts(&self, head: &Head) -> bool {
        self.walk.layout.from(head.input) == From::Endpoint
    }

    /// The next hop of a packet that has decided.
    #[inline(always)]
    pub(super) fn proceed(&self, at: Location, home: Location, head: &Head) -> Hop {
        match self.ahead(at, head) {
            Some(group) => self.walk.cross(at, group, head, head.via).hop,
            None => self.walk.minimal(at, home, head).hop,
        }
    }

    /// Every answer that [`Detours::proceed`] may give.
    pub(super) fn proceed_options(&self, at: Location, home: Location, head: &Head, visit: &mut dyn FnMut(Hop)) {
        match self.ahead(at, head) {
            Some(group) => self.walk.cross_options(at, group, head, head.via, visit),
            None => self.walk.minimal_options(at, home, head, visit),
        }
    }

    /// The group of the detour while the packet is on its way there.
    #[inline(always)]
    fn ahead(&self, at: Location, head: &Head) -> Option<u32> {
        let group = u32::from(head.via).wrapping_sub(1);
        (head.via != 0 && group != at.group && group < self.walk.layout.groups).then_some(group)
    }

    /// A random detour that starts at the first switch of a packet; none where there is no third group or switch.
    #[inline(always)]
    pub(super) fn random(&self, at: Location, home: Location, head: &Head, draw: u32) -> Option<Candidate> {
        let layout = &self.walk.layout;
        if at.group != home.group {
            let group = other(draw, layout.groups, at.group, home.group)?;
            let way = self.walk.cross(at, group, head, note(group));
            // Then to the gateway of that group, to the last group and to the last switch; in a dragonfly+ by a leaf first.
            return Some(Candidate { links: way.links + if layout.plus() { 3 } else { 2 }, ..way });
        }
        if at.position == home.position || layout.plus() {
            return None;
        }
        let switch = other(draw, layout.edges, at.position, home.position)?;
        Some(Candidate { hop: self.walk.local_hop(at, switch, head, 0), gate: None, links: 2 })
    }

    /// Every detour that a packet may start on at its first switch.
    pub(super) fn random_options(&self, at: Location, home: Location, head: &Head, visit: &mut dyn FnMut(Hop)) {
        let layout = &self.walk.layout;
        if at.group != home.group {
            let groups = (0..layout.groups).filter(|&group| group != at.group && group != home.group);
            groups.for_each(|group| self.walk.cross_options(at, group, head, note(group), visit));
        } else if at.position != home.position && !layout.plus() {
            let switches = (0..layout.edges).filter(|&switch| switch != at.position && switch != home.position);
            switches.for_each(|switch| self.walk.local_options(at, switch, head, 0, visit));
        }
    }

    /// Where the packet stands and where it goes.
    #[inline(always)]
    pub(super) fn places(&self, at: SwitchId, head: &Head) -> (Location, Location) {
        self.walk.places(at, head)
    }
}

/// What a packet carries on its way to the group of its detour: 16 bits suffice, for g groups have at least g · (g - 1)
/// global ports, and a fabric at most 2²⁸ ports of any kind.
#[inline(always)]
pub(super) fn note(group: u32) -> u16 {
    (group + 1) as u16
}

/// 32 random bits for a packet at its first switch, by its input too: the sources of a pattern must not draw alike.
#[inline(always)]
pub(super) fn draw(head: &Head, salt: u32) -> u32 {
    hash(u64::from(head.dest.0) << 32 | u64::from(head.entropy), head.input.0 ^ salt)
}

/// A random number below `count` that is neither of two different ones; none where there are no others.
#[inline(always)]
fn other(draw: u32, count: u32, one: u32, two: u32) -> Option<u32> {
    let left = count.checked_sub(2).filter(|&left| left > 0)?;
    let (low, high) = (one.min(two), one.max(two));
    let mut number = below(draw, left);
    number += u32::from(number >= low);
    number += u32::from(number >= high);
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_others_are_drawn_alike() {
        for (one, two) in [(0, 4), (4, 0), (2, 3), (1, 0)] {
            let mut drawn = [0; 5];
            (0..3000u32).for_each(|step| drawn[other(step.wrapping_mul(0x9e37_79b9), 5, one, two).unwrap() as usize] += 1);
            assert_eq!((drawn[one as usize], drawn[two as usize]), (0, 0));
            assert!(drawn.iter().filter(|&&count| (990..=1010).contains(&count)).count() == 3, "{drawn:?}");
        }
        assert_eq!((other(7, 2, 0, 1), other(7, 1, 0, 0)), (None, None));
    }
}
