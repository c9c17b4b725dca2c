//! The tests of `fabriscope-traces` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod clocks;
mod damaged;
mod formats;
mod golden;
mod loggp;
mod lowering;
mod samples;
