//! Links, flows on them, and their max-min fair rates, solved again only where something changed.
//!
//! A flow uses each link of its paths with a weight: 1 on a single path, less where it is spread over several. Its rate
//! is right when one of its links is full and no flow there has a higher rate: that link is its bottleneck.
//!
//! When flows come or go, the flows that this may concern are solved with all others held as they are (progressive
//! filling over a heap of links by the share they offer). Then the links that were touched are looked at: where a flow
//! outside has lost its bottleneck, or has more than one inside that is held back by the same link, it joins them and
//! they are solved again, until nobody is wronged. What comes out is the one max-min fair allocation, however few flows
//! were looked at: the condition holds for every flow, and it has one solution.
//!
//! Source: Bertsekas and Gallager 1992, §6.5.2 (progressive filling, bottleneck condition).
//! Numbers: rates in bytes per picosecond as f64, with +, −, ×, ÷ in a fixed order: the same bits on every machine.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A flow in a [`Network`]; numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// No entry.
const NONE: u32 = u32::MAX;
/// Marks a link that a new flow uses.
const FRESH: u32 = 1 << 31;
/// Rates that differ by less than this share of themselves are the same: several hundred roundings.
const SAME: f64 = 1e-12;

/// A use of a link by a flow: a member of the link's list.
#[derive(Clone, Copy, Debug)]
struct Use {
    link: u32,
    next: u32,
    previous: u32,
    weight: f64,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    rate: f64,
    /// Before the solution in progress.
    old: f64,
    /// The link that holds it back.
    bottleneck: u32,
    /// Its uses are `first_use .. first_use + uses`.
    uses: u32,
    /// The solution that it last took part in, and whether its rate there is settled.
    epoch: u32,
    settled: bool,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    capacity: f64,
    /// First of the list of uses.
    head: u32,
    /// Flows on it.
    flows: u32,
    /// The solution that it last took part in, and its place there.
    epoch: u32,
    place: u32,
}

/// A link in the solution in progress.
#[derive(Clone, Copy, Debug)]
struct Part {
    link: u32,
    /// What the flows that are not being solved, or are settled, leave.
    left: f64,
    /// Weight of the flows that are still to be settled.
    weight: f64,
    /// The highest rate of those that it holds back; below zero while it holds back none.
    level: f64,
}

/// Links and the flows on them.
#[derive(Debug, Default)]
pub struct Network {
    links: Vec<Link>,
    flows: Vec<Flow>,
    uses: Vec<Use>,
    /// Uses that each flow has room for.
    stride: u32,
    free: Vec<u32>,
    epoch: u32,
    /// Links whose flows have to be looked at.
    dirty: Vec<u32>,
    /// Flows that came since the last solution.
    fresh: Vec<u32>,
    members: Vec<u32>,
    /// Flows that came and share no link: they need no solution.
    alone: Vec<u32>,
    parts: Vec<Part>,
    heap: BinaryHeap<Offer>,
}

/// The share that a link offers to each unit of weight; the smallest comes first, then the link with the smallest number.
#[derive(Clone, Copy, Debug)]
struct Offer {
    share: f64,
    part: u32,
}

impl PartialEq for Offer {
    fn eq(&self, other: &Offer) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Offer {}
impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Offer) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Offer {
    fn cmp(&self, other: &Offer) -> Ordering {
        other.share.total_cmp(&self.share).then(other.part.cmp(&self.part))
    }
}

impl Network {
    /// Links with these capacities in bytes per picosecond; flows use at most `stride` of them.
    #[must_use]
    pub fn new(capacities: impl IntoIterator<Item = f64>, stride: u32) -> Network {
        let link = |capacity| Link { capacity, head: NONE, flows: 0, epoch: 0, place: 0 };
        Network { links: capacities.into_iter().map(link).collect(), stride: stride.max(1), ..Network::default() }
    }

    /// A new flow over `path`: links, each once, and the share of the flow that uses them. Its rate is zero until
    /// [`Network::solve`].
    pub fn add(&mut self, path: &[(u32, f64)]) -> FlowId {
        debug_assert!(path.len() <= self.stride as usize && !path.is_empty());
        let id = self.free.pop().unwrap_or_else(|| {
            self.flows.push(Flow { rate: 0.0, old: 0.0, bottleneck: NONE, uses: 0, epoch: 0, settled: false });
            self.uses.resize(self.uses.len() + self.stride as usize, Use { link: NONE, next: NONE, previous: NONE, weight: 0.0 });
            self.flows.len() as u32 - 1
        });
        self.flows[id as usize] = Flow { rate: 0.0, old: 0.0, bottleneck: NONE, uses: path.len() as u32, epoch: 0, settled: false };
        let first = id * self.stride;
        for (index, &(link, weight)) in path.iter().enumerate() {
            let this = first + index as u32;
            let entry = &mut self.links[link as usize];
            let next = entry.head;
            self.uses[this as usize] = Use { link, next, previous: NONE, weight };
            if next != NONE {
                self.uses[next as usize].previous = this;
            }
            entry.head = this;
            entry.flows += 1;
        }
        self.fresh.push(id);
        FlowId(id)
    }

    /// Takes a flow away; the rates of others follow with the next [`Network::solve`].
    pub fn remove(&mut self, flow: FlowId) {
        let first = flow.0 * self.stride;
        for this in first..first + self.flows[flow.0 as usize].uses {
            let Use { link, next, previous, .. } = self.uses[this as usize];
            let entry = &mut self.links[link as usize];
            entry.flows -= 1;
            if previous == NONE {
                entry.head = next;
            } else {
                self.uses[previous as usize].next = next;
            }
            if next != NONE {
                self.uses[next as usize].previous = previous;
            }
            if entry.flows > 0 {
                self.dirty.push(link);
            }
        }
        // Usually it has been solved since it came, and nothing is fresh.
        if !self.fresh.is_empty() {
            self.fresh.retain(|&fresh| fresh != flow.0);
        }
        self.free.push(flow.0);
    }

    /// The rate of a flow in bytes per picosecond.
    #[inline]
    #[must_use]
    pub fn rate(&self, flow: FlowId) -> f64 {
        self.flows[flow.0 as usize].rate
    }

    /// Makes all rates max-min fair again; calls `changed` for each flow with another rate: flow, rate before, rate now.
    pub fn solve(&mut self, mut changed: impl FnMut(FlowId, f64, f64)) {
        self.epoch += 1;
        self.members.clear();
        self.alone.clear();
        self.begin();
        while !self.members.is_empty() {
            self.fill();
            if !self.widen() {
                break;
            }
        }
        for &flow in &self.alone {
            changed(FlowId(flow), 0.0, self.flows[flow as usize].rate);
        }
        for &member in &self.members {
            let Flow { rate, old, .. } = self.flows[member as usize];
            if rate.to_bits() != old.to_bits() {
                changed(FlowId(member), old, rate);
            }
        }
    }

    /// The flows that the changes concern at first sight.
    fn begin(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        let mut fresh = std::mem::take(&mut self.fresh);
        for &id in &fresh {
            let first = id * self.stride;
            let uses = first..first + self.flows[id as usize].uses;
            // Alone on all its links: the narrowest of them is its rate.
            let alone = uses.clone().all(|this| self.links[self.uses[this as usize].link as usize].flows == 1);
            if alone {
                let mut rate = f64::INFINITY;
                let mut bottleneck = NONE;
                for this in uses {
                    let Use { link, weight, .. } = self.uses[this as usize];
                    let share = self.links[link as usize].capacity / weight;
                    if share < rate {
                        (rate, bottleneck) = (share, link);
                    }
                }
                let flow = &mut self.flows[id as usize];
                (flow.rate, flow.bottleneck, flow.epoch) = (rate, bottleneck, self.epoch);
                self.alone.push(id);
                continue;
            }
            self.join(id);
            for this in uses {
                dirty.push(self.uses[this as usize].link | FRESH);
            }
        }
        dirty.sort_unstable();
        dirty.dedup();
        for &entry in &dirty {
            let link = entry & !FRESH;
            let Link { capacity, head, flows, .. } = self.links[link as usize];
            // Whoever has more than an equal share of a link that a flow enters may have to give; whoever was held back
            // by a link that a flow left may get more.
            let equal = capacity / f64::from(flows);
            let mut at = head;
            while at != NONE {
                let Use { next, weight, .. } = self.uses[at as usize];
                let other = at / self.stride;
                let Flow { rate, bottleneck, .. } = self.flows[other as usize];
                if if entry & FRESH != 0 { rate * weight > equal } else { bottleneck == link } {
                    self.join(other);
                }
                at = next;
            }
        }
        // Keep their room.
        dirty.clear();
        fresh.clear();
        (self.dirty, self.fresh) = (dirty, fresh);
    }

    /// `flow` takes part in the solution in progress.
    fn join(&mut self, flow: u32) {
        let entry = &mut self.flows[flow as usize];
        if entry.epoch != self.epoch {
            entry.epoch = self.epoch;
            entry.old = entry.rate;
            self.members.push(flow);
        }
    }

    /// Settles the rates of all members with those of all others held.
    fn fill(&mut self) {
        self.collect();
        let mut heap = std::mem::take(&mut self.heap);
        heap.clear();
        for (place, part) in self.parts.iter().enumerate() {
            heap.push(Offer { share: part.left / part.weight, part: place as u32 });
        }
        while let Some(Offer { share, part: place }) = heap.pop() {
            let part = self.parts[place as usize];
            if part.weight <= 0.0 {
                continue;
            }
            // Shares only grow while others settle for less: an old offer is replaced by what the link offers now.
            let now = part.left / part.weight;
            if now > share {
                heap.push(Offer { share: now, part: place });
                continue;
            }
            self.settle(place, now.max(0.0));
        }
        self.heap = heap;
    }

    /// The links of all members, and what others leave of them.
    fn collect(&mut self) {
        self.parts.clear();
        for index in 0..self.members.len() {
            let member = self.members[index];
            self.flows[member as usize].settled = false;
            let first = member * self.stride;
            for this in first..first + self.flows[member as usize].uses {
                let Use { link, weight, .. } = self.uses[this as usize];
                let entry = &mut self.links[link as usize];
                // A link is new in this filling when its place does not name it.
                let known = entry.epoch == self.epoch && self.parts.get(entry.place as usize).is_some_and(|part| part.link == link);
                if !known {
                    entry.epoch = self.epoch;
                    entry.place = self.parts.len() as u32;
                    let (mut left, mut at) = (entry.capacity, entry.head);
                    while at != NONE {
                        let Use { next, weight, .. } = self.uses[at as usize];
                        let other = &self.flows[(at / self.stride) as usize];
                        if other.epoch != self.epoch {
                            left -= other.rate * weight;
                        }
                        at = next;
                    }
                    self.parts.push(Part { link, left, weight: 0.0, level: -1.0 });
                }
                let place = self.links[link as usize].place;
                self.parts[place as usize].weight += weight;
            }
        }
    }

    /// The link at `place` holds back all members on it that are not settled yet, at `rate`.
    fn settle(&mut self, place: u32, rate: f64) {
        let link = self.parts[place as usize].link;
        self.parts[place as usize].level = rate;
        let mut at = self.links[link as usize].head;
        while at != NONE {
            let next = self.uses[at as usize].next;
            let id = at / self.stride;
            let flow = &mut self.flows[id as usize];
            if flow.epoch == self.epoch && !flow.settled {
                (flow.settled, flow.rate, flow.bottleneck) = (true, rate, link);
                let first = id * self.stride;
                for this in first..first + flow.uses {
                    let Use { link: other, weight, .. } = self.uses[this as usize];
                    let part = &mut self.parts[self.links[other as usize].place as usize];
                    part.left -= rate * weight;
                    part.weight -= weight;
                    // Weights are fractions on several paths: what remains of them all is rounding.
                    if part.weight < 1e-9 {
                        part.weight = 0.0;
                    }
                }
            }
            at = next;
        }
        self.parts[place as usize].weight = 0.0;
    }

    /// Lets flows join that are wronged by the rates of the members; false when there are none.
    fn widen(&mut self) -> bool {
        let before = self.members.len();
        for index in 0..self.parts.len() {
            let Part { link, left, level, .. } = self.parts[index];
            let Link { capacity, head, .. } = self.links[link as usize];
            let full = left <= capacity * SAME * 16.0;
            // The highest rate on the link, members and others.
            let (mut highest, mut outside, mut at) = (level, false, head);
            while at != NONE {
                let flow = &self.flows[(at / self.stride) as usize];
                highest = highest.max(flow.rate);
                outside |= flow.epoch != self.epoch;
                at = self.uses[at as usize].next;
            }
            if !outside {
                continue;
            }
            let mut at = head;
            while at != NONE {
                let Use { next, .. } = self.uses[at as usize];
                let id = at / self.stride;
                let flow = &self.flows[id as usize];
                if flow.epoch != self.epoch {
                    // It has more than a member that this link holds back.
                    let takes = level >= 0.0 && flow.rate > level * (1.0 + SAME);
                    // This link held it back, and no longer does.
                    let free = flow.bottleneck == link && (!full || flow.rate < highest * (1.0 - SAME));
                    if takes || free {
                        self.join(id);
                    }
                }
                at = next;
            }
        }
        self.members.len() > before
    }
}
