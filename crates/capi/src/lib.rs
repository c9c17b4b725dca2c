//! Fabriscope for other simulators: the time of a message, of a collective operation and of a set of flows, through a C ABI.
//!
//! `include/fabriscope.h` is the documentation for callers: units, ownership, threads, errors. Here are conversion (`boundary`), what
//! a cluster keeps between calls (`cluster`), and which of the simulator's own programs answers each question (`message`,
//! `collective`, `flows`).
//!
//! Modelled: what `fabriscope bench` and patterns of labs have; nothing is computed a second time in another way.
//! Not modelled: messages within a node, jobs that share the fabric with flows, buffers in the memory of GPUs of MPI.

pub mod boundary;
mod cluster;
mod collective;
mod engine;
mod flows;
mod message;
mod status;

pub use cluster::Cluster;
pub use collective::{Collective, CollectiveKind, CollectiveLibrary};
pub use engine::Engine;
pub use flows::{Flow, Order, completions};
pub use message::{Message, Operation};
pub use status::{Failure, Status};
