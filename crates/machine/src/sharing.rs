//! Transfers that are in flight at the same time share what they use: max-min fair, as fluids.
//!
//! Source: D. Bertsekas, R. Gallager, "Data Networks", 2nd ed., 1992, §6.5.2 (progressive filling).
//! Modelled: all transfers grow at the same rate until a resource is full or they reach a limit of their own; those are frozen and the
//! rest goes on. A transfer may take more than a byte of a resource for a byte of payload (framing), see [`Weight`]. Some have no end:
//! they are streams that want so much and go on.
//! Not modelled: packets, start-up, unfair arbiters.
//!
//! Sans-I/O: the caller says what time it is and asks when the next transfer ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabriscope_units::{Bytes, Rate, Span, Time};
use serde::Serialize;

use crate::graph::ResourceId;

/// What a byte of payload takes of a resource, in 65,536ths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Weight(u32);

impl Weight {
    /// A byte for a byte.
    pub const ONE: Weight = Weight(1 << 16);

    /// `taken` bytes for `payload` bytes; 65536 times as many or more count as the largest weight.
    #[must_use]
    pub fn of(taken: u64, payload: u64) -> Weight {
        Weight(u32::try_from(u128::from(taken) * (1 << 16) / u128::from(payload.max(1))).unwrap_or(u32::MAX).max(1))
    }
    /// What a byte takes that is `taken` bytes there for `payload` bytes: lines with flags among the data.
    #[must_use]
    pub fn times(self, taken: u64, payload: u64) -> Weight {
        Weight::of(u64::from(self.0) * taken, payload << 16)
    }
    /// What a byte takes of a resource that it passes twice.
    #[must_use]
    pub fn plus(self, other: Weight) -> Weight {
        Weight(self.0.saturating_add(other.0))
    }
    /// The payload in `rate`.
    #[must_use]
    pub fn payload_of(self, rate: Rate) -> Rate {
        Rate::from_bps(u64::try_from((u128::from(rate.as_bps()) << 16) / u128::from(self.0)).unwrap_or(u64::MAX))
    }
}

/// A resource in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Use {
    /// Which.
    pub resource: ResourceId,
    /// What a byte of payload takes of it.
    pub weight: Weight,
}

/// The number of a transfer; later ones have larger numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct FlowId(pub u64);

/// Transfers in flight that use the same and are limited alike: they are always equally fast.
#[derive(Clone, Debug)]
struct Class {
    uses: Arc<[Use]>,
    most: Rate,
    rate: u64,
    /// What each of them has got since the class began, in bits times picoseconds per second.
    served: u128,
    /// What `served` will be when each of them ends.
    ends: BTreeSet<(u128, FlowId)>,
    /// A stream, which never ends: a class of its own.
    endless: bool,
}

/// Transfers in flight.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    capacities: Vec<Rate>,
    now: Time,
    classes: Vec<Class>,
    ended: BTreeMap<FlowId, Time>,
    next: u64,
    /// When the next transfer ends: rates stay until then.
    next_end: Option<Time>,
    /// Transfers have begun or ended since rates were worked out: those of one instant are shared once.
    stale: bool,
    filling: Filling,
}

/// Room for progressive filling, which is done whenever a transfer begins or ends.
#[derive(Clone, Debug, Default)]
struct Filling {
    /// What is left of each resource, and what a unit of rate of those that are not frozen takes of it; in 65,536ths.
    left: Vec<u128>,
    load: Vec<u128>,
    /// The rate that it would leave them, and the resources that they use.
    level: Vec<u128>,
    used: Vec<usize>,
    /// Classes that are not frozen, and the rate that each could have.
    open: Vec<usize>,
    shares: Vec<u128>,
}

/// Picoseconds in a second.
const SECOND: u128 = 1_000_000_000_000;

impl Sharing {
    /// Resources that carry so much each.
    #[must_use]
    pub fn new(capacities: Vec<Rate>) -> Sharing {
        Sharing { capacities, ..Sharing::default() }
    }

    /// Begins a transfer of `bytes` at `now` that is never faster than `most`. Times do not go back: what is said to begin earlier than
    /// the last thing said begins with it.
    pub fn start(&mut self, now: Time, bytes: Bytes, uses: impl Into<Arc<[Use]>>, most: Rate) -> FlowId {
        self.advance(now);
        let id = FlowId(self.next);
        self.next += 1;
        let uses: Arc<[Use]> = uses.into();
        let alike = self
            .classes
            .iter()
            .position(|class| !class.endless && class.most == most && (Arc::ptr_eq(&class.uses, &uses) || class.uses == uses));
        let place = alike.unwrap_or_else(|| {
            self.classes.push(Class { uses, most, rate: 0, served: 0, ends: BTreeSet::new(), endless: false });
            self.classes.len() - 1
        });
        let class = &mut self.classes[place];
        class.ends.insert((class.served + u128::from(bytes.0) * 8 * SECOND, id));
        self.stale = true;
        if bytes == Bytes::ZERO {
            self.retire();
        }
        id
    }

    /// From `now` on these take part without an end and want no more than they say, in place of those before.
    pub fn hold(&mut self, now: Time, streams: impl IntoIterator<Item = (Arc<[Use]>, Rate)>) -> Vec<FlowId> {
        self.advance(now);
        self.classes.retain(|class| !class.endless);
        let first = self.next;
        for (uses, most) in streams {
            let ends = BTreeSet::from([(u128::MAX, FlowId(self.next))]);
            self.classes.push(Class { uses, most, rate: 0, served: 0, ends, endless: true });
            self.next += 1;
        }
        self.stale = true;
        (first..self.next).map(FlowId).collect()
    }

    /// What would be fair for a stream over `uses` that wanted all it can get, on what it shares with transfers that end; `own` is the
    /// stream itself, where it takes part. None where it shares nothing with them.
    #[must_use]
    pub fn fair(&mut self, uses: &[Use], own: Option<FlowId>) -> Option<Rate> {
        self.settle();
        let level = |used: &Use| {
            let is_own = |class: &Class| class.endless && class.ends.first().map(|(_, id)| *id) == own;
            let others = self.classes.iter().filter(|class| own.is_none() || !is_own(class));
            let on = others.flat_map(|class| {
                let same = class.uses.iter().filter(|other| other.resource == used.resource);
                let each = same.map(|other| (u128::from(class.rate), u128::from(other.weight.0), !class.endless));
                each.flat_map(|transfer| std::iter::repeat_n(transfer, class.ends.len()))
            });
            let mut on: Vec<(u128, u128, bool)> = on.collect();
            if !on.iter().any(|(_, _, ends)| *ends) {
                return None;
            }
            // Those below the level keep what they have, the others come down to it.
            on.sort_unstable();
            let mut left = u128::from(self.capacities.get(used.resource.0 as usize)?.as_bps()) << 16;
            let mut weights = u128::from(used.weight.0) + on.iter().map(|(_, weight, _)| *weight).sum::<u128>();
            for (rate, weight, _) in on {
                if rate * weights > left {
                    break;
                }
                left -= rate * weight;
                weights -= weight;
            }
            u64::try_from(left / weights.max(1)).ok()
        };
        uses.iter().filter_map(level).min().map(Rate::from_bps)
    }

    /// Goes on to `now`.
    pub fn advance(&mut self, now: Time) {
        if now <= self.now {
            return;
        }
        while let Some(end) = self.next_end().filter(|end| *end <= now) {
            self.flow_until(end);
            self.retire();
        }
        self.flow_until(now);
    }

    /// When the next transfer ends if none begins before.
    #[must_use]
    pub fn next_end(&mut self) -> Option<Time> {
        self.settle();
        self.next_end
    }

    /// When `id` ends if no other transfer begins before; the past if it has ended. None if there is no such transfer, or if it uses
    /// something that carries nothing.
    #[must_use]
    pub fn end(&self, id: FlowId) -> Option<Time> {
        if let Some(at) = self.ended.get(&id) {
            return Some(*at);
        }
        let mut future = Sharing { ended: BTreeMap::new(), ..self.clone() };
        while future.class_of(id).is_some() {
            let end = future.next_end()?;
            future.flow_until(end);
            future.retire();
        }
        future.ended.get(&id).copied()
    }

    /// Whether `id` has ended; the answer is given once.
    pub fn take_ended(&mut self, id: FlowId) -> Option<Time> {
        self.ended.remove(&id)
    }

    /// A transfer that has ended and was not asked about, the first of them by number.
    pub fn take_first_ended(&mut self) -> Option<FlowId> {
        self.ended.pop_first().map(|(id, _)| id)
    }

    /// The rate of a transfer in flight.
    #[must_use]
    pub fn rate(&self, id: FlowId) -> Option<Rate> {
        if self.stale {
            let mut settled = self.clone();
            settled.settle();
            return settled.rate(id);
        }
        self.class_of(id).map(|class| Rate::from_bps(class.rate))
    }

    /// How many are in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.classes.iter().map(|class| class.ends.len()).sum()
    }

    /// Whether none is outstanding.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    fn class_of(&self, id: FlowId) -> Option<&Class> {
        self.classes.iter().find(|class| class.ends.iter().any(|(_, other)| *other == id))
    }

    /// When the first of a class ends.
    fn end_of(&self, class: &Class) -> Option<Time> {
        let left = class.ends.first().filter(|_| !class.endless)?.0.saturating_sub(class.served);
        if left == 0 {
            return Some(self.now);
        }
        let rate = u128::from(class.rate).max(1);
        let span = quotient(left + rate - 1, rate);
        (class.rate > 0).then(|| self.now + Span::from_ps(u64::try_from(span).unwrap_or(u64::MAX / 2)))
    }

    fn flow_until(&mut self, now: Time) {
        let span = u128::from((now - self.now).as_ps());
        self.now = now;
        self.classes.iter_mut().for_each(|class| class.served += span * u128::from(class.rate));
    }

    /// Takes out what has ended, and shares again.
    fn retire(&mut self) {
        let mut changed = false;
        for class in &mut self.classes {
            while class.ends.first().is_some_and(|(end, _)| *end <= class.served) {
                if let Some((_, id)) = class.ends.pop_first() {
                    self.ended.insert(id, self.now);
                    changed = true;
                }
            }
        }
        if changed {
            self.classes.retain(|class| !class.ends.is_empty());
            self.stale = true;
        }
    }

    /// Works out rates if transfers have begun or ended.
    fn settle(&mut self) {
        if std::mem::take(&mut self.stale) {
            self.share();
        }
    }

    /// Progressive filling.
    fn share(&mut self) {
        let Filling { left, load, level, used, open, shares } = &mut self.filling;
        let resources = self.capacities.len();
        left.resize(resources, 0);
        load.resize(resources, 0);
        level.resize(resources, 0);
        // A machine has many more resources than are in use.
        for Use { resource, .. } in self.classes.iter().flat_map(|class| class.uses.iter()) {
            if let Some(capacity) = self.capacities.get(resource.0 as usize) {
                left[resource.0 as usize] = u128::from(capacity.as_bps()) << 16;
            }
        }
        open.clear();
        open.extend(0..self.classes.len());
        while !open.is_empty() {
            used.drain(..).for_each(|place| load[place] = 0);
            for class in open.iter().map(|place| &self.classes[*place]) {
                for Use { resource, weight } in class.uses.iter() {
                    let place = resource.0 as usize;
                    if let Some(load) = load.get_mut(place) {
                        if *load == 0 {
                            used.push(place);
                        }
                        *load += u128::from(weight.0) * class.ends.len() as u128;
                    }
                }
            }
            used.iter().for_each(|place| level[*place] = quotient(left[*place], load[*place].max(1)));
            let of = |used: &Use| level.get(used.resource.0 as usize).copied().unwrap_or(0);
            let share_of = |class: &Class| class.uses.iter().map(of).min().unwrap_or(u128::MAX).min(u128::from(class.most.as_bps()));
            shares.clear();
            shares.extend(open.iter().map(|place| share_of(&self.classes[*place])));
            let least = shares.iter().copied().min().unwrap_or(0);
            let rate = u64::try_from(least).unwrap_or(u64::MAX);
            let mut rest = 0;
            for turn in 0..open.len() {
                let place = open[turn];
                if shares[turn] != least {
                    open[rest] = place;
                    rest += 1;
                    continue;
                }
                let class = &mut self.classes[place];
                class.rate = rate;
                let all = u128::from(rate) * class.ends.len() as u128;
                for used in class.uses.iter() {
                    if let Some(left) = left.get_mut(used.resource.0 as usize) {
                        *left = left.saturating_sub(all * u128::from(used.weight.0));
                    }
                }
            }
            open.truncate(rest);
        }
        used.drain(..).for_each(|place| load[place] = 0);
        self.next_end = self.classes.iter().filter_map(|class| self.end_of(class)).min();
    }
}

/// `a / b`: most fit in 64 bits, whose division is much faster.
fn quotient(a: u128, b: u128) -> u128 {
    match (u64::try_from(a), u64::try_from(b)) {
        (Ok(a), Ok(b)) => u128::from(a / b),
        _ => a / b,
    }
}
