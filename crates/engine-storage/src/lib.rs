//! RPCs of a parallel file system over time: clients, a network, servers and drives as stations that serve in the order of arrival.
//!
//! Source: Lustre Operations Manual for what an operation consists of; closed networks of queues for the form.
//! Modelled: every RPC with its messages, bulk transfer, cores, drives; limits of RPCs and pages in flight; extent locks.
//! What a benchmark takes minutes for is run until rates are steady, and told as such.
//! Not modelled: contention inside the fabric between switches (uplinks and routers are stations), failures, other jobs; those run in the
//! packet and flow engines, with the data of this crate as messages.

pub mod data;
pub mod metadata;
mod network;
mod station;
pub mod strided;
mod usage;

pub use data::{DataOutcome, DataRun, Direction, Sharing};
pub use metadata::{MetadataOutcome, MetadataRun, Operation};
pub use strided::{StridedOutcome, StridedRun};
pub use usage::{Resource, Usage};
