//! The tests of `fabriscope-capture` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod dissector;
mod reassembly;
mod transports;

#[path = "../../../verbs/tests/suite/offload/mod.rs"]
mod offload;
#[path = "../../../verbs/tests/suite/pair/mod.rs"]
#[allow(dead_code, reason = "the tests of `verbs` use all of it")]
mod pair;
#[path = "../../../verbs/tests/suite/ram/mod.rs"]
mod ram;
