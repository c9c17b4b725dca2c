//! Programs of an MPI library without packets: ranks carry out rounds, and every message costs what a measurement of the library says.
//!
//! A message goes through servers one after the other, each of which takes one at a time in the order in which they leave:
//!
//! ```text
//!  core of the sender ─ adapters out ─ links of the fabric ─ adapters in ─ core of the receiver
//!  core of the sender ─────────── memory of the node ─────────────────── core of the receiver
//! ```
//!
//! What it takes where nobody waits for anybody, and what the ranks of a node share, comes from [`fabriscope_mpi::probe`]; links carry bytes
//! at their rate. Copies, reductions and slots of shared memory cost what they cost in programs.
//!
//! Source: T. Hoefler, T. Schneider, A. Lumsdaine, "LogGOPSim", HPDC 2010 (the rounds of all ranks by LogGP costs); the measurement has its
//! own sources.
//! Modelled: eager messages and rendezvous with their waits, cores that post and take one message at a time, adapters and memories that the
//! ranks of a node share, links that several messages want, copies, reductions, slots.
//! Not modelled: packets, buffers and credits, retransmission, connections that an adapter has no room for, sharing of a link by turns
//! within a message.

mod carry;
mod fabric;
mod memory;
mod run;
mod sample;
mod table;

pub use carry::{Step, Steps};
pub use fabric::Queues;
pub use run::{Causes, LibraryWork, Outcome, run, supports};
pub use sample::{Excerpt, excerpt};
