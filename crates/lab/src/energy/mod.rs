//! What a network draws, and the energy of a run on it: by part and by what it was drawn for.
//!
//! Source: see the figures of parts, `catalog::part::power`; `docs/models/energy.md`.
//! Modelled: every switch and adapter of the cluster with its base, its ports and what bits cost; both directions of a port by
//! themselves, each at work, idle or at rest; cables at both ends; parts without figures by name, in no sum.
//! Not modelled: hosts, the adapter's share of a host's memory and PCI Express; power supplies, cooling of the room; links that are down
//! by a fault, which count as idle.

mod ledger;
mod network;
mod told;

pub use ledger::{JobEnergy, Ledger, Purpose};
pub use network::{NetworkPower, PartKind, PartPower, State};
