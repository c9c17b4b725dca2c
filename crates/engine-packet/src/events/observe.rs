//! What happens for counters, captures and taps.

use crate::link_level::LinkLevel;
use crate::observe::LONGEST_PAUSE;
use crate::packed_packet::PackedPacket;
use crate::queues::{COPY, FROM_HOST};
use crate::run::Ending;
use crate::world::World;
use fabriscope_engine::{Counter, CounterPlace, LinkLoad, Seen, Sighting};
use fabriscope_fabric::LinkId;
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{Body, QpNum, Transmit};
use fabriscope_wire::Transport;

impl World<'_> {
    /// `packed`, ready at `ready`, leaves on `out` at `start`; its arrival is the event at `at`.
    #[cold]
    #[inline(never)]
    pub(crate) fn observe(&mut self, out: u32, place: usize, packed: PackedPacket, from: u32, (ready, start, at): (Time, Time, Time)) {
        let Some(observer) = &mut self.watch.observer else { return };
        let (link, lane) = (out / self.links.vls, (out % self.links.vls) as u8);
        if let Some(load) = observer.loads.get_mut(place / self.links.vls as usize) {
            load.0 += 1;
            load.1 += packed.wire_bytes();
        }
        if let Some(tally) = &mut observer.tally {
            // The link waits for the credits of whichever packet has been ready for longest.
            let base = place - usize::from(lane);
            let mut since = ready;
            if self.links.vls > 1 {
                let waiting = &self.links.queues;
                let heads = self.links.lanes[base..base + self.links.vls as usize].iter().filter_map(|lane| waiting.first(lane));
                since = heads.map(|head| head.earliest).fold(ready, Time::min);
            }
            let tail = start + self.links.lanes[place].serialisation(packed.wire_bytes());
            tally.sent((link, u32::from(lane) / self.links.per_level), packed.dest(), packed.wire_bytes(), [since, start, tail]);
        }
        if observer.taps.is_empty() {
            return;
        }
        if from & COPY == FROM_HOST {
            observer.senders.insert((packed.dest(), packed.dest_qp()), from & !FROM_HOST);
        }
        let side = &self.ext_headers;
        let seen = || {
            let (packet, ext) = (packed.unpack(), side.at(packed.ext()));
            let names_source = match packet.body() {
                Body::Ib { opcode, .. } => opcode >> 5 == Transport::Ud as u8,
                Body::Tcp { .. } => true,
                Body::Psm2 { .. } | Body::Iwarp { .. } => false,
            };
            let source = ext.filter(|_| names_source).map(|ext| ext.slid.0);
            Seen::Packet { source, lane, packet, ext: ext.cloned().map(Box::new) }
        };
        observer.pass(link, start, self.links.lanes[place].delay(), at, seen);
    }

    /// `host` has built a packet.
    #[cold]
    #[inline(never)]
    pub(crate) fn observe_built(&mut self, ready: Time, host: u32, transmit: &Transmit) {
        let Some(observer) = self.watch.observer.as_mut() else { return };
        if let Some(tally) = observer.tally.as_mut().filter(|tally| tally.counts_adapters()) {
            tally.built(host, ready, transmit);
        }
        if let Some(series) = &mut observer.series {
            series.built(ready, host, transmit.packet.dest.0, Bytes(u64::from(transmit.packet.payload)));
        }
    }

    /// `packed` reached `host`, which has not looked at it yet.
    #[cold]
    #[inline(never)]
    pub(crate) fn observe_receipt(&mut self, now: Time, host: u32, packed: PackedPacket) {
        let Some(tally) = self.watch.observer.as_mut().and_then(|observer| observer.tally.as_mut()) else { return };
        if !tally.counts_adapters() {
            return;
        }
        let packet = packed.unpack();
        let status = self.hosts[host].rnic().and_then(|nic| nic.query_qp(QpNum(packet.dest_qp)).ok());
        tally.received(host, now, &packet, status.and_then(|status| status.attr.rq_psn));
    }

    /// The NIC of `host` may have counted something.
    #[cold]
    #[inline(never)]
    pub(crate) fn observe_nic(&mut self, now: Time, host: u32) {
        let nic = self.hosts[host].rnic();
        let tally = self.watch.observer.as_mut().and_then(|observer| observer.tally.as_mut());
        if let (Some(nic), Some(tally)) = (nic, tally.filter(|tally| tally.counts_adapters())) {
            tally.noted(host, now, nic.counts());
        }
    }

    /// Notes when own links were down.
    pub(crate) fn observe_outages(&mut self, now: Time) {
        let (Some(faults), Some(tally)) = (&self.watch.faults, self.watch.observer.as_mut().and_then(|observer| observer.tally.as_mut()))
        else {
            return;
        };
        let links = &self.links;
        let own = |link: &LinkId| links.slots.of(link.0 * links.vls).0 == links.part;
        for link in (0..self.cluster.fabric.graph.link_count()).map(LinkId).filter(own) {
            for from in faults.outages(link.cable(), now) {
                tally.add(CounterPlace::Port(link.0), Counter::LinkDowned, from, 1);
            }
        }
    }

    /// A switch marked a packet that leaves by lane `out`.
    #[cold]
    #[inline(never)]
    pub(crate) fn observe_mark(&mut self, now: Time, out: u32) {
        if let Some(tally) = self.watch.observer.as_mut().and_then(|observer| observer.tally.as_mut()) {
            tally.add(CounterPlace::Port(out / self.links.vls), Counter::XmitMarks, now, 1);
        }
    }

    /// The pause of `lane` may have begun, changed its end, or ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn observe_pause(&mut self, lane: u32) {
        let (pause, reaction) = self.links.buffer(lane).map_or((None, Span::ZERO), |buffer| buffer.pause_span());
        let Some(observer) = &mut self.watch.observer else { return };
        let known = observer.pauses.get(&lane).copied();
        if known.map(|known| known.0) != pause.map(|pause| pause.0) {
            if let Some((from, until)) = known {
                self.pause_frame(lane, until, reaction, 0);
                self.pause_ended(lane, from, until);
            }
            if let Some((from, _)) = pause {
                self.pause_frame(lane, from, reaction, LONGEST_PAUSE);
            }
        }
        if let Some(observer) = &mut self.watch.observer {
            match pause {
                Some(pause) => observer.pauses.insert(lane, pause),
                None => observer.pauses.remove(&lane),
            };
        }
    }

    /// The sender of `lane` obeys a frame from `obeyed` on, which is `reaction` after it was sent on the way back.
    fn pause_frame(&mut self, lane: u32, obeyed: Time, reaction: Span, quanta: u16) {
        let (link, priority) = (lane / self.links.vls, self.links.qos.level(lane % self.links.vls).number);
        let back = LinkId(link).reverse();
        let delay = self.cluster.fabric.graph.link(back).delay;
        let start = obeyed.saturating_sub(reaction);
        if let Some(observer) = &mut self.watch.observer {
            if let Some(tally) = &mut observer.tally {
                tally.add(CounterPlace::Port(back.0), Counter::TxPause(priority), start, 1);
                tally.add(CounterPlace::Port(link), Counter::RxPause(priority), start + delay, 1);
            }
            observer.pass(back.0, start, delay, Time::MAX, || Seen::Pause { priority, quanta });
        }
    }

    /// The sender of `lane` obeyed a pause so long.
    fn pause_ended(&mut self, lane: u32, from: Time, until: Time) {
        let (link, priority) = (lane / self.links.vls, self.links.qos.level(lane % self.links.vls).number);
        if let Some(tally) = self.watch.observer.as_mut().and_then(|observer| observer.tally.as_mut()) {
            let paused = until.since(from).as_ps();
            tally.add(CounterPlace::Port(link), Counter::RxPauseTime(priority), until, paused);
            tally.add(CounterPlace::far(link), Counter::TxPauseTime(priority), until, paused);
        }
    }

    /// What passed the taps, in the order of time.
    pub(crate) fn sightings(&mut self, ending: &Ending) -> Vec<Sighting> {
        let mut open: Vec<(u32, (Time, Time))> = match &mut self.watch.observer {
            Some(observer) => observer.pauses.drain().collect(),
            None => return Vec::new(),
        };
        open.sort_unstable();
        for (lane, (from, until)) in open {
            let reaction = self.links.buffer(lane).map_or(Span::ZERO, |buffer| buffer.pause_span().1);
            if until.is_known() {
                self.pause_frame(lane, until, reaction, 0);
            }
            self.pause_ended(lane, from, until.min(ending.at));
        }
        let Some(observer) = &mut self.watch.observer else { return Vec::new() };
        let mut sightings: Vec<Sighting> = std::mem::take(&mut observer.passed)
            .into_iter()
            .filter(|(sighting, at)| !(sighting.tap.arrival && ending.lost.contains(&(sighting.tap.link, *at))))
            .map(|(sighting, _)| sighting)
            .collect();
        for sighting in &mut sightings {
            if let Seen::Packet { source: source @ None, packet, .. } = &mut sighting.seen {
                *source = ending.senders.get(&(packet.dest.0, packet.dest_qp)).copied();
            }
        }
        sort(&mut sightings);
        sightings
    }

    /// The loads of own links that carried anything until `now`, in the order of the links.
    pub(crate) fn link_loads(&self, now: Time) -> Vec<LinkLoad> {
        let Some(observer) = self.watch.observer.as_ref().filter(|observer| !observer.loads.is_empty()) else { return Vec::new() };
        let links = self.links.ends.len() as u32 / self.links.vls;
        let own = (0..links).filter_map(|link| {
            let (part, place) = self.links.slots.of(link * self.links.vls);
            let number = place / self.links.vls as usize;
            let (packets, bytes) = *observer.loads.get(number).filter(|_| part == self.links.part)?;
            let rested = |level: &LinkLevel| level.rested(number, self.links.wires[number].free, now);
            let rested = self.links.link_level.as_deref().map_or(Span::ZERO, rested);
            (packets > 0).then_some(LinkLoad { link, packets, bytes, rested })
        });
        own.collect()
    }
}

/// By time, then by tap; a link carries one packet at a time, so that leaves an order only to pause frames.
pub(crate) fn sort(sightings: &mut [Sighting]) {
    sightings.sort_by_key(|sighting| (sighting.time, sighting.tap));
}
