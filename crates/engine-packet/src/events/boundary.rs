//! What happens to packets that leave a part of a divided fabric, and those that arrive from another.

use crate::boundary::{BoundaryTraffic, Guard};
use crate::event::Event;
use crate::links::{Backpressure, Scheduling, Telemetry};
use crate::packed_packet::PackedPacket;
use crate::world::World;
use fabriscope_switch::channel::NONE;
use fabriscope_units::{Bytes, Span, Time};

impl World<'_> {
    /// `packed`, which leaves by the lane at `place` at `start`, arrives in another part at `time`.
    #[inline(never)]
    pub(crate) fn post_packet(&mut self, place: usize, (time, start): (Time, Time), lane: u32, packed: PackedPacket) {
        if self.links.telemetry == Telemetry::Stamped && packed.payload() > Bytes::ZERO {
            self.write_state(place, &packed, start);
        }
        let part = self.links.lanes[place].part;
        let mail = &mut self.outbox[usize::from(part)];
        if !packed.ext().is_none()
            && let Some(ext) = self.ext_headers.take(packed.ext())
        {
            mail.extensions.push((mail.packets.len() as u32, ext));
        }
        mail.packets.push((time, lane, packed));
    }

    /// Opens the mail of another part at the start of a window; leaves it empty.
    pub(crate) fn open(&mut self, mail: &mut BoundaryTraffic) {
        for (place, ext) in mail.extensions.drain(..) {
            mail.packets[place as usize].2.set_ext(self.ext_headers.alloc(ext));
        }
        for (time, lane, packed) in mail.packets.drain(..) {
            self.queue.push(time, Event::arrive(lane, packed));
        }
        for (time, lane, amount) in mail.credits.drain(..) {
            self.release(lane, amount, time);
        }
        for lost in mail.losses.drain(..) {
            self.miss(lost);
        }
        for (from, until, lane) in mail.pauses.drain(..) {
            let channel = self.links.lane(lane);
            channel.obey(from, until);
            if channel.head != NONE {
                self.links.drains.push(lane);
            }
        }
    }

    /// The buffer behind `lane`, which leaves `part`, has room for `amount` more from `time` on.
    #[inline(never)]
    pub(crate) fn release_far(&mut self, part: u32, lane: u32, amount: Bytes, time: Time) {
        let Some(guard) = self.links.guard(lane) else {
            self.outbox[part as usize].credits.push((time, lane, amount));
            return;
        };
        let _ = guard.buffer.give_back(amount, time);
        // The sender reserves ahead as far as no pause can come: it has to know what is not held any more.
        self.outbox[part as usize].credits.push((time, lane, amount));
        if self.watch.observer.is_some() {
            self.observe_pause(lane);
        }
        self.post_pause(lane);
    }

    /// Tells the part that `lane` leaves of a change of its pause.
    pub(crate) fn post_pause(&mut self, lane: u32) {
        let (part, _) = self.links.slots.of(lane);
        if let Some((from, until)) = self.links.guard(lane).and_then(Guard::news) {
            self.outbox[part as usize].pauses.push((from, until, lane));
        }
    }

    /// The longest window: see the head of this file.
    pub(crate) fn window(&self) -> Span {
        let shortest = self.layout.shortest_crossing(&self.cluster.fabric.graph);
        if self.links.scheduling == Scheduling::Reserved {
            return shortest + self.links.least_latency() / 2;
        }
        let never_waits = self.links.backpressure == Backpressure::Drop && self.links.vls == 1 && self.groups.aggregation.unit.is_none();
        if never_waits { shortest + self.links.least_latency() } else { shortest }
    }
}
