//! The tests of `fabriscope-platform` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod common;
mod targets;
