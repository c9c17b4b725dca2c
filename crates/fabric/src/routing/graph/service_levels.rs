//! Service levels of paths: which virtual lanes packets travel on beside the forwarding tables.
//!
//! A packet keeps its service level from end to end. By default its lane is its level, on every link between switches (the
//! SL2VL tables of subnet managers are the identity); where a routing reads one bit of the level on each link, the lane is that
//! bit. Links of endpoints use lane 0 in this model: they end paths, and no cycle leads through them.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §7.6.5 to §7.6.6 (service levels, SL to VL mapping).
//! Modelled: a level for each pair of a switch with endpoints and a destination.
//! Not modelled: levels for qualities of service above those of the routing; levels of several addresses.

use super::Tables;
use super::skeleton::Skeleton;
use crate::graph::{EndpointId, LinkId, SwitchId};

/// Forwarding tables with the service level of each path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layered {
    /// The tables.
    pub tables: Tables,
    /// The levels.
    pub levels: ServiceLevels,
}

/// The service level of each path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceLevels {
    /// The row of each switch that has endpoints.
    row: Vec<u32>,
    endpoints: usize,
    /// By row, then destination.
    level: Vec<u8>,
    lanes: u8,
    /// Which bit of the level is the lane, by link; the level itself where there is none.
    bit: Option<Vec<u8>>,
}

impl ServiceLevels {
    /// Level 0 for everything.
    pub(super) fn new(skeleton: &Skeleton, endpoints: u32) -> ServiceLevels {
        let mut row = vec![u32::MAX; skeleton.count()];
        skeleton.leaves.iter().zip(0..).for_each(|(leaf, number)| row[leaf.switch.index()] = number);
        let endpoints = endpoints as usize;
        ServiceLevels { row, endpoints, level: vec![0; skeleton.leaves.len() * endpoints], lanes: 1, bit: None }
    }
    /// The level of packets from the endpoints of switch `from` to `dest`.
    #[inline]
    pub fn level(&self, from: SwitchId, dest: EndpointId) -> u8 {
        let row = self.row[from.index()] as usize;
        self.level.get(row.saturating_mul(self.endpoints).saturating_add(dest.index())).copied().unwrap_or(0)
    }
    /// Whether a switch has endpoints, which send packets of some level.
    pub fn serves(&self, at: SwitchId) -> bool {
        self.row.get(at.index()).is_some_and(|row| *row != u32::MAX)
    }
    /// The lane of a packet of `level` on `link`.
    #[inline]
    pub fn lane(&self, level: u8, link: LinkId) -> u8 {
        match &self.bit {
            Some(bit) => bit.get(link.index()).map_or(0, |bit| level >> bit & 1),
            None => level,
        }
    }
    /// Lanes in use.
    pub fn lanes(&self) -> u8 {
        self.lanes
    }
    /// Pairs of a switch and a destination of each level, those of one switch included.
    pub fn paths(&self) -> Vec<u64> {
        let highest = self.level.iter().copied().max().unwrap_or(0);
        let mut paths = vec![0; usize::from(highest) + 1];
        self.level.iter().for_each(|level| paths[usize::from(*level)] += 1);
        paths
    }
    /// Sets a level.
    pub(super) fn set(&mut self, from: SwitchId, dest: EndpointId, level: u8) {
        let slot = self.row[from.index()] as usize * self.endpoints + dest.index();
        self.level[slot] = level;
        if self.bit.is_none() {
            self.lanes = self.lanes.max(level + 1);
        }
    }
    /// From now on the lane on each link is a bit of the level.
    pub(super) fn by_bit(&mut self, bit: Vec<u8>) {
        self.bit = Some(bit);
        self.lanes = 1 + u8::from(self.level.iter().any(|level| *level > 0));
    }
}
