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

mod chance;
mod reroute;
mod timeline;

use fabriscope_engine::{Breakage, Counter, CounterPlace, FaultReport, NewTables};
use fabriscope_fabric::{Hop, LinkId};
use fabriscope_streams::Stream;
use fabriscope_units::{Bytes, Pace, Span, Time};
use rustc_hash::FxHashMap;

use crate::event::Event;
use crate::packed_packet::PackedPacket;
use crate::routes::QueueView;
use crate::world::World;

use chance::Odds;
pub(crate) use timeline::set_up;

/// A span of time: from when, and until before when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    from: Time,
    until: Time,
}

impl Interval {
    fn holds(self, now: Time) -> bool {
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
struct SlowReceiver {
    when: Interval,
    pace: Option<Pace>,
}

/// A link whose lanes run at another pace from some moment on.
#[derive(Clone, Copy, Debug)]
struct PaceChange {
    link: u32,
    pace: Pace,
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
    hindered: FxHashMap<u32, Vec<SlowReceiver>>,
    /// When a slow receiver is free again, by endpoint. Looked up, never iterated.
    free: FxHashMap<u32, Time>,
    changes: Vec<PaceChange>,
    reroute: Option<reroute::Reroute>,
    /// Lanes of a link, for the time between flow control packets.
    symbol_lanes: u64,
    stream: Stream,
    reports: Vec<FaultReport>,
    /// Packets that were lost and have not been repaired: by destination, queue pair there and sequence number, the fault and the
    /// time of the loss. Looked up; what is left at the end is counted.
    missing: FxHashMap<(u32, u32, u32), (u32, Time)>,
    /// Whether a run without a plan counts its losses: loss on purpose for tests has no report.
    planned: bool,
}

impl Faults {
    /// Whether a person planned them: then errors are part of the result.
    pub(crate) fn planned(&self) -> bool {
        self.planned
    }

    /// The fault that a packet of `amount` meets on `link`, on the wire during `when`, and what it does.
    fn strikes(&mut self, link: u32, when: Interval, amount: Bytes) -> Option<(u32, Fate)> {
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

impl World<'_> {
    /// What a fault does to `packed`, whose arrival by `lane` is the event at `now`.
    pub(crate) fn meets_fault(&mut self, now: Time, lane: u32, packed: PackedPacket) -> Option<Fate> {
        let amount = packed.wire_bytes();
        let (_, place) = self.links.slots.of(lane);
        let channel = &self.links.lanes[place];
        let (delay, length) = (channel.delay(), channel.serialisation(amount));
        let last = channel.to < self.links.endpoints;
        // Hosts are told of the tail, behind the pipeline of the NIC; switches of the head.
        let before = if last { self.hosts.rx_latency.of(channel.to) + length + delay } else { delay };
        let from = now.saturating_sub(before);
        let when = Interval { from, until: from + length + delay + Span::from_ps(1) };
        let link = lane / self.links.vls;
        let faults = self.watch.faults.as_mut()?;
        let (fault, fate) = faults.strikes(link, when, amount)?;
        if faults.planned {
            let report = &mut faults.reports[fault as usize];
            report.packets_lost += 1;
            if packed.payload() > Bytes::ZERO {
                let packet = packed.unpack();
                faults.missing.entry((packet.dest.0, packet.dest_qp, packet.psn)).or_insert((fault, now));
            }
        }
        Some(fate)
    }

    /// When the credits of a packet that was lost on the way by `lane` at `now` come back.
    pub(crate) fn resynchronised(&self, now: Time, lane: u32) -> Time {
        let Some(faults) = &self.watch.faults else { return now };
        if faults.is_down((lane / self.links.vls) >> 1, now) {
            // Nobody waits for credits of a dead link: what is sent to it goes nowhere.
            return now;
        }
        let (_, place) = self.links.slots.of(lane);
        let interval = self.links.lanes[place].pace().time(Bytes(SYMBOLS * faults.symbol_lanes));
        now.next_multiple_of(interval.max(Span::from_ps(1)))
    }

    /// A packet arrived whole at `host`: it may be the repetition of one that was lost.
    pub(crate) fn repaired(&mut self, now: Time, host: u32, packed: PackedPacket) {
        let Some(faults) = &mut self.watch.faults else { return };
        if faults.missing.is_empty() {
            return;
        }
        if let Some((fault, lost)) = faults.missing.remove(&(host, packed.dest_qp(), packed.unpack().psn)) {
            let report = &mut faults.reports[fault as usize];
            report.repaired += 1;
            report.slowest_repair = report.slowest_repair.max(now - lost);
        }
    }

    /// Whether `host` takes nothing at `now`: what arrives stays in its buffer, to be looked at again when that is over.
    pub(crate) fn blocked(&mut self, now: Time, host: u32, lane: u32, packed: PackedPacket) -> bool {
        let hindered = self.watch.faults.as_ref().and_then(|faults| faults.hindered.get(&host));
        let blocks = hindered.and_then(|list| list.iter().find(|one| one.pace.is_none() && one.when.holds(now)));
        match blocks.map(|one| one.when.until) {
            None => return false,
            Some(NEVER) => self.ext_headers.free(packed.ext()),
            Some(until) => self.queue.push(until, Event::arrive(lane, packed)),
        }
        true
    }

    /// When `host` begins to take `payload` that arrived at `now`.
    pub(crate) fn begins(&mut self, now: Time, host: u32, payload: Bytes) -> Time {
        let Some(faults) = &mut self.watch.faults else { return now };
        let Some(list) = faults.hindered.get(&host) else { return now };
        let pace = list.iter().filter(|one| one.when.holds(now)).filter_map(|one| one.pace).max();
        let Some(pace) = pace.filter(|_| payload > Bytes::ZERO) else { return now };
        let free = faults.free.entry(host).or_insert(Time::ZERO);
        let begin = now.max(*free);
        *free = begin + pace.time(payload);
        begin
    }

    /// The lanes of a link change their pace: it is trained anew.
    pub(crate) fn change_pace(&mut self, now: Time, change: u32) {
        let Some(PaceChange { link, pace }) = self.watch.faults.as_ref().map(|faults| faults.changes[change as usize]) else { return };
        for lane in link * self.links.vls..(link + 1) * self.links.vls {
            self.links.lane(lane).set_pace(pace);
        }
        if let Some(observer) = &mut self.watch.observer {
            observer.count(CounterPlace::Port(link), Counter::LinkRecoveries, now);
        }
    }

    /// The way of a packet at `switch` where links may be down; `None` where routes are as always.
    pub(crate) fn route_around(&mut self, now: Time, switch: u32, packed: PackedPacket, input: (u32, u8)) -> Option<Hop> {
        let World { watch, routes, links, .. } = self;
        let faults = watch.faults.as_deref_mut()?;
        let mut view = QueueView { now, links, flows: &mut routes.flows };
        faults.route(now, switch, &routes.table, &packed, input, &mut view)
    }

    /// What the faults did.
    pub(crate) fn breakage(&mut self) -> Option<Breakage> {
        let faults = self.watch.faults.take()?;
        let Faults { mut reports, reroute, missing, planned, .. } = *faults;
        if !planned {
            return None;
        }
        // Each fault by itself: the order does not matter.
        for (fault, _) in missing.into_values() {
            reports[fault as usize].never_repaired += 1;
        }
        let now = self.queue.now();
        let tables = reroute.map_or_else(Vec::new, |reroute| reroute.tables().filter(|new| new.started <= now).collect());
        for report in &mut reports {
            let after = tables.iter().find(|new: &&NewTables| new.started >= report.from);
            report.new_tables = after.filter(|_| report.cuts).map(|new| new.written);
        }
        let repeated = self.hosts.iter().filter_map(|host| host.rnic()).map(fabriscope_verbs::Nic::retransmissions).sum();
        let migrated = self.hosts.iter().filter_map(|host| host.rnic()).map(|nic| nic.counts().migrations).sum();
        Some(Breakage { faults: reports, tables, repeated, migrated, ..Breakage::default() })
    }
}

/// A link carries a flow control packet at least once in so many symbol times. Basis: standard, IBA vol. 1 §7.9.4.
const SYMBOLS: u64 = 65_536;
/// What is never reached.
const NEVER: Time = Time::from_ps(u64::MAX >> 1);

impl Faults {
    fn route(
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
fn at(span: Span) -> Time {
    Time::ZERO + span
}
