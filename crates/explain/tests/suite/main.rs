//! The tests of `fabriscope-explain` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod applications;
mod ask;
mod chains;
mod changes;
mod laws;
mod operations;
mod stages_of_parts;
mod whole_exchanges;
