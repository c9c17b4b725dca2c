//! Transfers that are under way at the same time share what they use: max-min fair, as fluids.
//!
//! Source: D. Bertsekas, R. Gallager, "Data Networks", 2nd ed., 1992, §6.5.2 (progressive filling).
//! Modelled: all transfers grow at the same rate until a resource is full or they reach a limit of their own; those are frozen and the
//! rest goes on. A transfer may take more than a byte of a resource for a byte of payload (framing), see [`Weight`]. Some have no end:
//! they are streams that want so much and go on.
//! Not modelled: packets, start-up, unfair arbiters.
//!
//! Sans-I/O: the caller says what time it is and asks when the next transfer ends.

use std::collections::BTreeMap;
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

    /// `taken` bytes for `payload` bytes.
    #[must_use]
    pub fn of(taken: u64, payload: u64) -> Weight {
        Weight(u32::try_from(u128::from(taken) * (1 << 16) / u128::from(payload.max(1))).unwrap_or(u32::MAX).max(1))
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

#[derive(Clone, Debug)]
struct Flow {
    /// What is left, in bits times picoseconds per second; nothing is said of what has no end.
    left: Option<u128>,
    uses: Arc<[Use]>,
    most: Rate,
    rate: u64,
}

/// Transfers under way.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    capacities: Vec<Rate>,
    now: Time,
    flows: BTreeMap<FlowId, Flow>,
    ended: BTreeMap<FlowId, Time>,
    next: u64,
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
        self.flows.insert(id, Flow { left: Some(u128::from(bytes.0) * 8 * SECOND), uses: uses.into(), most, rate: 0 });
        self.share();
        self.retire();
        id
    }

    /// From `now` on these take part without an end and want no more than they say, in place of those before.
    pub fn hold(&mut self, now: Time, streams: impl IntoIterator<Item = (Arc<[Use]>, Rate)>) -> Vec<FlowId> {
        self.advance(now);
        self.flows.retain(|_, flow| flow.left.is_some());
        let first = self.next;
        for (uses, most) in streams {
            self.flows.insert(FlowId(self.next), Flow { left: None, uses, most, rate: 0 });
            self.next += 1;
        }
        self.share();
        (first..self.next).map(FlowId).collect()
    }

    /// What would be fair for a stream over `uses` that wanted all it can get, on what it shares with transfers that end; `own` is the
    /// stream itself, where it takes part. None where it shares nothing with them.
    #[must_use]
    pub fn fair(&self, uses: &[Use], own: Option<FlowId>) -> Option<Rate> {
        let level = |used: &Use| {
            let others = self.flows.iter().filter(|(id, _)| Some(**id) != own);
            let on = others.flat_map(|(_, flow)| {
                let same = flow.uses.iter().filter(|other| other.resource == used.resource);
                same.map(|other| (u128::from(flow.rate), u128::from(other.weight.0), flow.left.is_some()))
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
        while let Some(end) = self.next_end().filter(|end| *end <= now) {
            self.flow_until(end);
            self.retire();
        }
        if now > self.now {
            self.flow_until(now);
        }
    }

    /// When the next transfer ends if none begins before.
    #[must_use]
    pub fn next_end(&self) -> Option<Time> {
        self.flows.values().filter_map(|flow| self.end_of(flow)).min()
    }

    /// When `id` ends if no other transfer begins before; the past if it has ended. None if there is no such transfer, or if it uses
    /// something that carries nothing.
    #[must_use]
    pub fn end(&self, id: FlowId) -> Option<Time> {
        if let Some(at) = self.ended.get(&id) {
            return Some(*at);
        }
        let mut future = Sharing { ended: BTreeMap::new(), ..self.clone() };
        while future.flows.contains_key(&id) {
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

    /// The rate of a transfer under way.
    #[must_use]
    pub fn rate(&self, id: FlowId) -> Option<Rate> {
        self.flows.get(&id).map(|flow| Rate::from_bps(flow.rate))
    }

    /// How many are under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether none is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    fn end_of(&self, flow: &Flow) -> Option<Time> {
        let left = flow.left?;
        if left == 0 {
            return Some(self.now);
        }
        let span = left.div_ceil(u128::from(flow.rate).max(1));
        (flow.rate > 0).then(|| self.now + Span::from_ps(u64::try_from(span).unwrap_or(u64::MAX / 2)))
    }

    fn flow_until(&mut self, now: Time) {
        let span = u128::from((now - self.now).as_ps());
        self.now = now;
        for flow in self.flows.values_mut() {
            flow.left = flow.left.map(|left| left.saturating_sub(span * u128::from(flow.rate)));
        }
    }

    /// Takes out what has ended, and shares again.
    fn retire(&mut self) {
        let (now, before) = (self.now, self.flows.len());
        let ended: Vec<FlowId> = self.flows.iter().filter(|(_, flow)| flow.left == Some(0)).map(|(id, _)| *id).collect();
        for id in ended {
            self.flows.remove(&id);
            self.ended.insert(id, now);
        }
        if self.flows.len() != before {
            self.share();
        }
    }

    /// Progressive filling.
    fn share(&mut self) {
        let mut left: Vec<u128> = self.capacities.iter().map(|rate| u128::from(rate.as_bps()) << 16).collect();
        let mut open: Vec<FlowId> = self.flows.keys().copied().collect();
        while !open.is_empty() {
            let mut load = vec![0u128; left.len()];
            for flow in open.iter().map(|id| &self.flows[id]) {
                for used in flow.uses.iter() {
                    if let Some(load) = load.get_mut(used.resource.0 as usize) {
                        *load += u128::from(used.weight.0);
                    }
                }
            }
            let of = |used: &Use| {
                let place = used.resource.0 as usize;
                load.get(place).map_or(0, |load| left[place] / (*load).max(1))
            };
            let share_of = |flow: &Flow| flow.uses.iter().map(of).min().unwrap_or(u128::MAX).min(u128::from(flow.most.as_bps()));
            let least = open.iter().map(|id| share_of(&self.flows[id])).min().unwrap_or(0);
            let rate = u64::try_from(least).unwrap_or(u64::MAX);
            let frozen: Vec<FlowId> = open.iter().copied().filter(|id| share_of(&self.flows[id]) == least).collect();
            open.retain(|id| !frozen.contains(id));
            for id in frozen {
                let Some(flow) = self.flows.get_mut(&id) else { continue };
                flow.rate = rate;
                for used in flow.uses.iter() {
                    if let Some(left) = left.get_mut(used.resource.0 as usize) {
                        *left = left.saturating_sub(u128::from(rate) * u128::from(used.weight.0));
                    }
                }
            }
        }
    }
}
