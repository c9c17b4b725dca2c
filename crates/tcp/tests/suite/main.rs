//! The tests of `fabriscope-tcp` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod ends;
mod interface;
mod selective;
mod states;
mod timeouts;
mod windows;
