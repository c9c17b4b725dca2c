//! RPCs of a parallel file system over time: clients, a network, servers and drives as stations that serve in the order of arrival.
//!
//! Source: Lustre Operations Manual for what an operation consists of; closed networks of queues for the form.
//! Modelled: every RPC with its messages, bulk transfer, cores, drives; limits of RPCs and pages in flight; extent locks.
//! What a benchmark takes minutes for is run until rates are steady, and told as such.
//! Not modelled: contention inside the fabric between switches (uplinks and routers are stations), failures, other jobs; those run in the
//! packet and flow engines, with the data of this crate as messages.

mod counts;
pub mod data;
pub mod metadata;
mod network;
mod pages;
mod station;
pub mod strided;
mod usage;

pub use counts::{DataCounts, MdsRequests, RpcStats, Sizes};
pub use data::{DataOutcome, DataRun, Direction, Sharing};
pub use metadata::{MetadataOutcome, MetadataRun, Operation};
pub use pages::{pages_time, read_window};
pub use station::{Cores, Line};
pub use strided::{StridedOutcome, StridedRun};
pub use usage::{Resource, Usage};

/// Basis: standard (pages of x86-64).
pub const PAGE: u64 = 4096;
/// Threads of ptlrpcd that send and complete RPCs, and of callbacks. Basis: assumed (two for each of a few partitions of cores).
pub const THREADS: u32 = 16;

/// Whose process that is: processes of a client follow each other.
const fn client_of(process: u32, per_node: u32) -> u32 {
    process / if per_node == 0 { 1 } else { per_node }
}

/// When a process begins: not all in the same picosecond.
const fn begins(process: u32) -> fabriscope_units::Time {
    fabriscope_units::Time::from_ps((process % 997) as u64 * 1_000_000)
}
