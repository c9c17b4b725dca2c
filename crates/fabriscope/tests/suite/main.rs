//! The tests of `fabriscope` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod builders;
mod face;
mod laws;
mod raw;
mod reports;
