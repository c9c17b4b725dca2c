//! Counting for ports and adapters, from outside: what they send and what arrives tells nearly all that their counters hold.
//!
//! Source: InfiniBand Architecture Specification volume 1, §16.1; documentation of the counters of mlx5 adapters.
//! Modelled: see [`Counter`]. Bytes are those between the delimiters, without VCRC, FCS, preamble and gap.
//! A packet belongs to the job of the host that it goes to. Intervals may double in length as a run gets long.
//! Not modelled: the width of the registers; jobs that share a host apart from each other.

use std::sync::Arc;

use fabriscope_engine::{Counter, CounterPlace, Counters, NO_JOB, PortCounts};
use fabriscope_fabric::LinkId;
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{NicCounts, Packet, PacketFlags, Transmit};
use fabriscope_wire::{LinkLayer, NakCode, Opcode, Psn, Syndrome, Transport};
use rustc_hash::FxHashMap;

use crate::Counting;

/// The counts of one part.
#[derive(Debug)]
pub(crate) struct CounterBank {
    counters: Counters,
    /// What is not counted of each packet.
    outside: Bytes,
    /// When the last packet of each link was sent.
    tails: Vec<Time>,
    /// Priorities of a link, by level.
    levels: Vec<u8>,
    /// What each link sent and what arrived by it, by link and priority.
    sent: Vec<Meters>,
    arrived: Vec<Meters>,
    /// What adapters built and what reached them.
    built: Vec<Meters>,
    received: Vec<Meters>,
    /// What each adapter had counted when it was asked last. Looked up, never iterated.
    nics: FxHashMap<u32, NicCounts>,
    /// Whether adapters are counted, too.
    adapters: bool,
    /// How many bins there may be.
    most: u32,
    /// The job of each endpoint; empty where jobs are not told apart.
    jobs: Arc<[u16]>,
    /// What each link sent by job; a link has few. Empty likewise.
    by_job: Vec<Vec<(u16, Meters)>>,
}

/// The counters that change with every packet, apart from the others.
#[derive(Debug, Clone, Copy, Default)]
struct Meter {
    bin: u32,
    packets: u64,
    bytes: Bytes,
    wait: Span,
}

/// A meter and what it has shown in bins before the present one: maps are made when the run is over.
#[derive(Debug, Clone, Default)]
struct Meters {
    now: Meter,
    before: Vec<Meter>,
}

impl Meters {
    fn note(&mut self, bin: u32, bytes: Bytes, wait: Span) {
        if self.now.bin != bin {
            if self.now.packets > 0 {
                self.before.push(self.now);
            }
            self.now = Meter { bin, ..Meter::default() };
        }
        self.now.packets += 1;
        self.now.bytes += bytes;
        self.now.wait += wait;
    }
    /// Two bins become one.
    fn coarsen(&mut self) {
        self.now.bin /= 2;
        self.before.iter_mut().for_each(|meter| meter.bin /= 2);
        self.before.dedup_by(|next, meter| {
            let same = next.bin == meter.bin;
            if same {
                meter.packets += next.packets;
                meter.bytes += next.bytes;
                meter.wait += next.wait;
            }
            same
        });
    }
    fn all(&self) -> impl Iterator<Item = &Meter> {
        self.before.iter().chain(std::iter::once(&self.now).filter(|now| now.packets > 0))
    }
    /// Counts one of its quantities at a place.
    fn tell(&self, counters: &mut Counters, place: CounterPlace, counter: Counter, amount: impl Fn(&Meter) -> u64) {
        if self.all().next().is_some() {
            counters.add_all(place, counter, self.all().map(|meter| (meter.bin, amount(meter))));
        }
    }
}

/// Bytes of a packet on the wire that counters leave out: delimiters and VCRC; preamble, FCS and gap. Basis: standards.
const OUTSIDE_INFINIBAND: Bytes = Bytes(1 + 2 + 1);
const OUTSIDE_ETHERNET: Bytes = Bytes(8 + 4 + 12);

impl CounterBank {
    /// Nothing counted, on a fabric with so many links, each with these priorities.
    pub fn new((counting, jobs): (Counting, &Arc<[u16]>), layer: LinkLayer, links: u32, levels: &[u8]) -> Option<CounterBank> {
        let (every, most) = match counting {
            Counting::Off => return None,
            Counting::Ports | Counting::Sums => (None, u32::MAX),
            Counting::Every(every) => (Some(every), u32::MAX),
            Counting::Sampled { every, most } => (Some(every), most.max(2)),
        };
        let meters = vec![Meters::default(); links as usize * levels.len()];
        Some(CounterBank {
            counters: Counters::new(every),
            outside: if layer.is_ethernet() { OUTSIDE_ETHERNET } else { OUTSIDE_INFINIBAND },
            tails: vec![Time::ZERO; links as usize],
            levels: levels.to_vec(),
            sent: meters.clone(),
            arrived: meters,
            built: Vec::new(),
            received: Vec::new(),
            nics: FxHashMap::default(),
            adapters: counting != Counting::Ports,
            most,
            by_job: vec![Vec::new(); if jobs.is_empty() { 0 } else { links as usize }],
            jobs: Arc::clone(jobs),
        })
    }

    /// Whether adapters are counted, and not ports alone.
    pub fn counts_adapters(&self) -> bool {
        self.adapters
    }

    /// What was counted in all.
    pub fn into_counters(mut self) -> Counters {
        let levels = self.levels.len();
        for (place, meter) in self.sent.iter().enumerate() {
            note_sent(&mut self.counters, place / levels, self.levels[place % levels], meter);
        }
        for (place, meter) in self.arrived.iter().enumerate() {
            note_arrived(&mut self.counters, place / levels, self.levels[place % levels], meter);
        }
        for (link, meters) in self.by_job.iter().enumerate() {
            meters.iter().for_each(|(job, meter)| note_job(&mut self.counters, link, *job, meter));
        }
        for (host, meter) in self.built.iter().enumerate() {
            note_adapter(&mut self.counters, host, [Counter::TxPackets, Counter::TxPayload], meter);
        }
        for (host, meter) in self.received.iter().enumerate() {
            note_adapter(&mut self.counters, host, [Counter::RxPackets, Counter::RxPayload], meter);
        }
        self.counters
    }

    /// The bin of a time; bins get longer until there are few enough.
    fn bin(&mut self, time: Time) -> u32 {
        loop {
            let bin = self.counters.bin(time);
            if bin < self.most {
                return bin;
            }
            self.counters.coarsen();
            let adapters = self.built.iter_mut().chain(&mut self.received);
            self.sent.iter_mut().chain(&mut self.arrived).chain(adapters).for_each(Meters::coarsen);
            self.by_job.iter_mut().flatten().for_each(|(_, meters)| meters.coarsen());
        }
    }

    /// What the port that `link` leaves has counted by now.
    pub fn port(&self, link: u32) -> PortCounts {
        let mut now = Counters::new(None);
        let levels = self.levels.len();
        let own = |link: u32| link as usize * levels..(link as usize + 1) * levels;
        let (sent, arrived) = (self.sent.get(own(link)), self.arrived.get(own(LinkId(link).reverse().0)));
        let (Some(sent), Some(arrived)) = (sent, arrived) else { return PortCounts::new() };
        for (priority, (sent, arrived)) in self.levels.iter().zip(sent.iter().zip(arrived)) {
            note_sent(&mut now, link as usize, *priority, sent);
            note_arrived(&mut now, LinkId(link).reverse().index(), *priority, arrived);
        }
        let place = CounterPlace::Port(link);
        let both = now.at(place).chain(self.counters.at(place));
        let mut counts = PortCounts::new();
        both.for_each(|(counter, amount)| *counts.entry(counter).or_default() += amount);
        counts
    }

    /// Counts `amount` at `time`.
    pub fn add(&mut self, place: CounterPlace, counter: Counter, time: Time, amount: u64) {
        let bin = self.bin(time);
        self.counters.add(place, counter, bin, amount);
    }

    /// A packet of a priority leaves on a link for `dest`, where one was ready at `ready`: its first bit at `start`, its last at `tail`.
    pub fn sent(&mut self, (link, level): (u32, u32), dest: u32, wire_bytes: Bytes, [ready, start, tail]: [Time; 3]) {
        let (link, level) = (link as usize, level as usize);
        let bin = self.bin(start);
        let meter = self.sent.get_mut(link * self.levels.len() + level);
        let (Some(meter), Some(last)) = (meter, self.tails.get_mut(link)) else { return };
        let (waited, bytes) = (start.since(ready.max(*last)), wire_bytes.saturating_sub(self.outside));
        meter.note(bin, bytes, waited);
        *last = tail.max(*last);
        let job = self.jobs.get(dest as usize).copied().filter(|job| *job != NO_JOB);
        let (Some(job), Some(meters)) = (job, self.by_job.get_mut(link)) else { return };
        let place = meters.iter().position(|(other, _)| *other == job).unwrap_or_else(|| {
            meters.push((job, Meters::default()));
            meters.len() - 1
        });
        meters[place].1.note(bin, bytes, waited);
    }

    /// A packet of a priority arrived by a link.
    pub fn arrived(&mut self, (link, level): (u32, u32), now: Time, wire_bytes: Bytes) {
        let bin = self.bin(now);
        let (link, level) = (link as usize, level as usize);
        let Some(meter) = self.arrived.get_mut(link * self.levels.len() + level) else { return };
        meter.note(bin, wire_bytes.saturating_sub(self.outside), Span::ZERO);
    }

    /// An adapter has built a packet.
    pub fn built(&mut self, host: u32, time: Time, transmit: &Transmit) {
        let (place, packet) = (CounterPlace::Adapter(host), &transmit.packet);
        let bin = self.bin(time);
        at(&mut self.built, host).note(bin, Bytes(u64::from(packet.payload)), Span::ZERO);
        if transmit.retransmission {
            self.add(place, Counter::Retransmissions, time, 1);
            self.add(place, Counter::RetransmittedPayload, time, u64::from(packet.payload));
        }
        if packet.opcode == Opcode::CNP.as_u8() {
            self.add(place, Counter::CnpSent, time, 1);
        }
        if is_acknowledgement(packet) && matches!(Syndrome::decode(packet.syndrome), Ok(Syndrome::RnrNak(_))) {
            self.add(place, Counter::OutOfBuffer, time, 1);
        }
    }

    /// `packet` arrived at an adapter, whose queue pair expects the request `expected` next.
    pub fn received(&mut self, host: u32, now: Time, packet: &Packet, expected: Option<u32>) {
        let place = CounterPlace::Adapter(host);
        let bin = self.bin(now);
        at(&mut self.received, host).note(bin, Bytes(u64::from(packet.payload)), Span::ZERO);
        if packet.flags.contains(PacketFlags::ECN_CE) {
            self.add(place, Counter::RcvMarks, now, 1);
        }
        let Ok(opcode) = Opcode::decode(packet.opcode) else { return };
        if opcode == Opcode::CNP {
            return self.add(place, Counter::CnpHandled, now, 1);
        }
        if is_acknowledgement(packet) {
            let counter = match Syndrome::decode(packet.syndrome) {
                Ok(Syndrome::RnrNak(_)) => Counter::RnrNakRetryErr,
                Ok(Syndrome::Nak(NakCode::PsnSequenceError)) => Counter::PacketSeqErr,
                Ok(Syndrome::Nak(NakCode::RemoteAccessError)) => Counter::RemoteAccessErr,
                Ok(Syndrome::Nak(NakCode::InvalidRequest)) => Counter::RemoteInvalidRequest,
                _ => return,
            };
            return self.add(place, counter, now, 1);
        }
        let connected = matches!(opcode.transport(), Transport::Rc | Transport::Uc | Transport::Rd | Transport::Xrc | Transport::Dc);
        if opcode.is_response() || !connected {
            return;
        }
        let ahead = expected.map_or(0, |expected| Psn::new(packet.psn).distance(Psn::new(expected)));
        let counter = match ahead {
            1.. => Counter::OutOfSequence,
            // Nobody sends unreliable packets again.
            ..0 if opcode.transport() == Transport::Uc => return,
            ..0 => Counter::DuplicateRequest,
            0 if opcode.is_atomic() => Counter::AtomicRequests,
            0 if opcode.is_read_request() => Counter::ReadRequests,
            0 if opcode.is_write() && opcode.is_first() => Counter::WriteRequests,
            0 => return,
        };
        self.add(place, counter, now, 1);
    }

    /// An adapter has counted so much by itself.
    pub fn noted(&mut self, host: u32, now: Time, counts: NicCounts) {
        let before = self.nics.insert(host, counts).unwrap_or_default();
        if before == counts {
            return;
        }
        let pairs = [
            (Counter::LocalAckTimeoutErr, counts.ack_timeouts - before.ack_timeouts),
            (Counter::ImpliedNakSeqErr, counts.implied_naks - before.implied_naks),
            (Counter::ReqCqeError, counts.request_errors - before.request_errors),
            (Counter::ReqCqeFlushError, counts.request_flushes - before.request_flushes),
            (Counter::RespCqeError, counts.receive_errors - before.receive_errors),
            (Counter::RespCqeFlushError, counts.receive_flushes - before.receive_flushes),
            (Counter::OutOfSequence, counts.out_of_order - before.out_of_order),
            (Counter::DuplicateRequest, counts.duplicates - before.duplicates),
        ];
        for (counter, more) in pairs {
            if more > 0 {
                self.add(CounterPlace::Adapter(host), counter, now, more);
            }
        }
    }
}

fn note_sent(counters: &mut Counters, link: usize, priority: u8, meters: &Meters) {
    let place = CounterPlace::Port(link as u32);
    for counter in [Counter::XmitBytesAt(priority), Counter::XmitBytes] {
        meters.tell(counters, place, counter, |meter| meter.bytes.0);
    }
    for counter in [Counter::XmitPacketsAt(priority), Counter::XmitPackets] {
        meters.tell(counters, place, counter, |meter| meter.packets);
    }
    meters.tell(counters, place, Counter::XmitWait, |meter| meter.wait.as_ps());
}

fn note_job(counters: &mut Counters, link: usize, job: u16, meters: &Meters) {
    let place = CounterPlace::Port(link as u32);
    meters.tell(counters, place, Counter::XmitBytesOf(job), |meter| meter.bytes.0);
    meters.tell(counters, place, Counter::XmitWaitOf(job), |meter| meter.wait.as_ps());
}

fn note_arrived(counters: &mut Counters, link: usize, priority: u8, meters: &Meters) {
    let place = CounterPlace::far(link as u32);
    for counter in [Counter::RcvBytesAt(priority), Counter::RcvBytes] {
        meters.tell(counters, place, counter, |meter| meter.bytes.0);
    }
    for counter in [Counter::RcvPacketsAt(priority), Counter::RcvPackets] {
        meters.tell(counters, place, counter, |meter| meter.packets);
    }
}

fn note_adapter(counters: &mut Counters, host: usize, [packets, payload]: [Counter; 2], meters: &Meters) {
    let place = CounterPlace::Adapter(host as u32);
    meters.tell(counters, place, packets, |meter| meter.packets);
    meters.tell(counters, place, payload, |meter| meter.bytes.0);
}

/// The meter of an adapter.
fn at(meters: &mut Vec<Meters>, host: u32) -> &mut Meters {
    let host = host as usize;
    if meters.len() <= host {
        meters.resize(host + 1, Meters::default());
    }
    &mut meters[host]
}

fn is_acknowledgement(packet: &Packet) -> bool {
    Opcode::decode(packet.opcode).is_ok_and(Opcode::is_ack)
}
