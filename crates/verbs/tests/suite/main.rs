//! The tests of `fabriscope-verbs` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod algorithms;
mod behaves;
mod fleet;
mod hostile;
mod iwarp;
mod lossy;
mod mcast;
mod memory_windows;
mod migration;
mod objects;
mod offload;
mod on_demand;
mod pair;
mod places;
mod promises;
mod ram;
mod reliable;
mod shared_contexts;
mod shortening;
mod unreliable;
mod words;
