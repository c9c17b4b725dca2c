//! The tests of `fabriscope-nccl` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod built;
mod by_hand;
mod catalogued;
mod channels;
mod nodes;
mod refused;
mod traffic;
mod tuner_file;
mod tuning;
mod variables;
