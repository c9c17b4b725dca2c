//! The tests of `fabriscope-node` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod bus;
mod datagrams;
