//! Queues and rates at equal steps of time. Away in ordinary runs.
//!
//! Modelled: at every step, what waits for each link and is on its wire; the payload that each host's adapter built for each other
//! host between two steps, repeated packets included.
//! Not modelled: queues within switches other than those before links.

use std::collections::{BTreeMap, BTreeSet};

use fabriscope_engine::{LinkLoad, Moment, PairSent, QueueDepth, Series};
use fabriscope_units::{Bytes, Span, Time};

use crate::event::Event;
use crate::links::Scheduling;
use crate::world::World;

/// What is measured so far.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    step: Span,
    queues: Vec<QueueDepth>,
    sent: Vec<PairSent>,
    /// By sender and receiver: the step that they are in, and what was sent in it.
    open: BTreeMap<(u32, u32), (u32, Bytes)>,
    /// Steps in a row at which nothing else was planned.
    idle: u32,
    /// What is measured is kept, for a series.
    keeps: bool,
    /// What was told of each link last, where that is asked for: its queue, and what it had sent by then.
    told: BTreeMap<u32, (Bytes, Bytes)>,
    /// Links that sent nothing before the last look.
    resting: BTreeSet<u32>,
    /// What was told of each adapter last.
    told_of_adapters: BTreeMap<u32, (u64, Bytes)>,
}

impl Sampler {
    /// With the steps of a series and of a timeline; where both are asked for, a timeline has those of the series.
    pub fn new(series: Option<Span>, timeline: Option<Span>) -> Option<Sampler> {
        Some(Sampler { step: series.or(timeline)?, keeps: series.is_some(), ..Sampler::default() })
    }

    /// `from` built a packet for `to`.
    pub fn built(&mut self, now: Time, from: u32, to: u32, payload: Bytes) {
        if !self.keeps {
            return;
        }
        let step = u32::try_from((now - Time::ZERO).as_ps() / self.step.as_ps().max(1)).unwrap_or(u32::MAX);
        let open = self.open.entry((from, to)).or_insert((step, Bytes::ZERO));
        if open.0 != step {
            self.sent.push(PairSent { step: open.0, from, to, bytes: open.1 });
            *open = (step, Bytes::ZERO);
        }
        open.1 += payload;
    }

    pub fn into_series(mut self) -> Option<Series> {
        if !self.keeps {
            return None;
        }
        self.sent.extend(self.open.into_iter().map(|((from, to), (step, bytes))| PairSent { step, from, to, bytes }));
        self.sent.retain(|sent| sent.bytes > Bytes::ZERO);
        self.sent.sort_unstable();
        Some(Series { step: self.step, queues: self.queues, sent: self.sent })
    }
}

impl Sampler {
    /// What has changed of links since the look before, whose queues and loads are these now.
    fn news(&mut self, time: Time, queues: BTreeMap<u32, Bytes>, loads: Vec<LinkLoad>) -> Vec<Moment> {
        let mut news = Vec::new();
        // Whatever waits before a link was sent to it, but for what it has not sent anything of yet.
        let mut now: BTreeMap<u32, (Bytes, Bytes)> = loads.iter().map(|load| (load.link, (Bytes::ZERO, load.bytes))).collect();
        for (link, queue) in queues {
            now.entry(link).or_default().0 = queue;
        }
        for (link, (queue, total)) in now {
            let before = self.told.entry(link).or_default();
            let sent = total.saturating_sub(before.1);
            let idle = self.resting.contains(&link);
            if queue != before.0 || sent > Bytes::ZERO || !idle {
                news.push(Moment::Link { time, link, queue, sent });
            }
            if sent == Bytes::ZERO {
                self.resting.insert(link)
            } else {
                self.resting.remove(&link)
            };
            *before = (queue, total);
        }
        news
    }

    /// The same of adapters with what they have outstanding.
    fn news_of_adapters(&mut self, time: Time, outstanding: impl Iterator<Item = (u32, u64, Bytes)>) -> Vec<Moment> {
        let changed = |(adapter, messages, bytes): (u32, u64, Bytes)| {
            let before = self.told_of_adapters.insert(adapter, (messages, bytes));
            (before != Some((messages, bytes))).then_some(Moment::Adapter { time, adapter, messages, bytes })
        };
        outstanding.filter_map(changed).collect()
    }
}

impl World<'_> {
    /// The first look, if there are any.
    pub(crate) fn begin_series(&mut self) {
        if let Some(step) = self.watch.observer.as_ref().and_then(|observer| observer.series.as_ref()).map(|series| series.step) {
            self.queue.push(Time::ZERO + step, Event::sample());
        }
    }

    /// Looks at all own links, and plans the next look.
    #[cold]
    pub(crate) fn sample(&mut self, now: Time) {
        self.watch.stats.events -= 1; // it is none of the run
        let vls = self.links.vls;
        let mut found = Vec::new();
        for link in 0..self.links.ends.len() as u32 / vls {
            let (part, place) = self.links.slots.of(link * vls);
            if part != self.links.part {
                continue;
            }
            let lanes = &self.links.lanes[place..place + vls as usize];
            let waiting: u64 = lanes.iter().map(|lane| lane.waiting().0).sum();
            let wire: u64 = match self.links.scheduling {
                Scheduling::Reserved => lanes.iter().map(|lane| lane.sent_in(lane.free_at().since(now)).0).sum(),
                Scheduling::Arbitrated => lanes[0].sent_in(self.links.wires[place / vls as usize].free.since(now)).0,
            };
            if waiting + wire > 0 {
                found.push(QueueDepth { time: now, link, bytes: Bytes(waiting + wire) });
            }
        }
        let quiet = self.queue.is_empty();
        let loads = if self.watch.trace.timeline().is_some() { self.link_loads(now) } else { Vec::new() };
        let Some(series) = self.watch.observer.as_mut().and_then(|observer| observer.series.as_mut()) else { return };
        let timeline = self.watch.trace.timeline().cloned();
        if let Some(timeline) = &timeline {
            let queues = found.iter().map(|depth| (depth.link, depth.bytes));
            for moment in series.news(now, queues.collect(), loads) {
                timeline.record(moment);
            }
            for moment in series.news_of_adapters(now, self.watch.trace.outstanding()) {
                timeline.record(moment);
            }
        }
        if series.keeps {
            series.queues.extend(found);
        }
        series.idle = if quiet { series.idle + 1 } else { 0 };
        if series.idle < MOST_IDLE {
            let next = now + series.step;
            self.queue.push(next, Event::sample());
        }
    }
}

/// So many looks in a row at which nothing else was planned end them: the run is stuck. Basis: assumed; other parts of the fabric may
/// send something still.
const MOST_IDLE: u32 = 1000;
