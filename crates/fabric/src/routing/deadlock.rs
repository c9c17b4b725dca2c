//! Whether packets can wait for each other in a cycle.
//!
//! A packet that holds the buffer behind one (link, lane) and wants another makes the first depend on the second.
//! Without a cycle of such dependencies no set of packets can block itself. All heads that can ever stand at a switch
//! are visited: from every source, for every destination, through every hop that [`Route::options`] lists.
//!
//! Source: W. Dally and C. Seitz, "Deadlock-free message routing in multiprocessor interconnection networks", IEEE
//! Trans. Computers 36(5), 1987, theorem 1.
//! Modelled: lanes, notes in packets, adaptive choice (every option counts).
//! Not modelled: escape lanes of adaptive routings (J. Duato 1993), which may keep a network free in spite of a cycle;
//! deadlocks that need the endpoints (requests that wait for responses).

use rustc_hash::FxHashSet;

use super::{Head, Hop, Route};
use crate::graph::{EndpointId, Graph, LinkId, Node, SwitchId};
use crate::topology::Fabric;

/// What is known about cycles of waiting packets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// All heads were visited; nothing can wait for itself.
    Free {
        /// (link, lane) pairs that some packet can hold.
        channels: u64,
        /// Pairs of them where the holder of one can want the other.
        dependencies: u64,
    },
    /// Not visited: the construction keeps every member of the family free, for this reason.
    ByConstruction(&'static str),
    /// Each hop can wait for the next, and the last for the first.
    Cycle(Vec<Hop>),
    /// Neither known by construction nor small enough to be visited.
    Unknown {
        /// Hops that a visit would have to look at, about.
        work: u64,
    },
}

impl Verdict {
    /// Whether a cycle is excluded.
    pub const fn is_free(&self) -> bool {
        matches!(self, Verdict::Free { .. } | Verdict::ByConstruction(_))
    }

    /// In words; a cycle with the names of its switches, its ports and lanes, one line for each hop.
    #[must_use]
    pub fn describe(&self, fabric: &Fabric) -> String {
        match self {
            Verdict::Free { channels, dependencies } => {
                format!("free of deadlock: acyclic channel dependency graph ({dependencies} dependencies, {channels} channels)")
            }
            Verdict::ByConstruction(reason) => format!("free of deadlock by construction: {reason}"),
            Verdict::Unknown { work } => format!("not known: about {work} hops are too many to look at"),
            Verdict::Cycle(hops) => {
                let list: String = hops.iter().take(MOST_LINES).map(|hop| spell(fabric, hop)).collect();
                let more = if hops.len() > MOST_LINES { format!("  ... and {} more\n", hops.len() - MOST_LINES) } else { String::new() };
                format!("can deadlock: packets wait for each other around {} links\n{list}{more}", hops.len())
            }
        }
    }
}

/// A hop with the names of its ends; its port counted from 1, as it is printed on switches.
fn spell(fabric: &Fabric, hop: &Hop) -> String {
    let link = fabric.graph.link(hop.link);
    let name = |vertex| fabric.name(fabric.graph.node(vertex));
    format!("  {} -> {} on lane {} (port {})\n", name(link.from), name(link.to), hop.vl, link.from_port.0 + 1)
}

/// Visits all heads and decides: [`Verdict::Free`] or [`Verdict::Cycle`].
///
/// Time grows with endpoints × (endpoints + links × lanes × notes) × options per head, memory with links × ports × lanes².
/// Hops that leave from elsewhere or on a lane that was not announced are left out; [`super::delivers`] reports them.
#[must_use]
pub fn check(fabric: &Fabric, route: &impl Route) -> Verdict {
    visit(fabric, route, fabric.graph.endpoints(), u64::MAX)
}

/// The same for packets to some destinations only, as far as the budget for [`delivers`](super::delivers) goes: a cycle
/// found is one; freedom holds for those destinations.
pub(super) fn sample(fabric: &Fabric, route: &impl Route, destinations: impl ExactSizeIterator<Item = EndpointId>) -> Verdict {
    visit(fabric, route, destinations, 4 * FEW)
}

/// What can be known in seconds: all heads are visited where that takes few hops (some 2²²: well below a second); else the
/// construction is believed; where there is nothing to believe they are visited as far as 2²⁹ hops go.
#[must_use]
pub fn verdict(fabric: &Fabric, route: &impl Route) -> Verdict {
    let least = least(fabric);
    match route.proof() {
        Some(proof) if least > FEW => Verdict::ByConstruction(proof),
        Some(proof) => match visit(fabric, route, fabric.graph.endpoints(), 4 * FEW) {
            Verdict::Unknown { .. } => Verdict::ByConstruction(proof),
            known => known,
        },
        None if least > MANY => Verdict::Unknown { work: least },
        None => visit(fabric, route, fabric.graph.endpoints(), MANY),
    }
}

/// Hops that a visit looks at whatever the routing: each source once for each destination.
fn least(fabric: &Fabric) -> u64 {
    let endpoints = u64::from(fabric.graph.endpoint_count());
    endpoints * (endpoints + u64::from(fabric.graph.switch_count()))
}

fn visit(fabric: &Fabric, route: &impl Route, destinations: impl ExactSizeIterator<Item = EndpointId>, budget: u64) -> Verdict {
    let graph = &fabric.graph;
    let all = destinations.len() as u64;
    let mut walk = Walk::new(graph, route.lanes().max(1), route.options_by_input());
    for (done, dest) in destinations.enumerate() {
        if !walk.towards(graph, route, dest, budget) {
            // What is left costs as much for each destination as those before.
            return Verdict::Unknown { work: walk.hops / (done as u64 + 1) * all };
        }
    }
    match walk.waits.cycle(graph) {
        Some(cycle) => Verdict::Cycle(cycle),
        None => Verdict::Free { channels: walk.waits.held(graph), dependencies: walk.waits.count() },
    }
}

/// Visits the heads of one destination after the other.
struct Walk {
    waits: Waits,
    /// By channel: the last destination, counted from 1, that a packet without a note was there for.
    seen: Vec<u32>,
    /// Channels with notes visited for this destination.
    noted: FxHashSet<(u32, u16)>,
    stack: Vec<Hop>,
    found: Vec<Hop>,
    /// By switch and lane, for packets without a note: what all heads that stand there want, where that is the same for all.
    alike: Vec<Alike>,
    /// The rows that [`Alike`] has for this destination.
    rows: Vec<u64>,
    hops: u64,
}

/// What heads of one lane at one switch want.
#[derive(Clone, Copy, Default)]
struct Alike {
    /// The destination, counted from 1, that it holds for.
    dest: u32,
    /// Where its row begins in [`Walk::rows`].
    row: u32,
    /// Hops that were looked at for it.
    hops: u32,
}

impl Walk {
    fn new(graph: &Graph, lanes: u8, by_input: bool) -> Walk {
        let waits = Waits::new(graph, lanes);
        let seen = vec![0; graph.link_count() as usize * usize::from(lanes)];
        let alike = if by_input { Vec::new() } else { vec![Alike::default(); graph.switch_count() as usize * usize::from(lanes)] };
        Walk { waits, seen, noted: FxHashSet::default(), stack: Vec::new(), found: Vec::new(), alike, rows: Vec::new(), hops: 0 }
    }

    /// Visits all heads of packets to `dest`; whether the budget was enough.
    fn towards(&mut self, graph: &Graph, route: &impl Route, dest: EndpointId, budget: u64) -> bool {
        self.noted.clear();
        self.rows.clear();
        for src in graph.endpoints().filter(|&src| src != dest) {
            self.enter(Hop { link: graph.uplink(src), vl: 0, via: 0 }, dest);
        }
        while let Some(held) = self.stack.pop() {
            let Node::Switch(at) = graph.node(graph.link(held.link).to) else { continue };
            let alike = if held.via == 0 { at.index() * self.waits.lanes + usize::from(held.vl) } else { usize::MAX };
            match self.alike.get(alike) {
                Some(known) if known.dest == dest.0 + 1 => {
                    self.waits.add(held, &self.rows[known.row as usize..]);
                    self.hops += u64::from(known.hops);
                }
                _ => self.head(graph, route, dest, (at, held), alike),
            }
            if self.hops > budget {
                return false;
            }
        }
        true
    }

    /// Visits one head, and remembers what it wants for those that are alike.
    fn head(&mut self, graph: &Graph, route: &impl Route, dest: EndpointId, (at, held): (SwitchId, Hop), alike: usize) {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let head = Head { dest, entropy: 0, input: held.link, vl: held.vl, via: held.via };
        route.options(at, head, &mut |hop| found.push(hop));
        let hops = found.len() as u32 + 1;
        let row = self.rows.len();
        self.rows.resize(row + self.waits.words(held.link), 0);
        for &wanted in &found {
            if let Some(slot) = self.waits.slot(graph, at, wanted) {
                self.rows[row + slot / 64] |= 1 << (slot % 64);
                self.enter(wanted, dest);
            }
        }
        self.waits.add(held, &self.rows[row..]);
        match self.alike.get_mut(alike) {
            Some(known) => *known = Alike { dest: dest.0 + 1, row: row as u32, hops },
            None => self.rows.truncate(row),
        }
        self.hops += u64::from(hops);
        self.found = found;
    }

    /// Takes a head up unless it was there before.
    fn enter(&mut self, hop: Hop, dest: EndpointId) {
        let channel = self.waits.channel(hop);
        let new = match hop.via {
            0 => std::mem::replace(&mut self.seen[channel], dest.0 + 1) != dest.0 + 1,
            note => self.noted.insert((channel as u32, note)),
        };
        if new {
            self.stack.push(hop);
        }
    }
}

/// Which channel can wait for which: for each channel into a switch a row with one bit per output port and lane.
struct Waits {
    lanes: usize,
    /// By link: the first word of its first row; the lanes of a link follow each other.
    first: Vec<usize>,
    bits: Vec<u64>,
}

impl Waits {
    fn new(graph: &Graph, lanes: u8) -> Waits {
        let lanes = usize::from(lanes);
        let mut first = Vec::with_capacity(graph.links().len() + 1);
        let mut total = 0;
        for link in graph.links() {
            first.push(total);
            if let Node::Switch(at) = graph.node(link.to) {
                total += lanes * (lanes * usize::from(graph.port_count(at))).div_ceil(64);
            }
        }
        first.push(total);
        Waits { lanes, first, bits: vec![0; total] }
    }

    fn channel(&self, hop: Hop) -> usize {
        hop.link.index() * self.lanes + usize::from(hop.vl)
    }

    /// The bit of a hop in the rows of the channels into a switch; none where it is no hop from there.
    fn slot(&self, graph: &Graph, at: SwitchId, wanted: Hop) -> Option<usize> {
        let link = graph.links().get(wanted.link.index())?;
        let leaves = link.from == graph.vertex(Node::Switch(at)) && usize::from(wanted.vl) < self.lanes;
        leaves.then(|| usize::from(link.from_port.0) * self.lanes + usize::from(wanted.vl))
    }

    /// Notes that `held` can wait for all in `row`.
    fn add(&mut self, held: Hop, row: &[u64]) {
        let words = self.words(held.link);
        let start = self.first[held.link.index()] + usize::from(held.vl) * words;
        self.bits[start..start + words].iter_mut().zip(row).for_each(|(bits, new)| *bits |= new);
    }

    /// Words of each row of a link.
    fn words(&self, link: LinkId) -> usize {
        (self.first[link.index() + 1] - self.first[link.index()]) / self.lanes
    }

    /// The first channel from `slot` on that the holder of `channel` can want, with its slot.
    fn wanted(&self, graph: &Graph, channel: usize, slot: usize) -> Option<(usize, usize)> {
        let (link, vl) = (LinkId((channel / self.lanes) as u32), channel % self.lanes);
        let Node::Switch(at) = graph.node(graph.link(link).to) else { return None };
        let words = self.words(link);
        let start = self.first[link.index()] + vl * words;
        let row = &self.bits[start..start + words];
        let mut slot = slot;
        while slot < 64 * words {
            let word = row[slot / 64] >> (slot % 64);
            if word == 0 {
                slot = (slot / 64 + 1) * 64;
                continue;
            }
            slot += word.trailing_zeros() as usize;
            let port = crate::graph::PortId((slot / self.lanes) as u16);
            let out = graph.out_link(at, port).expect("only hops over links of the switch were added");
            return Some((slot, out.index() * self.lanes + slot % self.lanes));
        }
        None
    }

    /// All channels that the holder of `channel` can want.
    fn all_wanted<'a>(&'a self, graph: &'a Graph, channel: usize) -> impl Iterator<Item = usize> + 'a {
        let mut slot = 0;
        std::iter::from_fn(move || {
            let (found, wanted) = self.wanted(graph, channel, slot)?;
            slot = found + 1;
            Some(wanted)
        })
    }

    fn count(&self) -> u64 {
        self.bits.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Channels of which some packet wants another one.
    fn held(&self, graph: &Graph) -> u64 {
        let channels = (self.first.len() - 1) * self.lanes;
        (0..channels).filter(|&channel| self.wanted(graph, channel, 0).is_some()).count() as u64
    }

    /// A short cycle, if there is one: a depth-first search finds where one closes, a breadth-first search the
    /// shortest one through there.
    fn cycle(&self, graph: &Graph) -> Option<Vec<Hop>> {
        const NEW: u8 = 0;
        const OPEN: u8 = 1;
        const DONE: u8 = 2;
        let channels = (self.first.len() - 1) * self.lanes;
        let mut state = vec![NEW; channels];
        let mut open: Vec<(usize, usize)> = Vec::new();
        for start in 0..channels {
            if state[start] != NEW {
                continue;
            }
            state[start] = OPEN;
            open.push((start, 0));
            while let Some((channel, slot)) = open.last_mut() {
                match self.wanted(graph, *channel, *slot) {
                    None => {
                        state[*channel] = DONE;
                        open.pop();
                    }
                    Some((found, wanted)) => {
                        *slot = found + 1;
                        match state[wanted] {
                            OPEN => return Some(self.shortest(graph, wanted)),
                            NEW => {
                                state[wanted] = OPEN;
                                open.push((wanted, 0));
                            }
                            _ => {}
                        }
                    }
                }
            }
        }
        None
    }

    /// The shortest cycle through a channel that lies on one.
    fn shortest(&self, graph: &Graph, start: usize) -> Vec<Hop> {
        const UNSEEN: usize = usize::MAX;
        let mut before = vec![UNSEEN; (self.first.len() - 1) * self.lanes];
        let mut frontier = std::collections::VecDeque::from([start]);
        while let Some(channel) = frontier.pop_front() {
            for wanted in self.all_wanted(graph, channel) {
                if before[wanted] != UNSEEN {
                    continue;
                }
                before[wanted] = channel;
                if wanted == start {
                    frontier.clear();
                    break;
                }
                frontier.push_back(wanted);
            }
        }
        let hop = |channel: usize| Hop { link: LinkId((channel / self.lanes) as u32), vl: (channel % self.lanes) as u8, via: 0 };
        let mut cycle = vec![hop(start)];
        let mut channel = before[start];
        while channel != start {
            cycle.push(hop(channel));
            channel = before[channel];
        }
        cycle[1..].reverse();
        cycle
    }
}

/// Links of a cycle that are spelled out.
const MOST_LINES: usize = 24;
/// Hops that are visited although the construction promises freedom: well below a second.
const FEW: u64 = 4 << 20;
/// Hops that are visited where nothing is promised: seconds.
const MANY: u64 = 512 << 20;
