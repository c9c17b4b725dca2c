//! A switch that reduces: what one group has in flight at one switch, and the unit that does it.
//!
//! ```text
//!  children ─ packets ─▶ Session ─ all have come ─▶ Unit ─ one packet ─▶ parent, or at the root back to the children
//! ```
//! Every child sends the messages of the group's operations in the same order. Packets of a message are joined one by one as soon
//! as all children brought theirs, so that long messages flow. An operation holds its slot until its result has gone by.
//!
//! Source: R. L. Graham et al., COMHPC 2016 §III (SHArP: aggregation nodes wait for all children, join, send one to the parent; the root's
//! result goes down; requests are reliable connections of neighbours); R. L. Graham et al., "SHARP streaming-aggregation hardware design and
//! evaluation", ISC 2020 (packets of long messages joined as they come); NVIDIA SHARP manual (operations and payload of a job).
//! Modelled: order, repeats and gaps of a child's packets, refusal of contributions that do not fit together, slots, operands joined in the
//! order of the children (the same bits every time), one unit that takes its time for each operation, or for the bytes of long ones.
//! Not modelled: locks of streaming trees, packets sent again between switches.

mod reduce;
mod session;
mod unit;

pub use reduce::join;
pub use session::{Arrival, Joined, Session, Verdict};
pub use unit::{Pace, Unit};
