//! What a core does with the memory of its node: copies and reductions of rounds, slots that ranks of a node read each other's data from.
//!
//! Source: the models of `mpi::rounds` and `mpi::slots`, of which these are the costs without waiting for others.

use std::rc::Rc;

use fabriscope_catalog::SlotParameters;
use fabriscope_collectives::Amount;
use fabriscope_engine::{Cluster, timing};
use fabriscope_mpi::{Packing, reduction_streams};
use fabriscope_node::{CpuCosts, Route, Sockets};
use fabriscope_units::{Bytes, Span, Time};

/// The cores and memories of the nodes.
pub(super) struct Cores {
    cpu: CpuCosts,
    sockets: Vec<Option<Rc<Sockets>>>,
    packing: Packing,
    pub slots: Option<SlotParameters>,
    footprint: Bytes,
}

impl Cores {
    pub fn new(cluster: &Cluster, nodes: &[u32], per_node: u32, (packing, slots): (Packing, Option<SlotParameters>)) -> Cores {
        let sockets = |node: &u32| {
            let group = cluster.group_of(*node);
            let machine = cluster.groups[group].machine.as_deref()?;
            Some(Rc::new(timing::sockets(cluster.seen_by(group), machine, per_node)))
        };
        let sockets = nodes.iter().map(sockets).collect();
        Cores { cpu: timing::cpu(&cluster.parts), sockets, packing, slots, footprint: Bytes::ZERO }
    }

    pub fn goes_through(&mut self, footprint: Bytes) {
        self.footprint = footprint;
    }

    /// A layout that the library is told of.
    pub fn layout(&self) -> Span {
        self.packing.layout
    }

    /// When a core that begins at `now` has copied `amount` from one domain to another one.
    pub fn copy(&self, now: u64, node: u32, amount: Bytes, domains: (u32, u32), crossing: Span) -> u64 {
        self.copied(now, node, (amount, Bytes(u64::MAX)), domains, crossing)
    }

    fn copied(&self, now: u64, node: u32, (amount, working_set): (Bytes, Bytes), (from, to): (u32, u32), crossing: Span) -> u64 {
        if amount == Bytes::ZERO {
            return now;
        }
        let alone = now + self.cpu.copy_across(amount, working_set, crossing).as_ps();
        let route = Route { from, core: to, to };
        let shared = self.sockets[node as usize].as_ref().map(|sockets| sockets.copied(Time::from_ps(now), amount, self.footprint, route));
        alone.max(shared.map_or(0, Time::as_ps))
    }

    /// When a core in `domain` that begins at `now` is through with moves within its own buffers.
    pub fn moves(&self, now: u64, node: u32, domain: u32, amount: Amount) -> u64 {
        let Amount { moves, copied, reduced } = amount;
        let begin = now + (self.packing.block * moves).as_ps();
        let bytes = copied + reduction_streams(reduced);
        self.copied(begin, node, (bytes, bytes * 2), (domain, domain), Span::ZERO)
    }

    /// What a line of another core costs a reader so far away.
    pub fn line(&self, crossing: Span) -> u64 {
        (self.cpu.detect + crossing).as_ps()
    }
}
