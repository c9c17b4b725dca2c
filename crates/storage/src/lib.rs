//! Programs by which people judge a parallel file system: ior, mdtest, io500, fio, and Lustre's own lfs and lctl.
//!
//! Source: the command lines and the output of IOR and mdtest 4.0, IO500, fio 3, Lustre 2.15.
//! Modelled: patterns of access as these programs make them, with the engine of RPCs below; their text.
//! Not modelled: caches that keep what the same node wrote; each page says which options change nothing.

mod counters;
mod explain;
mod fio;
mod io500;
mod ior;
mod lctl;
mod lfs;
mod mdtest;
mod mount;
mod tool;
pub mod typed;

pub use explain::explain;
pub use io500::{Phase, PhaseResult, phases, score};
pub use mount::Mount;
pub use tool::StorageTool;
