//! The tests of `fabriscope-machine` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod drawn;
mod files_and_back;
mod node_files;
mod ways;
