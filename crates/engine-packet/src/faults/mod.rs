//! Faults in progress: packets that are lost, ports that are slow, links that change, and what each of them did.
//!
//! All of it is known before the run starts: when a link is down is a list of spans, so that whether a packet meets a fault
//! depends on the link and the time alone. Away in ordinary runs, which pay one test per hop that they make anyway.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §7.9.4 (flow control packets name all blocks ever sent, FCTBS, so that
//! the credits of a lost packet come back with the next one, after at most 65,536 symbol times).
//! Modelled: a packet is lost when its link is down at any moment between its first bit leaving and its last bit arriving;
//! ports that are down drain what waits for them at the rate of the link, into nothing.
//! Not modelled: damaged headers that still look right; retraining of a link beyond the time that it is down.

pub(crate) mod chance;
mod reroute;
mod timeline;

use fabriscope_engine::FaultReport;
use fabriscope_fabric::{Hop, LinkId};
use fabriscope_streams::Stream;
use fabriscope_units::{Bytes, Pace, Span, Time};
use rustc_hash::FxHashMap;

use crate::packed_packet::PackedPacket;
use crate::routes::QueueView;

use chance::Odds;
pub(crate) use reroute::Epoch;
pub(crate) use timeline::set_up;

/// A span of time: from when, and until before when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) from: Time,
    pub(crate) until: Time,
}

impl Interval {
    pub(crate) fn holds(self, now: Time) -> bool {
        self.from <= now && now < self.until
    }
    fn meets(self, other: Interval) -> bool {
        self.from < other.until && other.from < self.until
    }
}

/// Why a packet does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was lost on the wire; by wrong `bits` where the fault is about them.
    Damaged { bits: bool },
    /// The link was down.
    NoLink,
}

/// A fault that loses packets at random.
#[derive(Debug)]
struct RandomLoss {
    fault: u32,
    when: Interval,
    odds: Odds,
    /// It is told by bits.
    bits: bool,
}

/// Times at which a cable is down.
#[derive(Debug)]
struct Down {
    fault: u32,
    spans: Vec<Interval>,
    /// Switches do not route around it.
    quiet: bool,
}

impl Down {
    /// The first span that ends after `now`.
    fn next(&self, now: Time) -> Option<Interval> {
        self.spans.get(self.spans.partition_point(|span| span.until <= now)).copied()
    }
}

/// A receiver that takes payload at `pace` at most, or nothing.
#[derive(Debug)]
pub(crate) struct SlowReceiver {
    pub(crate) when: Interval,
    pub(crate) pace: Option<Pace>,
}

/// A link whose lanes run at another pace from some moment on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaceChange {
    pub(crate) link: u32,
    pub(crate) pace: Pace,
}

/// The faults of a run.
#[derive(Debug)]
pub(crate) struct Faults {
    /// By cable. Looked up, never iterated.
    down: FxHashMap<u32, Vec<Down>>,
    /// On every link.
    everywhere: Vec<RandomLoss>,
    /// By link. Looked up, never iterated.
    on_link: FxHashMap<u32, Vec<RandomLoss>>,
    /// By endpoint. Looked up, never iterated.
    pub(crate) hindered: FxHashMap<u32, Vec<SlowReceiver>>,
    /// When a slow receiver is free again, by endpoint. Looked up, never iterated.
    pub(crate) free: FxHashMap<u32, Time>,
    pub(crate) changes: Vec<PaceChange>,
    /// The pace of each link that changed it. Looked up, never iterated.
    pub(crate) paces: FxHashMap<u32, Pace>,
    pub(crate) reroute: Option<reroute::Reroute>,
    /// Lanes of a link, for the time between flow control packets.
    pub(crate) symbol_lanes: u64,
    stream: Stream,
    pub(crate) reports: Vec<FaultReport>,
    /// Packets that were lost and have not been repaired: by destination, queue pair there and sequence number, the fault and the
    /// time of the loss. Looked up; what is left at the end is counted.
    pub(crate) missing: FxHashMap<(u32, u32, u32), (u32, Time)>,
    /// Whether a run without a plan counts its losses: loss on purpose for tests has no report.
    pub(crate) planned: bool,
}

impl Faults {
    /// Whether a person planned them: then errors are part of the result.
    pub(crate) fn planned(&self) -> bool {
        self.planned
    }

    /// The fault that a packet of `amount` meets on `link`, on the wire during `when`, and what it does.
    pub(crate) fn strikes(&mut self, link: u32, when: Interval, amount: Bytes) -> Option<(u32, Fate)> {
        if let Some(downs) = self.down.get(&(link >> 1))
            && let Some(down) = downs.iter().find(|down| down.next(when.from).is_some_and(|span| span.meets(when)))
        {
            return Some((down.fault, Fate::NoLink));
        }
        let Faults { everywhere, on_link, stream, .. } = self;
        let losses = everywhere.iter_mut().chain(on_link.get_mut(&link).into_iter().flatten());
        let mut struck = None;
        for loss in losses.filter(|loss| loss.when.holds(when.from)) {
            if stream.next_u64() < loss.odds.of(amount) {
                struck = struck.or(Some((loss.fault, Fate::Damaged { bits: loss.bits })));
            }
        }
        struck
    }

    /// Whether `cable` has been down for `after`, as far as switches look.
    fn dead_since(&self, cable: u32, now: Time, after: Span) -> bool {
        self.down.get(&cable).is_some_and(|downs| {
            let seen = |span: Interval| span.holds(now) && now - span.from >= after;
            downs.iter().any(|down| !down.quiet && down.next(now).is_some_and(seen))
        })
    }

    /// When `cable` went down until `now`. Faults that overlap take it down once.
    pub(crate) fn outages(&self, cable: u32, now: Time) -> Vec<Time> {
        let mut spans: Vec<Interval> = self.down.get(&cable).into_iter().flatten().flat_map(|down| down.spans.iter().copied()).collect();
        spans.retain(|span| span.from <= now && span.from < span.until);
        spans.sort_unstable_by_key(|span| span.from);
        let mut until = None;
        spans.retain(|span| {
            let new = until.is_none_or(|until| span.from > until);
            until = until.max(Some(span.until));
            new
        });
        spans.iter().map(|span| span.from).collect()
    }

    pub(crate) fn is_down(&self, cable: u32, now: Time) -> bool {
        self.down.get(&cable).is_some_and(|downs| downs.iter().any(|down| down.next(now).is_some_and(|span| span.holds(now))))
    }
}

/// A link carries a flow control packet at least once in so many symbol times. Basis: standard, IBA vol. 1 §7.9.4.
pub(crate) const SYMBOLS: u64 = 65_536;
/// What is never reached.
pub(crate) const NEVER: Time = Time::from_ps(u64::MAX >> 1);

impl Faults {
    pub(crate) fn route(
        &mut self,
        now: Time,
        switch: u32,
        routes: &crate::routes::RouteTable,
        packed: &PackedPacket,
        input: (u32, u8),
        view: &mut QueueView<'_>,
    ) -> Option<Hop> {
        let mut reroute = self.reroute.take()?;
        let hop = reroute.route(now, switch, routes, packed, input, view, self);
        self.reroute = Some(reroute);
        Some(hop)
    }

    fn dead(&self, link: LinkId, now: Time, after: Span) -> bool {
        self.dead_since(link.cable(), now, after)
    }
}

/// A time of the file as the engine counts it.
pub(crate) fn at(span: Span) -> Time {
    Time::ZERO + span
}
