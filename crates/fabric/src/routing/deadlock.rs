//! Whether packets can wait for each other in a circle.
//!
//! A packet that holds the buffer behind a link and waits for the next link is an arrow from the one (link, lane) to the
//! other. Where no circle of arrows exists, some packet can always move: the routing is free of deadlock. The arrows are
//! those of every way that a routing could ever choose, so the verdict holds for adaptive and random routings as well.
//!
//! Source: W. Dally and C. Seitz, "Deadlock-free message routing in multiprocessor interconnection networks", IEEE Trans.
//! Computers 36(5), 1987 (the theorem); for adaptive routings the condition is sufficient, not necessary
//! (J. Duato, IEEE Trans. Parallel Distrib. Syst. 4(12), 1993), unless the routing names its escape lanes.
//! Modelled: all sources, all destinations, all options. Not modelled: requests and replies that wait for each other at
//! endpoints: NICs always take in what arrives.

use rustc_hash::FxHashSet;

use super::{Head, Hop, Route};
use crate::graph::{EndpointId, LinkId, Node};
use crate::topology::Fabric;

/// Whether a routing can deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No circle among the arrows between so many (link, lane) pairs: all of them were looked at.
    Free {
        /// Pairs of link and lane that some packet uses.
        channels: usize,
        /// Arrows between them.
        dependencies: usize,
    },
    /// The construction guarantees it, for this reason.
    ByConstruction(&'static str),
    /// Packets that hold each of these may wait for the next, and the last for the first.
    Circle(Vec<Hop>),
    /// Too large to look at all of it.
    Unknown {
        /// Destinations × links that would have to be looked at.
        work: u64,
    },
}

impl Verdict {
    /// Whether deadlock is excluded.
    pub fn is_free(&self) -> bool {
        matches!(self, Verdict::Free { .. } | Verdict::ByConstruction(_))
    }

    /// In words, links by the names of their ends.
    pub fn describe(&self, fabric: &Fabric) -> String {
        match self {
            Verdict::Free { channels, dependencies } => {
                format!("free of deadlock: no circle among {dependencies} dependencies of {channels} (link, lane) pairs")
            }
            Verdict::ByConstruction(reason) => format!("free of deadlock by construction: {reason}"),
            Verdict::Unknown { work } => format!("not known: {work} steps are too many to look at"),
            Verdict::Circle(hops) => {
                let name = |hop: &Hop| {
                    let link = fabric.graph.link(hop.link);
                    let end = |vertex| fabric.name(fabric.graph.node(vertex));
                    format!("  {} -> {} on lane {}\n", end(link.from), end(link.to), hop.vl)
                };
                let list: String = hops.iter().take(MOST_LINES).map(name).collect();
                let more = if hops.len() > MOST_LINES { format!("  … and {} more\n", hops.len() - MOST_LINES) } else { String::new() };
                format!("can deadlock: packets wait for each other around {} links\n{list}{more}", hops.len())
            }
        }
    }
}

/// Links of a circle that are spelled out.
const MOST_LINES: usize = 24;

/// What an engine asks: the construction's guarantee, else a look at everything where that is at most 2²⁶ steps (seconds).
pub fn verdict(fabric: &Fabric, route: &impl Route) -> Verdict {
    let work = u64::from(fabric.graph.endpoint_count()) * u64::from(fabric.graph.link_count());
    match route.proof() {
        Some(reason) => Verdict::ByConstruction(reason),
        None if work > MOST_WORK => Verdict::Unknown { work },
        None => check(fabric, route),
    }
}

/// Destinations × links that [`verdict`] looks at. Basis: measured, some seconds.
const MOST_WORK: u64 = 1 << 26;

/// Looks at every way from every source to every destination.
pub fn check(fabric: &Fabric, route: &impl Route) -> Verdict {
    check_to(fabric, route, fabric.graph.endpoints())
}

/// Looks at every way from every source to the destinations given.
pub fn check_to(fabric: &Fabric, route: &impl Route, destinations: impl Iterator<Item = EndpointId>) -> Verdict {
    let lanes = u32::from(route.lanes());
    let mut arrows = Arrows::default();
    let mut seen = FxHashSet::default();
    let mut open: Vec<Hop> = Vec::new();
    for dest in destinations {
        seen.clear();
        for source in fabric.graph.endpoints().filter(|&source| source != dest) {
            open.push(Hop { link: fabric.graph.uplink(source), vl: 0, via: 0 });
        }
        while let Some(held) = open.pop() {
            let Node::Switch(at) = fabric.graph.node(fabric.graph.link(held.link).to) else { continue };
            let head = Head { dest, entropy: 0, input: held.link, vl: held.vl, via: held.via };
            route.options(at, head, &mut |hop| {
                // A hop that does not leave the switch is a mistake that `delivers` reports.
                let leaves =
                    fabric.graph.links().get(hop.link.index()).is_some_and(|link| link.from == fabric.graph.vertex(Node::Switch(at)));
                if !leaves || hop.vl >= route.lanes() {
                    return;
                }
                arrows.add(held.link.0 * lanes + u32::from(held.vl), hop.link.0 * lanes + u32::from(hop.vl));
                if seen.insert((hop.link.0, hop.vl, hop.via)) {
                    open.push(hop);
                }
            });
        }
    }
    arrows.verdict(fabric.graph.link_count() * lanes, lanes)
}

/// Who waits for whom.
#[derive(Default)]
struct Arrows {
    /// Sorted and without repetition up to `clean`.
    all: Vec<(u32, u32)>,
    clean: usize,
}

impl Arrows {
    fn add(&mut self, held: u32, wanted: u32) {
        self.all.push((held, wanted));
        if self.all.len() > 2 * self.clean + (1 << 16) {
            self.tidy();
        }
    }
    fn tidy(&mut self) {
        self.all.sort_unstable();
        self.all.dedup();
        self.clean = self.all.len();
    }

    /// Takes away what nobody waits for until nothing is left, or a circle (Kahn's algorithm).
    fn verdict(mut self, channels: u32, lanes: u32) -> Verdict {
        self.tidy();
        let mut first = vec![0u32; channels as usize + 1];
        let mut waiting = vec![0u32; channels as usize];
        let mut used = vec![false; channels as usize];
        for &(held, wanted) in &self.all {
            first[held as usize + 1] += 1;
            waiting[wanted as usize] += 1;
            used[held as usize] = true;
            used[wanted as usize] = true;
        }
        for channel in 0..channels as usize {
            first[channel + 1] += first[channel];
        }
        let wanted = |channel: u32| &self.all[first[channel as usize] as usize..first[channel as usize + 1] as usize];
        let mut free: Vec<u32> = (0..channels).filter(|&channel| waiting[channel as usize] == 0).collect();
        let mut left = channels;
        while let Some(held) = free.pop() {
            left -= 1;
            for &(_, wanted) in wanted(held) {
                waiting[wanted as usize] -= 1;
                if waiting[wanted as usize] == 0 {
                    free.push(wanted);
                }
            }
        }
        if left == 0 {
            let channels = used.iter().filter(|&&used| used).count();
            return Verdict::Free { channels, dependencies: self.all.len() };
        }
        // What is left is waited for by something that is left: going backwards never ends, so it meets itself.
        let mut before = vec![u32::MAX; channels as usize];
        for &(held, wanted) in self.all.iter().rev() {
            if waiting[held as usize] > 0 && waiting[wanted as usize] > 0 {
                before[wanted as usize] = held;
            }
        }
        let start = waiting.iter().position(|&waiting| waiting > 0).unwrap_or(0) as u32;
        let mut place = vec![u32::MAX; channels as usize];
        let mut way = Vec::new();
        let mut at = start;
        while place[at as usize] == u32::MAX {
            place[at as usize] = way.len() as u32;
            way.push(at);
            at = before[at as usize];
        }
        let hop = |&channel: &u32| Hop { link: LinkId(channel / lanes), vl: (channel % lanes) as u8, via: 0 };
        Verdict::Circle(way[place[at as usize] as usize..].iter().rev().map(hop).collect())
    }
}
