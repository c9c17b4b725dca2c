//! Up to the lowest common level, down again: the walk through a tree that all tree routings share.
//!
//! At a switch with the destination below it, the destination's digit of that level selects the child;
//! else the algorithm selects the up port. Where several cables lead to one child, the packet takes the
//! one that the algorithm would take up from that child: the way down mirrors the way up. Links are
//! computed from the numbering of [`crate::topology::tree`]; the only loads are 20 bytes per switch and
//! one small record per level.
//!
//! Source: Zahavi 2012 (see [`crate::topology::tree`]). Up*/down* order keeps one lane free of deadlock.
//! Not modelled: dead links.

use std::marker::PhantomData;

use super::family::{Prepare, family};
use super::{Head, Hop, Route, Routing, RoutingError, SwitchView};
use crate::divisor::Divisor;
use crate::graph::{EndpointId, LinkId, SwitchId};
use crate::topology::{Fabric, Tree};

family! {
    /// A routing of trees on one fabric.
    pub(super) enum Router of Tree {
        adaptive: Adaptive => adaptive::Adaptive, Flowlet => adaptive::Adaptive;
        d_mod_k: DModK => Walk<d_mod_k::DModK>;
        ecmp: Ecmp => Walk<ecmp::Ecmp>;
        spray: Spray => Walk<spray::Spray>;
    }
}

/// How an algorithm selects the way up.
pub(super) trait Climb {
    /// The destination alone selects the way.
    const FIXED: bool;
    /// The up port, 0 … `stair.ports` - 1, of a packet at a vertex of the stair's level.
    fn select(stair: &Stair, head: &Head) -> u32;
}

/// What the ports that lead up from one level look like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stair {
    /// w · p: up ports of a vertex of this level.
    pub(super) ports: Divisor,
    /// w: parents of a vertex of this level.
    parents: Divisor,
    /// W: copies of each subtree of this level.
    pub(super) copies: Divisor,
    /// The product of the up ports of the levels between the endpoints and this one.
    pub(super) ports_below: Divisor,
    /// Counted from 0 at the endpoints.
    pub(super) level: u32,
}

/// A switch as routing sees it.
#[derive(Clone, Copy, Debug)]
struct SwitchEntry {
    /// First endpoint of its subtree.
    first: u32,
    /// Endpoints in its subtree.
    span: u32,
    /// The cable of up port 0.
    up: u32,
    /// The first cable to child 0.
    down: u32,
    level: u32,
}

/// What the switches of a level have in common.
#[derive(Clone, Copy, Debug)]
struct Floor {
    /// Endpoints below each child.
    child: Divisor,
    /// From the first cable to a child to the first cable to the next.
    stride: u32,
    /// Whether several cables lead to each child.
    parallel: bool,
    /// The way up from the children, mirrored on the way down.
    below: Stair,
    /// The way up.
    above: Stair,
}

/// The links among which a packet may choose at a switch: every `step`-th from `first`.
#[derive(Clone, Copy, Debug)]
struct Choices {
    first: u32,
    step: u32,
    count: u32,
}

impl Choices {
    #[inline(always)]
    fn link(self, place: u32) -> LinkId {
        LinkId(self.first + self.step * place)
    }
}

/// A tree routing that climbs by `C`.
#[derive(Clone, Debug)]
pub(super) struct Walk<C> {
    stands: Vec<SwitchEntry>,
    floors: Vec<Floor>,
    /// Where endpoints do not stand in the order of their numbers.
    rails: Option<Order>,
    climb: PhantomData<C>,
}

/// The places of endpoints by rail (see [`crate::topology::tree::Rails`]).
#[derive(Clone, Copy, Debug)]
struct Order {
    rails: Divisor,
    nodes: Divisor,
}

impl Order {
    #[inline]
    fn slot(&self, endpoint: u32) -> u32 {
        let (node, rail) = (self.rails.quotient(endpoint), self.rails.remainder(endpoint));
        (self.nodes.quotient(node) * self.rails.get() + rail) * self.nodes.get() + self.nodes.remainder(node)
    }
}

impl<C: Climb> Walk<C> {
    /// The head with the place of its destination.
    #[inline(always)]
    fn placed(&self, head: Head) -> Head {
        match &self.rails {
            None => head,
            Some(order) => Head { dest: EndpointId(order.slot(head.dest.0)), ..head },
        }
    }

    /// All shortest ways from a switch: any port up, or any of the cables to the child.
    #[inline]
    fn ways(&self, at: SwitchId, head: &Head) -> Choices {
        let dest = self.placed(*head).dest.0;
        let stand = &self.stands[at.index()];
        let floor = &self.floors[stand.level as usize - 1];
        let below = dest.wrapping_sub(stand.first);
        if below < stand.span {
            let parents = floor.below.parents.get();
            let cable = stand.down + floor.child.quotient(below) * floor.stride;
            Choices { first: cable * 2 + 1, step: parents * 2, count: floor.below.ports.get() / parents }
        } else {
            Choices { first: stand.up * 2, step: 2, count: floor.above.ports.get() }
        }
    }

    fn new(tree: &Tree) -> Walk<C> {
        let stairs: Vec<Stair> = (0..=tree.height()).map(|level| stair(tree, level)).collect();
        let floor = |level: u32| {
            let (below, above) = (stairs[level as usize - 1], stairs[level as usize]);
            let stride = below.copies.get() * below.ports.get();
            Floor { child: Divisor::new(clamp(tree.span(level - 1))), stride, parallel: tree.level(level).cables > 1, below, above }
        };
        let floors = (1..=tree.height()).map(floor).collect();
        let stands = (0..tree.first_switch(tree.height() + 1)).map(|switch| stand(tree, SwitchId(switch))).collect();
        let rails = tree.rails().map(|rails| Order { rails: Divisor::new(rails.rails), nodes: Divisor::new(rails.nodes) });
        Walk { stands, floors, rails, climb: PhantomData }
    }
}

impl<C: Climb> Prepare<Tree> for Walk<C> {
    fn prepare(_: &Fabric, tree: &Tree, _: Routing) -> Result<Walk<C>, RoutingError> {
        Ok(Walk::new(tree))
    }
}

impl<C: Climb> Route for Walk<C> {
    #[inline(always)]
    fn output(&self, at: SwitchId, head: Head, _: &mut impl SwitchView) -> Hop {
        let head = self.placed(head);
        let stand = &self.stands[at.index()];
        let floor = &self.floors[stand.level as usize - 1];
        let below = head.dest.0.wrapping_sub(stand.first);
        // Both ways are computed and one is selected: random destinations make a branch here a coin toss.
        let up = stand.up.wrapping_add(C::select(&floor.above, &head)).wrapping_mul(2);
        let mut cable = stand.down.wrapping_add(floor.child.quotient(below).wrapping_mul(floor.stride));
        if floor.parallel {
            let port = C::select(&floor.below, &head);
            cable = cable.wrapping_add(port - floor.below.parents.remainder(port));
        }
        let down = cable.wrapping_mul(2) | 1;
        let link = LinkId(std::hint::select_unpredictable(below < stand.span, down, up));
        Hop { link, vl: head.vl, via: 0 }
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        if C::FIXED {
            return visit(self.output(at, head, &mut super::Idle::new()));
        }
        let ways = self.ways(at, &head);
        (0..ways.count).for_each(|place| visit(Hop { link: ways.link(place), vl: head.vl, via: 0 }));
    }
    fn options_by_input(&self) -> bool {
        false
    }
    fn lanes(&self) -> u8 {
        1
    }
    fn longest(&self) -> u32 {
        2 * self.floors.len() as u32
    }
    fn proof(&self) -> Option<&'static str> {
        Some("every path climbs, then descends: links up come before links down, and each by its level")
    }
}

/// The top has no way up; its stair is one port wide and never taken.
fn stair(tree: &Tree, level: u32) -> Stair {
    let top = level == tree.height();
    let ports = |level: u32| tree.up_ports(level);
    Stair {
        ports: Divisor::new(if top { 1 } else { ports(level) }),
        parents: Divisor::new(if top { 1 } else { tree.level(level + 1).parents }),
        copies: Divisor::new(clamp(tree.copies(level))),
        ports_below: Divisor::new(clamp((1..level).fold(1, |all, level| u64::from(ports(level)).saturating_mul(all)))),
        level,
    }
}

fn stand(tree: &Tree, switch: SwitchId) -> SwitchEntry {
    let place = tree.place(switch);
    let (level, below) = (place.level, place.level - 1);
    let index = switch.0 - tree.first_switch(level);
    let (copies_below, ports_below) = (tree.copies(below) as u32, tree.up_ports(below));
    // The first child is copy `copy mod W` of the first subtree below; this switch is its parent number `copy div W`.
    let first_child = place.subtree as u64 * u64::from(tree.level(level).children) * u64::from(copies_below);
    let child = first_child as u32 + place.copy % copies_below;
    let up = if level < tree.height() { tree.first_cable(level) + index * tree.up_ports(level) } else { 0 };
    SwitchEntry {
        first: (u64::from(place.subtree) * tree.span(level)) as u32,
        span: clamp(tree.span(level)),
        up,
        down: tree.first_cable(below) + child * ports_below + place.copy / copies_below,
        level,
    }
}

/// Spans beyond 32 bits hold all endpoints there can be.
fn clamp(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
