//! Flows and their rules: an exact-match table of limited size.
//!
//! Modelled: what distinguishes two flows; a rule for each, in use by software from one time on and by the adapter from another; a table that
//! is full takes no more, and what it does not hold stays in software.
//! Not modelled: rules that age or are evicted; runs are shorter than the 10 s after which Open vSwitch removes an idle rule.

use std::collections::BTreeMap;

use fabriscope_units::Time;

/// What a rule distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Granularity {
    /// Connections: addresses, ports and protocol, as connection tracking needs it.
    #[default]
    Connection,
    /// Pairs of virtual machines: addresses, as wildcards for ports allow.
    Pair,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// The other machine.
    pub peer: u32,
    /// Ports of source and destination.
    pub ports: (u16, u16),
    /// The number of its protocol in IP.
    pub protocol: u8,
    /// It leaves the machine.
    pub outbound: bool,
}

impl Flow {
    /// What of it a rule sees.
    #[must_use]
    pub const fn masked(self, granularity: Granularity) -> Flow {
        match granularity {
            Granularity::Connection => self,
            Granularity::Pair => Flow { ports: (0, 0), protocol: 0, ..self },
        }
    }
    /// One of `cores`: the same for both directions, by a multiplicative hash of the upper bits.
    #[must_use]
    pub const fn core(self, cores: u32) -> usize {
        let key = self.peer ^ (self.ports.0 as u32 + self.ports.1 as u32) << 8 ^ self.protocol as u32;
        ((key.wrapping_mul(GOLDEN) as u64 * cores as u64) >> 32) as usize
    }
}

/// 2³² divided by the golden ratio. Basis: published (Knuth, The Art of Computer Programming 3, 6.4).
const GOLDEN: u32 = 0x9E37_79B9;

/// When a rule is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// From then on software knows what to do.
    pub decided: Time,
    /// From then on the adapter does; never, where it has no room.
    pub active: Time,
}

/// Rules by flow.
#[derive(Clone, Debug)]
pub struct FlowTable {
    rules: BTreeMap<Flow, Rule>,
    granularity: Granularity,
    /// Rules that the adapter holds, and may hold.
    held: u64,
    most: u64,
}

impl FlowTable {
    /// An empty one that holds `most` rules in the adapter.
    #[must_use]
    pub fn new(granularity: Granularity, most: u64) -> FlowTable {
        FlowTable { rules: BTreeMap::new(), granularity, held: 0, most }
    }
    /// The rule of a flow.
    #[must_use]
    pub fn rule(&self, flow: Flow) -> Option<Rule> {
        self.rules.get(&flow.masked(self.granularity)).copied()
    }
    /// Room for one more in the adapter.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        self.held < self.most
    }
    /// A core has decided.
    pub fn insert(&mut self, flow: Flow, rule: Rule) {
        self.held += u64::from(rule.active < Time::MAX);
        self.rules.insert(flow.masked(self.granularity), rule);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: Flow = Flow { peer: 3, ports: (40_000, 5201), protocol: 6, outbound: true };

    #[test]
    fn rules_distinguish_what_they_should() {
        let other = Flow { ports: (40_001, 5201), ..FLOW };
        let rule = Rule { decided: Time::ZERO, active: Time::ZERO };
        for (granularity, same) in [(Granularity::Connection, false), (Granularity::Pair, true)] {
            let mut table = FlowTable::new(granularity, 1);
            assert!(table.rule(FLOW).is_none() && table.has_room());
            table.insert(FLOW, rule);
            assert_eq!((table.rule(other).is_some(), table.has_room()), (same, false));
            assert!(table.rule(Flow { outbound: false, ..FLOW }).is_none());
        }
    }

    #[test]
    fn flows_spread_over_cores_and_keep_theirs() {
        let back = Flow { ports: (5201, 40_000), outbound: false, ..FLOW };
        assert_eq!(FLOW.core(8), back.core(8));
        let mut loads = [0_u32; 8];
        for port in 0..800 {
            loads[Flow { ports: (32_768 + port, 5201 + port), ..FLOW }.core(8)] += 1;
        }
        assert!(loads.iter().all(|load| (80..120).contains(load)), "{loads:?}");
    }
}
