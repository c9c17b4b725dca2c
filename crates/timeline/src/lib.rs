//! Runs over time as files of tools that draw them: Perfetto's protobuf, Kineto's JSON, the records of NCCL Inspector.
//!
//! [`PerfettoWriter`] hears of a run while it goes and writes as it hears; [`KernelLog`] keeps the kernels of NCCL programs, which
//! [`kineto`] and [`inspector`] write when the run is over. Plans that are known as a whole are [`sheet`]s.

pub mod inspector;
mod kernel_log;
pub mod kineto;
mod lanes;
mod perfetto;
mod places;
pub mod proto;
pub mod sheet;

#[cfg(test)]
mod kernels_test;
#[cfg(test)]
mod perfetto_test;

pub use kernel_log::{KernelLog, KernelRun};
pub use perfetto::PerfettoWriter;
pub use places::{Fanout, Places};
