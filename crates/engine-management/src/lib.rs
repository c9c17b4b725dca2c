//! A sweep of an InfiniBand subnet manager in time: its packets on VL15, one by one.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §14.2 (attributes of the subnet management class), §14.2.2 (directed routes),
//! §7.6.1 (VL15 has no flow control), §14.4 (initialisation); OpenSM's defaults (`osm_base.h`: 4 packets on the wire, 200 ms, 3 retries).
//! Modelled: see [`sweep`]: each packet over each link, agents that answer one after the other and hold few, packets that are dropped and
//! sent again, the manager's window and what it takes for an answer, discovery from what the answers say.
//! Not modelled: several managers, traps, light sweeps, keys, data traffic beside it (VL15 goes before all lanes), answers that differ
//! from one another, routers.

mod mad;
mod plan;
mod report;
mod sweep;

pub use mad::{Attribute, Mad, Method, WIRE_BYTES};
pub use plan::{Costs, Routed, SweepKind};
pub use report::{Stage, StageTime, SweepReport};
pub use sweep::{Subnet, sweep};
