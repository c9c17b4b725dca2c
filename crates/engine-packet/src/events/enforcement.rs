//! What happens to packets at ports that check partitions.

use crate::enforcement::Enforcement;
use crate::packed_packet::PackedPacket;
use crate::world::World;
use fabriscope_engine::{Counter, CounterPlace};
use fabriscope_fabric::LinkId;
use fabriscope_units::Time;

impl World<'_> {
    /// Whether the switch at the end of `lane` drops `packed`, which an adapter of another partition sent.
    #[cold]
    #[inline(never)]
    pub(crate) fn refused_in(&mut self, now: Time, lane: u32, packed: PackedPacket) -> bool {
        let from = self.cluster.fabric.graph.link(LinkId(lane / self.links.vls)).from.0;
        let refused = from < self.links.endpoints && self.refuses(from, packed, |enforcement| enforcement.inbound);
        if refused {
            self.note_refusal(CounterPlace::far(lane / self.links.vls), Counter::RcvConstraints, now);
        }
        refused
    }

    /// Whether `packed` is not to leave by the lane `out`, behind which is an adapter of another partition.
    #[cold]
    #[inline(never)]
    pub(crate) fn refused_out(&mut self, now: Time, out: u32, packed: PackedPacket) -> bool {
        let to = self.links.ends[out as usize];
        let refused = to < self.links.endpoints && self.refuses(to, packed, |enforcement| enforcement.outbound);
        if refused {
            self.note_refusal(CounterPlace::Port(out / self.links.vls), Counter::XmitConstraints, now);
        }
        refused
    }

    fn refuses(&self, endpoint: u32, packed: PackedPacket, way: impl Fn(&Enforcement) -> bool) -> bool {
        let pkey = self.ext_headers.at(packed.ext()).map_or(0, |ext| ext.pkey);
        self.groups.enforcement.as_deref().is_some_and(|enforcement| way(enforcement) && enforcement.refuses(endpoint, pkey))
    }

    fn note_refusal(&mut self, place: CounterPlace, counter: Counter, now: Time) {
        self.watch.stats.pkey_violations += 1;
        if let Some(observer) = &mut self.watch.observer {
            observer.count(place, counter, now);
        }
    }
}
