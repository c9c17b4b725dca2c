//! Packets between NICs: forwarding, reservation of links, return of credits.

use fabriscope_engine::Stage;
use fabriscope_fabric::{Hop, LinkId, SwitchId};
use fabriscope_switch::PauseChange;
use fabriscope_switch::channel::NONE;
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::PacketFlags;
use fabriscope_verbs::cc::LinkState;

use crate::event::{Event, Parcel};
use crate::sight::View;
use crate::waiting::{COPY, FROM_HOST};
use crate::world::{Room, World};

/// A queue that is never dropped from: a few packets (assumed).
const SHORT: u64 = 32 << 10;

impl World<'_> {
    /// The head of `packet` has reached `switch` by `lane`.
    #[inline]
    pub(crate) fn forward(&mut self, now: u64, lane: u32, switch: u32, mut parcel: Parcel) {
        if self.inspects && self.arrives_damaged(now, lane, parcel) {
            return self.lose(self.resynchronised(now, lane), lane, parcel);
        }
        if self.inspects && self.enforcement.is_some() && self.refused_in(now, lane, parcel) {
            return self.lose(now, lane, parcel);
        }
        let hop = self.route(now, switch, &parcel, self.input(lane));
        parcel.set_via(hop.via);
        let out = hop.link.0 * self.vls + self.lane_across(switch, lane, hop.link.0, parcel.sl(), u32::from(hop.vl));
        let earliest = self.leaves_at(now, lane, out, parcel.wire_bytes());
        if self.paced {
            if self.pauses && !self.hold(now, lane, parcel) {
                return;
            }
            if self.enforcement.is_some() && self.refused_out(now, out, parcel) {
                return self.lose(now, lane, parcel);
            }
            let depth = self.depth(now, out);
            self.stats.deepest_queue = self.stats.deepest_queue.max(depth);
            if parcel.has(PacketFlags::TRIMMED) {
                return self.express(out, parcel, lane, earliest);
            }
            if self.is_full(now, switch, out, depth, parcel.wire_bytes()) {
                return self.overflow(now, out, parcel, lane, earliest);
            }
            if self.marks && self.marks(out, depth) {
                parcel.set(PacketFlags::ECN_CE);
                self.observe_mark(now, out);
            }
        }
        if parcel.has(PacketFlags::TRACED) {
            self.trace.mark(&parcel.packet(), Stage::Switch, earliest, || format!("switch {switch}"));
        }
        self.send(now, out, parcel, lane, earliest);
    }

    /// When a packet of `bytes` whose head arrives by `lane` now could leave by `out`.
    #[inline(always)]
    pub(crate) fn leaves_at(&self, now: u64, lane: u32, out: u32, bytes: u32) -> u64 {
        let earliest = now + self.switch_latency;
        if self.same_pace {
            return earliest;
        }
        // Cut-through must not run dry: the output may not overtake the arriving tail.
        let pace = |lane: u32| self.pace_of(lane);
        let tail = now + ((u64::from(bytes) * pace(lane)) >> 16) + self.switch_latency;
        let ahead = if self.store_and_forward { 0 } else { (u64::from(bytes) * pace(out)) >> 16 };
        earliest.max(tail.saturating_sub(ahead))
    }

    /// Whether `bytes` more are too many for `out` at `switch`, for which `depth` bytes wait.
    #[inline(always)]
    pub(crate) fn is_full(&self, now: u64, switch: u32, out: u32, depth: u64, bytes: u32) -> bool {
        self.drops && depth + u64::from(bytes) > self.room_for(now, switch, out, depth)
    }

    /// Which way `parcel` goes at `switch`.
    #[inline(always)]
    fn route(&mut self, now: u64, switch: u32, parcel: &Parcel, input: (u32, u8)) -> Hop {
        if self.routes.oblivious { self.routes.idle(switch, parcel, input) } else { self.look_and_route(now, switch, *parcel, input) }
    }

    /// Apart, and with a copy of the packet: on the usual way its words need no address and stay in registers.
    #[inline(never)]
    fn look_and_route(&mut self, now: u64, switch: u32, parcel: Parcel, input: (u32, u8)) -> Hop {
        if let Some(hop) = self.route_around(now, switch, parcel, input) {
            return hop;
        }
        let World { routes, slots, lanes, wires, flows, paced, vls, .. } = self;
        let mut view = View { now, slots, lanes, wires, flows, paced: *paced, vls: *vls };
        routes.output(switch, &parcel, input, &mut view)
    }

    /// The lane at an adapter of a packet with service level `sl`.
    #[inline(always)]
    pub(crate) fn lane_out(&self, sl: u32) -> u32 {
        if self.levels == 1 { 0 } else { self.plan.lane_out(sl) }
    }

    /// The lane of `output`, a link of `switch`, of a packet with service level `sl` that came by `lane`; the routing chose `vl`.
    #[inline(always)]
    pub(crate) fn lane_across(&self, switch: u32, lane: u32, output: u32, sl: u32, vl: u32) -> u32 {
        if self.levels == 1 {
            return vl;
        }
        let links = [LinkId(lane / self.vls), LinkId(output)];
        self.plan.lane_across(&self.cluster.fabric.graph, switch, links, sl, vl)
    }

    /// Puts `parcel` on `out` as soon as it can go: at once when that is known, else it waits.
    #[inline(always)]
    pub(crate) fn send(&mut self, now: u64, out: u32, parcel: Parcel, from: u32, earliest: u64) {
        if self.paced {
            self.send_paced(now, out, parcel, from, earliest);
            return;
        }
        let (_, place) = self.slots.of(out);
        let lane = &mut self.lanes[place];
        if lane.head == NONE
            && let Some(start) = lane.reserve(parcel.wire_bytes(), earliest)
        {
            self.depart(out, place, parcel, from, (earliest, start));
        } else {
            self.waiting.push(lane, parcel, from, earliest);
        }
    }

    /// `parcel`, ready at `ready`, leaves on `out`, whose state is at `place`, at `start`: its next arrival, and the space it frees.
    #[inline(always)]
    pub(crate) fn depart(&mut self, out: u32, place: usize, parcel: Parcel, from: u32, (ready, start): (u64, u64)) {
        self.stats.packet_hops += 1;
        let bytes = parcel.wire_bytes();
        let lane = &self.lanes[place];
        let tail = start + lane.serialisation(bytes);
        let at = if lane.to < self.endpoints { tail + u64::from(lane.delay) + self.rx_latency } else { start + u64::from(lane.delay) };
        if self.observer.is_some() {
            self.observe(out, place, parcel, from, (ready, start, at));
        }
        let lane = &self.lanes[place];
        if u32::from(lane.part) == self.part {
            self.queue.push(Time::from_ps(at), Event::arrive(out, parcel));
        } else {
            self.post_packet(u32::from(lane.part), at, out, parcel);
        }
        if parcel.has(PacketFlags::TRACED) {
            self.trace_departure(out, place, &parcel.packet(), start, tail);
        }
        if self.telemetry && parcel.payload() > 0 {
            self.stamp(place, &parcel, start);
        }
        if from & FROM_HOST == 0 {
            self.release(from, bytes, tail);
        } else if from & COPY == COPY {
            self.copy_left(from & !COPY, bytes, tail);
        } else if parcel.payload() > 0 {
            self.sent(from & !FROM_HOST, bytes, parcel.sl(), tail);
        }
    }

    /// The buffer behind `lane` has room for `bytes` more from `time` on.
    #[inline]
    pub(crate) fn release(&mut self, lane: u32, bytes: u32, time: u64) {
        let (part, place) = self.slots.of(lane);
        if part != self.part {
            self.outbox[part as usize].credits.push((time, lane, bytes));
            return;
        }
        let channel = &mut self.lanes[place];
        // A credit travels back over the cable; a pause frame's way is in its reaction time.
        let known = if channel.pauses() { time } else { time + u64::from(channel.delay) };
        let change = channel.give_back(bytes, known);
        if channel.head != NONE {
            self.drains.push(lane);
        }
        if self.pauses {
            if self.observer.is_some() {
                self.observe_pause(lane);
            }
            self.note_pause(lane, change);
        }
    }

    /// Lets packets go whose credits are now known to come.
    pub(crate) fn drain(&mut self, now: u64) {
        while let Some(out) = self.drains.pop() {
            if self.paced {
                self.schedule_pump(now, out / self.vls);
                continue;
            }
            let (_, place) = self.slots.of(out);
            loop {
                let lane = &mut self.lanes[place];
                let Some((bytes, earliest)) = self.waiting.first(lane).map(|w| (w.parcel.wire_bytes(), w.earliest)) else { break };
                let Some(start) = lane.reserve(bytes, earliest) else { break };
                let entry = self.waiting.pop(lane).expect("the list was not empty");
                self.depart(out, place, entry.parcel, entry.from, (earliest, start));
            }
        }
    }

    /// Notes what a change of the pause state means for the sender.
    pub(crate) fn note_pause(&mut self, lane: u32, change: PauseChange) {
        match change {
            PauseChange::None => {}
            PauseChange::Paused => self.stats.pauses += 1,
            PauseChange::Until(_) => {
                if self.lane(lane).head != NONE {
                    self.drains.push(lane);
                }
            }
        }
    }

    /// Accounts an arriving packet in the buffer behind a lane with pause frames; false when it is lost.
    pub(crate) fn hold(&mut self, now: u64, lane: u32, parcel: Parcel) -> bool {
        let held = self.lane(lane).hold(parcel.wire_bytes(), now);
        if self.observer.is_some() {
            self.observe_pause(lane);
        }
        match held {
            Ok(change) => {
                if matches!(change, PauseChange::Until(_)) && self.lane(lane).head == NONE {
                    return true;
                }
                self.note_pause(lane, change);
                true
            }
            Err(()) => {
                self.stats.drops += 1;
                if let Some(observer) = &mut self.observer {
                    observer.discard(lane / self.vls, now);
                }
                self.side.free(parcel.ext());
                false
            }
        }
    }

    /// Whether `parcel`, which was to arrive by `lane`, is lost on the way.
    #[cold]
    #[inline(never)]
    pub(crate) fn arrives_damaged(&mut self, now: u64, lane: u32, parcel: Parcel) -> bool {
        let fate = if self.faults.is_some() { self.meets_fault(now, lane, parcel) } else { None };
        self.stats.drops += u64::from(fate.is_some());
        if let Some(observer) = &mut self.observer {
            observer.arrive((lane / self.vls, lane % self.vls / self.per_level), now, parcel.wire_bytes(), fate);
        }
        fate.is_some()
    }

    /// The pace of a link, where links differ.
    fn pace_of(&self, lane: u32) -> u64 {
        match &self.faults {
            // There is one part, and lanes may change.
            Some(_) => u64::from(self.lanes[self.slots.of(lane).1].pace()),
            None => u64::from(self.layout.paces[(lane / self.vls) as usize]),
        }
    }

    /// Frees what a lost packet held; its credits are back at `now`.
    pub(crate) fn lose(&mut self, now: u64, lane: u32, parcel: Parcel) {
        self.side.free(parcel.ext());
        if !self.pauses || !self.lane(lane).pauses() {
            self.release(lane, parcel.wire_bytes(), now);
        }
    }

    /// Bytes that wait for `out`, those on the wire included.
    pub(crate) fn depth(&self, now: u64, out: u32) -> u64 {
        let (_, place) = self.slots.of(out);
        let lane = &self.lanes[place];
        u64::from(lane.waiting) + lane.sent_in(self.wires[place / self.vls as usize].free.saturating_sub(now))
    }

    /// Bytes that may wait in `out`, a lane of a link of `switch`, of which `depth` do.
    fn room_for(&self, now: u64, switch: u32, out: u32, depth: u64) -> u64 {
        match self.rooms[(out % self.vls) as usize] {
            Room::Endless => u64::MAX,
            Room::Own(room) => room,
            // Short queues fit whatever the others hold.
            Room::Shared { .. } if depth < SHORT => u64::MAX,
            Room::Shared { total, alpha } => {
                let graph = &self.cluster.fabric.graph;
                let lanes = graph.outputs(SwitchId(switch)).flat_map(|(_, link)| (0..self.vls).map(move |vl| (link.0, vl)));
                // The wire of a link is counted once.
                let used: u64 = lanes
                    .map(|(link, vl)| {
                        let (_, place) = self.slots.of(link * self.vls + vl);
                        let lane = &self.lanes[place];
                        let wire = if vl == 0 { lane.sent_in(self.wires[place / self.vls as usize].free.saturating_sub(now)) } else { 0 };
                        u64::from(lane.waiting) + wire
                    })
                    .sum();
                (alpha * total.saturating_sub(used) as f64) as u64
            }
        }
    }

    /// Whether a packet that joins `depth` bytes in `out` gets a mark of congestion.
    pub(crate) fn marks(&mut self, out: u32, depth: u64) -> bool {
        let Some(ecn) = self.ecn[(out % self.vls) as usize] else { return false };
        let draw = self.mark_stream.next_u32() as u16;
        let marks = ecn.marks(Bytes(depth), draw);
        self.stats.ecn_marks += u64::from(marks);
        marks
    }

    /// There is no room for a packet: it is dropped, or its header goes on alone.
    #[cold]
    fn overflow(&mut self, now: u64, out: u32, mut parcel: Parcel, lane: u32, earliest: u64) {
        let trims = self.trims && parcel.payload() > 0;
        if let Some(observer) = &mut self.observer {
            observer.overflow(out / self.vls, now, trims);
        }
        if !trims {
            self.stats.drops += 1;
            return self.lose(now, lane, parcel);
        }
        self.stats.trims += 1;
        let bytes = parcel.wire_bytes();
        parcel.trim();
        self.release(lane, bytes - parcel.wire_bytes(), now);
        self.express(out, parcel, lane, earliest);
    }

    /// A trimmed packet goes ahead of all others; the packet that is on the wire just now, half of one on the average, is left
    /// out of account.
    fn express(&mut self, out: u32, parcel: Parcel, from: u32, earliest: u64) {
        let (_, place) = self.slots.of(out);
        let lane = &mut self.lanes[place];
        let bytes = parcel.wire_bytes();
        if lane.open_at(bytes, earliest) != Some(earliest) {
            return self.send_paced(self.queue.now().as_ps(), out, parcel, from, earliest);
        }
        lane.take(bytes);
        let wire = &mut self.wires[place / self.vls as usize];
        wire.free = wire.free.max(earliest) + lane.serialisation(bytes);
        self.depart(out, place, parcel, from, (earliest, earliest));
    }

    /// The link at `place` writes its state into a packet that leaves at `start`.
    #[cold]
    fn stamp(&mut self, place: usize, parcel: &Parcel, start: u64) {
        let number = place / self.vls as usize;
        let lane = &self.lanes[place];
        let queue = u64::from(lane.waiting) + lane.sent_in(start.saturating_sub(self.queue.now().as_ps()));
        let wire = &mut self.wires[number];
        wire.sent += u64::from(parcel.wire_bytes());
        let state = LinkState { at: Time::from_ps(start), sent: wire.sent, queue: Bytes(queue), rate: lane.rate() };
        if let Some(ext) = self.side.at_mut(parcel.ext()) {
            ext.links.push(state);
        }
    }

    fn trace_departure(&mut self, out: u32, place: usize, packet: &fabriscope_verbs::Packet, start: u64, tail: u64) {
        let lane = &self.lanes[place];
        let (delay, last) = (u64::from(lane.delay), lane.to < self.endpoints);
        let place = || format!("link {}", out / self.vls);
        self.trace.mark(packet, Stage::Queueing, start, place);
        if last {
            self.trace.mark(packet, Stage::Serialisation, tail, place);
            self.trace.mark(packet, Stage::Propagation, tail + delay, place);
            self.trace.mark(packet, Stage::NicRx, tail + delay + self.rx_latency, || format!("nic {}", packet.dest.0));
        } else {
            self.trace.mark(packet, Stage::Propagation, start + delay, place);
        }
    }
}
