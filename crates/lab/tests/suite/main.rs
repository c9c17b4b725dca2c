//! The tests of `fabriscope-lab` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod beside_storage;
mod breakages;
mod collective_costs;
mod conservation;
mod energy;
mod faults;
mod files;
mod flows;
mod incasts;
mod labs;
mod pattern_laws;
mod patterns;
mod reading;
mod refusals;
mod sanity;
mod sweeps;
mod two_libraries;
mod unlike_nodes;
