//! What an answer may take of the machine.
//!
//! Source: setrlimit(2), prctl(2).
//! Modelled: address space, processor time and the end of the server. Not modelled: limits of groups of processes (cgroups), which need rights.

use std::time::Duration;

use fabriscope_units::Bytes;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

/// What a question may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Memory.
    pub memory: Bytes,
    /// Time, until it is ended; processor time as well, should nobody be there to end it.
    pub time: Duration,
}

/// Puts this process under the limits, and under its parent: it ends when that ends.
///
/// # Errors
/// The system refuses, which it does not for limits below those it has.
pub fn confine(limits: Limits) -> std::io::Result<()> {
    let most = |value: u64| Rlimit { current: Some(value), maximum: Some(value) };
    setrlimit(Resource::As, most(limits.memory.0))?;
    // A second more than the clock gives, so that a slow answer is told as such.
    setrlimit(Resource::Cpu, most(limits.time.as_secs() + 1))?;
    // No picture of its memory is left behind.
    setrlimit(Resource::Core, most(0))?;
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

/// The memory that this process may take, where that is limited.
#[must_use]
pub fn memory() -> Option<Bytes> {
    getrlimit(Resource::As).current.map(Bytes)
}
