//! What happens at outputs whose lanes an arbiter serves.

use crate::event::Event;
use crate::links::Telemetry;
use crate::packed_packet::PackedPacket;
use crate::world::World;
use fabriscope_switch::arbiter::LANES;
use fabriscope_switch::channel::NONE;
use fabriscope_units::{Bytes, Time};

impl World<'_> {
    pub(crate) fn send_arbitrated(&mut self, now: Time, out: u32, packed: PackedPacket, from: u32, earliest: Time) {
        let bytes = packed.wire_bytes();
        let (_, place) = self.links.slots.of(out);
        let number = self.links.wire_of(place);
        let wire = &self.links.wires[number];
        if wire.waiting == Bytes::ZERO {
            let start = earliest.max(wire.free);
            // What a link writes into a packet is what waits when it leaves.
            let told = self.links.telemetry == Telemetry::Stamped && self.links.backpressure.pauses();
            let lane = &mut self.links.lanes[place];
            let at_once = start == earliest || (self.links.levels == 1 && !told && lane.cannot_pause(bytes, now));
            if at_once && lane.open_at(bytes, start) == Some(start) && !self.held_back(out, place, start) {
                self.start(out, place, packed, from, (earliest, start));
                return;
            }
        }
        self.links.wires[number].waiting += bytes;
        let lane = &mut self.links.lanes[place];
        let first = lane.head == NONE;
        self.links.queues.push(lane, packed, from, earliest);
        // Behind others it changes nothing: the look at the first of them is planned, or what it waits for will plan it.
        if first {
            self.schedule_pump(now, out / self.links.vls);
        }
    }

    #[inline]
    fn start(&mut self, out: u32, place: usize, packed: PackedPacket, from: u32, (ready, start): (Time, Time)) {
        let start = if self.links.link_level.is_some() { self.link_level_start(place, packed.wire_bytes(), start) } else { start };
        let number = self.links.wire_of(place);
        let lane = &mut self.links.lanes[place];
        lane.take(packed.wire_bytes());
        self.links.wires[number].free = start + lane.serialisation(packed.wire_bytes());
        if self.links.qos.shaped {
            self.links.arbiters[number].sent((out % self.links.vls) as u8, packed.wire_bytes(), start);
        }
        self.depart(out, place, packed, from, (ready, start));
    }

    /// Whether the largest rate of its class keeps a packet from leaving on `out` at `start`.
    #[inline]
    fn held_back(&self, out: u32, place: usize, start: Time) -> bool {
        self.links.qos.shaped && self.links.arbiters[place / self.links.vls as usize].opens((out % self.links.vls) as u8) > start
    }

    /// Plans the next look at the packets waiting for `link`, if a time for it is known and no earlier one is planned.
    pub(crate) fn schedule_pump(&mut self, now: Time, link: u32) {
        let (_, base) = self.links.slots.of(link * self.links.vls);
        let number = self.links.wire_of(base);
        let wire = &mut self.links.wires[number];
        let free = wire.free.max(now);
        let mut at = Time::MAX;
        let shaped = if self.links.qos.shaped { self.links.arbiters.get(number) } else { None };
        for (vl, lane) in self.links.lanes[base..base + self.links.vls as usize].iter_mut().enumerate() {
            if let Some(first) = self.links.queues.first(lane) {
                let opens = shaped.map_or(Time::ZERO, |arbiter| arbiter.opens(vl as u8));
                let (bytes, earliest) = (first.packed.wire_bytes(), first.earliest.max(free).max(opens));
                at = at.min(lane.open_at(bytes, earliest).unwrap_or(Time::MAX));
            }
        }
        if at < wire.pump_at {
            wire.pump_at = at;
            self.queue.push(at, Event::pump(link));
        }
    }

    /// The wire of `link` may be free: send the next packet of a lane that may send.
    pub(crate) fn pump(&mut self, now: Time, link: u32) {
        let (_, base) = self.links.slots.of(link * self.links.vls);
        let number = self.links.wire_of(base);
        if self.links.wires[number].pump_at != now {
            // An earlier look took its place.
            return;
        }
        self.links.wires[number].pump_at = Time::MAX;
        if self.links.wires[number].free <= now {
            let (mut ready, mut heads) = (0u16, [Bytes::ZERO; LANES]);
            for (vl, lane) in self.links.lanes[base..base + self.links.vls as usize].iter_mut().enumerate() {
                if let Some(first) = self.links.queues.first(lane) {
                    let (bytes, earliest) = (first.packed.wire_bytes(), first.earliest);
                    let opens = if self.links.qos.shaped { self.links.arbiters[number].opens(vl as u8) } else { Time::ZERO };
                    if earliest.max(opens) <= now && lane.open_at(bytes, now) == Some(now) {
                        ready |= 1 << vl;
                        heads[vl] = bytes;
                    }
                }
            }
            let picked = if self.links.vls == 1 { (ready != 0).then_some(0) } else { self.links.arbiters[number].pick(ready, now, &heads) };
            if let Some(vl) = picked {
                let place = base + usize::from(vl);
                let entry = self.links.queues.pop(&mut self.links.lanes[place]).expect("a ready lane has a packet");
                let bytes = entry.packed.wire_bytes();
                self.links.wires[number].waiting -= bytes;
                if self.links.vls > 1 {
                    self.links.arbiters[number].charge(vl, bytes);
                }
                self.start(link * self.links.vls + u32::from(vl), place, entry.packed, entry.from, (entry.earliest, now));
            }
        }
        self.schedule_pump(now, link);
    }
}
