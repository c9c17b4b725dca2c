//! The programs people judge a network by, as real programs on simulated NICs.
//!
//! [`perftest`] and [`omb`] parse the tools' own command lines, run the tools' own loops over the verbs of
//! `fabriscope-verbs`, and print the tools' own bytes. [`mpi`] is the library under [`omb`] and [`collective`], [`shmem`] another with benchmarks of its own.
//! [`nccl`] runs collective libraries of GPUs, [`xccl`] measures them. [`gpu`] has tools for the GPUs of a node, [`krylov`] the iteration of a sparse solver. [`multicast`] sends to groups of ranks. [`pattern`] makes schedules of synthetic traffic. [`Tool`] finds a program by its name.

mod arguments;
pub mod collective;
mod error;
pub mod gpu;
pub mod krylov;
pub mod mpi;
pub mod multicast;
pub mod nccl;
pub mod nccl_tests;
pub mod omb;
mod output;
pub mod pattern;
pub mod perftest;
pub mod shmem;
pub mod sockets;
mod target;
mod tool;
pub mod xccl;

pub use error::UsageError;
pub use output::{Point, SideFile, ToolOutput};
pub use target::{DpuTarget, Layout, LinkType, Target};
pub use tool::{Finish, Placing, Prepared, Tool};
