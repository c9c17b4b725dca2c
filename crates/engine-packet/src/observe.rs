//! Watching the links: loads, and what passes taps. Away in ordinary runs, which pay one test per hop for it.
//!
//! Modelled: packets at either end of a link, at the time of their first bit; pause frames when they are sent and when
//! the pause they began ends. A packet does not carry its sender; the first hop tells it, by destination and queue pair.
//! Not modelled: packets that are lost on a link are seen where they leave, not where they would have arrived.

use fabriscope_engine::{Counter, CounterPlace, Counters, Seen, Sighting, Tap};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_wire::LinkLayer;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Scenario;
use crate::counting::CounterBank;
use crate::faults::Fate;
use crate::series::Sampler;

/// What watches the links of one part.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    /// Packets and bytes of own links, by place; empty unless they are counted.
    pub(crate) loads: Vec<(u64, Bytes)>,
    /// Taps of all links of the fabric: 1 where packets leave, 2 where they arrive; empty without taps.
    pub(crate) taps: Vec<u8>,
    /// What passed so far, with the time of the event at which a packet arrives.
    pub(crate) passed: Vec<(Sighting, Time)>,
    /// Who sends to a queue pair: by destination and queue pair there. Looked up, never iterated.
    pub(crate) senders: FxHashMap<(u32, u32), u32>,
    /// Link and time of arrivals that came to nothing. Looked up, never iterated.
    pub(crate) lost: FxHashSet<(u32, Time)>,
    /// The pause that each lane is in: first and last moment, as known.
    pub(crate) pauses: FxHashMap<u32, (Time, Time)>,
    pub(crate) tally: Option<CounterBank>,
    /// Queues and rates over time.
    pub(crate) series: Option<Sampler>,
}

const LEAVING: u8 = 1;
const ARRIVING: u8 = 2;

/// The longest pause that a frame can ask for. Basis: standard, IEEE 802.1Q clause 36.
pub(crate) const LONGEST_PAUSE: u16 = u16::MAX;

/// An observer for a part with `own` links of `all`, if anything is to be watched.
pub(crate) fn observer(engine: &Scenario, layer: LinkLayer, own: usize, all: u32, levels: &[u8]) -> Option<Box<Observer>> {
    let tally = CounterBank::new((engine.counting, &engine.jobs), layer, all, levels);
    let series = Sampler::new(engine.series, engine.timeline.as_ref().map(|timeline| timeline.step));
    if !engine.link_loads && engine.taps.is_empty() && tally.is_none() && series.is_none() {
        return None;
    }
    let loads = vec![(0, Bytes::ZERO); if engine.link_loads || engine.timeline.is_some() { own } else { 0 }];
    let mut observer = Observer { loads, tally, series, ..Observer::default() };
    if !engine.taps.is_empty() {
        observer.taps = vec![0; all as usize];
        for tap in &engine.taps {
            if let Some(ends) = observer.taps.get_mut(tap.link as usize) {
                *ends |= if tap.arrival { ARRIVING } else { LEAVING };
            }
        }
    }
    Some(Box::new(observer))
}

impl Observer {
    /// A packet of a priority was to arrive by `link` at `at`; what kept it from that, if anything.
    pub fn arrive(&mut self, (link, level): (u32, u32), at: Time, amount: Bytes, fate: Option<Fate>) {
        if fate.is_some() && !self.taps.is_empty() {
            self.lost.insert((link, at));
        }
        if let Some(tally) = &mut self.tally {
            match fate {
                None => tally.arrived((link, level), at, amount),
                Some(Fate::Damaged { bits }) => {
                    tally.add(CounterPlace::far(link), Counter::RcvErrors, at, 1);
                    if bits {
                        tally.add(CounterPlace::far(link), Counter::SymbolErrors, at, 1);
                    }
                }
                Some(Fate::NoLink) => tally.add(CounterPlace::Port(link), Counter::XmitDiscards, at, 1),
            }
        }
    }
    /// Counts one of something at `now`.
    pub fn count(&mut self, place: CounterPlace, counter: Counter, now: Time) {
        if let Some(tally) = &mut self.tally {
            tally.add(place, counter, now, 1);
        }
    }
    /// A packet that arrived by `link` found no room behind it.
    pub fn discard(&mut self, link: u32, now: Time) {
        if let Some(tally) = &mut self.tally {
            tally.add(CounterPlace::far(link), Counter::RcvDiscards, now, 1);
        }
    }
    /// A packet that was to leave by `link` found no room before it: it is dropped, or trimmed.
    pub fn overflow(&mut self, link: u32, now: Time, trimmed: bool) {
        if let Some(tally) = &mut self.tally {
            let counter = if trimmed { Counter::Trims } else { Counter::XmitDiscards };
            tally.add(CounterPlace::Port(link), counter, now, 1);
        }
    }
    /// What was counted.
    pub fn into_counters(self: Box<Observer>) -> Option<Counters> {
        self.tally.map(CounterBank::into_counters)
    }

    /// Notes something at the taps of `link`; its first bit leaves at `start` and arrives at `start + delay`.
    pub(crate) fn pass(&mut self, link: u32, start: Time, delay: Span, at: Time, seen: impl Fn() -> Seen) {
        let ends = self.taps.get(link as usize).copied().unwrap_or(0);
        for (end, time, arrival) in [(LEAVING, start, false), (ARRIVING, start + delay, true)] {
            if ends & end != 0 {
                let sighting = Sighting { time, tap: Tap { link, arrival }, seen: seen() };
                self.passed.push((sighting, at));
            }
        }
    }
}
