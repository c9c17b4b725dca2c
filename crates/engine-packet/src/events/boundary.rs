//! What happens to packets that leave a part of a divided fabric, and those that arrive from another.

use crate::boundary::BoundaryTraffic;
use crate::event::Event;
use crate::links::Scheduling;
use crate::packed_packet::PackedPacket;
use crate::world::World;
use fabriscope_units::{Span, Time};

impl World<'_> {
    /// `packed` arrives in another part.
    #[inline(never)]
    pub(crate) fn post_packet(&mut self, part: u32, time: Time, lane: u32, packed: PackedPacket) {
        let mail = &mut self.outbox[part as usize];
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
    }

    /// The longest window: see the head of this file.
    pub(crate) fn window(&self) -> Span {
        let graph = &self.cluster.fabric.graph;
        let crosses = |link: &u32| {
            let id = fabriscope_fabric::LinkId(*link);
            self.links.slots.of(*link * self.links.vls).0 != self.layout.part_of_end(id)
        };
        let delays = (0..graph.link_count()).filter(crosses).map(|link| graph.links()[link as usize].delay);
        let shortest = delays.min().unwrap_or(Span::MAX / 2);
        if self.links.scheduling == Scheduling::Arbitrated { shortest } else { shortest + self.links.least_latency() / 2 }
    }
}
