//! What the library asks of the core it runs on.

use fabriscope_units::{Bytes, Span, Time};

/// A core with its clock. Everything the library does moves the clock on.
pub trait Cpu {
    /// The core's clock.
    fn now(&self) -> Time;
    /// The core is busy for `span`.
    fn spend(&mut self, span: Span);
    /// Copies `amount` bytes when the copies in progress touch `working_set` bytes.
    fn copy(&mut self, amount: Bytes, working_set: Bytes);
    /// Stores `blocks` of 64 bytes into the adapter, each further one `block` after the one before; returns when the last left
    /// the core, and when it is at the adapter if nobody else uses the bus.
    fn store(&mut self, blocks: u32, block: Span) -> (Time, Time);
    /// Whether packets are to be followed through the machine.
    fn traces(&self) -> bool;
}
