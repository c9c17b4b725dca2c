//! The programs people judge a network by, as real programs on simulated NICs.
//!
//! Each family parses the tools' own command lines, runs the tools' own loops, and prints the tools' own bytes: [`perftest`] on verbs,
//! [`omb`], [`collective`] and [`scattered`] on the MPI library of `fabriscope-mpi`, [`shmem`] on its OpenSHMEM, [`nccl_tests`] and [`xccl`] on the
//! collective library of `fabriscope-nccl-runtime`, [`hccl`] on HCL, [`sockets`] on the kernel's TCP, [`gpu`] on the GPUs of a node, [`wafer`] on the
//! cores of a wafer, [`memory`] on those of a node, [`compress`] on the engine of a DPU. [`Tool`] finds a
//! program by its name.

pub mod collective;
pub mod compress;
pub mod experts;
pub mod gpu;
pub mod hccl;
pub mod memory;
pub mod nccl_tests;
pub mod omb;
mod osu;
pub mod perftest;
mod repeats;
pub mod scattered;
pub mod shmem;
pub mod sockets;
mod tool;
pub mod wafer;
pub mod xccl;

pub use fabriscope_apps as apps;
pub use fabriscope_tool::{
    Data, DataTable, Datum, Direction, Exchange, Finish, Listener, Measures, Operation, PerNode, Placing, Point, Prepared, Ranks, Rows,
    Said, SideFile, SizeOption, Suite, ToolOutput, Traits, UsageError, arguments::amount,
};
pub use tool::Tool;
