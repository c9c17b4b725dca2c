//! Unmodified programs on the virtual fabric: binaries that use RDMA verbs, in virtual time.
//!
//! Each process loads a stand-in for libibverbs and for the calls of libc that tell the time or wait (`shim/`, in C, carried by this crate). What it
//! is asked becomes a question in shared memory (`arena`); each thread is a rank of the packet engine that answers the questions of one thread
//! on its core (`thread`): verbs on the adapter of its host (`verbs`), sockets on a management network (`sockets`, `stream`). Memory stays
//! where it is (`memory`). `launch` starts the processes and ends them; `folder` holds what they load and read. In real time (`real`) there is no
//! engine: each process answers its questions itself (`shim/real.h`).
//!
//! Modelled: everything that `fabriscope_node::Process` models, for every thread. CPU time between calls is zero, but for what a program spends
//! on each message, as the catalogue says it of perftest.
//! Not modelled: preemption, more threads than cores, the time that system calls take beyond those of sockets.

mod address;
mod arena;
mod cm;
mod datagrams;
mod device;
mod elf;
mod error;
mod folder;
mod gpu;
mod launch;
mod management;
mod memory;
mod ports;
mod process;
mod question;
mod real;
mod sockets;
mod stream;
mod task;
mod thread;
mod verbs;
mod world;
mod xrc;

pub use error::LiveError;
pub use folder::abandon;
pub use launch::{Ended, run, seats};
pub use sockets::Management;

/// The stand-in, for this machine; empty where there is none.
static STAND_IN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stand_in.so"));

/// A program of the command line.
#[derive(Debug, Clone)]
pub struct HostCommand {
    /// The host's name.
    pub host: String,
    /// The program and its arguments.
    pub words: Vec<std::ffi::OsString>,
}

/// Which time programs see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clock {
    /// That of the simulated fabric.
    #[default]
    Virtual,
    /// The machine's, with adapters in software.
    Real,
}

/// How programs are run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// The time that they see.
    pub clock: Clock,
    /// The network of their sockets.
    pub management: Management,
    /// Ranks of an MPI job on each host, by the number that their launcher gives them; without it all stay where the launcher is.
    pub ranks_per_node: Option<u32>,
    /// Every message is followed.
    pub traced: bool,
    /// Of everything random in the run.
    pub seed: u64,
}
