//! The tests of `fabriscope-krylov` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod counts;
mod scaling;
mod solve;
mod table;
