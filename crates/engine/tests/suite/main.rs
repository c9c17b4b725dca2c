//! The tests of `fabriscope-engine` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod bus;
mod cluster;
mod interfaces;
mod order;
mod part_files;
mod reach;
