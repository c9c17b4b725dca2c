//! Programs by which people judge a parallel file system: ior, mdtest, io500, fio, gdsio, and Lustre's own lfs
//! and lctl.
//!
//! Source: the command lines and the output of IOR and mdtest 4.0, IO500, fio 3, Lustre 2.15.
//! Modelled: patterns of access as these programs make them, with the engine of RPCs below; their text.
//! Not modelled: caches that keep what the same node wrote; each page says which options change nothing.

mod agenda;
pub mod beside;
mod checkpoint;
mod counters;
mod directories;
mod explain;
mod fio;
mod gdsio;
mod io500;
mod ior;
mod lctl;
mod lfs;
mod mdtest;
mod mount;
mod tool;
pub mod typed;

pub use checkpoint::{Written, checkpoint};
pub use explain::explain;
pub use gdsio::{StorageNode, run as gdsio};
pub use io500::{Phase, PhaseResult, Striping, phases, score};
pub use mount::{Mount, MountError};
pub use tool::StorageTool;
