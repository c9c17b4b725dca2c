//! `--trace` and `--inspector`: what to draw over time, and the files.

use std::path::PathBuf;

use fabriscope_lab::timeline::{KernelFile, STEP, TimelineRequest};
use fabriscope_units::Span;

use crate::arguments::quantity;
use crate::error::Failure;
use crate::output::write_with;

/// What to draw, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct TimelineArgs {
    /// Write what happens over time to this file, while the run goes: .pftrace, for Perfetto; or .json, the kernels of NCCL programs as
    /// the PyTorch profiler writes them ({rank} in the name gives a file for each rank)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// The time from one sample of links and adapters to the next in a .pftrace [default: 1us]
    #[arg(long, value_name = "TIME", requires = "trace", value_parser = quantity::<Span>)]
    pub trace_step: Option<Span>,
    /// Write the operations of NCCL programs as NVIDIA's NCCL Inspector does: .jsonl, or .prom for Prometheus
    #[arg(long, value_name = "FILE")]
    pub inspector: Option<PathBuf>,
}

impl TimelineArgs {
    /// What was asked for.
    pub fn request(&self) -> TimelineRequest {
        TimelineRequest { trace: self.trace.clone(), inspector: self.inspector.clone(), step: self.trace_step.unwrap_or(STEP) }
    }
}

/// Writes what is known at the end of a run.
pub fn write(files: &[KernelFile]) -> Result<(), Failure> {
    files.iter().try_for_each(|file| write_with(&file.path, |writer| file.write(writer)))
}
