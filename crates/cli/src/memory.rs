//! `--memory`: how much a run may take.

use std::io::Write;

use fabriscope_lab::memory::Memory;
use fabriscope_units::Bytes;

use crate::arguments::quantity;

/// How much a run may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::Args)]
pub struct MemoryArgs {
    /// Memory that the run may take, such as 8GiB; it is refused where an estimate says more. Default: what the machine has free
    #[arg(long, value_name = "BYTES", value_parser = quantity::<Bytes>)]
    memory: Option<Bytes>,
}

impl MemoryArgs {
    /// What `later` says, else this.
    pub fn or(self, later: MemoryArgs) -> MemoryArgs {
        MemoryArgs { memory: later.memory.or(self.memory) }
    }
    /// The limit; big runs are told of on standard error.
    pub fn limit(self) -> Memory {
        // Nobody to tell is no reason to stop.
        Memory { limit: self.memory, tell: |text| drop(std::io::stderr().lock().write_all(text.as_bytes())) }
    }
}
