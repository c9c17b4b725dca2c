//! Parts of a switch port as state machines without I/O.
//!
//! [`channel`] is one virtual lane of one directed link: the wire, the credits or the pause state of the buffer
//! behind it. [`ecn`] marks packets by queue length, [`arbiter`] picks the lane that may send next, [`headroom`] is the room
//! that pause frames need, [`snooping`] learns behind which ports the members of a multicast
//! group are, [`aggregation`] reduces. The engine wires them; none of them knows the event queue.

pub mod aggregation;
pub mod arbiter;
pub mod channel;
pub mod ecn;
pub mod headroom;
pub mod shared_buffer;
pub mod snooping;

pub use arbiter::{Arbiter, Policy};
pub use channel::{Channel, FlowControl, PauseChange, PauseLimits, PauseThresholds};
pub use ecn::{Ecn, EcnLimits};
pub use shared_buffer::SharedBuffer;
pub use snooping::{Report, Snooper, Timing};
