//! Queues and rates at equal steps of time. Away in ordinary runs.
//!
//! Modelled: at every step, what waits for each link and is on its wire; the payload that each host's adapter built for each other
//! host between two steps, repeated packets included.
//! Not modelled: queues within switches other than those before links.

use std::collections::BTreeMap;

use fabriscope_engine::{PairSent, QueueDepth, Series};
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
}

impl Sampler {
    pub fn new(step: Span) -> Sampler {
        Sampler { step, ..Sampler::default() }
    }

    /// `from` built a packet for `to`.
    pub fn built(&mut self, now: Time, from: u32, to: u32, payload: Bytes) {
        let step = u32::try_from((now - Time::ZERO).as_ps() / self.step.as_ps().max(1)).unwrap_or(u32::MAX);
        let open = self.open.entry((from, to)).or_insert((step, Bytes::ZERO));
        if open.0 != step {
            self.sent.push(PairSent { step: open.0, from, to, bytes: open.1 });
            *open = (step, Bytes::ZERO);
        }
        open.1 += payload;
    }

    pub fn into_series(mut self) -> Series {
        self.sent.extend(self.open.into_iter().map(|((from, to), (step, bytes))| PairSent { step, from, to, bytes }));
        self.sent.retain(|sent| sent.bytes > Bytes::ZERO);
        self.sent.sort_unstable();
        Series { step: self.step, queues: self.queues, sent: self.sent }
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
        let Some(series) = self.watch.observer.as_mut().and_then(|observer| observer.series.as_mut()) else { return };
        series.queues.extend(found);
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
