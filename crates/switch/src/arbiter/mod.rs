//! Which virtual lane sends next on a port where several compete.
//!
//! [`vl`] is InfiniBand's pair of tables, [`ets`] Ethernet's strict priorities and shares, [`classes`] classes with a guaranteed
//! and a largest rate as Slingshot has them. A lane is what has a buffer of its own; several lanes may belong to one class where
//! the routing needs lanes against deadlock within it.
//!
//! An arbiter is asked when the wire is free: [`Arbiter::pick`] among the lanes that have a packet and room for it, then
//! [`Arbiter::charge`]. Classes with a largest rate are asked first when they may send ([`Arbiter::opens`]), and told of every
//! packet ([`Arbiter::sent`]).

pub mod classes;
pub mod ets;
pub mod vl;

use std::sync::Arc;

use fabriscope_units::{Bytes, Rate, Time};

pub use classes::{Class, Classes};
pub use ets::{Ets, Selection};
pub use vl::{VlEntry, VlTables};

/// The most lanes of a port.
pub const LANES: usize = 16;

/// The sizes of the first packets of all lanes.
pub type Heads = [Bytes; LANES];

/// How the lanes of a port share its wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// Two tables of lanes and weights.
    InfiniBand(Arc<VlTables>),
    /// Strict priorities above shares.
    Ethernet(Arc<Ets>),
    /// Guaranteed and largest rates.
    Slingshot(Arc<Classes>),
}

impl Policy {
    /// All of `lanes` lanes in turn, 4 KiB each.
    #[must_use]
    pub fn even(lanes: u8) -> Policy {
        Policy::InfiniBand(Arc::new(VlTables::even(lanes)))
    }
}

/// The arbiter of one port.
#[derive(Debug, Clone)]
pub enum Arbiter {
    /// See [`vl`].
    InfiniBand(vl::State),
    /// See [`ets`].
    Ethernet(Box<ets::State>),
    /// See [`classes`].
    Slingshot(Box<classes::State>),
}

impl Arbiter {
    /// An arbiter that has served nobody yet, for a wire of `rate`.
    #[must_use]
    pub fn new(policy: &Policy, rate: Rate) -> Arbiter {
        match policy {
            Policy::InfiniBand(tables) => Arbiter::InfiniBand(vl::State::new(Arc::clone(tables))),
            Policy::Ethernet(ets) => Arbiter::Ethernet(Box::new(ets::State::new(Arc::clone(ets)))),
            Policy::Slingshot(classes) => Arbiter::Slingshot(Box::new(classes::State::new(Arc::clone(classes), rate))),
        }
    }

    /// The lane to serve among those set in `ready`, at `now`; charge the packet with [`Arbiter::charge`].
    #[must_use]
    pub fn pick(&mut self, ready: u16, now: Time, heads: &Heads) -> Option<u8> {
        if ready == 0 {
            return None;
        }
        match self {
            Arbiter::InfiniBand(state) => state.pick(ready),
            Arbiter::Ethernet(state) => state.pick(ready, heads),
            Arbiter::Slingshot(state) => state.pick(ready, now),
        }
    }

    /// The packet of `amount` of the lane that was picked leaves.
    pub fn charge(&mut self, lane: u8, amount: Bytes) {
        match self {
            Arbiter::InfiniBand(state) => state.charge(amount),
            Arbiter::Ethernet(state) => state.charge(lane, amount),
            Arbiter::Slingshot(_) => {}
        }
    }

    /// When `lane` may send its next packet; the start of the run where it has no largest rate.
    #[must_use]
    pub fn opens(&self, lane: u8) -> Time {
        match self {
            Arbiter::Slingshot(state) => state.opens(lane),
            _ => Time::ZERO,
        }
    }

    /// A packet of `amount` leaves on `lane` at `now`, whether it was picked or found nobody waiting.
    pub fn sent(&mut self, lane: u8, amount: Bytes, now: Time) {
        if let Arbiter::Slingshot(state) = self {
            state.sent(lane, amount, now);
        }
    }
}
