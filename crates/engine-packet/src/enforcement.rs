//! Partitions that switches keep apart, at the ports to which adapters are plugged.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §10.9.4 and §18.2.4.2 (partition enforcement by switches, inbound and
//! outbound, an option of each port), §14.2.5.6 (counters of violations); OpenSM, `part_enforce` (the subnet manager writes the keys
//! of an adapter into the port in front of it).
//! Modelled: what comes from an adapter, or is to go to one, with a key that is none of that adapter's is dropped and counted. The
//! switch compares the 15 bits of the partition; membership is judged by the adapter.
//! Not modelled: enforcement between switches, traps, limits of the size of the tables.

use fabriscope_catalog::{PartitionEnforcement, ResolvedCluster, keys};

/// The keys in front of each adapter.
#[derive(Debug, Clone)]
pub(crate) struct Enforcement {
    pub(crate) inbound: bool,
    pub(crate) outbound: bool,
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

    pub(crate) fn refuses(&self, endpoint: u32, pkey: u16) -> bool {
        self.keys.get(endpoint as usize).is_some_and(|keys| !keys.contains(&(pkey & NUMBER)))
    }
}
