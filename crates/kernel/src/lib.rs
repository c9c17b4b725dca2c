//! Discrete events: the queue with its clock, and streams of random numbers.
//!
//! This crate knows nothing of networks. [`EventQueue`] hands out small copyable events in the order
//! (time, insertion); [`Streams`] gives every consumer of randomness a stream of its own.

mod bitmap;
pub mod memory;
mod overflow;
mod queue;
mod rng;

pub use queue::EventQueue;
pub use rng::{Stream, Streams};
