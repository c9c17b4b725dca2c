//! Links that decide packet by packet: several lanes that compete, or a sender that obeys pause frames.
//!
//! The lanes of a link share one wire. Where nobody waits for the link and the credits are there in time, a packet
//! takes the wire at once, behind those that have it: in the order of arrival, one event per hop. Otherwise it waits
//! in its lane, and events at the times at which something may go pick the next by arbitration. Service levels with
//! weights, and pause frames, must not be overtaken by a reservation: there a packet leaves at once only when the
//! wire is free the moment it is ready.

use fabriscope_switch::arbiter::LANES;
use fabriscope_units::Time;

use crate::event::{Event, Parcel};
use crate::world::World;

/// What the lanes of a link share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wire {
    /// When it is free (ps).
    pub free: u64,
    /// When the one valid look at the waiting packets comes (ps).
    pump_at: u64,
    /// Bytes that wait in its lanes.
    pub waiting: u32,
    /// Bytes that it has sent, where links write their state into packets.
    pub sent: u64,
}

impl Wire {
    /// An idle wire.
    pub const IDLE: Wire = Wire { free: 0, pump_at: u64::MAX, waiting: 0, sent: 0 };
}

impl World<'_> {
    pub(crate) fn send_paced(&mut self, now: u64, out: u32, parcel: Parcel, from: u32, earliest: u64) {
        let bytes = parcel.wire_bytes();
        let (_, place) = self.slots.of(out);
        let wire = &self.wires[place / self.vls as usize];
        if wire.waiting == 0 {
            let start = earliest.max(wire.free);
            let at_once = start == earliest || (self.levels == 1 && !self.pauses);
            if at_once && !self.held_back(out, place, start) && self.lanes[place].open_at(bytes, start) == Some(start) {
                self.start(out, place, parcel, from, (earliest, start));
                return;
            }
        }
        self.wires[place / self.vls as usize].waiting += bytes;
        self.waiting.push(&mut self.lanes[place], parcel, from, earliest);
        self.schedule_pump(now, out / self.vls);
    }

    fn start(&mut self, out: u32, place: usize, parcel: Parcel, from: u32, (ready, start): (u64, u64)) {
        let start = if self.line.is_some() { self.line_start(place, parcel.wire_bytes(), start) } else { start };
        let lane = &mut self.lanes[place];
        lane.take(parcel.wire_bytes());
        self.wires[place / self.vls as usize].free = start + lane.serialisation(parcel.wire_bytes());
        if self.plan.shaped {
            self.arbiters[place / self.vls as usize].sent((out % self.vls) as u8, parcel.wire_bytes(), start);
        }
        self.depart(out, place, parcel, from, (ready, start));
    }

    /// Whether the largest rate of its class keeps a packet from leaving on `out` at `start`.
    #[inline]
    fn held_back(&self, out: u32, place: usize, start: u64) -> bool {
        self.plan.shaped && self.arbiters[place / self.vls as usize].opens((out % self.vls) as u8) > start
    }

    /// Plans the next look at the packets waiting for `link`, if a time for it is known and no earlier one is planned.
    pub(crate) fn schedule_pump(&mut self, now: u64, link: u32) {
        let (_, base) = self.slots.of(link * self.vls);
        let wire = &mut self.wires[base / self.vls as usize];
        let free = wire.free.max(now);
        let mut at = u64::MAX;
        let shaped = if self.plan.shaped { self.arbiters.get(base / self.vls as usize) } else { None };
        for (vl, lane) in self.lanes[base..base + self.vls as usize].iter_mut().enumerate() {
            if let Some(first) = self.waiting.first(lane) {
                let opens = shaped.map_or(0, |arbiter| arbiter.opens(vl as u8));
                let (bytes, earliest) = (first.parcel.wire_bytes(), first.earliest.max(free).max(opens));
                at = at.min(lane.open_at(bytes, earliest).unwrap_or(u64::MAX));
            }
        }
        if at < wire.pump_at {
            wire.pump_at = at;
            self.queue.push(Time::from_ps(at), Event::pump(link));
        }
    }

    /// The wire of `link` may be free: send the next packet of a lane that may send.
    pub(crate) fn pump(&mut self, now: u64, link: u32) {
        let (_, base) = self.slots.of(link * self.vls);
        let number = base / self.vls as usize;
        if self.wires[number].pump_at != now {
            // An earlier look took its place.
            return;
        }
        self.wires[number].pump_at = u64::MAX;
        if self.wires[number].free <= now {
            let (mut ready, mut heads) = (0u16, [0u32; LANES]);
            for (vl, lane) in self.lanes[base..base + self.vls as usize].iter_mut().enumerate() {
                if let Some(first) = self.waiting.first(lane) {
                    let (bytes, earliest) = (first.parcel.wire_bytes(), first.earliest);
                    let opens = if self.plan.shaped { self.arbiters[number].opens(vl as u8) } else { 0 };
                    if earliest.max(opens) <= now && lane.open_at(bytes, now) == Some(now) {
                        ready |= 1 << vl;
                        heads[vl] = bytes;
                    }
                }
            }
            let picked = if self.vls == 1 { (ready != 0).then_some(0) } else { self.arbiters[number].pick(ready, now, &heads) };
            if let Some(vl) = picked {
                let place = base + usize::from(vl);
                let entry = self.waiting.pop(&mut self.lanes[place]).expect("a ready lane has a packet");
                let bytes = entry.parcel.wire_bytes();
                self.wires[number].waiting -= bytes;
                if self.vls > 1 {
                    self.arbiters[number].charge(vl, bytes);
                }
                self.start(link * self.vls + u32::from(vl), place, entry.parcel, entry.from, (entry.earliest, now));
            }
        }
        self.schedule_pump(now, link);
    }
}
