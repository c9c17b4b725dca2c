//! Packets between NICs: forwarding, reservation of links, return of credits.

use fabriscope_engine::Stage;
use fabriscope_fabric::Hop;
use fabriscope_switch::PauseChange;
use fabriscope_switch::channel::NONE;
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::PacketFlags;

use crate::event::{Event, Parcel};
use crate::sight::View;
use crate::waiting::FROM_HOST;
use crate::world::World;

impl World<'_> {
    /// The head of `packet` has reached `switch` by `lane`.
    #[inline]
    pub(crate) fn forward(&mut self, now: u64, lane: u32, switch: u32, mut parcel: Parcel) {
        if self.lossy && self.loses() {
            self.lose(now, lane, parcel);
            return;
        }
        let hop = self.route(now, switch, &parcel, self.input(lane));
        parcel.set_via(hop.via);
        let out = hop.link.0 * self.vls + self.lane_of(parcel.sl(), u32::from(hop.vl));
        let mut earliest = now + self.switch_latency;
        if !self.same_pace {
            // Cut-through must not run dry: the output may not overtake the arriving tail.
            let bytes = parcel.wire_bytes();
            let pace = |lane: u32| u64::from(self.layout.paces[(lane / self.vls) as usize]);
            let tail = now + ((u64::from(bytes) * pace(lane)) >> 16) + self.switch_latency;
            let ahead = if self.store_and_forward { 0 } else { (u64::from(bytes) * pace(out)) >> 16 };
            earliest = earliest.max(tail.saturating_sub(ahead));
        }
        if self.paced {
            if self.pauses && !self.hold(now, lane, parcel) {
                return;
            }
            if self.marks(now, out) {
                parcel.set(PacketFlags::ECN_CE);
            }
        }
        if parcel.has(PacketFlags::TRACED) {
            self.trace.mark(&parcel.packet(), Stage::Switch, earliest, || format!("switch {switch}"));
        }
        self.send(now, out, parcel, lane, earliest);
    }

    /// Which way `parcel` goes at `switch`.
    #[inline(always)]
    fn route(&mut self, now: u64, switch: u32, parcel: &Parcel, input: (u32, u8)) -> Hop {
        if self.routes.oblivious { self.routes.idle(switch, parcel, input) } else { self.look_and_route(now, switch, *parcel, input) }
    }

    /// Apart, and with a copy of the packet: on the usual way its words need no address and stay in registers.
    #[inline(never)]
    fn look_and_route(&mut self, now: u64, switch: u32, parcel: Parcel, input: (u32, u8)) -> Hop {
        let World { routes, slots, lanes, wires, flows, paced, vls, .. } = self;
        let mut view = View { now, slots, lanes, wires, flows, paced: *paced, vls: *vls };
        routes.output(switch, &parcel, input, &mut view)
    }

    /// The lane of a packet with service level `sl` on which the routing chose `vl`.
    #[inline(always)]
    pub(crate) fn lane_of(&self, sl: u32, vl: u32) -> u32 {
        if self.levels == 1 { vl } else { sl % self.levels * self.per_level + vl }
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
            self.depart(out, place, parcel, from, start);
        } else {
            self.waiting.push(lane, parcel, from, earliest);
        }
    }

    /// `parcel` leaves on `out`, whose state is at `place`, at `start`: its next arrival, and the space it frees.
    #[inline(always)]
    pub(crate) fn depart(&mut self, out: u32, place: usize, parcel: Parcel, from: u32, start: u64) {
        self.stats.packet_hops += 1;
        let bytes = parcel.wire_bytes();
        let lane = &self.lanes[place];
        let tail = start + lane.serialisation(bytes);
        let at = if lane.to < self.endpoints { tail + u64::from(lane.delay) + self.rx_latency } else { start + u64::from(lane.delay) };
        if self.observer.is_some() {
            self.observe(out, place, parcel, from, (start, at));
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
        if from & FROM_HOST == 0 {
            self.release(from, bytes, tail);
        } else if parcel.payload() > 0 {
            self.sent(from & !FROM_HOST, bytes, tail);
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
        let known = if self.pauses { time } else { time + u64::from(channel.delay) };
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
                self.depart(out, place, entry.parcel, entry.from, start);
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
                self.side.free(parcel.ext());
                false
            }
        }
    }

    fn loses(&mut self) -> bool {
        self.loss_stream.next_u32() < self.loss
    }

    fn lose(&mut self, now: u64, lane: u32, parcel: Parcel) {
        self.note_loss(now, lane);
        self.side.free(parcel.ext());
        if !self.pauses {
            self.release(lane, parcel.wire_bytes(), now);
        }
    }

    /// The packet that was to arrive by `lane` now did not.
    pub(crate) fn note_loss(&mut self, now: u64, lane: u32) {
        self.stats.drops += 1;
        if let Some(observer) = &mut self.observer {
            observer.lose(lane / self.vls, now);
        }
    }

    /// Whether a packet for `out` gets a mark of congestion.
    fn marks(&mut self, now: u64, out: u32) -> bool {
        let Some(ecn) = self.ecn else { return false };
        let draw = self.mark_stream.next_u32() as u16;
        let (_, place) = self.slots.of(out);
        let lane = &self.lanes[place];
        let backlog = lane.sent_in(self.wires[place / self.vls as usize].free.saturating_sub(now));
        let marks = ecn.marks(Bytes(u64::from(lane.waiting) + backlog), draw);
        self.stats.ecn_marks += u64::from(marks);
        marks
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
