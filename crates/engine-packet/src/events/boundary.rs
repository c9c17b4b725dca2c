//! What happens to packets that leave a part of a divided fabric, and those that arrive from another.

use crate::boundary::BoundaryTraffic;
use crate::event::Event;
use crate::links::{Backpressure, Scheduling, Telemetry};
use crate::packed_packet::PackedPacket;
use crate::world::World;
use fabriscope_switch::channel::NONE;
use fabriscope_units::{Bytes, Span, Time};

impl World<'_> {
    /// `packed`, which leaves by the lane at `place` at `start`, arrives in another part at `time`.
    #[inline(never)]
    pub(crate) fn post_packet(&mut self, place: usize, (time, start): (Time, Time), lane: u32, mut packed: PackedPacket) {
        if self.links.telemetry == Telemetry::Stamped && packed.payload() > Bytes::ZERO {
            self.write_state(place, &packed, start);
        }
        let part = self.links.lanes[place].part;
        if !packed.ext().is_none() {
            self.post_headers(usize::from(part), &mut packed);
        }
        self.outbox[usize::from(part)].packets.push((time, lane, packed));
    }

    /// Sees to it that the extension headers of `packed`, which leaves for `part`, are known where it goes.
    fn post_headers(&mut self, part: usize, packed: &mut PackedPacket) {
        // Those who look at a packet on its way need its headers there.
        let tapped = self.watch.observer.as_ref().is_some_and(|observer| !observer.taps.is_empty());
        let read_on_the_way = tapped || self.links.telemetry == Telemetry::Stamped;
        match self.layout.part_of_host(packed.dest()).filter(|_| !read_on_the_way) {
            Some(last) => {
                let (id, told) = self.ext_headers.export(packed.ext(), last);
                packed.set_ext(id);
                self.outbox[last as usize].headers.extend(told);
            }
            None => {
                let mail = &mut self.outbox[part];
                mail.extensions.extend(self.ext_headers.take(packed.ext()).map(|ext| (mail.packets.len() as u32, ext)));
            }
        }
    }

    /// Tells other parts what became of extension headers in a window.
    pub(crate) fn post_notices(&mut self) {
        for (part, notice) in self.ext_headers.notices() {
            self.outbox[part as usize].notices.push(notice);
        }
    }

    /// Opens the mail of another part at the start of a window; leaves it empty.
    pub(crate) fn open(&mut self, mail: &mut BoundaryTraffic) {
        let amounts = mail.amounts();
        mail.headers.drain(..).for_each(|told| self.ext_headers.learn(told));
        mail.notices.drain(..).for_each(|notice| self.ext_headers.hear(notice));
        for (place, ext) in mail.extensions.drain(..) {
            mail.packets[place as usize].2.set_ext(self.ext_headers.alloc(ext));
        }
        for (time, lane, packed) in mail.packets.drain(..) {
            self.queue.push(time, Event::arrive(lane, packed));
        }
        for place in 0..mail.credits.len() {
            if let Some((_, lane, _)) = mail.credits.get(place + AHEAD) {
                self.links.prefetch_lane(*lane);
            }
            let (time, lane, amount) = mail.credits[place];
            self.release(lane, amount, time);
        }
        mail.credits.clear();
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
        mail.settle(amounts);
    }

    /// The buffer behind `lane`, which leaves `part`, has room for `amount` more from `time` on.
    #[inline(never)]
    pub(crate) fn release_far(&mut self, part: u32, lane: u32, amount: Bytes, time: Time) {
        // The sender reserves ahead as far as no pause can come: it has to know what is not held any more.
        self.outbox[part as usize].credits.push((time, lane, amount));
        let Some(guard) = self.links.guard(lane) else { return };
        let _ = self.links.guards.buffers[guard].give_back(amount, time);
        if self.watch.observer.is_some() {
            self.observe_pause(lane);
        }
        self.post_pause(part, lane, guard);
    }

    /// Tells `part`, which `lane` leaves, of a change of its pause, which `guard` keeps account of.
    #[inline(always)]
    pub(crate) fn post_pause(&mut self, part: u32, lane: u32, guard: usize) {
        if let Some((from, until)) = self.links.guards.news(guard) {
            self.outbox[part as usize].pauses.push((from, until, lane));
        }
    }

    /// The longest window: see the head of this file.
    pub(crate) fn window(&self) -> Span {
        let (hosts, switches) = self.layout.shortest_crossings(&self.cluster.fabric.graph);
        if self.links.scheduling == Scheduling::Reserved {
            return hosts.min(switches + self.links.least_latency() / 2);
        }
        let never_waits = self.links.backpressure == Backpressure::Drop && self.links.vls == 1 && self.groups.aggregation.unit.is_none();
        hosts.min(if never_waits { switches + self.links.least_latency() } else { switches })
    }
}

/// How many credits ahead their lanes are fetched. Basis: measured (docs/performance.md).
const AHEAD: usize = 8;
