//! The tests of `fabriscope-spark` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

#[path = "../../../rpc/tests/suite/machine.rs"]
mod machine;
mod refused;
mod shuffle;
mod stages;
