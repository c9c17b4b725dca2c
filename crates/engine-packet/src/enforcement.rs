//! Partitions that switches keep apart, at the ports to which adapters are plugged.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §10.9.4 and §18.2.4.2 (partition enforcement by switches, inbound and
//! outbound, an option of each port), §14.2.5.6 (counters of violations); OpenSM, `part_enforce` (the subnet manager writes the keys
//! of an adapter into the port in front of it).
//! Modelled: what comes from an adapter, or is to go to one, with a key that is none of that adapter's is dropped and counted. The
//! switch compares the 15 bits of the partition; membership is judged by the adapter.
//! Not modelled: enforcement between switches, traps, limits of the size of the tables.

use fabriscope_catalog::{PartitionEnforcement, ResolvedCluster, keys};
use fabriscope_engine::{Counter, CounterPlace};
use fabriscope_fabric::LinkId;
use fabriscope_units::Time;

use crate::packed_packet::PackedPacket;
use crate::world::World;

/// The keys in front of each adapter.
#[derive(Debug, Clone)]
pub(crate) struct Enforcement {
    inbound: bool,
    outbound: bool,
    /// Without the bit of membership, by endpoint.
    keys: Vec<Vec<u16>>,
}

/// The bits of a P_Key that name the partition (standard).
const NUMBER: u16 = 0x7FFF;

impl Enforcement {
    /// What the ports of a cluster refuse, if anything.
    pub fn new(parts: &ResolvedCluster) -> Option<Enforcement> {
        let (inbound, outbound) = match parts.partition_enforcement {
            PartitionEnforcement::Off => return None,
            PartitionEnforcement::In => (true, false),
            PartitionEnforcement::Out => (false, true),
            PartitionEnforcement::Both => (true, true),
        };
        let of = |host| keys(&parts.partitions, host).iter().map(|key| key & NUMBER).collect();
        Some(Enforcement { inbound, outbound, keys: (0..parts.endpoints()).map(of).collect() })
    }

    fn refuses(&self, endpoint: u32, pkey: u16) -> bool {
        self.keys.get(endpoint as usize).is_some_and(|keys| !keys.contains(&(pkey & NUMBER)))
    }
}

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
