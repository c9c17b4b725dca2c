//! How routes change when links die: switches that leave dead ports out, and tables that a manager writes.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §14.3.9 and §14.4.4 (trap, sweep, new tables); RFC 7938 §7.
//! Modelled: a sweep begins when the manager is told, or when the sweep before it is done; it sees the links as they are when it
//! begins; switches get their tables one after the other, and until then go by what they have. Switches that choose among
//! several ways leave out their own dead ports after a time of their own.
//! Not modelled: management packets on the wire; several managers.

use std::sync::Arc;

use fabriscope_engine::NewTables;
use fabriscope_fabric::routing::Survivors;
use fabriscope_fabric::{EndpointId, Head, Hop, LinkId, SwitchId};
use fabriscope_units::{Span, Time};

use super::Faults;
use crate::packed_packet::PackedPacket;
use crate::routes::{QueueView, RouteTable};

/// Routes over time.
#[derive(Debug, Clone)]
pub(crate) struct Reroute {
    /// From the death of a link until its switch leaves it out; `None` if it does not.
    pub failover: Option<Span>,
    /// In the order of time; each has its tables written before the next begins.
    pub epochs: Vec<Epoch>,
    /// Epochs before this one have begun.
    pub begun: usize,
}

/// Tables that one sweep brings.
#[derive(Debug, Clone)]
pub(crate) struct Epoch {
    /// When the sweep began.
    pub started: Time,
    /// When the first switch has them, and each further one so much later.
    pub first: Time,
    pub step: Span,
    pub switches: u32,
    /// Cables that it found dead, in order.
    pub dead: Arc<[u32]>,
    /// The routes; those of the whole fabric if nothing is dead.
    pub routes: Option<Arc<Survivors>>,
}

impl Epoch {
    fn reached(&self, switch: u32, now: Time) -> bool {
        self.first + self.step * u64::from(switch) <= now
    }
    /// When the last switch has them.
    pub fn written(&self) -> Time {
        self.first + self.step * u64::from(self.switches.saturating_sub(1))
    }
}

impl Reroute {
    /// All tables that were made.
    pub fn tables(self) -> impl Iterator<Item = NewTables> {
        self.epochs.into_iter().map(|epoch| NewTables { started: epoch.started, written: epoch.written(), whole: epoch.routes.is_none() })
    }

    /// The next step of a packet at `switch`. Where nothing leads to its destination it goes the way of the whole fabric, and
    /// is lost where that ends.
    #[allow(clippy::too_many_arguments)] // What a switch knows.
    pub fn route(
        &mut self,
        now: Time,
        switch: u32,
        routes: &RouteTable,
        packed: &PackedPacket,
        input: (u32, u8),
        view: &mut QueueView<'_>,
        faults: &Faults,
    ) -> Hop {
        while self.epochs.get(self.begun).is_some_and(|epoch| epoch.first <= now) {
            self.begun += 1;
        }
        let current = self.epochs[..self.begun].iter().rev().find(|epoch| epoch.reached(switch, now));
        let survivors = current.and_then(|epoch| epoch.routes.as_deref());
        let (link, vl) = input;
        let head = Head { dest: EndpointId(packed.dest()), entropy: packed.entropy(), input: LinkId(link), vl, via: packed.via() };
        let at = SwitchId(switch);
        let usual = survivors.and_then(|survivors| survivors.hop(at, head, view));
        let hop = usual.unwrap_or_else(|| routes.output(switch, packed, input, view));
        let Some(after) = self.failover.filter(|after| faults.dead(hop.link, now, *after)) else { return hop };
        let mut alive: Vec<Hop> = Vec::new();
        let mut visit = |other: Hop| {
            if !faults.dead(other.link, now, after) && !alive.contains(&other) {
                alive.push(other);
            }
        };
        match survivors.filter(|_| usual.is_some()) {
            Some(survivors) => survivors.options(at, head, &mut visit),
            None => routes.options(at, head, &mut visit),
        }
        if alive.is_empty() {
            return hop;
        }
        // Flows keep together, packets that are spread stay spread.
        let pick = (head.dest.0.wrapping_mul(0x9e37_79b9) ^ head.entropy.wrapping_mul(0x85eb_ca6b)) >> 8;
        alive[pick as usize % alive.len()]
    }
}
