//! Operations that the cores of an adapter carry out for the ranks of their node.
//!
//! ```text
//!  rank ── descriptor, an RDMA write ─▶ ring in the worker's memory            (within the adapter)
//!  worker of a receiver ── ready ─▶ worker of the sender
//!  worker of the sender ── RDMA write with immediate, host's memory to host's memory ─▶ worker of the receiver is told
//!  worker ── a word, an RDMA write ─▶ counter in the rank's memory, which MPI_Test and MPI_Wait read
//! ```
//!
//! Source: M. Bayatpour et al., "BluesMPI: Efficient MPI Non-blocking Alltoall Offloading Designs on Modern BlueField Smart NICs", ISC 2021
//! (workers, staging); K. K. Suresh et al., "A Novel Framework for Efficient Offloading of Communication Operations to Bluefield
//! SmartNICs", IPDPS 2023 (keys of the host's memory registered across, GVMI; basic and group primitives).
//! Modelled: workers as programs on the cores of the adapter, with their own costs and memory, that share its engines, bus and wire with
//! the ranks; rounds of any algorithm, reductions by the worker's core in its own memory; messages, puts and gets; payload straight from host to host by keys
//! registered across, or through the memories of both adapters; descriptors, notices and words of completion as RDMA on the adapters;
//! products that a worker computes of what it fetches.
//! Not modelled: operands of later rounds that stay in the worker's memory, registration that takes time (its cache always hits), wildcards of receives, a window of the
//! staging memory (it never runs full), chunks of a staged message that overlap.

mod client;
mod links;
mod state;
mod task;
mod worker;

pub(super) use client::OffloadClient;
pub use state::{OffloadState, Product, Settings};
