//! What happens at an event, mechanism by mechanism: the operations of the world on what its owners hold.

mod aggregation;
mod arbitrated;
mod boundary;
mod control;
mod enforcement;
pub(crate) mod faults;
mod host;
mod link_level;
mod multicast;
pub(crate) mod observe;
