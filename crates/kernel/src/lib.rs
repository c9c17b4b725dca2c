//! Discrete events: the queue with its clock.
//!
//! This crate knows nothing of networks. [`EventQueue`] hands out small copyable events in the order (time, insertion).
//! Only engines depend on it: what they drive takes the time as an argument.

mod bitmap;
mod overflow;
mod queue;

pub use queue::EventQueue;
