//! Links that decide packet by packet: several lanes that compete, or a sender that obeys pause frames.
//!
//! A packet leaves at once only when the wire is free the moment it is ready; otherwise it waits in its lane and
//! an event at the time the wire is free picks the next.

use fabriscope_switch::channel::NONE;
use fabriscope_units::Time;

use crate::event::{Event, Parcel};
use crate::world::World;

impl World<'_> {
    pub(crate) fn send_paced(&mut self, now: u64, out: u32, parcel: Parcel, from: u32, earliest: u64) {
        let bytes = parcel.wire_bytes();
        let (base, vls) = ((out / self.vls * self.vls) as usize, self.vls as usize);
        let idle = self.lanes[base..base + vls].iter().all(|lane| lane.head == NONE);
        let lane = &mut self.lanes[out as usize];
        if idle && lane.free_at() <= earliest && lane.open_at(bytes, earliest) == Some(earliest) {
            self.start(out, parcel, from, earliest);
            return;
        }
        self.waiting.push(lane, parcel, from, earliest);
        self.schedule_pump(now, out / self.vls);
    }

    fn start(&mut self, out: u32, parcel: Parcel, from: u32, start: u64) {
        self.lanes[out as usize].send(parcel.wire_bytes(), start);
        let free = self.lanes[out as usize].free_at();
        let base = (out / self.vls * self.vls) as usize;
        for lane in &mut self.lanes[base..base + self.vls as usize] {
            lane.occupy(free);
        }
        self.depart(out, parcel, from, start);
    }

    /// Plans the next look at the packets waiting for `link`, if a time for it is known.
    pub(crate) fn schedule_pump(&mut self, now: u64, link: u32) {
        let base = (link * self.vls) as usize;
        if self.lanes[base].pump_scheduled {
            return;
        }
        let free = self.lanes[base].free_at().max(now);
        let mut at = u64::MAX;
        for lane in &mut self.lanes[base..base + self.vls as usize] {
            if let Some(first) = self.waiting.first(lane) {
                let (bytes, earliest) = (first.parcel.wire_bytes(), first.earliest.max(free));
                at = at.min(lane.open_at(bytes, earliest).unwrap_or(u64::MAX));
            }
        }
        if at != u64::MAX {
            self.lanes[base].pump_scheduled = true;
            self.queue.push(Time::from_ps(at), Event::pump(link));
        }
    }

    /// The wire of `link` may be free: send the next packet of a lane that may send.
    pub(crate) fn pump(&mut self, now: u64, link: u32) {
        let base = link * self.vls;
        self.lanes[base as usize].pump_scheduled = false;
        if self.lanes[base as usize].free_at() <= now {
            let mut ready = 0u16;
            for vl in 0..self.vls {
                let lane = &mut self.lanes[(base + vl) as usize];
                if let Some(first) = self.waiting.first(lane) {
                    let (bytes, earliest) = (first.parcel.wire_bytes(), first.earliest);
                    if earliest <= now && lane.open_at(bytes, now) == Some(now) {
                        ready |= 1 << vl;
                    }
                }
            }
            let picked = if self.vls == 1 { (ready != 0).then_some(0) } else { self.arbiters[link as usize].pick(ready) };
            if let Some(vl) = picked {
                let out = base + u32::from(vl);
                let entry = self.waiting.pop(&mut self.lanes[out as usize]).expect("a ready lane has a packet");
                if self.vls > 1 {
                    self.arbiters[link as usize].charge(entry.parcel.wire_bytes().div_ceil(64));
                }
                self.start(out, entry.parcel, entry.from, now);
            }
        }
        self.schedule_pump(now, link);
    }
}
