//! A step of training as a schedule: what the GPUs of a job send over the network, step by step of NCCL, and what each message waits for.
//!
//! ```text
//!  operations of each stage ─▶ begin and end of each at every GPU ─┐
//!                                                                  ├─▶ Schedule: ranks are adapters ─▶ any engine
//!  NCCL's plan of each group ─▶ rings, trees, pairs of its messages ┘
//! ```
//!
//! Source: [`fabriscope_training::operations`] for what happens; NCCL's channels, chunks, slices and choice as `fabriscope_nccl` has them.
//! Modelled: every slice of a ring or tree that leaves a node is a message, which waits for what it is made of; blocks copy slices one after the
//! other at their pace; proxies take their time; a connection has as many slices in flight as it has slots.
//! Not modelled: links within nodes, whose hops take the time of a copy; memory of GPUs as a limit of adapters; NVLS and CollNet between nodes.

mod choice;
mod collective;
mod error;
mod job;
mod pairs;
mod ring;
mod seats;
mod spent;
mod trace;
mod tree;

pub use choice::collective_of;
pub use error::PlanError;
pub use job::{Placed, PlannedTask, Planner};
pub use seats::Seats;
pub use spent::Spent;
pub use trace::trace;
