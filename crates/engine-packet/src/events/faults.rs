//! What happens where links and devices fail.

use crate::boundary::LostPacket;
use crate::event::Event;
use crate::faults::{Fate, Faults, Interval, NEVER, PaceChange, SYMBOLS};
use crate::packed_packet::PackedPacket;
use crate::routes::QueueView;
use crate::world::World;
use fabriscope_engine::{Breakage, Counter, CounterPlace, NewTables};
use fabriscope_fabric::{Hop, LinkId};
use fabriscope_units::{Bytes, Pace, Span, Time};

impl World<'_> {
    /// What a fault does to `packed`, whose arrival by `lane` is the event at `now`.
    pub(crate) fn meets_fault(&mut self, now: Time, lane: u32, packed: PackedPacket) -> Option<Fate> {
        let amount = packed.wire_bytes();
        let (delay, pace, to) = self.line_of(lane);
        let length = pace.time(amount);
        let last = to < self.links.endpoints;
        // Hosts are told of the tail, behind the pipeline of the NIC; switches of the head.
        let before = if last { self.hosts.rx_latency.of(to) + length + delay } else { delay };
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
                let lost = LostPacket { packet: (packet.dest.0, packet.dest_qp, packet.psn), fault, at: now };
                let part = self.layout.part_of_host(packet.dest.0);
                match part.filter(|part| *part != self.links.part) {
                    Some(part) => self.outbox[part as usize].losses.push(lost),
                    None => self.miss(lost),
                }
            }
        }
        Some(fate)
    }

    /// A packet for a host of this part was lost.
    pub(crate) fn miss(&mut self, lost: LostPacket) {
        if let Some(faults) = &mut self.watch.faults {
            faults.missing.entry(lost.packet).or_insert((lost.fault, lost.at));
        }
    }

    /// Propagation, pace and far end of a lane that ends here; the part that it leaves has its state.
    fn line_of(&self, lane: u32) -> (Span, Pace, u32) {
        let (part, place) = self.links.slots.of(lane);
        if part == self.links.part {
            let lane = &self.links.lanes[place];
            return (lane.delay(), lane.pace(), lane.to);
        }
        let link = lane / self.links.vls;
        let line = self.links.graph.link(LinkId(link));
        let changed = self.watch.faults.as_ref().and_then(|faults| faults.paces.get(&link));
        (line.delay, changed.copied().unwrap_or_else(|| Pace::of(line.rate)), line.to.0)
    }

    /// When the credits of a packet that was lost on the way by `lane` at `now` come back.
    pub(crate) fn resynchronised(&self, now: Time, lane: u32) -> Time {
        let Some(faults) = &self.watch.faults else { return now };
        if faults.is_down((lane / self.links.vls) >> 1, now) {
            // Nobody waits for credits of a dead link: what is sent to it goes nowhere.
            return now;
        }
        let (_, pace, _) = self.line_of(lane);
        let interval = pace.time(Bytes(SYMBOLS * faults.symbol_lanes));
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
        let Some(faults) = &mut self.watch.faults else { return };
        let PaceChange { link, pace } = faults.changes[change as usize];
        faults.paces.insert(link, pace);
        if self.links.slots.of(link * self.links.vls).0 != self.links.part {
            return;
        }
        for lane in link * self.links.vls..(link + 1) * self.links.vls {
            self.links.lane(lane).set_pace(pace);
        }
        self.links.forget_held();
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

    /// What the faults did until `now`.
    pub(crate) fn breakage(&mut self, now: Time) -> Option<Breakage> {
        let faults = self.watch.faults.take()?;
        let Faults { mut reports, reroute, missing, planned, .. } = *faults;
        if !planned {
            return None;
        }
        // Each fault by itself: the order does not matter.
        for (fault, _) in missing.into_values() {
            reports[fault as usize].never_repaired += 1;
        }
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

/// Adds what the faults did in one part to what they did in others.
pub(crate) fn absorb(all: &mut Option<Breakage>, more: Option<Breakage>) {
    let (Some(all), Some(more)) = (&mut *all, &more) else {
        *all = all.take().or(more);
        return;
    };
    for (report, other) in all.faults.iter_mut().zip(&more.faults) {
        report.packets_lost += other.packets_lost;
        report.repaired += other.repaired;
        report.never_repaired += other.never_repaired;
        report.slowest_repair = report.slowest_repair.max(other.slowest_repair);
    }
    all.repeated += more.repeated;
    all.migrated += more.migrated;
}
