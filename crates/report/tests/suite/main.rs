//! The tests of `fabriscope-report` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod counters;
mod figures;
mod formats;
mod measured_files;
mod properties;
mod raw_outputs;
mod validation;
