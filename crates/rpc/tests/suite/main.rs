//! The tests of `fabriscope-rpc` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod calls;
mod load;
mod machine;
mod refused;
mod table;
