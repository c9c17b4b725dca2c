//! Packets between NICs: forwarding, reservation of links, return of credits.

use fabriscope_engine::Stage;
use fabriscope_fabric::Hop;
use fabriscope_switch::PauseChange;
use fabriscope_switch::channel::NONE;
use fabriscope_units::{Bytes, Pace, Span, Time};
use fabriscope_verbs::PacketFlags;
use fabriscope_verbs::cc::LinkState;

use crate::event::Event;
use crate::links::{Backpressure, Forwarding, Overflow, Scheduling, Telemetry};
use crate::packed_packet::PackedPacket;
use crate::queues::{COPY, FROM_HOST};
use crate::routes::QueueView;
use crate::world::World;

impl World<'_> {
    /// The head of `packet` has reached `switch` by `lane`.
    #[inline]
    pub(crate) fn forward(&mut self, now: Time, lane: u32, switch: u32, mut packed: PackedPacket) {
        if self.watch.inspects() && self.arrives_damaged(now, lane, packed) {
            return self.lose(self.resynchronised(now, lane), lane, packed);
        }
        if self.watch.inspects() && self.groups.enforcement.is_some() && self.refused_in(now, lane, packed) {
            return self.lose(now, lane, packed);
        }
        let hop = self.route(now, switch, &packed, self.links.input(lane));
        packed.set_via(hop.via);
        let out = hop.link.0 * self.links.vls + self.links.lane_across(switch, lane, hop.link.0, packed.sl(), u32::from(hop.vl));
        let earliest = self.leaves_at(now, lane, out, packed.wire_bytes());
        if self.links.scheduling == Scheduling::Arbitrated {
            if self.links.backpressure.pauses() && !self.hold(now, lane, packed) {
                return;
            }
            if self.groups.enforcement.is_some() && self.refused_out(now, out, packed) {
                self.ext_headers.free(packed.ext());
                return self.release(lane, packed.wire_bytes(), now);
            }
            self.links.comes(switch, out, packed.wire_bytes(), earliest.since(now));
            let depth = self.links.depth(now, out);
            self.watch.stats.deepest_queue = self.watch.stats.deepest_queue.max(depth.0);
            if packed.has(PacketFlags::TRIMMED) {
                return self.express(out, packed, lane, earliest);
            }
            let full = self.links.is_full(now, switch, out, depth, packed.wire_bytes());
            // What is left of a trimmed packet says that its queue is long.
            if !full || self.links.overflow == Overflow::Trim {
                self.mark(now, out, depth, &mut packed);
            }
            if full {
                return self.overflow(now, out, packed, lane, earliest);
            }
        }
        if packed.has(PacketFlags::TRACED) {
            self.watch.trace.mark(&packed.unpack(), Stage::Switch, earliest, || format!("switch {switch}"));
        }
        self.send(now, out, packed, lane, earliest);
    }

    /// When a packet of `amount` whose head arrives by `lane` now could leave by `out`.
    #[inline(always)]
    pub(crate) fn leaves_at(&self, now: Time, lane: u32, out: u32, amount: Bytes) -> Time {
        let latency = self.links.latency_before(out);
        let earliest = now + latency;
        let ahead = match self.links.forwarding {
            Forwarding::UniformCutThrough => return earliest,
            Forwarding::StoreAndForward => Span::ZERO,
            Forwarding::CutThrough => self.pace_of(out).time(amount),
        };
        // Cut-through must not run dry: the output may not overtake the arriving tail.
        let tail = now + self.pace_of(lane).time(amount) + latency;
        earliest.max(tail.saturating_sub(ahead))
    }

    /// Which way `packed` goes at `switch`.
    #[inline(always)]
    fn route(&mut self, now: Time, switch: u32, packed: &PackedPacket, input: (u32, u8)) -> Hop {
        if self.routes.table.oblivious {
            self.routes.table.idle(switch, packed, input)
        } else {
            self.look_and_route(now, switch, *packed, input)
        }
    }

    /// Apart, and with a copy of the packet: on the usual way its words need no address and stay in registers.
    #[inline(never)]
    fn look_and_route(&mut self, now: Time, switch: u32, packed: PackedPacket, input: (u32, u8)) -> Hop {
        if let Some(hop) = self.route_around(now, switch, packed, input) {
            return hop;
        }
        let World { routes, links, .. } = self;
        let mut view = QueueView { now, links, flows: &mut routes.flows };
        routes.table.output(switch, &packed, input, &mut view)
    }

    /// Puts `packed` on `out` as soon as it can go: at once when that is known, else it waits.
    #[inline(always)]
    pub(crate) fn send(&mut self, now: Time, out: u32, packed: PackedPacket, from: u32, earliest: Time) {
        if self.links.scheduling == Scheduling::Arbitrated {
            self.send_arbitrated(now, out, packed, from, earliest);
            return;
        }
        let (_, place) = self.links.slots.of(out);
        let lane = &mut self.links.lanes[place];
        if lane.head == NONE
            && let Some(start) = lane.reserve(packed.wire_bytes(), earliest)
        {
            self.depart(out, place, packed, from, (earliest, start));
        } else {
            self.links.queues.push(lane, packed, from, earliest);
        }
    }

    /// `packed`, ready at `ready`, leaves on `out`, whose state is at `place`, at `start`: its next arrival, and the space it frees.
    #[inline(always)]
    pub(crate) fn depart(&mut self, out: u32, place: usize, packed: PackedPacket, from: u32, (ready, start): (Time, Time)) {
        self.watch.stats.packet_hops += 1;
        let amount = packed.wire_bytes();
        let lane = &self.links.lanes[place];
        let tail = start + lane.serialisation(amount);
        let at =
            if lane.to < self.links.endpoints { tail + lane.delay() + self.hosts.rx_latency.of(lane.to) } else { start + lane.delay() };
        if self.watch.observer.is_some() {
            self.observe(out, place, packed, from, (ready, start, at));
        }
        let lane = &self.links.lanes[place];
        if u32::from(lane.part) == self.links.part {
            self.queue.push(at, Event::arrive(out, packed));
        } else {
            self.post_packet(place, (at, start), out, packed);
        }
        if packed.has(PacketFlags::TRACED) {
            self.trace_departure(out, place, &packed.unpack(), start, tail);
        }
        if self.links.telemetry == Telemetry::Stamped && packed.payload() > Bytes::ZERO {
            self.stamp(place, &packed, start);
        }
        if from & FROM_HOST == 0 {
            self.release(from, amount, tail);
        } else if from & COPY == COPY {
            self.copy_left(from & !COPY, amount, tail);
        } else if packed.payload() > Bytes::ZERO {
            self.sent(from & !FROM_HOST, amount, packed.sl(), tail);
        }
    }

    /// The buffer behind `lane` has room for `amount` more from `time` on.
    #[inline]
    pub(crate) fn release(&mut self, lane: u32, amount: Bytes, time: Time) {
        if self.links.backpressure == Backpressure::Drop {
            return; // nobody waits for room
        }
        let (part, place) = self.links.slots.of(lane);
        if part != self.links.part {
            if self.links.guards.is_empty() {
                self.outbox[part as usize].credits.push((time, lane, amount));
                return;
            }
            return self.release_far(part, lane, amount, time);
        }
        let channel = &mut self.links.lanes[place];
        // A credit travels back over the cable; a pause frame's way is in its reaction time.
        let known = if channel.pauses() { time } else { time + channel.delay() };
        let change = channel.give_back(amount, known);
        if channel.head != NONE {
            self.links.drains.push(lane);
        }
        if self.links.backpressure.pauses() {
            if self.watch.observer.is_some() {
                self.observe_pause(lane);
            }
            self.note_pause(lane, change);
        }
    }

    /// Lets packets go whose credits are now known to come.
    pub(crate) fn drain(&mut self, now: Time) {
        while let Some(out) = self.links.drains.pop() {
            if self.links.scheduling == Scheduling::Arbitrated {
                self.schedule_pump(now, out / self.links.vls);
                continue;
            }
            let (_, place) = self.links.slots.of(out);
            loop {
                let lane = &mut self.links.lanes[place];
                let Some((bytes, earliest)) = self.links.queues.first(lane).map(|w| (w.packed.wire_bytes(), w.earliest)) else { break };
                let Some(start) = lane.reserve(bytes, earliest) else { break };
                let entry = self.links.queues.pop(lane).expect("the list was not empty");
                self.depart(out, place, entry.packed, entry.from, (earliest, start));
            }
        }
    }

    /// Notes what a change of the pause state means for the sender.
    pub(crate) fn note_pause(&mut self, lane: u32, change: PauseChange) {
        match change {
            PauseChange::None => {}
            PauseChange::Paused => self.watch.stats.pauses += 1,
            PauseChange::Until(_) => {
                if self.links.lane(lane).head != NONE {
                    self.links.drains.push(lane);
                }
            }
        }
    }

    /// Accounts an arriving packet in the buffer behind a lane with pause frames; false when it is lost.
    pub(crate) fn hold(&mut self, now: Time, lane: u32, packed: PackedPacket) -> bool {
        let (part, place) = self.links.slots.of(lane);
        let guard = if part == self.links.part { None } else { self.links.guard(lane) };
        let buffer = match guard {
            None if part != self.links.part => return true,
            None => &mut self.links.lanes[place],
            Some(guard) => &mut self.links.guards.buffers[guard],
        };
        if !buffer.pauses() {
            return true;
        }
        let held = buffer.hold(packed.wire_bytes(), now);
        if self.watch.observer.is_some() {
            self.observe_pause(lane);
        }
        match held {
            Ok(change) => {
                match guard {
                    None => self.note_pause(lane, change),
                    Some(guard) => {
                        self.watch.stats.pauses += u64::from(change == PauseChange::Paused);
                        self.post_pause(part, lane, guard);
                    }
                }
                true
            }
            Err(()) => {
                self.watch.stats.drops += 1;
                if let Some(observer) = &mut self.watch.observer {
                    observer.discard(lane / self.links.vls, now);
                }
                self.ext_headers.free(packed.ext());
                false
            }
        }
    }

    /// Whether `packed`, which was to arrive by `lane`, is lost on the way.
    #[cold]
    #[inline(never)]
    pub(crate) fn arrives_damaged(&mut self, now: Time, lane: u32, packed: PackedPacket) -> bool {
        let fate = if self.watch.faults.is_some() { self.meets_fault(now, lane, packed) } else { None };
        self.watch.stats.drops += u64::from(fate.is_some());
        if let Some(observer) = &mut self.watch.observer {
            observer.arrive((lane / self.links.vls, lane % self.links.vls / self.links.per_level), now, packed.wire_bytes(), fate);
        }
        fate.is_some()
    }

    /// The pace of a link, where links differ.
    fn pace_of(&self, lane: u32) -> Pace {
        let link = lane / self.links.vls;
        let changed = self.watch.faults.as_ref().and_then(|faults| faults.paces.get(&link));
        changed.copied().unwrap_or_else(|| self.layout.paces[link as usize])
    }

    /// A packet is lost before it is in a buffer; its credits are back at `now`.
    pub(crate) fn lose(&mut self, now: Time, lane: u32, packed: PackedPacket) {
        self.ext_headers.free(packed.ext());
        let ((part, _), own) = (self.links.slots.of(lane), self.links.part);
        let pauses = self.links.backpressure.pauses();
        match self.links.buffer(lane).filter(|_| pauses) {
            Some(buffer) if part == own => buffer.lost_in_flight(packed.wire_bytes()),
            Some(_) => self.outbox[part as usize].credits.push((now, lane, packed.wire_bytes())),
            None => self.release(lane, packed.wire_bytes(), now),
        }
    }

    /// Marks a packet that joins `depth` of others in `out`, where the switch marks (ECN).
    #[inline(always)]
    pub(crate) fn mark(&mut self, now: Time, out: u32, depth: Bytes, packed: &mut PackedPacket) {
        if let Some(marking) = &mut self.links.marking
            && marking.marks(if self.links.vls == 1 { 0 } else { (out % self.links.vls) as usize }, depth)
        {
            self.watch.stats.ecn_marks += 1;
            packed.set(PacketFlags::ECN_CE);
            self.observe_mark(now, out);
        }
    }

    /// There is no room for a packet: it is dropped, or its header goes on alone.
    #[cold]
    fn overflow(&mut self, now: Time, out: u32, mut packed: PackedPacket, lane: u32, earliest: Time) {
        let trims = self.links.overflow == Overflow::Trim && packed.payload() > Bytes::ZERO;
        if let Some(observer) = &mut self.watch.observer {
            observer.overflow(out / self.links.vls, now, trims);
        }
        if !trims {
            self.watch.stats.drops += 1;
            self.ext_headers.free(packed.ext());
            return self.release(lane, packed.wire_bytes(), now);
        }
        self.watch.stats.trims += 1;
        let bytes = packed.wire_bytes();
        packed.trim();
        self.release(lane, bytes - packed.wire_bytes(), now);
        self.express(out, packed, lane, earliest);
    }

    /// A trimmed packet goes ahead of all others; the packet that is on the wire just now, half of one on the average, is left
    /// out of account.
    fn express(&mut self, out: u32, packed: PackedPacket, from: u32, earliest: Time) {
        let (_, place) = self.links.slots.of(out);
        let lane = &mut self.links.lanes[place];
        let bytes = packed.wire_bytes();
        if lane.open_at(bytes, earliest) != Some(earliest) {
            return self.send_arbitrated(self.queue.now(), out, packed, from, earliest);
        }
        lane.take(bytes);
        let wire = &mut self.links.wires[place / self.links.vls as usize];
        wire.free = wire.free.max(earliest) + lane.serialisation(bytes);
        self.depart(out, place, packed, from, (earliest, earliest));
    }

    /// The link at `place` writes its state into a packet that leaves at `start`; those for other parts have it already.
    #[cold]
    fn stamp(&mut self, place: usize, packed: &PackedPacket, start: Time) {
        if u32::from(self.links.lanes[place].part) == self.links.part {
            self.write_state(place, packed, start);
        }
    }

    #[cold]
    pub(crate) fn write_state(&mut self, place: usize, packed: &PackedPacket, start: Time) {
        let number = place / self.links.vls as usize;
        let lane = &self.links.lanes[place];
        let queue = lane.waiting() + lane.sent_in(start.since(self.queue.now()));
        let wire = &mut self.links.wires[number];
        wire.sent += packed.wire_bytes();
        let state = LinkState { at: start, sent: wire.sent.0, queue, rate: lane.rate() };
        if let Some(ext) = self.ext_headers.at_mut(packed.ext()) {
            ext.links.push(state);
        }
    }

    fn trace_departure(&mut self, out: u32, place: usize, packet: &fabriscope_verbs::Packet, start: Time, tail: Time) {
        let lane = &self.links.lanes[place];
        let (delay, last, to) = (lane.delay(), lane.to < self.links.endpoints, lane.to);
        let place = || format!("link {}", out / self.links.vls);
        self.watch.trace.mark(packet, Stage::Queueing, start, place);
        if last {
            self.watch.trace.mark(packet, Stage::Serialisation, tail, place);
            self.watch.trace.mark(packet, Stage::Propagation, tail + delay, place);
            self.watch.trace.mark(packet, Stage::NicRx, tail + delay + self.hosts.rx_latency.of(to), || format!("nic {}", packet.dest.0));
        } else {
            self.watch.trace.mark(packet, Stage::Propagation, start + delay, place);
        }
    }
}
